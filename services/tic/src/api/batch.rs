//! A batch of groups: read from a stream, checked, and cut into portions for the writer.
//!
//! A portion is one decision and one store transaction. The cuts depend on the content of the batch
//! alone, so a repetition has the same portions under the same request ids, and those that are
//! durable already are answered from the log of requests.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZeroU32;
use std::sync::Arc;

use fabricast_groups::command::{FormGroup, FormGroups, FormMember, Formed, GroupSpec, Refusal};
use fabricast_groups::directory::{Directory, NewGroup};
use fabricast_groups::hints::{Layer, MgidHints};
use fabricast_groups::ids::{Incarnation, Moment};
use fabricast_groups::names::{GroupName, JobName, LayerName, NodeName, ProcessName, RequestId};
use fabricast_groups::token::JobToken;
use fabricast_proto::v1;
use fabricast_rpc::Reason;
use fabricast_topology::{Graph, Mgid, SplitMix};
use fabricast_wire::decode_tree;
use tonic::Status;

use crate::api::batch_limits::PacedMessages;
use crate::api::mgid_plan::GroupOutline;
use crate::api::{fields, members, status};
use crate::writer::directory;

/// Groups and memberships at which a portion is closed: few enough that other requests do not wait
/// long for the writer.
const PORTION: usize = 2_048;
/// MGIDs that the check of a portion looks at: as many as its groups find while 31 of 32 are taken.
const LOOKS: u32 = 1 << 16;

/// A batch that has been read.
pub(crate) struct Batch {
    request_id: RequestId,
    job: Option<JobName>,
    token: Option<JobToken>,
    groups: Vec<FormGroup>,
    names: BTreeSet<GroupName>,
    mgids: BTreeMap<Mgid, usize>,
    memberships: usize,
}

/// A part of a batch that is one decision.
pub(crate) struct Portion {
    pub(crate) request: Arc<FormGroups>,
    /// Index of its first group in the batch.
    pub(crate) first: usize,
    /// Its last group has more members, in the next portion.
    pub(crate) goes_on: bool,
}

impl Batch {
    /// Reads the messages of a batch.
    ///
    /// - `limit`: most memberships of a batch.
    pub(crate) async fn read(
        first: v1::FormGroupsRequest,
        messages: &mut PacedMessages<v1::FormGroupsRequest>,
        graph: &Graph,
        limit: usize,
    ) -> Result<Self, Status> {
        let mut batch = Self {
            request_id: fields::request_id(&first.request_id)?,
            job: members::job("job", &first.job)?,
            token: members::token("job_token", &first.job_token)?,
            groups: Vec::new(),
            names: BTreeSet::new(),
            mgids: BTreeMap::new(),
            memberships: 0,
        };
        let mut next = Some(first);
        while let Some(message) = next {
            for group in message.groups {
                batch.add(group, graph, limit)?;
            }
            next = messages.next().await?;
        }
        if batch.groups.is_empty() { Err(fields::missing("groups")) } else { Ok(batch) }
    }

