//! The numbers in the text of C-MR4LMS §4, beside ours.

use fabricast_routing::PatternShape::{Cube, Plane, Random};

use super::setup::{DYNAMIC, FIXED, Outcome, Variant};
use crate::pattern::Pattern;
use crate::report::{Claim, Verdict};
use fabricast_routing::{EngineKind, RootScope};

/// The words of the paper, and the least and the largest number that agree with them.
#[derive(Clone, Copy)]
struct PublishedValue {
    text: &'static str,
    least: f64,
    most: f64,
}

const fn value(text: &'static str, least: f64, most: f64) -> PublishedValue {
    PublishedValue { text, least, most }
}

/// A number of the paper's text.
struct Published {
    pattern: Pattern,
    variant: Variant,
    what: &'static str,
    section: &'static str,
    value: PublishedValue,
    ours: fn(&Outcome) -> f64,
    why: &'static str,
}

const MR4LMS: Variant = Variant::new(EngineKind::Mr4lms);
const TN: Variant = DYNAMIC.scope(RootScope::Tn);
const TN_GROUP: Variant = DYNAMIC.scope(RootScope::TnGroup);

const DIFFERENCE: &str =
    "the text gives a difference to MR4LMS only; the number is what it implies";
const NO_NUMBER: &str = "both policies must merge here; the text gives no number";
const PIGEONHOLE: &str = "not to be had with roots of one TN: a CN is left by more groups than it has \
                          pairs of color and uplink";
const SEVERAL_TNS: &str = "with roots from all TNs of the group, as the published number needs";
const FEWEST: &str =
    "more trees are better: a group is merged where the fewest groups are in the way";
const ORDER: &str =
    "depends on the order of equal choices; only the two policies' own trees are fixed";

fn max_tfi(
    pattern: Pattern,
    variant: Variant,
    value: PublishedValue,
    why: &'static str,
) -> Published {
    Published {
        section: if pattern.processes == 1 { "§4.3.1" } else { "§4.3.2" },
        pattern,
        variant,
        what: "max TFI",
        value,
        ours: |one| f64::from(one.routed.figures.max_tfi),
        why,
    }
}

fn trees(
    pattern: Pattern,
    variant: Variant,
    value: PublishedValue,
    why: &'static str,
) -> Published {
    Published {
        what: "trees left after merging",
        ours: |one| f64::from(one.routed.figures.trees),
        ..max_tfi(pattern, variant, value, why)
    }
}

fn published() -> Vec<Published> {
    let one = value("1", 1.0, 1.0);
    let some = value("more than 1", 2.0, f64::INFINITY);
    let enough = value("at least 512", 512.0, f64::INFINITY);
    vec![
        max_tfi(Pattern::new(Plane(181, 181), 1), FIXED, one, ""),
        max_tfi(Pattern::new(Plane(100, 327), 1), FIXED, one, ""),
        max_tfi(Pattern::new(Cube(64, 32, 16), 1), FIXED, value("7", 7.0, 7.0), ""),
        max_tfi(Pattern::new(Cube(32, 32, 32), 1), FIXED, value("6", 6.0, 6.0), ""),
        max_tfi(Pattern::new(Cube(25, 50, 26), 1), FIXED, some, NO_NUMBER),
        max_tfi(Pattern::new(Cube(64, 32, 16), 1), TN, one, PIGEONHOLE),
        max_tfi(Pattern::new(Cube(32, 32, 32), 1), TN, one, PIGEONHOLE),
        max_tfi(Pattern::new(Cube(64, 32, 16), 1), TN_GROUP, one, SEVERAL_TNS),
        max_tfi(Pattern::new(Cube(32, 32, 32), 1), TN_GROUP, one, SEVERAL_TNS),
        max_tfi(Pattern::new(Cube(64, 32, 16), 1), MR4LMS, one, ""),
        max_tfi(Pattern::new(Cube(32, 32, 32), 1), MR4LMS, one, ""),
        max_tfi(
            Pattern::new(Cube(100, 50, 26), 4),
            FIXED,
            value("20 (168 - 148)", 20.0, 20.0),
            DIFFERENCE,
        ),
        max_tfi(Pattern::new(Cube(100, 50, 26), 4), MR4LMS, value("168", 1.0, 168.0), ORDER),
        max_tfi(
            Pattern::new(Cube(256, 32, 16), 4),
            FIXED,
            value("at most 26 (1 + 25)", 1.0, 26.0),
            DIFFERENCE,
        ),
        max_tfi(Pattern::new(Cube(256, 32, 16), 4), MR4LMS, one, ORDER),
        trees(Pattern::new(Cube(64, 32, 16), 1), FIXED, enough, ""),
        trees(Pattern::new(Random(1_000), 1), FIXED, enough, ""),
        trees(Pattern::new(Cube(100, 50, 26), 4), FIXED, enough, ""),
        trees(Pattern::new(Random(1_000), 4), FIXED, enough, ""),
        trees(Pattern::new(Random(1_000), 4), MR4LMS, value("32", 32.0, 32.0), FEWEST),
        Published {
            what: "max EFI of random groups",
            section: "§4.2.1",
            ours: |one| f64::from(one.routed.figures.switch_links.max_efi),
            ..max_tfi(
                Pattern::new(Random(4_000), 1),
                FIXED,
                value("69", 0.0, 69.0),
                "the largest of the three \
                random patterns, whose sizes are ours",
            )
        },
    ]
}

/// Sets the numbers of the text beside ours, for the patterns and engines that were run.
pub(super) fn claims(outcomes: &[Outcome]) -> Vec<Claim> {
    let claims = published().into_iter().filter_map(|one| {
        let is_it =
            |outcome: &&Outcome| outcome.pattern == one.pattern && outcome.variant == one.variant;
        let ours = (one.ours)(outcomes.iter().find(is_it)?);
        let inside = (one.value.least..=one.value.most).contains(&ours);
        Some(Claim {
            what: format!("{}, {}, {}", one.what, one.pattern, one.variant.label()),
            source: format!("C-MR4LMS {}", one.section),
            published: one.value.text.to_owned(),
            ours: ours.to_string(),
            verdict: if inside { Verdict::Agrees } else { Verdict::Differs },
            why: one.why.to_owned(),
        })
    });
    claims.collect()
}
