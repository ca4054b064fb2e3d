//! §6.1.2: trees on a pruned fat tree with noise.

use super::super::figures::Found;
use super::super::parameters::MOST;
use super::super::timing::Kind;
use crate::claim::{Claim, Comparison, Published, Tolerance};
use crate::sample::Sample;

const SOURCE: &str = "aggregation trees §6.1.2, table 4";
/// The two parameters that are fitted to the first row of table 4, anew for every hardware.
const HELD: &str = "the time a packet holds a noisy link";
const RATE: &str = "the rate that noise leaves of a link";

pub(super) fn claims(found: &Found) -> Vec<Claim> {
    let mut claims = Vec::new();
    claims.extend(followed(found));
    claims.extend(simulated(found));
    claims.extend(growth(found));
    claims
}

fn percent(what: String, published: f64, ours: Sample) -> Comparison {
    let ours = ours.with(&Sample::from(100.0), |share, by| share * by);
    Comparison::new(what, SOURCE, Published::number(format!("{published} %"), published), ours)
        .printed(" %", 0)
        .higher_is_better()
        .within(Tolerance::Units(5.0))
}

/// Names the parameter that was fitted by this row, or by another one.
fn name_fitted(row: Comparison, parameter: &str, by_this: bool) -> Comparison {
    if by_this { row.fitted(parameter) } else { row.note(format!("input fitted: {parameter}")) }
}

/// Packets that hold a link each in turn.
fn followed(found: &Found) -> Vec<Claim> {
    let rows = [
        (Kind::Nomial, 64, 32.0, true, "the fit ends between two counts of packets"),
        (
            Kind::Nomial,
            MOST,
            24.0,
            false,
            "31 packets of the hierarchical tree hold the root's link in turn for as long as fitted at 64 processes; \
          published times grow less than that",
        ),
        (
            Kind::Ary,
            MOST,
            89.0,
            false,
            "the published number is the most over all numbers of processes and both other trees",
        ),
    ];
    let each = rows.into_iter().filter_map(|(than, processes, published, fitted, reason)| {
        let ours = found.noisy.lower(than, processes)?;
        let what = format!(
            "hierarchical lower than {} with noise, {processes} processes, packets in turn",
            than.name()
        );
        let row = percent(what, published, Sample::from(ours));
        Some(name_fitted(row, HELD, fitted).because(reason))
    });
    each.collect()
}

/// The rate that noise leaves, on the packet-level simulator.
fn simulated(found: &Found) -> Vec<Claim> {
    let rows = [
        (Kind::Nomial, 64, 32.0, true, "the rate is fitted in whole picoseconds a byte"),
        (
            Kind::Nomial,
            MOST,
            24.0,
            false,
            "31 packets of the hierarchical tree cross the root's link at the rate fitted at 64 processes; published times \
             grow less than that, whatever the rate",
        ),
        (
            Kind::Ary,
            MOST,
            89.0,
            false,
            "496 packets of the 32-ary tree cross the root's link one after the other. Published is the most over all \
             numbers of processes and both other trees",
        ),
    ];
    let each = rows.into_iter().filter_map(|(than, processes, published, fitted, reason)| {
        let ours = found.simulated.lower(than, processes)?;
        let what = format!(
            "hierarchical lower than {} with noise, {processes} processes, simulated",
            than.name()
        );
        let row = percent(what, published, ours.into());
        Some(name_fitted(row, RATE, fitted).because(reason))
    });
    let mut claims: Vec<Claim> = each.collect();
    let what = "hierarchical lower than 32-nomial with noise, 64 processes, simulated with a fifth of our own links left";
    claims.push(
        percent(what.to_owned(), 32.0, found.simulated.lower_with_a_fifth.into())
            .because("our links of 10 GB/s are faster than what the fit of the same row asks for"),
    );
    claims
}

/// "32-ary grows most with noise, hierarchical least."
fn growth(found: &Found) -> Vec<Claim> {
    let grown = |kind| {
        let time = found.simulated.time(kind, MOST)?;
        Some(time.noisy_us / time.idle_us)
    };
    let [Some(ary), Some(nomial), Some(ours)] = Kind::ALL.map(grown) else { return Vec::new() };
    let row = |what: &str, ours: f64, reason: &str| {
        let published = Published::at_least("more", 1.01);
        let row = Comparison::new(what, "aggregation trees §6.1.2, figure 15", published, ours);
        let row = row.printed("x", 2).higher_is_better();
        name_fitted(row, RATE, false).because(reason)
    };
    vec![
        row(
            "growth by noise, 32-ary over 32-nomial, 512 processes, simulated",
            ary / nomial,
            "both send 31 packets or more into the root's switch",
        ),
        row(
            "growth by noise, 32-nomial over hierarchical, 512 processes, simulated",
            nomial / ours,
            "31 packets of both cross the root's link one after the other, and the hierarchical tree's idle time is the lower one",
        ),
    ]
}
