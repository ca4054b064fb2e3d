//! The layer that applies the limits of its client to each call.

use std::sync::Arc;

use http::{Request, Response};
use tonic::body::Body;

use crate::access::access_of;
use crate::call_cost::{CallCost, CallWork, ChargedBody, ChargedCall};
use crate::client_limiter::{ClientUsage, ConnectionInfo, LimitExceeded};
use crate::message_bounds::{has_request_stream, is_unary};
use crate::middleware::{InnerService, Middleware};
use crate::request_bytes::RequestBytes;

/// Text that tells the clients of a server apart, as the limits do; empty for all calls outside of
/// a server.
#[must_use]
pub fn client_key(extensions: &http::Extensions) -> String {
    extensions.get::<ClientKey>().map_or_else(String::new, |key| key.0.clone())
}

/// The client of a call, in the extensions of its request.
#[derive(Clone, Debug)]
struct ClientKey(String);

/// Refuses calls over the limits, and puts the [`Caller`](crate::Caller), and at a socket the
/// [`LocalProcess`](crate::LocalProcess), into the extensions of all others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LimitClients;

impl Middleware for LimitClients {
    async fn handle<S: InnerService>(
        self,
        mut request: Request<Body>,
        mut inner: S,
    ) -> Result<Response<Body>, S::Error> {
        let Some(ConnectionInfo { caller, process, usage, connection }) =
            request.extensions_mut().remove()
        else {
            return inner.call(request).await;
        };
        let on_connection = connection.begin();
        request.extensions_mut().insert(caller);
        if let Some(process) = process {
            request.extensions_mut().insert(process);
        }
        request.extensions_mut().insert(ClientKey(usage.client().to_string()));
        let service = access_of(request.uri().path()).map_or("-", |access| access.service);
        match usage.begin() {
            Ok(open) => {
                let cost = CallCost::of(Arc::clone(&usage));
                cost.charge_call();
                usage.pace().await;
                let is_unary = is_unary(request.uri().path());
                // The end of the request waits for room, too, but its call is in progress then.
                if is_unary && let Err(refused) = usage.room_for_answer().await {
                    return Ok(refused.into_http());
                }
                let in_progress = match usage.admit() {
                    Ok(in_progress) => in_progress,
                    Err(exceeded) => return Ok(refused(&usage, service, exceeded)),
                };
                let bytes = Arc::new(RequestBytes::new(usage, service));
                let work = CallWork::new(cost, service);
                request.extensions_mut().insert(Arc::clone(&bytes));
                request.extensions_mut().insert(work.clone());
                let is_lasting = has_request_stream(request.uri().path());
                let response = ChargedCall::new(inner.call(request), work.clone()).await?;
                drop(in_progress);
                let (head, body) = response.into_parts();
                // The call is open until its response has been sent or given up.
                let kept = (open, bytes, on_connection);
                let mut body = ChargedBody::new(body, work, is_lasting, kept);
                if is_unary {
                    body.hold_answer().await;
                }
                Ok(Response::from_parts(head, Body::new(body)))
            }
            Err(exceeded) => Ok(refused(&usage, service, exceeded)),
        }
    }
}

/// Answers a call that is over a limit.
fn refused(usage: &ClientUsage, service: &'static str, exceeded: LimitExceeded) -> Response<Body> {
    usage.record_refusal(service, exceeded.limit);
    exceeded.status.into_http()
}
