//! The channel of generated clients, which sends the trace of the current work with each call.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use fabricast_telemetry::traces::{Origin, Side, Span};
use http::{Request, Response};
use tonic::Code;
use tonic::body::Body;
use tonic::transport::Error;
use tower::Service;

use crate::call_spans::{describe, ended, name_of};

/// A channel to another part; cloning it is cheap, and it connects when used.
#[derive(Clone, Debug)]
pub struct Channel {
    inner: tonic::transport::Channel,
    address: Arc<str>,
}

impl Channel {
    /// Wraps a channel.
    ///
    /// - `address`: `host:port` for spans.
    #[must_use]
    pub fn new(inner: tonic::transport::Channel, address: Arc<str>) -> Self {
        Self { inner, address }
    }
}

type Answer = Result<Response<Body>, Error>;

impl Service<Request<Body>> for Channel {
    type Response = Response<Body>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Answer> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let origin = Origin::current();
        if origin.is_none() {
            return Box::pin(self.inner.call(request));
        }
        let path = request.uri().path();
        let span = Span::begin(name_of(path), Side::Client, &origin);
        describe(&span, path);
        if let Some((host, port)) = self.address.rsplit_once(':') {
            span.set("server.address", host.to_owned());
            span.set("server.port", port.parse::<i64>().unwrap_or(0));
        }
        span.origin().write(request.headers_mut());
        let answering = self.inner.call(request);
        Box::pin(async move {
            let answer = answering.await;
            let code = match &answer {
                Ok(answer) => ended(&span, answer),
                Err(error) => {
                    span.fail(error.to_string());
                    return answer;
                }
            };
            if code != Code::Ok {
                span.fail(code.description());
            }
            answer
        })
    }
}
