//! Advice on a plan: what its tables still promise, and which engine does best.
//!
//! With per-switch tables all trees of one color meet in every leaf. So C entries give C spanning
//! trees of the whole fabric, while per-port tables give several for each color. MR4LMS reuses a
//! color wherever trees do not meet, and is mostly better then. The advice compares the engines on
//! the given groups, with either kind of tables; if that takes too long, it gives an estimate or
//! says that it has none.

use std::fmt;

use fabricast_topology::TableKind;

use crate::capacity::{RoutingCost, least_entries};
use crate::hybrid::has_trees_of_mr4lms;
use crate::plan::Plan;
use crate::routing_engine::{ColorUse, EngineKind, RoutingEngine};
use crate::scenario::{Scenario, ScenarioError};
use crate::spt::Layout;

/// Work that the hybrid engine does, at least, in the time in which MR4LMS does one unit.
pub const HYBRID_SPEED: u64 = 100;

/// One piece of advice. `Display` is a sentence without its full stop.
#[derive(Clone, Debug, PartialEq)]
pub enum Advice {
    /// The promise of C-MR4LMS with per-switch tables.
    PerSwitch(PerSwitchPromise),
    /// Another engine was tried on the same groups.
    Measured(Comparison),
    /// Another engine was not tried, because that takes long.
    Estimated(Estimate),
    /// The same, and there is no rule to guess by.
    NotTried {
        /// Engine that was not tried.
        engine: EngineKind,
    },
    /// The engine of least cost among those that were tried.
    Best(BestEngine),
    /// Another engine cannot route the groups.
    Impossible {
        /// Engine that was asked for.
        engine: EngineKind,
        /// Reason why it was not tried.
        why: ScenarioError,
    },
}

/// The promise of C-MR4LMS with per-switch tables: C entries are C spanning trees, two
/// groups of one spanning tree are merged as soon as they share a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerSwitchPromise {
    /// Entries of a table.
    pub entries: u16,
    /// Spanning trees that these are; with fault tolerance pairs of them, half as many.
    pub trees: u32,
    /// Spanning trees (or pairs) that as many entries are with per-port tables.
    pub trees_per_port: u32,
    /// Groups with a tree.
    pub groups: u32,
    /// Of those, the groups that share theirs.
    pub merged: u32,
    /// Routes follow from fabric, faults and groups alone (rule R3).
    pub stable: bool,
}

/// The engine of least cost: fewest groups without a tree, then fewest members cut off, then least
/// maximum EFI, then least maximum TFI. Of equals it is the engine that was asked for, or else the
/// one with the most stable routes.
#[derive(Clone, Debug, PartialEq)]
pub struct BestEngine {
    /// Engine of least cost.
    pub engine: EngineKind,
    /// Cost of its plan.
    pub cost: RoutingCost,
    /// All engines that were tried, the one that was asked for first.
    pub tried: Vec<EngineKind>,
}

/// The engine to take, and the advice that says why.
#[derive(Clone, Debug, PartialEq)]
pub struct ChosenEngine {
    /// The engine of least cost, or the only one that was tried and can route the groups.
    pub engine: EngineKind,
    /// Advice on the scenario, or on the first engine that can take the place of its own.
    pub advice: Vec<Advice>,
}

/// Two engines on the same groups.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// The engine that was asked for.
    pub engine: EngineKind,
    /// Cost of its plan.
    pub cost: RoutingCost,
    /// Engine that it is compared with.
    pub other: EngineKind,
    /// Cost of the other engine's plan.
    pub other_cost: RoutingCost,
    /// Judgement of the other engine.
    pub verdict: Preference,
}

/// Comparison of one set of figures with another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preference {
    /// Nothing is worse and something better.
    Better,
    /// Nothing is better and something worse.
    Worse,
    /// The figures are the same.
    Same,
    /// Some are better, some worse.
    Mixed,
}

