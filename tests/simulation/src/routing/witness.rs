//! State that the invariants check: the rows that switches hold, the plan as it should be, and
//! packets walked through the rows.
//!
//! The plan comes from a separate engine, which gets every change in the order of the TIC's
//! revisions. A route service may lag behind or be in the middle of a change, so all plans since
//! the tables last matched are remembered and allowed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_groups::Gn;
use fabricast_groups::directory::Directory;
use fabricast_groups::names::EndpointName;
use fabricast_groups::record::{GroupRecord, MemberRecord, RouteState};
use fabricast_routing::{
    Change, EngineKind, EngineOptions, GroupPlan, RoutingEngine, build_engine, table_entries,
};
use fabricast_topology::{
    EndpointId, FatTree, Faults, Graph, Mgid, Peer, PortId, PortSet, SwitchId, TableEntry,
    TableKind,
};

use super::tic::ElementKey;

/// Switch, input port (0 in per-switch tables), color.
pub(crate) type RowKey = (SwitchId, u8, u16);

#[derive(Debug)]
pub(crate) struct Witness {
    pub(crate) graph: Arc<Graph>,
    pub(crate) options: EngineOptions,
    pub(crate) rows: BTreeMap<RowKey, PortSet>,
    /// Actual faults, which packets meet.
    pub(crate) faults: Faults,
    pub(crate) engine: Box<dyn RoutingEngine>,
    /// Rows that the switches not known to be dead should hold.
    pub(crate) desired: BTreeMap<RowKey, PortSet>,
    /// Spanning trees on which each group was planned since the tables last matched.
    parts: BTreeMap<Gn, BTreeSet<u32>>,
    /// Endpoints of groups on each spanning tree since then; rows for them may remain.
    reachable: BTreeMap<u32, BTreeSet<EndpointId>>,
    /// Switches that lost their tables since then, and those that are still down.
    wiped: BTreeSet<SwitchId>,
    /// Groups that a failure has hit and that are not served again yet.
    pub(crate) hurt: BTreeSet<Gn>,
    /// Changes since the last check.
    pub(crate) news: News,
}

/// Parts of the state to check.
#[derive(Debug, Default)]
pub(crate) struct News {
    pub(crate) all: bool,
    pub(crate) colors: BTreeSet<u16>,
    pub(crate) groups: BTreeSet<Gn>,
    /// True if rows have changed since the tables last matched.
    pub(crate) unsettled: bool,
}

/// Walk of one packet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Walk {
    /// Endpoints reached, one for each copy.
    pub(crate) reached: Vec<EndpointId>,
    pub(crate) rows: Vec<RowKey>,
    /// Two copies arrived at one port.
    pub(crate) looped: bool,
    /// A copy met a dead port, or found no row at a switch that lost its table.
    pub(crate) hit: bool,
}

/// Builds the engine that route services use.
pub(crate) fn engine(graph: &Arc<Graph>, options: EngineOptions) -> Box<dyn RoutingEngine> {
    let tree = FatTree::detect(graph).ok().map(Arc::new);
    build_engine(EngineKind::CMr4lmsFixed, Arc::clone(graph), tree, options)
        .expect("the fabrics are fat trees")
}

impl Witness {
    pub(crate) fn new(graph: Arc<Graph>, options: EngineOptions) -> Self {
        Self {
            rows: BTreeMap::new(),
            desired: BTreeMap::new(),
            faults: Faults::new(),
            engine: engine(&graph, options),
            graph,
            options,
            parts: BTreeMap::new(),
            reachable: BTreeMap::new(),
            wiped: BTreeSet::new(),
            hurt: BTreeSet::new(),
            news: News::default(),
        }
    }

    /// Records a row that a switch has written.
    pub(crate) fn written(&mut self, switch: SwitchId, in_port: u8, color: u16, out: PortSet) {
        let key = (switch, in_port, color);
        let before = match out.is_empty() {
            true => self.rows.remove(&key),
            false => self.rows.insert(key, out),
        };
        if before.unwrap_or(PortSet::EMPTY) != out {
            self.news.colors.insert(color);
            self.news.unsettled = true;
        }
    }

