//! Gives the TIC's records to the engine as groups, and turns the engine's plan into tables and
//! routes.
//!
//! A record that the fabric cannot serve (an endpoint that is not in the topology) is reported; it
//! never stops the planner.

mod explain;
mod fault_change;
mod handover;
mod planned_groups;
mod reach;
mod resume;
mod withheld;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_groups::ids::Gn;
use fabricast_groups::names::EndpointName;
use fabricast_groups::record::{Colors, Route, RouteState};
use fabricast_routing::{
    BuildError, Change, EngineKind, EngineOptions, GroupPlan, HomedGroup, Plan, PortLoads,
    RecordedChoice, RouteReason, RoutingEngine, TableImage, VirtualGroup, build_engine,
    virtual_group_entries,
};
use fabricast_topology::{
    EndpointId, FatTree, Faults, Graph, Mgid, NotFatTree, PortId, SwitchId, TableEntry,
};
use thiserror::Error;

pub use explain::RouteExplanation;
pub(crate) use handover::{
    Handover, RouteOverlap, has_color, needs_swap, sender_points, withdrawal,
};

use crate::directory_cache::{
    CachedGroup, CachedMember, DirectoryCache, FailedElement, RecordedEndpoint,
};
use crate::interface::Event;
use crate::planner::explain::ReportedReason;
use crate::planner::fault_change::FaultChange;
use crate::planner::planned_groups::PlannedGroups;
use crate::planner::reach::Reach;
use crate::planner::withheld::{PlannedRecords, WithheldPorts};
#[cfg(test)]
use crate::table_state::TableState;
use crate::table_state::Tables;

/// Reason why no routes can be planned at all.
#[derive(Debug, Error)]
pub enum PlanError {
    /// The engine needs a fat tree.
    #[error("{engine} needs a fat tree; mr4lms works on any topology")]
    NotFatTree {
        /// Engine that the settings name.
        engine: EngineKind,
        /// Reason why the topology is no fat tree.
        #[source]
        why: NotFatTree,
    },
    /// The engine refuses the settings.
    #[error("the engine refuses the settings")]
    Engine(#[from] BuildError),
}

/// The engine, and the state that ties its plan to the records.
#[derive(Debug)]
pub(crate) struct Planner {
    graph: Arc<Graph>,
    irregularities: Vec<String>,
    engine: Box<dyn RoutingEngine>,
    planned: PlannedGroups,
    /// Reasons of groups that the engine cannot or must not hold, by GN.
    refused: BTreeMap<Gn, ReportedReason>,
    /// Exclusive groups without a tree of their own, with the change that would plan them, by GN.
    kept_out: BTreeMap<Gn, Change>,
    /// Parts that failed or came back since the last plan.
    fault_change: FaultChange,
    /// Failed switches, which cannot be programmed.
    dead: BTreeSet<SwitchId>,
    /// Switches that failed or came back since the last plan.
    failed_or_back: BTreeSet<SwitchId>,
    /// Table entries of the plan, also those of dead switches.
    image: TableImage,
    /// Ports that the switches do not get of these entries.
    withheld: WithheldPorts,
    reach: Reach,
    /// Spanning trees of the routes that were reported, by GN.
    reported_parts: BTreeMap<Gn, u32>,
    /// Endpoints of members that the topology does not have, by GN. The TIC may have another
    /// topology by now.
    unknown_endpoints: BTreeMap<Gn, Vec<EndpointName>>,
    /// Facts for the log.
    events: Vec<Event>,
}

/// Switches and groups for which a plan may differ from the one before.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PlanChange {
    /// Switches that ought to hold other entries.
    pub(crate) switches: BTreeSet<SwitchId>,
    /// GNs of groups with another route, or another reason for it, or that are gone.
    pub(crate) groups: BTreeSet<Gn>,
    /// Parts of trees that groups have no longer, by GN.
    pub(crate) replaced: BTreeMap<Gn, Vec<ReplacedTree>>,
}

