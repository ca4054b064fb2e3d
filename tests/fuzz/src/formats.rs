//! Files that people exchange: topologies, groups, routes, tables, lists of nodes, measurements.

use std::sync::LazyLock;

use fabricast_collectives::{CostParameters, read_measurements, read_measurements_csv};
use fabricast_routing::formats::{
    read_groups, read_routes, read_tables, write_groups, write_routes, write_tables,
};
use fabricast_routing::jobs::{hostlist, slurm};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{FatTree, Graph, TableKind, ibnetdiscover as text};

/// A description of a fabric, small enough to be built thousands of times.
const LEAF_SPINE: &str = "kind = 'leaf-spine'\nleaves = 3\nspines = 2\nendpoints_per_leaf = 2\n";
/// Larger ones are not built: that they take long is no fault.
const MOST_DIGITS: usize = 3;

static GRAPH: LazyLock<Graph> = LazyLock::new(|| {
    TopologySpec::parse(LEAF_SPINE).expect("a spec").generate().expect("a fabric")
});

/// A topology as `ibnetdiscover` prints it; what was read is written and read again as the same.
pub(crate) fn ibnetdiscover(data: &[u8]) {
    let Ok(input) = std::str::from_utf8(data) else { return };
    let Ok(graph) = text::read(input) else { return };
    let written = text::write(&graph);
    let again = text::read(&written).expect("what we write, we read");
    assert_eq!(text::write(&again), written, "read and written again, it is the same");
    // Whether it is a fat tree is said, of anything.
    let _ = FatTree::detect(&graph);
}

/// A generated topology.
pub(crate) fn topology_toml(data: &[u8]) {
    let Ok(input) = std::str::from_utf8(data) else { return };
    let Ok(spec) = TopologySpec::parse(input) else { return };
    let is_long = |digits: &str| digits.trim_start_matches('0').len() > MOST_DIGITS;
    let mut numbers = input.split(|c: char| !c.is_ascii_digit());
    if input.contains(['x', 'o', '_']) && input.contains("0x") || numbers.any(is_long) {
        return;
    }
    // Refused, or built.
    let _ = spec.generate();
}

/// Groups, one in each line.
pub(crate) fn groups(data: &[u8]) {
    let Ok(input) = std::str::from_utf8(data) else { return };
    let Ok(records) = read_groups(input, &GRAPH) else { return };
    let written = write_groups(&records, &GRAPH);
    let again = read_groups(&written, &GRAPH).expect("what we write, we read");
    assert_eq!(again, records);
}

/// Routes, one group in each line.
pub(crate) fn routes(data: &[u8]) {
    let Ok(input) = std::str::from_utf8(data) else { return };
    let Ok(file) = read_routes(input, &GRAPH) else { return };
    let written = write_routes(&file, &GRAPH);
    let again = read_routes(&written, &GRAPH).expect("what we write, we read");
    assert_eq!(write_routes(&again, &GRAPH), written);
}

/// Rows of tables, one in each line.
pub(crate) fn tables(data: &[u8]) {
    let Ok(input) = std::str::from_utf8(data) else { return };
    for kind in [TableKind::PerPort, TableKind::PerSwitch] {
        let Ok(entries) = read_tables(input, &GRAPH, kind, 32) else { continue };
        let written = write_tables(&entries, &GRAPH, kind);
        let again = read_tables(&written, &GRAPH, kind, 32).expect("what we write, we read");
        assert_eq!(again, entries);
    }
}

/// A list of nodes as Slurm writes it.
pub(crate) fn hostlist(data: &[u8]) {
    let Ok(input) = std::str::from_utf8(data) else { return };
    let _ = hostlist::expand(input);
    let _ = hostlist::is_node_name(input);
}

/// A topology as Slurm writes it.
pub(crate) fn slurm(data: &[u8]) {
    let Ok(input) = std::str::from_utf8(data) else { return };
    let _ = slurm::read(input);
}

/// Measurements of collectives, and the constants fitted to them.
pub(crate) fn measurements(data: &[u8]) {
    let Ok(input) = std::str::from_utf8(data) else { return };
    let _ = read_measurements(input);
    let _ = read_measurements_csv(input);
    let _ = CostParameters::parse(input);
}

/// Good inputs that other code writes.
pub(crate) fn made(target: &str) -> Vec<Vec<u8>> {
    let lines = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    let hosts: Vec<&str> = GRAPH.endpoints().map(|one| GRAPH.endpoint_name(one)).collect();
    let switches: Vec<&str> = GRAPH.switches().map(|one| GRAPH.switch_name(one)).collect();
    match target {
        "ibnetdiscover" => lines(&[
            &text::write(&GRAPH),
            include_str!("../../../data/quirks/one-host.ibnetdiscover"),
            include_str!("../../../data/quirks/loopback-cables.ibnetdiscover"),
            include_str!("../../../data/quirks/timeout-lines.ibnetdiscover"),
        ]),
        "topology-toml" => lines(&[LEAF_SPINE]),
        "groups" => lines(&[&format!(
            "{{\"mgid\": 17, \"name\": \"rows/17\", \"members\": [\"{}\", \"{}\"]}}\n",
            hosts[0], hosts[3]
        )]),
        "tables" => {
            let row = |inside: &str| {
                format!(
                    "{{\"switch\": \"{}\", {inside}\"color\": 5, \"out_ports\": [1, 2]}}\n",
                    switches[0]
                )
            };
            lines(&[&row("\"in_port\": 3, "), &row("")])
        }
        _ => Vec::new(),
    }
}
