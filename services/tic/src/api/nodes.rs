//! Answers about nodes: their records, and what the watch knows of them.

use std::collections::BTreeSet;
use std::time::Duration;

use fabricast_groups::command::RegisterNode;
use fabricast_groups::directory::{Directory, HostedGroup, Verdict};
use fabricast_groups::ids::Incarnation;
use fabricast_groups::names::NodeName;
use fabricast_groups::record::{MemberRecord, NodeRecord, NodeState};
use fabricast_groups::watch::UNTOLD;
use fabricast_groups::{Moment, Refusal};
use fabricast_proto::v1;
use fabricast_rpc::Reason;
use fabricast_wire::{encode_node, encode_timestamp};
use tonic::Status;

use crate::api::status;
use crate::clock::wall_clock;
use crate::liveness::contacts::Contacts;
use crate::records::Records;
use crate::writer::directory::Registered;
use crate::writer::queue::WriterQueue;

/// Most memberships in one answer.
const MEMBERSHIPS: usize = 1_000;
/// Groups, about, that status reports are compared with at a time.
const COMPARED: usize = 4_096;

/// Status report of a node: its incarnation, and the groups whose agents it hosts.
pub(crate) type NodeReport = (NodeName, Incarnation, Vec<HostedGroup>);

/// Refuses two reports of one node: each costs all groups that the node hosts.
pub(crate) fn check_once(reports: &[NodeReport]) -> Result<(), Status> {
    let mut seen = BTreeSet::new();
    match reports.iter().map(|(node, ..)| node).find(|node| !seen.insert(*node)) {
        None => Ok(()),
        Some(node) => {
            let text = format!("statuses.node: '{node}' is named twice");
            Err(Reason::NameInvalid.status(text, &[("node", node.as_str())]))
        }
    }
}

/// Compares reports with the records, some at a time, so that changes do not wait for all of them.
///
/// - Returns one verdict for each report, in their order.
pub(crate) fn verdicts(records: &Records, reports: &[NodeReport]) -> Vec<Verdict> {
    let mut verdicts = Vec::with_capacity(reports.len());
    while verdicts.len() < reports.len() {
        records.read(|directory| {
            let mut compared = 0;
            for (node, incarnation, groups) in &reports[verdicts.len()..] {
                compared += 1 + groups.len() + directory.hosted_groups(node);
                verdicts.push(directory.verdict(node, *incarnation, groups));
                if compared >= COMPARED {
                    break;
                }
            }
        });
    }
    verdicts
}

/// A node as a message, with its last contact.
pub(crate) fn wire_node(node: &NodeRecord, contacts: &Contacts, now: Moment) -> v1::Node {
    let is_silent = node.state == NodeState::Up && contacts.silent().contains(&node.name);
    let recorded = encode_node(node, now);
    let last = contacts.last(&node.name, node.incarnation);
    v1::Node {
        state: if is_silent { v1::NodeState::Silent.into() } else { recorded.state },
        last_contact_time: last.map(encode_timestamp),
        ..recorded
    }
}

/// Looks a node up, with its memberships.
///
/// # Errors
///
/// `NOT_FOUND` / `UNKNOWN_NODE`.
pub(crate) fn look_up(
    records: &Records,
    contacts: &Contacts,
    name: &NodeName,
) -> Result<v1::GetNodeResponse, Status> {
    let found = records.read(|directory| {
        let node = directory.node(name)?;
        let memberships = directory.memberships(name).take(MEMBERSHIPS);
        let memberships = memberships.map(|member| wire_membership(directory, member));
        let hosted = directory.hosted_groups(name);
        let mut jobs = node.endpoints.iter().filter_map(|own| directory.job_of_endpoint(own));
        Some(v1::GetNodeResponse {
            node: Some(wire_node(node, contacts, wall_clock())),
            memberships: memberships.collect(),
            membership_count: count(directory.memberships(name).count()),
            hosted_group_count: count(hosted),
            job: jobs.next().map(ToString::to_string).unwrap_or_default(),
            revision: directory.revision().0,
        })
    });
    found.ok_or_else(|| status::refusal(&Refusal::UnknownNode { node: name.clone() }))
}

fn wire_membership(directory: &Directory, member: &MemberRecord) -> v1::NodeMembership {
    let group = directory.group(member.gn);
    v1::NodeMembership {
        group: group.map(|group| group.name.to_string()).unwrap_or_default(),
        pn: member.pn.0,
        process: member.process.to_string(),
        endpoint: member.endpoint.to_string(),
    }
}

fn count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Reads the time until the next report of a node; without one, that of a node that has not told
/// it. Read field by field, because the conversion of prost-types panics on some numbers.
pub(crate) fn next_report(given: Option<&prost_types::Duration>) -> Duration {
    let told = given.and_then(|given| {
        let seconds = Duration::from_secs(u64::try_from(given.seconds).ok()?);
        seconds.checked_add(Duration::from_nanos(u64::try_from(given.nanos).ok()?))
    });
    told.filter(|told| !told.is_zero()).unwrap_or(UNTOLD)
}

/// The incarnation of a node that a caller cannot reach; the present one unless it names another.
pub(crate) fn suspected(
    records: &Records,
    node: &NodeName,
    given: Option<Incarnation>,
) -> Result<Incarnation, Status> {
    let known = records.read(|directory| directory.node(node).map(|node| node.incarnation));
    let unknown = || Refusal::UnknownNode { node: node.clone() };
    let known = known.ok_or_else(|| status::refusal(&unknown()))?;
    let given = given.unwrap_or(known);
    if given > known {
        let stale = Refusal::StaleIncarnation { node: node.clone(), given, known };
        return Err(status::refusal(&stale));
    }
    Ok(given)
}

/// Registers a node, step by step until nothing of its start before is left.
pub(crate) async fn register(
    queue: &WriterQueue,
    request: RegisterNode,
) -> Result<v1::RegisterNodeResponse, Status> {
    loop {
        match queue.write(request.clone()).await?.answer {
            Registered::Recorded(node) => {
                return Ok(v1::RegisterNodeResponse {
                    start_id: node.start_id,
                    node: Some(encode_node(&node, wall_clock())),
                });
            }
            Registered::Suppressed(node, until) => return Err(suppressed(&node, until)),
            Registered::Unfinished => {}
        }
    }
}

/// The refusal of a node that has flapped too often.
fn suppressed(node: &NodeRecord, until: Moment) -> Status {
    let until = encode_timestamp(until).to_string();
    let why = node.flaps.map_or_else(String::new, |flaps| format!(": {flaps}"));
    let text = format!("node '{}' is not readmitted until {until}{why}", node.name);
    Reason::NodeSuppressed.status(text, &[("node", node.name.as_str()), ("until", &until)])
}
