//! The statements in the text of C-MR4LMS §4 on EFI, TFI and run time, beside ours.

mod efi;
mod run_time;
mod tfi;

use fabricast_routing::{EngineKind, Metrics, RootScope};

use super::setup::{DYNAMIC, Outcome, PATTERNS, Variant};
use crate::claim::{Claim, Law, NotCompared};
use crate::pattern::Pattern;
use crate::sample::Sample;

const MR4LMS: Variant = Variant::new(EngineKind::Mr4lms);
const TN: Variant = DYNAMIC.scope(RootScope::Tn);
const TN_GROUP: Variant = DYNAMIC.scope(RootScope::TnGroup);

/// Patterns by kind, in the order of [`PATTERNS`]: 2-D, 3-D and random ones, with one process of an
/// endpoint and with four.
const PLANES: [&[Pattern]; 2] = [PATTERNS.split_at(3).0, PATTERNS.split_at(9).1.split_at(3).0];
const CUBES: [&[Pattern]; 2] =
    [PATTERNS.split_at(3).1.split_at(3).0, PATTERNS.split_at(12).1.split_at(3).0];
const RANDOM: [&[Pattern]; 2] =
    [PATTERNS.split_at(6).1.split_at(3).0, PATTERNS.split_at(15).1.split_at(3).0];

const MAX_EFI: fn(&Metrics) -> f64 = |one| f64::from(one.switch_links.max_efi);
const MEAN_EFI: fn(&Metrics) -> f64 = |one| one.switch_links.mean_efi;
const MAX_TFI: fn(&Metrics) -> f64 = |one| f64::from(one.max_tfi);
const MEAN_TFI: fn(&Metrics) -> f64 = |one| one.mean_tfi;
const TREES: fn(&Metrics) -> f64 = |one| f64::from(one.trees);

/// Sets the statements of the text beside ours, for the patterns and engines that were run.
pub(super) fn claims(outcomes: &[Outcome]) -> Vec<Claim> {
    let found = Found(outcomes);
    let mut claims = efi::claims(&found);
    claims.extend(tfi::claims(&found));
    claims.extend(run_time::claims(&found));
    claims
}

/// Lists what must hold by construction.
pub(super) fn laws(outcomes: &[Outcome]) -> Vec<Law> {
    tfi::laws(&Found(outcomes))
}

/// Statements of §4 that have no row here.
pub(super) const NOT_COMPARED: [NotCompared; 9] = [
    NotCompared {
        what: "Bars of figures 9 and 10 beyond the numbers of the text",
        source: "C-MR4LMS figures 9, 10",
        why: "they are pictures whose values cannot be read",
    },
    NotCompared {
        what: "Max EFI of random groups is at most 69",
        source: "C-MR4LMS §4.2.1",
        why: "the numbers of random groups are not published but 1 000; with ours of up to 4 000 the table has \
              what comes out",
    },
    NotCompared {
        what: "MR4LMS uses only some top midplanes in 2-D patterns with one process",
        source: "C-MR4LMS §4.2.1",
        why: "it explains the published EFI; our MR4LMS chooses roots with lookahead",
    },
    NotCompared {
        what: "Results hold for other numbers of colors than 32",
        source: "C-MR4LMS §4.1",
        why: "the text gives no figures for them; `fabricast plan --capacity` routes with any number",
    },
    NotCompared {
        what: "C-MR4LMS needs 2 000 lines in OpenSM",
        source: "C-MR4LMS §4.1",
        why: "it says nothing of the algorithm",
    },
    NotCompared {
        what: "40-port switches and 256 colors give 5 120 spanning trees; one is enough for each group there",
        source: "C-MR4LMS theorem 1",
        why: "it is arithmetic, which `core/routing` tests",
    },
    NotCompared {
        what: "Jobs that are placed by the seven rules share no link",
        source: "C-MR4LMS theorem 4",
        why: "it is a theorem, which `core/placement` tests on random fabrics",
    },
    NotCompared {
        what: "Merging adds links only and interrupts nobody",
        source: "C-MR4LMS lemma 1, theorem 2",
        why: "it is a theorem, which `core/routing` tests with packets under way",
    },
    NotCompared {
        what: "Latency of collectives, cut links, two trees",
        source: "C-MR4LMS §4.4",
        why: "they are in the experiment `latency`",
    },
];

/// All outcomes.
struct Found<'a>(&'a [Outcome]);

