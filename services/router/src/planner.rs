//! Turns the TIC's records into groups for the engine, and its plan into tables and routes.
//!
//! Names become dense numbers here and nowhere else. A record that the fabric cannot serve (an
//! endpoint that is not in the topology) is reported, never a reason to stop.

mod explain;
mod handover;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_proto::v1;
use fabricast_proto::v1::element::Kind;
use fabricast_routing::{
    BrokenLink, BuildError, Change, Displacement, EngineKind, EngineOptions, GroupPlan, Mgid,
    RoutingEngine, build_engine, metrics, table_entries,
};
use fabricast_topology::{EndpointId, FatTree, Faults, Graph, NotFatTree, PortId, SwitchId};
use thiserror::Error;
use tracing::warn;

use crate::image::Image;
use crate::mirror::{Mirror, MirrorGroup};

/// Why no routes can be planned at all.
#[derive(Debug, Error)]
pub enum PlanError {
    /// The engine needs a fat tree.
    #[error("{engine} needs a fat tree; mr4lms works on any topology")]
    NotFatTree {
        /// The engine.
        engine: EngineKind,
        /// Why the topology is none.
        #[source]
        why: NotFatTree,
    },
    /// The engine refuses the settings.
    #[error("the engine refuses the settings")]
    Engine(#[from] BuildError),
}

/// The engine with what belongs to it.
#[derive(Debug)]
pub(crate) struct Planner {
    graph: Arc<Graph>,
    irregularities: Vec<String>,
    engine: Box<dyn RoutingEngine>,
    /// MGID under which the engine holds a group, by GN.
    planned: BTreeMap<u64, Mgid>,
    /// GNs that the engine cannot or must not hold, with the reason.
    refused: BTreeMap<u64, String>,
    desired: Image,
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
            graph: Arc::clone(graph),
            irregularities,
            engine,
            planned: BTreeMap::new(),
            refused: BTreeMap::new(),
            desired: Image::default(),
        })
    }

    pub(crate) fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The tables that the switches ought to hold.
    pub(crate) fn desired(&self) -> &Image {
        &self.desired
    }

    /// Takes over the failed parts of the fabric; returns the dead switches.
    pub(crate) fn set_failed(&mut self, failed: &[v1::Element]) -> BTreeSet<SwitchId> {
        let mut faults = Faults::new();
        let mut dead = BTreeSet::new();
        for element in failed.iter().filter_map(|element| element.kind.as_ref()) {
            match element {
                Kind::Link(port) => {
                    if let Some(port) = self.find_port(port) {
                        faults.fail_link(&self.graph, port);
                    }
                }
                Kind::SwitchName(name) => {
                    if let Some(switch) = self.graph.find_switch(name) {
                        faults.fail_switch(switch);
                        dead.insert(switch);
                    }
                }
                Kind::Endpoint(name) => {
                    if let Some(endpoint) = self.graph.find_endpoint(name) {
                        faults.fail_endpoint(endpoint);
                    }
                }
            }
        }
        self.engine.set_faults(faults);
        dead
    }

    fn find_port(&self, port: &v1::PortName) -> Option<PortId> {
        let number = u8::try_from(port.port).ok()?;
        self.graph.port(self.graph.find_switch(&port.switch_name)?, number)
    }

    /// Plans again after these groups changed.
    pub(crate) fn plan(&mut self, mirror: &Mirror, changed: &[u64]) {
        // A group that must not share a tree may have room now that others have changed.
        let exclusive =
            mirror.groups.iter().filter(|(_, group)| group.exclusive).map(|(gn, _)| *gn);
        let mut again: BTreeSet<u64> = changed.iter().copied().collect();
        again.extend(exclusive);
        // Deletions first: a new group may use the MGID of one that is gone.
        let mut gone = Vec::new();
        for gn in &again {
            self.refused.remove(gn);
            let stays =
                |mgid: &Mgid| mirror.groups.get(gn).is_some_and(|group| group.mgid == mgid.0);
            if let Some(mgid) = self.planned.get(gn).copied().filter(|mgid| !stays(mgid)) {
                self.planned.remove(gn);
                gone.push((*gn, Change::Delete { mgid }));
            }
        }
        self.change(gone);
        let puts = again.iter().filter_map(|gn| Some((*gn, self.put(mirror.groups.get(gn)?))));
        let puts: Vec<(u64, Change)> = puts.collect();
        for (gn, change) in &puts {
            self.planned.insert(*gn, change.mgid());
        }
        self.change(puts);
        self.take_out_merged_exclusive(mirror);
        self.desired = table_entries(&self.graph, self.engine.plan()).into_iter().collect();
    }

    fn put(&self, group: &MirrorGroup) -> Change {
        let mut members: Vec<EndpointId> =
            group.endpoints.values().filter_map(|name| self.graph.find_endpoint(name)).collect();
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
            if others > 0 {
                self.planned.remove(&gn);
                self.change(vec![(gn, Change::Delete { mgid })]);
                let reason =
                    format!("exclusive, and its tree would be shared with {others} groups");
                self.refused.insert(gn, reason);
            }
        }
    }

    /// Hands changes to the engine: all at once, or one by one if any of them is refused.
    fn change(&mut self, changes: Vec<(u64, Change)>) {
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

    /// The route of every group, as the TIC is told.
    pub(crate) fn routes(&self, mirror: &Mirror) -> BTreeMap<u64, v1::Route> {
        mirror.groups.iter().map(|(gn, group)| (*gn, self.route(*gn, group))).collect()
    }

    fn route(&self, gn: u64, group: &MirrorGroup) -> v1::Route {
        let mut route =
            v1::Route { routed_revision: group.members_revision, ..v1::Route::default() };
        route.set_state(v1::RouteState::UnicastOnly);
        let planned = self.engine.plan().group(Mgid(group.mgid));
        match planned.filter(|_| self.planned.contains_key(&gn)) {
            Some(plan) => {
                route.cut_off_endpoints = self.cut_off(&plan);
                // The TIC may have another topology by now.
                let unknown = group.endpoints.values();
                let unknown = unknown.filter(|name| self.graph.find_endpoint(name).is_none());
                route.cut_off_endpoints.extend(unknown.cloned());
                route.virtual_group = u64::from(plan.virtual_group.0);
                if plan.has_tree() {
                    route.set_state(v1::RouteState::Routed);
                    route.color = u32::from(plan.color);
                    route.reason = self.moved_reason(plan.mgid);
                } else {
                    route.reason = "fewer than two endpoints to connect".to_owned();
                }
            }
            None => route.reason = self.refusal(gn, group),
        }
        route
    }

    fn cut_off(&self, plan: &GroupPlan<'_>) -> Vec<String> {
        let name = |endpoint| self.graph.endpoint_name(endpoint).to_owned();
        plan.cut_off.iter().map(|cut| name(cut.endpoint)).collect()
    }

    fn moved_reason(&self, mgid: Mgid) -> String {
        let moved = self.engine.plan().moved();
        let found = moved.binary_search_by_key(&mgid, |moved| moved.mgid);
        found.map_or_else(
            |_| String::new(),
            |at| {
                let moved = &moved[at];
                let why = self.displacement(&moved.why);
                format!("moved from spanning tree {} to {}: {why}", moved.from, moved.to)
            },
        )
    }

    /// Why a group is not at home, with the names of this fabric.
    fn displacement(&self, why: &Displacement) -> String {
        match why {
            Displacement::TreeBroken { link: BrokenLink::Dead { port } } => {
                format!("its tree needs the dead link at {}", self.graph.port_label(*port))
            }
            Displacement::ColorHeld { endpoint, by } => {
                let name = self.graph.endpoint_name(*endpoint);
                format!("member {name} uses this color on spanning tree {by}")
            }
            Displacement::TreeBroken { link: BrokenLink::Missing { .. } }
            | Displacement::NoSharedRoot => why.to_string(),
        }
    }

    fn refusal(&self, gn: u64, group: &MirrorGroup) -> String {
        let unrouted = self.engine.plan().unrouted();
        let found = unrouted.binary_search_by_key(&group.mgid, |one| one.mgid.0);
        match (self.refused.get(&gn), found.ok().map(|at| &unrouted[at])) {
            (Some(reason), _) => reason.clone(),
            (None, Some(unrouted)) => format!(
                "{}; of all spanning trees {} lack a link and {} have a color in use by a member",
                self.displacement(&unrouted.why),
                unrouted.broken,
                unrouted.held
            ),
            (None, None) => "not planned".to_owned(),
        }
    }

    /// Fills in the figures of the plan.
    pub(crate) fn describe(&self, mirror: &Mirror, status: &mut v1::GetRouteStatusResponse) {
        let plan = self.engine.plan();
        let figures = metrics(&self.graph, plan);
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        status.engine = self.engine.kind().name().to_owned();
        status.colors = u32::from(plan.colors());
        status.routed_groups = count(plan.groups().filter(GroupPlan::has_tree).count());
        status.unicast_only_groups = count(mirror.groups.len()) - status.routed_groups;
        status.virtual_groups = count(plan.virtual_groups().count());
        status.max_efi = figures.switch_links.max_efi;
        status.mean_efi = figures.switch_links.mean_efi;
        status.max_tfi = figures.max_tfi;
        status.mean_tfi = figures.mean_tfi;
        status.used_entries = figures.max_entries;
        status.irregularities.clone_from(&self.irregularities);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use fabricast_topology::TableKind;
    use fabricast_topology::spec::TopologySpec;

    const FABRIC: &str = r#"
        kind = "leaf-spine"
        leaves = 2
        spines = 2
        endpoints_per_leaf = 4
    "#;

    fn planner() -> Planner {
        let graph = Arc::new(TopologySpec::parse(FABRIC).unwrap().generate().unwrap());
        let options = EngineOptions::new(2, TableKind::PerPort);
        Planner::new(&graph, EngineKind::CMr4lmsFixed, options).unwrap()
    }

    pub(crate) fn group(mgid: u32, endpoints: &[&str]) -> MirrorGroup {
        MirrorGroup {
            name: format!("g{mgid}"),
            mgid,
            members_revision: 7,
            endpoints: (0..).zip(endpoints.iter().map(|name| (*name).to_owned())).collect(),
            ..MirrorGroup::default()
        }
    }

    pub(crate) fn planned(groups: Vec<MirrorGroup>) -> (Planner, Mirror) {
        let mut planner = planner();
        let groups: BTreeMap<u64, MirrorGroup> = (1..).zip(groups).collect();
        let gns: Vec<u64> = groups.keys().copied().collect();
        let mut mirror = Mirror::default();
        mirror.groups = groups;
        planner.plan(&mirror, &gns);
        (planner, mirror)
    }

    #[test]
    fn groups_on_one_tree_that_meet_share_it_unless_one_is_exclusive() {
        // Two colors with two trees each: MGIDs 0 and 4 stand for the same tree.
        let (first, second) = (group(0, &["h0", "h4"]), group(4, &["h0", "h5"]));
        let (planner, mirror) = planned(vec![first.clone(), second.clone()]);
        let routes = planner.routes(&mirror);
        assert_eq!(routes[&1].virtual_group, routes[&2].virtual_group);
        assert_eq!(planner.explain(&mirror, "g4").unwrap().shares_with, ["g0"]);

        let alone = MirrorGroup { exclusive: true, ..second };
        let (planner, mirror) = planned(vec![first, alone]);
        let routes = planner.routes(&mirror);
        assert_eq!(routes[&1].state(), v1::RouteState::Routed);
        assert_eq!(routes[&2].state(), v1::RouteState::UnicastOnly);
        assert!(routes[&2].reason.starts_with("exclusive"), "{}", routes[&2].reason);
    }

    #[test]
    fn a_group_of_one_endpoint_has_no_route_and_no_entries() {
        let (planner, mirror) = planned(vec![group(3, &["h1", "h1"])]);
        let route = &planner.routes(&mirror)[&1];
        assert_eq!(route.state(), v1::RouteState::UnicastOnly);
        assert_eq!(route.routed_revision, 7);
        assert_eq!(planner.desired().len(), 0);
    }

    #[test]
    fn a_member_that_the_topology_does_not_have_is_named() {
        let (planner, mirror) = planned(vec![group(3, &["h0", "h4", "h99"])]);
        let route = &planner.routes(&mirror)[&1];
        assert_eq!(route.state(), v1::RouteState::Routed);
        assert_eq!(route.cut_off_endpoints, ["h99"]);
    }

    #[test]
    fn a_dead_link_moves_the_group_and_its_healing_moves_it_back() {
        let (mut planner, mirror) = planned(vec![group(0, &["h0", "h4"])]);
        let home = planner.desired().clone();
        let link = planner.explain(&mirror, "g0").unwrap().links;
        let link = link.iter().find(|link| link.peer_port > 0).unwrap();
        let name = v1::PortName { switch_name: link.switch_name.clone(), port: link.port };
        let dead = planner.set_failed(&[v1::Element { kind: Some(Kind::Link(name)) }]);
        assert!(dead.is_empty());
        planner.plan(&mirror, &[]);
        assert_ne!(*planner.desired(), home);
        let route = &planner.routes(&mirror)[&1];
        assert_eq!(route.state(), v1::RouteState::Routed);
        assert!(route.reason.starts_with("moved"), "{}", route.reason);
        planner.set_failed(&[]);
        planner.plan(&mirror, &[]);
        assert_eq!(*planner.desired(), home);
    }

    #[test]
    fn a_deleted_group_makes_room_for_another_with_its_mgid() {
        let (mut planner, mut mirror) = planned(vec![group(0, &["h0", "h4"])]);
        mirror.groups.clear();
        mirror.groups.insert(9, group(0, &["h1", "h5"]));
        planner.plan(&mirror, &[1, 9]);
        let routes = planner.routes(&mirror);
        assert_eq!(routes.keys().collect::<Vec<_>>(), [&9]);
        assert_eq!(routes[&9].state(), v1::RouteState::Routed);
    }
}
