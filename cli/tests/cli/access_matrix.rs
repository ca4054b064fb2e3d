//! Every call in every role, over certificates: a role that may not make a call is refused, and one
//! that is bound to its own objects is served with them and refused with those of another party.
//!
//! The rows are those of `platform/rpc/src/access.rs`, which a test there compares with the API: a
//! call without a row fails there, one that is bound and has no request here fails here.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

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
use crate::support::own_host;

/// A call that has not ended by then has been let in: it waits for something.
const LET_IN: Duration = Duration::from_millis(400);
/// Timeout of a call that has to be refused.
const REFUSED: Duration = Duration::from_secs(20);

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
        let has = |bytes: &[u8], text: &str| {
            bytes.windows(text.len()).any(|window| window == text.as_bytes())
        };
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
}

/// A cluster, and who calls it.
struct Matrix {
    parts: Parts,
    pool: DescriptorPool,
    term: u64,
    /// Entries reserved for the tenant `acme`, and those for `other`.
    reservations: [u64; 2],
    /// Place of a member, whose group has its agent in the process of `operating-agent`.
    place: Place,
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
            endpoint: "node003 HCA-1",
            tenant: "acme",
            reservation: self.reservations[0],
            // An older term is given back already, and the route service keeps its own.
            term: self.term - u64::from(access.call == "ReleaseRouteTerm"),
            probe_first: true,
            place: self.place,
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
                term: self.term,
                probe_first: false,
                place: self.place,
            },
        };
        // Another's term is named by another's certificate, and so is another's endpoint.
        let stranger = match access.bound {
            Bound::Term => "router-b",
            Bound::Endpoint | Bound::Agent => "operating-agent-b",
            _ => who,
        };
        let told = format!("{}/{} by {who}", access.service, access.call);
        let outcome = self.call(stranger, access, &request(access, &other), REFUSED).await;
        assert!(outcome.is_forbidden(access), "{told}, another's: {outcome:?}");
        // A list with one object of another party is refused, wherever it stands.
        let [ours, theirs] = [&own, &other].map(|objects| request(access, objects));
        for (first, second) in [(&ours, &theirs), (&theirs, &ours)] {
            let Some(mixed) = mixed(first, second) else { continue };
            let outcome = self.call(stranger, access, &mixed, REFUSED).await;
            assert!(outcome.is_forbidden(access), "{told}, a mixed list: {outcome:?}");
        }
        // These lists leave out what is of others.
        if ["ListGroups", "ListJobs", "ListCollectives", "GetEntryUsage"].contains(&access.call) {
            return;
        }
        let outcome = self.call(who, access, &request(access, &own), LET_IN).await;
        assert!(!outcome.is_forbidden(access), "{told}, its own: {outcome:?}");
    }
}

impl Matrix {
    /// Makes one call with a certificate that has these roles.
    async fn row(&self, who: &str, roles: &[Role], access: &Access) {
        let mut may = roles.iter().filter(|role| access.roles.contains(role));
        let is_bound = may.clone().all(|role| access.bound.binds(*role));
        if let Some(role) = may.next().filter(|_| is_bound) {
            self.bound(who, *role, access).await;
            return;
        }
        let may = roles.iter().any(|role| access.roles.contains(role));
        let limit = if may { LET_IN } else { REFUSED };
        let outcome = self.call(who, access, &json!({}), limit).await;
        let forbidden = matches!(&outcome, Outcome::Refused(status)
            if reason_of(status).as_deref() == Some("NOT_PERMITTED"));
        let told = format!("{}/{} by {who}", access.service, access.call);
        assert_eq!(forbidden, !may, "{told}: {outcome:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_role_makes_its_calls_with_its_own_objects_and_no_others() {
    let parts = Parts::start();
    let host = own_host().to_string();
    issue(&parts.sandbox, "router-b", &["router/b"], &[&host]);
    issue(&parts.sandbox, "operating-agent-b", &["operating-agent/node002"], &[&host]);
    issue(&parts.sandbox, PAIRS[0].0, &["reader/rita", "tenant/acme"], &[]);
    let agent = ["operating-agent/node001", "operating-agent/gpu042", "router/a"];
    issue(&parts.sandbox, PAIRS[1].0, &agent, &[&host]);
    for (who, group) in [("tenant", "acme/1"), ("admin", "rows/1")] {
        for node in ["node001", "gpu042"] {
            let join = ["group", "join", group, "--node", node];
            parts.wait(who, &join, &parts.agents, |_| true);
        }
    }
    let term = std::cell::Cell::new(0);
    parts.wait("admin", &["route", "status"], &parts.router, |status| {
        let found = status["fence"]["term"].as_str().and_then(|term| term.parse().ok());
        term.set(found.unwrap_or(0));
        status["settled"] == true && term.get() > 0
    });
    let pool = DescriptorPool::decode(FILE_DESCRIPTOR_SET).unwrap();
    let reservations = parts.give_to_tenants();
    let group = parts.json("admin", &["group", "show", "acme/1"], &parts.tic);
    let number = |value: &Value| {
        value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or_else(|| panic!("{group}"))
    };
    let members = group["members"].as_array().unwrap();
    let member = members.iter().find(|member| member["node"] == "node001").unwrap();
    // JSON leaves out what is zero.
    let pn = member.get("pn").map_or(0, &number);
    let place = Place { gn: number(&group["gn"]), epoch: number(&group["epoch"]), pn };
    let matrix = Matrix { parts, pool, term: term.get(), reservations, place };
    for access in access_table() {
        for role in Role::ALL {
            matrix.row(role.word(), &[role], &access).await;
        }
        for (who, roles) in PAIRS {
            matrix.row(who, &roles, &access).await;
        }
    }
}
