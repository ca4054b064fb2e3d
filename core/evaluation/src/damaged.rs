//! Fabrics of which parts have been absent from the start: how the engines spread groups there.
//!
//! Of no paper. Engines that choose trees freely are compared with the one whose trees are fixed,
//! and all of C-MR4LMS with MR4LMS.

mod claims;

use std::fmt;

use fabricast_routing::{EngineKind, LayerPlan, Metrics, MgidSpace, PatternShape, RootScope};
use fabricast_topology::{Faults, Graph, Peer, PortId, SplitMix, SwitchId, TableKind};

use crate::claim::Law;
use crate::experiment::{Experiment, ExperimentError, Length, Run};
use crate::pattern::{self, Pattern};
use crate::report::{Cell, Report, Table};
use crate::routing::{Fabric, Refusal, Routed, Way, route, route_and_walk};
use crate::sample::Sample;

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
    Whole,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Switches, Self::Paper, Self::Directors, Self::Whole];

    /// Name and title.
    const fn names(self) -> [&'static str; 2] {
        match self {
            Self::Switches => ["64-port", "fabrics of 64-port switches"],
            Self::Paper => ["paper", "the C-MR4LMS paper's fabric"],
            Self::Directors => ["directors", "directors and core switches that are shared"],
            Self::Whole => ["whole", "whole fabrics, 4 processes for each endpoint"],
        }
    }

    const fn case(self, name: &'static str, toml: &'static str, shape: PatternShape) -> Case {
        let processes = if matches!(self, Self::Whole) { 4 } else { 1 };
        Case { kind: self, name, toml, pattern: Pattern::new(shape, processes) }
    }

    fn damages(self) -> &'static [Damage] {
        if matches!(self, Self::Whole) { &DAMAGES[..1] } else { &DAMAGES }
    }

    /// Lists the ways to route on these fabrics: MR4LMS takes long where 32 768 groups meet.
    fn ways(self) -> Vec<Way> {
        let all = WAYS.into_iter();
        let is_left_out =
            |way: &Way| matches!(self, Self::Whole) && way.engine == EngineKind::Mr4lms;
        all.filter(|way| !is_left_out(way)).collect()
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
/// which several level-1 switches of a midplane lead to one director or core switch; then whole
/// fabrics with many groups.
const CASES: [Case; 9] = [
    Kind::Switches.case("64-port leaf-spine", LEAF_SPINE, PatternShape::Cube(32, 32, 2)),
    Kind::Switches.case("64-port leaf-spine", LEAF_SPINE, PatternShape::Plane(64, 32)),
    Kind::Switches.case("64-port, three levels", THREE_LEVELS, PatternShape::Cube(32, 32, 16)),
    Kind::Paper.case("paper", PAPER, PatternShape::Cube(64, 32, 16)),
    Kind::Directors.case("bluelight", BLUELIGHT, PatternShape::Plane(256, 34)),
    Kind::Directors.case("bluelight", BLUELIGHT, PatternShape::Cube(16, 16, 34)),
    Kind::Directors.case("shared cores", SHARED_CORES, PatternShape::Cube(16, 16, 16)),
    Kind::Whole.case("paper", PAPER, PatternShape::Cube(100, 50, 26)),
    Kind::Whole.case("paper, all 512 CNs", ALL_CNS, PatternShape::Cube(128, 128, 64)),
];

const LEAF_SPINE: &str = "kind = 'leaf-spine'\nleaves = 64\nspines = 32\nendpoints_per_leaf = 32\n";
const THREE_LEVELS: &str = "kind = 'k-ary-3-level'\nk = 64\npods = 16\n";
const PAPER: &str = "kind = 'cn-tn-fat-tree'\nleaves_per_cn = 32\nspines_per_cn = 16\n\
                     tns_per_group = 6\nblocks = 32\ncns_per_block = 16\ncns = 64\n\
                     endpoints_per_leaf = 16\nswitch_ports = 40\n";
/// 262 144 endpoints.
const ALL_CNS: &str = "kind = 'cn-tn-fat-tree'\nleaves_per_cn = 32\nspines_per_cn = 16\n\
                       tns_per_group = 6\nblocks = 32\ncns_per_block = 16\n\
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

impl Damage {
    const fn is_none(self) -> bool {
        self.links == 0 && self.switches == 0
    }
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
    let names = ["fabric", "pattern", "absent", "engine", "seeds"];
    let columns: Vec<&str> = names.into_iter().chain(FIGURES.map(|(name, _)| name)).collect();
    let mut tables = Kind::ALL.map(|kind| {
        let [name, title] = kind.names();
        [("", "One tree"), ("-two-trees", "Two trees")].map(|(suffix, trees)| {
            let name = format!("damaged-{name}{suffix}");
            let title = format!("{trees} for each group, 32 entries a port: {title}");
            Table::new(&name, &title, &columns)
        })
    });
    let steps_of = |case: &Case| case.kind.damages().len() * case.kind.ways().len();
    let steps: usize = cases.iter().map(steps_of).sum();
    let (mut broken, mut claims) = (Broken::default(), Vec::new());
    for case in cases {
        let whole = Fabric::described(case.name, case.toml)?;
        for damage in case.kind.damages().iter().copied() {
            let fabrics = damaged(run, &whole.graph, damage);
            let mut of_ways = Vec::with_capacity(WAYS.len());
            for way in case.kind.ways() {
                let what =
                    format!("{}, {}, without {damage}, {}", case.name, case.pattern, way.label());
                let done = tables.iter().flatten().map(|table| table.rows.len()).sum();
                run.step(done, steps, &what);
                let routed = route_all(run, &fabrics, case, way);
                let routed = routed.map_err(ExperimentError::at(what))?;
                broken.count(&routed);
                let table = &mut tables[case.kind as usize][usize::from(way.fault_tolerant)];
                table.push(names_of(case, damage, way).into_iter().chain(cells(damage, &routed)));
                of_ways.push((way, routed));
            }
            claims.extend(claims::beside_mr4lms(case, damage, &of_ways));
            if matches!(case.kind, Kind::Whole) {
                claims.extend(claims::of_two_trees(case, damage, &of_ways));
            }
        }
    }
    let notes = notes(run, cases.len());
    let tables = tables.into_iter().flatten().filter(|table| !table.rows.is_empty()).collect();
    Ok(Report { tables, claims, laws: vec![broken.law()], notes, ..Report::default() })
}

fn notes(run: &Run<'_>, cases: usize) -> Vec<String> {
    let mut notes = vec![
        "Rows set an engine with one tree for each group beside MR4LMS, seed by seed, on the same fabrics."
            .to_owned(),
        format!(
            "Chance chooses the parts that are absent: {} seeds from {} on, the same parts in each row of a seed. Figures \
             are means, with the least and the largest of the seeds where they differ.",
            run.seeds, run.seed
        ),
        "A group that no spanning tree serves is unrouted: its messages take the unicast tree."
            .to_owned(),
        "Cut off: members that the tree of their group leaves out, with MR4LMS those that only a way \
         down and up again connects."
            .to_owned(),
        "Unprotected: of two trees one lacks a link. Groups on one leaf switch do not count."
            .to_owned(),
        "Violations: rules that packets broke which were walked through the tables, as `route \
         verify` does it. Not with 4 processes for each endpoint, where that takes hours."
            .to_owned(),
        "MGIDs are of layers whose colors are calibrated, as in `c-mr4lms`; MR4LMS does not look at \
         them."
            .to_owned(),
    ];
    if run.quick {
        notes.push(format!("Quick form: {cases} of {} patterns.", CASES.len()));
    }
    notes
}

/// Makes the fabrics that lack these parts, with their seeds: one if nothing is absent.
fn damaged(run: &Run<'_>, whole: &Graph, damage: Damage) -> Vec<(u64, Fabric)> {
    let once = if damage.is_none() { 1 } else { usize::MAX };
    let seeds = run.all_seeds().take(once);
    seeds.map(|seed| (seed, Fabric::from_graph(without(whole, damage, seed)))).collect()
}

/// Routes a pattern on each of the fabrics.
fn route_all(
    run: &Run<'_>,
    fabrics: &[(u64, Fabric)],
    case: &Case,
    way: Way,
) -> Result<Vec<PlanFigures>, Refusal> {
    let each = fabrics.iter().map(|(seed, fabric)| {
        let groups = |space: &MgidSpace| {
            pattern::groups(case.pattern, LayerPlan::Compact, space, fabric.endpoints(), *seed)
        };
        let (routed, violations) = if matches!(case.kind, Kind::Whole) {
            (route(run, fabric, way, groups)?, None)
        } else {
            let (routed, violations) = route_and_walk(run, fabric, way, groups)?;
            (routed, Some(violations))
        };
        Ok(PlanFigures::new(way, &routed, violations))
    });
    each.collect()
}

/// Figures of one plan.
struct PlanFigures {
    metrics: Metrics,
    displaced: usize,
    unrouted: usize,
    cut_off: usize,
    /// None with one tree for each group.
    unprotected: Option<usize>,
    /// None where no packet was walked.
    violations: Option<u64>,
}

impl PlanFigures {
    fn new(way: Way, routed: &Routed, violations: Option<u64>) -> Self {
        let plan = &routed.plan;
        let mut unprotected: Vec<_> = plan.unprotected().map(|one| one.mgid).collect();
        unprotected.dedup();
        Self {
            metrics: routed.figures,
            displaced: plan.moved().len(),
            unrouted: plan.unrouted().len(),
            cut_off: plan.cut_off().count(),
            unprotected: way.fault_tolerant.then_some(unprotected.len()),
            violations,
        }
    }
}

/// Reads a figure of a plan, if it has it.
type Figure = fn(&PlanFigures) -> Option<f64>;

/// The figures of a row.
const FIGURES: [(&str, Figure); 10] = [
    ("groups", |one| Some(f64::from(one.metrics.groups))),
    ("max TFI", |one| Some(f64::from(one.metrics.max_tfi))),
    ("mean TFI", |one| Some(one.metrics.mean_tfi)),
    ("max EFI", |one| Some(f64::from(one.metrics.switch_links.max_efi))),
    ("mean EFI", |one| Some(one.metrics.switch_links.mean_efi)),
    ("displaced", |one| Some(one.displaced as f64)),
    ("unrouted", |one| Some(one.unrouted as f64)),
    ("cut off", |one| Some(one.cut_off as f64)),
    ("unprotected", |one| one.unprotected.map(|groups| groups as f64)),
    ("violations", |one| one.violations.map(|rules| rules as f64)),
];

/// Rules that packets broke, of all plans.
#[derive(Default)]
struct Broken {
    plans: usize,
    rules: u64,
}

impl Broken {
    fn count(&mut self, routed: &[PlanFigures]) {
        for rules in routed.iter().filter_map(|one| one.violations) {
            self.plans += 1;
            self.rules += rules;
        }
    }

    fn law(&self) -> Law {
        Law {
            what: "rules broken by packets walked through the tables".to_owned(),
            source: "ours".to_owned(),
            demanded: "none".to_owned(),
            found: match self.rules {
                0 => format!("none in {} plans", self.plans),
                rules => format!("{rules} in {} plans", self.plans),
            },
            holds: self.rules == 0,
        }
    }
}

/// Gives the cells that say what was routed.
fn names_of(case: &Case, damage: Damage, way: Way) -> [Cell; 4] {
    [
        Cell::text(case.name),
        Cell::text(case.pattern.to_string()),
        Cell::text(damage.to_string()),
        Cell::text(way.label()),
    ]
}

/// Gives the number of seeds, none where chance has no part, and the figures.
fn cells(damage: Damage, routed: &[PlanFigures]) -> impl Iterator<Item = Cell> {
    let seeds = if damage.is_none() { Cell::Empty } else { Cell::Count(routed.len() as u64) };
    let figures = FIGURES.map(|(name, figure)| {
        let values: Option<Vec<f64>> = routed.iter().map(figure).collect();
        let decimals = if name.starts_with("mean") { 2 } else { 0 };
        values.map_or(Cell::Empty, |values| figure_cell(&Sample::from(values), decimals))
    });
    [seeds].into_iter().chain(figures)
}

/// Writes a figure, and its least and largest value where they differ.
fn figure_cell(sample: &Sample, decimals: usize) -> Cell {
    let print = |value: f64| format!("{value:.decimals$}");
    let [least, most] = [sample.least(), sample.most()].map(print);
    if least == most {
        return Cell::Number(sample.mean(), decimals);
    }
    let finer = decimals.max(1);
    Cell::text(format!("{:.finer$} ({least} to {most})", sample.mean()))
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
    use std::num::NonZeroU32;

    use super::*;
    use crate::hardware::Hardware;

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

    #[test]
    fn a_figure_shows_its_spread_where_seeds_differ() {
        let cell = |values: [f64; 3], decimals| {
            figure_cell(&Sample::from(values.to_vec()), decimals).to_string()
        };
        assert_eq!(cell([2.0, 3.0, 2.0], 0), "2.3 (2 to 3)");
        assert_eq!(cell([2.0, 2.0, 2.0], 0), "2");
        assert_eq!(cell([1.25, 1.5, 1.0], 2), "1.25 (1.00 to 1.50)");
    }

    #[test]
    fn every_seed_lacks_other_links_and_a_whole_fabric_is_routed_once() {
        let hardware = Hardware::ours();
        let run = Run { seeds: NonZeroU32::new(3).unwrap(), ..Run::quick(&hardware) };
        let text = "kind = 'leaf-spine'\nleaves = 8\nspines = 4\nendpoints_per_leaf = 4\n";
        let whole = Fabric::described("case", text).unwrap().graph;
        let of = |links| {
            let damage = Damage { links, switches: 0 };
            let fabrics = damaged(&run, &whole, damage);
            let case = Kind::Switches.case("case", text, PatternShape::Plane(8, 4));
            let routed = route_all(&run, &fabrics, &case, WAYS[0]).unwrap();
            let row: Vec<String> = cells(damage, &routed).map(|cell| cell.to_string()).collect();
            let seeds: Vec<u64> = fabrics.iter().map(|(seed, _)| *seed).collect();
            (seeds, row)
        };
        let (seeds, row) = of(0);
        assert_eq!((seeds, &*row[0], &*row[1]), (vec![1], "", "12"));
        let (seeds, row) = of(10);
        assert_eq!((seeds, &*row[0], &*row[10]), (vec![1, 2, 3], "3", "0"), "{row:?}");
        let mut lacking = damaged(&run, &whole, Damage { links: 10, switches: 0 });
        lacking.dedup_by(|(_, a), (_, b)| a.graph == b.graph);
        assert_eq!(lacking.len(), 3);
    }
}
