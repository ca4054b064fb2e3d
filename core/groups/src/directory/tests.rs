//! Tests of single decisions.

use super::*;
use crate::command::{
    Answer, CreateGroup, DeleteGroup, Expelled, FormGroup, FormGroups, GroupMove, GroupSpec, Join,
    Joined, Joiner, Leave, RegisterNode,
};
use crate::names::ProcessName;
use crate::record::{NodeState, Route, RouteReason, RouteState};
use crate::voucher::VoucherSeed;

mod batches;
mod flaps;
mod jobs;
mod laws;
mod reads;

/// A directory and the store that it would be loaded from.
struct Tic {
    directory: Directory,
    store: BTreeMap<String, Vec<u8>>,
    gns: BTreeSet<Gn>,
    now: Moment,
}

impl Tic {
    fn new(limits: Limits) -> Self {
        let (store, gns) = (BTreeMap::new(), BTreeSet::new());
        Self { directory: Directory::new(limits), store, gns, now: Moment(5) }
    }

    fn with_nodes(nodes: u32) -> Self {
        let mut tic = Self::new(Limits::default());
        for node in 0..nodes {
            tic.run(&register(node, 1)).unwrap();
        }
        tic
    }

    fn run(&mut self, command: &Command) -> Result<Answer, Refusal> {
        let mut lowest_free =
            |group: &NewGroup<'_>| (100..).map(Mgid).find(|mgid| (group.is_free)(*mgid));
        let decision = self.directory.decide(self.now, command, &mut lowest_free)?;
        let advance = u64::from(!decision.changes.is_empty());
        assert_eq!(decision.revision.0, self.directory.revision().0 + advance);
        for change in &decision.changes {
            if let Change::GroupPut(group) = change
                && self.directory.group(group.gn).is_none()
            {
                assert!(self.gns.insert(group.gn), "G1: {:?} was used before", group.gn);
            }
            match change.encode() {
                Some(value) => self.store.insert(change.store_key(), value),
                None => Some(self.store.remove(&change.store_key()).expect("deletes exist")),
            };
            self.directory.apply(change);
        }
        assert_eq!(decision.revision, self.directory.revision());
        Ok(decision.answer)
    }

    fn join(&mut self, group: &str, node: u32, process: &str) -> Joined {
        let id = format!("{group}/{node}/{process}/{}", self.directory.revision());
        let answer = self.run(&join(&id, group, node, process)).unwrap();
        let Answer::Joined(joined) = answer else { panic!("a join grants a membership") };
        joined
    }

    fn group(&self, name: &str) -> &GroupRecord {
        let gn = self.directory.find_group(&GroupName::new(name).unwrap()).unwrap();
        self.directory.group(gn).unwrap()
    }

    fn check(&self) {
        let directory = &self.directory;
        let loaded = Directory::load(directory.limits.clone(), self.store.iter()).unwrap();
        assert_eq!(&loaded, directory, "S3: what is read back is what was");
        let mut mgids = BTreeSet::new();
        let placed = directory.jobs.values().filter(|job| job.class.is_some());
        let in_jobs = placed.flat_map(|job| &job.nodes).flat_map(|n| &n.endpoints);
        let in_jobs: Vec<&EndpointName> = in_jobs.collect();
        let once: BTreeSet<&EndpointName> = in_jobs.iter().copied().collect();
        assert_eq!(
            (once.len(), directory.job_endpoints.len()),
            (in_jobs.len(), in_jobs.len()),
            "DIR-3"
        );
        let of_jobs: usize = directory.job_groups.values().map(BTreeSet::len).sum();
        let with_job = directory.groups.values().filter(|group| group.record.job.is_some());
        assert_eq!(of_jobs, with_job.count(), "a group ends with its job");
        for group in directory.groups.values() {
            let waits = group.record.expected.is_some_and(|expected| !expected.met);
            let wanted = group.record.expected.map_or(0, |expected| expected.members.get());
            let count = u32::try_from(group.members.len()).unwrap();
            assert!(!waits || count < wanted, "a group that is complete waits for nobody");
            assert!(waits || wanted == 0 || count > 0, "an empty group waits again");
            assert!(mgids.insert(group.record.mgid), "DIR-3");
            assert!(group.record.home.is_none_or(|home| mgids.insert(home)), "DIR-3");
            let agent = group.record.agent.as_ref();
            let members_on_agent =
                group.members.values().filter(|m| Some(&m.node) == agent).count();
            assert_eq!(members_on_agent > 0, !group.members.is_empty(), "DIR-1");
            assert_eq!(agent.is_none(), group.members.is_empty(), "DIR-1");
            assert!(group.record.persistent || !group.members.is_empty());
            let processes: BTreeSet<_> =
                group.members.values().map(|m| (&m.node, &m.process)).collect();
            assert_eq!(processes.len(), group.members.len(), "one process, one membership");
            for (pn, member) in &group.members {
                assert_eq!((member.gn, member.pn), (group.record.gn, *pn));
                let node = directory.node(&member.node).unwrap();
                assert_eq!(node.state, NodeState::Up, "DIR-2");
                assert_eq!(directory.owners[&member.endpoint], member.node, "DIR-3");
            }
        }
        self.check_copies();
        self.check_counts();
        assert_eq!(mgids.len(), directory.mgids.len(), "DIR-3");
        assert!(mgids.iter().all(|mgid| !directory.retired.contains_key(mgid)), "DIR-3");
    }
}

