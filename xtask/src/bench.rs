//! Prints the budgets of the design beside what the benches measure.
//!
//! A figure over its budget is reported, not failed: the machine decides it as much as the code
//! does. A bench that is gone or prints something else is failed, for then nobody would notice, and
//! so is one that fails by itself, as `decisions` does.

mod divan;
mod figures;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use divan::Measured;

use crate::outside;

/// The figures to reach, and which bench measures each.
const BUDGETS: &str = "xtask/budgets.toml";

/// Runs the benches that budgets name and prints the report. `false` if a bench is missing, fails
/// or cannot be read; the others are reported all the same.
///
/// - `filter`: only budgets whose work or bench has this in its text, whatever the case.
///
/// # Errors
///
/// A table of budgets that cannot be read, or a filter that no budget passes.
pub(crate) fn report(root: &Path, filter: &str) -> Result<(String, bool)> {
    let text = fs::read_to_string(root.join(BUDGETS)).with_context(|| format!("read {BUDGETS}"))?;
    let mut budgets = parse_budgets(&text)?;
    budgets.retain(|budget| budget.is_about(filter));
    if budgets.is_empty() {
        bail!("no budget in {BUDGETS} is about '{filter}'");
    }
    let (mut measured, mut failures) = (Vec::new(), String::new());
    for binary in needed(&budgets) {
        let found = run_bench(root, binary).and_then(|output| {
            let mut found = divan::parse(&output)?;
            found.extend(figures::parse(&output)?);
            Ok(found)
        });
        match found {
            Ok(found) => measured.extend(found),
            Err(error) => writeln!(failures, "FAILED: {error:#}")?,
        }
    }
    let (report, complete) = compare(&budgets, &measured)?;
    Ok((report + &failures, complete && failures.is_empty()))
}

/// The binaries that the benches of budgets are in.
fn needed(budgets: &[Budget]) -> BTreeSet<&str> {
    let benches = budgets.iter().flat_map(|budget| budget.benches.iter().chain(&budget.over));
    benches.filter_map(|bench| bench.split('/').next()).collect()
}

