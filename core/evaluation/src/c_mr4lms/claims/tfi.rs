//! §4.3: maximum and mean TFI, and the trees that are left.

use fabricast_routing::PatternShape::{Cube, Plane, Random};

use super::super::setup::{FIXED, Outcome, PATTERNS, Variant};
use super::{
    CUBES, Found, MAX_TFI, MEAN_TFI, MR4LMS, PLANES, RANDOM, TN, TN_GROUP, TREES, fold, mean,
};
use crate::claim::{CALIBRATED, Claim, Comparison, Law, Published, Tolerance};
use crate::pattern::Pattern;
use crate::sample::Sample;

const ONE: &str = "C-MR4LMS §4.3.1";
const FOUR: &str = "C-MR4LMS §4.3.2";
const GRID: Pattern = Pattern::new(Cube(100, 50, 26), 4);

pub(super) fn claims(found: &Found<'_>) -> Vec<Claim> {
    let mut claims = fixed(found);
    claims.extend(dynamic(found));
    claims.extend(equal(found));
    claims.extend(means(found));
    claims.extend(mr4lms(found));
    claims.extend(merged(found));
    claims.extend(differences(found));
    claims.extend(overall(found));
    claims
}

fn max_tfi(
    found: &Found<'_>,
    pattern: Pattern,
    variant: Variant,
    published: Published,
) -> Option<Comparison> {
    let outcome = found.of(pattern, variant)?;
    let what = format!("max TFI, {pattern}, {}", variant.label());
    let source = if pattern.processes == 1 { ONE } else { FOUR };
    Some(Comparison::new(what, source, published, outcome.sample(MAX_TFI)))
}

/// Adds that the colors of the layers are calibrated, if they decide the outcome.
fn calibrated(outcome: Option<&Outcome>, row: Comparison) -> Comparison {
    match outcome.and_then(Outcome::layer_colors) {
        Some(colors) => row.note(format!("calibrated: layers of {colors} colors")),
        None => row,
    }
}

/// Fixed roots: the numbers that the colors of the layers were chosen by.
fn fixed(found: &Found<'_>) -> Vec<Claim> {
    let number = |number: f64| Published::number(number.to_string(), number);
    let rows = [
        (
            Pattern::new(Cube(64, 32, 16), 1),
            number(7.0),
            "the layers' colors decide how many groups share a tree",
        ),
        (
            Pattern::new(Cube(32, 32, 32), 1),
            number(6.0),
            "the x-lines stay in a leaf, the z-lines share their layer's trees",
        ),
        (
            GRID,
            Published::number("20 (168 - 148)", 20.0),
            "the text gives a difference to MR4LMS only; the number is what it implies",
        ),
        (
            Pattern::new(Cube(256, 32, 16), 4),
            Published::at_most("at most 26 (1 + 25)", 26.0),
            "the text gives the largest difference to MR4LMS only, not its pattern",
        ),
    ];
    let each = rows.into_iter().filter_map(|(pattern, published, reason)| {
        let row = max_tfi(found, pattern, FIXED, published)?;
        let parameter = format!("compact layers and their colors, by {pattern}");
        Some(calibrated(found.of(pattern, FIXED), row.fitted(parameter)).because(reason))
    });
    each.collect()
}

fn dynamic(found: &Found<'_>) -> Vec<Claim> {
    let patterns = [Pattern::new(Cube(64, 32, 16), 1), Pattern::new(Cube(32, 32, 32), 1)];
    let slots = [576, 544]; // pairs of color and uplink that one CN's groups need, of 512
    let mut claims = Vec::new();
    for (pattern, slots) in patterns.into_iter().zip(slots) {
        for variant in [TN, TN_GROUP] {
            let Some(row) = max_tfi(found, pattern, variant, Published::number("1", 1.0)) else {
                continue;
            };
            let reason = if variant == TN {
                format!(
                    "not to be had with roots of one TN: the groups of {pattern} that leave a CN need {slots} pairs of \
                     color and uplink, and it has 512"
                )
            } else {
                format!(
                    "roots of all TNs of a group, which is more than the paper says, are not enough for {pattern}"
                )
            };
            claims.push(calibrated(found.of(pattern, variant), row).because(reason));
        }
    }
    claims
}

