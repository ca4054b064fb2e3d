//! Random batches of which the store refuses some.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use fabricast_collectives::Settings;
use fabricast_groups::command::{
    DeleteGroup, DeleteJob, DeleteJobGroups, FormGroup, FormGroups, FormMember, GroupMove,
    GroupSpec, JobEnd, Join, Joiner, Leave, RegisterNode,
};
use fabricast_groups::directory::Limits;
use fabricast_groups::ids::{Gn, Incarnation, Moment, Revision};
use fabricast_groups::job::{CreateJob, JobNode, JobNodes, JobShare, ReserveJob};
use fabricast_groups::names::{
    Address, EndpointName, GroupName, JobName, NodeName, ProcessName, RequestId,
};
use fabricast_groups::record::{Route, RouteReason, RouteState};
use fabricast_groups::token::JobToken;
use fabricast_placement::JobClass;
use fabricast_placement::share::ShareRules;
use fabricast_routing::EngineOptions;
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{Graph, Mgid, SplitMix, TableKind, ibnetdiscover};

use super::*;
use crate::domain::collectives::CollectiveParts;
use crate::domain::collectives::text::Texts;
use crate::domain::elements::FailedElements;
use crate::domain::mgids::view::MgidView;
use crate::domain::topology::TopologySource;
use crate::records::keys::{Keys, RECORDS};
use crate::records::watchers::Watchers;
use crate::writer::directory::{
    DrainNode, ForgetFlaps, MoveGroups, NodeFailed, RecordRoutes, RemoveNode,
};

/// So few MGIDs that new groups meet each other's.
const MGIDS: u32 = 20;
/// Endpoints of the nodes.
const NODES: [&[&str]; 4] = [&["h0", "h1"], &["h2", "h3"], &["h4"], &["h5"]];

fn limits() -> Limits {
    Limits { mgids: MGIDS, requests: 12, ends: 3, ..Limits::default() }
}

fn options() -> EngineOptions {
    EngineOptions::new(2, TableKind::PerPort)
}

fn rules() -> ShareRules {
    ShareRules { entries: 9, groups: None, account_groups: None, accounts: BTreeMap::new() }
}

/// A writer's state beside what its store holds.
struct World {
    graph: Arc<Graph>,
    state: WriterState,
    writes: BatchWrites,
    store: Keys,
    chance: SplitMix,
    /// Number of the latest request.
    number: u32,
}

/// Everything that the writer decides on.
#[derive(Debug, PartialEq)]
struct View {
    directory: Directory,
    shares: String,
    mgids: MgidView,
}

impl World {
    fn new(seed: u64) -> Self {
        let spec = "kind = 'leaf-spine'\nleaves = 2\nspines = 2\nendpoints_per_leaf = 4\n";
        let graph = Arc::new(TopologySpec::parse(spec).unwrap().generate().unwrap());
        let source = TopologySource::File(ibnetdiscover::write(&graph).into(), Arc::clone(&graph));
        let topology = TopologySnapshot::new(&source, None, options());
        let directory = Directory::new(limits());
        let (failed, watchers) = (FailedElements::default(), Watchers::new(1, 1));
        let records = Arc::new(Records::new(&topology, directory.clone(), failed, watchers));
        let collectives = CollectiveAllocations::new(CollectiveParts {
            graph: Arc::clone(&graph),
            settings: Settings::default(),
            configured: None,
            topology: "one".to_owned(),
            texts: Texts::new(),
            publisher: Arc::clone(&records.collectives),
        });
        let state = WriterState {
            mgids: MgidAllocations::new(Arc::clone(&graph), options(), &directory).unwrap(),
            shares: JobShares::new(Arc::clone(&graph), rules(), &directory),
            directory,
            inverses: Vec::new(),
            collectives,
            route_terms: RouteTerms::new(0, Duration::from_secs(2)),
            next_topology: None,
            records,
            liveness: Arc::default(),
            has_space: true,
        };
        let (writes, store) = (BatchWrites::default(), Keys::new());
        Self { graph, state, writes, store, chance: SplitMix::new(seed), number: 0 }
    }

    fn view(&self) -> View {
        let WriterState { directory, shares, mgids, .. } = &self.state;
        View { directory: directory.clone(), shares: shares.view(), mgids: mgids.view(MGIDS) }
    }

