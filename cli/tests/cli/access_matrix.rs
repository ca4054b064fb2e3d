//! Every call in every role, over certificates: a role that may not make a call is refused, and one
//! that is bound to its own objects is served with them and refused with those of another party.
//!
//! The rows are those of `platform/rpc/src/access.rs`, which a test there compares with the API: a
//! call without a row fails there, one that is bound and has no request here fails here.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::time::Duration;

use fabricast_proto::{BytesCodec, FILE_DESCRIPTOR_SET};
use fabricast_rpc::{
    Access, Bound, CertificateFiles, Channel, Role, Security, access_table, reason_of,
};
use prost::Message;
use prost::bytes::Bytes;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};
use serde_json::{Value, json};
use tonic::client::Grpc;
use tonic::{Code, Request, Status};

use crate::certificates::{Parts, issue};
use crate::support::own_host;

/// A call that has not ended by then has been let in: it waits for something.
const LET_IN: Duration = Duration::from_millis(400);
/// Timeout of a call that has to be refused.
const REFUSED: Duration = Duration::from_secs(20);

/// Objects that a request names.
struct Objects {
    node: &'static str,
    group: &'static str,
    reporter: &'static str,
    endpoint: &'static str,
    tenant: &'static str,
    /// Number of entries reserved for the tenant.
    reservation: u64,
    term: u64,
    /// The node is only said to be unreachable.
    probe_first: bool,
}

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

/// The request of a bound call.
fn request(access: &Access, objects: &Objects) -> Value {
    let Objects { node, group, term, .. } = objects;
    let adapter = format!("{node} HCA-1");
    let id = format!("{node} {group} {term}");
    let joins = json!({
        "requestId": id, "group": group, "node": node, "incarnation": 1, "endpoint": adapter,
        "process": "p",
    });
    let leaves = json!({
        "requestId": id, "group": group, "node": node, "incarnation": 1, "process": "nobody",
    });
    match (access.service, access.call) {
        ("TicService", "JoinGroup") => joins,
        ("TicService", "LeaveGroup") => leaves,
        ("GroupBatchService", "JoinMany") => json!({ "joins": [joins] }),
        ("GroupBatchService", "LeaveMany") => json!({ "leaves": [leaves] }),
        ("GroupBatchService", "FormGroups") => {
            let members = json!([{ "endpoint": "node001 HCA-1", "process": "f" }]);
            json!({ "requestId": id, "groups": [{ "group": group, "members": members }] })
        }
        ("RouteChoiceService", "RecordRouteChoices") => {
            json!({ "fence": { "term": term, "generation": 1 } })
        }
        ("CollectiveService", "ReportAggregationTrees") => json!({ "term": term }),
        ("CollectiveService" | "JobService", _) => tenant_request(access, objects),
        ("TicService" | "TopologyService", _) => tic_request(access, objects),
        _ => agent_request(access, objects),
    }
}

/// The request of a bound call of the TIC.
fn tic_request(access: &Access, objects: &Objects) -> Value {
    let Objects { node, group, reporter, term, probe_first, .. } = objects;
    match access.call {
        "RegisterNode" => {
            let endpoints = [format!("{node} HCA-1")];
            let node = json!({ "name": node, "address": "127.0.0.1:1", "endpoints": endpoints });
            json!({ "node": node, "startId": 1 })
        }
        "DeleteGroup" => json!({ "requestId": node, "group": format!("{group}0") }),
        "PlanMgids" => json!({ "groups": [{ "group": group, "endpoints": ["node001 HCA-1"] }] }),
        "GetGroup" => json!({ "group": group }),
        "ListGroups" => json!({}),
        "ReportNodeFailure" => {
            json!({ "node": node, "reporter": "matrix", "probeFirst": probe_first })
        }
        "ReportGroupAgents" => json!({ "statuses": [{ "node": node, "incarnation": 1 }] }),
        "ReportFailedElements" | "ReportTopology" => json!({ "reporter": reporter }),
        "RenewRouteTerm" => json!({ "router": "matrix", "term": term }),
        "ReleaseRouteTerm" => json!({ "term": term }),
        "ReportRoutes" => json!({ "term": term, "fence": { "term": term } }),
        call => panic!("{call} is bound and has no request in this test"),
    }
}

