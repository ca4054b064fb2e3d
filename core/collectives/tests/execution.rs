//! Allocated trees run on emulated switches and adapters, and give what a plain computation gives.

use std::sync::Arc;

use fabricast_collectives::{
    Allocator, CollectiveId, Demand, Fabric, JobId, Limits, Operation, Owner, Request, Settings,
    SizeRange, TenantId,
};
use fabricast_emulator::{
    AggregationLimits, AggregationPlace, AggregationWrite, Component, Contribution,
    ContributionError, Emulator, Failure, Fence, Reduction, Values, Work,
};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{AggregationEntry, AggregationNode, EndpointId, SwitchId, TableKind};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

const FABRICS: [&str; 6] = [
    "kind = 'leaf-spine'\nleaves = 4\nspines = 3\nendpoints_per_leaf = 3\nlanes0 = 2\n",
    "kind = 'k-ary-3-level'\nk = 4\n",
    "kind = 'cn-tn-fat-tree'\nq = 2\nm = 2\np = 1\nk = 2\nw = 2\nendpoints_per_leaf = 2\n",
    "kind = 'pruned-fat-tree'\nmidplanes = 3\nleaves = 2\nspines = 2\nuplinks_per_spine = 2\n\
     cores = 2\nline_ports = 2\ncore_spines = 2\nendpoints_per_leaf = 2\n",
    "kind = 'pruned-fat-tree'\nmidplanes = 3\nleaves = 2\nspines = 2\nuplinks_per_spine = 1\n\
     cores = 1\ncore_spines = 0\nendpoints_per_leaf = 2\n",
    "kind = 'dragonfly'\na = 3\np = 2\nh = 1\n",
];
const ID: CollectiveId = CollectiveId(1);

/// An allocator and an emulator of one fabric, with equal limits.
fn cluster(spec: &str, children: u32) -> (Allocator, Emulator) {
    let spec = TopologySpec::parse(spec).expect("a correct description");
    let graph = Arc::new(spec.generate().expect("a correct description"));
    let mut emulator = Emulator::new(Arc::clone(&graph), TableKind::PerPort, 1);
    emulator.set_aggregation_limits(AggregationLimits { entries: 2, children });
    let limits =
        Limits { switch_children: children, adapter_children: children - 1, ..Limits::default() };
    let settings = Settings { entries: 2, limits, ..Settings::default() };
    (Allocator::new(Fabric::detect(graph), settings), emulator)
}

fn request(members: &[EndpointId]) -> Request {
    Request {
        id: ID,
        owner: Owner { tenant: TenantId(0), job: JobId(0) },
        members: members.to_vec(),
        operations: vec![Operation::AllReduce],
        bytes: SizeRange { min: 0, max: 8 },
        demand: Demand::SwitchTree,
    }
}

/// Writes entries where they belong.
fn program(emulator: &mut Emulator, entries: &[AggregationEntry]) {
    for entry in entries {
        let place = match entry.holder {
            AggregationNode::Switch(switch) => AggregationPlace::Switch(switch),
            AggregationNode::Process { endpoint, .. } => AggregationPlace::Adapter(endpoint),
        };
        let write = AggregationWrite::Put(entry.clone());
        emulator.write_aggregation(place, Fence::default(), &[write]).expect("entries fit");
    }
}

/// One operation over programmed entries.
struct Run<'a> {
    entries: &'a [AggregationEntry],
    members: &'a [EndpointId],
    work: Work,
    sequence: u64,
}

impl Run<'_> {
    /// Lets one process contribute: to its parent; that is itself where it reduces.
    fn contribute(
        &self,
        emulator: &mut Emulator,
        process: usize,
        values: Option<Values>,
    ) -> Result<(), ContributionError> {
        let (endpoint, number) = (self.members[process], u32::try_from(process).expect("few"));
        let node = AggregationNode::Process { process: number, endpoint };
        let mut above = self.entries.iter().filter(|entry| entry.children.contains(&node));
        let own = self.entries.iter().find(|entry| entry.holder == node);
        let to = own.or_else(|| above.next()).expect("everybody is in the tree").holder;
        emulator.contribute(Contribution {
            tree: self.entries[0].tree,
            sequence: self.sequence,
            process: number,
            endpoint,
            processes: u32::try_from(self.members.len()).expect("few"),
            to,
            work: self.work,
            values,
        })
    }
}

/// The ends by process.
fn ends(emulator: &mut Emulator, count: usize) -> Vec<Option<Result<Option<Values>, Failure>>> {
    let mut ends = vec![None; count];
    while let Some(finished) = emulator.poll_finished() {
        let end = ends[finished.process as usize].replace(finished.result);
        assert_eq!(end, None, "one end for each");
    }
    ends
}

/// Values that each process contributes or receives.
type Each = Vec<Option<Values>>;