/// A guess from how many entries the groups need at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// The engine that was not tried.
    pub other: EngineKind,
    /// Entries of a table.
    pub entries: u16,
    /// Entries without which no engine can avoid merging ([`least_entries`]).
    pub bound: u32,
    /// Estimate for the other engine; [`Preference::Mixed`] if the rule says nothing.
    pub guess: Preference,
}

/// Gives advice on a plan; none for engines that only serve as a comparison.
///
/// - `routed`: the scenario, routed with tables of `colors` entries.
/// - `budget`: groups times ports of the fabric up to which MR4LMS is tried; 20 million take about
///   a second. The hybrid engine is tried up to [`HYBRID_SPEED`] times as many unless it has trees
///   of MR4LMS, C-MR4LMS with the fixed root always.
/// - Cost: routing all groups with two more engines.
///
/// # Errors
///
/// [`ScenarioError`] if the groups cannot be made.
pub fn advise(
    scenario: &Scenario<'_>,
    colors: u16,
    routed: &dyn RoutingEngine,
    budget: u64,
) -> Result<Vec<Advice>, ScenarioError> {
    let is_per_switch = scenario.options.tables == TableKind::PerSwitch;
    let promise = promise(scenario, colors, routed.plan()).filter(|_| is_per_switch);
    let mut advice: Vec<Advice> = promise.map(Advice::PerSwitch).into_iter().collect();
    let work = (routed.group_count() as u64).saturating_mul(scenario.graph.port_count() as u64);
    let (engine, cost) = (scenario.kind, RoutingCost::of(scenario.graph, routed.plan()));
    let mut tried = vec![(engine, cost)];
    let is_slow = scenario.fat_tree.is_some_and(|one| has_trees_of_mr4lms(one, &scenario.options));
    for other in alternatives(scenario) {
        let is_hybrid = other == EngineKind::CMr4lmsHybrid;
        let most = if other == EngineKind::Mr4lms || is_hybrid && is_slow {
            budget
        } else if is_hybrid {
            budget.saturating_mul(HYBRID_SPEED)
        } else {
            u64::MAX
        };
        if work > most {
            advice.push(match is_per_switch && other == EngineKind::Mr4lms {
                true => Advice::Estimated(estimate(scenario, colors, other)?),
                false => Advice::NotTried { engine: other },
            });
            continue;
        }
        advice.push(match scenario.with_engine(other).route(colors) {
            Ok(routed) => {
                let other_cost = RoutingCost::of(scenario.graph, routed.engine.plan());
                tried.push((other, other_cost));
                let verdict = prefer(&other_cost, &cost);
                Advice::Measured(Comparison { engine, cost, other, other_cost, verdict })
            }
            Err(why) => Advice::Impossible { engine: other, why },
        });
    }
    advice.extend(best(&tried).map(Advice::Best));
    Ok(advice)
}

/// Chooses the engine of least cost. If the engine of the scenario cannot route the groups, the
/// first other one that can takes its place; that one is tried however small the budget.
///
/// - `budget`, cost: as for [`advise`].
///
/// # Errors
///
/// The [`ScenarioError`] of the scenario's own engine, if no other can route the groups either.
pub fn choose_engine(
    scenario: &Scenario<'_>,
    colors: u16,
    budget: u64,
) -> Result<ChosenEngine, ScenarioError> {
    let asked = scenario.kind;
    let why = match scenario.route(colors) {
        Ok(routed) => return chosen(scenario, colors, &*routed.engine, budget),
        Err(why) => why,
    };
    for other in alternatives(scenario) {
        let replaced = scenario.with_engine(other);
        let Ok(routed) = replaced.route(colors) else { continue };
        let mut found = chosen(&replaced, colors, &*routed.engine, budget)?;
        let is_told =
            |one: &Advice| matches!(one, Advice::Impossible { engine, .. } if *engine == asked);
        if !found.advice.iter().any(is_told) {
            found.advice.insert(0, Advice::Impossible { engine: asked, why });
        }
        return Ok(found);
    }
    Err(why)
}

