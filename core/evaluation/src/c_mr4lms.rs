//! C-MR4LMS §4.2 and §4.3: EFI and TFI on the paper's own fabric, pattern by pattern.
//!
//! Source: figures 9 and 10, (a) to (e), and the numbers of the text. The run times, (f), are in a
//! table of their own.

use std::sync::Arc;
use std::time::Duration;

use fabricast_routing::{
    Change, Engine, EngineOptions, LayerPlan, Metrics, PatternGroup, metrics, table_entries,
};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{FatTree, Graph, TableKind};

mod claims;

use crate::experiment::{Experiment, ExperimentError, Run};
use crate::pattern::{self, Pattern, Shape};
use crate::plot::{Axis, Bars, Figure, Plot};
use crate::report::{Cell, Report, Table};

/// The experiment.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "c-mr4lms",
    title: "EFI and TFI on the paper's fabric with 32 entries a port",
    source: "C-MR4LMS §4.2, §4.3, figures 9 and 10",
    run,
};

/// Entries of a port's table.
const COLORS: u16 = 32;

/// The patterns of §4.1; of the random ones and of the 2-D ones with 4 processes the text
/// names no sizes but 1 000 groups, the others are ours.
const PATTERNS: [Pattern; 18] = [
    Pattern::new(Shape::Plane(512, 64), 1),
    Pattern::new(Shape::Plane(181, 181), 1),
    Pattern::new(Shape::Plane(100, 327), 1),
    Pattern::new(Shape::Cube(64, 32, 16), 1),
    Pattern::new(Shape::Cube(32, 32, 32), 1),
    Pattern::new(Shape::Cube(25, 50, 26), 1),
    Pattern::new(Shape::Random(1_000), 1),
    Pattern::new(Shape::Random(2_000), 1),
    Pattern::new(Shape::Random(4_000), 1),
    Pattern::new(Shape::Plane(512, 256), 4),
    Pattern::new(Shape::Plane(362, 362), 4),
    Pattern::new(Shape::Plane(200, 655), 4),
    Pattern::new(Shape::Cube(256, 32, 16), 4),
    Pattern::new(Shape::Cube(128, 32, 32), 4),
    Pattern::new(Shape::Cube(100, 50, 26), 4),
    Pattern::new(Shape::Random(1_000), 4),
    Pattern::new(Shape::Random(2_000), 4),
    Pattern::new(Shape::Random(4_000), 4),
];

/// Patterns of the quick form.
const QUICK: [usize; 4] = [1, 3, 4, 14];

/// One way to route a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Variant {
    engine: &'static str,
    layers: LayerPlan,
}

impl Variant {
    fn label(self) -> String {
        match self.layers {
            LayerPlan::Compact => self.engine.to_owned(),
            LayerPlan::Wide => format!("{}, wide layers", self.engine),
        }
    }
}

const VARIANTS: [Variant; 2] = [
    Variant { engine: "c-mr4lms-fixed", layers: LayerPlan::Compact },
    Variant { engine: "c-mr4lms-fixed", layers: LayerPlan::Wide },
];

/// What came of a pattern routed one way.
#[derive(Clone, Debug)]
struct Outcome {
    pattern: Pattern,
    variant: Variant,
    figures: Metrics,
    trees: Duration,
    tables: Duration,
}

fn run(run: &mut Run<'_>) -> Result<Report, ExperimentError> {
    let graph =
        TopologySpec::paper().generate().map_err(ExperimentError::at("the paper's fabric"))?;
    let fat_tree = FatTree::detect(&graph).map_err(ExperimentError::at("the paper's fabric"))?;
    let fabric = (Arc::new(graph), Arc::new(fat_tree));
    let patterns: Vec<Pattern> = match run.quick {
        true => QUICK.map(|at| PATTERNS[at]).to_vec(),
        false => PATTERNS.to_vec(),
    };
    let steps = patterns.len() * VARIANTS.len();
    let mut outcomes: Vec<Outcome> = Vec::with_capacity(steps);
    for pattern in &patterns {
        for variant in VARIANTS {
            run.step(outcomes.len(), steps, &format!("{pattern}, {}", variant.label()));
            let step = || format!("{pattern} with {}", variant.label());
            outcomes.push(
                route(run, &fabric, *pattern, variant)
                    .map_err(|error| ExperimentError { step: step(), source: error })?,
            );
        }
    }
    Ok(report(run, &patterns, &outcomes))
}