/// The switches where a tree, or a part of it, is no part of the plan any more, or will be none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReplacedTree {
    pub(crate) color: u16,
    /// Switches where it had ports, rising.
    pub(crate) switches: Vec<SwitchId>,
}

/// The groups as a search for better homes, or a preview of faults, needs them.
#[derive(Clone, Debug)]
pub struct PlannedForSearch {
    /// Parts of the fabric that have failed.
    pub faults: Faults,
    /// The planned groups.
    pub groups: Vec<(GroupLabel, HomedGroup)>,
    /// Choices of the engine.
    pub choices: Vec<RecordedChoice>,
}

/// Name and size of a planned group.
#[derive(Clone, Debug)]
pub struct GroupLabel {
    /// Name of the group.
    pub name: String,
    /// Number of its members.
    pub member_count: usize,
}

impl Planner {
    pub(crate) fn new(
        graph: &Arc<Graph>,
        kind: EngineKind,
        options: EngineOptions,
    ) -> Result<Self, PlanError> {
        let fat_tree = FatTree::detect(graph);
        let irregularities = match &fat_tree {
            Ok(tree) => tree.irregularities().iter().map(ToString::to_string).collect(),
            Err(why) => vec![why.to_string()],
        };
        let view = fat_tree.as_ref().ok().cloned().map(Arc::new);
        let engine = match (build_engine(kind, Arc::clone(graph), view, options), fat_tree) {
            (Err(BuildError::NeedsFatTree { kind: engine }), Err(why)) => {
                return Err(PlanError::NotFatTree { engine, why });
            }
            (built, _) => built?,
        };
        Ok(Self {
            image: TableImage::new(graph, engine.plan()),
            withheld: WithheldPorts::default(),
            reach: Reach::new(graph),
            graph: Arc::clone(graph),
            irregularities,
            engine,
            planned: PlannedGroups::default(),
            refused: BTreeMap::new(),
            kept_out: BTreeMap::new(),
            fault_change: FaultChange::default(),
            dead: BTreeSet::new(),
            failed_or_back: BTreeSet::new(),
            reported_parts: BTreeMap::new(),
            unknown_endpoints: BTreeMap::new(),
            events: Vec::new(),
        })
    }

    pub(crate) fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The entries that one switch ought to hold, rising by input port and color.
    pub(crate) fn entries(&self, switch: SwitchId) -> impl Iterator<Item = TableEntry> {
        // With fault tolerance trees may cross dead switches, which cannot be programmed.
        let switch = (!self.dead.contains(&switch)).then_some(switch);
        let rows = switch.into_iter().flat_map(|switch| self.image.rows(switch));
        rows.filter_map(|row| self.withheld.reduce(row))
    }

    /// The entries that all switches ought to hold.
    #[cfg(test)]
    pub(crate) fn desired(&self) -> TableState {
        self.graph.switches().flat_map(|switch| self.entries(switch)).collect()
    }

    /// Sets the failed parts of the fabric; returns the dead switches.
    pub(crate) fn set_failed(&mut self, failed: &[FailedElement]) -> BTreeSet<SwitchId> {
        let mut faults = Faults::new();
        let mut dead = BTreeSet::new();
        for element in failed {
            match *element {
                FailedElement::Link(port) => {
                    faults.fail_link(&self.graph, port);
                }
                FailedElement::Switch(switch) => {
                    faults.fail_switch(switch);
                    dead.insert(switch);
                }
                FailedElement::Endpoint(endpoint) => {
                    faults.fail_endpoint(endpoint);
                }
            }
        }
        // An engine whose plan depends on the past must not plan again for an equal list.
        if faults != *self.engine.faults() {
            self.fault_change.add(&self.graph, self.engine.faults(), &faults);
            self.engine.set_faults(faults);
        }
        self.failed_or_back.extend(self.dead.symmetric_difference(&dead));
        self.dead.clone_from(&dead);
        dead
    }

    /// Sets the loads by which the engine chooses roots from now on.
    pub(crate) fn set_loads(&mut self, loads: Arc<PortLoads>) {
        self.engine.set_loads(loads);
    }

