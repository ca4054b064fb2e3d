//! Statements about all patterns of a fabric, or of all fabrics.

use fabricast_routing::PatternShape::{self, Cube, Plane};

use super::super::setup::{COUNTED, Measured, Outcome};
use super::{COLORS, EFI, Figure, MERGED_EFI, is_whole, most};
use crate::claim::{Claim, Comparison, Published, Tolerance};
use crate::sample::Sample;

const TIMES: &str = "MR4LMS §4.6, figure 12";
const FAT_TREES: [&str; 3] = ["bluelight", "taihulight", "fat-tree"];

pub(super) fn claims(outcomes: &[Outcome]) -> Vec<Claim> {
    let mut claims = Vec::new();
    claims.extend(merging(outcomes));
    claims.extend(of_a_color(outcomes));
    claims.extend(torus(outcomes));
    claims.extend(unfitting(outcomes));
    if is_whole(outcomes) {
        claims.extend(colors(outcomes));
        claims.extend(unmerged(outcomes));
        claims.extend(loads(outcomes));
        claims.extend(grown(outcomes));
        claims.extend(run_times(outcomes));
        claims.extend(baselines(outcomes));
    }
    claims
}

/// Counts the patterns in which a condition holds, seed by seed.
fn count<'a>(outcomes: impl Iterator<Item = &'a Outcome>, holds: Figure) -> Option<Sample> {
    outcomes.map(|one| one.sample(holds)).reduce(|a, b| a.with(&b, |a, b| a + b))
}

fn one_if(holds: bool) -> f64 {
    f64::from(u8::from(holds))
}

fn colors(outcomes: &[Outcome]) -> Vec<Claim> {
    let fat_trees = || outcomes.iter().filter(|one| FAT_TREES.contains(&one.fabric.preset));
    let mut claims = Vec::new();
    claims.extend(count(fat_trees(), |one| one_if(COLORS(one) <= 128.0)).map(|ours| {
        let what = "patterns of 18 on the fat trees that need at most 128 colors";
        let published = Published::at_least("most of them", 10.0);
        Comparison::new(what, "MR4LMS §4.3", published, ours)
            .higher_is_better()
            .because("random groups and those of four processes need more on all three")
    }));
    let share: Figure = |one| COLORS(one) / f64::from(one.unlimited[0].figures.groups.max(1));
    claims.extend(most(fat_trees().map(|one| one.sample(share))).map(|ours| {
        let what = "colors needed over groups, most of the patterns on the fat trees";
        let published = Published::at_most("far below 1", 0.5);
        let row = Comparison::new(what, "MR4LMS §4.3", published, ours).printed("", 2);
        row.within(Tolerance::Units(0.05)).note("the limit for 'far' is ours").because(
            "a random group has members below most leaf switches, so that few groups do not meet; grids need few",
        )
    }));
    claims
}

/// "On fat trees patterns that do not fit need not many colors more."
fn unfitting(outcomes: &[Outcome]) -> Option<Claim> {
    let of = |shape: PatternShape| {
        let is_it = |one: &&Outcome| (one.fabric.preset, one.pattern.shape) == ("bluelight", shape);
        outcomes.iter().find(is_it).map(|one| one.sample(COLORS))
    };
    let ours = of(Plane(90, 90))?.with(&of(Plane(256, 34))?, |other, fits| other / fits);
    let what = "colors needed on bluelight, 90x90 over 256x34, which fits";
    let published = Published::at_most("no sharp growth: 1.7 (50 over 29)", 1.73);
    let row = Comparison::new(what, "MR4LMS §4.3", published, ours).printed("", 2);
    let row = row.within(Tolerance::Percent(10.0));
    Some(row.because("lookahead spreads the groups that stay in a midplane over more switches than those of 90x90"))
}

/// "Most patterns need no merging with the recommended colors."
fn unmerged(outcomes: &[Outcome]) -> Option<Claim> {
    let ours = count(outcomes.iter(), |one| one_if(one.recommended.figures.max_tfi <= 1))?;
    let what = "patterns of 36 that merge nothing with the recommended colors";
    let published = Published::at_least("most of them", 19.0);
    let row = Comparison::new(what, "MR4LMS §4.5.1", published, ours).higher_is_better();
    Some(row.because("those of four processes and of random groups merge, on most of the fabrics"))
}

