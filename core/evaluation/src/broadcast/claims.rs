//! The published means of PEEL's sample, beside ours.

use super::Outcome;
use super::jobs::Placement;
use super::scheme::Scheme;
use crate::claim::{Claim, Comparison, NotCompared, Published, Tolerance};
use crate::sample::Sample;

const SOURCE: &str = "PEEL, published sample";

/// Sets the published means, as factors of the optimal one, beside ours; and our goal.
pub(super) fn claims(outcomes: &[Outcome]) -> Vec<Claim> {
    let of = |scheme, placement, at_once| {
        let is_it = |one: &&Outcome| {
            (one.scheme, one.placement, one.at_once) == (scheme, placement, at_once)
        };
        outcomes.iter().find(is_it)
    };
    let factor = |scheme, placement, at_once| -> Option<Sample> {
        let optimal = of(Scheme::Optimal, placement, at_once)?;
        let ours = of(scheme, placement, at_once)?;
        if ours.deadlocks > 0 {
            return Some(f64::INFINITY.into()); // a broadcast that never ends
        }
        Some(ours.mean_us.with(&optimal.mean_us, |ours, optimal| ours / optimal))
    };
    let mut claims = Vec::new();
    claims.extend(of(Scheme::Optimal, Placement::Leaves, 1).map(|one| {
        Claim::not_comparable(
            "optimal multicast, one job alone",
            SOURCE,
            "0.17 ms",
            format!("{:.3} ms", one.mean_us.mean() / 1e3),
            "theirs raises its rate by DCQCN, ours sends at the rate of the link and is held back by credit",
        )
    }));
    let rows = [
        (
            Scheme::PeelExact,
            0.27,
            "exact prefixes of leaf switches drawn by chance need several copies; the placement of the \
                                    published sample is not in its text",
        ),
        (
            Scheme::PeelOne,
            0.27,
            "one prefix costs nothing while nobody else sends: what it wastes are links that are idle",
        ),
        (
            Scheme::Elmo,
            0.72,
            "the published one waits 0.2 ms for a controller, which ours does not; what is left is two rails \
                              by one spine switch",
        ),
        (
            Scheme::Ring,
            1.40,
            "7 hops of whole messages between servers; what DCQCN adds to each published hop is not in ours",
        ),
        (
            Scheme::BinaryTree,
            4.76,
            "3 levels of at most 2 messages between servers; how the published tree's edges share ports is not described",
        ),
    ];
    for (scheme, published, reason) in rows {
        claims.extend(factor(scheme, Placement::Leaves, 1).map(|ours| {
            let what = format!("{}, mean over optimal, one job alone", scheme.name());
            let text = format!("{:.1} ({published} ms)", published / 0.17);
            let row =
                Comparison::new(what, SOURCE, Published::number(text, published / 0.17), ours);
            row.printed("", 2).within(Tolerance::Percent(20.0)).because(reason)
        }));
    }
    claims.extend(goal(&factor));
    claims
}

/// Our tables stay within a tenth of the optimal time.
fn goal(factor: &dyn Fn(Scheme, Placement, u32) -> Option<Sample>) -> Vec<Claim> {
    let mut claims = Vec::new();
    let ours = Scheme::ALL.into_iter().filter(|scheme| matches!(scheme, Scheme::Ours { .. }));
    for scheme in ours {
        for placement in Placement::ALL {
            for at_once in super::AT_ONCE {
                claims.extend(factor(scheme, placement, at_once).map(|ours| {
                    let is_endless = ours.mean().is_infinite();
                    let (name, place) = (scheme.name(), placement.name());
                    let what = format!("{name}, mean over optimal, {place}, {at_once} at once");
                    let published = Published::at_most("at most 1.1, our goal", 1.1);
                    let row = Comparison::new(what, "ours", published, ours);
                    let why = if is_endless {
                        "with some seeds packets wait for each other in a circle: trees of merged groups go down to a \
                         leaf switch and up again"
                    } else {
                        "each flow has one tree, and trees meet on links that spraying evens out; groups that share a \
                         tree get each other's packets"
                    };
                    let row = row.printed("", 2).within(Tolerance::Units(0.05));
                    row.because(format!("{why} ({name}; {at_once} jobs on {place})"))
                }));
            }
        }
    }
    claims
}

/// Statements that have no row.
pub(super) const NOT_COMPARED: [NotCompared; 4] = [
    NotCompared {
        what: "Orca: 0.80 ms",
        source: SOURCE,
        why: "its agents at the leaf switches are servers that send on by unicast, whose cost in the published sample is \
              a delay drawn by chance",
    },
    NotCompared {
        what: "Loads of 30, 50 and 70 %, all-gather, all-reduce, traces, fat trees",
        source: "PEEL, published simulation",
        why: "they take days there; of ours 8 jobs at once stand for load",
    },
    NotCompared {
        what: "Drops and recovery, DCQCN",
        source: "PEEL, published simulation",
        why: "our simulator is lossless by credit and has no rate control",
    },
    NotCompared {
        what: "State of a switch falls from exponential to linear",
        source: "PEEL, HotNets 2025",
        why: "it is arithmetic: 63 prefixes of 32 leaf switches; the table has it beside ours",
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim;

    #[test]
    fn no_row_of_any_outcome_differs_without_a_reason_of_its_own() {
        let each = Scheme::ALL.into_iter().zip(1u32..).flat_map(|(scheme, place)| {
            Placement::ALL.into_iter().flat_map(move |placement| {
                super::super::AT_ONCE.map(move |at_once| {
                    let sample = Sample::from(vec![f64::from(place); 2]);
                    Outcome {
                        scheme,
                        placement,
                        at_once,
                        deadlocks: usize::from(at_once == 8),
                        mean_us: sample.clone(),
                        traffic: sample.clone(),
                        header_bytes: sample.clone(),
                        entries: sample,
                    }
                })
            })
        });
        let claims = claims(&each.collect::<Vec<_>>());
        assert_eq!(claims.len(), 22);
        assert_eq!(claim::faults(&claims), Vec::<String>::new());
    }
}