    /// Plans again after some groups changed, or faults. Returns what may differ since the last
    /// call.
    ///
    /// Only real changes go to the engine: where the plan depends on the past, an equal group put
    /// again would change it.
    pub(crate) fn plan(&mut self, directory: &DirectoryCache, changed: &[Gn]) -> PlanChange {
        // Deletions first: a new group may use the MGID of one that is gone.
        let mut gone = Vec::new();
        let mut left = BTreeMap::new(); // MGIDs that the engine had before of groups that stay
        for gn in changed {
            let stays =
                |mgid: &Mgid| directory.groups.get(gn).is_some_and(|group| group.mgid == *mgid);
            if let Some(mgid) = self.planned.mgid(*gn).filter(|mgid| !stays(mgid)) {
                self.planned.remove(*gn);
                gone.push((*gn, Change::Delete { mgid }));
                left.extend(directory.groups.contains_key(gn).then_some((*gn, mgid)));
            }
            if !directory.groups.contains_key(gn) {
                self.refused.remove(gn);
                self.kept_out.remove(gn);
                self.reported_parts.remove(gn);
            }
            self.note_unknown_endpoints(*gn, directory.groups.get(gn));
        }
        let put = |gn: &Gn| Some((*gn, Self::put(directory.groups.get(gn)?)));
        let mut puts: Vec<(Gn, Change)> = changed.iter().filter_map(put).collect();
        puts.retain(|(gn, change)| !self.is_planned(*gn, change));
        if !self.fault_change.is_empty() || !gone.is_empty() || !puts.is_empty() {
            self.retry_kept_out(directory, &mut puts);
        }
        self.change(gone);
        let mut groups: BTreeSet<Gn> = changed.iter().copied().collect();
        for (gn, change) in &puts {
            self.refused.remove(gn);
            self.planned.insert(*gn, change.mgid());
            groups.insert(*gn);
        }
        self.change(puts);
        let exclusive = self.remove_shared_exclusive(directory);
        for gn in exclusive.iter().filter(|gn| self.planned.mgid(**gn).is_none()) {
            left.entry(*gn).or_insert(directory.groups[gn].mgid);
        }
        groups.extend(exclusive);
        self.walk_later(directory);
        let plan = self.engine.plan();
        let mut replaced = BTreeMap::new();
        let shared = |plan: &Plan, mgid| plan.group(mgid).map(|group| group.virtual_group);
        // Groups of a virtual group share their trees.
        let mut replaced_by = BTreeMap::new();
        let differing = plan.changed_groups(self.image.plan());
        for mgid in differing.iter().copied() {
            let Some(gn) = self.planned.gn(mgid) else { continue };
            groups.insert(gn);
            let before = left.remove(&gn).unwrap_or(mgid);
            let key = (shared(self.image.plan(), before), shared(plan, mgid));
            let trees = replaced_by.entry(key).or_insert_with(|| self.replaced_trees(before, mgid));
            if !trees.is_empty() {
                replaced.insert(gn, trees.clone());
            }
        }
        // Groups without a tree now.
        for (gn, before) in left {
            let trees = self.replaced_trees(before, directory.groups[&gn].mgid);
            replaced.extend((!trees.is_empty()).then_some((gn, trees)));
        }
        let mut switches = std::mem::take(&mut self.failed_or_back);
        switches.extend(self.image.update(&self.graph, plan));
        // Members of the records that changed may only send now, though the plan stays.
        let recorded = changed.iter().filter_map(|gn| Some(directory.groups.get(gn)?.mgid));
        let differing: BTreeSet<Mgid> = differing.into_iter().chain(recorded).collect();
        let records =
            PlannedRecords { graph: &self.graph, plan, planned: &self.planned, directory };
        switches.extend(self.withheld.update(records, &differing));
        self.walk(&groups);
        PlanChange { switches, groups, replaced }
    }