impl Tic {
    /// The counts that are kept are those of all records.
    fn check_counts(&self) {
        let directory = &self.directory;
        let nodes = || directory.nodes.values();
        let counts = NodeCounts {
            up: nodes().filter(|node| node.state == NodeState::Up).count(),
            failed: nodes().filter(|node| node.state == NodeState::Failed).count(),
            drained: nodes().filter(|node| node.drained).count(),
        };
        assert_eq!(directory.node_counts(), counts);
        let members: usize = directory.groups.values().map(|group| group.members.len()).sum();
        assert_eq!(directory.membership_count(), members);
    }

    fn check_copies(&self) {
        let copy = DirectoryCopy::of(&self.directory);
        let nodes: Vec<&NodeRecord> = copy.nodes().iter().map(Arc::as_ref).collect();
        assert_eq!(nodes, self.directory.nodes().collect::<Vec<_>>());
        assert_eq!(copy.group_count(), self.directory.group_count());
        assert!(copy.group(copy.group_count()).is_none());
        for (at, (gn, group)) in self.directory.groups.iter().enumerate() {
            let (record, members) = copy.group(at).unwrap();
            let all: Vec<_> = group.members.values().cloned().collect();
            assert_eq!((record, members), (group.record.as_ref(), &all[..]));
            let copied = GroupCopy::of(&self.directory, *gn).unwrap();
            let wanted = self.directory.snapshot(*gn).unwrap();
            assert_eq!((copied.revision, &*copied.record), (wanted.revision, &wanted.group));
            assert_eq!(copied.member_count(), wanted.members.len());
            let address = copied.agent.as_ref().map(|node| node.address.clone());
            assert_eq!(address, wanted.agent_address);
            let (record, agent) = (Arc::clone(&copied.record), copied.agent.clone());
            let voucher = |(member, node): (Arc<MemberRecord>, Option<Arc<NodeRecord>>)| {
                let voucher = node?.vouch_for_enrolment(&record, agent.as_deref()?, &member)?;
                Some((member.pn, voucher))
            };
            let vouchers: BTreeMap<Pn, Voucher> =
                copied.clone().into_members().filter_map(voucher).collect();
            assert_eq!(wanted.vouchers, vouchers);
            assert_eq!(wanted.vouchers.len(), wanted.members.len(), "all nodes have keys");
            let view = |(member, node): (Arc<MemberRecord>, Option<Arc<NodeRecord>>)| {
                let node = node.unwrap();
                let (incarnation, address) = (node.incarnation, node.address.clone());
                MemberView { member: MemberRecord::clone(&member), incarnation, address }
            };
            assert_eq!(copied.into_members().map(view).collect::<Vec<_>>(), wanted.members);
        }
    }
}

fn expelled(memberships: usize) -> Answer {
    Answer::Expelled(Expelled { memberships, done: true })
}

fn node_name(node: u32) -> NodeName {
    NodeName::new(&format!("n{node}")).unwrap()
}

const SEED: VoucherSeed = VoucherSeed([7; 16]);

