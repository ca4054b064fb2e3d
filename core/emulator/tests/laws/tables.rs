//! Reads return what was written; refused writes change nothing.

use std::collections::BTreeMap;

use fabricast_emulator::{Emulator, EntryProblem, EntryWrite, Fence, TableError, TableProblem};
use fabricast_topology::{Graph, PortSet, SwitchId, TableEntry, TableKind};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::graphs::{COLORS, graph, kind};

/// Any entry at all, mostly near the bounds.
fn any_entry() -> impl Strategy<Value = EntryWrite> {
    let port = prop_oneof![8 => 1..5_u8, 1 => any::<u8>()];
    let in_port = prop_oneof![4 => 0..3_u8, 1 => any::<u8>()];
    let color = prop_oneof![9 => 0..COLORS, 1 => any::<u16>()];
    (in_port, color, vec(port, 0..3)).prop_map(|(in_port, color, out)| EntryWrite {
        in_port,
        color,
        out: out.into_iter().collect(),
    })
}

fn fits(graph: &Graph, switch: SwitchId, kind: TableKind, entry: &EntryWrite) -> bool {
    let exists = |number| graph.port(switch, number).is_some();
    let in_port = match kind {
        TableKind::PerPort => exists(entry.in_port),
        TableKind::PerSwitch => entry.in_port == 0,
    };
    in_port && entry.color < COLORS && entry.out.iter().all(exists)
}

type Table = BTreeMap<(u8, u16), PortSet>;

fn read(emulator: &Emulator, switch: SwitchId) -> Table {
    let entries = emulator.read_table(switch).unwrap();
    assert!(entries.is_sorted(), "by input port and color");
    assert!(entries.iter().all(|entry| entry.switch == switch));
    entries
        .into_iter()
        .map(|TableEntry { in_port, color, out, .. }| ((in_port, color), out))
        .collect()
}

proptest! {
    #[test]
    fn a_batch_is_written_as_a_whole_or_not_at_all(
        graph in graph(),
        kind in kind(),
        batches in vec((0..6_u32, 0..3_u64, 0..3_u64, vec(any_entry(), 0..4)), 0..40),
    ) {
        let mut emulator = Emulator::new(graph.clone(), kind, COLORS);
        let mut tables = vec![(Table::new(), Fence::default()); graph.switch_count()];
        for (switch, term, generation, batch) in batches {
            let fence = Fence { term, generation };
            let switch = SwitchId(switch);
            let result = emulator.write_table(switch, fence, &batch);
            let Some((table, seen)) = tables.get_mut(switch.index()) else {
                prop_assert_eq!(result.unwrap_err().problem, TableProblem::Unknown);
                continue;
            };
            let ok = fence >= *seen && batch.iter().all(|entry| fits(&graph, switch, kind, entry));
            prop_assert_eq!(result.is_ok(), ok, "{:?}", result);
            if ok {
                *seen = fence;
                table.extend(batch.iter().map(|entry| ((entry.in_port, entry.color), entry.out)));
                table.retain(|_, out| !out.is_empty());
            }
            prop_assert_eq!(&read(&emulator, switch), &*table);
            prop_assert_eq!(emulator.fence(switch).unwrap(), *seen);
            for in_port in 0..=u8::MAX {
                let entry = EntryWrite { in_port, color: 0, out: PortSet::EMPTY };
                let used = table.keys().filter(|(port, _)| *port == in_port).count();
                let expected = if fits(&graph, switch, kind, &entry) { 3 - used } else { 0 };
                let free = emulator.free_entries(switch, in_port).unwrap();
                prop_assert_eq!(usize::from(free), expected);
            }
        }
    }
}

fn one_switch(kind: TableKind) -> Emulator {
    let text = "kind = \"leaf-spine\"\nleaves = 1\nspines = 0\nendpoints_per_leaf = 4\n";
    let graph = fabricast_topology::spec::TopologySpec::parse(text).unwrap().generate().unwrap();
    Emulator::new(graph.into(), kind, 2)
}

fn entry(in_port: u8, color: u16, out: u8) -> EntryWrite {
    EntryWrite { in_port, color, out: PortSet::single(out) }
}

#[test]
fn refusals_name_switch_entry_and_value() {
    let cases = [
        (TableKind::PerPort, entry(1, 2, 1), "(input port 1, color 2): color 2 is not below 2"),
        (
            TableKind::PerPort,
            entry(0, 1, 1),
            "(input port 0, color 1): input port 0 is not one of 1..=4",
        ),
        (
            TableKind::PerPort,
            entry(4, 0, 5),
            "(input port 4, color 0): output port 5 is not one of 1..=4",
        ),
        (
            TableKind::PerPort,
            entry(1, 0, 0),
            "(input port 1, color 0): output port 0 is not one of 1..=4",
        ),
        (
            TableKind::PerSwitch,
            entry(3, 0, 1),
            "(input port 3, color 0): input port 3 named for a per-switch table, which takes only 0",
        ),
    ];
    for (kind, wrong, text) in cases {
        let mut emulator = one_switch(kind);
        let name = emulator.graph().switch_name(SwitchId(0)).to_owned();
        let good = entry(u8::from(kind == TableKind::PerPort), 0, 2);
        let refused = emulator.write_table(SwitchId(0), Fence::default(), &[good, wrong]);
        assert_eq!(refused.unwrap_err().to_string(), format!("switch {name}: entry 1 {text}"));
        assert!(emulator.read_table(SwitchId(0)).unwrap().is_empty());
    }
}

#[test]
fn an_older_fence_is_refused_with_the_one_seen() {
    let mut emulator = one_switch(TableKind::PerPort);
    let new = Fence { term: 2, generation: 1 };
    emulator.write_table(SwitchId(0), new, &[]).expect("an empty batch leaves its fence");
    let old = Fence { term: 1, generation: 9 };
    let refused = emulator.write_table(SwitchId(0), old, &[entry(1, 0, 2)]).unwrap_err();
    let problem = TableProblem::StaleFence { offered: old, seen: new };
    assert_eq!(refused.problem, problem);
    assert_eq!(
        problem.to_string(),
        "fence (term 1, generation 9) is older than (term 2, generation 1)"
    );
    emulator.write_table(SwitchId(0), new, &[entry(1, 0, 2)]).expect("the same fence again");
}

#[test]
fn a_switch_that_is_not_there_is_named_by_its_number() {
    let mut emulator = one_switch(TableKind::PerPort);
    let refused = emulator.write_table(SwitchId(7), Fence::default(), &[]).unwrap_err();
    assert_eq!(refused, TableError { switch: "#7".to_owned(), problem: TableProblem::Unknown });
    assert_eq!(refused.to_string(), "switch #7: not part of the fabric");
    assert!(emulator.read_table(SwitchId(7)).is_err() && emulator.fence(SwitchId(7)).is_err());
    let wrong = EntryProblem::Color { color: 2, colors: 2 };
    assert_eq!(wrong.to_string(), "color 2 is not below 2");
}
