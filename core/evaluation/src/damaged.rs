//! Fabrics of which parts have been absent from the start: how the engines spread groups there.
//!
//! Of no paper. Engines that choose trees freely are compared with the one whose trees are fixed.

use std::fmt;

use fabricast_routing::{EngineKind, LayerPlan, PatternShape, RootScope};
use fabricast_topology::{Faults, Graph, Peer, PortId, SplitMix, SwitchId, TableKind};

use crate::experiment::{Experiment, ExperimentError, Length, Run};
use crate::pattern::{self, Pattern};
use crate::report::{Cell, Report, Table};
use crate::routing::{Fabric, Routed, Way, route_and_walk};

/// The experiment as the command line lists it.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "damaged",
    title: "EFI, TFI and unprotected groups on fabrics that lack links and switches",
    source: "ours",
    length: Length::Fixed,
    run,
};

/// Entries of a port's table.
const COLORS: u16 = 32;

/// Kinds of fabrics, each with tables of its own.
#[derive(Clone, Copy)]
enum Kind {
    Switches,
    Paper,
    Directors,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Switches, Self::Paper, Self::Directors];

    /// Name and title.
    const fn names(self) -> [&'static str; 2] {
        match self {
            Self::Switches => ["64-port", "fabrics of 64-port switches"],
            Self::Paper => ["paper", "the C-MR4LMS paper's fabric"],
            Self::Directors => ["directors", "directors and core switches that are shared"],
        }
    }
}

/// A fabric and the groups on it.
struct Case {
    kind: Kind,
    name: &'static str,
    toml: &'static str,
    pattern: Pattern,
}

/// Leaves and spines with 64 ports, as of NDR switches, the C-MR4LMS paper's fabric, and trees in
/// which several level-1 switches of a midplane lead to one director or core switch.
const CASES: [Case; 7] = [
    Case {
        kind: Kind::Switches,
        name: "64-port leaf-spine",
        toml: LEAF_SPINE,
        pattern: Pattern::new(PatternShape::Cube(32, 32, 2), 1),
    },
    Case {
        kind: Kind::Switches,
        name: "64-port leaf-spine",
        toml: LEAF_SPINE,
        pattern: Pattern::new(PatternShape::Plane(64, 32), 1),
    },
    Case {
        kind: Kind::Switches,
        name: "64-port, three levels",
        toml: "kind = 'k-ary-3-level'\nk = 64\npods = 16\n",
        pattern: Pattern::new(PatternShape::Cube(32, 32, 16), 1),
    },
    Case {
        kind: Kind::Paper,
        name: "paper",
        toml: PAPER,
        pattern: Pattern::new(PatternShape::Cube(64, 32, 16), 1),
    },
    Case {
        kind: Kind::Directors,
        name: "bluelight",
        toml: BLUELIGHT,
        pattern: Pattern::new(PatternShape::Plane(256, 34), 1),
    },
    Case {
        kind: Kind::Directors,
        name: "bluelight",
        toml: BLUELIGHT,
        pattern: Pattern::new(PatternShape::Cube(16, 16, 34), 1),
    },
    Case {
        kind: Kind::Directors,
        name: "shared cores",
        toml: SHARED_CORES,
        pattern: Pattern::new(PatternShape::Cube(16, 16, 16), 1),
    },
];

const LEAF_SPINE: &str = "kind = 'leaf-spine'\nleaves = 64\nspines = 32\nendpoints_per_leaf = 32\n";
const PAPER: &str = "kind = 'cn-tn-fat-tree'\nleaves_per_cn = 32\nspines_per_cn = 16\n\
                     tns_per_group = 6\nblocks = 32\ncns_per_block = 16\ncns = 64\n\
                     endpoints_per_leaf = 16\nswitch_ports = 40\n";
const BLUELIGHT: &str = "kind = 'pruned-fat-tree'\nmidplanes = 34\nleaves = 16\n\
                         endpoints_per_leaf = 16\nspines = 16\nuplinks_per_spine = 4\n\
                         cores = 8\nline_ports = 18\ncore_spines = 9\ncore_lanes = 2\n\
                         switch_ports = 36\n";
/// Half as many uplinks as endpoints, and every core switch above all level-1 switches.
const SHARED_CORES: &str = "kind = 'pruned-fat-tree'\nmidplanes = 16\nleaves = 16\n\
                            endpoints_per_leaf = 16\nspines = 8\nuplinks_per_spine = 8\n\
                            cores = 8\ncore_spines = 0\n";

/// Hundredths of the links between switches, and of the switches above the leaves, that are absent.
#[derive(Clone, Copy)]
struct Damage {
    links: u32,
    switches: u32,
}

const DAMAGES: [Damage; 4] = [
    Damage { links: 0, switches: 0 },
    Damage { links: 1, switches: 0 },
    Damage { links: 5, switches: 0 },
    Damage { links: 1, switches: 1 },
];

const WAYS: [Way; 7] = [
    Way::new(EngineKind::CMr4lmsFixed, COLORS, TableKind::PerPort),
    Way::new(EngineKind::CMr4lmsDynamic, COLORS, TableKind::PerPort).scope(RootScope::TnGroup),
    Way::new(EngineKind::CMr4lmsHybrid, COLORS, TableKind::PerPort),
    Way::new(EngineKind::Mr4lms, COLORS, TableKind::PerPort),
    Way::new(EngineKind::CMr4lmsFixed, COLORS, TableKind::PerPort).fault_tolerant(),
    Way::new(EngineKind::CMr4lmsDynamic, COLORS, TableKind::PerPort)
        .scope(RootScope::TnGroup)
        .fault_tolerant(),
    Way::new(EngineKind::CMr4lmsHybrid, COLORS, TableKind::PerPort).fault_tolerant(),
];

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.links, self.switches) {
            (0, 0) => f.write_str("nothing"),
            (links, 0) => write!(f, "{links} % of links"),
            (links, switches) => write!(f, "{links} % of links, {switches} % of switches"),
        }
    }
}

