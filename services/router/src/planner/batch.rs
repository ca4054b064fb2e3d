//! Takes changed groups to the engine, and nothing else: where the plan depends on the past, a change
//! that is none would make another one of it.

use std::collections::BTreeSet;

use fabricast_routing::{Change, Mgid, TableImage};
use fabricast_topology::EndpointId;
use tracing::warn;

use crate::mirror::{Mirror, MirrorGroup};
use crate::planner::Planner;

/// How the reason begins why a group that must not share a tree has none.
pub(super) const NO_ROOM: &str = "exclusive";

impl Planner {
    /// Plans again after these groups changed.
    pub(crate) fn plan(&mut self, mirror: &Mirror, changed: &[u64]) {
        // Deletions first: a new group may use the MGID of one that is gone.
        let mut gone = Vec::new();
        for gn in changed {
            let stays =
                |mgid: &Mgid| mirror.groups.get(gn).is_some_and(|group| group.mgid == mgid.0);
            if let Some(mgid) = self.planned.get(gn).copied().filter(|mgid| !stays(mgid)) {
                self.planned.remove(gn);
                gone.push((*gn, Change::Delete { mgid }));
            }
            if !mirror.groups.contains_key(gn) {
                self.refused.remove(gn);
                self.kept_out.remove(gn);
                self.told_parts.remove(gn);
            }
            self.note_strangers(*gn, mirror.groups.get(gn));
        }
        let put = |gn: &u64| Some((*gn, self.put(mirror.groups.get(gn)?)));
        let mut puts: Vec<(u64, Change)> = changed.iter().filter_map(put).collect();
        puts.retain(|(gn, change)| !self.knows(*gn, change));
        if self.faults_are_new || !gone.is_empty() || !puts.is_empty() {
            self.ask_again(mirror, &mut puts);
        }
        self.faults_are_new = false;
        self.change(gone);
        for (gn, change) in &puts {
            self.refused.remove(gn);
            self.planned.insert(*gn, change.mgid());
        }
        self.change(puts);
        self.take_out_merged_exclusive(mirror);
        // Trees with fault tolerance go through dead switches, too: nothing else has to change.
        let all = TableImage::new(&self.graph, self.engine.plan());
        self.desired = all.iter().filter(|entry| !self.dead.contains(&entry.switch)).collect();
    }

    fn note_strangers(&mut self, gn: u64, group: Option<&MirrorGroup>) {
        let names = group.into_iter().flat_map(|group| group.endpoints.values());
        let is_stranger = |name: &&String| self.graph.find_endpoint(name).is_none();
        let strangers: Vec<String> = names.filter(is_stranger).cloned().collect();
        if strangers.is_empty() {
            self.strangers.remove(&gn);
        } else {
            self.strangers.insert(gn, strangers);
        }
    }

    /// Adds groups that must not share a tree and had no room: others have changed.
    fn ask_again(&self, mirror: &Mirror, puts: &mut Vec<(u64, Change)>) {
        let known: BTreeSet<u64> = puts.iter().map(|(gn, _)| *gn).collect();
        let again = self.kept_out.keys().filter(|gn| !known.contains(gn));
        puts.extend(again.filter_map(|gn| Some((*gn, self.put(mirror.groups.get(gn)?)))));
        puts.sort_unstable_by_key(|(gn, _)| *gn);
    }

    /// Whether a group was planned like this before.
    fn knows(&self, gn: u64, change: &Change) -> bool {
        let Change::Put { mgid, members } = change else { return false };
        if self.kept_out.get(&gn) == Some(change) {
            return true;
        }
        self.planned.get(&gn) == Some(mgid)
            && self.engine.members(*mgid).is_some_and(|mut known| {
                known.sort_unstable();
                known == *members
            })
    }

    /// A group that waits for its members has none for the engine.
    pub(super) fn put(&self, group: &MirrorGroup) -> Change {
        let names = group.endpoints.values().filter(|_| !group.incomplete);
        let mut members: Vec<EndpointId> =
            names.filter_map(|name| self.graph.find_endpoint(name)).collect();
        members.sort_unstable();
        members.dedup();
        Change::Put { mgid: Mgid(group.mgid), members }
    }

    /// Groups that asked not to share a tree have no route where they would be merged.
    fn take_out_merged_exclusive(&mut self, mirror: &Mirror) {
        let exclusive: Vec<(u64, Mgid)> = self
            .planned
            .iter()
            .filter(|(gn, _)| mirror.groups.get(gn).is_some_and(|group| group.exclusive))
            .map(|(gn, mgid)| (*gn, *mgid))
            .collect();
        for (gn, mgid) in exclusive {
            let shared = self.engine.plan().virtual_group_of(mgid);
            let others = shared.map_or(0, |shared| shared.groups.len().saturating_sub(1));
            self.kept_out.remove(&gn);
            if others > 0 {
                self.planned.remove(&gn);
                self.change(vec![(gn, Change::Delete { mgid })]);
                let reason =
                    format!("{NO_ROOM}, and its tree would be shared with {others} groups");
                self.refused.insert(gn, reason);
                self.kept_out.insert(gn, self.put(&mirror.groups[&gn]));
            }
        }
    }

    /// Hands changes to the engine: all at once, or one by one if any of them is refused.
    pub(super) fn change(&mut self, changes: Vec<(u64, Change)>) {
        let batch: Vec<Change> = changes.iter().map(|(_, change)| change.clone()).collect();
        if self.engine.apply(&batch).is_ok() {
            return;
        }
        for (gn, change) in changes {
            if let Err(error) = self.engine.apply(&[change]) {
                warn!(group = gn, %error, "group refused by the engine");
                self.refused.insert(gn, error.to_string());
                self.planned.remove(&gn);
            }
        }
    }
}