/// "Patterns that fit the torus need few colors, the others many."
fn torus(outcomes: &[Outcome]) -> Option<Claim> {
    let of = |shapes: [PatternShape; 2], pick: fn(f64, f64) -> f64| {
        let own = outcomes.iter().filter(|one| one.fabric.preset == "torus");
        let own = own.filter(|one| shapes.contains(&one.pattern.shape));
        own.map(|one| one.sample(COLORS)).reduce(|a, b| a.with(&b, pick))
    };
    let fit = of([Plane(240, 100), Cube(60, 20, 20)], f64::max)?;
    let others = of([Plane(154, 154), Cube(28, 28, 28)], f64::min)?;
    let ratio = fit.with(&others, |fit, others| fit / others);
    let what = "colors needed on the torus, most of 240x100 and 60x20x20 over least of 154x154 and 28x28x28";
    let published = Published::at_most("few against many", 0.5);
    let row = Comparison::new(what, "MR4LMS §4.3", published, ratio).printed("", 2);
    let row = row.within(Tolerance::Units(0.05)).note("the limit for 'few' is ours");
    Some(row.because("groups of a pattern that fits share as many switches as those of the others"))
}

/// "Where max EFI grows sharply, there are four processes on a processor."
fn grown(outcomes: &[Outcome]) -> Option<Claim> {
    let single = outcomes.iter().filter(|one| one.pattern.processes == 1);
    let ours = count(single, |one| one_if(MERGED_EFI(one) > 4.0 * EFI(one)))?;
    let what = "patterns of 30 with P=1 whose max EFI grows more than fourfold, recommended colors";
    let row = Comparison::new(what, "MR4LMS §4.5.1", Published::at_most("hardly any", 0.0), ours);
    Some(row.note("the limit for 'sharply' is ours").because(
        "3-D patterns of one process need more than twice the 256 colors of the random network as well, and have little \
         EFI without a limit",
    ))
}

fn loads(outcomes: &[Outcome]) -> Vec<Claim> {
    let log = |other: Figure| -> Option<Sample> {
        let each = outcomes
            .iter()
            .map(|one| one.sample(EFI).with(&one.sample(other), |ours, other| (ours / other).ln()));
        let sum = each.reduce(|a, b| a.with(&b, |a, b| a + b))?;
        Some(sum.with(&Sample::from(outcomes.len() as f64), |sum, count| (sum / count).exp()))
    };
    let sssp: Figure = |one| one.unlimited[2].max_efi();
    let mut claims = Vec::new();
    let worst = outcomes.iter().map(|one| one.sample(|one| EFI(one) / one.unlimited[2].max_efi()));
    let ratios = [
        (
            log(sssp),
            "max EFI, MR4LMS over SSSP-MC, geometric mean of 36 patterns",
            "by the paper's own rules ours was at 1.21: lookahead makes the difference",
        ),
        (
            most(worst),
            "max EFI, MR4LMS over SSSP-MC, worst of 36 patterns",
            "a pattern of few groups, where one group more on a link counts much",
        ),
    ];
    for (ours, what, because) in ratios {
        let published = Published::number("basically equal", 1.0);
        claims.extend(ours.map(|ours| {
            Comparison::new(what, "MR4LMS §4.4, figure 7", published, ours)
                .printed("", 2)
                .within(Tolerance::Percent(10.0))
                .because(because)
        }));
    }
    let lower = count(outcomes.iter(), |one| one_if(EFI(one) < one.unlimited[1].max_efi()));
    claims.extend(lower.map(|ours| {
        let what = "patterns of 36 in which MR4LMS has the lower max EFI than MINIHOP-MC";
        Comparison::new(
            what,
            "MR4LMS §4.4, figure 7",
            Published::at_least("most of them", 19.0),
            ours,
        )
        .higher_is_better()
        .because("on fabrics with full bisection MINIHOP-MC is as even on grids that fit")
    }));
    let below = count(outcomes.iter(), |one| one_if(MERGED_EFI(one) < 50.0));
    claims.extend(below.map(|ours| {
        let what = "patterns of 36 whose max EFI is below 50, recommended colors";
        Comparison::new(what, "MR4LMS §4.5.1", Published::at_least("most of them", 19.0), ours)
            .higher_is_better()
            .because("those of the random network that merge are above it")
    }));
    let cube =
        |one: &&Outcome| (one.fabric.preset, one.pattern.shape) == ("torus", Cube(28, 28, 28));
    claims.extend(outcomes.iter().find(cube).map(|one| {
        let ours = one.sample(|one| MERGED_EFI(one) / EFI(one));
        let what = "max EFI with 256 colors over without a limit, torus 28x28x28";
        Comparison::new(what, "MR4LMS §4.5.1", Published::at_most("below 1", 0.99), ours)
            .printed("", 2)
            .because("theirs fell because FBTC without a limit takes the first root; ours compares several. By the paper's own rules ours rose from 65 to 75")
    }));
    claims
}

