//! Examples of single operations and writes.

use fabricast_emulator::{AggregationProblem, ChangeProblem};
use fabricast_topology::Graph;

use super::*;

/// Processes 0 to 2 on the leaf of switch `leaf`, 3 on the next leaf, all below a spine.
fn small_tree() -> Emulator {
    let mut emulator = fabric();
    let [leaf, root] = leaf_and_spine(emulator.graph());
    put(&mut emulator, entry(leaf, Some(root), &[process(0), process(1), process(2)])).unwrap();
    put(&mut emulator, entry(root, None, &[leaf, process(3)])).unwrap();
    emulator
}

fn leaf_and_spine(graph: &Graph) -> [AggregationNode; 2] {
    let leaf = graph.switch_of(graph.attachment(EndpointId(0)).unwrap());
    let has_hosts = |switch| {
        graph.endpoints().any(|endpoint| {
            graph.attachment(endpoint).map(|port| graph.switch_of(port)) == Some(switch)
        })
    };
    let spine = graph.switches().find(|switch| !has_hosts(*switch)).unwrap();
    [leaf, spine].map(AggregationNode::Switch)
}

fn ends(emulator: &mut Emulator) -> Vec<(u32, Result<Option<Values>, Failure>)> {
    let mut ends: Vec<_> = std::iter::from_fn(|| emulator.poll_finished())
        .map(|finished| (finished.process, finished.result))
        .collect();
    ends.sort_by_key(|end| end.0);
    ends
}

/// All four contribute and everything travels.
fn run(work: Work, values: [Option<Values>; 4]) -> Vec<(u32, Result<Option<Values>, Failure>)> {
    let mut emulator = small_tree();
    let [leaf, root] = leaf_and_spine(emulator.graph());
    for ((number, to), values) in (0..).zip([leaf, leaf, leaf, root]).zip(values) {
        emulator.contribute(contribution(number, 4, to, work, values)).unwrap();
    }
    // Three over one link and one over two; three of them combined over one more; and back.
    assert_eq!(emulator.run_aggregation(), 2 * (3 + 2 + 1));
    ends(&mut emulator)
}

#[test]
fn each_kind_of_work_gives_everybody_its_due() {
    let floats = |values: [f64; 2]| Some(Values::F64(values.to_vec()));
    let parts = [[1.5, 9.0], [2.0, -1.0], [0.25, 3.0], [4.0, 5.0]];
    let work = |reduction| Work::AllReduce { reduction };
    let all = |due: Option<Values>| (0..4).map(|one| (one, Ok(due.clone()))).collect::<Vec<_>>();
    assert_eq!(run(work(Reduction::Sum), parts.map(floats)), all(floats([7.75, 16.0])));
    assert_eq!(run(work(Reduction::Min), parts.map(floats)), all(floats([0.25, -1.0])));
    assert_eq!(run(Work::Barrier, [const { None }; 4]), all(None));
    let bits = [0b1110_u64, 0b0111, 0b1111, 0b0110].map(|bits| Some(Values::U64(vec![bits])));
    assert_eq!(run(work(Reduction::And), bits.clone()), all(Some(Values::U64(vec![0b0110]))));
    let message = Some(Values::U64(vec![1, 2, 3]));
    let from_2 = [None, None, message.clone(), None];
    assert_eq!(run(Work::Broadcast { source: 2 }, from_2), all(message));
    let root = Work::Reduce { reduction: Reduction::Or, root: 1 };
    let mut to_one = all(None);
    to_one[1] = (1, Ok(Some(Values::U64(vec![0b1111]))));
    assert_eq!(run(root, bits), to_one);
}

#[test]
fn adapters_reduce_as_switches_do() {
    // 0 above 1 and 2; 2 above 3.
    let mut emulator = fabric();
    put(&mut emulator, entry(process(0), None, &[process(0), process(1), process(2)])).unwrap();
    put(&mut emulator, entry(process(2), Some(process(0)), &[process(2), process(3)])).unwrap();
    for (number_, to) in [(0, 0), (1, 0), (2, 2), (3, 2)] {
        let part = contribution(number_, 4, process(to), SUM, number(number_));
        emulator.contribute(part).unwrap();
    }
    emulator.run_aggregation();
    let sum = Ok(Some(Values::I64(vec![10])));
    assert_eq!(ends(&mut emulator), [0, 1, 2, 3].map(|one| (one, sum.clone())));
}

