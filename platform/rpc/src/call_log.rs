//! Counts every call that a server answers, and audits changes that people make.
//!
//! A line of the audit has caller, call, request and result. People are callers whose certificate
//! has the role `admin` or `tenant`; parts log their own changes where they make them.

use std::sync::LazyLock;
use std::time::Instant;

use fabricast_telemetry::audit;
use fabricast_telemetry::metrics::{CALLS, Outcome};
use http::{Request, Response};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use prost_reflect::{DescriptorPool, DynamicMessage};
use tonic::Code;
use tonic::body::Body;

use crate::access::{Access, access_of};
use crate::identity::{Caller, Role};
use crate::middleware::{InnerService, Middleware};
use crate::status::Reason;

/// First words of the names of calls that change nothing.
const READING: [&str; 10] =
    ["Download", "Explain", "Get", "List", "Plan", "Probe", "Query", "Read", "Receive", "Watch"];
/// Longest request, in bytes, with its frame header; servers accept no longer messages either.
const LONGEST_REQUEST: usize = 4 * 1024 * 1024 + FRAME_HEADER;
/// Bytes of flag and length before a message.
const FRAME_HEADER: usize = 5;

static DESCRIPTORS: LazyLock<Option<DescriptorPool>> =
    LazyLock::new(|| DescriptorPool::decode(fabricast_proto::FILE_DESCRIPTOR_SET).ok());

/// Counts calls, and audits changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountCalls;

impl Middleware for CountCalls {
    async fn handle<S: InnerService>(
        self,
        request: Request<Body>,
        mut inner: S,
    ) -> Result<Response<Body>, S::Error> {
        let Some(access) = access_of(request.uri().path()) else {
            return inner.call(request).await;
        };
        let started = Instant::now();
        let who = person(&request).filter(|_| changes(access.call));
        let Some(who) = who else {
            let answer = inner.call(request).await;
            count(access, started, answer.as_ref().ok());
            return answer;
        };
        let (request, what) = match read(access, request).await {
            Ok(read) => read,
            Err(refusal) => return Ok(refusal),
        };
        let answer = inner.call(request).await;
        let code = count(access, started, answer.as_ref().ok());
        audit(&who, access.call, code, &what);
        answer
    }
}

/// The caller, if it is a person or a program that acts as one.
fn person(request: &Request<Body>) -> Option<String> {
    let caller = request.extensions().get::<Caller>()?;
    let is_person =
        matches!(caller, Caller::Known(_)) && caller.has_role(&[Role::Administrator, Role::Tenant]);
    is_person.then(|| caller.to_string())
}

/// True if a call of that name can change something.
pub(crate) fn changes(call: &str) -> bool {
    let begins =
        |word| call.strip_prefix(word).is_some_and(|rest| rest.starts_with(char::is_uppercase));
    !READING.into_iter().any(begins)
}

/// Reads a request for the audit. A stream of requests is not read, as it may never end.
async fn read(
    access: Access,
    request: Request<Body>,
) -> Result<(Request<Body>, String), Response<Body>> {
    let pool = DESCRIPTORS.as_ref();
    let service =
        pool.and_then(|pool| pool.get_service_by_name(&format!("fabricast.v1.{}", access.service)));
    let method =
        service.and_then(|service| service.methods().find(|one| one.name() == access.call));
    let Some(method) = method.filter(|method| !method.is_client_streaming()) else {
        return Ok((request, "a stream".to_owned()));
    };
    let (head, body) = request.into_parts();
    let bytes = match Limited::new(body, LONGEST_REQUEST).collect().await {
        Ok(collected) => collected.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            let why = "the request is longer than 4 MiB";
            return Err(Reason::LimitReached.status(why, &[]).into_http());
        }
        // Whoever sent half a request is gone, and the service will find the other half missing.
        Err(_) => Default::default(),
    };
    let message = bytes.get(FRAME_HEADER..).unwrap_or_default();
    let text = DynamicMessage::decode(method.input(), message)
        .ok()
        .and_then(|message| serde_json::to_string(&message).ok())
        .unwrap_or_else(|| "unreadable".to_owned());
    Ok((Request::from_parts(head, Body::new(Full::new(bytes))), text))
}

/// Counts a call and answers how it ended. An answer that streams counts as begun.
fn count(access: Access, started: Instant, answer: Option<&Response<Body>>) -> &'static str {
    let status = answer.and_then(|answer| answer.headers().get("grpc-status"));
    let code = match (answer, status) {
        (None, _) => Code::Internal,
        (Some(_), None) => Code::Ok,
        (Some(_), Some(status)) => Code::from_bytes(status.as_bytes()),
    };
    let code = name(code);
    CALLS.answered(access.service, access.call, Outcome { code, elapsed: started.elapsed() });
    code
}

/// A code as the specification of gRPC writes it.
fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

#[cfg(test)]
mod tests {
    use fabricast_proto::v1;
    use prost::Message;

    use super::*;

    fn framed(message: &impl Message) -> Request<Body> {
        let bytes = message.encode_to_vec();
        let mut frame = vec![0];
        frame.extend(u32::try_from(bytes.len()).unwrap().to_be_bytes());
        frame.extend(bytes);
        let request = Request::builder().uri("/fabricast.v1.TicService/DeleteGroup");
        request.body(Body::new(Full::from(frame))).unwrap()
    }

    fn delete(group: &str) -> Request<Body> {
        framed(&v1::DeleteGroupRequest { request_id: "r".to_owned(), group: group.to_owned() })
    }

    #[tokio::test]
    async fn a_request_is_told_and_still_reaches_the_service() {
        let access = access_of("/fabricast.v1.TicService/DeleteGroup").unwrap();
        let (request, what) = read(access, delete("rows/0")).await.unwrap();
        assert_eq!(what, r#"{"requestId":"r","group":"rows/0"}"#);
        let passed = request.into_body().collect().await.unwrap().to_bytes();
        let sent = delete("rows/0").into_body().collect().await.unwrap().to_bytes();
        assert_eq!(passed, sent);
        let endless = read(access, delete(&"x".repeat(LONGEST_REQUEST))).await.unwrap_err();
        assert_eq!(
            name(Code::from_bytes(endless.headers()["grpc-status"].as_bytes())),
            "RESOURCE_EXHAUSTED"
        );
    }

    #[test]
    fn what_only_reads_is_no_change() {
        let changing: Vec<&str> = crate::access_table()
            .filter(|access| access.roles.contains(&Role::Administrator))
            .map(|access| access.call)
            .filter(|call| changes(call))
            .collect();
        for call in
            ["DeleteGroup", "FormGroups", "ReadmitNode", "FailElement", "SetCollectiveQuota"]
        {
            assert!(changing.contains(&call), "{call} of {changing:?}");
        }
        for call in ["GetGroup", "ListNodes", "ReadTables", "WatchDirectory", "ProbeNode"] {
            assert!(!changes(call), "{call}");
        }
    }

    #[test]
    fn only_people_are_audited() {
        let known = |identity: &str| {
            let mut request = delete("g");
            request.extensions_mut().insert(Caller::Known(vec![identity.parse().unwrap()]));
            person(&request)
        };
        assert_eq!(known("admin/ann").as_deref(), Some("admin/ann"));
        assert_eq!(known("tenant/acme").as_deref(), Some("tenant/acme"));
        assert_eq!(known("operating-agent/node001"), None);
        assert_eq!(person(&delete("g")), None);
    }
}
