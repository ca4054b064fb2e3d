//! §6.2.2: entries that communicators take, and creations that fail.

use super::super::entries::{ENTRIES, Outcome};
use crate::claim::{Claim, Comparison, Law, Published, Tolerance};
use crate::sample::Sample;

/// Rows of the fabrics that may be the paper's, and what orders by chance give on those and on
/// `others`, which are not.
pub(super) fn claims(outcomes: &[Outcome], others: &[Outcome]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for of_fabric in outcomes.chunk_by(|a, b| a.fabric == b.fabric) {
        let fabric = of_fabric[0].fabric;
        claims.extend(saved(fabric, of_fabric));
        claims.extend(failed(fabric, of_fabric));
        claims.extend(single(fabric, of_fabric));
    }
    let all = [outcomes, others].concat();
    claims.extend(all.chunk_by(|a, b| a.fabric == b.fabric).filter_map(by_chance));
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

/// The same in orders by chance, fabric by fabric: what the text leaves open.
fn by_chance(of_fabric: &[Outcome]) -> Option<Claim> {
    let fabric = of_fabric.first()?.fabric;
    let ours = fold(of_fabric.iter().map(Outcome::failed_by_chance), f64::max)?;
    let (least, most) = (ours.least(), ours.most());
    let what = format!(
        "creations failed, plain trees, most over the patterns, {ENTRIES} entries, orders by chance, {fabric} fabric"
    );
    let published = Published::number("74.51 %", 74.51);
    let row = Comparison::new(what, "aggregation trees §6.2.2, figure 20", published, ours);
    let row = row.printed(" %", 2).higher_is_better().within(Tolerance::Units(5.0));
    Some(row.because(format!(
        "neither the order of creation is published nor the wiring: {least:.2} to {most:.2} % fail on the {fabric} fabric. \
         'Worse' means that minimum trees save less here, 'better' that they save more"
    )))
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

#[cfg(test)]
mod tests {
    use fabricast_collectives::Survey;

    use super::*;
    use crate::claim::{self, Verdict};

    /// Of 100 creations of each seed so many fail in an order by chance.
    fn outcome(fabric: &'static str, failed: [u32; 2]) -> Outcome {
        let survey = |failures| Survey { groups: 100, failures, entries: 1, fullest: 1 };
        Outcome {
            fabric,
            pattern: "16x16".to_owned(),
            endless: Vec::new(),
            limited: Vec::new(),
            by_chance: failed.map(survey).to_vec(),
            fewer: Vec::new(),
        }
    }

    #[test]
    fn every_fabric_has_a_row_of_its_own_orders() {
        let own = [outcome("pruned", [50, 40]), outcome("pruned", [10, 44])];
        let others = [outcome("bluelight", [80, 81])];
        let all = claims(&own, &others);
        let rows = all.iter().filter(|claim| claim.what.contains("orders by chance"));
        let rows: Vec<&Claim> = rows.collect();
        let found: Vec<[&str; 2]> = rows.iter().map(|row| [&*row.ours, &*row.spread]).collect();
        let expected = [["47.00 %", "2: 44.00 % to 50.00 %"], ["80.50 %", "2: 80.00 % to 81.00 %"]];
        assert_eq!(found, expected);
        assert_eq!([rows[0].verdict, rows[1].verdict], [Verdict::Worse, Verdict::Better]);
        assert_eq!(claim::faults(&all), Vec::<String>::new());
    }
}