    /// Has the groups walked that a change of faults may concern, even if their plan stays.
    fn walk_later(&mut self, directory: &DirectoryCache) {
        let Self { planned, engine, reach, fault_change, .. } = self;
        let change = std::mem::take(fault_change);
        reach.walk_later(change.groups_on(engine.plan()).filter_map(|mgid| planned.gn(mgid)));
        let members = change.endpoints.iter().flat_map(|endpoint| directory.groups_at(*endpoint));
        let is_planned = |gn: &Gn| planned.mgid(*gn).is_some();
        reach.walk_later(members.map(|(gn, _)| gn).filter(is_planned));
    }

    /// Walks packets of some groups through the planned rows. Returns the GNs of those that miss
    /// other members than before.
    fn walk(&mut self, groups: &BTreeSet<Gn>) -> Vec<Gn> {
        let Self { planned, engine, image, reach, .. } = self;
        groups.iter().filter(|gn| planned.mgid(**gn).is_none()).for_each(|gn| reach.forget(*gn));
        let groups = groups.iter().filter_map(|gn| Some((*gn, planned.mgid(*gn)?)));
        reach.walk(engine.as_ref(), image, groups)
    }

    /// Walks packets of the next groups whose plan did not change when parts failed or came back
    /// that their trees lead over. Returns the GNs
    /// of those that miss other members than before.
    pub(crate) fn walk_waiting(&mut self) -> Vec<Gn> {
        let waiting = self.reach.take_waiting();
        self.walk(&waiting)
    }

    /// True if groups are still to be walked: see [`Self::walk_waiting`].
    pub(crate) fn has_waiting_walks(&self) -> bool {
        self.reach.is_waiting()
    }

    /// The parts of a group's trees in the plan before that no tree with their color has now.
    ///
    /// - `earlier`: MGID of the group in the plan before.
    fn replaced_trees(&self, earlier: Mgid, mgid: Mgid) -> Vec<ReplacedTree> {
        let now = self.engine.plan().virtual_group_trees(mgid);
        let mut replaced = Vec::new();
        for before in self.image.plan().virtual_group_trees(earlier) {
            let stays = |port: &PortId| {
                let mut same = now.iter().filter(|other| other.color == before.color);
                same.any(|other| other.ports.binary_search(port).is_ok())
            };
            let gone: Vec<PortId> =
                before.ports.iter().copied().filter(|port| !stays(port)).collect();
            if !gone.is_empty() {
                replaced.push(self.switches_of(before.color, &gone));
            }
        }
        replaced
    }

    /// The planned trees of a group.
    pub(crate) fn trees(&self, group: &CachedGroup) -> Vec<ReplacedTree> {
        let trees = self.engine.plan().virtual_group_trees(group.mgid);
        trees.iter().map(|one| self.switches_of(one.color, one.ports)).collect()
    }

    fn switches_of(&self, color: u16, ports: &[PortId]) -> ReplacedTree {
        let mut switches: Vec<SwitchId> =
            ports.iter().map(|port| self.graph.switch_of(*port)).collect();
        switches.dedup();
        ReplacedTree { color, switches }
    }

    fn note_unknown_endpoints(&mut self, gn: Gn, group: Option<&CachedGroup>) {
        let members = group.into_iter().flat_map(|group| group.members.values());
        let name = |member: &CachedMember| match &member.endpoint {
            RecordedEndpoint::Unknown(name) => Some(EndpointName::clone(name)),
            RecordedEndpoint::Known(_) => None,
        };
        let unknown: Vec<EndpointName> = members.filter_map(name).collect();
        if unknown.is_empty() {
            self.unknown_endpoints.remove(&gn);
        } else {
            self.unknown_endpoints.insert(gn, unknown);
        }
    }

    /// Adds the exclusive groups without a tree to the changes: there may be room now, as other
    /// groups or faults have changed.
    fn retry_kept_out(&self, directory: &DirectoryCache, puts: &mut Vec<(Gn, Change)>) {
        let known: BTreeSet<Gn> = puts.iter().map(|(gn, _)| *gn).collect();
        let again = self.kept_out.keys().filter(|gn| !known.contains(gn));
        puts.extend(again.filter_map(|gn| Some((*gn, Self::put(directory.groups.get(gn)?)))));
        puts.sort_unstable_by_key(|(gn, _)| *gn);
    }

