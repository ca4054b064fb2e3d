//! Counts every call that a server answers, and audits changes that people make.
//!
//! A line of the audit has caller, call, request and result. People are callers whose certificate
//! has the role `admin`, `reader`, `tenant-admin` or `tenant`, and the persons that an
//! administrator's program says it acts for; parts log their own changes where they make them.
//! A call that is forbidden is counted and audited without its request, which is not read.

use std::sync::LazyLock;
use std::time::Instant;

use fabricast_telemetry::audit;
use fabricast_telemetry::metrics::{CALLS, Outcome};
use http::{Request, Response};
use http_body_util::{BodyExt, BodyStream, StreamBody};
use prost_reflect::{DescriptorPool, DynamicMessage, MethodDescriptor, Value};
use tokio_stream::StreamExt;
use tonic::Code;
use tonic::body::Body;

use crate::access::{Access, access_of};
use crate::identity::{Caller, Role};
use crate::middleware::{InnerService, Middleware};
use crate::on_behalf::person_of;

/// First words of the names of calls that change nothing.
const READING: [&str; 10] =
    ["Download", "Explain", "Get", "List", "Plan", "Probe", "Query", "Read", "Receive", "Watch"];
/// Fields with secrets, which are not written to the audit.
const SECRETS: [&str; 4] = ["token", "job_token", "management_key", "voucher_key"];
/// Bytes of the longest request that is written to the audit, with its frame header.
const AUDITED_BYTES: usize = 16 << 10;
/// Bytes of flag and length before a message.
const FRAME_HEADER: usize = 5;
/// Characters of a request that are kept while the call lasts.
const KEPT: usize = 4_096;

static DESCRIPTORS: LazyLock<Option<DescriptorPool>> =
    LazyLock::new(|| DescriptorPool::decode(fabricast_proto::FILE_DESCRIPTOR_SET).ok());

/// Counts calls, refused ones included.
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
        let answer = inner.call(request).await;
        let outcome = Outcome { code: code_of(answer.as_ref().ok()), elapsed: started.elapsed() };
        CALLS.answered(access.service, access.call, outcome);
        answer
    }
}

/// Audits changes that a caller may make.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AuditChanges;

impl Middleware for AuditChanges {
    async fn handle<S: InnerService>(
        self,
        request: Request<Body>,
        mut inner: S,
    ) -> Result<Response<Body>, S::Error> {
        let access = access_of(request.uri().path()).filter(|access| changes(access.call));
        let (Some(access), Some(who)) = (access, person(&request)) else {
            return inner.call(request).await;
        };
        let (request, what) = read(access, request).await;
        let answer = inner.call(request).await;
        audit(&who, access.call, code_of(answer.as_ref().ok()), &what);
        answer
    }
}

/// Audits a change that was refused before its request was read.
pub(crate) fn audit_forbidden(request: &Request<Body>, call: &str) {
    if let Some(who) = person(request).filter(|_| changes(call)) {
        audit(&who, call, name(Code::PermissionDenied), "not read");
    }
}

/// The caller, if it is a person or a program that acts as one.
fn person(request: &Request<Body>) -> Option<String> {
    let caller = request.extensions().get::<Caller>().unwrap_or(&Caller::Unasked);
    let acts_for = person_of(request.headers());
    let acts_for = acts_for.filter(|_| caller.has_role(&[Role::Administrator]));
    match (caller, acts_for) {
        (_, Some(person)) => Some(format!("{caller} for {person}")),
        (Caller::Known(_), None) => caller.has_role(&Role::PEOPLE).then(|| caller.to_string()),
        (Caller::Unasked, None) => None,
    }
}

/// True if a call of that name can change something.
pub(crate) fn changes(call: &str) -> bool {
    let begins =
        |word| call.strip_prefix(word).is_some_and(|rest| rest.starts_with(char::is_uppercase));
    !READING.into_iter().any(begins)
}

