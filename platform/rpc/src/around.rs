//! What every server does around each call: one piece of machinery for all of it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use tonic::body::Body;
use tower::{Layer, Service};

/// Something that is done around every call.
pub(crate) trait Around: Clone + Send + Sync + 'static {
    /// Answers a call, with or without the server behind.
    fn answer<S>(
        self,
        request: Request<Body>,
        server: S,
    ) -> impl Future<Output = Result<Response<Body>, S::Error>> + Send
    where
        S: Server;
}

/// What takes a call further in: the next layer, and in the end the services.
pub(crate) trait Server:
    Service<Request<Body>, Response = Response<Body>, Future: Send + 'static, Error: Send + 'static>
    + Clone
    + Send
    + 'static
{
}

impl<S> Server for S where
    S: Service<
            Request<Body>,
            Response = Response<Body>,
            Future: Send + 'static,
            Error: Send + 'static,
        > + Clone
        + Send
        + 'static
{
}

/// Puts something around a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AroundLayer<A>(pub(crate) A);

impl<A: Around, S> Layer<S> for AroundLayer<A> {
    type Service = Surrounded<A, S>;

    fn layer(&self, server: S) -> Surrounded<A, S> {
        Surrounded { around: self.0.clone(), server }
    }
}

/// A server with something around it.
#[derive(Clone, Debug)]
pub(crate) struct Surrounded<A, S> {
    around: A,
    server: S,
}

impl<A: Around, S: Server> Service<Request<Body>> for Surrounded<A, S> {
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.server.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // The one that was asked whether it is ready must be the one that is called.
        let fresh = self.server.clone();
        let server = std::mem::replace(&mut self.server, fresh);
        Box::pin(self.around.clone().answer(request, server))
    }
}