fn register(node: u32, start_id: u64) -> Command {
    let endpoint = |port| EndpointName::new(&format!("h{node}/{port}")).unwrap();
    Command::RegisterNode(RegisterNode {
        name: node_name(node),
        address: Address::new(&format!("10.0.0.{node}:1")).unwrap(),
        endpoints: vec![endpoint(0), endpoint(1)],
        start_id,
        voucher_key: Some(SEED.key(&node_name(node), start_id)),
    })
}

fn spec(group: &str) -> GroupSpec {
    GroupSpec::new(GroupName::new(group).unwrap())
}

fn joiner(node: u32, process: &str) -> Joiner {
    let endpoint = EndpointName::new(&format!("h{node}/0")).unwrap();
    let (node, process) = (node_name(node), ProcessName::new(process).unwrap());
    Joiner { node, incarnation: Incarnation(1), endpoint, process, sends_only: false }
}

fn join(id: &str, group: &str, node: u32, process: &str) -> Command {
    let request_id = RequestId::new(id).unwrap();
    Command::Join(Join { request_id, group: spec(group), member: joiner(node, process) })
}

fn leave(id: &str, group: &str, node: u32, process: &str) -> Command {
    Command::Leave(Leave {
        request_id: RequestId::new(id).unwrap(),
        group: GroupName::new(group).unwrap(),
        node: node_name(node),
        incarnation: Incarnation(1),
        process: ProcessName::new(process).unwrap(),
    })
}

fn delete(id: &str, group: &str) -> Command {
    let (request_id, group) = (RequestId::new(id).unwrap(), GroupName::new(group).unwrap());
    Command::DeleteGroup(DeleteGroup { request_id, group, gn: None, most: usize::MAX })
}

fn node_failed(node: u32) -> Command {
    Command::NodeFailed { node: node_name(node), incarnation: None }
}

#[test]
fn the_first_node_to_join_becomes_the_agent_and_ranks_ascend() {
    let mut tic = Tic::with_nodes(3);
    let first = tic.join("g", 1, "p");
    assert_eq!((first.group.gn, first.member.pn), (Gn(1), Pn(0)));
    assert_eq!((first.group.agent, first.group.epoch), (Some(node_name(1)), Epoch(1)));
    assert_eq!(first.agent_address.as_str(), "10.0.0.1:1");
    let second = tic.join("g", 2, "p");
    assert_eq!((second.group.gn, second.member.pn, second.group.epoch), (Gn(1), Pn(1), Epoch(1)));
    assert_eq!(second.group.members_revision, second.member.joined);
}

#[test]
fn a_vacant_rank_goes_to_the_next_joiner() {
    let mut tic = Tic::with_nodes(4);
    for node in 0..3 {
        tic.join("g", node, "p");
    }
    tic.run(&leave("l", "g", 1, "p")).unwrap();
    assert_eq!(tic.join("g", 3, "p").member.pn, Pn(1));
    assert_eq!(tic.join("g", 1, "p").member.pn, Pn(3));
    tic.check();
}

#[test]
fn a_repeated_request_gets_the_first_answer_and_changes_nothing() {
    let mut tic = Tic::with_nodes(2);
    let first = tic.run(&join("a", "g", 0, "p"));
    let revision = tic.directory.revision();
    assert_eq!(tic.run(&join("a", "g", 0, "p")), first);
    assert_eq!(tic.run(&join("b", "g", 0, "p")), first, "a live process keeps its rank");
    assert_eq!(tic.directory.revision(), revision);
    tic.join("g", 1, "p");
    let left = tic.run(&leave("c", "g", 0, "p"));
    assert_eq!(tic.run(&leave("c", "g", 0, "p")), left);
    let ended = tic.run(&join("a", "g", 0, "p")).unwrap_err();
    assert!(matches!(ended, Refusal::MembershipEnded { .. }));
    for command in [join("c", "g", 1, "q"), leave("a", "g", 1, "p"), delete("a", "g")] {
        let refused = tic.run(&command).unwrap_err();
        assert!(matches!(refused, Refusal::RequestIdReused { .. }), "{refused}");
    }
}

#[test]
fn the_log_of_requests_is_bounded() {
    let mut tic = Tic::new(Limits { requests: 2, ..Limits::default() });
    tic.run(&register(0, 1)).unwrap();
    for id in ["a", "b", "c"] {
        tic.run(&join(id, id, 0, "p")).unwrap();
    }
    let remembered: Vec<_> = tic.directory.request_ids.keys().map(RequestId::as_str).collect();
    assert_eq!(remembered, ["b", "c"]);
    tic.check();
}

