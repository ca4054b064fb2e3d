//! The channel of generated clients, which sends the trace of the current work with each call, and
//! each call only to a server whose certificate has the role that it calls.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use fabricast_telemetry::traces::{Origin, Side, Span};
use http::{Request, Response};
use parking_lot::Mutex;
use tonic::Code;
use tonic::body::Body;
use tonic::transport::Error;
use tower::{Service, ServiceExt};

use crate::access::server_role;
use crate::call_spans::{describe, ended, name_of};
use crate::identity::Role;

/// A channel to another part; cloning it is cheap, and it connects when used.
#[derive(Clone, Debug)]
pub struct Channel {
    inner: Inner,
    address: Arc<str>,
}

#[derive(Clone)]
enum Inner {
    One(tonic::transport::Channel),
    ByRole(Arc<RoleChannels>),
}

/// Makes the channel on which only servers of a role are accepted; `None` accepts any server. The
/// flag tells later if the last attempt to connect succeeded.
pub(crate) type MakeChannel =
    Box<dyn Fn(Option<Role>, Arc<AtomicBool>) -> tonic::transport::Channel + Send + Sync>;

/// A channel for each role that is called at one address. Each accepts a connection only if the
/// server's certificate has the role, so that no call reaches a server of another.
struct RoleChannels {
    make: MakeChannel,
    made: Mutex<Vec<RoleChannel>>,
}

struct RoleChannel {
    role: Option<Role>,
    channel: tonic::transport::Channel,
    is_connected: Arc<AtomicBool>,
}

impl RoleChannels {
    /// The channel for calls to a role. Calls that every server answers take any that works.
    fn channel(&self, role: Option<Role>) -> tonic::transport::Channel {
        let mut made = self.made.lock();
        let works = |one: &&RoleChannel| role.is_none() && one.is_connected.load(Ordering::Relaxed);
        let found = made.iter().find(works).or_else(|| made.iter().find(|one| one.role == role));
        if let Some(found) = found {
            return found.channel.clone();
        }
        let is_connected = Arc::<AtomicBool>::default();
        let channel = (self.make)(role, Arc::clone(&is_connected));
        made.push(RoleChannel { role, channel: channel.clone(), is_connected });
        channel
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::One(_) => "One",
            Self::ByRole(_) => "ByRole",
        })
    }
}

impl Inner {
    fn call(&mut self, request: Request<Body>) -> Answering {
        match self {
            Self::One(channel) => Box::pin(channel.call(request)),
            Self::ByRole(channels) => {
                let channel = channels.channel(server_role(request.uri().path()));
                Box::pin(channel.oneshot(request))
            }
        }
    }
}

impl Channel {
    /// Wraps a channel.
    ///
    /// - `address`: `host:port` for spans.
    #[must_use]
    pub fn new(inner: tonic::transport::Channel, address: Arc<str>) -> Self {
        Self { inner: Inner::One(inner), address }
    }

    /// A channel whose calls reach servers of their role only.
    pub(crate) fn by_role(make: MakeChannel, address: Arc<str>) -> Self {
        let channels = RoleChannels { make, made: Mutex::default() };
        Self { inner: Inner::ByRole(Arc::new(channels)), address }
    }
}

type Answer = Result<Response<Body>, Error>;
type Answering = Pin<Box<dyn Future<Output = Answer> + Send>>;

impl Service<Request<Body>> for Channel {
    type Response = Response<Body>;
    type Error = Error;
    type Future = Answering;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        match &mut self.inner {
            Inner::One(channel) => channel.poll_ready(context),
            Inner::ByRole(_) => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let origin = Origin::current();
        if origin.is_none() {
            return self.inner.call(request);
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
