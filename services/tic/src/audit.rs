//! Audit entries for the changes that the TIC makes by itself.

use std::collections::BTreeMap;

use fabricast_groups::Directory;
use fabricast_groups::names::NodeName;
use fabricast_groups::record::Change;
use fabricast_groups::watch::NodeIncarnation;
use fabricast_proto::v1;
use fabricast_telemetry::audit;
use serde_json::json;

/// The caller that the TIC is in the audit.
const CALLER: &str = "tic";
/// The code of a change that was made.
const DONE: &str = "OK";

/// A node that seemed to have failed was taken out of all its groups.
pub(crate) fn expelled(expelled: &NodeIncarnation, cause: &str) {
    let NodeIncarnation { node, number } = expelled;
    let what = json!({ "node": node, "incarnation": number.0, "cause": cause });
    audit(CALLER, "ExpelNode", DONE, &what.to_string());
}

/// Groups got another agent by these changes. The first agent of a group is left out: it follows
/// from the call that created the group.
pub(crate) fn appointed(before: &Directory, changes: &[Change]) {
    let mut appointments: BTreeMap<&NodeName, Vec<&str>> = BTreeMap::new();
    for change in changes {
        if let Change::GroupPut(group) = change
            && let Some(agent) = &group.agent
            && before.group(group.gn).is_some_and(|old| old.agent.as_ref() != Some(agent))
        {
            appointments.entry(agent).or_default().push(group.name.as_str());
        }
    }
    for (node, groups) in appointments {
        let what = json!({ "node": node, "count": groups.len(), "groups": groups });
        audit(CALLER, "AppointGroupAgent", DONE, &what.to_string());
    }
}

/// This TIC has begun to lead.
pub(crate) fn leads(term: u64) {
    audit(CALLER, "BecomeLeader", DONE, &json!({ "term": term }).to_string());
}

/// A route service got a term.
pub(crate) fn route_term(router: &str, term: u64) {
    let what = json!({ "router": router, "term": term });
    audit(CALLER, "GrantRouteTerm", DONE, &what.to_string());
}

/// The cluster got another topology.
pub(crate) fn topology(summary: &v1::TopologySummary) {
    let (switches, endpoints) = (summary.switch_count, summary.endpoint_count);
    let what = json!({ "switches": switches, "endpoints": endpoints });
    audit(CALLER, "ChangeTopology", DONE, &what.to_string());
}
