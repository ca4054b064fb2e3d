//! Collectives end right or with an error, whatever the entries say and whatever fails meanwhile.

mod examples;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_emulator::{
    AggregationError, AggregationLimits, AggregationPlace, AggregationWrite, Component,
    Contribution, ContributionError, Emulator, Failure, Fence, Finished, Reduction, Values, Work,
};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{
    AggregationEntry, AggregationNode, EndpointId, PortId, SwitchId, TableKind,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

const TREE: u32 = 7;

/// Two spines (switches 4 and 5, or the other way round) over four leaves of three endpoints.
fn fabric() -> Emulator {
    let text = "kind = 'leaf-spine'\nleaves = 4\nspines = 2\nendpoints_per_leaf = 3\n";
    let graph = TopologySpec::parse(text).unwrap().generate().unwrap();
    Emulator::new(graph.into(), TableKind::PerSwitch, 1)
}

fn switch(number: u32) -> AggregationNode {
    AggregationNode::Switch(SwitchId(number))
}

fn process(number: u32) -> AggregationNode {
    AggregationNode::Process { process: number, endpoint: EndpointId(number) }
}

fn place(node: AggregationNode) -> AggregationPlace {
    match node {
        AggregationNode::Switch(switch) => AggregationPlace::Switch(switch),
        AggregationNode::Process { endpoint, .. } => AggregationPlace::Adapter(endpoint),
    }
}

fn entry(
    holder: AggregationNode,
    parent: Option<AggregationNode>,
    children: &[AggregationNode],
) -> AggregationEntry {
    AggregationEntry { holder, tree: TREE, parent, children: children.to_vec() }
}

fn put(emulator: &mut Emulator, entry: AggregationEntry) -> Result<(), AggregationError> {
    let at = place(entry.holder);
    emulator.write_aggregation(at, Fence::default(), &[AggregationWrite::Put(entry)])
}

fn remove(emulator: &mut Emulator, holder: AggregationNode) {
    let write = AggregationWrite::Remove { holder, tree: TREE };
    // A dead place has nothing to remove.
    let _ = emulator.write_aggregation(place(holder), Fence::default(), &[write]);
}

/// Contribution of process `number` of `processes`.
fn contribution(
    number: u32,
    processes: u32,
    to: AggregationNode,
    work: Work,
    values: Option<Values>,
) -> Contribution {
    let endpoint = EndpointId(number);
    Contribution { tree: TREE, sequence: 1, process: number, endpoint, processes, to, work, values }
}

const SUM: Work = Work::AllReduce { reduction: Reduction::Sum };

fn number(value: u32) -> Option<Values> {
    Some(Values::I64(vec![i64::from(value) + 1]))
}

/// Event between two hops.
#[derive(Clone, Debug)]
enum Event {
    Contribute(Index),
    Steps(usize),
    FailSwitch(Index),
    FailLink(Index),
    FailEndpoint(Index),
    Heal(Index),
    Rewrite { node: Index, children: Vec<Index> },
}

fn event() -> impl Strategy<Value = Event> {
    let any = any::<Index>;
    prop_oneof![
        20 => any().prop_map(Event::Contribute),
        20 => (1..12_usize).prop_map(Event::Steps),
        1 => any().prop_map(Event::FailSwitch),
        1 => any().prop_map(Event::FailLink),
        1 => any().prop_map(Event::FailEndpoint),
        1 => any().prop_map(Event::Heal),
        1 => (any(), vec(any(), 0..5)).prop_map(|(node, children)| Event::Rewrite { node, children }),
    ]
}

/// A tree of some of the six switches over the first processes, with the switch of each. One
/// process may be missing below its switch, which is wrong.
fn tree(
    parents: &[Index],
    members: &[Index],
    missing: Option<usize>,
) -> (Vec<AggregationEntry>, Vec<AggregationNode>) {
    let mut children: BTreeMap<u32, Vec<AggregationNode>> = BTreeMap::new();
    let above: Vec<u32> =
        (1..).zip(parents).map(|(at, parent)| u32::try_from(parent.index(at)).unwrap()).collect();
    let to: Vec<u32> =
        members.iter().map(|one| u32::try_from(one.index(above.len() + 1)).unwrap()).collect();
    for (member, to) in (0..).zip(&to) {
        if missing != Some(member as usize) {
            children.entry(*to).or_default().push(process(member));
        }
    }
    for (below, parent) in above.iter().enumerate().rev() {
        let at = u32::try_from(below).unwrap() + 1;
        if children.contains_key(&at) {
            children.entry(*parent).or_default().push(switch(at));
        }
    }
    let entries = children.iter().map(|(at, children)| {
        let parent = at.checked_sub(1).map(|below| switch(above[below as usize]));
        entry(switch(*at), parent, children)
    });
    (entries.collect(), to.into_iter().map(switch).collect())
}

/// Everything that can be under way, with what has come of it.
struct World {
    emulator: Emulator,
    targets: Vec<AggregationNode>,
    /// Processes that have contributed, and those that were refused.
    sent: BTreeSet<u32>,
    refused: BTreeSet<u32>,
    finished: BTreeMap<u32, Result<Option<Values>, Failure>>,
}

impl World {
    fn contribute(&mut self, member: u32) {
        let processes = u32::try_from(self.targets.len()).unwrap();
        let target = self.targets[member as usize];
        let contribution = contribution(member, processes, target, SUM, number(member));
        match self.emulator.contribute(contribution) {
            Ok(()) => assert!(self.sent.insert(member), "accepted twice"),
            Err(ContributionError::Twice) => assert!(self.sent.contains(&member)),
            Err(_) => _ = self.refused.insert(member),
        }
    }

    fn happen(&mut self, event: &Event) {
        let graph = Arc::clone(self.emulator.graph());
        let pick = |index: &Index, count: usize| u32::try_from(index.index(count)).unwrap();
        let switch_of = |index| SwitchId(pick(index, graph.switch_count()));
        let link_of = |index| PortId(pick(index, graph.port_count()));
        let host_of = |index| EndpointId(pick(index, graph.endpoint_count()));
        match event {
            Event::Contribute(member) => self.contribute(pick(member, self.targets.len())),
            Event::Steps(steps) => (0..*steps).for_each(|_| _ = self.emulator.step_aggregation()),
            Event::FailSwitch(at) => {
                self.emulator.fail(Component::Switch(switch_of(at))).unwrap();
            }
            Event::FailLink(at) => _ = self.emulator.fail(Component::Link(link_of(at))).unwrap(),
            Event::FailEndpoint(at) => {
                self.emulator.fail(Component::Endpoint(host_of(at))).unwrap();
            }
            Event::Heal(at) => _ = self.emulator.heal(Component::Switch(switch_of(at))).unwrap(),
            Event::Rewrite { node, children } => {
                let holder = AggregationNode::Switch(switch_of(node));
                let processes = children.iter().map(|at| process(pick(at, self.targets.len())));
                let children: Vec<_> = processes.collect();
                remove(&mut self.emulator, holder);
                // Often wrong, and then refused.
                let _ = put(&mut self.emulator, entry(holder, None, &children));
            }
        }
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(Finished { tree, sequence, process, result }) = self.emulator.poll_finished()
        {
            assert_eq!((tree, sequence), (TREE, 1));
            assert!(self.sent.contains(&process));
            assert!(self.finished.insert(process, result).is_none(), "one end for each");
        }
    }
}

/// True if nothing can go wrong: no failure, no rewritten entry, no missing process.
fn is_quiet(events: &[Event]) -> bool {
    events.iter().all(|event| matches!(event, Event::Contribute(_) | Event::Steps(_)))
}

proptest! {
    /// EMU-5 and EMU-6.
    #[test]
    fn every_process_gets_the_sum_or_an_error(
        parents in vec(any::<Index>(), 0..6),
        members in vec(any::<Index>(), 1..12),
        missing in proptest::option::of(0..12_usize),
        events in vec(event(), 0..60),
    ) {
        let (entries, targets) = tree(&parents, &members, missing);
        let mut emulator = fabric();
        for entry in entries {
            put(&mut emulator, entry).unwrap();
        }
        let mut world = World {
            emulator,
            targets,
            sent: BTreeSet::new(),
            refused: BTreeSet::new(),
            finished: BTreeMap::new(),
        };
        let quiet = missing.is_none_or(|one| one >= members.len()) && is_quiet(&events);
        events.iter().for_each(|event| world.happen(event));
        let processes = u32::try_from(world.targets.len()).unwrap();
        (0..processes).for_each(|member| world.contribute(member));
        world.emulator.run_aggregation();
        world.drain();
        let sum: i64 = (1..=i64::from(processes)).sum();
        for result in world.finished.values() {
            prop_assert!(result.is_err() || *result == Ok(Some(Values::I64(vec![sum]))), "{result:?}");
        }
        let everybody = world.sent.len() == processes as usize;
        prop_assert!(!everybody || world.finished.len() == world.targets.len());
        if quiet {
            prop_assert!(everybody && world.finished.values().all(Result::is_ok));
        }
    }

    /// Like multicast tables: a batch is written as a whole or not at all, never under an older
    /// fence.
    #[test]
    fn a_refused_batch_of_entries_changes_nothing(
        batches in vec((0..7_u32, 0..3_u64, vec((0..7_u32, 0..3_u32, vec(0..15_u32, 0..4), any::<bool>()), 0..4)), 0..30),
    ) {
        let mut emulator = fabric();
        emulator.set_aggregation_limits(AggregationLimits { entries: 2, children: 3 });
        for (at, generation, changes) in batches {
            let at = AggregationPlace::Switch(SwitchId(at));
            let before = (emulator.read_aggregation(at), emulator.aggregation_fence(at));
            let writes: Vec<AggregationWrite> = changes
                .iter()
                .map(|(holder, tree, children, keep)| {
                    let holder = switch(*holder);
                    if *keep {
                        let children = children.iter().copied().map(process).collect();
                        let entry = AggregationEntry { holder, tree: *tree, parent: None, children };
                        AggregationWrite::Put(entry)
                    } else {
                        AggregationWrite::Remove { holder, tree: *tree }
                    }
                })
                .collect();
            let fence = Fence { term: 1, generation };
            match emulator.write_aggregation(at, fence, &writes) {
                Ok(()) => {
                    let held = emulator.read_aggregation(at).unwrap();
                    prop_assert!(held.len() <= 2 && fence >= before.1.clone().unwrap());
                    prop_assert_eq!(emulator.aggregation_fence(at).unwrap(), fence);
                    for entry in held {
                        let distinct: BTreeSet<_> = entry.children.iter().collect();
                        prop_assert!((1..=3).contains(&entry.children.len()));
                        prop_assert_eq!(distinct.len(), entry.children.len());
                        prop_assert_eq!(place(entry.holder), at);
                    }
                }
                Err(_) => {
                    let after = (emulator.read_aggregation(at), emulator.aggregation_fence(at));
                    prop_assert_eq!(before, after);
                }
            }
        }
    }
}
