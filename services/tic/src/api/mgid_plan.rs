//! MGIDs for groups that are formed together, chosen from a copy of what choices depend on.
//!
//! `PlanMgids` shows the choices, and `FormGroups` forms groups with them, so a plan is what is
//! formed as long as no group changes in between.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_groups::command::GroupMove;
use fabricast_groups::directory::Directory;
use fabricast_groups::ids::Gn;
use fabricast_groups::names::{EndpointName, GroupName, LayerName};
use fabricast_proto::v1;
use fabricast_routing::{AllocatorError, BatchGroup, BatchMgid, Choice, MgidPlanner};
use fabricast_rpc::{Caller, Reason};
use fabricast_topology::{Graph, Mgid};
use tonic::Status;

use crate::api::{fields, status};
use crate::records::Records;

/// Most groups that move with one request; each costs the writer its members.
const MOST_MOVES: usize = 1000;
/// Endpoints of a plan that are looked up in the records at a time.
const AT_ONCE: usize = 1_024;

/// A group that an MGID is planned for.
#[derive(Debug)]
pub(crate) struct GroupOutline {
    /// Its name; `None` if the caller of a plan gives none.
    pub(crate) name: Option<GroupName>,
    /// Endpoints of those who join.
    pub(crate) endpoints: Vec<EndpointName>,
    /// MGID that the caller gives it.
    pub(crate) mgid: Option<Mgid>,
    /// Layer that the caller names.
    pub(crate) layer: Option<String>,
    /// True if it must not share a spanning tree.
    pub(crate) exclusive: bool,
}

impl GroupOutline {
    /// Reads a group of a plan.
    pub(crate) fn read(
        caller: &Caller,
        graph: &Graph,
        group: &v1::PlannedGroup,
    ) -> Result<Self, Status> {
        let name = match group.group.as_str() {
            "" => None,
            text => Some(fields::name("groups.group", text, GroupName::new)?),
        };
        name.as_ref().map_or(Ok(()), |name| caller.check_group(name.as_str()))?;
        let layer = match group.layer.as_str() {
            "" => None,
            text => Some(fields::name("groups.layer", text, LayerName::new)?.to_string()),
        };
        let endpoints = fields::endpoints(graph, "groups.endpoints", &group.endpoints)?;
        let mgid = group.mgid.map(Mgid);
        Ok(Self { name, endpoints, mgid, layer, exclusive: group.exclusive })
    }

    /// Finds the MGID that the group has or is given.
    fn settled(&self, directory: &Directory) -> Result<BatchMgid, Status> {
        let Some(name) = &self.name else {
            return Ok(self.mgid.map_or(BatchMgid::Open, BatchMgid::Given));
        };
        let settled = directory.settled_mgid(name, self.mgid);
        let settled =
            settled.map_err(|refusal| status::refusal_of(&format!("group '{name}'"), &refusal))?;
        let existing = directory.find_group(name).and_then(|gn| directory.group(gn));
        let existing = existing.map(|group| BatchMgid::Existing(group.home()));
        let given = settled.map(BatchMgid::Given);
        Ok(existing.or(given).unwrap_or_default())
    }

    /// Lists the endpoints that become members of the group, each once. Keeps the records for some
    /// endpoints at a time, and looks at none of the members that the group has besides.
    fn newcomers(&self, records: &Records, graph: &Graph) -> Vec<u32> {
        let find = |name: &EndpointName| graph.find_endpoint(name.as_str()).map(|found| found.0);
        let mut newcomers = BTreeSet::new();
        for some in self.endpoints.chunks(AT_ONCE) {
            let new = records.read(|directory| {
                let gn = self.name.as_ref().and_then(|name| directory.find_group(name));
                let is_new =
                    |name: &&EndpointName| !gn.is_some_and(|gn| is_member(directory, gn, name));
                some.iter().filter(is_new).collect::<Vec<_>>()
            });
            newcomers.extend(new.into_iter().filter_map(find));
        }
        newcomers.into_iter().collect()
    }
}

/// True if an endpoint is in a group; members are on the node that owns their endpoint.
fn is_member(directory: &Directory, gn: Gn, endpoint: &EndpointName) -> bool {
    directory.owner(endpoint).is_some_and(|node| {
        directory.members_on(gn, &node.name).any(|member| member.endpoint == *endpoint)
    })
}

/// Reads moves of groups, each group once; leaves out groups that do not exist.
///
/// - Returns the moves, and the names of their groups by GN.
///
/// # Errors
///
/// More moves than one request may have, or an invalid name.
pub(crate) fn read_moves(
    records: &Records,
    asked: Vec<v1::GroupMove>,
) -> Result<(Vec<GroupMove>, BTreeMap<Gn, String>), Status> {
    if asked.len() > MOST_MOVES {
        let text = format!("moves: {} exceed the limit of {MOST_MOVES}", asked.len());
        return Err(Reason::LimitReached.status(text, &[("field", "moves")]));
    }
    let (mut moves, mut names) = (Vec::with_capacity(asked.len()), BTreeMap::new());
    for v1::GroupMove { group, from_mgid, to_mgid } in asked {
        let name = fields::name("moves.group", &group, GroupName::new)?;
        let found = records.read(|directory| directory.find_group(&name));
        if let Some(gn) = found
            && names.insert(gn, group).is_none()
        {
            moves.push(GroupMove { gn, from: Mgid(from_mgid), to: Mgid(to_mgid) });
        }
    }
    Ok((moves, names))
}

/// Chooses MGIDs for groups, one for each in their order; of a group that exists, that of the
/// spanning tree that it is on. This may take seconds.
///
/// # Errors
///
/// The refusal of a given MGID, or that none is left.
pub(crate) fn plan(
    planner: &mut MgidPlanner,
    records: &Arc<Records>,
    graph: &Graph,
    groups: &[GroupOutline],
) -> Result<Vec<Choice>, Status> {
    let mut members = Vec::with_capacity(groups.len());
    let mut mgids = Vec::with_capacity(groups.len());
    for group in groups {
        mgids.push(records.read(|directory| group.settled(directory))?);
        members.push(group.newcomers(records, graph));
    }
    let batch = groups.iter().zip(&members).zip(&mgids);
    let batch: Vec<BatchGroup<'_>> = batch
        .map(|((group, members), mgid)| BatchGroup {
            name: group.name.as_ref().map_or("", GroupName::as_str),
            members,
            mgid: *mgid,
            layer: group.layer.as_deref(),
            exclusive: group.exclusive,
        })
        .collect();
    planner.choose_all(&batch).map_err(|error| match error {
        AllocatorError::Taken { .. } => {
            Reason::MgidInUse.status(format!("groups.mgid: {error}"), &[("field", "mgid")])
        }
        AllocatorError::Full
        | AllocatorError::Unknown { .. }
        | AllocatorError::AlreadyMember { .. }
        | AllocatorError::NotMember { .. } => {
            Reason::LimitReached.status("groups: there are not so many MGIDs", &[])
        }
    })
}
