//! Decisions on whole groups at once: groups formed together, and groups that end with their job.
//!
//! The log keeps what a batch granted, so that its repetition after members have left does not
//! bring them back.

use std::collections::BTreeSet;

use super::draft::{Draft, check_limit};
use super::requests::{job_subject, remembered, reused};
use super::{ChooseMgid, Directory};
use crate::command::{
    Answer, DeleteJobGroups, FormGroup, FormGroups, FormMember, Formed, JobEnd, Joiner, Refusal,
};
use crate::ids::Pn;
use crate::names::{GroupName, JobName, RequestId};
use crate::record::{FormedPns, NodeState, Outcome};

pub(super) fn form(
    draft: &mut Draft<'_>,
    request: &FormGroups,
    choose: &mut ChooseMgid<'_>,
) -> Result<Answer, Refusal> {
    let FormGroups { request_id, groups } = request;
    let Some(first) = groups.first() else { return Ok(Answer::Formed(Vec::new())) };
    let asked = digest(groups);
    if let Some(formed) = answered(draft.base, request_id, &first.group.name, asked)? {
        return Ok(Answer::Formed(formed));
    }
    let wanted = groups.iter().map(|group| group.members.len()).sum();
    check_limit("memberships in the batch", wanted, draft.base.limits.batch)?;
    let mut names = BTreeSet::new();
    let mut formed = Vec::with_capacity(groups.len());
    for asked in groups {
        let group = asked.group.name.clone();
        formed.push(if !names.insert(&asked.group.name) {
            Err(Refusal::GroupNamedTwice { group })
        } else if asked.members.is_empty() {
            Err(Refusal::NoMembers { group })
        } else {
            form_one(draft, asked, choose)
        });
    }
    let pns: Result<Vec<FormedPns>, _> =
        formed.iter().map(|one| one.as_ref().map(compressed)).collect();
    if let Ok(groups) = pns
        && !draft.changes.is_empty()
    {
        let outcome = Outcome::Formed { digest: asked, groups };
        draft.remember(request_id, &first.group.name, outcome);
    }
    Ok(Answer::Formed(formed))
}

fn form_one(
    draft: &mut Draft<'_>,
    asked: &FormGroup,
    choose: &mut ChooseMgid<'_>,
) -> Result<Formed, Refusal> {
    let joiners = asked.members.iter().map(|member| joiner(draft.base, member));
    let joiners = joiners.collect::<Result<Vec<_>, _>>()?;
    let joined = draft.join(&asked.group, &joiners, choose)?;
    let (gn, mgid) = (joined.group.gn, joined.group.mgid);
    Ok(Formed { gn, mgid, pns: joined.members.iter().map(|member| member.pn).collect() })
}

/// Resolves a process of a batch: fills in its node and incarnation where the request leaves them
/// open.
fn joiner(directory: &Directory, member: &FormMember) -> Result<Joiner, Refusal> {
    let endpoint = &member.endpoint;
    let unowned = || Refusal::EndpointUnowned { endpoint: endpoint.clone() };
    let node = match &member.node {
        Some(node) => node,
        None => directory.owners.get(endpoint).ok_or_else(unowned)?,
    };
    let record = directory.node(node);
    let record = record.ok_or_else(|| Refusal::UnknownNode { node: node.clone() })?;
    if member.incarnation.is_none() && record.state == NodeState::Failed {
        return Err(Refusal::NodeFailed { node: node.clone() });
    }
    Ok(Joiner {
        node: node.clone(),
        incarnation: member.incarnation.unwrap_or(record.incarnation),
        endpoint: endpoint.clone(),
        process: member.process.clone(),
        sends_only: false,
    })
}

/// Returns the answer that a repeated batch got the first time; `None` if the batch is new.
fn answered(
    directory: &Directory,
    id: &RequestId,
    first: &GroupName,
    asked: u64,
) -> Result<Option<Vec<Result<Formed, Refusal>>>, Refusal> {
    match remembered(directory, id, first)? {
        Some(Outcome::Formed { digest, groups }) if *digest == asked => {
            Ok(Some(groups.iter().map(|pns| Ok(expanded(pns))).collect()))
        }
        Some(_) => Err(reused(id)),
        None => Ok(None),
    }
}

fn compressed(formed: &Formed) -> FormedPns {
    let mut runs: Vec<(Pn, u32)> = Vec::new();
    for pn in &formed.pns {
        match runs.last_mut() {
            Some((first, count)) if first.0.checked_add(*count) == Some(pn.0) => *count += 1,
            Some(_) | None => runs.push((*pn, 1)),
        }
    }
    FormedPns { gn: formed.gn, mgid: formed.mgid, runs }
}

fn expanded(pns: &FormedPns) -> Formed {
    let each = pns.runs.iter().flat_map(|(first, count)| (first.0..).map(Pn).zip(0..*count));
    Formed { gn: pns.gn, mgid: pns.mgid, pns: each.map(|(pn, _)| pn).collect() }
}

/// Returns a digest that distinguishes batches with one request id: FNV-1a over what the caller
/// chose. Left out are values that are filled in and may differ between attempts (nodes,
/// incarnations, the tree, which changes with the measured constants), and hints (layer, bytes of
/// operations): digests in the log must hold in all versions.
fn digest(groups: &[FormGroup]) -> u64 {
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    for FormGroup { group, members } in groups {
        hash.text(group.name.as_str());
        hash.number(group.mgid.map_or(u64::MAX, |mgid| u64::from(mgid.0)));
        hash.number(u64::from(group.persistent) << 1 | u64::from(group.exclusive));
        hash.text(group.job.as_ref().map_or("", JobName::as_str));
        hash.number(group.complete_at.map_or(0, |count| u64::from(count.get())));
        for member in members {
            hash.text(member.endpoint.as_str());
            hash.text(member.process.as_str());
        }
    }
    hash.0
}

struct Fnv(u64);

impl Fnv {
    fn byte(&mut self, byte: u8) {
        self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }

    fn number(&mut self, number: u64) {
        number.to_le_bytes().into_iter().for_each(|byte| self.byte(byte));
    }

    /// Hashes a text with a final zero byte, which no name contains.
    fn text(&mut self, text: &str) {
        text.bytes().chain([0]).for_each(|byte| self.byte(byte));
    }
}

/// Ends groups of a job.
pub(super) fn delete_job(
    draft: &mut Draft<'_>,
    request: &DeleteJobGroups,
) -> Result<Answer, Refusal> {
    let DeleteJobGroups { request_id, job, before, most, ended } = request;
    match remembered(draft.base, request_id, &job_subject(job))? {
        Some(Outcome::JobGroupsDeleted { revision, ended }) => {
            return Ok(Answer::JobGroupsDeleted { ended: *ended, done: Some(*revision) });
        }
        Some(_) => return Err(reused(request_id)),
        None => {}
    }
    let mut ended = *ended;
    let mut groups = draft.base.groups_of_job(job).take_while(|gn| gn < before).peekable();
    if groups.peek().is_none() && ended == JobEnd::default() {
        return Err(Refusal::UnknownJob { job: job.clone() });
    }
    if !draft.delete_job_groups(groups, *most, &mut ended) {
        return Ok(Answer::JobGroupsDeleted { ended, done: None });
    }
    let revision = draft.revision;
    let outcome = Outcome::JobGroupsDeleted { revision, ended };
    draft.remember(request_id, &job_subject(job), outcome);
    Ok(Answer::JobGroupsDeleted { ended, done: Some(revision) })
}