/// "25x50x26 and the random patterns: both policies merge, and as much."
fn equal(found: &Found<'_>) -> Vec<Claim> {
    let patterns = [CUBES[0][2]].into_iter().chain(RANDOM[0].iter().copied());
    let mut claims = Vec::new();
    for pattern in patterns {
        let some = Published::at_least("more than 1", 2.0);
        let row = max_tfi(found, pattern, FIXED, some);
        claims.extend(row.map(|row| {
            calibrated(found.of(pattern, FIXED), row)
                .because(format!("{pattern} has spanning trees enough for all of its groups"))
        }));
        let apart = |figure| {
            let dynamic = found.sample(pattern, TN, figure)?;
            Some(dynamic.with(&found.sample(pattern, FIXED, figure)?, |ours, fixed| ours / fixed))
        };
        claims.extend(apart(MAX_TFI).map(|ours| {
            let what = format!("max TFI, dynamic (tn) over fixed, {pattern}");
            let row = Comparison::new(what, ONE, Published::number("equal", 1.0), ours);
            calibrated(found.of(pattern, FIXED), row.printed("", 2)).because(format!(
                "another root of the TN is free for some of the groups of {pattern}"
            ))
        }));
        claims.extend(apart(MEAN_TFI).map(|ours| {
            let what = format!("mean TFI, dynamic (tn) over fixed, {pattern}");
            let published = Published::range("slightly below 1", 0.9, 0.999);
            let row = Comparison::new(what, ONE, published, ours).printed("", 3);
            let row = calibrated(found.of(pattern, FIXED), row.within(Tolerance::Units(0.01)));
            row.because(format!(
                "of {pattern} both policies are left with as many trees, or nearly"
            ))
        }));
    }
    claims
}

/// "Mean TFI is close to the maximum for random groups, and clearly lower for 3-D patterns."
fn means(found: &Found<'_>) -> Vec<Claim> {
    let share = |patterns: &[Pattern], pick: fn(f64, f64) -> f64| {
        let each = patterns.iter().map(|pattern| {
            let most = found.sample(*pattern, FIXED, MAX_TFI)?;
            Some(found.sample(*pattern, FIXED, MEAN_TFI)?.with(&most, |mean, most| mean / most))
        });
        fold(each.collect::<Option<Vec<Sample>>>()?, pick)
    };
    let mut claims = Vec::new();
    let sources = [(ONE, 1), (FOUR, 4)];
    for ((source, processes), patterns) in sources.into_iter().zip(RANDOM) {
        claims.extend(share(patterns, f64::min).map(|ours| {
            let what = format!("mean over max TFI, random patterns, P={processes}, fixed, least");
            Comparison::new(what, source, Published::at_least("close to 1", 0.9), ours)
                .printed("", 2)
                .within(Tolerance::Units(0.05))
                .higher_is_better()
                .note("the limit for 'close' is ours")
                .because(format!("a few groups of the largest pattern with P={processes} share a tree more than all others"))
        }));
    }
    claims.extend(share(CUBES[0], f64::max).map(|ours| {
        let what = "mean over max TFI, 3-D patterns, P=1, fixed, most";
        Comparison::new(what, ONE, Published::at_most("clearly below 1", 0.5), ours)
            .printed("", 2)
            .within(Tolerance::Units(0.05))
            .note("the limit for 'clearly' is ours")
            .note(CALIBRATED)
            .because("of the three 3-D patterns one has few groups that need no merging")
    }));
    claims
}

fn mr4lms(found: &Found<'_>) -> Vec<Claim> {
    let all: Vec<Pattern> = [PLANES[0], CUBES[0], RANDOM[0]].concat();
    let mut claims = Vec::new();
    claims.extend(found.extreme(&all, MR4LMS, MAX_TFI, f64::max).map(|ours| {
        let what = "max TFI, all patterns with P=1, MR4LMS";
        Comparison::new(what, ONE, Published::number("1", 1.0), ours)
            .because("some group of these patterns finds no color of its own")
    }));
    let unmerged: Vec<Pattern> = [PLANES[1], CUBES[1].split_at(2).0].concat();
    claims.extend(found.extreme(&unmerged, MR4LMS, MAX_TFI, f64::max).map(|ours| {
        let what = "max TFI, 2-D patterns, 256x32x16 and 128x32x32 with P=4, MR4LMS";
        Comparison::new(what, FOUR, Published::number("1", 1.0), ours)
            .because("some group of these patterns with 4 processes finds no color of its own")
    }));
    for variant in [FIXED, TN] {
        claims.extend(found.extreme(&unmerged, variant, MAX_TFI, f64::min).map(|ours| {
            let label = variant.label();
            let what = format!("max TFI, the same patterns, {label}, least");
            Comparison::new(what, FOUR, Published::at_least("more than 1", 2.0), ours)
                .note(CALIBRATED)
                .because(format!(
                    "they have more groups than spanning trees, but not that meet with {label}"
                ))
        }));
    }
    claims
}

