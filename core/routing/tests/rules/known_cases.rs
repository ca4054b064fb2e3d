//! Cases that once broke a law, kept by hand: they are tried whatever the random ones are.

use fabricast_routing::RootScope;
use fabricast_topology::TableKind;

use crate::check;
use crate::dynamic_root::{dynamic, left_alone};
use crate::fabrics::{Fabric, Step, Way, make};
use crate::oracle::{Oracle, answer_of};

fn fabric(spec: &str, disorder: Option<u32>) -> Fabric {
    Fabric::new(spec.to_owned(), disorder).expect("a fat tree")
}

/// R1 to R4 after every step.
fn keeps_the_rules(fabric: &Fabric, colors: u16, way: Way, history: &[Step]) {
    let mut engine = fabric.engine(colors, way);
    for step in history {
        make(&mut engine, &fabric.graph, step);
        assert_eq!(engine.plan(), &engine.plan_from_scratch());
        let faults = engine.faults().clone();
        let oracle = Oracle { fabric, faults: &faults, engine: &engine };
        assert_eq!(answer_of(&engine), oracle.answer());
        assert!(check(&fabric.graph, &engine).is_clean());
    }
}

/// A dead leaf and a dead endpoint, then a group with members on both.
#[test]
fn members_die_before_their_group_comes() {
    let spec = "kind = \"leaf-spine\"\nleaves = 3\nspines = 1\nendpoints_per_leaf = 3\nlanes0 = 2";
    let history = [
        Step::Faults(vec![(0, 6_532_146), (1, 3_313_767_066)]),
        Step::Put(0, vec![1_369_783_266, 395_650_206]),
    ];
    let way = (TableKind::PerPort, false);
    keeps_the_rules(&fabric(spec, Some(2_758_612_095)), 1, way, &history);
}

/// With fault tolerance, a group of nobody beside one of two.
#[test]
fn an_empty_group_has_no_second_tree() {
    let spec = "kind = \"k-ary-3-level\"\nk = 4\npods = 2\nendpoints_per_leaf = 1";
    let history = [Step::Put(0, vec![469_904_561, 63_522_890]), Step::Put(1, vec![])];
    keeps_the_rules(&fabric(spec, None), 2, (TableKind::PerPort, true), &history);
}

/// A leaf dies under two groups of one color; a link dies that one of three groups uses.
#[test]
fn failures_leave_others_alone_where_trees_are_few() {
    let scope = (TableKind::PerPort, RootScope::Tn);
    let two = "kind = \"leaf-spine\"\nleaves = 2\nspines = 1\nendpoints_per_leaf = 1";
    let three = "kind = \"leaf-spine\"\nleaves = 3\nspines = 1\nendpoints_per_leaf = 3\nlanes0 = 3";
    let cases = [
        (two, vec![Step::Put(0, vec![0, 1]), Step::Put(1, vec![0, 1])], (0, 0)),
        (
            three,
            vec![Step::Put(0, vec![0, 6]), Step::Put(16, vec![1, 8]), Step::Put(1, vec![6, 8])],
            (2, 16),
        ),
    ];
    for (spec, history, broken) in cases {
        let fabric = fabric(spec, None);
        let mut engine = dynamic(&fabric, 1, scope);
        for step in &history {
            make(&mut engine, &fabric.graph, step);
        }
        left_alone(&fabric, engine, &[broken]).unwrap();
    }
}