    /// Decides a random request; returns whether it was made.
    fn decide(&mut self) -> bool {
        self.state.has_space = self.chance.below(8) > 0;
        let node = self.chance.below(4);
        match self.chance.below(22) {
            0..=2 => self.register(node),
            3..=5 => self.join(node),
            6..=8 => self.form(node),
            9 | 10 => self.leave(node),
            11 => self.ask(NodeFailed { node: node_name(node), incarnation: None }),
            12 => {
                let drained = self.chance.below(2) > 0;
                self.ask(DrainNode { node: node_name(node), drained })
            }
            13 => self.ask(RemoveNode { node: node_name(node) }),
            14 => {
                let (request_id, group) = (self.request_id(), self.group_name());
                self.ask(DeleteGroup { request_id, group, gn: None, most: 3 })
            }
            15 => {
                let (request_id, job) = (self.request_id(), self.job_name());
                let (before, ended) = (Gn(u64::MAX), JobEnd::default());
                self.ask(DeleteJobGroups { request_id, job, before, most: 4, ended })
            }
            16 => {
                let (request_id, job, nodes) = (self.request_id(), self.job_name(), job_node(node));
                self.ask(CreateJob { request_id, job, class: JobClass::T1, nodes })
            }
            17 => self.reserve(node),
            18 => {
                let (request_id, job) = (self.request_id(), self.job_name());
                self.ask(DeleteJob { request_id, job, most: 4, ended: JobEnd::default() })
            }
            19 => self.move_group(),
            20 => self.ask(ForgetFlaps { node: node_name(node) }),
            _ => self.report_route(),
        }
    }

    fn ask<R: DirectoryRequest>(&mut self, request: R) -> bool {
        self.state.decide(request, &mut self.writes).is_ok()
    }

    fn register(&mut self, node: u32) -> bool {
        self.number += 1;
        self.ask(RegisterNode {
            name: node_name(node),
            address: Address::new("10.0.0.1:1").unwrap(),
            endpoints: endpoints(node),
            start_id: self.number.into(),
            voucher_key: None,
        })
    }

    fn join(&mut self, node: u32) -> bool {
        let (request_id, group) = (self.request_id(), self.spec());
        let member = self.joiner(node);
        self.ask(Join { request_id, group, member })
    }

    fn form(&mut self, node: u32) -> bool {
        let mut groups = Vec::new();
        for other in [node, (node + 1) % 4] {
            let group = self.spec();
            let members = [node, other].map(|node| FormMember::from(self.joiner(node)));
            groups.push(FormGroup { group, members: members.to_vec() });
        }
        let request_id = self.request_id();
        self.ask(Arc::new(FormGroups { request_id, groups }))
    }

    fn leave(&mut self, node: u32) -> bool {
        let (request_id, group) = (self.request_id(), self.group_name());
        let Joiner { node, incarnation, process, .. } = self.joiner(node);
        self.ask(Leave { request_id, group, node, incarnation, process })
    }

    fn reserve(&mut self, node: u32) -> bool {
        let job = self.job_name();
        let is_known = self.state.directory.job(&job).is_some();
        let share = JobShare {
            user: None,
            account: None,
            groups: 2,
            aggregation_entries: 0,
            reservation: None,
            steps: 1,
            token: token().hash(),
            ends: Some(Moment(self.chance.below(9).into())),
            expires: None,
            ending: false,
        };
        let nodes = if is_known { JobNodes::default() } else { job_node(node) };
        self.ask(ReserveJob { job, nodes, share })
    }

    fn move_group(&mut self) -> bool {
        let Some((gn, from)) = self.some_group() else { return false };
        let to = Mgid(self.chance.below(MGIDS));
        let moves = self.state.mgids.free_homes(&[GroupMove { gn, from, to }]);
        self.ask(MoveGroups(moves))
    }

    fn report_route(&mut self) -> bool {
        let revision = self.state.directory.revision();
        let clean = Some(Revision(revision.0.saturating_sub(self.chance.below(4).into())));
        let route = Route {
            revision,
            state: RouteState::UnicastOnly,
            reason: String::new(),
            reason_code: RouteReason::Unspecified,
            cut_off: Vec::new(),
        };
        let routes = self.some_group().map(|(gn, _)| (gn, route)).into_iter().collect();
        self.ask(RecordRoutes { routes, clean })
    }