/// Bluelight: "only 64x16x34 has to merge", 10 496 groups on taihulight.
fn merging(outcomes: &[Outcome]) -> Vec<Claim> {
    let blue = outcomes.iter().filter(|one| one.fabric.preset == "bluelight");
    let merged = count(blue, |one| one_if(one.recommended.figures.max_tfi > 1));
    let mut claims = Vec::new();
    claims.extend(merged.map(|ours| {
        let what = "patterns of 6 on bluelight that merge with 128 colors";
        Comparison::new(what, "MR4LMS §4.5.1", Published::number("1", 1.0), ours)
            .because("the size of the random groups is ours; they can need more colors than 128")
    }));
    claims
}

fn of_a_color(outcomes: &[Outcome]) -> Vec<Claim> {
    let counted = outcomes
        .iter()
        .find(|one| (one.fabric.preset, one.pattern.shape) == (COUNTED.0, COUNTED.1));
    let Some(counted) = counted else { return Vec::new() };
    let total: u32 = counted.of_colors.iter().map(|one| one.groups).sum();
    let crowded = counted.of_colors.iter().filter(|one| one.trees == 1 && one.groups > 1).count();
    let most = counted.of_colors.iter().map(|one| one.groups).max().unwrap_or(0);
    let mean = f64::from(total) / counted.of_colors.len().max(1) as f64;
    let name = counted.name();
    vec![
        Comparison::new(
            format!("groups, {name}"),
            "MR4LMS §4.5.2",
            Published::number("10 496", 10_496.0),
            f64::from(total),
        )
        .because("not all groups of the pattern have a tree"),
        Comparison::new(
            format!("colors whose groups all share one tree, {name}"),
            "MR4LMS §4.5.2, figure 11",
            Published::number("8", 8.0),
            crowded as f64,
        )
        .because("no tree of ours serves more than a few groups here, as the row of max TFI says"),
        Comparison::new(
            format!("groups of the fullest color over the mean, {name}"),
            "MR4LMS §4.5.2, figure 11",
            Published::range("fairly even", 1.0, 2.0),
            f64::from(most) / mean,
        )
        .printed("", 1)
        .note("the range for 'fairly' is ours")
        .because("color 0, which is tried first, has 1 280 groups that do not meet, as many as there are x-lines"),
    ]
}

