//! Collectives with a switch tree that members ask for, at most one for each group.
//!
//! Invariants
//! - AGG-9: a collective that a member asked for is of exactly the members that its group has.

use fabricast_collectives::{ChoiceTable, Fallback, Operation, Refusal, TreeKind};
use fabricast_groups::directory::Directory;
use fabricast_groups::ids::Gn;
use fabricast_groups::names::AccountName;
use fabricast_groups::record::GroupRecord;
use fabricast_topology::Graph;

use super::view::threshold;
use super::{CollectiveTable, Item};
use crate::domain::collectives::error::CollectiveError;
use crate::domain::collectives::request::{CreateCollective, HolderName, RequestSwitchTree};
use crate::domain::collectives::text::Member;
use crate::domain::collectives::wire;

/// Operations that operating agents give to switches.
const OPERATIONS: [Operation; 3] = [Operation::Barrier, Operation::Broadcast, Operation::AllReduce];
/// Bytes of the longest contribution that operating agents give to switches.
const MOST_BYTES: u32 = 64 << 10;

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
        if let Some(name) = self.with_switches(gn, directory) {
            return Ok(RequestedTree { name, is_new: false });
        }
        let create = self.demanded(group, directory)?;
        // One that has lost its tree waits for entries and holds none: the new one replaces it.
        let waiting = self.requested.get(&gn.0).and_then(|name| self.items.remove(name));
        let created = self.create(&create, directory, graph).and_then(|is_new| {
            let exists = || CollectiveError::Differs { name: create.name.clone() };
            is_new.then_some(()).ok_or_else(exists)
        });
        match (created, waiting) {
            (Ok(()), Some(Item { id, .. })) => {
                self.names.remove(&id);
                self.allocator.release(id);
            }
            (Ok(()), None) => {}
            (Err(error), waiting) => {
                self.items.extend(waiting.map(|item| (create.name, item)));
                return Err(error);
            }
        }
        if let Some(item) = self.items.get_mut(&create.name) {
            item.requested = true;
        }
        self.requested.insert(gn.0, create.name.clone());
        Ok(RequestedTree { name: create.name, is_new: true })
    }

    /// The collective that a member of a group has asked for.
    pub(in crate::domain::collectives) fn requested_of(&self, gn: Gn) -> Option<&str> {
        self.requested.get(&gn.0).map(String::as_str)
    }

    /// The collective with a switch tree of exactly the members of a group; that with the newest
    /// tree, which agents take if there are several.
    fn with_switches(&self, gn: Gn, directory: &Directory) -> Option<String> {
        let is_of_members = |item: &Item| {
            item.members.len() == directory.member_count(gn)
                && directory.members(gn).map(Member::from).eq(item.members.iter().cloned())
        };
        let tree = |item: &Item| Some(self.allocator.collective(item.id)?.service.switch_tree()?.0);
        let items = self.items.iter();
        let of_members = items.filter(|(_, item)| item.gn == gn.0 && is_of_members(item));
        let (_, name) = of_members.filter_map(|(name, item)| Some((tree(item)?, name))).max()?;
        Some(name.clone())
    }

    /// The collective that a group is to get.
    fn demanded(
        &self,
        group: &GroupRecord,
        directory: &Directory,
    ) -> Result<CreateCollective, CollectiveError> {
        let processes = u32::try_from(directory.member_count(group.gn)).unwrap_or(u32::MAX);
        if processes < 2 {
            return Err(CollectiveError::SingleMember { group: group.name.clone() });
        }
        let settings = self.allocator.settings();
        let table = ChoiceTable::new(&settings.parameters, processes, &settings.limits);
        // The smallest messages decide: for larger ones adapters are faster still.
        let is_faster =
            |operation: &Operation| table.choose(*operation, 0).kind == TreeKind::Switch;
        if !OPERATIONS.iter().any(is_faster) {
            let why = Fallback::Slower;
            return Err(wire::refused(&self.ledger, Refusal::NoSwitchTree { why }));
        }
        let HolderName { tenant, job } = owner(group, directory);
        Ok(CreateCollective {
            name: format!("requested/{}", group.gn),
            group: group.name.clone(),
            tenant,
            job: job.unwrap_or_default(),
            operations: OPERATIONS.to_vec(),
            min_bytes: 0,
            max_bytes: threshold(settings, processes).min(MOST_BYTES),
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
