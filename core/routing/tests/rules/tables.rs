//! Packed tables hold what the trees imply, and follow every change.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_routing::{Engine, Plan, TableImage, table_diff, virtual_group_entries};
use fabricast_topology::{Graph, SwitchId, TableEntry, TableKind};
use proptest::prelude::*;

use crate::any_tables;
use crate::fabrics::{Step, fabric, make, steps};

type Rows = BTreeMap<(SwitchId, u8, u16), TableEntry>;

/// The rows of all trees, one by one.
fn plainly(graph: &Graph, plan: &Plan) -> Rows {
    let tables = plan.tables();
    let rows = plan.virtual_groups().flat_map(|group| virtual_group_entries(graph, tables, &group));
    rows.map(|row| ((row.switch, row.in_port, row.color), row)).collect()
}

fn check(graph: &Graph, engine: &Engine) -> Result<TableImage, TestCaseError> {
    let plan = engine.plan();
    let (image, plain) = (TableImage::new(graph, plan), plainly(graph, plan));
    prop_assert!(image.iter().eq(plain.values().copied()));
    prop_assert_eq!((image.len(), image.is_empty()), (plain.len(), plain.is_empty()));
    let in_ports = |switch| match plan.tables() {
        TableKind::PerPort => 1..=u8::try_from(graph.ports(switch).len()).expect("few ports"),
        TableKind::PerSwitch => 0..=0,
    };
    for switch in graph.switches() {
        prop_assert!(
            image.rows(switch).eq(plain.values().filter(|row| row.switch == switch).copied())
        );
        for (in_port, color) in
            in_ports(switch).flat_map(|port| (0..plan.colors()).map(move |at| (port, at)))
        {
            let out = plain.get(&(switch, in_port, color)).map(|row| row.out);
            prop_assert_eq!(image.find(switch, in_port, color), out);
        }
    }
    Ok(image)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Every row is found, alone and in its place, and no other.
    #[test]
    fn an_image_holds_the_rows_of_all_trees(
        fabric in fabric(), colors in 1u16..5, tables in any_tables(), history in steps(40),
    ) {
        let mut engine = fabric.engine(colors, tables);
        for step in &history {
            make(&mut engine, &fabric.graph, step);
        }
        check(&fabric.graph, &engine)?;
    }

    /// An image that follows is the one packed anew, and names the switches that changed.
    #[test]
    fn an_image_follows_its_plan(
        fabric in fabric(), colors in 1u16..5, tables in any_tables(), history in steps(40),
    ) {
        let graph = &fabric.graph;
        let mut engine = fabric.engine(colors, tables);
        let mut image = TableImage::new(graph, engine.plan());
        for steps in history.chunks(2) {
            let before = plainly(graph, engine.plan());
            steps.iter().for_each(|step| make(&mut engine, graph, step));
            let touched = image.update(graph, engine.plan());
            prop_assert_eq!(&image, &TableImage::new(graph, engine.plan()));
            let now = plainly(graph, engine.plan());
            let differs = |row: &&TableEntry| before.get(&place(row)) != now.get(&place(row));
            let differing: BTreeSet<SwitchId> =
                before.values().chain(now.values()).filter(differs).map(|row| row.switch).collect();
            prop_assert!(touched.iter().copied().eq(differing));
        }
    }

    #[test]
    fn a_diff_turns_the_old_tables_into_the_new_ones(
        fabric in fabric(), colors in 1u16..5, tables in any_tables(), history in steps(40),
    ) {
        let graph = &fabric.graph;
        let mut engine = fabric.engine(colors, tables);
        for steps in history.chunks(3) {
            let before = engine.plan().clone();
            steps.iter().for_each(|step: &Step| make(&mut engine, graph, step));
            let mut rows = plainly(graph, &before);
            let mut last = None;
            for (switch, diff) in table_diff(graph, &before, engine.plan()) {
                prop_assert!(last.replace(switch) < Some(switch));
                for row in diff.removed {
                    prop_assert_eq!(rows.remove(&place(&row)), Some(row));
                }
                for row in diff.changed {
                    let old = rows.insert(place(&row), row);
                    prop_assert!(old.is_some_and(|old| old.out != row.out));
                }
                for row in diff.added {
                    prop_assert_eq!(rows.insert(place(&row), row), None);
                }
            }
            prop_assert_eq!(rows, plainly(graph, engine.plan()));
        }
    }
}

fn place(row: &TableEntry) -> (SwitchId, u8, u16) {
    (row.switch, row.in_port, row.color)
}
