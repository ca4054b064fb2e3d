//! Spans of calls, as the conventions of OpenTelemetry name them, on the side that answers.
//!
//! A call that comes of something traced goes on with that. Of the others those begin a trace that people, schedulers and
//! processes make to change something; what parts do by themselves, again and again, begins none, nor does what carries
//! data. What is called in the course of a call, and what is logged, belongs to it.

use fabricast_telemetry::traces::{self, Origin, Side, Span};
use http::{Request, Response};
use tonic::Code;
use tonic::body::Body;

use crate::access::access_of;
use crate::around::{Around, Server};
use crate::identity::{Caller, Role};
use crate::observe::changes;

/// Calls that carry data, or last as long as whoever makes them.
const NO_BEGINNING: [&str; 6] =
    ["AttachProcess", "InjectPacket", "RunOperation", "SendMessage", "SendPacket", "TakePart"];

/// Has a span for each call that is traced; the others pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tracing;

impl Around for Tracing {
    async fn answer<S: Server>(
        self,
        request: Request<Body>,
        mut server: S,
    ) -> Result<Response<Body>, S::Error> {
        if !traces::is_on() {
            return server.call(request).await;
        }
        let path = request.uri().path();
        let origin = Origin::read(request.headers());
        let span = match origin.is_none() {
            false => Span::begin(name_of(path), Side::Server, &origin),
            true if begins(path) => Span::root(name_of(path), Side::Server),
            true => return server.call(request).await,
        };
        describe(&span, path);
        if let Some(caller) = request.extensions().get::<Caller>() {
            span.set("fabricast.caller", caller.to_string());
        }
        let origin = span.origin();
        let answering = {
            let _entered = origin.enter();
            server.call(request)
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

/// Whether a call that comes of nothing begins a trace.
fn begins(path: &str) -> bool {
    access_of(path).is_some_and(|access| {
        let people = [Role::Administrator, Role::Tenant];
        let is_theirs =
            access.roles.is_empty() || access.roles.iter().any(|role| people.contains(role));
        is_theirs && changes(access.call) && !NO_BEGINNING.contains(&access.call)
    })
}

/// Whether an error is the fault of the side that answers.
fn is_ours(code: Code) -> bool {
    use Code::{DataLoss, DeadlineExceeded, Internal, Unavailable, Unimplemented, Unknown};
    [DataLoss, DeadlineExceeded, Internal, Unavailable, Unimplemented, Unknown].contains(&code)
}

/// The name of a call's span.
pub(crate) fn name_of(path: &str) -> String {
    path.trim_start_matches('/').to_owned()
}

/// Says which call it is.
pub(crate) fn describe(span: &Span, path: &str) {
    span.set("rpc.system", "grpc");
    if let Some((service, method)) = path.trim_start_matches('/').split_once('/') {
        span.set("rpc.service", service.to_owned());
        span.set("rpc.method", method.to_owned());
    }
}

/// Says how it ended, as far as that is known when the answer begins.
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
