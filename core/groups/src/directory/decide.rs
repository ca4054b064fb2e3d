//! Decisions of the directory, one function per command.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::draft::{Draft, JoinedMembers, check_limit};
use super::requests::{remembered, reused};
use super::{ChooseMgid, Directory};
use super::{batch, jobs};
use crate::command::{
    Answer, Command, CreateGroup, Decision, DeleteGroup, Expelled, Join, Joined, Leave, Refusal,
    RegisterNode,
};
use crate::flaps::FlapPolicy;
use crate::ids::{Gn, Incarnation, Moment, Revision};
use crate::names::{GroupName, NodeName};
use crate::record::{Change, GroupRecord, MemberRecord, NodeRecord, NodeState, Outcome, Route};

/// Longest time from now to the start of a node, which its own clock tells.
const LATEST_START: Duration = Duration::from_secs(86_400);

/// Decides one command.
pub(super) fn decide(
    directory: &Directory,
    now: Moment,
    command: &Command,
    choose: &mut ChooseMgid<'_>,
) -> Result<Decision, Refusal> {
    let mut draft = Draft::new(directory, now);
    let answer = match command {
        Command::RegisterNode(node) => register(&mut draft, node),
        Command::Join(request) => join(&mut draft, request, choose),
        Command::FormGroups(request) => batch::form(&mut draft, request, choose),
        Command::CreateGroup(request) => create(&mut draft, request, choose),
        Command::Leave(request) => leave(&mut draft, request),
        Command::DeleteGroup(request) => delete(&mut draft, request),
        Command::DeleteJobGroups(request) => batch::delete_job(&mut draft, request),
        Command::CreateJob(request) => jobs::create(&mut draft, request),
        Command::ReserveJob(request) => jobs::reserve(&mut draft, request),
        Command::DeleteJob(request) => jobs::delete(&mut draft, request),
        Command::ForgetFlaps { node } => forget_flaps(&mut draft, node),
        Command::DrainNode { node, drained } => drain_node(&mut draft, node, *drained),
        Command::RemoveNode { node } => remove_node(&mut draft, node),
        Command::NodeFailed { node, incarnation } => node_failed(&mut draft, node, *incarnation),
        Command::MoveGroups(moves) => {
            let made = moves.iter().filter(|one| draft.move_group(one)).copied().collect();
            Ok(Answer::Moved(made))
        }
        Command::Routed { routes, clean } => routed(&mut draft, routes, *clean),
    }?;
    let (revision, changes) = draft.finish();
    Ok(Decision { revision, changes, answer })
}

fn register(draft: &mut Draft<'_>, asked: &RegisterNode) -> Result<Answer, Refusal> {
    let directory = draft.base;
    let before = directory.node(&asked.name);
    let limit = draft.now.after(LATEST_START).0;
    if asked.start_id > limit {
        let (node, start_id) = (asked.name.clone(), asked.start_id);
        return Err(Refusal::StartOutOfRange { node, start_id, limit });
    }
    // A registration of an earlier start may arrive late. A start beyond the limit, recorded while
    // the clock was wrong, shuts out nobody.
    if let Some(node) = before
        && asked.start_id <= node.start_id
        && node.start_id <= limit
    {
        return Ok(Answer::Node(node.clone()));
    }
    if asked.endpoints.is_empty() {
        return Err(Refusal::NoEndpoints { node: asked.name.clone() });
    }
    let limits = &directory.limits;
    check_limit("endpoints of the node", asked.endpoints.len(), limits.endpoints_per_node)?;
    let nodes = directory.nodes.len() + usize::from(before.is_none());
    check_limit("nodes", nodes, limits.nodes)?;
    for endpoint in &asked.endpoints {
        if let Some(owner) = directory.owners.get(endpoint)
            && *owner != asked.name
        {
            let (endpoint, owner) = (endpoint.clone(), owner.clone());
            return Err(Refusal::EndpointTaken { endpoint, owner });
        }
    }
    let expelled = draft.expel(&asked.name); // the processes of the start before are gone
    if !expelled.done {
        return Ok(Answer::Expelled(expelled));
    }
    let flaps = match before {
        Some(node) if node.state == NodeState::Up => draft.with_one_flap(node),
        Some(node) => node.flaps,
        None => None,
    };
    let refuses = limits.damping.policy == FlapPolicy::Refuse;
    let until = flaps.filter(|_| refuses).and_then(|flaps| flaps.suppressed_until(draft.now));
    if let (Some(before), Some(until)) = (before, until) {
        let record = NodeRecord { state: NodeState::Failed, flaps, ..before.clone() };
        if record != *before {
            draft.changes.push(Change::NodePut(record.clone())); // its former incarnation has ended
        }
        return Ok(Answer::Suppressed(record, until));
    }
    let first = directory.first_incarnation;
    let node = NodeRecord {
        name: asked.name.clone(),
        address: asked.address.clone(),
        endpoints: asked.endpoints.clone(),
        incarnation: before.map_or(first, |node| node.incarnation.next().max(first)),
        start_id: asked.start_id,
        state: NodeState::Up,
        flaps,
        drained: before.is_some_and(|node| node.drained),
        voucher_key: asked.voucher_key,
    };
    draft.changes.push(Change::NodePut(node.clone()));
    Ok(Answer::Node(node))
}

