//! Collectives with a switch tree that members ask for, at most one for each group.
//!
//! Every member of a group may ask. The answer to all but the first takes no longer for a large
//! group than for a small one: the collective is found by the group, and a refusal is remembered as
//! long as nothing has changed that it depends on.
//!
//! Invariants
//! - AGG-9: a collective that a member asked for is of exactly the members that its group has.

use fabricast_collectives::{Fallback, Operation, Refusal, TreeId, TreeKind};
use fabricast_groups::directory::Directory;
use fabricast_groups::ids::Gn;
use fabricast_groups::names::{AccountName, GroupName};
use fabricast_groups::record::GroupRecord;
use fabricast_topology::Graph;

use super::{CollectiveTable, Compared, RefusalBasis, RefusedRequest, threshold};
use crate::domain::collectives::error::CollectiveError;
use crate::domain::collectives::request::{
    CreateCollective, HolderName, REQUESTED, RequestSwitchTree,
};
use crate::domain::collectives::wire;

/// Operations that operating agents give to switches.
const OPERATIONS: [Operation; 3] = [Operation::Barrier, Operation::Broadcast, Operation::AllReduce];
/// Bytes of the longest contribution that operating agents give to switches.
const MOST_BYTES: u32 = 64 << 10;
/// Most collectives of others that are searched for one of the present members: the newest.
const MOST_COMPARED: usize = 8;

/// The collective that a member gets.
#[derive(Debug)]
pub(in crate::domain::collectives) struct RequestedTree {
    pub(in crate::domain::collectives) name: String,
    /// False if the members had it already.
    pub(in crate::domain::collectives) is_new: bool,
}

impl CollectiveTable {
    /// Finds the collective with a switch tree of the members that a group has now, or creates it.
    pub(in crate::domain::collectives) fn request_tree(
        &mut self,
        request: &RequestSwitchTree,
        directory: &Directory,
        graph: &Graph,
    ) -> Result<RequestedTree, CollectiveError> {
        let RequestSwitchTree { group: name, node, process } = request;
        let group = directory.find_group(name).and_then(|gn| directory.group(gn));
        let group = group.ok_or_else(|| CollectiveError::UnknownGroup { group: name.clone() })?;
        let gn = group.gn;
        if !directory.members_on(gn, node).any(|member| member.process == *process) {
            let (group, node, process) = (name.clone(), node.clone(), process.clone());
            return Err(CollectiveError::NotAMember { group, node, process });
        }
        if let Some(name) = self.with_switches(group, directory) {
            return Ok(RequestedTree { name, is_new: false });
        }
        let owner = owner(group, directory);
        let basis = RefusalBasis { members: group.members_revision, owner, freed: self.freed };
        if let Some(refused) = self.refused.get(&gn.0).filter(|refused| refused.basis == basis) {
            return Err(refused.error.clone());
        }
        let made = self
            .demanded(group, &basis.owner, directory)
            .and_then(|create| self.make(create, gn, directory, graph));
        match &made {
            Ok(_) => _ = self.refused.remove(&gn.0),
            Err(error) => {
                let refused = RefusedRequest { basis, error: error.clone() };
                self.refused.insert(gn.0, refused);
            }
        }
        made
    }

    /// Returns whether the members that a group has now have a collective with a switch tree.
    pub(in crate::domain::collectives) fn has_switch_tree(
        &mut self,
        group: &GroupName,
        directory: &Directory,
    ) -> bool {
        let group = directory.find_group(group).and_then(|gn| directory.group(gn));
        group.is_some_and(|group| self.with_switches(group, directory).is_some())
    }

    /// The collective that a member of a group has asked for.
    pub(in crate::domain::collectives) fn requested_of(&self, gn: Gn) -> Option<&str> {
        self.requested.get(&gn.0).map(String::as_str)
    }

    /// Forgets what was refused to the members of a group that has ended.
    pub(in crate::domain::collectives) fn forget_refusal(&mut self, gn: Gn) {
        self.refused.remove(&gn.0);
    }

