//! Requests with objects of other parties, for callers that may use those of all.
//!
//! A call that is not here fails the matrix in every role that is not bound to its own objects.

use fabricast_rpc::Access;
use serde_json::{Value, json};

use crate::calls::Place;

/// Objects of several parties whose names are not known before the cluster runs.
pub(crate) struct AllObjects {
    /// Term of the route service at work.
    pub(crate) term: u64,
    /// Number of entries reserved for the tenant `third`.
    pub(crate) reservation: u64,
    /// Place of a member of `acme/1`.
    pub(crate) place: Place,
    /// Node of that group's agent.
    pub(crate) agent_node: String,
}

/// Outcome that a call must have.
#[derive(Debug)]
pub(crate) enum Expected {
    /// It is answered, and the first message has this text.
    Told(&'static str),
    /// It is answered.
    Done,
    /// Its stream stays open without a message.
    Waits,
    /// It is refused for this reason.
    Refused(&'static str),
}

/// Requests of a call for callers that may use the objects of all parties.
pub(crate) enum Unbound {
    /// Neither request nor answer has an object of a party; the reason.
    NoObject(&'static str),
    /// Requests with objects of other parties, and their outcomes.
    Requests(Vec<(Value, Expected)>),
}

const FABRIC: Unbound = Unbound::NoObject("the fabric belongs to no party");
const PART: Unbound = Unbound::NoObject("it is about the part that is called");
const CLUSTER: Unbound = Unbound::NoObject("it is about the cluster as a whole");

/// The management key of the fabric.
const KEY: &str = "k";
/// The leaf switch of `node001`.
pub(crate) const LEAF: &str = "S-ec0d9a0300ec8240";
/// An answer with one field, which is true.
const YES: &str = "\u{8}\u{1}";

fn told(request: Value, text: &'static str) -> Unbound {
    Unbound::Requests(vec![(request, Expected::Told(text))])
}

fn done(request: Value) -> Unbound {
    Unbound::Requests(vec![(request, Expected::Done)])
}

fn refused(request: Value, reason: &'static str) -> Unbound {
    Unbound::Requests(vec![(request, Expected::Refused(reason))])
}

fn missing(access: &Access) -> ! {
    let Access { service, call, .. } = access;
    panic!("{service}/{call} is not bound in some role and has no row in this test")
}

/// The requests of a call, or the reason why it has none.
pub(crate) fn unbound(access: &Access, objects: &AllObjects) -> Unbound {
    match access.service {
        "AdministrationService" | "TicService" | "TopologyService" => of_tic(access),
        "GroupBatchService" | "RouteChoiceService" => of_batches(access),
        "JobService" => of_jobs(access),
        "CollectiveService" | "CollectiveAgentService" => of_collectives(access, objects),
        "GroupAgentService" => of_group_agents(access, objects),
        "OperatingAgentService" => of_agents(access),
        "RouteService" => of_routes(access),
        "SwitchAgentService" | "SwitchAggregationService" => of_switches(access, objects),
        "FabricService" | "FabricAggregationService" => of_fabric(access),
        _ => missing(access),
    }
}

fn of_tic(access: &Access) -> Unbound {
    match access.call {
        "GetServerInfo" | "GetMetrics" => PART,
        // The line of a route service.
        "ListAudit" => told(json!({}), "GrantRouteTerm"),
        "DeleteGroup" => done(json!({ "requestId": "delete group", "group": "third/gone" })),
        "PlanMgids" => {
            let groups = json!([{ "group": "rows/1", "endpoints": ["node001 HCA-1"] }]);
            told(json!({ "groups": groups }), "rows/1")
        }
        "GetGroup" => told(json!({ "group": "rows/1" }), "rows/1"),
        "ListGroups" | "WatchDirectory" | "ExportRecords" => told(json!({}), "rows/1"),
        "ListNodes" => told(json!({}), "node001"),
        "GetNode" => told(json!({ "node": "node001" }), "node001"),
        "RemoveNode" => refused(json!({ "node": "node001" }), "NODE_UP"),
        "ReportNodeFailure" => done(json!({ "node": "node004", "reporter": "matrix" })),
        "ReadmitNode" | "DrainNode" | "ResumeNode" => told(json!({ "node": "node004" }), "node004"),
        // It is not on this tree, and is left out.
        "MoveGroups" => done(json!({ "moves": [{ "group": "rows/1", "fromMgid": u32::MAX }] })),
        "ListReporters" => told(json!({}), "spare"),
        "RemoveReporter" => done(json!({ "reporter": "spare" })),
        "ReportRecordsCopy" => CLUSTER,
        "AcquireRouteTerm" => refused(json!({ "router": "matrix" }), "ROUTE_TERM_HELD"),
        "DownloadTopology" | "ReplaceTopology" | "DrainLink" | "ResumeLink"
        | "ListDrainedLinks" => FABRIC,
        _ => missing(access),
    }
}

fn of_batches(access: &Access) -> Unbound {
    match access.call {
        "FormGroups" => {
            let members = json!([{ "endpoint": "node001 HCA-1", "process": "f" }]);
            let groups = json!([{ "group": "third/formed", "members": members }]);
            let form = json!({ "requestId": "form", "job": "third/kept", "groups": groups });
            told(form, "third/formed")
        }
        "DeleteJobGroups" => done(json!({ "requestId": "end groups", "job": "third/kept" })),
        // A refusal would repeat the name of the group.
        "GetMany" => told(json!({ "gets": [{ "group": "rows/1" }] }), "node001 HCA-1"),
        // The engine at work records none.
        "ListRouteChoices" => done(json!({})),
        _ => missing(access),
    }
}

fn of_jobs(access: &Access) -> Unbound {
    match access.call {
        "CreateJob" => {
            let create = json!({ "requestId": "create", "job": "third/made", "nodeCount": 1 });
            told(create, "third/made")
        }
        "ReserveJob" => {
            let reserve = json!({
                "job": "third-7", "token": "0123456789abcdef", "account": "third",
                "nodes": ["gpu042"],
            });
            told(reserve, "third-7")
        }
        "DeleteJob" => done(json!({ "requestId": "delete job", "job": "third/gone" })),
        "GetJob" => told(json!({ "job": "third/kept" }), "third/kept"),
        "ListJobs" => told(json!({}), "third/kept"),
        "GetJobReport" => done(json!({ "nodeCount": 1 })),
        _ => missing(access),
    }
}

fn of_collectives(access: &Access, objects: &AllObjects) -> Unbound {
    let barrier = "COLLECTIVE_OPERATION_BARRIER";
    match access.call {
        "CreateCollective" => {
            let create = json!({
                "name": "third-made", "group": "rows/1", "tenant": "third",
                "operations": [barrier], "maxBytes": 8,
            });
            told(create, "third-made")
        }
        "ReleaseCollective" => told(json!({ "name": "third-gone" }), YES),
        "GetCollective" => told(json!({ "name": "third-kept" }), "third-kept"),
        "ListCollectives" => told(json!({}), "third-kept"),
        "ReserveEntries" => {
            let reservation = json!({
                "holder": { "tenant": "third" }, "entries": 1, "endpoints": ["node001 HCA-1"],
            });
            told(json!({ "reservation": reservation }), "third")
        }
        "CancelReservation" => told(json!({ "id": objects.reservation }), YES),
        "SetCollectiveQuota" => {
            let quota = json!({ "holder": { "tenant": "third" }, "collectives": 9 });
            done(json!({ "quota": quota }))
        }
        "GetEntryUsage" => told(json!({}), "third"),
        // The trees of all tenants end at endpoints.
        "WatchAggregationTrees" => told(json!({}), "node001 HCA-1"),
        "SetTreeConstants" | "GetTreeConstants" => CLUSTER,
        "RunCollective" => {
            let run = json!({
                "collective": "third-kept", "node": "node001", "process": "nobody",
                "sequence": 1, "work": { "operation": barrier },
            });
            refused(run, "NOT_A_MEMBER")
        }
        _ => missing(access),
    }
}

fn of_group_agents(access: &Access, objects: &AllObjects) -> Unbound {
    let (node, gn) = (&objects.agent_node, objects.place.gn);
    let group = json!({ "agentNode": node, "gn": gn });
    match access.call {
        "WatchGroupMembers" => told(group, "node001 HCA-1"),
        "QueryGroup" => told(group, "acme/1"),
        "NotifyGroups" => done(json!({ "agentNode": node, "gns": [gn] })),
        _ => missing(access),
    }
}

fn of_agents(access: &Access) -> Unbound {
    let one = json!({ "node": "node001", "group": "acme/1", "process": "one" });
    let many = json!([{ "node": "node001", "group": "acme/1", "process": "many" }]);
    let row = json!({ "node": "node001", "group": "rows/1", "process": "p0", "memberCount": 1 });
    match access.call {
        "JoinGroup" => told(one, "acme/1"),
        "LeaveGroup" => done(one),
        // A refusal would repeat the name of the group.
        "JoinMany" => told(json!({ "joins": many }), "node001 HCA-1"),
        // One end without a refusal.
        "LeaveMany" => told(json!({ "leaves": many }), "\n\u{0}"),
        "QueryGroup" => told(json!({ "node": "node001", "group": "rows/1" }), "rows/1"),
        "ListMemberships" => told(json!({}), "rows/1"),
        "SendPacket" | "MeasureOperations" => done(row),
        "ReceivePackets" => {
            Unbound::Requests(vec![(json!({ "node": "node001" }), Expected::Waits)])
        }
        "ProbeNode" => done(json!({ "node": "node001" })),
        "ListHostedNodes" => told(json!({}), "node001"),
        "StopNode" | "StartNode" => done(json!({ "node": "gpu042" })),
        _ => missing(access),
    }
}

fn of_routes(access: &Access) -> Unbound {
    match access.call {
        "GetRouteStatus" | "ListLinkLoads" => CLUSTER,
        "ListTableDrifts" => FABRIC,
        "ExplainRoute" => told(json!({ "group": "rows/1" }), "rows/1"),
        "PlanFaults" => done(json!({ "failed": [{ "endpoint": "node001 HCA-1" }] })),
        "PlanRebalance" | "DownloadRecording" => done(json!({})),
        _ => missing(access),
    }
}

/// Writes of a route service whose term is that of another one. The switch agents compare terms:
/// the part of a switch that they do not have shows that they have come so far.
fn of_switches(access: &Access, objects: &AllObjects) -> Unbound {
    let part = match access.call {
        "ListSwitches" | "ReadTables" | "ReadCounters" | "ListPorts" | "ReadAggregation" => {
            return FABRIC;
        }
        "WriteTables" => json!({ "switchName": "nowhere" }),
        "WriteAggregation" => json!({ "place": { "switchName": "nowhere" } }),
        _ => missing(access),
    };
    let write = |term: u64| json!({ "fence": { "term": term, "generation": 1 }, "writes": [part] });
    Unbound::Requests(vec![
        (write(objects.term), Expected::Told("UNKNOWN_SWITCH")),
        (write(objects.term - 1), Expected::Refused("STALE_FENCE")),
        (write(objects.term + 1_000), Expected::Refused("TERM_NOT_GRANTED")),
    ])
}

/// Calls of a switch agent about switches that another one serves.
fn of_fabric(access: &Access) -> Unbound {
    let without_key = || (json!({}), Expected::Refused("MANAGEMENT_KEY_WRONG"));
    let write = |part: Value| {
        let fence = json!({ "term": 0, "generation": 0 });
        json!({ "managementKey": KEY, "fence": fence, "writes": [part] })
    };
    let requests = match access.call {
        "InjectPacket" => {
            let packet = json!({ "mgid": 99, "color": 0 });
            vec![(json!({ "endpoint": "node001 HCA-1", "packet": packet }), Expected::Done)]
        }
        "FailElement" | "HealElement" | "DisturbSwitch" => return FABRIC,
        "WatchFailedElements"
        | "ListFabricSwitches"
        | "ReadSwitchTables"
        | "ReadSwitchCounters"
        | "ListSwitchPorts"
        | "ReadFabricAggregation" => {
            let with_key = json!({ "managementKey": KEY, "switchName": LEAF });
            vec![without_key(), (with_key, Expected::Done)]
        }
        "WriteSwitchTables" => vec![
            without_key(),
            (write(json!({ "switchName": "nowhere" })), Expected::Told("UNKNOWN_SWITCH")),
            (write(json!({ "switchName": LEAF })), Expected::Refused("STALE_FENCE")),
        ],
        "WriteFabricAggregation" => {
            let nowhere = json!({ "place": { "switchName": "nowhere" } });
            vec![without_key(), (write(nowhere), Expected::Told("UNKNOWN_SWITCH"))]
        }
        _ => missing(access),
    };
    Unbound::Requests(requests)
}
