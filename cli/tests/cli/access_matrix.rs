//! Every call in every role, over certificates: a role that may not make a call is refused, one
//! that is bound to its own objects is served with them and refused with those of another party,
//! and one that may use the objects of all parties has the outcome that `unbound_calls` says.
//!
//! The rows are those of `platform/rpc/src/access.rs`, which a test there compares with the API: a
//! call without a row fails there, one without a request for a role that may make it fails here.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::sync::Mutex;
use std::time::Duration;

use fabricast_proto::{BytesCodec, FILE_DESCRIPTOR_SET};
use fabricast_rpc::{Access, Bound, Role, access_table, reason_of};
use prost::bytes::Bytes;
use prost_reflect::DescriptorPool;
use serde_json::{Value, json};
use tonic::client::Grpc;
use tonic::{Code, Request, Status};

use crate::calls::{Objects, Place, encoded, mixed, request};
use crate::certificates::{Parts, issue};
use crate::own_calls::{OwnOutcome, own_outcome};
use crate::support::own_host;
use crate::unbound_calls::{AllObjects, Expected, Unbound, unbound};

/// A call that has not ended by then has been let in: it waits for something.
const LET_IN: Duration = Duration::from_millis(400);
/// Timeout of a call that has to end.
const ENDED: Duration = Duration::from_secs(20);

/// Outcome of a call.
#[derive(Debug)]
enum Outcome {
    /// The answer, or its first message.
    Answered(Bytes),
    Refused(Status),
    /// It waits for something.
    LetIn,
}

impl Outcome {
    /// True if the caller was told that it may not do this, as the call tells it.
    fn is_forbidden(&self, access: &Access) -> bool {
        match (self, access.call) {
            (Self::Refused(status), "GetGroup" | "GetJob" | "DeleteJob" | "GetCollective")
                if status.code() == Code::NotFound =>
            {
                true
            }
            (Self::Refused(status), _) => {
                status.code() == Code::PermissionDenied
                    && reason_of(status).as_deref() == Some("NOT_PERMITTED")
            }
            // Of many items each is refused in the answer.
            (Self::Answered(bytes), "RegisterMembers") => has(bytes, "NOT_PERMITTED"),
            (Self::Answered(bytes), "UpdatePositions") => !bytes.is_empty(),
            (Self::Answered(bytes), "AttachEndpoints") => has(bytes, "ENDPOINT_ATTACHED"),
            // The answer leaves out objects of others.
            (Self::Answered(bytes), "ListGroups") => !has(bytes, "rows/1"),
            (Self::Answered(bytes), "ListJobs" | "ListCollectives" | "GetEntryUsage") => {
                !has(bytes, "other")
            }
            // There is none, for them.
            (Self::Answered(bytes), "ReleaseCollective" | "CancelReservation") => bytes.is_empty(),
            (Self::Answered(_) | Self::LetIn, _) => false,
        }
    }

    /// True if the call has ended so.
    fn is(&self, expected: &Expected) -> bool {
        match (self, expected) {
            (Self::Answered(bytes), Expected::Told(text)) => has(bytes, text),
            (Self::Answered(_), Expected::Done) | (Self::LetIn, Expected::Waits) => true,
            (Self::Refused(status), Expected::Refused(reason)) => {
                reason_of(status).as_deref() == Some(*reason)
            }
            _ => false,
        }
    }

    /// True if the call has ended in one of these ways.
    fn is_own(&self, expected: &OwnOutcome) -> bool {
        match self {
            Self::Answered(_) | Self::LetIn => expected.served,
            Self::Refused(status) => {
                let reason = reason_of(status);
                expected.refused.iter().any(|one| reason.as_deref() == Some(*one))
            }
        }
    }
}

