//! The published factor beside ours.

use super::gather::Scheme;
use super::{Counted, Size};
use crate::claim::{Claim, Comparison, Law, NotCompared, Published, Tolerance};
use crate::sample::Sample;

const SOURCE: &str = "arXiv 2408.13356, abstract";

fn of(outcomes: &[Counted], scheme: Scheme) -> Option<&Counted> {
    outcomes.iter().find(|one| one.scheme == scheme)
}

/// Sets the published factor beside those of every scheme that sends from node to node.
pub(super) fn claims(size: Size, outcomes: &[Counted]) -> Vec<Claim> {
    let Some(multicast) = of(outcomes, Scheme::Multicast).map(Counted::all) else {
        return Vec::new();
    };
    let rows = [
        (Scheme::RingInOrder, "a ring in order leaves each leaf switch once"),
        (
            Scheme::RingByChance,
            "most steps of a ring by chance cross the spine switches; ranks in the order of the wiring give the row above",
        ),
        (
            Scheme::Direct,
            "most messages cross the spine switches; the abstract does not say which all-gather its factor is of",
        ),
    ];
    let each = rows.into_iter().filter_map(|(scheme, reason)| {
        let ours: Sample = of(outcomes, scheme)?.all().with(&multicast, |all, by| all / by);
        let what =
            format!("bytes on all links, {} over multicast, {} nodes", scheme.name(), size.nodes);
        let row = Comparison::new(what, SOURCE, Published::number("2x", 2.0), ours);
        let row = row.printed("x", 2).higher_is_better().within(Tolerance::Percent(10.0));
        Some(row.because(reason))
    });
    each.collect()
}

/// Lists what no scheme can change.
pub(super) fn laws(size: Size, outcomes: &[Counted]) -> Vec<Law> {
    let expected = f64::from(size.nodes) * f64::from(size.nodes - 1);
    let each = outcomes.iter().map(|one| {
        let received = one.sample(|one| one.to_nodes);
        let holds = received.values().iter().all(|blocks| (blocks - expected).abs() < 1e-6);
        Law {
            what: format!("blocks that nodes receive, {}", one.scheme.name()),
            source: SOURCE.to_owned(),
            demanded: format!("{expected}, from each node one for each other"),
            found: received.mean().to_string(),
            holds,
        }
    });
    each.collect()
}

/// Statements that have no row.
pub(super) const NOT_COMPARED: [NotCompared; 2] = [
    NotCompared {
        what: "Constant-time reliable broadcast, adapters that run the protocol, links of 1.6 Tbit/s",
        source: SOURCE,
        why: "the simulator's links lose nothing, and its adapters take no time for a packet",
    },
    NotCompared {
        what: "All-gather beside reduce-scatter that competes for the links",
        source: SOURCE,
        why: "the abstract gives no number",
    },
];