impl Found<'_> {
    fn of(&self, pattern: Pattern, variant: Variant) -> Option<&Outcome> {
        self.0.iter().find(|one| one.pattern == pattern && one.variant == variant)
    }

    fn sample(
        &self,
        pattern: Pattern,
        variant: Variant,
        figure: fn(&Metrics) -> f64,
    ) -> Option<Sample> {
        self.of(pattern, variant).map(|one| one.sample(figure))
    }

    /// Returns a figure of one variant over that of another, pattern by pattern; nothing unless all
    /// patterns were run.
    fn ratios(
        &self,
        patterns: &[Pattern],
        figure: fn(&Metrics) -> f64,
        [over, under]: [Variant; 2],
    ) -> Option<Vec<Sample>> {
        let ratio = |pattern: &Pattern| {
            let under = self.sample(*pattern, under, figure)?;
            Some(self.sample(*pattern, over, figure)?.with(&under, |over, under| over / under))
        };
        patterns.iter().map(ratio).collect()
    }

    /// Returns the largest or least of a value over patterns, seed by seed.
    fn extreme(
        &self,
        patterns: &[Pattern],
        variant: Variant,
        figure: fn(&Metrics) -> f64,
        pick: fn(f64, f64) -> f64,
    ) -> Option<Sample> {
        let each = patterns.iter().map(|pattern| self.sample(*pattern, variant, figure));
        fold(each.collect::<Option<Vec<Sample>>>()?, pick)
    }
}

fn fold(samples: Vec<Sample>, pick: fn(f64, f64) -> f64) -> Option<Sample> {
    samples.into_iter().reduce(|a, b| a.with(&b, pick))
}

/// Counts the values that satisfy a condition, seed by seed.
fn count(samples: &[Sample], holds: fn(f64) -> bool) -> Option<Sample> {
    let one = |sample: &Sample| {
        sample.with(&Sample::from(0.0), |value, _| f64::from(u8::from(holds(value))))
    };
    fold(samples.iter().map(one).collect(), |a, b| a + b)
}

fn mean(samples: Vec<Sample>) -> Option<Sample> {
    let count = samples.len() as f64;
    let sum = fold(samples, |a, b| a + b)?;
    Some(sum.with(&Sample::from(count), |sum, count| sum / count))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fabricast_routing::LinkLoads;

    use super::super::setup::{ENGINES_COMPARED, Measured};
    use super::*;
    use crate::claim;

    /// Every engine merges as many groups, whatever the pattern: all rows appear, and many differ.
    fn outcomes(max: u32) -> Vec<Outcome> {
        let figures = Metrics {
            groups: 600,
            trees: 600 / max,
            max_tfi: max,
            mean_tfi: f64::from(max),
            switch_links: LinkLoads { used: 1, max_efi: 40 * max, mean_efi: 20.0 },
            ..Metrics::default()
        };
        let routed = vec![Measured { figures, took: Duration::from_millis(max.into()) }];
        let each = PATTERNS.into_iter().flat_map(|pattern| {
            let routed = routed.clone();
            ENGINES_COMPARED.into_iter().map(move |variant| Outcome {
                pattern,
                variant,
                routed: routed.clone(),
            })
        });
        each.collect()
    }

    #[test]
    fn no_row_of_any_outcome_differs_without_a_reason_of_its_own() {
        for max in [1, 2, 300] {
            let claims = claims(&outcomes(max));
            assert!(claims.len() > 30, "{}", claims.len());
            assert_eq!(claim::faults(&claims), Vec::<String>::new());
        }
    }

    #[test]
    fn the_calibrated_colors_are_named_in_every_row_that_they_touch() {
        let claims = claims(&outcomes(7));
        let touched = claims.iter().filter(|claim| {
            claim.what.starts_with("max TFI, ")
                && claim.what.ends_with(", c-mr4lms-fixed")
                && !claim.what.contains("random")
        });
        let mut rows = 0;
        for claim in touched {
            rows += 1;
            assert!(claim.why.contains("calibrated"), "{claim:?}");
        }
        assert_eq!(rows, 5);
    }

    #[test]
    fn fewer_trees_than_spanning_trees_break_a_law() {
        let broken = |max| laws(&outcomes(max)).iter().filter(|law| !law.holds).count();
        assert_eq!(broken(1), 0);
        assert!(broken(2) > 0);
    }
}
