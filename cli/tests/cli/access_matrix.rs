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

use crate::calls::{Objects, encoded, request};
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
}

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
    async fn bound(&self, role: Role, access: &Access) {
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
            },
        };
        // Another's term is named by another's certificate, and so is another's endpoint.
        let stranger = match access.bound {
            Bound::Term => "router-b",
            Bound::Endpoint => "operating-agent-b",
            _ => role.word(),
        };
        let told = format!("{}/{} by {role}", access.service, access.call);
        let outcome = self.call(stranger, access, &request(access, &other), REFUSED).await;
        assert!(outcome.is_forbidden(access), "{told}, another's: {outcome:?}");
        // An agent of a group is one by the word of the TIC; and a list has nothing of others.
        let lists = ["ListGroups", "ListJobs", "ListCollectives", "GetEntryUsage"];
        if access.bound == Bound::Agent || lists.contains(&access.call) {
            return;
        }
        let outcome = self.call(role.word(), access, &request(access, &own), LET_IN).await;
        assert!(!outcome.is_forbidden(access), "{told}, its own: {outcome:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_role_makes_its_calls_with_its_own_objects_and_no_others() {
    let parts = Parts::start();
    let host = own_host().to_string();
    issue(&parts.sandbox, "router-b", &["router/b"], &[&host]);
    issue(&parts.sandbox, "operating-agent-b", &["operating-agent/node002"], &[&host]);
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
    let matrix = Matrix { parts, pool, term: term.get(), reservations };
    for access in access_table() {
        for role in Role::ALL {
            let may = access.roles.contains(&role);
            if may && access.bound.binds(role) {
                matrix.bound(role, &access).await;
                continue;
            }
            let limit = if may { LET_IN } else { REFUSED };
            let outcome = matrix.call(role.word(), &access, &json!({}), limit).await;
            let forbidden = matches!(&outcome, Outcome::Refused(status)
                if reason_of(status).as_deref() == Some("NOT_PERMITTED"));
            let told = format!("{}/{} by {role}", access.service, access.call);
            assert_eq!(forbidden, !may, "{told}: {outcome:?}");
        }
    }
}