/// Chooses among the engine of a scenario that is routed, and the others.
fn chosen(
    scenario: &Scenario<'_>,
    colors: u16,
    routed: &dyn RoutingEngine,
    budget: u64,
) -> Result<ChosenEngine, ScenarioError> {
    let advice = advise(scenario, colors, routed, budget)?;
    let best = advice.iter().find_map(Advice::best_engine);
    Ok(ChosenEngine { engine: best.unwrap_or(scenario.kind), advice })
}

/// Finds the engine of least cost, if there is a choice. The first of equals wins.
fn best(tried: &[(EngineKind, RoutingCost)]) -> Option<BestEngine> {
    let rank = |cost: &RoutingCost| {
        (cost.unrouted, cost.cut_off, cost.metrics.switch_links.max_efi, cost.metrics.max_tfi)
    };
    let (engine, cost) = tried.iter().min_by_key(|(_, cost)| rank(cost))?;
    let engines = tried.iter().map(|(kind, _)| *kind).collect();
    (tried.len() > 1).then_some(BestEngine { engine: *engine, cost: *cost, tried: engines })
}

fn promise(scenario: &Scenario<'_>, colors: u16, plan: &Plan) -> Option<PerSwitchPromise> {
    let fat_tree = scenario.fat_tree.filter(|_| scenario.kind.needs_fat_tree())?;
    let layout = |tables| match plan.is_dual() {
        true => Layout::dual(fat_tree.params(), colors, tables).ok(),
        false => Layout::new(fat_tree.params(), colors, tables).ok(),
    };
    let trees = |one: Layout| one.space().total();
    let (mut groups, mut merged) = (0, 0);
    for trees in plan.trees_by_virtual_group() {
        let count = u32::try_from(trees[0].groups.len()).expect("a group has a 32-bit MGID");
        groups += count;
        merged += if count > 1 { count } else { 0 };
    }
    Some(PerSwitchPromise {
        entries: colors,
        trees: trees(layout(TableKind::PerSwitch)?),
        trees_per_port: trees(layout(TableKind::PerPort)?),
        groups,
        merged,
        stable: !scenario.kind.plan_depends_on_history(),
    })
}

/// Lists the engines to compare with, the most stable first; none for engines that only serve as a
/// comparison.
fn alternatives(scenario: &Scenario<'_>) -> Vec<EngineKind> {
    match scenario.kind.color_use() {
        ColorUse::ManyTrees => {
            let mut all =
                vec![EngineKind::CMr4lmsFixed, EngineKind::CMr4lmsHybrid, EngineKind::Mr4lms];
            all.retain(|kind| {
                *kind != scenario.kind && (scenario.fat_tree.is_some() || !kind.needs_fat_tree())
            });
            all
        }
        ColorUse::OneTree | ColorUse::OneTreeInAll => Vec::new(),
    }
}

/// Guesses by a rule that held in every case measured (docs/planning.md): MR4LMS is no worse with
/// twice the entries that the groups need at least; with fewer than that least number its maxima
/// are mostly higher.
fn estimate(
    scenario: &Scenario<'_>,
    entries: u16,
    other: EngineKind,
) -> Result<Estimate, ScenarioError> {
    let groups = scenario.members()?;
    let bound = least_entries(scenario.graph, None, TableKind::PerSwitch, &groups);
    let guess = match u32::from(entries) {
        entries if entries >= bound.saturating_mul(2) => Preference::Better,
        entries if entries < bound => Preference::Worse,
        _ => Preference::Mixed,
    };
    Ok(Estimate { other, entries, bound, guess })
}

/// Compares figures: groups without a tree, members cut off, maximum EFI and maximum TFI; where all
/// are the same, the means.
fn prefer(a: &RoutingCost, b: &RoutingCost) -> Preference {
    let worst = |cost: &RoutingCost| {
        let RoutingCost { metrics, unrouted, cut_off } = cost;
        [*unrouted, *cut_off, metrics.switch_links.max_efi, metrics.max_tfi].map(f64::from)
    };
    match all_of(&worst(a), &worst(b)) {
        Preference::Same => all_of(&means(a), &means(b)),
        found @ (Preference::Better | Preference::Worse | Preference::Mixed) => found,
    }
}