#[test]
fn a_switch_that_dies_with_part_of_an_operation_is_named() {
    let mut emulator = small_tree();
    let [leaf, root] = leaf_and_spine(emulator.graph());
    let AggregationNode::Switch(dying) = leaf else { panic!("a switch") };
    emulator.contribute(contribution(0, 4, leaf, SUM, number(0))).unwrap();
    emulator.contribute(contribution(3, 4, root, SUM, number(3))).unwrap();
    emulator.run_aggregation();
    assert_eq!(ends(&mut emulator), [], "two are still missing");
    emulator.fail(Component::Switch(dying)).unwrap();
    let failure = Failure::NodeFailed { node: leaf };
    assert_eq!(ends(&mut emulator), [(0, Err(failure)), (3, Err(failure))]);
    emulator.heal(Component::Switch(dying)).unwrap();
    let late = emulator.contribute(contribution(1, 4, leaf, SUM, number(1)));
    assert_eq!(late, Err(ContributionError::Failed(failure)));
    let next = Contribution { sequence: 2, ..contribution(1, 4, leaf, SUM, number(1)) };
    emulator.contribute(next).unwrap();
    emulator.run_aggregation();
    let lost = Failure::NoEntry { node: leaf };
    assert_eq!(ends(&mut emulator), [(1, Err(lost))], "it came back without its entries");
}

#[test]
fn an_operation_that_is_given_up_tells_all_who_wait_and_who_come_late() {
    let mut emulator = small_tree();
    let [leaf, _] = leaf_and_spine(emulator.graph());
    assert!(!emulator.abandon(TREE, 1), "nobody has begun");
    emulator.contribute(contribution(0, 4, leaf, SUM, number(0))).unwrap();
    assert!(emulator.abandon(TREE, 1));
    emulator.run_aggregation();
    assert_eq!(ends(&mut emulator), [(0, Err(Failure::Abandoned))]);
    let late = emulator.contribute(contribution(1, 4, leaf, SUM, number(1)));
    assert_eq!(late, Err(ContributionError::Failed(Failure::Abandoned)));
    assert!(!emulator.abandon(TREE, 1));
}

#[test]
fn an_adapter_that_dies_with_part_of_an_operation_is_named() {
    let mut emulator = fabric();
    put(&mut emulator, entry(process(0), None, &[process(0), process(1), process(5)])).unwrap();
    emulator.contribute(contribution(1, 3, process(0), SUM, number(1))).unwrap();
    emulator.run_aggregation();
    emulator.fail(Component::Endpoint(EndpointId(0))).unwrap();
    let failure = Failure::NodeFailed { node: process(0) };
    assert_eq!(ends(&mut emulator), [(1, Err(failure))]);
    let late = emulator.contribute(contribution(5, 3, process(0), SUM, number(5)));
    assert_eq!(late, Err(ContributionError::Failed(failure)));
}

#[test]
fn an_entry_that_is_removed_ends_what_it_had_part_of() {
    let mut emulator = small_tree();
    let [leaf, root] = leaf_and_spine(emulator.graph());
    emulator.contribute(contribution(0, 4, leaf, SUM, number(0))).unwrap();
    emulator.run_aggregation();
    remove(&mut emulator, root);
    assert_eq!(ends(&mut emulator), [], "the root had no part of it yet");
    remove(&mut emulator, leaf);
    assert_eq!(ends(&mut emulator), [(0, Err(Failure::EntryRemoved))]);
}

#[test]
fn packets_pass_switches_without_an_entry_and_take_another_way_when_one_dies() {
    // The root is on the first leaf; 3 is on the second, behind either spine.
    let mut emulator = fabric();
    let [leaf, spine] = leaf_and_spine(emulator.graph());
    put(&mut emulator, entry(leaf, None, &[process(0), process(3)])).unwrap();
    let run = |emulator: &mut Emulator, sequence| {
        for one in [0, 3] {
            let part = contribution(one, 2, leaf, SUM, number(one));
            emulator.contribute(Contribution { sequence, ..part }).unwrap();
        }
        let hops = emulator.run_aggregation();
        (hops, ends(emulator).into_iter().map(|end| end.1).collect::<Vec<_>>())
    };
    let due = (2 + 2 * 3, vec![Ok(Some(Values::I64(vec![5]))); 2]);
    assert_eq!(run(&mut emulator, 1), due);
    let AggregationNode::Switch(spine) = spine else { panic!("a switch") };
    emulator.fail(Component::Switch(spine)).unwrap();
    assert_eq!(run(&mut emulator, 2), due);
    let spines: Vec<SwitchId> =
        emulator.graph().switches().filter(|at| at.0.abs_diff(spine.0) == 1).collect();
    for other in spines {
        emulator.fail(Component::Switch(other)).unwrap();
    }
    let failure = Failure::NoRoute { to: leaf };
    assert_eq!(run(&mut emulator, 3).1, [Err(failure), Err(failure)]);
}

