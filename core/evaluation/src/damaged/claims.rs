//! Our goals beside what came out: no more than twice the TFI and EFI of MR4LMS, and two trees for
//! no more than one tree with the fixed root costs.

use fabricast_routing::EngineKind;

use super::{Case, Damage, PlanFigures};
use crate::claim::{Claim, Comparison, Published};
use crate::routing::Way;
use crate::sample::Sample;

/// Reads a figure of a plan that both engines have.
type Compared = fn(&PlanFigures) -> f64;

/// Compared figures, with their names.
const COMPARED: [(&str, Compared); 2] = [
    ("max EFI", |one| f64::from(one.metrics.switch_links.max_efi)),
    ("max TFI", |one| f64::from(one.metrics.max_tfi)),
];

/// The plans of each way, one for each seed.
type Plans = [(Way, Vec<PlanFigures>)];

/// Sets the engines with one tree for each group beside MR4LMS, on the same fabrics.
pub(super) fn beside_mr4lms(case: &Case, damage: Damage, routed: &Plans) -> Vec<Claim> {
    let of_one_tree = || routed.iter().filter(|(way, _)| !way.fault_tolerant);
    let Some((base, theirs)) = of_one_tree().find(|(way, _)| way.engine == EngineKind::Mr4lms)
    else {
        return Vec::new();
    };
    let others = of_one_tree().filter(|(way, _)| way.engine != EngineKind::Mr4lms);
    let rows = others.flat_map(|(way, ours)| {
        let goal = Goal { case, damage, way, base, most: 2, why: cause(way.engine) };
        goal.rows(ours, theirs)
    });
    rows.collect()
}

/// Sets the engines that choose roots, with two trees for each group, beside one tree with the
/// fixed root.
pub(super) fn of_two_trees(case: &Case, damage: Damage, routed: &Plans) -> Vec<Claim> {
    let is_fixed = |way: &Way| way.engine == EngineKind::CMr4lmsFixed;
    let of_one_tree = routed.iter().find(|(way, _)| is_fixed(way) && !way.fault_tolerant);
    let Some((base, theirs)) = of_one_tree else { return Vec::new() };
    let others = routed.iter().filter(|(way, _)| way.fault_tolerant && !is_fixed(way));
    let rows = others.flat_map(|(way, ours)| {
        let why = "both trees of a pair go through level-1 switches of their own";
        Goal { case, damage, way, base, most: 1, why }.rows(ours, theirs)
    });
    rows.collect()
}

/// So many times the figures of another way, at most.
struct Goal<'a> {
    case: &'a Case,
    damage: Damage,
    way: &'a Way,
    base: &'a Way,
    most: u32,
    /// Reason why they could be more.
    why: &'static str,
}

impl Goal<'_> {
    /// Compares plans of the way with those of the other, seed by seed.
    fn rows(&self, ours: &[PlanFigures], theirs: &[PlanFigures]) -> [Claim; 2] {
        let Self { case, damage, way, base, most, why } = self;
        let (label, other) = (way.label(), base.label());
        COMPARED.map(|(name, figure)| {
            let sample = |plans: &[PlanFigures]| sample(*damage, plans, figure);
            let (own, of_other) = (sample(ours), sample(theirs));
            let place = format!("{} {}, {damage} absent", case.name, case.pattern);
            let what = format!("{name}, {label} over {other}, {place}");
            let goal = format!("at most {most}, our goal");
            let published = Published::at_most(goal, f64::from(*most));
            let ratio = own.with(&of_other, |ours, theirs| ours / theirs.max(1.0));
            let of = |figure: &Sample, plans: &[PlanFigures]| {
                let unrouted = sample_of_unrouted(*damage, plans).mean();
                format!("{:.1} and leaves {unrouted:.1} groups unrouted", figure.mean())
            };
            Comparison::new(what, "ours", published, ratio).printed("x", 2).because(format!(
                "{why}: {label} has a {name} of {}, {other} one of {} ({place})",
                of(&own, ours),
                of(&of_other, theirs)
            ))
        })
    }
}

/// Reason why an engine of C-MR4LMS is above MR4LMS.
fn cause(engine: EngineKind) -> &'static str {
    if engine == EngineKind::CMr4lmsFixed {
        "groups at home stay on the spanning tree of their MGID, the others choose among four"
    } else {
        "a group needs one spanning tree that has all of its links"
    }
}

fn sample_of_unrouted(damage: Damage, plans: &[PlanFigures]) -> Sample {
    sample(damage, plans, |one| one.unrouted as f64)
}