    /// Records failed and repaired parts; a failed switch has lost its table.
    pub(crate) fn failed(&mut self, faults: &Faults, lost: Option<SwitchId>) {
        self.faults.clone_from(faults);
        if let Some(switch) = lost {
            self.rows.retain(|(at, ..), _| *at != switch);
            self.wiped.insert(switch);
        }
        self.news.all = true;
        self.news.unsettled = true;
    }

    /// Applies a decision of the TIC; `gone` are the homes that groups no longer have.
    pub(crate) fn decided(&mut self, directory: &Directory, gone: &[Mgid], changed: &[Gn]) {
        let deletions = gone.iter().map(|mgid| Change::Delete { mgid: *mgid });
        let puts = changed.iter().filter_map(|gn| directory.group(*gn));
        let puts = puts.map(|group| Change::Put {
            mgid: group.home(),
            members: endpoints(&self.graph, directory.members(group.gn)).into_iter().collect(),
        });
        let changes: Vec<Change> = deletions.chain(puts).collect();
        self.engine.apply(&changes).expect("R3: the engine takes what the TIC has decided");
        self.news.groups.extend(changed);
        self.planned(directory);
    }

    /// Applies a change of the failed parts that the TIC knows.
    pub(crate) fn told_of_faults(&mut self, failed: &BTreeSet<ElementKey>, directory: &Directory) {
        self.engine.set_faults(faults_of(&self.graph, failed));
        self.planned(directory);
    }

    fn planned(&mut self, directory: &Directory) {
        self.desired = rows_of(&self.graph, &*self.engine);
        self.news.unsettled = true;
        self.note_parts(directory);
    }

    fn note_parts(&mut self, directory: &Directory) {
        for group in directory.groups_from(Gn(0)) {
            let Some(planned) = self.engine.plan().group(group.home()) else { continue };
            self.parts.entry(group.gn).or_default().insert(planned.part);
            let members = endpoints(&self.graph, directory.members(group.gn));
            self.reachable.entry(planned.part).or_default().extend(members);
        }
    }

    /// Returns whether the TIC knows the route of a group as it is planned now. Equal rows do not
    /// imply that, since they may belong to another plan.
    pub(crate) fn is_told(&self, group: &GroupRecord) -> bool {
        let plan = self.engine.plan();
        let told = group.route.as_ref().filter(|route| !colors(route.state).is_empty());
        let planned = plan.group(group.home()).filter(GroupPlan::has_tree);
        let (Some(told), Some(planned)) = (told, &planned) else {
            return told.is_none() && planned.is_none();
        };
        let left_out: BTreeSet<_> = told.cut_off.iter().map(EndpointName::as_str).collect();
        let cut_off = planned.cut_off.iter().map(|cut| self.graph.endpoint_name(cut.endpoint));
        colors(told.state) == plan.sender_colors(group.home()) && left_out == cut_off.collect()
    }

    /// Records that the tables match the plan: earlier plans are not allowed any more.
    pub(crate) fn settled(&mut self, directory: &Directory) {
        self.parts.clear();
        self.reachable.clear();
        self.wiped.retain(|switch| !self.faults.switch_is_live(*switch));
        self.note_parts(directory);
        self.news.unsettled = false;
        self.news.all = true;
    }

    /// Returns whether packets of two groups may use the same row: the groups are on one spanning
    /// tree, or were until recently. Senders of a group that a failure has hit may still use
    /// entries that belong to another group by now.
    pub(crate) fn may_meet(&self, one: Gn, other: Gn) -> bool {
        if self.hurt.contains(&one) || self.hurt.contains(&other) {
            return true;
        }
        let (one, other) = (self.parts.get(&one), self.parts.get(&other));
        one.zip(other).is_some_and(|(one, other)| !one.is_disjoint(other))
    }

