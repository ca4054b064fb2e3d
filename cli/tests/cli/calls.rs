//! Requests of the calls that are bound to objects of their callers.

use fabricast_rpc::Access;
use prost::Message;
use prost_reflect::{DynamicMessage, MessageDescriptor};
use serde_json::{Value, json};

/// A topology of one switch as `ibnetdiscover` prints it, in base64.
const ONE_SWITCH: &str = "U3dpdGNoCTEgIlMtMSIJCSMgInMiIGJhc2UgcG9ydCAwIGxpZCAxIGxtYyAwCg==";

/// Objects that a request names.
pub(crate) struct Objects {
    pub(crate) node: &'static str,
    pub(crate) group: &'static str,
    pub(crate) reporter: &'static str,
    pub(crate) endpoint: &'static str,
    pub(crate) tenant: &'static str,
    /// Number of entries reserved for the tenant.
    pub(crate) reservation: u64,
    pub(crate) term: u64,
    /// The node is only said to be unreachable.
    pub(crate) probe_first: bool,
    pub(crate) place: Place,
}

/// Place of a member in the tree of a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) gn: u64,
    pub(crate) epoch: u64,
    pub(crate) pn: u64,
}

/// The request with the elements of both in each of its lists of objects; `None` if it has none.
pub(crate) fn mixed(one: &Value, other: &Value) -> Option<Value> {
    let mut mixed = one.clone();
    let mut has_lists = false;
    for (field, value) in mixed.as_object_mut()? {
        if let (Some(list), Some(more)) = (value.as_array_mut(), other[field].as_array())
            && list != more
        {
            list.extend(more.iter().cloned());
            has_lists = true;
        }
    }
    has_lists.then_some(mixed)
}

/// The request of a bound call.
pub(crate) fn request(access: &Access, objects: &Objects) -> Value {
    let Objects { node, group, term, .. } = objects;
    let adapter = format!("{node} HCA-1");
    let id = |call: &str| format!("{call} {node} {group} {term}");
    let joins = json!({
        "requestId": id("join"), "group": group, "node": node, "incarnation": 1,
        "endpoint": adapter, "process": "p",
    });
    let leaves = json!({
        "requestId": id("leave"), "group": group, "node": node, "incarnation": 1,
        "process": "nobody",
    });
    match (access.service, access.call) {
        ("TicService", "JoinGroup") => joins,
        ("TicService", "LeaveGroup") => leaves,
        ("GroupBatchService", "JoinMany") => json!({ "joins": [joins] }),
        ("GroupBatchService", "LeaveMany") => json!({ "leaves": [leaves] }),
        ("GroupBatchService", "FormGroups") => {
            let members = json!([{ "endpoint": "node001 HCA-1", "process": "f" }]);
            let group = format!("{group}/formed");
            json!({ "requestId": id("form"), "groups": [{ "group": group, "members": members }] })
        }
        ("RouteChoiceService", "RecordRouteChoices") => {
            // It is of no topology, so that nothing is recorded.
            let scheme = json!({
                "engine": "sssp-mc", "colorCount": 4, "tables": "TABLE_KIND_PER_PORT",
                "rootScope": "tn",
            });
            json!({ "fence": { "term": term, "generation": 1 }, "scheme": scheme, "last": true })
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
        "ReportFailedElements" => json!({ "reporter": reporter }),
        "ReportTopology" => json!({ "reporter": reporter, "chunk": ONE_SWITCH }),
        "RenewRouteTerm" => json!({ "router": "matrix", "term": term }),
        "ReleaseRouteTerm" => json!({ "term": term }),
        "ReportRoutes" => json!({ "term": term, "fence": { "term": term } }),
        call => panic!("{call} is bound and has no request in this test"),
    }
}

/// The request of a bound call on jobs or collectives.
fn tenant_request(access: &Access, objects: &Objects) -> Value {
    let Objects { tenant, group, reservation, node, .. } = objects;
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
        "RequestSwitchTree" => json!({ "group": group, "node": node, "process": "matrix" }),
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
    // No group has this number, so that nobody becomes a member of one at its agent only.
    let gn = 1_u64 << 40;
    let register = json!({ "gn": gn, "epoch": 1, "agentNode": "node001", "member": member });
    let status = json!({ "node": node, "agentNode": "node001", "incarnation": 1 });
    let uses = json!({ "node": node, "group": group, "process": "matrix" });
    match (access.service, access.call) {
        ("GroupAgentService", "RegisterMember") => register,
        ("GroupAgentService", "RegisterMembers") => json!({ "members": [register] }),
        ("GroupAgentService", "DeregisterMember") => {
            json!({ "gn": gn, "epoch": 1, "pn": 9, "node": node, "agentNode": "node001" })
        }
        ("GroupAgentService", "ReportOperatingAgents") => json!({ "statuses": [status] }),
        ("OperatingAgentService", "JoinGroup" | "LeaveGroup" | "QueryGroup") => uses,
        ("OperatingAgentService", "JoinMany") => json!({ "joins": [uses] }),
        ("OperatingAgentService", "LeaveMany") => json!({ "leaves": [uses] }),
        ("OperatingAgentService", "UpdatePositions") => {
            let Place { gn, epoch, pn } = objects.place;
            json!({ "positions": [{ "gn": gn, "node": "node001", "epoch": epoch, "pn": pn }] })
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
pub(crate) fn encoded(input: &MessageDescriptor, request: &Value) -> Vec<u8> {
    let options = prost_reflect::DeserializeOptions::new().deny_unknown_fields(false);
    let message = DynamicMessage::deserialize_with_options(input.clone(), request, &options);
    message.unwrap_or_else(|error| panic!("{}: {error}", input.full_name())).encode_to_vec()
}
