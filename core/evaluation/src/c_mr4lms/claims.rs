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
pub(super) const NOT_COMPARED: [NotCompared; 16] = [
    NotCompared {
        what: "Bars of figures 9 and 10 beyond the numbers of the text",
        source: "C-MR4LMS figures 9, 10",
        why: "they are pictures whose values cannot be read",
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
        what: "All groups of an endpoint are in different layers",
        source: "C-MR4LMS theorem 3",
        why: "it is a theorem, which `core/routing` tests for all small grids and every start",
    },
    NotCompared {
        what: "Two trees for each group halve the number of spanning trees without conflict",
        source: "C-MR4LMS equation (4)",
        why: "it is arithmetic, which `core/routing` tests; the paper measures without them here as well",
    },
    NotCompared {
        what: "A tree of S members is built in O(S)",
        source: "C-MR4LMS algorithm 1",
        why: "it is a bound, no time; the table of run times has ours",
    },
    NotCompared {
        what: "Routing anew and merging change no tree, so that an application runs as fast each time",
        source: "C-MR4LMS, introduction and conclusion",
        why: "it is invariant R3 of `docs/invariants.md`, which tests assert for fixed roots; no application is measured",
    },
    NotCompared {
        what: "With dynamic roots a merge may change roots and need a second merge",
        source: "C-MR4LMS figure 7",
        why: "it is an example of when lemma 1 fails; ours looks for roots until none is in the way",
    },
    NotCompared {
        what: "The run time of C-MR4LMS is always the same",
        source: "C-MR4LMS §4.3",
        why: "the text gives no numbers; the table of run times shows how ours follows groups and members",
    },
    NotCompared {
        what: "EFI and run time are the same on a simulated subnet as on a real one",
        source: "C-MR4LMS §4.1",
        why: "it is about their method; ours needs no subnet",
    },
    NotCompared {
        what: "Tools that choose MGIDs, topologies that are found, failed links that are avoided",
        source: "C-MR4LMS, conclusion",
        why: "it announces work",
    },
    NotCompared {
        what: "Latency of collectives, cut links, two trees",
        source: "C-MR4LMS §4.4",
        why: "they are in the experiment `latency`",
    },
];

/// Outcomes of all patterns and engines.
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

    use super::super::setup::ENGINES_COMPARED;
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
        let took = Duration::from_millis(max.into());
        let each = PATTERNS.into_iter().flat_map(|pattern| {
            ENGINES_COMPARED.into_iter().map(move |variant| Outcome {
                pattern,
                variant,
                figures: vec![figures],
                times: vec![took; 5],
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
        let of_layers = |claim: &&Claim| {
            let names = ["c-mr4lms", "C-MR4LMS", "dynamic"];
            names.iter().any(|name| claim.what.contains(name)) && !claim.what.contains("random")
        };
        let is_named = |claim: &Claim| {
            claim.why.contains("calibrated") || claim.why.contains("fitted: compact layers")
        };
        let silent: Vec<&Claim> =
            claims.iter().filter(of_layers).filter(|claim| !is_named(claim)).collect();
        assert!(silent.is_empty(), "{silent:?}");
    }

    #[test]
    fn rows_with_a_run_time_have_the_number_of_runs_and_their_spread() {
        let claims = claims(&outcomes(7));
        let mut rows = claims.iter().filter(|claim| claim.what.starts_with("run time"));
        assert!(rows.all(|claim| claim.spread.starts_with("5 runs: ")), "{claims:?}");
    }

    #[test]
    fn random_groups_of_four_processes_stand_beside_the_published_bound() {
        let claims = claims(&outcomes(2));
        let what = "max EFI, c-mr4lms-fixed, largest of the random patterns, P=4";
        let row = claims.iter().find(|claim| claim.what == what).expect("there is such a row");
        assert_eq!((row.ours.as_str(), row.verdict), ("80", claim::Verdict::Worse));
        assert!(
            row.why.ends_with("80 with 1 000 of them; MR4LMS has 80 in the largest"),
            "{}",
            row.why
        );
    }

    /// All engines of these outcomes have the same figures.
    #[test]
    fn a_tie_is_not_slightly_below() {
        let claims = claims(&outcomes(7));
        let rows = claims.iter().filter(|claim| {
            claim.published == "slightly below 1" && claim.what.starts_with("max EFI")
        });
        let verdicts: Vec<claim::Verdict> = rows.map(|row| row.verdict).collect();
        assert_eq!(verdicts, [claim::Verdict::Near; 3]);
    }

    #[test]
    fn fewer_trees_than_spanning_trees_break_a_law() {
        let broken = |max| laws(&outcomes(max)).iter().filter(|law| !law.holds).count();
        assert_eq!(broken(1), 0);
        assert!(broken(2) > 0);
    }
}