    /// A group that exists, and its home.
    fn some_group(&mut self) -> Option<(Gn, Mgid)> {
        let at = self.chance.below(6);
        let mut groups = self.state.directory.groups_from(Gn(0));
        groups.nth(at.try_into().unwrap()).map(|group| (group.gn, group.home()))
    }

    /// Mostly that of a new request.
    fn request_id(&mut self) -> RequestId {
        self.number += 1;
        let repeated = u32::from(self.chance.below(6) == 0);
        RequestId::new(&format!("r{}", self.number - repeated)).unwrap()
    }

    fn group_name(&mut self) -> GroupName {
        GroupName::new(&format!("g{}", self.chance.below(5))).unwrap()
    }

    fn job_name(&mut self) -> JobName {
        JobName::new(&format!("j{}", self.chance.below(2))).unwrap()
    }

    fn spec(&mut self) -> GroupSpec {
        let job = Some(self.job_name()).filter(|_| self.chance.below(2) > 0);
        GroupSpec {
            persistent: self.chance.below(4) == 0,
            exclusive: self.chance.below(4) == 0,
            job,
            complete_at: NonZeroU32::new(self.chance.below(4)),
            token: Some(token()),
            ..GroupSpec::new(self.group_name())
        }
    }

    fn joiner(&mut self, node: u32) -> Joiner {
        let known = self.state.directory.node(&node_name(node));
        let incarnation = known.map_or(Incarnation(1), |known| known.incarnation);
        let endpoints = endpoints(node);
        let at = self.chance.below(2) as usize % endpoints.len();
        let process = ProcessName::new(&format!("p{}", self.chance.below(3))).unwrap();
        let (node, endpoint) = (node_name(node), endpoints[at].clone());
        Joiner { node, incarnation, endpoint, process, sends_only: self.chance.below(4) == 0 }
    }

    fn commit(&mut self) {
        let BatchWrites { puts, changes } = take(&mut self.writes);
        keys::apply(&mut self.store, &puts);
        self.state.committed();
        self.state.records.publish(&changes, &[]);
    }

    /// Undoes the batch; returns whether it has changed anything.
    fn roll_back(&mut self) -> bool {
        let writes = take(&mut self.writes);
        self.state.roll_back();
        !writes.changes.is_empty()
    }

    /// The state is what is read from the store.
    fn check(&self, at: &str) {
        let records = self.store.iter().map(|(key, value)| {
            let key = std::str::from_utf8(key).unwrap();
            (key.strip_prefix(RECORDS).unwrap(), value)
        });
        let loaded = Directory::load(limits(), records).unwrap();
        let graph = || Arc::clone(&self.graph);
        let shares = JobShares::new(graph(), rules(), &loaded);
        let mgids = MgidAllocations::new(graph(), options(), &loaded).unwrap();
        let View { directory, shares: own_shares, mgids: own_mgids } = self.view();
        assert_eq!(directory, loaded, "{at}");
        assert_eq!(own_shares, shares.view(), "{at}");
        assert_eq!(own_mgids.recorded, mgids.view(MGIDS).recorded, "{at}");
        self.state.records.read(|committed| assert_eq!(*committed, loaded, "{at}"));
    }
}

fn node_name(node: u32) -> NodeName {
    NodeName::new(&format!("n{node}")).unwrap()
}

fn endpoints(node: u32) -> Vec<EndpointName> {
    NODES[node as usize].iter().map(|name| EndpointName::new(name).unwrap()).collect()
}

fn job_node(node: u32) -> JobNodes {
    JobNodes::new(vec![JobNode { name: node_name(node), endpoints: endpoints(node) }])
}

fn token() -> JobToken {
    JobToken::new(&"t".repeat(32)).unwrap()
}

#[test]
fn a_refused_batch_leaves_the_state_that_the_store_has() {
    for seed in 0..16 {
        let mut world = World::new(seed);
        let (mut stored, mut undone) = (world.view(), 0);
        for batch in 0..80 {
            let at = format!("seed {seed}, batch {batch}");
            for _ in 0..=world.chance.below(5) {
                let before = world.view();
                if !world.decide() {
                    assert_eq!(world.view(), before, "{at}: a refused request changes nothing");
                }
            }
            if world.chance.below(2) == 0 {
                world.commit();
                stored = world.view();
            } else {
                undone += usize::from(world.roll_back());
            }
            assert_eq!(world.view(), stored, "{at}");
            world.check(&at);
        }
        assert!(undone > 10, "seed {seed}: {undone} batches with changes were undone");
    }
}