const fn means(cost: &RoutingCost) -> [f64; 2] {
    [cost.metrics.switch_links.mean_efi, cost.metrics.mean_tfi]
}

impl Advice {
    /// Returns the engine of least cost, if this advice names it.
    #[must_use]
    pub const fn best_engine(&self) -> Option<EngineKind> {
        match self {
            Self::Best(best) => Some(best.engine),
            Self::PerSwitch(_)
            | Self::Measured(_)
            | Self::Estimated(_)
            | Self::NotTried { .. }
            | Self::Impossible { .. } => None,
        }
    }
}

/// Compares figures of which less is better, one by one; none may be NaN.
fn all_of(a: &[f64], b: &[f64]) -> Preference {
    let better = a.iter().zip(b).any(|(a, b)| a < b);
    let worse = a.iter().zip(b).any(|(a, b)| a > b);
    match (better, worse) {
        (true, false) => Preference::Better,
        (false, true) => Preference::Worse,
        (false, false) => Preference::Same,
        (true, true) => Preference::Mixed,
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PerSwitch(promise) => promise.fmt(f),
            Self::Measured(comparison) => comparison.fmt(f),
            Self::Estimated(estimate) => estimate.fmt(f),
            Self::NotTried { engine } => write!(f, "{engine} was not tried, that would take long"),
            Self::Best(best) => best.fmt(f),
            Self::Impossible { engine, why } => {
                write!(f, "{engine} was tried too, and cannot route these groups: {why}")
            }
        }
    }
}

impl fmt::Display for BestEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { engine, cost, tried } = self;
        let (efi, tfi) = (cost.metrics.switch_links.max_efi, cost.metrics.max_tfi);
        let tried: Vec<&str> = tried.iter().map(|kind| kind.name()).collect();
        write!(
            f,
            "{engine} has the least cost of {}: {} groups without a tree, then {} members cut off, \
             then max EFI {efi}, then max TFI {tfi}",
            tried.join(", "),
            cost.unrouted,
            cost.cut_off
        )
    }
}