fn join(
    draft: &mut Draft<'_>,
    request: &Join,
    choose: &mut ChooseMgid<'_>,
) -> Result<Answer, Refusal> {
    let who = &request.member;
    let id = &request.request_id;
    match remembered(draft.base, id, &request.group.name)? {
        Some(Outcome::Joined { gn, pn, joined, node, process })
            if *node == who.node && *process == who.process =>
        {
            let ended = || Refusal::MembershipEnded { request_id: id.clone() };
            let group = draft.base.groups.get(gn).ok_or_else(ended)?;
            let member = group.members.get(pn).filter(|member| member.joined == *joined);
            let member = member.ok_or_else(ended)?;
            return Ok(joined_answer(draft, GroupRecord::clone(&group.record), member));
        }
        Some(_) => return Err(reused(id)),
        None => {}
    }
    let JoinedMembers { group, members } =
        draft.join(&request.group, std::slice::from_ref(who), choose)?;
    let member = members.into_iter().next().expect("one joiner gets one rank");
    if !draft.changes.is_empty() {
        let outcome = Outcome::Joined {
            gn: member.gn,
            pn: member.pn,
            joined: member.joined,
            node: member.node.clone(),
            process: member.process.clone(),
        };
        draft.remember(id, &group.name, outcome);
    }
    Ok(joined_answer(draft, group, &member))
}

fn joined_answer(draft: &Draft<'_>, group: GroupRecord, member: &MemberRecord) -> Answer {
    let agent = group.agent.as_ref().expect("a group with a member has an agent");
    let node = draft.base.node(agent).expect("an agent's node has registered");
    let from = draft.base.node(&member.node);
    let voucher = from.and_then(|from| node.vouch_for_join(group.epoch, member, from));
    let (agent_address, member) = (node.address.clone(), member.clone());
    Answer::Joined(Joined { agent_address, group, member, voucher })
}

fn create(
    draft: &mut Draft<'_>,
    request: &CreateGroup,
    choose: &mut ChooseMgid<'_>,
) -> Result<Answer, Refusal> {
    let id = &request.request_id;
    match remembered(draft.base, id, &request.group.name)? {
        Some(Outcome::Created { gn, .. }) => {
            let unknown = || Refusal::UnknownGroup { group: request.group.name.clone() };
            return draft.base.group(*gn).cloned().map(Answer::Created).ok_or_else(unknown);
        }
        Some(_) => return Err(reused(id)),
        None => {}
    }
    if draft.base.find_group(&request.group.name).is_some() {
        return Err(Refusal::GroupExists { group: request.group.name.clone() });
    }
    let mut spec = request.group.clone();
    spec.persistent = true;
    let JoinedMembers { group, .. } = draft.join(&spec, &[], choose)?;
    let outcome = Outcome::Created { gn: group.gn, revision: draft.revision };
    draft.remember(id, &group.name, outcome);
    Ok(Answer::Created(group))
}

fn leave(draft: &mut Draft<'_>, request: &Leave) -> Result<Answer, Refusal> {
    match remembered(draft.base, &request.request_id, &request.group)? {
        Some(Outcome::Left { gn, pn, revision, node, process })
            if *node == request.node && *process == request.process =>
        {
            return Ok(Answer::Left { gn: *gn, pn: *pn, revision: *revision });
        }
        Some(_) => return Err(reused(&request.request_id)),
        None => {}
    }
    draft.live_node(&request.node, request.incarnation)?;
    let gn = find(draft.base, &request.group)?;
    let pn = draft.base.groups[&gn].processes.find(&request.node, &request.process);
    let pn = pn.ok_or_else(|| Refusal::NotAMember {
        group: request.group.clone(),
        node: request.node.clone(),
        process: request.process.clone(),
    })?;
    draft.remove(gn, &BTreeSet::from([pn]));
    let revision = draft.revision;
    let outcome = Outcome::Left {
        gn,
        pn,
        revision,
        node: request.node.clone(),
        process: request.process.clone(),
    };
    draft.remember(&request.request_id, &request.group, outcome);
    Ok(Answer::Left { gn, pn, revision })
}

