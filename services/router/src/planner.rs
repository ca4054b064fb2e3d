//! Turns the TIC's records into groups for the engine, and its plan into tables and routes.
//!
//! Names become dense numbers here and nowhere else. A record that the fabric cannot serve (an
//! endpoint that is not in the topology) is reported, never a reason to stop.

mod batch;
mod explain;
mod handover;
mod reasons;
mod resume;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_proto::v1;
use fabricast_proto::v1::element::Kind;
use fabricast_routing::{
    BuildError, Change, EngineKind, EngineOptions, GroupPlan, Mgid, PortLoads, RoutingEngine,
    build_engine, metrics,
};
use fabricast_topology::{FatTree, Faults, Graph, NotFatTree, PortId, SwitchId};
use thiserror::Error;

use crate::image::Image;
use crate::mirror::{Mirror, MirrorGroup};
pub(crate) use handover::withdrawn;

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
    /// Groups that were taken out again, as they would not be alone, with what they were.
    kept_out: BTreeMap<u64, Change>,
    /// Whether faults changed since the last plan.
    faults_are_new: bool,
    /// Switches that cannot be programmed.
    dead: BTreeSet<SwitchId>,
    desired: Image,
    /// Spanning trees of the routes that groups were told, by GN.
    told_parts: BTreeMap<u64, u32>,
    /// Members that the topology does not have, by GN: the TIC may have another one by now.
    strangers: BTreeMap<u64, Vec<String>>,
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
            kept_out: BTreeMap::new(),
            faults_are_new: false,
            dead: BTreeSet::new(),
            desired: Image::default(),
            told_parts: BTreeMap::new(),
            strangers: BTreeMap::new(),
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
        // The same list again is no reason for an engine with a past to look anew.
        if faults != *self.engine.faults() {
            self.engine.set_faults(faults);
            self.faults_are_new = true;
        }
        self.dead.clone_from(&dead);
        dead
    }

    /// Takes over newer loads, by which roots are chosen from now on.
    pub(crate) fn set_loads(&mut self, loads: Arc<PortLoads>) {
        self.engine.set_loads(loads);
    }

    fn find_port(&self, port: &v1::PortName) -> Option<PortId> {
        let number = u8::try_from(port.port).ok()?;
        self.graph.port(self.graph.find_switch(&port.switch_name)?, number)
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
                route
                    .cut_off_endpoints
                    .extend(self.strangers.get(&gn).into_iter().flatten().cloned());
                route.virtual_group = u64::from(plan.virtual_group.0);
                if plan.has_tree() {
                    route.set_state(v1::RouteState::Routed);
                    let colors = self.engine.plan().sender_colors(plan.mgid);
                    route.color = colors.first().map_or(0, |color| u32::from(*color));
                    route.second_color = colors.get(1).map(|color| u32::from(*color));
                    route.reason = self.reason(plan.mgid);
                } else if group.incomplete {
                    route.reason = "waits for its members".to_owned();
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

    /// Fills in the figures of the plan.
    pub(crate) fn describe(&self, mirror: &Mirror, status: &mut v1::GetRouteStatusResponse) {
        let plan = self.engine.plan();
        let figures = metrics(&self.graph, plan);
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        status.engine = self.engine.kind().name().to_owned();
        status.colors = u32::from(plan.colors());
        status.routed_groups = count(plan.groups().filter(GroupPlan::has_tree).count());
        status.unicast_only_groups = count(mirror.groups.len()) - status.routed_groups;
        status.virtual_groups = count(plan.virtual_groups().filter(|one| one.tree == 0).count());
        status.fault_tolerant = plan.is_dual();
        let unprotected: BTreeSet<Mgid> = plan.unprotected().map(|one| one.mgid).collect();
        status.unprotected_groups = count(unprotected.len());
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