impl fmt::Display for PerSwitchPromise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { entries, trees, trees_per_port, groups, merged, stable } = self;
        let what =
            if *trees < u32::from(*entries) { "pairs of spanning trees" } else { "spanning trees" };
        write!(
            f,
            "per-switch tables of {entries} entries are {trees} {what} (per-port tables: \
             {trees_per_port}); groups of one spanning tree are merged as soon as they share a switch, here \
             {merged} of {groups}; "
        )?;
        f.write_str(match stable {
            true => "routes still follow from fabric, faults and groups alone (R3)",
            false => "with dynamic roots, routes depend on the order in which groups come",
        })
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { engine, cost, other, other_cost, verdict } = self;
        match verdict {
            Preference::Better => write!(f, "{other} does better here: ")?,
            Preference::Worse => write!(f, "{engine} is the better choice here; {other} has ")?,
            Preference::Same => write!(f, "{other} does as well here: ")?,
            Preference::Mixed => write!(f, "neither is better in all; {other} has ")?,
        }
        let pair = |name: &str, a: u32, b: u32| format!("{name} {a} instead of {b}");
        let (ours, theirs) = (&cost.metrics, &other_cost.metrics);
        let mut parts = vec![
            pair("max EFI", theirs.switch_links.max_efi, ours.switch_links.max_efi),
            pair("max TFI", theirs.max_tfi, ours.max_tfi),
            format!(
                "mean EFI {:.2} instead of {:.2}",
                theirs.switch_links.mean_efi, ours.switch_links.mean_efi
            ),
            format!("mean TFI {:.2} instead of {:.2}", theirs.mean_tfi, ours.mean_tfi),
        ];
        if (cost.cut_off, other_cost.cut_off) != (0, 0) {
            parts.insert(0, pair("members cut off", other_cost.cut_off, cost.cut_off));
        }
        if (cost.unrouted, other_cost.unrouted) != (0, 0) {
            parts.insert(0, pair("groups without a tree", other_cost.unrouted, cost.unrouted));
        }
        f.write_str(&parts.join(", "))?;
        match (verdict, all_of(&means(other_cost), &means(cost))) {
            (Preference::Better, Preference::Worse) | (Preference::Worse, Preference::Better) => {
                f.write_str(" (going by the maxima; the means say the opposite)")?;
            }
            _ => {}
        }
        match (engine.plan_depends_on_history(), other.plan_depends_on_history()) {
            (false, true) => f.write_str("; its routes depend on the order in which groups come"),
            (_, false) => {
                f.write_str("; its routes follow from fabric, faults and groups alone (R3)")
            }
            (true, true) => Ok(()),
        }
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { other, entries, bound, guess } = self;
        write!(f, "{other} was not tried, that would take long; by rule of thumb ")?;
        match guess {
            Preference::Better => write!(
                f,
                "it does better: {entries} entries are twice the {bound} that these groups need at least"
            ),
            Preference::Worse => write!(
                f,
                "its maximum EFI and TFI are higher and its means lower: {entries} entries are fewer than \
                 the {bound} that these groups need at least"
            ),
            Preference::Same | Preference::Mixed => write!(
                f,
                "nothing can be said: {entries} entries are between the {bound} that these groups need at \
                 least and twice that"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{LinkLoads, Metrics};

    fn cost(max_efi: u32, mean_efi: f64, max_tfi: u32, mean_tfi: f64) -> RoutingCost {
        let switch_links = LinkLoads { used: 1, max_efi, mean_efi };
        let metrics = Metrics { max_tfi, mean_tfi, switch_links, ..Metrics::default() };
        RoutingCost { metrics, unrouted: 0, cut_off: 0 }
    }

    #[test]
    fn means_that_say_the_opposite_of_the_maxima_are_pointed_out() {
        let low_maxima = cost(90, 74.0, 18, 18.0);
        let low_means = cost(103, 25.0, 91, 1.5);
        let low_both = cost(20, 10.0, 1, 1.0);
        let text = |other_cost: RoutingCost| {
            let verdict = prefer(&other_cost, &low_maxima);
            let (engine, other) = (EngineKind::CMr4lmsFixed, EngineKind::Mr4lms);
            let cost = low_maxima;
            (verdict, Comparison { engine, cost, other, other_cost, verdict }.to_string())
        };
        let (verdict, said) = text(low_means);
        assert!(
            verdict == Preference::Worse && said.contains("the means say the opposite"),
            "{said}"
        );
        let (verdict, said) = text(low_both);
        assert!(verdict == Preference::Better && !said.contains("opposite"), "{said}");
    }

    /// MR4LMS gives groups a tree without the members that only a valley connects.
    #[test]
    fn members_cut_off_weigh_more_than_links_and_less_than_groups_without_a_tree() {
        let all = cost(9, 9.0, 1, 1.0);
        let some = RoutingCost { cut_off: 4, ..cost(2, 2.0, 1, 1.0) };
        let none = RoutingCost { unrouted: 1, ..cost(2, 2.0, 1, 1.0) };
        let [fixed, hybrid, free] =
            [EngineKind::CMr4lmsFixed, EngineKind::CMr4lmsHybrid, EngineKind::Mr4lms];
        let found = best(&[(fixed, none), (hybrid, all), (free, some)]).unwrap();
        assert_eq!(found.engine, hybrid);
        assert!(found.to_string().contains("then 0 members cut off, then max EFI 9"), "{found}");
        assert_eq!(best(&[(fixed, none), (free, some)]).unwrap().engine, free);
        assert_eq!(prefer(&some, &all), Preference::Mixed);
        assert_eq!(prefer(&cost(2, 2.0, 1, 1.0), &some), Preference::Better);
    }
}