    /// Names of the groups.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(GroupName::as_str)
    }

    /// Number of groups.
    pub(crate) fn len(&self) -> usize {
        self.groups.len()
    }

    fn add(
        &mut self,
        asked: v1::FormedGroupSpec,
        graph: &Graph,
        limit: usize,
    ) -> Result<(), Status> {
        let at = self.groups.len();
        let field = |name: &str| format!("groups[{at}].{name}");
        let name = fields::name(&field("group"), &asked.group, GroupName::new)?;
        if !self.names.insert(name.clone()) {
            let message = format!("{}: '{name}' is named twice in one batch", field("group"));
            return Err(Reason::GroupDiffers.status(message, &[("group", name.as_str())]));
        }
        let mgid = asked.mgid.map(Mgid);
        if let Some(other) = mgid.and_then(|mgid| self.mgids.insert(mgid, at)) {
            let message = format!("{}: groups[{other}] has the same", field("mgid"));
            return Err(Reason::MgidInUse.status(message, &[("group", name.as_str())]));
        }
        if asked.members.is_empty() {
            return Err(fields::missing(&field("members")));
        }
        self.memberships += asked.members.len();
        if self.memberships > limit {
            let message = format!("groups: more than {limit} memberships in one batch");
            return Err(Reason::LimitReached.status(message, &[("limit", "batch")]));
        }
        let member =
            |(index, member)| read_member(graph, &field(&format!("members[{index}]")), member);
        let members = asked.members.iter().enumerate().map(member);
        let members = members.collect::<Result<Vec<_>, _>>()?;
        let layer = match asked.layer.as_str() {
            "" => None,
            text => Some(Layer {
                name: fields::name(&field("layer"), text, LayerName::new)?,
                groups: 0,
                all_groups: 0,
            }),
        };
        let tree = asked.tree.as_ref().map(decode_tree).transpose();
        let group = GroupSpec {
            name,
            mgid,
            persistent: asked.persistent,
            exclusive: asked.exclusive,
            hints: MgidHints { layer, ..MgidHints::default() },
            job: self.job.clone(),
            complete_at: NonZeroU32::new(asked.complete_at_member_count),
            tree: tree.map_err(|error| error.within(&format!("groups[{at}]")))?,
            operation_bytes: asked.operation_byte_count,
            token: self.token.clone(),
        };
        self.groups.push(FormGroup { group, members });
        Ok(())
    }

    /// Cuts the batch into portions. Only groups of more members than a portion has are divided;
    /// they are routed when they are whole.
    pub(crate) fn cut(self) -> Result<Vec<Portion>, Status> {
        let mut portions: Vec<(usize, FormGroups, bool)> = Vec::new();
        let mut size = PORTION;
        for (at, group) in self.groups.into_iter().enumerate() {
            let mut parts = divided(group).peekable();
            while let Some(part) = parts.next() {
                if size >= PORTION {
                    let id = format!("{}#{}", self.request_id, portions.len());
                    let request_id = fields::name("request_id", &id, RequestId::new)?;
                    portions.push((at, FormGroups { request_id, groups: Vec::new() }, false));
                    size = 0;
                }
                size += 1 + part.members.len();
                if let Some((_, last, goes_on)) = portions.last_mut() {
                    last.groups.push(part);
                    *goes_on = parts.peek().is_some();
                }
                if parts.peek().is_some() {
                    size = PORTION;
                }
            }
        }
        let portion =
            |(first, request, goes_on)| Portion { request: Arc::new(request), first, goes_on };
        Ok(portions.into_iter().map(portion).collect())
    }
}

/// Parts of a group that are formed one after the other: the group itself, unless it is very large.
fn divided(group: FormGroup) -> impl Iterator<Item = FormGroup> {
    let FormGroup { mut group, mut members } = group;
    if members.len() > PORTION {
        let all = u32::try_from(members.len()).ok().and_then(NonZeroU32::new);
        group.complete_at = group.complete_at.max(all);
    }
    std::iter::from_fn(move || {
        let rest = members.split_off(members.len().min(PORTION));
        let members = std::mem::replace(&mut members, rest);
        (!members.is_empty()).then(|| FormGroup { group: group.clone(), members })
    })
}

/// The groups of portions, each with the endpoints of all its parts.
pub(crate) fn outlines(portions: &[Portion]) -> Vec<GroupOutline> {
    let mut outlines: Vec<GroupOutline> = Vec::new();
    for (at, portion) in portions.iter().enumerate() {
        let goes_on = at > 0 && portions[at - 1].goes_on;
        for (at, group) in portion.request.groups.iter().enumerate() {
            match outlines.last_mut().filter(|_| goes_on && at == 0) {
                Some(last) => last.endpoints.extend(outline(group).endpoints),
                None => outlines.push(outline(group)),
            }
        }
    }
    outlines
}

impl Portion {
    /// Checks that the directory would accept the portion; changes nothing.
    pub(crate) fn check(&self, directory: &Directory) -> Result<(), Status> {
        // The writer makes the real choice; any free MGID will do here.
        let mut free = FreeMgids::new(directory.limits().mgids, &self.request);
        let mut any = |group: &NewGroup<'_>| free.find(group.is_free);
        let request = Arc::clone(&self.request);
        let decided = directory::decide(directory, Moment(0), request, |_| {}, &mut any);
        let formed = decided.map_err(|refusal| status::refusal(&refusal))?.answer;
        self.formed(formed).1.map_or(Ok(()), Err)
    }

    /// Splits the answers into the groups that were formed and the first refusal.
    pub(crate) fn formed(
        &self,
        answers: Vec<Result<Formed, Refusal>>,
    ) -> (Vec<v1::FormedGroup>, Option<Status>) {
        let mut refused = None;
        let mut groups = Vec::with_capacity(answers.len());
        for (index, (asked, answer)) in self.request.groups.iter().zip(answers).enumerate() {
            match answer {
                Ok(formed) => groups.push(v1::FormedGroup {
                    group: asked.group.name.to_string(),
                    gn: formed.gn.0,
                    mgid: formed.mgid.0,
                    pns: formed.pns.iter().map(|pn| pn.0).collect(),
                }),
                Err(refusal) => {
                    let place = format!("groups[{}] '{}'", self.first + index, asked.group.name);
                    refused.get_or_insert_with(|| status::refusal_of(&place, &refusal));
                }
            }
        }
        (groups, refused)
    }
}

