//! Spans of calls on the server side, named by the conventions of OpenTelemetry.
//!
//! A call with a trace in its headers continues that trace. Of the others, calls by which people,
//! schedulers and processes change something begin a trace; periodic calls of parts and calls that
//! carry data do not. Calls and log lines made while a call is answered belong to its span.

use fabricast_telemetry::traces::{self, Origin, Side, Span};
use http::{Request, Response};
use tonic::Code;
use tonic::body::Body;

use crate::access::access_of;
use crate::call_log::changes;
use crate::identity::{Caller, Role};
use crate::middleware::{InnerService, Middleware};

/// Calls that carry data, or last as long as their client.
const NO_BEGINNING: [&str; 6] =
    ["AttachProcess", "InjectPacket", "RunOperation", "SendMessage", "SendPacket", "TakePart"];

/// Creates a span for each traced call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TraceCalls;

impl Middleware for TraceCalls {
    async fn handle<S: InnerService>(
        self,
        request: Request<Body>,
        mut inner: S,
    ) -> Result<Response<Body>, S::Error> {
        if !traces::is_on() {
            return inner.call(request).await;
        }
        let path = request.uri().path();
        let origin = Origin::read(request.headers());
        let span = match origin.is_none() {
            false => Span::begin(name_of(path), Side::Server, &origin),
            true if begins(path) => Span::root(name_of(path), Side::Server),
            true => return inner.call(request).await,
        };
        describe(&span, path);
        if let Some(caller) = request.extensions().get::<Caller>() {
            span.set("fabricast.caller", caller.to_string());
        }
        let origin = span.origin();
        let answering = {
            let _entered = origin.enter();
            inner.call(request)
        };
        let answer = origin.cover(answering).await;
        match answer.as_ref().map(|answer| ended(&span, answer)) {
            Ok(code) if is_ours(code) => span.fail(code.description()),
            Ok(_) => {}
            Err(_) => span.fail("no answer"),
        }
        answer
    }
}

/// True if a call without a trace begins one.
fn begins(path: &str) -> bool {
    access_of(path).is_some_and(|access| {
        let is_theirs =
            access.roles.is_empty() || access.roles.iter().any(|role| Role::PEOPLE.contains(role));
        is_theirs && changes(access.call) && !NO_BEGINNING.contains(&access.call)
    })
}

/// True if an error is the fault of the server.
fn is_ours(code: Code) -> bool {
    use Code::{DataLoss, DeadlineExceeded, Internal, Unavailable, Unimplemented, Unknown};
    [DataLoss, DeadlineExceeded, Internal, Unavailable, Unimplemented, Unknown].contains(&code)
}

/// The name of a call's span.
pub(crate) fn name_of(path: &str) -> String {
    path.trim_start_matches('/').to_owned()
}

/// Sets the attributes that name the call.
pub(crate) fn describe(span: &Span, path: &str) {
    span.set("rpc.system", "grpc");
    if let Some((service, method)) = path.trim_start_matches('/').split_once('/') {
        span.set("rpc.service", service.to_owned());
        span.set("rpc.method", method.to_owned());
    }
}

/// Sets the gRPC code of the result, as far as it is known when the response begins.
pub(crate) fn ended(span: &Span, answer: &Response<Body>) -> Code {
    let status = answer.headers().get("grpc-status");
    let code = status.map_or(Code::Ok, |status| Code::from_bytes(status.as_bytes()));
    span.set("rpc.grpc.status_code", i64::from(i32::from(code)));
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_and_processes_change_begins_a_trace_and_nothing_else_does() {
        for call in [
            "OperatingAgentService/JoinGroup",
            "OperatingAgentService/LeaveMany",
            "ProcessService/JoinGroup",
            "ProcessService/ReserveMembers",
            "ProcessService/RequestSwitchTree",
            "GroupBatchService/FormGroups",
            "TicService/DeleteGroup",
            "JobService/CreateJob",
            "CollectiveService/ReserveEntries",
            "FabricService/FailElement",
        ] {
            assert!(begins(&format!("/fabricast.v1.{call}")), "{call}");
        }
        for call in [
            "TicService/JoinGroup",
            "TicService/GetGroup",
            "TicService/RenewRouteTerm",
            "TicService/ReportGroupAgents",
            "TicService/WatchDirectory",
            "CollectiveService/RequestSwitchTree",
            "GroupAgentService/ReportOperatingAgents",
            "OperatingAgentService/ProbeNode",
            "OperatingAgentService/SendPacket",
            "ProcessService/SendMessage",
            "ProcessService/TakePart",
            "SwitchAgentService/WriteTables",
            "SwitchAgentService/ReadTables",
            "None/None",
        ] {
            assert!(!begins(&format!("/fabricast.v1.{call}")), "{call}");
        }
        assert!(!begins("/grpc.health.v1.Health/Check"));
    }

    #[test]
    fn a_refusal_is_no_fault_of_who_refuses() {
        assert!(is_ours(Code::Internal) && is_ours(Code::Unavailable));
        assert!(!is_ours(Code::NotFound) && !is_ours(Code::PermissionDenied) && !is_ours(Code::Ok));
    }
}
