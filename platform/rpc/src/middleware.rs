//! The `tower` layer of everything that a server does around each call.
//!
//! A [`Middleware`] is one async function, which `tower` itself does not offer as a layer.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use tonic::body::Body;
use tower::{Layer, Service};

/// Work around every call of a server.
pub(crate) trait Middleware: Clone + Send + Sync + 'static {
    /// Answers a call, by calling `inner` or without it.
    fn handle<S: InnerService>(
        self,
        request: Request<Body>,
        inner: S,
    ) -> impl Future<Output = Result<Response<Body>, S::Error>> + Send;
}

/// The next layer, and in the end the services.
pub(crate) trait InnerService:
    Service<Request<Body>, Response = Response<Body>, Future: Send + 'static, Error: Send + 'static>
    + Clone
    + Send
    + 'static
{
}

impl<S> InnerService for S where
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

/// The layer that applies a middleware.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MiddlewareLayer<M>(pub(crate) M);

impl<M: Middleware, S> Layer<S> for MiddlewareLayer<M> {
    type Service = MiddlewareService<M, S>;

    fn layer(&self, inner: S) -> MiddlewareService<M, S> {
        MiddlewareService { middleware: self.0.clone(), inner }
    }
}

/// A service with a middleware around it.
#[derive(Clone, Debug)]
pub(crate) struct MiddlewareService<M, S> {
    middleware: M,
    inner: S,
}

impl<M: Middleware, S: InnerService> Service<Request<Body>> for MiddlewareService<M, S> {
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // Only the service that was polled may be called; the clone is polled before its own call.
        let clone = self.inner.clone();
        let ready = std::mem::replace(&mut self.inner, clone);
        Box::pin(self.middleware.clone().handle(request, ready))
    }
}