fn run(run: &mut Run<'_>) -> Result<Report, ExperimentError> {
    let cases = if run.quick { &CASES[..2] } else { &CASES[..] };
    let columns = [
        "fabric",
        "pattern",
        "absent",
        "engine",
        "groups",
        "max TFI",
        "mean TFI",
        "max EFI",
        "mean EFI",
        "displaced",
        "unrouted",
        "unprotected",
        "violations",
    ];
    let mut tables = Kind::ALL.map(|kind| {
        let [name, title] = kind.names();
        [("", "One tree"), ("-two-trees", "Two trees")].map(|(suffix, trees)| {
            let name = format!("damaged-{name}{suffix}");
            let title = format!("{trees} for each group, 32 entries a port: {title}");
            Table::new(&name, &title, &columns)
        })
    });
    let steps = cases.len() * DAMAGES.len() * WAYS.len();
    for case in cases {
        let whole = Fabric::described(case.name, case.toml)?;
        for damage in DAMAGES {
            let fabric = Fabric::from_graph(without(&whole.graph, damage, run.seed));
            for way in WAYS {
                let what =
                    format!("{}, {}, without {damage}, {}", case.name, case.pattern, way.label());
                let done = tables.iter().flatten().map(|table| table.rows.len()).sum();
                run.step(done, steps, &what);
                let routed = route_and_walk(run, &fabric, way, |space| {
                    let (endpoints, seed) = (fabric.endpoints(), run.seed);
                    pattern::groups(case.pattern, LayerPlan::Compact, space, endpoints, seed)
                });
                let (routed, violations) = routed.map_err(ExperimentError::at(what))?;
                let cells = names(case, damage, way).into_iter().chain(cells(way, &routed));
                let table = &mut tables[case.kind as usize][usize::from(way.fault_tolerant)];
                table.push(cells.chain([Cell::Count(violations)]));
            }
        }
    }
    let mut notes = vec![
        "A group that no spanning tree serves is unrouted: its messages take the unicast tree."
            .to_owned(),
        "Unprotected: of two trees one lacks a link. Groups on one leaf switch do not count."
            .to_owned(),
        "Violations: rules that packets broke which were walked through the tables, as `route \
         verify` does it."
            .to_owned(),
        "MGIDs are of layers whose colors are calibrated, as in `c-mr4lms`; MR4LMS does not look at \
         them."
            .to_owned(),
    ];
    if run.quick {
        notes.push(format!("Quick form: {} of {} patterns.", cases.len(), CASES.len()));
    }
    let tables = tables.into_iter().flatten().filter(|table| !table.rows.is_empty()).collect();
    Ok(Report { tables, notes, ..Report::default() })
}

/// Gives the cells that say what was routed.
fn names(case: &Case, damage: Damage, way: Way) -> [Cell; 4] {
    [
        Cell::text(case.name),
        Cell::text(case.pattern.name()),
        Cell::text(damage.to_string()),
        Cell::text(way.label()),
    ]
}

/// Gives the cells of a plan.
fn cells(way: Way, Routed { plan, figures, .. }: &Routed) -> [Cell; 8] {
    let count = |count: usize| Cell::Count(count as u64);
    let mut unprotected: Vec<_> = plan.unprotected().map(|one| one.mgid).collect();
    unprotected.dedup();
    [
        Cell::count(figures.groups),
        Cell::count(figures.max_tfi),
        Cell::Number(figures.mean_tfi, 2),
        Cell::count(figures.switch_links.max_efi),
        Cell::Number(figures.switch_links.mean_efi, 2),
        count(plan.moved().len()),
        count(plan.unrouted().len()),
        if way.fault_tolerant { count(unprotected.len()) } else { Cell::Empty },
    ]
}

/// Takes links between switches and switches above the leaves away, by chance.
fn without(graph: &Graph, damage: Damage, seed: u64) -> Graph {
    let mut chance = SplitMix::new(seed);
    let mut faults = Faults::new();
    let between = |port: &PortId| matches!(graph.peer(*port), Peer::Switch(far) if *port < far);
    let mut links: Vec<PortId> =
        graph.switches().flat_map(|switch| graph.ports(switch)).filter(between).collect();
    chance.shuffle(&mut links);
    for port in &links[..links.len() * damage.links as usize / 100] {
        faults.fail_link(graph, *port);
    }
    let is_leaf = |port| matches!(graph.peer(port), Peer::Endpoint(_));
    let above = graph.switches().filter(|switch| !graph.ports(*switch).any(is_leaf));
    let mut switches: Vec<SwitchId> = above.collect();
    chance.shuffle(&mut switches);
    for switch in &switches[..(switches.len() * damage.switches as usize).div_ceil(100)] {
        faults.fail_switch(*switch);
    }
    graph.without(&faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_hundredths_are_absent_and_no_endpoint() {
        let whole = Fabric::described("case", LEAF_SPINE).expect("a valid description").graph;
        let links = |graph: &Graph| {
            let ports = graph.switches().flat_map(|switch| graph.ports(switch));
            ports.filter(|port| matches!(graph.peer(*port), Peer::Switch(_))).count() / 2
        };
        let damaged = without(&whole, Damage { links: 5, switches: 0 }, 1);
        assert_eq!((links(&whole), links(&damaged)), (2_048, 1_946));
        let damaged = without(&whole, Damage { links: 0, switches: 1 }, 1);
        assert_eq!(damaged.switch_count(), whole.switch_count() - 1);
        assert_eq!(damaged.endpoint_count(), whole.endpoint_count());
    }
}