#[test]
fn a_failed_node_leaves_every_group_and_its_agents_move_to_the_lowest_rank() {
    let mut tic = Tic::with_nodes(3);
    for (group, nodes) in [("a", vec![0, 2, 1]), ("b", vec![1, 0]), ("c", vec![0])] {
        for node in nodes {
            tic.join(group, node, "p");
        }
    }
    assert_eq!(tic.run(&node_failed(0)), Ok(expelled(3)));
    assert_eq!((&tic.group("a").agent, tic.group("a").epoch), (&Some(node_name(2)), Epoch(2)));
    assert_eq!((&tic.group("b").agent, tic.group("b").epoch), (&Some(node_name(1)), Epoch(1)));
    assert_eq!(tic.directory.find_group(&GroupName::new("c").unwrap()), None);
    assert_eq!(tic.run(&node_failed(0)), Ok(expelled(0)));
    tic.check();
    let refused = tic.run(&join("x", "a", 0, "p")).unwrap_err();
    assert!(matches!(refused, Refusal::NodeFailed { .. }));
}

/// The order in which a node's memberships end is no promise.
#[test]
fn a_failed_or_restarted_node_leaves_its_groups_in_bounded_decisions() {
    let mut tic = Tic::new(Limits { ends: 2, ..Limits::default() });
    tic.run(&register(0, 1)).unwrap();
    tic.run(&register(1, 1)).unwrap();
    let join_all = |tic: &mut Tic| {
        for group in ["a", "b", "c", "d", "e"] {
            tic.join(group, 0, "p");
            tic.join(group, 1, "p");
        }
    };
    join_all(&mut tic);
    let some = Answer::Expelled(Expelled { memberships: 2, done: false });
    assert_eq!(tic.run(&node_failed(0)), Ok(some.clone()));
    tic.check();
    assert_eq!(tic.directory.memberships(&node_name(0)).count(), 3);
    assert_eq!(tic.directory.node(&node_name(0)).unwrap().state, NodeState::Up);
    assert_eq!(tic.run(&node_failed(0)), Ok(some.clone()));
    assert_eq!(tic.run(&node_failed(0)), Ok(expelled(1)));
    let record = tic.directory.node(&node_name(0)).unwrap();
    assert_eq!((record.state, record.incarnation), (NodeState::Failed, Incarnation(1)));
    tic.check();

    for start in [2, 3] {
        let Ok(Answer::Node(_)) = tic.run(&register(0, start)) else { panic!("it is back") };
        let incarnation = Incarnation(start);
        for group in ["a", "b", "c"] {
            let member = Joiner { incarnation, ..joiner(0, "p") };
            let request_id = RequestId::new(&format!("{group}{start}")).unwrap();
            let join = Join { request_id, group: spec(group), member };
            tic.run(&Command::Join(join)).unwrap();
        }
        assert_eq!(tic.run(&register(0, start + 1)), Ok(some.clone()));
        assert_eq!(tic.directory.node(&node_name(0)).unwrap().incarnation, incarnation);
        tic.check();
    }
}

#[test]
fn a_restarted_node_loses_its_memberships_and_late_messages_from_before_are_ignored() {
    let mut tic = Tic::with_nodes(2);
    tic.join("g", 0, "p");
    tic.join("g", 1, "p");
    let Ok(Answer::Node(node)) = tic.run(&register(0, 2)) else { panic!("it registers") };
    assert_eq!((node.incarnation, node.state), (Incarnation(2), NodeState::Up));
    assert_eq!(tic.directory.memberships(&node_name(0)).count(), 0);
    assert_eq!(tic.group("g").agent, Some(node_name(1)));
    let Ok(Answer::Node(late)) = tic.run(&register(0, 1)) else { panic!("it is answered") };
    assert_eq!(late, node, "a late announcement of the first start is no new one");
    let late = Command::NodeFailed { node: node_name(0), incarnation: Some(Incarnation(1)) };
    assert_eq!(tic.run(&late), Ok(expelled(0)));
    assert_eq!(tic.directory.node(&node_name(0)).unwrap().state, NodeState::Up);
    let refused = tic.run(&join("x", "g", 0, "p")).unwrap_err();
    assert!(matches!(refused, Refusal::StaleIncarnation { known: Incarnation(2), .. }));
    tic.run(&node_failed(0)).unwrap();
    let Ok(Answer::Node(node)) = tic.run(&register(0, 2)) else { panic!("it is answered") };
    assert_eq!(node.state, NodeState::Failed, "an expelled start is not revived by a late copy");
}