/// Reads a request for the audit, at most [`AUDITED_BYTES`] of it: a longer one is named by its
/// length. A stream of requests is not read, as it may never end.
async fn read(access: Access, request: Request<Body>) -> (Request<Body>, String) {
    let pool = DESCRIPTORS.as_ref();
    let service =
        pool.and_then(|pool| pool.get_service_by_name(&format!("fabricast.v1.{}", access.service)));
    let method =
        service.and_then(|service| service.methods().find(|one| one.name() == access.call));
    let Some(method) = method.filter(|method| !method.is_client_streaming()) else {
        return (request, "a stream".to_owned());
    };
    let (head, mut body) = request.into_parts();
    let (mut frames, mut bytes) = (Vec::new(), Vec::new());
    while bytes.len() <= AUDITED_BYTES {
        let Some(frame) = body.frame().await else { break };
        if let Some(data) = frame.as_ref().ok().and_then(|frame| frame.data_ref()) {
            bytes.extend_from_slice(&data[..data.len().min(AUDITED_BYTES + 1)]);
        }
        let is_broken = frame.is_err();
        frames.push(frame);
        if is_broken {
            break;
        }
    }
    let whole = tokio_stream::iter(frames).chain(BodyStream::new(body));
    (Request::from_parts(head, Body::new(StreamBody::new(whole))), text_of(&bytes, &method))
}

/// The text of a request in the audit.
///
/// - `bytes`: its frame, or the beginning of one that is longer than [`AUDITED_BYTES`].
fn text_of(bytes: &[u8], method: &MethodDescriptor) -> String {
    let Some((header, message)) = bytes.split_first_chunk::<FRAME_HEADER>() else {
        return "unreadable".to_owned();
    };
    if bytes.len() > AUDITED_BYTES {
        let [_, length @ ..] = *header;
        return format!("{} bytes", u32::from_be_bytes(length));
    }
    let text = DynamicMessage::decode(method.input(), message)
        .ok()
        .and_then(|mut message| {
            hide_secrets(&mut message);
            serde_json::to_string(&message).ok()
        })
        .unwrap_or_else(|| "unreadable".to_owned());
    match text.char_indices().nth(KEPT) {
        Some((end, _)) => text[..end].to_owned(),
        None => text,
    }
}

/// Hides what only caller and callee may know. Messages are as deep as their descriptors, a few
/// levels.
fn hide_secrets(message: &mut DynamicMessage) {
    for (field, value) in message.fields_mut() {
        match value {
            Value::String(text) if SECRETS.contains(&field.name()) => "hidden".clone_into(text),
            Value::Bytes(bytes) if SECRETS.contains(&field.name()) => bytes.clear(),
            Value::Message(inner) => hide_secrets(inner),
            Value::List(items) => {
                items.iter_mut().filter_map(Value::as_message_mut).for_each(hide_secrets);
            }
            _ => {}
        }
    }
}