    /// True if the group was planned with the same members before.
    fn is_planned(&self, gn: Gn, change: &Change) -> bool {
        let Change::Put { mgid, members } = change else { return false };
        if self.kept_out.get(&gn) == Some(change) {
            return true;
        }
        self.planned.mgid(gn) == Some(*mgid)
            && self.engine.members(*mgid).is_some_and(|mut known| {
                known.sort_unstable();
                known == *members
            })
    }

    /// The change that plans a group. A group that waits for its members is planned without any.
    fn put(group: &CachedGroup) -> Change {
        let mut members: Vec<EndpointId> = match group.incomplete {
            true => Vec::new(),
            false => group.endpoints().collect(),
        };
        members.sort_unstable();
        members.dedup();
        Change::Put { mgid: group.mgid, members }
    }

    /// Takes exclusive groups out of the plan whose tree other groups share. Returns their GNs, and
    /// those of exclusive groups that have a tree again.
    fn remove_shared_exclusive(&mut self, directory: &DirectoryCache) -> Vec<Gn> {
        let mut concerned = Vec::new();
        for gn in directory.exclusive() {
            let Some(mgid) = self.planned.mgid(gn) else { continue };
            let shared = self.engine.plan().virtual_group_of(mgid);
            let others = shared.map_or(0, |shared| shared.groups.len().saturating_sub(1));
            if self.kept_out.remove(&gn).is_some() {
                concerned.push(gn);
            }
            if others > 0 {
                self.planned.remove(gn);
                self.change(vec![(gn, Change::Delete { mgid })]);
                let trees = self.engine.plan().part_counts();
                let reason = self.reported(&[RouteReason::ExclusiveTreeShared { others, trees }]);
                self.refused.insert(gn, reason);
                self.kept_out.insert(gn, Self::put(&directory.groups[&gn]));
                concerned.push(gn);
            }
        }
        concerned
    }

    /// Applies changes to the engine: all at once, or one by one if it refuses any of them.
    fn change(&mut self, changes: Vec<(Gn, Change)>) {
        let batch: Vec<Change> = changes.iter().map(|(_, change)| change.clone()).collect();
        if self.engine.apply(&batch).is_ok() {
            return;
        }
        for (gn, change) in changes {
            if let Err(error) = self.engine.apply(&[change]) {
                let reason = self.reported(&[RouteReason::Refused(error.clone())]);
                self.events.push(Event::GroupRefused { gn, error });
                self.refused.insert(gn, reason);
                self.planned.remove(gn);
            }
        }
    }

    /// True if the switches hold all entries that packets of a planned route need.
    ///
    /// Cost: the ports of its trees, and their entries in the switches that lack any entry.
    pub(crate) fn is_programmed(&self, route: &Route, tables: &Tables) -> bool {
        let RouteState::Routed { virtual_group, .. } = route.state else { return true };
        let Ok(id) = u32::try_from(virtual_group) else { return false };
        let trees = self.engine.plan().virtual_group_trees(Mgid(id));
        let kind = self.engine.plan().tables();
        // The desired entries of a dead switch are none, so it lacks none.
        let lacks = |port: &PortId| tables.lacks_entries(self.graph.switch_of(*port));
        !trees.is_empty()
            && trees.iter().all(|tree| {
                let ports: Vec<PortId> = tree.ports.iter().copied().filter(lacks).collect();
                let part = VirtualGroup { ports: &ports, ..*tree };
                let entries = virtual_group_entries(&self.graph, kind, &part);
                let mut entries = entries.into_iter().filter_map(|row| self.withheld.reduce(row));
                entries.all(|entry| tables.held().covers(&entry))
            })
    }

    /// Notes that the route that is planned now was reported.
    pub(crate) fn note_reported(&mut self, gn: Gn, group: &CachedGroup) {
        if let Some(part) = self.part(group) {
            self.reported_parts.insert(gn, part);
        }
    }