#[test]
fn endpoints_belong_to_one_node_that_is_up() {
    let mut tic = Tic::with_nodes(2);
    let mut thief = RegisterNode {
        name: node_name(7),
        address: Address::new("x").unwrap(),
        endpoints: vec![EndpointName::new("h0/1").unwrap()],
        start_id: 1,
        voucher_key: None,
    };
    let refused = tic.run(&Command::RegisterNode(thief.clone())).unwrap_err();
    assert_eq!(refused.to_string(), "endpoint \"h0/1\" belongs to node \"n0\"");
    tic.run(&node_failed(0)).unwrap();
    tic.run(&Command::RegisterNode(thief.clone())).unwrap();
    let back = tic.run(&register(0, 2)).unwrap_err();
    assert!(matches!(back, Refusal::EndpointTaken { .. }));
    (thief.endpoints, thief.start_id) = (Vec::new(), 2);
    let empty = tic.run(&Command::RegisterNode(thief)).unwrap_err();
    assert!(matches!(empty, Refusal::NoEndpoints { .. }));
    let mut foreign = joiner(1, "p");
    foreign.endpoint = EndpointName::new("h0/0").unwrap();
    let request_id = RequestId::new("f").unwrap();
    let foreign = Command::Join(Join { request_id, group: spec("g"), member: foreign });
    assert!(matches!(tic.run(&foreign), Err(Refusal::UnknownEndpoint { .. })));
}

#[test]
fn mgids_are_unique_and_in_range_and_not_used_again_before_the_tables_are_clean() {
    let mut tic = Tic::with_nodes(1);
    let mut asked = spec("a");
    let mut ask = |asked: &GroupSpec, id: &str| {
        let request_id = RequestId::new(id).unwrap();
        let member = joiner(0, "p");
        tic.run(&Command::Join(Join { request_id, group: asked.clone(), member }))
    };
    asked.mgid = Some(Mgid(1 << 24));
    assert!(matches!(ask(&asked, "1"), Err(Refusal::MgidOutOfRange { limit: 16_777_216, .. })));
    asked.mgid = Some(Mgid(7));
    ask(&asked, "2").unwrap();
    let other = GroupSpec { mgid: Some(Mgid(7)), ..spec("b") };
    assert!(matches!(ask(&other, "3"), Err(Refusal::MgidInUse { .. })));
    let changed = GroupSpec { mgid: Some(Mgid(8)), ..spec("a") };
    assert!(matches!(ask(&changed, "4"), Err(Refusal::MgidMismatch { .. })));

    tic.run(&delete("5", "a")).unwrap();
    let again = Command::CreateGroup(CreateGroup {
        request_id: RequestId::new("6").unwrap(),
        group: other,
    });
    assert!(matches!(tic.run(&again), Err(Refusal::MgidNotClean { .. })));
    let clean = Some(tic.directory.revision());
    tic.run(&Command::Routed { routes: Vec::new(), clean }).unwrap();
    assert!(tic.run(&again).is_ok());
    tic.check();
}

#[test]
fn a_moved_group_keeps_its_mgid_and_the_homes_that_it_leaves_are_cleaned_first() {
    let mut tic = Tic::with_nodes(1);
    let group = tic.join("g", 0, "p").group;
    let other = tic.join("h", 0, "p").group;
    let (gn, own) = (group.gn, group.mgid);
    let one = |from, to| Command::MoveGroups(vec![GroupMove { gn, from, to }]);
    let made = |tic: &mut Tic, from, to| {
        let Ok(Answer::Moved(moved)) = tic.run(&one(from, to)) else { panic!("never refused") };
        !moved.is_empty()
    };
    assert!(made(&mut tic, own, Mgid(7)));
    let moved = tic.group("g").clone();
    assert_eq!((moved.mgid, moved.home(), moved.agent), (own, Mgid(7), group.agent));
    assert!(moved.members_revision > group.members_revision, "the route is not that of its home");
    assert!(!made(&mut tic, own, Mgid(8)), "it is elsewhere by now");
    assert!(!made(&mut tic, Mgid(7), other.mgid), "taken");
    assert!(!made(&mut tic, Mgid(7), own), "its own stays with it");
    assert!(made(&mut tic, Mgid(7), Mgid(8)));
    assert_eq!(tic.directory.retired_mgids().collect::<Vec<_>>(), [Mgid(7)]);
    assert!(!made(&mut tic, Mgid(8), Mgid(7)), "not clean");
    tic.check();
    tic.run(&delete("d", "g")).unwrap();
    assert_eq!(tic.directory.retired_mgids().collect::<Vec<_>>(), [Mgid(7), Mgid(8), own]);
    assert!(!made(&mut tic, Mgid(8), Mgid(9)), "it is gone");
    tic.check();
}