/// The code of an answer. An answer that streams counts as begun.
fn code_of(answer: Option<&Response<Body>>) -> &'static str {
    let status = answer.and_then(|answer| answer.headers().get("grpc-status"));
    name(match (answer, status) {
        (None, _) => Code::Internal,
        (Some(_), None) => Code::Ok,
        (Some(_), Some(status)) => Code::from_bytes(status.as_bytes()),
    })
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
    use std::collections::BTreeSet;

    use fabricast_proto::v1;
    use http_body_util::Full;
    use prost::Message;
    use prost_reflect::Kind;

    use super::*;
    use crate::on_behalf::on_behalf_of;

    fn framed(message: &impl Message) -> Request<Body> {
        let bytes = message.encode_to_vec();
        let mut frame = vec![0];
        frame.extend(u32::try_from(bytes.len()).unwrap().to_be_bytes());
        frame.extend(bytes);
        let request = Request::builder().uri("/fabricast.v1.TicService/DeleteGroup");
        request.body(Body::new(Full::from(frame))).unwrap()
    }

    #[test]
    fn tokens_are_not_written_to_the_audit() {
        let join = v1::OperatingAgentServiceJoinGroupRequest {
            group: "job/7/a".to_owned(),
            job_token: "0123456789abcdef".to_owned(),
            ..Default::default()
        };
        let many = v1::OperatingAgentServiceJoinManyRequest { joins: vec![join] };
        let pool = DESCRIPTORS.as_ref().unwrap();
        let service = pool.get_service_by_name("fabricast.v1.OperatingAgentService").unwrap();
        let method = service.methods().find(|one| one.name() == "JoinMany").unwrap();
        let frame = [vec![0; FRAME_HEADER], many.encode_to_vec()].concat();
        let text = text_of(&frame, &method);
        assert!(text.contains("job/7/a") && text.contains("hidden"), "{text}");
        assert!(!text.contains("0123456789abcdef"), "{text}");
    }

    #[test]
    fn keys_are_not_written_to_the_audit() {
        let node = Some(v1::Node { name: "n1".to_owned(), ..Default::default() });
        let register = v1::RegisterNodeRequest { node, start_id: 1, voucher_key: vec![7; 16] };
        let pool = DESCRIPTORS.as_ref().unwrap();
        let service = pool.get_service_by_name("fabricast.v1.TicService").unwrap();
        let method = service.methods().find(|one| one.name() == "RegisterNode").unwrap();
        let frame = [vec![0; FRAME_HEADER], register.encode_to_vec()].concat();
        let text = text_of(&frame, &method);
        assert!(text.contains("n1") && !text.contains("BwcHBwcH"), "{text}");
    }

    #[test]
    fn every_field_with_a_secret_is_known() {
        let is_secret = |name: &str| {
            let sounds_so = ["token", "key", "secret", "password"].iter();
            !name.ends_with("page_token") && sounds_so.into_iter().any(|word| name.contains(word))
        };
        let pool = DESCRIPTORS.as_ref().unwrap();
        let fields = pool.all_messages().flat_map(|message| message.fields().collect::<Vec<_>>());
        let texts = fields.filter(|field| matches!(field.kind(), Kind::String | Kind::Bytes));
        let found: BTreeSet<String> =
            texts.map(|field| field.name().to_owned()).filter(|name| is_secret(name)).collect();
        assert_eq!(found, SECRETS.map(str::to_owned).into());
    }

    fn delete(group: &str) -> Request<Body> {
        framed(&v1::DeleteGroupRequest { request_id: "r".to_owned(), group: group.to_owned() })
    }

    /// Reads a request, and checks that the service gets all of it.
    async fn text(group: &str) -> String {
        let access = access_of("/fabricast.v1.TicService/DeleteGroup").unwrap();
        let (request, text) = read(access, delete(group)).await;
        let passed = request.into_body().collect().await.unwrap().to_bytes();
        let sent = delete(group).into_body().collect().await.unwrap().to_bytes();
        assert!(passed == sent, "a request of {} bytes", sent.len());
        text
    }

    #[tokio::test]
    async fn a_request_is_told_and_still_reaches_the_service() {
        assert_eq!(text("rows/0").await, r#"{"requestId":"r","group":"rows/0"}"#);
        assert_eq!(text(&"x".repeat(10_000)).await.len(), KEPT);
    }

    /// A service may accept 64 MiB, of administrators as of others.
    #[tokio::test]
    async fn a_long_request_is_passed_on_and_named_by_its_length() {
        let length = 5 << 20;
        let told = delete(&"x".repeat(length)).into_body().collect().await.unwrap().to_bytes();
        let told = format!("{} bytes", told.len() - FRAME_HEADER);
        assert_eq!(text(&"x".repeat(length)).await, told);
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

    #[test]
    fn a_person_is_audited_for_whom_an_administrator_acts() {
        let acts = |identity: Option<&str>, person: &str| {
            let metadata = on_behalf_of(person, ()).metadata().clone().into_headers();
            let mut request = delete("g");
            request.headers_mut().extend(metadata);
            let caller = identity.map(|text| Caller::Known(vec![text.parse().unwrap()]));
            caller.map(|caller| request.extensions_mut().insert(caller));
            super::person(&request)
        };
        let told = |identity, person| acts(identity, person).unwrap_or_default();
        assert_eq!(told(Some("admin/console"), "ann b"), "admin/console for ann%20b");
        assert_eq!(told(None, "ann"), "anyone for ann", "nobody is known in plain text");
        assert_eq!(told(Some("tenant/acme"), "ann"), "tenant/acme", "a tenant is not believed");
        assert_eq!(acts(Some("operating-agent/n"), "ann"), None);
    }
}