/// The request of a call that is bound to a tenant.
fn tenant_request(access: &Access, objects: &Objects) -> Value {
    let Objects { tenant, group, reservation, .. } = objects;
    let id = format!("{tenant} {}", access.call);
    match access.call {
        "CreateJob" => json!({ "requestId": id, "job": format!("{tenant}/new"), "nodeCount": 1 }),
        "ReserveJob" => json!({
            "job": format!("{tenant}-7"), "token": "0123456789abcdef", "account": tenant,
            "nodes": ["node001"],
        }),
        "DeleteJob" => json!({ "requestId": id, "job": format!("{tenant}/gone") }),
        "GetJob" => json!({ "job": format!("{tenant}/kept") }),
        "ListJobs" | "ListCollectives" | "GetEntryUsage" => json!({}),
        "CreateCollective" => json!({
            "name": format!("{tenant}-new"), "group": group, "tenant": tenant,
            "operations": ["COLLECTIVE_OPERATION_BARRIER"], "maxBytes": 8,
        }),
        "ReleaseCollective" => json!({ "name": format!("{tenant}-gone") }),
        "GetCollective" => json!({ "name": format!("{tenant}-kept") }),
        "ReserveEntries" => json!({ "reservation": {
            "holder": { "tenant": tenant }, "entries": 1, "endpoints": ["node001 HCA-1"],
        } }),
        "CancelReservation" => json!({ "id": reservation }),
        "SetCollectiveQuota" => {
            json!({ "quota": { "holder": { "tenant": tenant, "job": "j" }, "collectives": 9 } })
        }
        call => panic!("{call} is bound and has no request in this test"),
    }
}

/// The request of a bound call of agents or the fabric.
fn agent_request(access: &Access, objects: &Objects) -> Value {
    let Objects { node, group, endpoint, .. } = objects;
    let member = json!({
        "node": node, "process": "p", "endpoint": format!("{node} HCA-1"), "incarnation": 1,
        "address": "127.0.0.1:1", "joinedRevision": 1,
    });
    let register = json!({ "gn": 1, "epoch": 1, "agentNode": "node001", "member": member });
    let status = json!({ "node": node, "agentNode": "node001", "incarnation": 1 });
    let uses = json!({ "node": node, "group": group, "process": "matrix" });
    match (access.service, access.call) {
        ("GroupAgentService", "RegisterMember") => register,
        ("GroupAgentService", "RegisterMembers") => json!({ "members": [register] }),
        ("GroupAgentService", "DeregisterMember") => {
            json!({ "gn": 1, "epoch": 1, "pn": 9, "node": node, "agentNode": "node001" })
        }
        ("GroupAgentService", "ReportOperatingAgents") => json!({ "statuses": [status] }),
        ("OperatingAgentService", "JoinGroup" | "LeaveGroup" | "QueryGroup") => uses,
        ("OperatingAgentService", "JoinMany") => json!({ "joins": [uses] }),
        ("OperatingAgentService", "LeaveMany") => json!({ "leaves": [uses] }),
        ("OperatingAgentService", "UpdatePositions") => {
            json!({ "positions": [{ "gn": 77, "node": node, "epoch": 1 }] })
        }
        ("OperatingAgentService", "OpenLink") => json!({ "fromNode": node, "toNode": "node001" }),
        ("FabricService", "AttachEndpoints") => json!({ "attach": [endpoint] }),
        ("FabricAggregationService", "ContributeValues") => {
            let process = json!({ "process": 0, "endpoint": endpoint });
            json!({
                "tree": 1, "sequence": 1, "processCount": 1, "process": process,
                "to": { "process": process },
                "work": { "operation": "COLLECTIVE_OPERATION_BARRIER" },
            })
        }
        (service, call) => panic!("{service}/{call} is bound and has no request in this test"),
    }
}

/// The message of a request; fields that it does not have are left out.
fn encoded(input: &MessageDescriptor, request: &Value) -> Vec<u8> {
    let options = prost_reflect::DeserializeOptions::new().deny_unknown_fields(false);
    let message = DynamicMessage::deserialize_with_options(input.clone(), request, &options);
    message.unwrap_or_else(|error| panic!("{}: {error}", input.full_name())).encode_to_vec()
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
    fn channel(&self, who: &str, access: &Access) -> Channel {
        let address = match access.service {
            "RouteService" => &self.parts.router,
            "SwitchAgentService" | "SwitchAggregationService" => &self.parts.switches,
            "FabricService" | "FabricAggregationService" => &self.parts.fabric,
            "GroupAgentService"
            | "OperatingAgentService"
            | "CollectiveAgentService"
            | "ProcessService" => &self.parts.agents,
            _ => &self.parts.tic,
        };
        let files = CertificateFiles::in_folder(&self.parts.sandbox.path(who));
        Security::mutual(files).unwrap().peer(address).unwrap().channel()
    }

    async fn call(&self, who: &str, access: &Access, request: &Value, limit: Duration) -> Outcome {
        let name = format!("fabricast.v1.{}", access.service);
        let service = self.pool.get_service_by_name(&name).unwrap();
        let method = service.methods().find(|method| method.name() == access.call).unwrap();
        let bytes = encoded(&method.input(), request);
        let mut client = Grpc::new(self.channel(who, access));
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