fn delete(draft: &mut Draft<'_>, request: &DeleteGroup) -> Result<Answer, Refusal> {
    let DeleteGroup { request_id, group, gn: begun, most } = request;
    match remembered(draft.base, request_id, group)? {
        Some(Outcome::Deleted { gn, revision }) => {
            return Ok(Answer::Deleted { gn: *gn, done: Some(*revision) });
        }
        Some(_) => return Err(reused(request_id)),
        None => {}
    }
    let gn = find(draft.base, group)?;
    if begun.is_some_and(|begun| begun != gn) {
        // Somebody else has ended it, and it was created anew.
        return Err(Refusal::UnknownGroup { group: group.clone() });
    }
    if draft.base.member_count(gn) > *most {
        draft.remove_last(gn, *most);
        return Ok(Answer::Deleted { gn, done: None });
    }
    draft.delete_group(gn);
    let revision = draft.revision;
    draft.remember(request_id, group, Outcome::Deleted { gn, revision });
    Ok(Answer::Deleted { gn, done: Some(revision) })
}

fn node_failed(
    draft: &mut Draft<'_>,
    node: &NodeName,
    incarnation: Option<Incarnation>,
) -> Result<Answer, Refusal> {
    let record = draft.base.node(node);
    let record = record.ok_or_else(|| Refusal::UnknownNode { node: node.clone() })?;
    let given = incarnation.unwrap_or(record.incarnation);
    if given > record.incarnation {
        let (node, known) = (node.clone(), record.incarnation);
        return Err(Refusal::StaleIncarnation { node, given, known });
    }
    if given < record.incarnation || record.state == NodeState::Failed {
        return Ok(Answer::Expelled(Expelled { memberships: 0, done: true }));
    }
    let expelled = draft.expel(node);
    if !expelled.done {
        return Ok(Answer::Expelled(expelled));
    }
    let flaps = draft.with_one_flap(record);
    let record = NodeRecord { state: NodeState::Failed, flaps, ..record.clone() };
    draft.changes.push(Change::NodePut(record));
    Ok(Answer::Expelled(expelled))
}

fn forget_flaps(draft: &mut Draft<'_>, node: &NodeName) -> Result<Answer, Refusal> {
    let record = draft.base.node(node);
    let record = record.ok_or_else(|| Refusal::UnknownNode { node: node.clone() })?;
    let clear = NodeRecord { flaps: None, ..record.clone() };
    if clear != *record {
        draft.changes.push(Change::NodePut(clear.clone()));
    }
    Ok(Answer::FlapsForgotten(clear))
}

fn drain_node(draft: &mut Draft<'_>, node: &NodeName, drained: bool) -> Result<Answer, Refusal> {
    let record = draft.base.node(node);
    let record = record.ok_or_else(|| Refusal::UnknownNode { node: node.clone() })?;
    let wanted = NodeRecord { drained, ..record.clone() };
    if wanted != *record {
        draft.changes.push(Change::NodePut(wanted.clone()));
    }
    Ok(Answer::NodeDrain(wanted))
}

/// Removes the record of a failed node, which has no members and owns no endpoints.
fn remove_node(draft: &mut Draft<'_>, node: &NodeName) -> Result<Answer, Refusal> {
    let record = draft.base.node(node);
    let record = record.ok_or_else(|| Refusal::UnknownNode { node: node.clone() })?;
    if record.state == NodeState::Up {
        return Err(Refusal::NodeUp { node: node.clone() });
    }
    draft.changes.push(Change::NodeRemoved(node.clone()));
    let next = record.incarnation.next();
    if next > draft.base.first_incarnation {
        draft.changes.push(Change::FirstIncarnationPut(next));
    }
    Ok(Answer::NodeRemoved)
}

fn routed(
    draft: &mut Draft<'_>,
    routes: &[(Gn, Route)],
    clean: Option<Revision>,
) -> Result<Answer, Refusal> {
    let known = draft.base.revision;
    let given = routes.iter().map(|(_, route)| ("routed_revision", route.revision));
    let given = given.chain(clean.map(|clean| ("clean_revision", clean)));
    if let Some((what, given)) = given.into_iter().find(|(_, given)| *given > known) {
        return Err(Refusal::FutureRevision { what, given, known });
    }
    let mut ignored = Vec::new();
    let latest: BTreeMap<Gn, &Route> = routes.iter().map(|(gn, route)| (*gn, route)).collect();
    for (gn, route) in latest {
        match draft.base.group(gn) {
            Some(group) if group.route.as_ref() == Some(route) => {}
            // A route of a revision that never was is replaced, too.
            Some(group)
                if group.route.as_ref().is_none_or(|held| {
                    held.revision <= route.revision || held.revision > known
                }) =>
            {
                let mut group = group.clone();
                group.route = Some(route.clone());
                group.changed = draft.revision;
                draft.changes.push(Change::GroupPut(group));
            }
            Some(_) | None => ignored.push(gn),
        }
    }
    let released = draft.base.retired.iter().filter(|(_, at)| Some(**at) <= clean);
    draft.changes.extend(released.map(|(mgid, _)| Change::MgidReleased(*mgid)));
    Ok(Answer::Routed { ignored })
}

fn find(directory: &Directory, group: &GroupName) -> Result<Gn, Refusal> {
    directory.find_group(group).ok_or_else(|| Refusal::UnknownGroup { group: group.clone() })
}