fn run_bench(root: &Path, binary: &str) -> Result<String> {
    let output = outside("cargo", root)
        // With all packages, so that what they have in common is built once for all benches.
        .args(["bench", "--quiet", "--workspace", "--bench", binary])
        .stderr(std::process::Stdio::inherit())
        .output()
        .with_context(|| format!("run the bench {binary}"))?;
    if !output.status.success() {
        bail!("the bench {binary} ended with {}", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("read the bench {binary}"))
}

/// One line of the design's table of budgets.
#[derive(Debug)]
struct Budget {
    work: String,
    /// Paths of the benches of its steps, such as `forwarding/batch/900`; none if nothing measures
    /// it yet.
    benches: Vec<String>,
    /// Path of the bench whose time theirs is divided by, if the budget is a factor.
    over: Option<String>,
    limit: Limit,
    /// Source of the budget, in words.
    source: String,
}

impl Budget {
    fn is_about(&self, filter: &str) -> bool {
        let filter = filter.to_lowercase();
        let mut texts = self.benches.iter().chain(&self.over).chain([&self.work]);
        texts.any(|text| text.to_lowercase().contains(&filter))
    }
}

#[derive(Debug)]
enum Limit {
    AtMost(Quantity),
    AtLeast(Quantity),
}

impl Limit {
    fn quantity(&self) -> &Quantity {
        match self {
            Self::AtMost(limit) | Self::AtLeast(limit) => limit,
        }
    }
}

/// A number with its unit.
#[derive(Clone, Debug, PartialEq)]
struct Quantity {
    text: String,
    /// In seconds, items a second, bytes, parts of 1, or as a factor.
    value: f64,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Time,
    Rate,
    Memory,
    Share,
    Factor,
}

impl Quantity {
    /// Reads what a budget or divan says, such as `25 ms` or `3.1 Mitem/s`.
    fn parse(text: &str) -> Result<Self> {
        let (number, unit) = text.trim().split_once(' ').context("a number and a unit")?;
        let (scale, kind) = match unit.trim() {
            "ps" => (1e-12, Kind::Time),
            "ns" => (1e-9, Kind::Time),
            "us" | "µs" => (1e-6, Kind::Time),
            "ms" => (1e-3, Kind::Time),
            "s" => (1.0, Kind::Time),
            "m" => (60.0, Kind::Time),
            "item/s" => (1.0, Kind::Rate),
            "Kitem/s" => (1e3, Kind::Rate),
            "Mitem/s" => (1e6, Kind::Rate),
            "Gitem/s" => (1e9, Kind::Rate),
            "%" => (0.01, Kind::Share),
            "times" => (1.0, Kind::Factor),
            "KiB" => (1024.0, Kind::Memory),
            "MiB" => (1024.0 * 1024.0, Kind::Memory),
            other => bail!("'{other}' is no unit of '{text}'"),
        };
        let number: f64 =
            number.parse().with_context(|| format!("'{text}' starts with a number"))?;
        Ok(Self { text: text.trim().to_owned(), value: number * scale, kind })
    }
}

fn parse_budgets(text: &str) -> Result<Vec<Budget>> {
    let table: toml::Table = text.parse().with_context(|| format!("read {BUDGETS}"))?;
    let list = |key: &str| table.get(key).and_then(toml::Value::as_array).cloned();
    let mut budgets = Vec::new();
    for entry in list("budget").context("budgets need [[budget]] entries")? {
        let field = |key: &str| entry.get(key).and_then(toml::Value::as_str).map(str::to_owned);
        let work = field("work").context("a budget says what work it is for")?;
        let limit = match (field("at_most"), field("at_least")) {
            (Some(most), None) => Quantity::parse(&most).map(Limit::AtMost),
            (None, Some(least)) => Quantity::parse(&least).map(Limit::AtLeast),
            _ => bail!("'{work}' needs either at_most or at_least"),
        };
        let limit = limit.with_context(|| format!("read the budget of '{work}'"))?;
        let source = field("source").with_context(|| format!("'{work}' names its source"))?;
        let benches = match (field("bench"), entry.get("bench")) {
            (Some(bench), _) => vec![bench],
            (None, Some(steps)) => {
                texts(steps).with_context(|| format!("'{work}' names its benches by texts"))?
            }
            (None, None) => Vec::new(),
        };
        if matches!(limit, Limit::AtLeast(_)) && benches.len() > 1 {
            bail!("'{work}' adds rates; only times of steps can be added");
        }
        let over = field("over");
        if over.is_some() != (limit.quantity().kind == Kind::Factor) {
            bail!("'{work}' needs a number of times with `over`, and only then");
        }
        budgets.push(Budget { work, benches, over, limit, source });
    }
    Ok(budgets)
}

fn texts(list: &toml::Value) -> Option<Vec<String>> {
    list.as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect()
}

/// Sets measured figures beside their budgets.
fn compare(budgets: &[Budget], measured: &[Measured]) -> Result<(String, bool)> {
    let mut report = String::new();
    let mut complete = true;
    for budget in budgets {
        let (bound, limit) = match &budget.limit {
            Limit::AtMost(limit) => ("<=", limit),
            Limit::AtLeast(limit) => (">=", limit),
        };
        let found = match result(budget, measured) {
            Ok(None) => "not measured yet".to_owned(),
            Ok(Some(found)) => {
                format!("measured {}: {}", found.text, verdict(&budget.limit, found.value))
            }
            Err(error) => {
                complete = false;
                format!("MISSING: {error:#}")
            }
        };
        writeln!(report, "{}", budget.work)?;
        writeln!(report, "    budget {bound} {}; {found}", limit.text)?;
        writeln!(report, "    ({})", budget.source)?;
    }
    Ok((report, complete))
}

/// Adds the steps of a work, and divides them by what they are measured against; none if nothing
/// measures it yet.
fn result(budget: &Budget, measured: &[Measured]) -> Result<Option<Quantity>> {
    let kind = budget.limit.quantity().kind;
    let of_steps = if kind == Kind::Factor { Kind::Time } else { kind };
    let steps = budget.benches.iter().map(|bench| figure(bench, of_steps, measured));
    let steps = steps.collect::<Result<Vec<_>>>()?;
    if steps.is_empty() {
        return Ok(None);
    }
    let figures: Vec<_> = steps.iter().map(|step| step.text.as_str()).collect();
    let (text, value) = (figures.join(" + "), steps.iter().map(|step| step.value).sum::<f64>());
    let Some(over) = &budget.over else { return Ok(Some(Quantity { text, value, kind })) };
    let base = figure(over, of_steps, measured)?;
    let value = value / base.value;
    Ok(Some(Quantity { text: format!("{text} over {}, {value:.2} times", base.text), value, kind }))
}

fn figure(bench: &str, kind: Kind, measured: &[Measured]) -> Result<Quantity> {
    let found = measured.iter().find(|found| found.path == bench);
    let found = found.with_context(|| format!("no bench prints '{bench}'"))?;
    let text = match kind {
        Kind::Time | Kind::Memory | Kind::Share | Kind::Factor => Some(&found.median),
        Kind::Rate => found.rate.as_ref(),
    };
    let figure = Quantity::parse(text.with_context(|| format!("'{bench}' counts no items"))?)?;
    if figure.kind != kind {
        bail!("'{bench}' is measured in another unit, {}", figure.text);
    }
    Ok(figure)
}

fn verdict(limit: &Limit, figure: f64) -> String {
    let (kept, ratio) = match limit {
        Limit::AtMost(limit) => (figure <= limit.value, figure / limit.value),
        Limit::AtLeast(limit) => (figure >= limit.value, figure / limit.value),
    };
    let word = if kept { "ok" } else { "OVER BUDGET" };
    format!("{word} ({:.0} % of the budget's figure)", ratio * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = r#"
        [[budget]]
        work = "plan"
        bench = "plan/big"
        at_most = "25 ms"
        source = "DESIGN.md"
        [[budget]]
        work = "hops"
        bench = "hops/all"
        at_least = "2 Mitem/s"
        source = "DESIGN.md"
        [[budget]]
        work = "join"
        at_most = "5 us"
        source = "DESIGN.md"
    "#;

    fn measured(path: &str, median: &str, rate: Option<&str>) -> Measured {
        Measured { path: path.into(), median: median.into(), rate: rate.map(str::to_owned) }
    }

    #[test]
    fn budgets_stand_beside_figures_and_what_nobody_measures_is_said() {
        let budgets = parse_budgets(TABLE).unwrap();
        let figures =
            [measured("plan/big", "30 ms", None), measured("hops/all", "1 s", Some("3 Mitem/s"))];
        let (report, complete) = compare(&budgets, &figures).unwrap();
        assert!(complete, "a figure over its budget fails nothing");
        assert!(report.contains("<= 25 ms; measured 30 ms: OVER BUDGET (120 %"), "{report}");
        assert!(report.contains(">= 2 Mitem/s; measured 3 Mitem/s: ok (150 %"), "{report}");
        assert!(report.contains("<= 5 us; not measured yet"), "{report}");
    }

    #[test]
    fn steps_of_one_work_are_added() {
        let table = TABLE.replace("\"plan/big\"", "[\"plan/big\", \"plan/rows\"]");
        let budgets = parse_budgets(&table).unwrap();
        let mut figures = vec![
            measured("plan/big", "20 ms", None),
            measured("hops/all", "1 s", Some("3 Mitem/s")),
        ];
        assert!(!compare(&budgets, &figures).unwrap().1, "a step is missing");
        figures.push(measured("plan/rows", "10 ms", None));
        let (report, complete) = compare(&budgets, &figures).unwrap();
        assert!(complete);
        assert!(report.contains("measured 20 ms + 10 ms: OVER BUDGET (120 %"), "{report}");
        let rates = TABLE.replace("\"hops/all\"", "[\"hops/all\", \"hops/some\"]");
        assert!(format!("{:#}", parse_budgets(&rates).unwrap_err()).contains("'hops' adds rates"));
    }

    #[test]
    fn a_factor_is_measured_over_another_bench() {
        let factor = "over = \"loops/bare\"\n        at_most = \"2 times\"";
        let table = TABLE.replace("at_most = \"25 ms\"", factor);
        let budgets = parse_budgets(&table).unwrap();
        assert!(budgets[0].is_about("loops/b") && needed(&budgets).contains("loops"));
        let report = |bare: &str| {
            let rate = measured("hops/all", "1 s", Some("3 Mitem/s"));
            let figures = [measured("plan/big", "10 ms", None), measured(bare, "4 ms", None), rate];
            compare(&budgets, &figures).unwrap()
        };
        let (text, complete) = report("loops/bare");
        assert!(complete);
        assert!(
            text.contains("measured 10 ms over 4 ms, 2.50 times: OVER BUDGET (125 %"),
            "{text}"
        );
        assert!(!report("loops/other").1, "what it is measured over is missing");
        for (old, new) in [(" times", " ms"), ("over = \"loops/bare\"\n", "")] {
            let refused = parse_budgets(&table.replace(old, new)).unwrap_err();
            assert!(
                format!("{refused:#}").contains("'plan' needs a number of times"),
                "{refused:#}"
            );
        }
    }

    #[test]
    fn a_bench_that_is_gone_or_counts_nothing_is_incomplete() {
        let budgets = parse_budgets(TABLE).unwrap();
        let (report, complete) = compare(&budgets, &[measured("hops/all", "1 s", None)]).unwrap();
        assert!(!complete);
        assert!(report.contains("no bench prints 'plan/big'"), "{report}");
        assert!(report.contains("'hops/all' counts no items"), "{report}");
    }

    #[test]
    fn quantities_compare_across_units() {
        let value = |text: &str| Quantity::parse(text).unwrap().value;
        assert!(value("1.5 ms") > value("900 µs"));
        assert!(value("900 us") > value("899 µs"));
        assert!(value("1 Gitem/s") > value("2 Mitem/s"));
        for bad in ["", "25", "ms", "25 parsecs", "x ms"] {
            assert!(Quantity::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_budget_without_figure_or_source_is_an_error_that_names_it() {
        let without = |line: &str| parse_budgets(&TABLE.replacen(line, "", 1)).unwrap_err();
        assert!(format!("{:#}", without("at_most = \"25 ms\"")).contains("'plan'"));
        assert!(format!("{:#}", without("source = \"DESIGN.md\"")).contains("'plan'"));
    }

    #[test]
    fn a_filter_finds_budgets_by_their_work_and_their_bench() {
        let about = |filter: &str| {
            let budgets = parse_budgets(TABLE).unwrap();
            let found = budgets.into_iter().filter(|budget| budget.is_about(filter));
            found.map(|budget| budget.work).collect::<Vec<_>>()
        };
        assert_eq!(about(""), ["plan", "hops", "join"]);
        assert_eq!(about("PLAN/b"), ["plan"]);
        assert_eq!(about("join"), ["join"]);
        assert!(about("nothing").is_empty());
    }

    #[test]
    fn memory_is_no_time() {
        let table = TABLE.replace("25 ms", "25 MiB");
        let budgets = parse_budgets(&table).unwrap();
        let (report, complete) = compare(&budgets, &[measured("plan/big", "5 MiB", None)]).unwrap();
        assert!(!complete, "the other one is missing");
        assert!(report.contains("measured 5 MiB: ok (20 %"), "{report}");
        let (report, _) = compare(&budgets, &[measured("plan/big", "5 ms", None)]).unwrap();
        assert!(report.contains("'plan/big' is measured in another unit, 5 ms"), "{report}");
    }

    fn has_bench(root: &Path, binary: &str) -> bool {
        let folders = |of: &Path| {
            let entries = fs::read_dir(of).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect::<Vec<_>>()
        };
        let layers = folders(root);
        let packages = layers.iter().flat_map(|layer| folders(layer)).chain(layers.clone());
        let files = [format!("benches/{binary}.rs"), format!("benches/{binary}/main.rs")];
        let mut packages = packages.into_iter();
        packages.any(|package| files.iter().any(|file| package.join(file).is_file()))
    }

    #[test]
    fn every_bench_of_the_table_in_the_repository_is_in_a_binary_that_exists() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let text = fs::read_to_string(root.join(BUDGETS)).unwrap();
        let budgets = parse_budgets(&text).unwrap();
        assert!(!budgets.is_empty());
        for binary in needed(&budgets) {
            assert!(has_bench(root, binary), "no package has a bench {binary}");
        }
    }
}
