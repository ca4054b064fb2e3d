//! The numbers in the text of C-MR4LMS §4, beside ours.

use fabricast_routing::LayerPlan;

use super::Outcome;
use crate::pattern::{Pattern, Shape};
use crate::report::{Claim, Verdict};

/// A number of the paper's text.
struct Published {
    pattern: Pattern,
    engine: &'static str,
    what: &'static str,
    section: &'static str,
    text: &'static str,
    ours: fn(&Outcome) -> f64,
    range: (f64, f64),
    why: &'static str,
}

const FIXED: &str = "c-mr4lms-fixed";
const MAX_TFI: fn(&Outcome) -> f64 = |one| f64::from(one.figures.max_tfi);
const TREES: fn(&Outcome) -> f64 = |one| f64::from(one.figures.trees);

const DIFFERENCE: &str =
    "the text gives a difference to MR4LMS only; the number is what it implies";
const COPRIME: &str = "25x50x26 needs merging in both; the text gives no number";

fn published() -> Vec<Published> {
    let tfi = |shape, processes, section, text, range, why| Published {
        pattern: Pattern::new(shape, processes),
        engine: FIXED,
        what: "max TFI",
        section,
        text,
        ours: MAX_TFI,
        range,
        why,
    };
    let trees = |shape, processes, section| Published {
        pattern: Pattern::new(shape, processes),
        engine: FIXED,
        what: "trees left after merging",
        section,
        text: "at least 512",
        ours: TREES,
        range: (512.0, f64::INFINITY),
        why: "",
    };
    vec![
        tfi(Shape::Plane(181, 181), 1, "§4.3.1", "1", (1.0, 1.0), ""),
        tfi(Shape::Plane(100, 327), 1, "§4.3.1", "1", (1.0, 1.0), ""),
        tfi(Shape::Cube(64, 32, 16), 1, "§4.3.1", "7", (7.0, 7.0), ""),
        tfi(Shape::Cube(32, 32, 32), 1, "§4.3.1", "6", (6.0, 6.0), ""),
        tfi(Shape::Cube(25, 50, 26), 1, "§4.3.1", "more than 1", (2.0, f64::INFINITY), COPRIME),
        tfi(Shape::Cube(100, 50, 26), 4, "§4.3.2", "20 (168 - 148)", (20.0, 20.0), DIFFERENCE),
        tfi(Shape::Cube(256, 32, 16), 4, "§4.3.2", "at most 26 (1 + 25)", (1.0, 26.0), DIFFERENCE),
        trees(Shape::Cube(64, 32, 16), 1, "§4.3.1"),
        trees(Shape::Random(1_000), 1, "§4.3.1"),
        trees(Shape::Cube(100, 50, 26), 4, "§4.3.2"),
        trees(Shape::Random(1_000), 4, "§4.3.2"),
    ]
}

/// Sets the numbers of the text beside ours, for the patterns that were run.
pub(super) fn claims(outcomes: &[Outcome]) -> Vec<Claim> {
    let claims = published().into_iter().filter_map(|one| {
        let outcome = outcomes.iter().find(|outcome| {
            outcome.pattern == one.pattern
                && outcome.variant.engine == one.engine
                && outcome.variant.layers == LayerPlan::Compact
        })?;
        let ours = (one.ours)(outcome);
        let inside = one.range.0 <= ours && ours <= one.range.1;
        Some(Claim {
            what: format!("{}, {}, {}", one.what, one.pattern, one.engine),
            source: format!("C-MR4LMS {}", one.section),
            published: one.text.to_owned(),
            ours: ours.to_string(),
            verdict: if inside { Verdict::Agrees } else { Verdict::Differs },
            why: one.why.to_owned(),
        })
    });
    claims.collect()
}
