//! The drawing of small fabrics, and laws of all.

use std::sync::Arc;

use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{GraphBuilder, Peer, SwitchFacts};

use crate::{Drawing, Fabric, Overlay, Scope, Unit, draw, escape, fill_class};

fn fabric(toml: &str) -> Fabric {
    Fabric::new(Arc::new(TopologySpec::parse(toml).unwrap().generate().unwrap()))
}

fn small() -> Fabric {
    fabric("kind = 'leaf-spine'\nleaves = 3\nspines = 2\nendpoints_per_leaf = 2\n")
}

fn overlaps(drawing: &Drawing) -> Vec<(&str, &str)> {
    let cells = &drawing.cells;
    let mut found = Vec::new();
    for (at, a) in cells.iter().enumerate() {
        for b in &cells[at + 1..] {
            if (a.x - b.x).abs() < 68 && (a.y - b.y).abs() < 34 {
                found.push((a.label.as_str(), b.label.as_str()));
            }
        }
    }
    found
}

#[test]
fn a_small_fabric_is_drawn_as_in_the_golden_file() {
    let fabric = small();
    let graph = fabric.graph();
    let mut overlay = Overlay { full: 8, by_switch: vec![0, 1, 4, 6, 8], ..Overlay::default() };
    let leaf = graph.switches().next().unwrap();
    let up = graph.ports(leaf).find(|port| matches!(graph.peer(*port), Peer::Switch(_))).unwrap();
    overlay.faults.fail_link(graph, up);
    overlay.by_port.insert(up, 3);
    let text =
        draw(&fabric, Scope::Whole, &overlay).svg(&|unit| Some(format!("/open?unit={unit}")));
    assert_eq!(text, include_str!("small.svg"), "put the new text there if it is right:\n{text}");
}

#[test]
fn large_fabrics_are_drawn_by_midplane_and_opened() {
    let fabric = Fabric::new(Arc::new(TopologySpec::demo().generate().unwrap()));
    let whole = draw(&fabric, Scope::Whole, &Overlay::default());
    assert_eq!(whole.cells.len(), 16 + 8, "16 compute and 8 top midplanes");
    assert_eq!(whole.lines.len(), 16 * 8);
    assert_eq!(overlaps(&whole), []);
    let inside = draw(&fabric, Scope::Inside(Unit::Cn(3)), &Overlay::default());
    assert_eq!(inside.cells.len(), 8 + 4 + 8, "leaf and level-1 switches, and top midplanes");
    assert_eq!(overlaps(&inside), []);
    let top = draw(&fabric, Scope::Inside(Unit::Tn(0)), &Overlay::default());
    assert!(top.cells.iter().any(|cell| matches!(cell.unit, Unit::Switch(_))));
    assert_eq!(overlaps(&top), []);
}

#[test]
fn the_papers_fabric_takes_less_than_a_hundred_kilobytes() {
    let fabric = Fabric::new(Arc::new(TopologySpec::paper().generate().unwrap()));
    let drawing = draw(&fabric, Scope::Whole, &Overlay::default());
    assert_eq!(drawing.cells.len(), 64 + 96);
    assert!(drawing.left_out > 0, "64 by 96 lines are too many");
    assert!(!drawing.lines.is_empty(), "frames are joined instead");
    assert_eq!(overlaps(&drawing), []);
    let size = drawing.svg(&|_| None).len();
    assert!(size < 100_000, "{size} bytes");
}

#[test]
fn a_failed_link_is_drawn_even_where_others_are_hidden() {
    let fabric = Fabric::new(Arc::new(TopologySpec::paper().generate().unwrap()));
    let graph = fabric.graph();
    let is_top = |port| {
        matches!(graph.peer(port), Peer::Switch(other)
        if matches!(fabric.midplane(graph.switch_of(other)), Unit::Tn(_)))
    };
    let cn = |switch| fabric.midplane(switch) == Unit::Cn(7);
    let mut ports = graph.switches().filter(|s| cn(*s)).flat_map(|s| graph.ports(s));
    let port = ports.find(|port| is_top(*port)).unwrap();
    let mut overlay = Overlay::default();
    overlay.faults.fail_link(graph, port);
    let drawing = draw(&fabric, Scope::Whole, &overlay);
    let failed: Vec<_> = drawing.lines.iter().filter(|line| line.failed > 0).collect();
    assert_eq!(failed.len(), 1);
    assert!(failed[0].title.starts_with("CN 7 – TN "), "{}", failed[0].title);
}

#[test]
fn fabrics_without_levels_are_drawn_on_a_circle() {
    let torus = fabric("kind = 'torus'\nx = 3\ny = 3\nz = 3\nendpoints_per_switch = 1\n");
    let drawing = draw(&torus, Scope::Whole, &Overlay::default());
    assert_eq!(drawing.cells.len(), 27);
    assert_eq!(overlaps(&drawing), []);
    let large = Fabric::new(Arc::new(TopologySpec::preset("torus").unwrap().generate().unwrap()));
    let drawing = draw(&large, Scope::Whole, &Overlay::default());
    assert!(drawing.cells.len() <= 48, "{}", drawing.cells.len());
    assert_eq!(overlaps(&drawing), []);
}

#[test]
fn names_are_never_markup() {
    let evil = "<script>alert('1')</script>\u{7}\u{202e}&\"";
    let mut builder = GraphBuilder::new();
    builder.add_switch("S-1", evil, 2, SwitchFacts::default());
    let graph = builder.build().unwrap();
    let text = draw(&Fabric::new(Arc::new(graph)), Scope::Whole, &Overlay::default()).file();
    assert!(text.contains("&lt;script&gt;") || text.contains("script&gt;"), "{text}");
    assert!(!text.contains("<script"), "{text}");
    assert_eq!(escape("a\u{0}b'"), "a\u{fffd}b&#39;");
}

#[test]
fn tables_fall_into_quarters() {
    let classes: Vec<u8> = [0, 1, 7, 8, 15, 16, 24, 31, 32].map(|used| fill_class(used, 32)).into();
    assert_eq!(classes, [0, 1, 1, 2, 2, 3, 4, 4, 5]);
    assert_eq!(fill_class(3, 0), 0);
}

#[test]
fn units_are_read_as_they_are_printed() {
    for key in ["switch-7", "cn-0", "tn-12", "part-3"] {
        assert_eq!(Unit::parse(key).unwrap().to_string(), key);
    }
    for bad in ["", "cn", "cn-", "cn-x", "cn--1", "rack-1"] {
        assert_eq!(Unit::parse(bad), None, "{bad}");
    }
}