/// A kind of work with what each process brings and what each is to get, computed plainly.
fn works(numbers: &[i64]) -> Vec<(Work, Each, Each)> {
    let count = numbers.len();
    let each: Vec<_> = numbers.iter().map(|one| Some(Values::I64(vec![*one, -one]))).collect();
    let all = |reduction, a: i64, b: i64| {
        let due = vec![Some(Values::I64(vec![a, b])); count];
        (Work::AllReduce { reduction }, each.clone(), due)
    };
    let (least, most) = (numbers.iter().min().copied(), numbers.iter().max().copied());
    let (least, most) = (least.expect("members"), most.expect("members"));
    let sum: i64 = numbers.iter().sum();
    let source = count / 2;
    let only = |value: Option<Values>, at: usize| -> Each {
        (0..count).map(|process| value.clone().filter(|_| process == at)).collect()
    };
    let message = each[source].clone();
    let process = u32::try_from(source).expect("few");
    let floats: Vec<_> = numbers.iter().map(|one| Some(Values::F64(vec![*one as f64]))).collect();
    let float_sum = Some(Values::F64(vec![sum as f64]));
    let sum_to_one = Work::Reduce { reduction: Reduction::Sum, root: process };
    vec![
        (Work::Barrier, vec![None; count], vec![None; count]),
        (Work::Broadcast { source: process }, only(message.clone(), source), vec![message; count]),
        all(Reduction::Sum, sum, -sum),
        all(Reduction::Min, least, -most),
        all(Reduction::Max, most, -least),
        (sum_to_one, floats, only(float_sum, source)),
    ]
}

proptest! {
    #[test]
    fn trees_of_switches_and_of_adapters_compute_what_they_should(
        spec in prop::sample::select(&FABRICS[..]),
        members in vec((any::<Index>(), -1_000..1_000_i64), 1..12),
        order in any::<u64>(),
        children in 3..7_u32,
    ) {
        let (mut allocator, mut emulator) = cluster(spec, children);
        let count = emulator.graph().endpoint_count();
        let numbers: Vec<i64> = members.iter().map(|member| member.1).collect();
        let members: Vec<EndpointId> = members
            .iter()
            .map(|member| EndpointId(u32::try_from(member.0.index(count)).unwrap()))
            .collect();
        let Ok(_) = allocator.allocate(request(&members)) else { return Ok(()) };
        let switches = allocator.entries(ID);
        let tree = allocator.adapter_tree(ID, Operation::AllReduce, 8).unwrap();
        let adapters = tree.entries(allocator.number_tree().0, &members);
        for entries in [switches, adapters].iter().filter(|entries| !entries.is_empty()) {
            program(&mut emulator, entries);
            for (sequence, (work, brings, due)) in (0..).zip(works(&numbers)) {
                let run = Run { entries, members: &members, work, sequence };
                let mut processes: Vec<usize> = (0..members.len()).collect();
                let shift = usize::try_from(order % 97).unwrap() % processes.len();
                processes.rotate_left(shift);
                for process in processes {
                    run.contribute(&mut emulator, process, brings[process].clone()).unwrap();
                }
                emulator.run_aggregation();
                let due: Vec<_> = due.into_iter().map(|due| Some(Ok(due))).collect();
                prop_assert_eq!(ends(&mut emulator, members.len()), due, "{:?}", work);
            }
        }
    }

    /// A switch dies somewhere in the middle; then the collective gets a new tree and goes on.
    #[test]
    fn a_switch_that_dies_in_the_middle_costs_one_operation_and_no_wrong_value(
        spec in prop::sample::select(&FABRICS[..]),
        members in vec(any::<Index>(), 2..10),
        (before, steps, dying) in (any::<Index>(), 0..60_usize, any::<Index>()),
    ) {
        let (mut allocator, mut emulator) = cluster(spec, 5);
        let graph = Arc::clone(emulator.graph());
        let members: Vec<EndpointId> = members
            .iter()
            .map(|one| EndpointId(u32::try_from(one.index(graph.endpoint_count())).unwrap()))
            .collect();
        allocator.allocate(request(&members)).unwrap();
        let entries = allocator.entries(ID);
        program(&mut emulator, &entries);
        let work = Work::AllReduce { reduction: Reduction::Sum };
        let run = Run { entries: &entries, members: &members, work, sequence: 0 };
        let value = |process: usize| Some(Values::I64(vec![i64::try_from(process).unwrap()]));
        let sum = Some(Values::I64(vec![(0..i64::try_from(members.len()).unwrap()).sum()]));
        let early = before.index(members.len() + 1);
        for process in 0..early {
            run.contribute(&mut emulator, process, value(process)).unwrap();
        }
        (0..steps).for_each(|_| _ = emulator.step_aggregation());
        let dying = SwitchId(u32::try_from(dying.index(graph.switch_count())).unwrap());
        emulator.fail(Component::Switch(dying)).unwrap();
        let late = early..members.len();
        let refused: Vec<usize> = late
            .filter(|late| run.contribute(&mut emulator, *late, value(*late)).is_err())
            .collect();
        emulator.run_aggregation();
        if !refused.is_empty() {
            // Those who wait for a process that cannot come hear of it when their time is over.
            emulator.abandon(entries[0].tree, 0);
        }
        let ended = ends(&mut emulator, members.len());
        for (process, end) in ended.into_iter().enumerate() {
            let told = end.is_some() || refused.contains(&process);
            prop_assert!(told, "process {process} waits for ever");
            if let Some(Ok(values)) = end {
                prop_assert_eq!(values, sum.clone());
            }
        }
        // The control plane hears of it, and the next operation runs on another tree, if there is
        // one.
        allocator.set_faults(emulator.faults().clone());
        let entries = allocator.entries(ID);
        if !entries.is_empty() {
            program(&mut emulator, &entries);
            let run = Run { entries: &entries, members: &members, work, sequence: 1 };
            for process in 0..members.len() {
                run.contribute(&mut emulator, process, value(process)).unwrap();
            }
            emulator.run_aggregation();
            prop_assert_eq!(ends(&mut emulator, members.len()), vec![Some(Ok(sum)); members.len()]);
        }
    }
}