#[test]
fn a_drained_node_hosts_no_agent_while_another_can() {
    let mut tic = Tic::with_nodes(3);
    let drain = |node, drained| Command::DrainNode { node: node_name(node), drained };
    tic.run(&drain(0, true)).unwrap();
    assert_eq!(tic.directory.node_counts(), NodeCounts { up: 3, failed: 0, drained: 1 });
    for node in [2, 0, 1] {
        tic.join("g", node, "p");
    }
    tic.run(&leave("1", "g", 2, "p")).unwrap();
    assert_eq!(tic.group("g").agent, Some(node_name(1)), "not the lowest rank");
    tic.run(&leave("2", "g", 1, "p")).unwrap();
    assert_eq!(tic.group("g").agent, Some(node_name(0)), "nobody else is left");
    let revision = tic.directory.revision();
    tic.run(&drain(0, true)).unwrap();
    assert_eq!(tic.directory.revision(), revision, "it is drained");
    tic.run(&register(0, 2)).unwrap();
    assert!(tic.directory.node(&node_name(0)).unwrap().drained, "also in its next incarnation");
    tic.run(&drain(0, false)).unwrap();
    assert!(!tic.directory.node(&node_name(0)).unwrap().drained);
    let unknown = tic.run(&drain(9, true)).unwrap_err();
    assert_eq!(unknown, Refusal::UnknownNode { node: node_name(9) });
    tic.check();
}

#[test]
fn a_persistent_group_waits_for_its_next_member() {
    let mut tic = Tic::with_nodes(2);
    let create = Command::CreateGroup(CreateGroup {
        request_id: RequestId::new("c").unwrap(),
        group: spec("g"),
    });
    let created = tic.run(&create);
    assert_eq!(tic.run(&create), created);
    assert_eq!((&tic.group("g").agent, tic.group("g").epoch), (&None, Epoch(0)));
    tic.join("g", 1, "p");
    tic.run(&leave("l", "g", 1, "p")).unwrap();
    assert_eq!((&tic.group("g").agent, tic.group("g").epoch), (&None, Epoch(2)));
    assert_eq!(tic.join("g", 0, "p").group.epoch, Epoch(3));
    tic.check();
}

#[test]
fn exceeded_limits_are_refused() {
    let mut tic =
        Tic::new(Limits { groups: 1, members_per_group: 1, nodes: 2, ..Limits::default() });
    tic.run(&register(0, 1)).unwrap();
    tic.run(&register(1, 1)).unwrap();
    tic.join("g", 0, "p");
    for command in [register(2, 1), join("b", "g", 1, "p"), join("c", "h", 1, "p")] {
        let refused = tic.run(&command).unwrap_err();
        assert!(matches!(refused, Refusal::LimitReached { .. }), "{refused}");
    }
}

#[test]
fn a_tenant_has_as_many_groups_as_are_left_for_others() {
    let mut tic = Tic::new(Limits { groups: 12, ..Limits::default() });
    tic.run(&register(0, 1)).unwrap();
    let fill = |tic: &mut Tic, prefix: &str| {
        let create = |number: u32| {
            let group = format!("{prefix}{number}");
            join(&group, &group, 0, "p")
        };
        (0..20).find(|number| tic.run(&create(*number)).is_err()).unwrap()
    };
    assert_eq!(["acme/", "rival/", "third/"].map(|tenant| fill(&mut tic, tenant)), [6, 3, 2]);
    let refused = tic.run(&join("more", "acme/more", 0, "p")).unwrap_err();
    let of_tenant = Refusal::LimitReached { what: "groups of the tenant", wanted: 7, limit: 4 };
    assert_eq!(refused, of_tenant);
    assert_eq!(fill(&mut tic, "open"), 1);
    tic.run(&leave("leave", "acme/0", 0, "p")).unwrap();
    assert_eq!(tic.directory.tenant_groups["acme"], 5);
    tic.run(&join("new", "fourth/0", 0, "p")).unwrap();
    tic.check();
}