/// Gives a figure of every seed; chance has no part where nothing is absent.
fn sample(damage: Damage, plans: &[PlanFigures], figure: fn(&PlanFigures) -> f64) -> Sample {
    let values = plans.iter().map(figure);
    if damage.is_none() { Sample::from_certain(values) } else { values.collect() }
}

#[cfg(test)]
mod tests {
    use fabricast_routing::{LinkLoads, Metrics};

    use super::super::{CASES, DAMAGES, WAYS};
    use super::*;
    use crate::claim::{self, Verdict};

    fn plan(max: u32, unrouted: usize) -> PlanFigures {
        let switch_links = LinkLoads { used: 1, max_efi: 2 * max, mean_efi: 1.0 };
        PlanFigures {
            metrics: Metrics { max_tfi: max, switch_links, ..Metrics::default() },
            displaced: 0,
            unrouted,
            cut_off: 0,
            unprotected: None,
            violations: Some(0),
        }
    }

    /// Plans of all ways: MR4LMS's, and those of each other one.
    fn routed(theirs: [u32; 2], others: [u32; 2]) -> Vec<(Way, Vec<PlanFigures>)> {
        let each = WAYS.into_iter().map(|way| {
            let of = if way.engine == EngineKind::Mr4lms { theirs } else { others };
            (way, Vec::from(of.map(|max| plan(max, 3))))
        });
        each.collect()
    }

    #[test]
    fn figures_are_divided_seed_by_seed() {
        let verdicts = |theirs, others| {
            let claims = beside_mr4lms(&CASES[0], DAMAGES[1], &routed(theirs, others));
            assert_eq!(claims.len(), 6);
            claims.into_iter().map(|claim| claim.verdict).collect::<Vec<_>>()
        };
        assert_eq!(verdicts([4, 8], [8, 16]), [Verdict::Same; 6]);
        assert_eq!(verdicts([4, 8], [9, 17]), [Verdict::Worse; 6]);
        // The mean is twice that of MR4LMS, and no seed's figure is.
        assert_eq!(verdicts([4, 8], [16, 8]), [Verdict::Undecided; 6]);
    }

    #[test]
    fn a_reason_has_the_figures_of_both_and_what_is_unrouted() {
        let claims = beside_mr4lms(&CASES[0], DAMAGES[2], &routed([4, 4], [16, 18]));
        let why = &claims[0].why;
        assert_eq!(claims[0].ours, "4.25x");
        assert!(
            why.contains("c-mr4lms-fixed has a max EFI of 34.0 and leaves 3.0 groups"),
            "{why}"
        );
        assert!(why.contains("mr4lms one of 8.0 and leaves 3.0 groups unrouted"), "{why}");
    }

    #[test]
    fn a_whole_fabric_has_no_spread() {
        let of = |damage| beside_mr4lms(&CASES[0], damage, &routed([1, 1], [1, 1]));
        let spread = |damage| of(damage).remove(0).spread;
        assert_eq!([DAMAGES[0], DAMAGES[1]].map(spread), ["", "2: 1.00x to 1.00x"]);
    }

    #[test]
    fn no_row_differs_without_a_reason_of_its_own() {
        let each = CASES.iter().flat_map(|case| {
            DAMAGES
                .into_iter()
                .flat_map(move |damage| beside_mr4lms(case, damage, &routed([1, 1], [9, 9])))
        });
        let all: Vec<Claim> = each.collect();
        assert_eq!(all.len(), CASES.len() * DAMAGES.len() * 6);
        assert_eq!(claim::faults(&all), Vec::<String>::new());
    }

    #[test]
    fn two_trees_are_set_beside_one_with_the_fixed_root() {
        let mut plans = routed([1, 1], [8, 8]);
        plans.retain(|(way, _)| way.engine != EngineKind::Mr4lms);
        for (_, plans) in plans.iter_mut().filter(|(way, _)| way.fault_tolerant) {
            *plans = vec![plan(10, 0), plan(10, 0)];
        }
        let claims = of_two_trees(&CASES[0], DAMAGES[0], &plans);
        let verdicts: Vec<_> = claims.iter().map(|claim| claim.verdict).collect();
        assert_eq!(verdicts, [Verdict::Worse; 4]);
        assert_eq!(claims[3].ours, "1.25x");
        assert!(claims[3].what.contains("hybrid, two trees over c-mr4lms-fixed"), "{claims:?}");
        assert_eq!(claim::faults(&claims), Vec::<String>::new());
        assert!(beside_mr4lms(&CASES[0], DAMAGES[0], &plans).is_empty());
    }
}
