//! §6.2.2: entries that communicators take, and creations that fail.

use super::super::entries::{ENTRIES, Outcome};
use crate::claim::{Claim, Comparison, Law, Published, Tolerance};
use crate::sample::Sample;

pub(super) fn claims(outcomes: &[Outcome]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for of_fabric in outcomes.chunk_by(|a, b| a.fabric == b.fabric) {
        let fabric = of_fabric[0].fabric;
        claims.extend(saved(fabric, of_fabric));
        claims.extend(failed(fabric, of_fabric));
        claims.extend(single(fabric, of_fabric));
    }
    claims.extend(by_chance(outcomes));
    claims
}

fn fold(samples: impl Iterator<Item = Sample>, pick: fn(f64, f64) -> f64) -> Option<Sample> {
    samples.reduce(|a, b| a.with(&b, pick))
}

fn percent(share: f64) -> f64 {
    100.0 * share
}

fn saved(fabric: &str, of_fabric: &[Outcome]) -> Option<Claim> {
    let least = fold(of_fabric.iter().map(Outcome::saved), f64::min)?;
    let least = least.with(&Sample::from(100.0), |share, by| share * by);
    let what = format!("fewer entries, least over the patterns, {fabric} fabric");
    let source = "aggregation trees §6.2.2, figure 19";
    let row = Comparison::new(what, source, Published::at_least("at least 90 %", 90.0), least);
    let row = row.printed(" %", 1).higher_is_better().within(Tolerance::Units(1.0));
    Some(row.because(format!(
        "communicators that stay in a few leaf switches of the {fabric} fabric have little to save"
    )))
}

fn failed(fabric: &str, of_fabric: &[Outcome]) -> Vec<Claim> {
    let source = "aggregation trees §6.2.2, figure 20";
    let minimum = of_fabric
        .iter()
        .map(|one| one.sample(one.limited.iter().map(|both| percent(both.minimum.failure_rate()))));
    let plain = of_fabric
        .iter()
        .map(|one| one.sample(one.limited.iter().map(|both| percent(both.plain.failure_rate()))));
    let mut claims = Vec::new();
    claims.extend(fold(minimum, f64::max).map(|ours| {
        let what = format!("creations failed, minimum trees, {ENTRIES} entries, {fabric} fabric");
        let row = Comparison::new(what, source, Published::number("0 %", 0.0), ours);
        row.printed(" %", 2).because(format!(
            "the roots of the {fabric} fabric have no entry free for some of them"
        ))
    }));
    claims.extend(fold(plain, f64::max).map(|ours| {
        let what = format!("creations failed, plain trees, most over the patterns, {ENTRIES} entries, {fabric} fabric");
        let published = Published::number("74.51 %", 74.51);
        let row = Comparison::new(what, source, published, ours).printed(" %", 2).higher_is_better().within(Tolerance::Units(5.0));
        row.because(format!(
            "how the machine's upper levels are wired and how many random communicators there are is not published; \
             the {fabric} fabric is one of two readings. 'Worse' means that minimum trees save less here"
        ))
    }));
    claims
}

/// The same over orders and fabrics together: what the text leaves open.
fn by_chance(outcomes: &[Outcome]) -> Option<Claim> {
    let fabrics = outcomes.chunk_by(|a, b| a.fabric == b.fabric);
    let most =
        |of_fabric: &[Outcome]| fold(of_fabric.iter().map(Outcome::failed_by_chance), f64::max);
    let all: Sample =
        fabrics.filter_map(most).flat_map(|sample| sample.values().to_vec()).collect();
    let what = format!(
        "creations failed, plain trees, most over the patterns, {ENTRIES} entries, all orders by chance and fabrics"
    );
    let published = Published::number("74.51 %", 74.51);
    let row = Comparison::new(what, "aggregation trees §6.2.2, figure 20", published, all);
    let row = row.printed(" %", 2).higher_is_better().within(Tolerance::Units(5.0));
    (!outcomes.is_empty()).then(|| {
        row.because(
            "the order of creation is not published either: by chance more fail on the pruned fabric, and fewer on the \
             wide one. The pruned fat tree below directors, which has a table of its own, comes near. 'Worse' as in the \
             rows of each fabric",
        )
    })
}

/// "In some patterns every communicator takes one entry."
fn single(fabric: &str, of_fabric: &[Outcome]) -> Option<Claim> {
    let each = of_fabric.iter().map(|one| {
        one.sample(one.endless.iter().map(|both| {
            f64::from(u8::from(both.minimum.entries == u64::from(both.minimum.groups)))
        }))
    });
    let ours = fold(each, |a, b| a + b)?;
    let what = format!("patterns in which every communicator takes one entry, {fabric} fabric");
    let source = "aggregation trees §6.2.2, figure 19";
    let row =
        Comparison::new(what, source, Published::at_least("some", 1.0), ours).higher_is_better();
    Some(row.because(format!(
        "every pattern on the {fabric} fabric has a communicator of more than 64 processes"
    )))
}

/// With fewer entries minimum trees fail no more often than plain ones.
pub(super) fn laws(outcomes: &[Outcome]) -> Vec<Law> {
    let each = outcomes.iter().map(|one| {
        let worse = one
            .fewer
            .iter()
            .flatten()
            .filter(|both| both.minimum.failure_rate() > both.plain.failure_rate());
        let worse = worse.count();
        Law {
            what: format!(
                "minimum trees fail more often than plain ones with 1 to 8 entries, {} {}",
                one.fabric, one.pattern
            ),
            source: "aggregation trees §6.2.2".to_owned(),
            demanded: "never".to_owned(),
            found: if worse == 0 { "never".to_owned() } else { format!("{worse} times") },
            holds: worse == 0,
        }
    });
    each.collect()
}