fn has(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// A cluster, and the objects of those who call it.
struct Matrix {
    parts: Parts,
    pool: DescriptorPool,
    /// Entries reserved for the tenant `acme`, and those for `other`.
    reservations: [u64; 2],
    objects: AllObjects,
    /// Outcomes with a caller's own objects that are not as expected.
    unexpected: Mutex<Vec<String>>,
}

/// The certificate of another party of the same roles, where there is one.
fn stranger(who: &str) -> &str {
    match who {
        "operating-agent" => "operating-agent-b",
        "router" => "router-b",
        "switch-agent" => "switch-agent-b",
        "agent-and-router" => "agent-and-router-b",
        who => who,
    }
}

/// The row of a call whose name no other service has.
fn named(call: &str) -> Access {
    access_table().find(|access| access.call == call).unwrap()
}

/// Certificates with two roles, and their folders.
const PAIRS: [(&str, [Role; 2]); 2] = [
    ("reader-and-tenant", [Role::Reader, Role::Tenant]),
    ("agent-and-router", [Role::OperatingAgent, Role::Router]),
];

impl Matrix {
    async fn call(&self, who: &str, access: &Access, request: &Value, limit: Duration) -> Outcome {
        let name = format!("fabricast.v1.{}", access.service);
        let service = self.pool.get_service_by_name(&name).unwrap();
        let method = service.methods().find(|method| method.name() == access.call).unwrap();
        let bytes = encoded(&method.input(), request);
        let mut client = Grpc::new(self.parts.channel(who, self.parts.address_of(access.service)));
        let call = async {
            client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
            let path = format!("/{name}/{}", access.call).parse().unwrap();
            // An attachment and a link last as long as their requests.
            let (sender, requests) = tokio::sync::mpsc::channel(1);
            sender.try_send(bytes).unwrap();
            let stays = matches!(access.call, "AttachEndpoints" | "OpenLink");
            let keep = stays.then_some(sender);
            let requests = tokio_stream::wrappers::ReceiverStream::new(requests);
            let answers = client.streaming(Request::new(requests), path, BytesCodec).await?;
            let first = answers.into_inner().message().await?;
            drop(keep);
            Ok(first.unwrap_or_default())
        };
        match tokio::time::timeout(limit, call).await {
            Ok(Ok(answer)) => Outcome::Answered(answer),
            Ok(Err(status)) => Outcome::Refused(status),
            Err(_elapsed) => Outcome::LetIn,
        }
    }

    /// Makes a call with objects of the caller, and with those of another party.
    ///
    /// - `who`: folder of the certificate, which has the role.
    async fn bound(&self, who: &str, role: Role, access: &Access) {
        let own = Objects {
            node: "node001",
            group: "acme/1",
            reporter: "a",
            // One may attach those that nobody has, and contribute from attached ones.
            endpoint: match access.bound {
                Bound::Participant => "node001 HCA-1",
                _ => "node003 HCA-1",
            },
            tenant: "acme",
            reservation: self.reservations[0],
            term: self.objects.term,
            probe_first: true,
            place: self.objects.place,
        };
        let other = match (access.bound, role) {
            (Bound::Member, Role::Tenant | Role::TenantAdministrator) => {
                Objects { group: "rows/1", ..own }
            }
            _ => Objects {
                node: "node002",
                group: "rows/1",
                reporter: "b",
                endpoint: "node001 HCA-1",
                tenant: "other",
                reservation: self.reservations[1],
                term: self.objects.term,
                probe_first: false,
                place: self.objects.place,
            },
        };
        // Another's term is named by another's certificate, and so is another's endpoint.
        let caller = match access.bound {
            Bound::Term | Bound::Endpoint | Bound::Participant | Bound::Agent => stranger(who),
            _ => who,
        };
        let told = format!("{}/{} by {who}", access.service, access.call);
        let outcome = self.call(caller, access, &request(access, &other), ENDED).await;
        assert!(outcome.is_forbidden(access), "{told}, another's: {outcome:?}");
        // A list with one object of another party is refused, wherever it stands.
        let [ours, theirs] = [&own, &other].map(|objects| request(access, objects));
        for (first, second) in [(&ours, &theirs), (&theirs, &ours)] {
            let Some(mixed) = mixed(first, second) else { continue };
            let outcome = self.call(caller, access, &mixed, ENDED).await;
            assert!(outcome.is_forbidden(access), "{told}, a mixed list: {outcome:?}");
        }
        // These lists leave out what is of others, and the route service keeps its term.
        let left_out =
            ["ListGroups", "ListJobs", "ListCollectives", "GetEntryUsage", "ReleaseRouteTerm"];
        if left_out.contains(&access.call) {
            return;
        }
        let outcome = self.call(who, access, &request(access, &own), LET_IN).await;
        assert!(!outcome.is_forbidden(access), "{told}, its own: {outcome:?}");
        let expected = own_outcome(access);
        if !outcome.is_own(&expected) {
            let told = format!("{told}, its own, not {expected:?}: {outcome:?}");
            self.unexpected.lock().unwrap().push(told);
        }
    }
}

impl Matrix {
    /// Makes one call, and checks its outcome.
    async fn check(&self, who: &str, access: &Access, request: &Value, expected: &Expected) {
        let limit = if matches!(expected, Expected::Waits) { LET_IN } else { ENDED };
        let outcome = self.call(who, access, request, limit).await;
        let told = format!("{}/{} by {who} with {request}", access.service, access.call);
        assert!(outcome.is(expected), "{told}, not {expected:?}: {outcome:?}");
    }

    /// Makes a call with objects of other parties, in a role that may use them.
    ///
    /// - `who`: folder of the certificate, which has the role.
    async fn unbound(&self, who: &str, access: &Access) {
        let who = stranger(who);
        match unbound(access, &self.objects) {
            Unbound::NoObject(why) => {
                let outcome = self.call(who, access, &json!({}), LET_IN).await;
                let is_forbidden = outcome.is(&Expected::Refused("NOT_PERMITTED"));
                let told = format!("{}/{} by {who}", access.service, access.call);
                assert!(!is_forbidden, "{told}, where {why}: {outcome:?}");
            }
            Unbound::Requests(requests) => {
                for (request, expected) in requests {
                    self.check(who, access, &request, &expected).await;
                }
            }
        }
    }

    /// Makes one call with a certificate that has these roles.
    async fn row(&self, who: &str, roles: &[Role], access: &Access) {
        let mut may = roles.iter().filter(|role| access.roles.contains(role));
        let is_bound = may.clone().all(|role| access.bound.binds(*role));
        match may.next() {
            Some(role) if is_bound => self.bound(who, *role, access).await,
            Some(_) => self.unbound(who, access).await,
            None => {
                self.check(who, access, &json!({}), &Expected::Refused("NOT_PERMITTED")).await;
            }
        }
    }

    /// A route service that takes the term over deposes the one that held it, which may name
    /// neither the new term nor its own from then on.
    async fn check_take_over(&self) {
        let take_over = json!({ "router": "matrix", "takeOver": true });
        self.check("router-b", &named("AcquireRouteTerm"), &take_over, &Expected::Done).await;
        let term = self.objects.term;
        for (term, reason) in [(term + 1, "NOT_PERMITTED"), (term, "STALE_TERM")] {
            let renew = json!({ "router": "matrix", "term": term });
            let expected = Expected::Refused(reason);
            self.check("router", &named("RenewRouteTerm"), &renew, &expected).await;
        }
        let release = json!({ "term": term + 1 });
        self.check("router-b", &named("ReleaseRouteTerm"), &release, &Expected::Done).await;
    }
}

/// Issues certificates of parties that have no part in the cluster, and of two roles each.
fn issue_further(parts: &Parts) {
    let host = own_host().to_string();
    let here = [host.as_str()];
    for (folder, identities) in [
        ("router-b", &["router/b"][..]),
        ("operating-agent-b", &["operating-agent/node002"]),
        ("operating-agent-c", &["operating-agent/node004"]),
        ("switch-agent-b", &["switch-agent/spare"]),
        ("agent-and-router-b", &["operating-agent/node002", "router/b"]),
        (PAIRS[1].0, &["operating-agent/node001", "operating-agent/gpu042", "router/a"]),
    ] {
        issue(&parts.sandbox, folder, identities, &here);
    }
    issue(&parts.sandbox, PAIRS[0].0, &["reader/rita", "tenant/acme"], &[]);
}

/// Waits until all groups are routed; returns the term of the route service.
fn term_when_settled(parts: &Parts) -> u64 {
    let term = std::cell::Cell::new(0);
    parts.wait("admin", &["route", "status"], &parts.router, |status| {
        let found = status["fence"]["term"].as_str().and_then(|term| term.parse().ok());
        term.set(found.unwrap_or(0));
        status["settled"] == true && term.get() > 0
    });
    term.get()
}

/// Place of the member on `node001` of a group.
fn place_in(group: &Value) -> Place {
    let number = |value: &Value| {
        value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or_else(|| panic!("{group}"))
    };
    let members = group["members"].as_array().unwrap();
    let member = members.iter().find(|member| member["node"] == "node001").unwrap();
    // JSON leaves out what is zero.
    let pn = member.get("pn").map_or(0, &number);
    Place { gn: number(&group["gn"]), epoch: number(&group["epoch"]), pn }
}

impl Matrix {
    /// Starts a cluster in which several parties have objects.
    async fn start() -> Self {
        let parts = Parts::start();
        issue_further(&parts);
        for (who, group, nodes) in [
            ("tenant", "acme/1", &["node001", "gpu042"][..]),
            ("admin", "rows/1", &["node001", "gpu042"]),
            ("admin", "third/gone", &["node001"]),
        ] {
            for node in nodes {
                let join = ["group", "join", group, "--node", node];
                parts.wait(who, &join, &parts.agents, |_| true);
            }
        }
        let term = term_when_settled(&parts);
        let reservations = parts.give_to_tenants();
        let reservation = parts.give_to("third", "rows/1");
        let group = parts.json("admin", &["group", "show", "acme/1"], &parts.tic);
        let agent_node = group["agentNode"].as_str().unwrap().to_owned();
        let objects = AllObjects { term, reservation, place: place_in(&group), agent_node };
        let pool = DescriptorPool::decode(FILE_DESCRIPTOR_SET).unwrap();
        let unexpected = Mutex::default();
        let matrix = Self { parts, pool, reservations, objects, unexpected };
        let node = json!({
            "name": "node004", "address": "127.0.0.1:1", "endpoints": ["node004 HCA-1"],
        });
        for (who, call, request) in [
            ("operating-agent-c", "RegisterNode", json!({ "node": node, "startId": 1 })),
            ("switch-agent-b", "ReportFailedElements", json!({ "reporter": "spare" })),
        ] {
            matrix.check(who, &named(call), &request, &Expected::Done).await;
        }
        matrix
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_role_makes_its_calls_with_its_own_objects_and_those_that_it_may_use() {
    let matrix = Matrix::start().await;
    for access in access_table() {
        for role in Role::ALL {
            matrix.row(role.word(), &[role], &access).await;
        }
        for (who, roles) in PAIRS {
            matrix.row(who, &roles, &access).await;
        }
    }
    matrix.check_take_over().await;
    let unexpected = matrix.unexpected.lock().unwrap();
    assert!(unexpected.is_empty(), "{}", unexpected.join("\n"));
}
