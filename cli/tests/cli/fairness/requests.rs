//! Requests of the calls of roles: with objects that there are, so that calls are answered, and
//! such that joins can go on.

use fabricast_rpc::{Access, Bound};
use serde_json::{Value, json};

use crate::calls::{Objects, request};
use crate::support::data;
use crate::unbound_calls::{AllObjects, Expected, LEAF, Unbound, unbound};

/// Node of the joins that are measured.
pub(super) const NODE: &str = "node002";
/// Another node of the same operating agent; it may be stopped and drained.
pub(super) const SECOND_NODE: &str = "node004";
/// Node of the attacker. It has no operating agent.
pub(super) const OWN_NODE: &str = "node003";
/// Processes and groups of a call that names one of each.
pub(super) const COUNT: usize = 100;
/// A switch with links to [`LEAF`], and the port of one of them there.
const SPINE: (&str, u32) = ("S-ec0d9a0300ec81e0", 13);
/// Number of a report of routes that is above those of the route service.
const LATER: u64 = 1 << 40;

/// Nodes, and switch agents of the same names, whose records may be removed.
pub(super) fn spares() -> impl Iterator<Item = String> {
    (5..=20).map(|i| format!("node{i:03}"))
}

/// Name of a process that may leave [`Objects::group`].
pub(super) fn process(i: usize) -> String {
    format!("l{i}")
}

/// Requests of a call.
///
/// - `incarnation`: that of [`OWN_NODE`].
pub(super) fn requests(
    access: &Access,
    objects: &Objects,
    all: &AllObjects,
    incarnation: u64,
) -> Vec<Value> {
    let mut requests = match (prepared(access, objects), access.bound) {
        (Some(prepared), _) => prepared,
        (None, Bound::Nothing) => answered(access, all),
        (None, _) => vec![request(access, objects)],
    };
    for request in &mut requests {
        match (access.service, access.call) {
            (_, "StopNode" | "StartNode") => set(request, "node", &json!(SECOND_NODE)),
            ("OperatingAgentService" | "CollectiveAgentService", _)
                if access.bound == Bound::Nothing =>
            {
                set(request, "node", &json!(NODE));
            }
            (_, "OpenLink") => set(request, "toNode", &json!(NODE)),
            (_, "UpdatePositions") => set(request, "node", &json!(NODE)),
            ("GroupAgentService", _) => {
                set(request, "agentNode", &json!(all.agent_node));
                set(request, "gn", &json!(all.place.gn));
                set(request, "epoch", &json!(all.place.epoch));
            }
            ("TicService" | "GroupBatchService", _) => {
                set(request, "incarnation", &json!(incarnation));
            }
            _ => {}
        }
    }
    requests
}

/// Requests with the objects of other parties: those that are answered, or all if all are refused.
fn answered(access: &Access, all: &AllObjects) -> Vec<Value> {
    let requests = match unbound(access, all) {
        Unbound::NoObject(_) => return vec![json!({})],
        Unbound::Requests(requests) => requests,
    };
    let is_refused = |expected: &Expected| matches!(expected, Expected::Refused(_));
    let all_are = requests.iter().all(|(_, expected)| is_refused(expected));
    let kept = requests.into_iter().filter(|(_, expected)| all_are || !is_refused(expected));
    kept.map(|(request, _)| request).collect()
}

/// Requests of a call for which the cluster has been prepared, or that needs others than those of
/// the matrix.
fn prepared(access: &Access, objects: &Objects) -> Option<Vec<Value>> {
    let Objects { node, group, term, .. } = objects;
    let leave = |i: usize| {
        let id = format!("leave {node} {i}");
        json!({
            "requestId": id, "group": group, "node": node, "incarnation": 1, "process": process(i),
        })
    };
    let leaves = || (0..COUNT).map(leave);
    let requests = match (access.service, access.call) {
        ("TicService", "JoinGroup") => {
            let join = |i: usize| {
                json!({
                    "requestId": format!("join {i}"), "group": format!("acme/j{i}"), "node": node,
                    "incarnation": 1, "endpoint": format!("{node} HCA-1"), "process": "p",
                })
            };
            (0..COUNT).map(join).collect()
        }
        ("TicService" | "OperatingAgentService", "LeaveGroup") => leaves().collect(),
        ("GroupBatchService" | "OperatingAgentService", "LeaveMany") => {
            vec![json!({ "leaves": leaves().collect::<Vec<_>>() })]
        }
        ("TicService", "RemoveNode") => spares().map(|node| json!({ "node": node })).collect(),
        ("TicService", "RemoveReporter") => {
            spares().map(|reporter| json!({ "reporter": reporter })).collect()
        }
        ("TicService", "ReportRoutes") => {
            vec![json!({ "term": term, "fence": { "term": term, "generation": LATER } })]
        }
        ("TicService", "AcquireRouteTerm") => {
            vec![json!({ "router": "attacker", "takeOver": true })]
        }
        ("TopologyService", "ReplaceTopology") => {
            let same = std::fs::read(data("cluster-edr-96.ibnetdiscover")).expect("test data");
            vec![json!({ "chunk": base64(&same) })]
        }
        ("TopologyService", "DrainLink" | "ResumeLink") => {
            let (peer, port) = SPINE;
            vec![json!({ "switchName": LEAF, "peerSwitchName": peer, "port": port })]
        }
        ("SwitchAgentService", "ListPorts") => vec![json!({ "switchName": LEAF })],
        ("FabricService", "FailElement" | "HealElement") => {
            vec![json!({ "element": { "endpoint": format!("{OWN_NODE} HCA-1") } })]
        }
        ("FabricService", "DisturbSwitch") => vec![json!({ "switchName": LEAF, "wipe": {} })],
        _ => return None,
    };
    Some(requests)
}

/// Changes a field wherever it stands.
fn set(value: &mut Value, field: &str, to: &Value) {
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                if name.as_str() == field {
                    *inner = to.clone();
                } else {
                    set(inner, field, to);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| set(item, field, to)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Encodes bytes in base64, as JSON has them.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let bits = three.iter().fold(0_usize, |bits, byte| (bits << 8) | usize::from(*byte));
        let bits = bits << (8 * (3 - three.len()));
        for at in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * at)) & 63];
            text.push(if at <= three.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

#[test]
fn base64_is_padded() {
    let texts = ["", "f", "fo", "foo", "foob"].map(|text| base64(text.as_bytes()));
    assert_eq!(texts, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]);
}