    /// Creates the collective of a group, in place of one that has lost its tree.
    fn make(
        &mut self,
        create: CreateCollective,
        gn: Gn,
        directory: &Directory,
        graph: &Graph,
    ) -> Result<RequestedTree, CollectiveError> {
        if self.items.contains_key(&create.name) {
            self.before.item(&create.name, &self.items);
        }
        // That one waits for entries and holds none.
        let waiting = self.requested.get(&gn.0).and_then(|name| self.items.remove(name));
        let created = self.create(&create, directory, graph).and_then(|is_new| {
            let exists = || CollectiveError::Differs { name: create.name.clone() };
            is_new.then_some(()).ok_or_else(exists)
        });
        if let Err(error) = created {
            self.items.extend(waiting.map(|item| (create.name, item)));
            return Err(error);
        }
        if let Some(item) = waiting {
            self.free(&item);
        }
        if let Some(item) = self.items.get_mut(&create.name) {
            item.requested = true;
        }
        self.requested.insert(gn.0, create.name.clone());
        Ok(RequestedTree { name: create.name, is_new: true })
    }

    /// The collective with a switch tree of exactly the members of a group: that which a member
    /// asked for (AGG-9), or else the one with the newest tree.
    fn with_switches(&mut self, group: &GroupRecord, directory: &Directory) -> Option<String> {
        let requested = self.requested.get(&group.gn.0);
        if let Some(name) = requested.filter(|name| self.switch_tree_of(name).is_some()) {
            return Some(name.clone());
        }
        let of_group = self.of_group(group.gn.0).into_iter();
        let mut others: Vec<(TreeId, String)> =
            of_group.filter_map(|name| Some((self.switch_tree_of(&name)?, name))).collect();
        others.sort_unstable_by(|a, b| b.cmp(a));
        let mut newest = others.into_iter().take(MOST_COMPARED);
        let (_, name) = newest.find(|(_, name)| self.is_of_members(name, group, directory))?;
        Some(name)
    }

    fn switch_tree_of(&self, name: &str) -> Option<TreeId> {
        let collective = self.allocator.collective(self.items.get(name)?.id)?;
        Some(collective.service.switch_tree()?.0)
    }

    /// Returns whether a collective is of exactly the members of its group; compares them once.
    fn is_of_members(&mut self, name: &str, group: &GroupRecord, directory: &Directory) -> bool {
        let Some(item) = self.items.get_mut(name) else { return false };
        let (at, undone) = (group.members_revision, self.undone);
        let is_valid = |known: &Compared| (known.at, known.undone) == (at, undone);
        if let Some(known) = item.compared.filter(is_valid) {
            return known.are_same;
        }
        let mut pairs = directory.members(group.gn).zip(&*item.members);
        let are_same = item.members.len() == directory.member_count(group.gn)
            && pairs.all(|(record, member)| member.is(record));
        item.compared = Some(Compared { at, undone, are_same });
        are_same
    }

    /// The collective that a group is to get.
    fn demanded(
        &mut self,
        group: &GroupRecord,
        owner: &HolderName,
        directory: &Directory,
    ) -> Result<CreateCollective, CollectiveError> {
        let processes = u32::try_from(directory.member_count(group.gn)).unwrap_or(u32::MAX);
        if processes < 2 {
            return Err(CollectiveError::SingleMember { group: group.name.clone() });
        }
        let choices = self.allocator.choices(processes);
        // The smallest messages decide: for larger ones adapters are faster still.
        let is_faster =
            |operation: &Operation| choices.choose(*operation, 0).kind == TreeKind::Switch;
        if !OPERATIONS.iter().any(is_faster) {
            let why = Fallback::Slower;
            return Err(wire::refused(&self.ledger, Refusal::NoSwitchTree { why }));
        }
        Ok(CreateCollective {
            name: format!("{REQUESTED}{}", group.gn),
            group: group.name.clone(),
            tenant: owner.tenant.clone(),
            job: owner.job.clone().unwrap_or_default(),
            operations: OPERATIONS.to_vec(),
            min_bytes: 0,
            max_bytes: threshold(choices).min(MOST_BYTES),
            switch_tree_required: true,
        })
    }
}

/// The tenant and job whose entries a group takes: those of the share of its job, or else the
/// tenant with whose name and a '/' its own name begins.
fn owner(group: &GroupRecord, directory: &Directory) -> HolderName {
    let job = group.job.as_ref();
    let share = job.and_then(|job| directory.job(job)?.share.as_ref());
    let tenant = match share {
        Some(share) => share.account.as_ref().map_or("", AccountName::as_str),
        None => group.name.as_str().split_once('/').map_or("", |(tenant, _)| tenant),
    };
    HolderName { tenant: tenant.to_owned(), job: job.map(ToString::to_string) }
}