#[test]
fn processes_that_do_not_agree_are_told() {
    let mut emulator = small_tree();
    let [leaf, root] = leaf_and_spine(emulator.graph());
    let send = |emulator: &mut Emulator, one, to, work, values| {
        emulator.contribute(contribution(one, 4, to, work, values))
    };
    assert_eq!(
        send(&mut emulator, 0, leaf, Work::Barrier, number(0)),
        Err(ContributionError::Values)
    );
    let bits = Work::AllReduce { reduction: Reduction::And };
    let float = Some(Values::F64(vec![1.0]));
    assert_eq!(send(&mut emulator, 0, leaf, bits, float.clone()), Err(ContributionError::Values));
    send(&mut emulator, 0, leaf, SUM, number(0)).unwrap();
    assert_eq!(send(&mut emulator, 0, leaf, SUM, number(0)), Err(ContributionError::Twice));
    assert_eq!(send(&mut emulator, 1, leaf, bits, number(1)), Err(ContributionError::Disagreement));
    let mut nowhere = contribution(1, 4, leaf, SUM, number(1));
    nowhere.endpoint = EndpointId(99);
    assert_eq!(emulator.contribute(nowhere), Err(ContributionError::Unknown));
    // Integers and a floating-point number.
    send(&mut emulator, 1, leaf, SUM, number(1)).unwrap();
    send(&mut emulator, 2, leaf, SUM, float).unwrap();
    send(&mut emulator, 3, root, SUM, number(3)).unwrap();
    emulator.run_aggregation();
    let failure = Err(Failure::Disagreement);
    assert_eq!(ends(&mut emulator), [0, 1, 2, 3].map(|one| (one, failure.clone())));
}

#[test]
fn refused_entries_are_named() {
    let mut emulator = small_tree();
    let [leaf, root] = leaf_and_spine(emulator.graph());
    let AggregationNode::Switch(id) = leaf else { panic!("a switch") };
    let name = emulator.graph().switch_name(id).to_owned();
    let mut refused = |entry: AggregationEntry, at: AggregationNode| {
        let write = AggregationWrite::Put(entry);
        let refused = emulator.write_aggregation(place(at), Fence::default(), &[write]);
        refused.unwrap_err().to_string()
    };
    assert_eq!(
        refused(entry(leaf, None, &[process(0)]), leaf),
        format!("switch {name}: change 0 (tree 7): the holder has another entry for this tree")
    );
    let other = AggregationEntry { tree: 8, ..entry(leaf, None, &[process(0), process(0)]) };
    let text = "there is no child, a child is doubled, or it is the holder or its parent";
    assert!(refused(other.clone(), leaf).ends_with(text));
    assert!(refused(other.clone(), root).ends_with("the holder is not here"));
    let unknown = AggregationEntry { children: vec![process(99)], ..other };
    assert!(refused(unknown, leaf).ends_with("not part of the fabric"));
    let below_itself = AggregationEntry { children: vec![leaf], ..other };
    assert!(refused(below_itself, leaf).ends_with(text));
    assert_eq!(refused(entry(leaf, None, &[]), switch(77)), "switch #77: not part of the fabric");
    let adapter = AggregationPlace::Adapter(EndpointId(0));
    emulator.fail(Component::Endpoint(EndpointId(0))).unwrap();
    let dead = emulator.read_aggregation(adapter).unwrap_err();
    assert_eq!(dead.problem, AggregationProblem::Dead);
    assert!(dead.to_string().starts_with("adapter "), "{dead}");
    let many = ChangeProblem::TooManyChildren { children: 65, limit: 64 };
    assert_eq!(many.to_string(), "65 children are more than 64");
}