#[test]
fn an_older_route_is_ignored_and_unknown_groups_are_named() {
    let mut tic = Tic::with_nodes(1);
    tic.join("g", 0, "p");
    let route = |at, color: u16| Route {
        revision: Revision(at),
        state: RouteState::Routed { colors: color.into(), virtual_group: 1 },
        reason: String::new(),
        reason_code: RouteReason::Unspecified,
        cut_off: Vec::new(),
    };
    let routes = vec![(Gn(1), route(2, 3)), (Gn(9), route(2, 3))];
    let answer = tic.run(&Command::Routed { routes, clean: None });
    assert_eq!(answer, Ok(Answer::Routed { ignored: vec![Gn(9)] }));
    let late = Command::Routed { routes: vec![(Gn(1), route(1, 4))], clean: None };
    assert_eq!(tic.run(&late), Ok(Answer::Routed { ignored: vec![Gn(1)] }));
    assert_eq!(tic.group("g").route, Some(route(2, 3)));
    assert_eq!(tic.group("g").members_revision, Revision(2));
}

/// A start, or a revision, that no later one could exceed would shut out all later ones.
#[test]
fn numbers_that_only_the_future_could_have_are_refused() {
    let mut tic = Tic::with_nodes(1);
    for start_id in [1 << 63, u64::MAX] {
        let refused = tic.run(&register(0, start_id));
        assert!(matches!(refused, Err(Refusal::StartOutOfRange { .. })), "{refused:?}");
    }
    tic.join("g", 0, "p");
    let route = |at| Route {
        revision: Revision(at),
        state: RouteState::UnicastOnly,
        reason: String::new(),
        reason_code: RouteReason::Unspecified,
        cut_off: Vec::new(),
    };
    let now = tic.directory.revision();
    for given in [now.next(), Revision(1 << 63), Revision(u64::MAX)] {
        let routes = vec![(Gn(1), route(given.0))];
        let what = "routed_revision";
        let refused = tic.run(&Command::Routed { routes, clean: None });
        assert_eq!(refused, Err(Refusal::FutureRevision { what, given, known: now }));
        let what = "clean_revision";
        let refused = tic.run(&Command::Routed { routes: Vec::new(), clean: Some(given) });
        assert_eq!(refused, Err(Refusal::FutureRevision { what, given, known: now }));
    }
    assert_eq!(tic.directory.revision(), now);
    tic.run(&register(0, 2)).unwrap();
    tic.check();
}

#[test]
fn what_an_earlier_version_took_from_the_future_is_repaired() {
    let mut tic = Tic::with_nodes(1);
    let mut node = tic.directory.node(&NodeName::new("n0").unwrap()).unwrap().clone();
    node.start_id = u64::MAX;
    tic.directory.apply(&Change::NodePut(node));
    let Ok(Answer::Node(node)) = tic.run(&register(0, 7)) else { panic!("it is admitted") };
    assert_eq!((node.start_id, node.incarnation), (7, Incarnation(2)));
    let id = RequestId::new("j").unwrap();
    let Command::Join(mut join) = join(id.as_str(), "g", 0, "p") else { panic!("a join") };
    join.member.incarnation = node.incarnation;
    tic.run(&Command::Join(join)).unwrap();
    let mut group = tic.group("g").clone();
    let route = |at| Route {
        revision: at,
        state: RouteState::UnicastOnly,
        reason: String::new(),
        reason_code: RouteReason::Unspecified,
        cut_off: Vec::new(),
    };
    group.route = Some(route(Revision(u64::MAX)));
    tic.directory.apply(&Change::GroupPut(group));
    let at = tic.directory.revision();
    tic.run(&Command::Routed { routes: vec![(Gn(1), route(at))], clean: None }).unwrap();
    assert_eq!(tic.group("g").route, Some(route(at)));
}