/// Merging by MR4LMS: "100x50x26 and the random patterns with four processes".
fn merged(found: &Found<'_>) -> Vec<Claim> {
    let fewest = "a group is merged where the fewest groups are in the way, and trees are built with lookahead";
    let mut claims = Vec::new();
    claims.extend(max_tfi(found, GRID, MR4LMS, Published::number("168", 168.0)).map(|row| {
        row.within(Tolerance::Percent(10.0)).because(format!(
            "{fewest}; by the paper's own rules 189 groups of {GRID} shared a tree of ours"
        ))
    }));
    claims.extend(found.sample(GRID, MR4LMS, MEAN_TFI).map(|ours| {
        let what = format!("mean TFI, {GRID}, MR4LMS");
        Comparison::new(what, FOUR, Published::number("1.1", 1.1), ours)
            .printed("", 2)
            .within(Tolerance::Percent(10.0))
            .because("as many trees are left, though fewer groups share one")
    }));
    claims.extend(merged_grid(found));
    for pattern in RANDOM[1] {
        let row = max_tfi(found, *pattern, MR4LMS, Published::at_least("more than 1", 2.0));
        claims.extend(row.map(|row| {
            row.because(format!("the groups of {pattern} all find a color of their own"))
        }));
    }
    let most = found.extreme(RANDOM[1], FIXED, MAX_TFI, f64::max);
    let ratio = found.ratios(RANDOM[1], MAX_TFI, [MR4LMS, FIXED]).and_then(mean);
    claims.extend(most.and(ratio).map(|ours| {
        let what = "max TFI, MR4LMS over c-mr4lms-fixed, mean of the random patterns, P=4";
        Comparison::new(what, FOUR, Published::at_least("clearly above 1", 1.1), ours)
            .printed("", 2)
            .within(Tolerance::Units(0.1))
            .because("with lookahead MR4LMS merges less than C-MR4LMS even here, so the published order is reversed")
    }));
    let left = Pattern::new(Random(1_000), 4);
    claims.extend(found.sample(left, MR4LMS, TREES).map(|ours| {
        let what = format!("trees left after merging, {left}, MR4LMS");
        Comparison::new(what, FOUR, Published::number("32", 32.0), ours)
            .higher_is_better()
            .within(Tolerance::Percent(10.0))
            .because("by the paper's own rules ours was left with 32 as well; merging where the fewest groups are in the way leaves more")
    }));
    claims
}

/// 100x50x26: "MR4LMS's maximum is clearly above both, and further from its mean".
fn merged_grid(found: &Found<'_>) -> Vec<Claim> {
    let of = |variant, figure| found.sample(GRID, variant, figure);
    let over = |a: Sample, b: Sample| a.with(&b, |a, b| a / b);
    let most = of(MR4LMS, MAX_TFI).zip(of(TN, MAX_TFI)).map(|(theirs, ours)| over(theirs, ours));
    let mut claims = Vec::new();
    claims.extend(most.map(|ours| {
        let what = format!("max TFI, MR4LMS over c-mr4lms-dynamic (tn), {GRID}");
        let row = Comparison::new(what, FOUR, Published::at_least("clearly above 1", 1.1), ours);
        let row = row.printed("", 2).higher_is_better().within(Tolerance::Units(0.1));
        row.note(CALIBRATED).because(
            "our MR4LMS merges fewer groups than C-MR4LMS with either kind of roots, as its row says",
        )
    }));
    let spread = |variant| Some(over(of(variant, MAX_TFI)?, of(variant, MEAN_TFI)?));
    claims.extend(spread(FIXED).zip(spread(MR4LMS)).map(|(fixed, theirs)| {
        let what = format!("max over mean TFI, {GRID}, c-mr4lms-fixed over MR4LMS");
        let published = Published::at_most("clearly below 1 (168 / 1.1 of MR4LMS)", 0.9);
        let row = Comparison::new(what, FOUR, published, over(fixed, theirs)).printed("", 2);
        row.within(Tolerance::Units(0.1)).note(CALIBRATED).because(
            "the paper's MR4LMS merged 168 groups to one tree and left the others alone; ours merges 4 at most",
        )
    }));
    claims
}