/// Finds free MGIDs with a bounded number of looks, also where very many are taken or not clean.
struct FreeMgids {
    mgids: u32,
    /// Those that the caller gives groups of the portion, which may come after those that need one.
    given: BTreeSet<Mgid>,
    looked: u32,
    chance: SplitMix,
}

impl FreeMgids {
    /// - `portion`: its id says where to look; nobody can take that beforehand for another's.
    fn new(mgids: u32, portion: &FormGroups) -> Self {
        let mut seed = DefaultHasher::new();
        portion.request_id.as_str().hash(&mut seed);
        let given = portion.groups.iter().filter_map(|one| one.group.mgid).collect();
        Self { mgids, given, looked: 0, chance: SplitMix::new(seed.finish()) }
    }

    /// Looks at each MGID once if there are few, else here and there.
    fn find(&mut self, is_free: &dyn Fn(Mgid) -> bool) -> Option<Mgid> {
        while self.looked < self.mgids.min(LOOKS) {
            let few = self.mgids <= LOOKS;
            let mgid = if few { self.looked } else { self.chance.below(self.mgids) };
            self.looked += 1;
            let mgid = Mgid(mgid);
            if !self.given.contains(&mgid) && is_free(mgid) {
                return Some(mgid);
            }
        }
        None
    }
}

/// Describes a group for the choice of its MGID.
fn outline(formed: &FormGroup) -> GroupOutline {
    GroupOutline {
        name: Some(formed.group.name.clone()),
        endpoints: formed.members.iter().map(|member| member.endpoint.clone()).collect(),
        mgid: formed.group.mgid,
        layer: formed.group.hints.layer.as_ref().map(|layer| layer.name.to_string()),
        exclusive: formed.group.exclusive,
    }
}

fn read_member(
    graph: &Graph,
    field: &str,
    member: &v1::FormedMember,
) -> Result<FormMember, Status> {
    let of = |name: &str| format!("{field}.{name}");
    let node = match member.node.as_str() {
        "" => None,
        text => Some(fields::name(&of("node"), text, NodeName::new)?),
    };
    Ok(FormMember {
        endpoint: fields::endpoint(graph, &of("endpoint"), &member.endpoint)?,
        process: fields::name(&of("process"), &member.process, ProcessName::new)?,
        node,
        incarnation: (member.incarnation > 0).then_some(Incarnation(member.incarnation)),
    })
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    /// - `given`: MGIDs of groups of the portion.
    fn free(mgids: u32, given: &[u32]) -> FreeMgids {
        let group = |mgid: &u32| {
            let name = GroupName::new(&format!("group/{mgid}")).unwrap();
            let group = GroupSpec { mgid: Some(Mgid(*mgid)), ..GroupSpec::new(name) };
            FormGroup { group, members: Vec::new() }
        };
        let request_id = RequestId::new("batch#0").unwrap();
        let groups = given.iter().map(group).collect();
        FreeMgids::new(mgids, &FormGroups { request_id, groups })
    }

    #[test]
    fn a_million_mgids_that_are_not_clean_cost_no_looks_at_each() {
        let (looks, used) = (Cell::new(0_u32), RefCell::new(BTreeSet::new()));
        let is_free = |mgid: Mgid| {
            looks.set(looks.get() + 1);
            mgid.0 >= 1_000_000 && !used.borrow().contains(&mgid)
        };
        let mut free = free(1 << 24, &[]);
        for _ in 0..PORTION {
            let found = free.find(&is_free).unwrap();
            assert!(found.0 < 1 << 24 && used.borrow_mut().insert(found));
        }
        assert!(looks.get() < 2 * 2_048, "{}", looks.get());
        // Even if all are taken, the records are not kept for long.
        assert_eq!(free.find(&|_| false), None);
        assert!(free.looked == LOOKS && free.find(&|_| true).is_none());
    }

    #[test]
    fn each_of_few_mgids_is_found() {
        let all = |given: &[u32]| -> Vec<u32> {
            let mut free = free(6, given);
            let next = || free.find(&|mgid| mgid != Mgid(2)).map(|mgid| mgid.0);
            std::iter::from_fn(next).collect()
        };
        assert_eq!(all(&[]), [0, 1, 3, 4, 5]);
        assert_eq!(all(&[0, 4]), [1, 3, 5], "others of the portion are given the rest");
    }
}