fn route(
    run: &Run<'_>,
    (graph, fat_tree): &(Arc<Graph>, Arc<FatTree>),
    pattern: Pattern,
    variant: Variant,
) -> Result<Outcome, Box<dyn std::error::Error + Send + Sync>> {
    let options = EngineOptions::new(COLORS, TableKind::PerPort);
    let mut engine = Engine::new(graph.clone(), fat_tree.clone(), options)?;
    let space = *engine.layout().space();
    let groups =
        pattern::groups(pattern, variant.layers, &space, graph.endpoint_count(), run.seed)?;
    let put = |group: PatternGroup| Change::Put { mgid: group.mgid, members: group.members };
    let changes: Vec<Change> = groups.into_iter().map(put).collect();
    let (done, trees) = run.timed(|| engine.apply(&changes));
    done?;
    let (_, tables) = run.timed(|| table_entries(graph, engine.plan()));
    Ok(Outcome { pattern, variant, figures: metrics(graph, engine.plan()), trees, tables })
}

fn report(run: &Run<'_>, patterns: &[Pattern], outcomes: &[Outcome]) -> Report {
    let mut report = Report {
        tables: vec![figures(outcomes), times(outcomes)],
        claims: claims::claims(outcomes),
        ..Report::default()
    };
    for (name, title, value) in [
        ("max-tfi", "Maximum TFI", (|one| f64::from(one.max_tfi)) as fn(&Metrics) -> f64),
        ("mean-tfi", "Mean TFI", |one| one.mean_tfi),
        ("max-efi", "Maximum EFI of links between switches", |one| {
            f64::from(one.switch_links.max_efi)
        }),
        ("mean-efi", "Mean EFI of links between switches", |one| one.switch_links.mean_efi),
        ("trees", "Trees left after merging", |one| f64::from(one.trees)),
    ] {
        report.plots.push(bars((name, title), patterns, outcomes, value));
    }
    report.notes = vec![
        "Fabric: 7 680 switches, 32 768 endpoints, 512 conflict-free spanning trees.".to_owned(),
        "Figures 9 and 10 are bar charts without numbers in the text; claims are those of the text."
            .to_owned(),
    ];
    if run.quick {
        report.notes.push(format!("Quick form: {} of {} patterns.", QUICK.len(), PATTERNS.len()));
    }
    report
}

fn figures(outcomes: &[Outcome]) -> Table {
    let columns = [
        "pattern",
        "processes per endpoint",
        "engine",
        "groups",
        "trees after merging",
        "max TFI",
        "mean TFI",
        "max EFI",
        "mean EFI",
        "entries used",
    ];
    let title = "EFI and TFI (C-MR4LMS, figures 9 and 10, a to e)";
    let mut table = Table::new("efi-tfi", title, &columns);
    for Outcome { pattern, variant, figures, .. } in outcomes {
        table.push([
            Cell::text(pattern.shape.to_string()),
            Cell::count(pattern.processes),
            Cell::text(variant.label()),
            Cell::count(figures.groups),
            Cell::count(figures.trees),
            Cell::count(figures.max_tfi),
            Cell::Number(figures.mean_tfi, 2),
            Cell::count(figures.switch_links.max_efi),
            Cell::Number(figures.switch_links.mean_efi, 2),
            Cell::count(figures.max_entries),
        ]);
    }
    table
}

fn times(outcomes: &[Outcome]) -> Table {
    let columns =
        ["pattern", "processes per endpoint", "engine", "trees and merging in ms", "tables in ms"];
    let title = "Run time on this machine, one core (C-MR4LMS, figures 9 and 10, f)";
    let mut table = Table::new("run-time", title, &columns).measured();
    let ms = |time: &Duration| Cell::Number(time.as_secs_f64() * 1e3, 1);
    for Outcome { pattern, variant, trees, tables, .. } in outcomes {
        table.push([
            Cell::text(pattern.shape.to_string()),
            Cell::count(pattern.processes),
            Cell::text(variant.label()),
            ms(trees),
            ms(tables),
        ]);
    }
    table
}

fn bars(
    (name, title): (&str, &str),
    patterns: &[Pattern],
    outcomes: &[Outcome],
    value: fn(&Metrics) -> f64,
) -> Plot {
    let series = VARIANTS.map(|variant| {
        let values = patterns.iter().map(|pattern| {
            let same = |one: &&Outcome| one.pattern == *pattern && one.variant == variant;
            outcomes.iter().find(same).map(|one| value(&one.figures))
        });
        (variant.label(), values.collect())
    });
    let figure = Figure::Bars(Bars {
        y: Axis::log(title),
        categories: patterns.iter().map(ToString::to_string).collect(),
        series: series.to_vec(),
    });
    Plot { name: name.to_owned(), title: title.to_owned(), figure }
}