    /// Returns whether a row leads to endpoints only.
    pub(crate) fn leads_to_endpoints(&self, row: &RowKey) -> bool {
        let peer = |number| self.graph.port(row.0, number).map(|port| self.graph.peer(port));
        let mut out = self.rows.get(row).into_iter().flat_map(|out| out.iter());
        out.all(|number| matches!(peer(number), Some(Peer::Endpoint(_))))
    }

    /// Returns whether packets of a group may reach an endpoint.
    pub(crate) fn may_reach(&self, gn: Gn, endpoint: EndpointId) -> bool {
        let parts = self.parts.get(&gn).into_iter().flatten();
        let mut known = parts.filter_map(|part| self.reachable.get(part));
        known.any(|known| known.contains(&endpoint)) || self.hurt.contains(&gn)
    }

    fn is_live(&self, port: PortId) -> bool {
        self.faults.port_is_live(&self.graph, port)
    }

    /// Walks a packet through the rows.
    pub(crate) fn walk(&self, from: EndpointId, color: u16) -> Walk {
        let mut walk = Walk::default();
        let entry = self.graph.attachment(from).filter(|port| self.is_live(*port));
        walk.hit = entry.is_none();
        let mut arrivals: Vec<PortId> = entry.into_iter().collect();
        let mut seen = BTreeSet::new();
        while let Some(at) = arrivals.pop() {
            if !seen.insert(at) {
                walk.looped = true;
                continue;
            }
            let (switch, number) = (self.graph.switch_of(at), self.graph.port_number(at));
            let in_port = if self.options.tables == TableKind::PerPort { number } else { 0 };
            let key = (switch, in_port, color);
            let Some(out) = self.rows.get(&key) else {
                walk.hit |= self.wiped.contains(&switch);
                continue;
            };
            walk.rows.push(key);
            for number in out.iter().filter(|out| in_port != 0 || *out != number) {
                let Some(out) = self.graph.port(switch, number) else { continue };
                match self.graph.peer(out) {
                    _ if !self.is_live(out) => walk.hit = true,
                    Peer::Switch(other) => arrivals.push(other),
                    Peer::Endpoint(endpoint) => walk.reached.push(endpoint),
                    Peer::None => walk.hit = true,
                }
            }
        }
        walk
    }
}

/// Returns the rows of an engine's plan, without those of switches that it knows to be dead.
pub(crate) fn rows_of(graph: &Graph, engine: &dyn RoutingEngine) -> BTreeMap<RowKey, PortSet> {
    let rows = table_entries(graph, engine.plan()).into_iter();
    let row = |entry: TableEntry| ((entry.switch, entry.in_port, entry.color), entry.out);
    rows.filter(|entry| engine.faults().switch_is_live(entry.switch)).map(row).collect()
}

/// Converts a list of failed parts to faults.
pub(crate) fn faults_of(graph: &Graph, failed: &BTreeSet<ElementKey>) -> Faults {
    let mut faults = Faults::new();
    for element in failed {
        match element {
            ElementKey::Switch(at) => faults.fail_switch(*at),
            ElementKey::Link(at) => faults.fail_link(graph, *at),
        };
    }
    faults
}

/// Returns the endpoint of a member.
pub(crate) fn endpoint_of(graph: &Graph, member: &MemberRecord) -> EndpointId {
    graph.find_endpoint(member.endpoint.as_str()).expect("members have endpoints of the fabric")
}

/// Returns the endpoints of members, each once.
pub(crate) fn endpoints<'a>(
    graph: &Graph,
    members: impl Iterator<Item = &'a MemberRecord>,
) -> BTreeSet<EndpointId> {
    members.map(|member| endpoint_of(graph, member)).collect()
}

/// Returns the entries that packets of a route name.
pub(crate) fn colors(state: RouteState) -> Vec<u16> {
    match state {
        RouteState::Routed { colors, .. } => {
            std::iter::once(colors.first).chain(colors.second).collect()
        }
        RouteState::UnicastOnly => Vec::new(),
    }
}