    /// Notes that a route was reported before its entries were swapped: they may still belong to
    /// another spanning tree.
    pub(crate) fn note_reported_early(&mut self, gn: Gn) {
        self.reported_parts.remove(&gn);
    }

    /// Spanning tree of a group in the plan.
    fn part(&self, group: &CachedGroup) -> Option<u32> {
        self.engine.plan().group(group.mgid).map(|planned| planned.part)
    }

    /// Planned routes of all groups.
    #[cfg(test)]
    pub(crate) fn routes(&self, directory: &DirectoryCache) -> BTreeMap<Gn, Route> {
        directory.groups.iter().map(|(gn, group)| (*gn, self.route(*gn, group))).collect()
    }

    /// Planned route of a group.
    pub(crate) fn route(&self, gn: Gn, group: &CachedGroup) -> Route {
        let planned = self.engine.plan().group(group.mgid);
        let Some(plan) = planned.filter(|_| self.planned.mgid(gn).is_some()) else {
            return self.refusal(gn, group).route(group.members_revision);
        };
        let colors = self.engine.plan().sender_colors(plan.mgid);
        let reason = if let Some(missed) = self.reach.missed(gn) {
            self.reported(&[RouteReason::MembersMissed(missed.to_vec())])
        } else if plan.has_tree() {
            self.special_reasons(plan.mgid)
        } else if group.incomplete {
            self.reported(&[RouteReason::WaitsForMembers])
        } else {
            self.reported(&[RouteReason::FewerThanTwoEndpoints])
        };
        let mut route = reason.route(group.members_revision);
        if plan.has_tree() && self.reach.missed(gn).is_none() {
            let first = colors.first().copied().unwrap_or(0);
            let colors = Colors { first, second: colors.get(1).copied() };
            let virtual_group = u64::from(plan.virtual_group.0);
            route.state = RouteState::Routed { colors, virtual_group };
        }
        route.cut_off = self.cut_off(&plan);
        route.cut_off.extend(self.unknown_endpoints.get(&gn).into_iter().flatten().cloned());
        route
    }

    fn cut_off(&self, plan: &GroupPlan<'_>) -> Vec<EndpointName> {
        let name = |endpoint| EndpointName::new(self.graph.endpoint_name(endpoint)).ok();
        plan.cut_off.iter().filter_map(|cut| name(cut.endpoint)).collect()
    }

    /// The groups that the engine plans, by name, and the faults.
    pub(crate) fn planned_groups(&self, directory: &DirectoryCache) -> PlannedForSearch {
        let planned = |(gn, group): (&Gn, &CachedGroup)| {
            let home = self.planned.mgid(*gn)?;
            let mut members = self.engine.members(home)?;
            members.sort_unstable();
            let homed = HomedGroup { home, members, exclusive: group.exclusive };
            let member_count = group.members.len();
            Some((GroupLabel { name: group.name().to_owned(), member_count }, homed))
        };
        let groups = directory.groups.iter().filter_map(planned).collect();
        let choices = self.engine.choices();
        PlannedForSearch { faults: self.engine.faults().clone(), groups, choices }
    }

    /// The engine's name and plan, and what it says of the topology.
    pub(crate) fn status(&self) -> PlanStatus<'_> {
        PlanStatus {
            engine: self.engine.kind(),
            irregularities: &self.irregularities,
            missing_groups: self.reach.missing_groups(),
            plan: self.engine.plan(),
        }
    }

    /// Takes the facts for the log since the last call.
    pub(crate) fn take_events(&mut self) -> Vec<Event> {
        let mut events = std::mem::take(&mut self.events);
        events.append(&mut self.reach.events);
        events
    }
}

/// State of the planner, for people.
#[derive(Clone, Copy, Debug)]
pub struct PlanStatus<'a> {
    /// Engine that plans the trees.
    pub engine: EngineKind,
    /// Contradictions of the topology to a fat tree.
    pub irregularities: &'a [String],
    /// Number of groups whose planned trees miss a member.
    pub missing_groups: usize,
    /// The plan as it was computed last.
    pub plan: &'a Plan,
}

#[cfg(test)]
pub(crate) mod tests;
