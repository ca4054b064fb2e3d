//! Packed tables hold what the trees imply, and follow every change.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_routing::{FixedRootEngine, Plan, TableImage, virtual_group_entries};
use fabricast_topology::{Graph, SwitchId, TableEntry, TableKind};
use proptest::prelude::*;

use crate::fabrics::{any_way, fabric, make, steps};

type Rows = BTreeMap<(SwitchId, u8, u16), TableEntry>;

/// The rows of all trees, one by one; where both trees of a pair have a row, packets take both
/// ways.
fn plainly(graph: &Graph, plan: &Plan) -> Rows {
    let tables = plan.tables();
    let rows = plan.virtual_groups().flat_map(|group| virtual_group_entries(graph, tables, &group));
    let mut all = Rows::new();
    for row in rows {
        let held = all.entry(place(&row)).or_insert(row);
        assert!(plan.is_dual() || *held == row, "one row for each key");
        held.out = held.out.union(row.out);
    }
    all
}

fn check(graph: &Graph, engine: &FixedRootEngine) -> Result<TableImage, TestCaseError> {
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
        fabric in fabric(), colors in 1u16..5, way in any_way(), history in steps(40),
    ) {
        let mut engine = fabric.engine(colors, way);
        for step in &history {
            make(&mut engine, &fabric.graph, step);
        }
        check(&fabric.graph, &engine)?;
    }

    /// An image that follows is the one packed anew, and names the switches that changed.
    #[test]
    fn an_image_follows_its_plan(
        fabric in fabric(), colors in 1u16..5, way in any_way(), history in steps(40),
    ) {
        let graph = &fabric.graph;
        let mut engine = fabric.engine(colors, way);
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
}

fn place(row: &TableEntry) -> (SwitchId, u8, u16) {
    (row.switch, row.in_port, row.color)
}