/// Seconds of this machine beside seconds of the paper's, and what the recommended colors cost.
fn run_times(outcomes: &[Outcome]) -> Vec<Claim> {
    let longest = |processes: &dyn Fn(u32) -> bool, time: Figure| {
        let own = outcomes.iter().filter(|one| processes(one.pattern.processes));
        most(own.map(|one| one.times(time))).unwrap_or_else(|| Sample::from(0.0))
    };
    let either: Figure = |one| one.unlimited[0].took_s().max(one.recommended.took_s());
    let rows = [
        (
            "longest run, P=1",
            "40.6 s",
            longest(&|processes| processes == 1, either),
            "a 48-core server inside OpenSM against one core here",
        ),
        (
            "longest run, P=4, no limit",
            "48.0 s",
            longest(&|processes| processes == 4, |one| one.unlimited[0].took_s()),
            "OpenSM's data structures against ours, on other machines",
        ),
        (
            "longest run, P=4, recommended colors",
            "191.5 s",
            longest(&|processes| processes == 4, |one| one.recommended.took_s()),
            "other machines, and ours merges by another rule, which searches less",
        ),
    ];
    let clocked = rows.into_iter().map(|(what, published, ours, why)| {
        let print = |seconds: f64| format!("{seconds:.2} s");
        Claim::not_comparable(what, TIMES, published, print(ours.mean()), why).over(&ours, print)
    });
    clocked.chain(of_a_group(outcomes)).chain(with_few_colors(outcomes)).collect()
}

/// Time of a group on two kinds of fabrics.
fn of_a_group(outcomes: &[Outcome]) -> Vec<Claim> {
    let mut claims = Vec::new();
    let per_group: Figure =
        |one| one.unlimited[0].took_ms() / f64::from(one.unlimited[0].figures.groups.max(1));
    let kinds: [(&str, &str, &[&str], &str); 2] = [
        (
            "fat trees and dragonfly",
            "about 5 ms",
            &["bluelight", "taihulight", "fat-tree", "dragonfly"],
            "the paper's is of 48 cores with threads, ours of one",
        ),
        (
            "torus and random network",
            "about 9 ms",
            &["torus", "random"],
            "the paper's searches breadth-first with threads for each color, ours keeps what is free of every color",
        ),
    ];
    for (kind, published, presets, why) in kinds {
        let own: Vec<Sample> = outcomes
            .iter()
            .filter(|one| presets.contains(&one.fabric.preset))
            .map(|one| one.times(per_group))
            .collect();
        let count = Sample::from(own.len() as f64);
        let sum = own.into_iter().reduce(|a, b| a.with(&b, |a, b| a + b));
        claims.extend(sum.map(|sum| {
            let mean = sum.with(&count, |sum, count| sum / count);
            let what = format!("run time for each group, {kind}");
            let print = |ms: f64| format!("{ms:.2} ms");
            Claim::not_comparable(what, TIMES, published, print(mean.mean()), why)
                .over(&mean, print)
        }));
    }
    claims
}

/// Run time with the recommended colors.
fn with_few_colors(outcomes: &[Outcome]) -> Option<Claim> {
    let ratio: fn(&Measured) -> f64 =
        |one| one.recommended.took_s() / one.unlimited[0].took_s().max(1e-9);
    let slowest = outcomes.iter().map(|one| (one.times(ratio), one));
    let slowest = slowest.max_by(|a, b| a.0.mean().total_cmp(&b.0.mean()));
    slowest.map(|(ours, one)| {
        let what = "largest run time with the recommended colors over that without a limit";
        Comparison::new(what, TIMES, Published::at_most("at most 3", 3.0), ours)
            .printed("", 1)
            .within(Tolerance::Percent(10.0))
            .note(format!("of {}; times of this machine", one.name()))
            .because(
                "merging is a search of its own, and without a limit ours is quick: it needs none",
            )
    })
}

/// "MINIHOP-MC is fast, SSSP-MC slow", all patterns together.
fn baselines(outcomes: &[Outcome]) -> Option<Claim> {
    let sum = |time: Figure| {
        let each = outcomes.iter().map(|one| one.times(time));
        each.reduce(|a, b| a.with(&b, |a, b| a + b))
    };
    let minhop = sum(|one| one.unlimited[1].took_s())?;
    let sssp = sum(|one| one.unlimited[2].took_s())?;
    let ours = sssp.with(&minhop, |sssp, minhop| sssp / minhop.max(1e-9));
    let what = "run time, SSSP-MC over MINIHOP-MC, all patterns together";
    let row = Comparison::new(what, "MR4LMS §1", Published::at_least("above 1", 1.0), ours);
    let row = row.printed("", 1).higher_is_better();
    Some(row.because("ours of MINIHOP-MC walks its table for every member"))
}