fn differences(found: &Found<'_>) -> Vec<Claim> {
    let apart = |patterns: &[Pattern], sign: f64| {
        let each = patterns.iter().map(|pattern| {
            let theirs = found.sample(*pattern, MR4LMS, MAX_TFI)?;
            let ours = found.sample(*pattern, FIXED, MAX_TFI)?;
            Some(
                ours.with(&theirs, |ours, theirs| ours - theirs)
                    .with(&sign.into(), |one, sign| one * sign),
            )
        });
        fold(each.collect::<Option<Vec<Sample>>>()?, f64::max)
    };
    let few: Vec<Pattern> =
        [PLANES[0], CUBES[0], RANDOM[0], PLANES[1], CUBES[1].split_at(2).0].concat();
    let mut claims = Vec::new();
    claims.extend(apart(&few, 1.0).map(|ours| {
        let what =
            "max TFI of c-mr4lms-fixed above MR4LMS's, most, patterns that MR4LMS does not merge";
        let row = Comparison::new(what, "C-MR4LMS §4.3.3", Published::number("25", 25.0), ours);
        row.fitted("compact layers and their colors, by this difference")
            .because("256x32x16 with 4 processes decides it")
    }));
    claims.extend(apart(&[GRID], -1.0).map(|ours| {
        let what = format!("max TFI of c-mr4lms-fixed below MR4LMS's, {GRID}");
        let row = Comparison::new(what, "C-MR4LMS §4.3.3", Published::number("148", 148.0), ours);
        let row = row.higher_is_better().within(Tolerance::Percent(10.0));
        calibrated(found.of(GRID, FIXED), row).because(
            "our MR4LMS merges fewer groups than C-MR4LMS here, as the row of its max TFI says",
        )
    }));
    claims
}

/// "Dynamic is slightly better than fixed", over all patterns; and more groups than spanning trees
/// have trees of their own.
fn overall(found: &Found<'_>) -> Vec<Claim> {
    let mut claims = Vec::new();
    claims.extend(found.ratios(&PATTERNS, MEAN_TFI, [TN, FIXED]).and_then(mean).map(|ours| {
        let what = "mean TFI, c-mr4lms-dynamic (tn) over fixed, mean over all patterns";
        let published = Published::range("slightly below 1", 0.8, 0.99);
        Comparison::new(what, "C-MR4LMS §4.3.3", published, ours)
            .printed("", 2)
            .within(Tolerance::Percent(10.0))
            .note("the range for 'slightly' is ours")
            .note(CALIBRATED)
            .because("other roots of the TN save most of the merging of 64x32x16 and 256x32x16")
    }));
    let cubes = [CUBES[0], CUBES[1]].concat();
    claims.extend(found.extreme(&cubes, FIXED, TREES, f64::max).map(|ours| {
        let what = "trees after merging, most of the 3-D patterns, c-mr4lms-fixed";
        let published = Published::at_least("more than 512, the spanning trees", 513.0);
        Comparison::new(what, "C-MR4LMS corollary 1", published, ours)
            .higher_is_better()
            .note(CALIBRATED)
            .because("all groups of a spanning tree meet on a link of it")
    }));
    claims
}

/// Laws of theorem 1: with 512 spanning trees fewer groups than that are never merged,
/// and merging leaves no fewer trees.
pub(super) fn laws(found: &Found<'_>) -> Vec<Law> {
    let mut laws = Vec::new();
    let policies = [FIXED, TN];
    for pattern in [Pattern::new(Plane(181, 181), 1), Pattern::new(Plane(100, 327), 1)] {
        for variant in policies {
            laws.extend(found.of(pattern, variant).map(|one| {
                let (most, colors) = (one.sample(MAX_TFI).most(), one.layer_colors());
                Law {
                    what: format!(
                        "max TFI of fewer groups than spanning trees, {pattern} in layers of {} colors (calibrated), {}",
                        colors.unwrap_or_default(),
                        variant.label()
                    ),
                    source: ONE.to_owned(),
                    demanded: "1".to_owned(),
                    found: most.to_string(),
                    holds: most <= 1.0,
                }
            }));
        }
    }
    let sets = [PLANES[0], CUBES[0], RANDOM[0], PLANES[1], CUBES[1], RANDOM[1]];
    for variant in policies {
        let each = sets.iter().copied().flatten().filter_map(|pattern| {
            let outcome = found.of(*pattern, variant)?;
            // Groups that stay in one leaf or CN need no spanning tree of the top.
            let least = outcome.sample(|one| f64::from(one.trees.min(one.groups)));
            let groups = outcome.sample(|one| f64::from(one.groups.min(512)));
            Some(least.with(&groups, |trees, least| trees - least).least())
        });
        let missing = each.collect::<Vec<f64>>();
        let Some(least) = missing.iter().copied().reduce(f64::min) else { continue };
        laws.push(Law {
            what: format!(
                "trees left after merging, {} patterns ({CALIBRATED}), {}",
                missing.len(),
                variant.label()
            ),
            source: format!("{ONE}, §4.3.2"),
            demanded: "at least 512, or as many as groups".to_owned(),
            found: format!("at least {least} more than that"),
            holds: least >= 0.0,
        });
    }
    laws
}
