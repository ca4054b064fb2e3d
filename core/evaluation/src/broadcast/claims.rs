//! The published means of PEEL's sample, beside ours.

use fabricast_routing::EngineKind;

use super::jobs::Placement;
use super::scheme::{ENTRIES, Scheme};
use super::{AT_ONCE, Outcome, RAILS, SPINES};
use crate::claim::{Claim, Comparison, NotCompared, Published, Tolerance};
use crate::sample::Sample;

const SOURCE: &str = "PEEL, published sample";

struct Found<'a>(&'a [Outcome]);

impl Found<'_> {
    fn of(&self, scheme: Scheme, placement: Placement, at_once: u32) -> Option<&Outcome> {
        let is_it = |one: &&Outcome| {
            (one.scheme, one.placement, one.at_once) == (scheme, placement, at_once)
        };
        self.0.iter().find(is_it)
    }

    /// Returns the mean time over that of the optimal scheme.
    fn factor(&self, one: &Outcome) -> Option<Sample> {
        let optimal = self.of(Scheme::Optimal, one.placement, one.at_once)?;
        if one.deadlocks > 0 {
            return Some(f64::INFINITY.into()); // a broadcast that never ends
        }
        Some(one.mean_us.with(&optimal.mean_us, |ours, optimal| ours / optimal))
    }
}

/// Sets the published means, as factors of the optimal one, beside ours; and our goal.
pub(super) fn claims(outcomes: &[Outcome]) -> Vec<Claim> {
    let found = Found(outcomes);
    let mut claims = Vec::new();
    claims.extend(found.of(Scheme::Optimal, Placement::Leaves, 1).map(|one| {
        Claim::not_comparable(
            "optimal multicast, one job alone",
            SOURCE,
            "0.17 ms",
            format!("{:.3} ms", one.mean_us.mean() / 1e3),
            "theirs raises its rate by DCQCN, ours sends at the rate of the link and is held back by credit",
        )
    }));
    claims.extend(rivals(&found));
    claims.extend(goal(&found));
    claims.extend(against_ring(&found));
    claims
}

/// Sets the published factors of other schemes beside ours.
fn rivals(found: &Found<'_>) -> Vec<Claim> {
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
    let each = rows.into_iter().filter_map(|(scheme, published, reason)| {
        let ours = found.factor(found.of(scheme, Placement::Leaves, 1)?)?;
        let what = format!("{}, mean over optimal, one job alone", scheme.name());
        let text = format!("{:.1} ({published} ms)", published / 0.17);
        let row = Comparison::new(what, SOURCE, Published::number(text, published / 0.17), ours);
        Some(row.printed("", 2).within(Tolerance::Percent(20.0)).because(reason))
    });
    each.collect()
}

/// Our tables stay within a tenth of the optimal time.
fn goal(found: &Found<'_>) -> Vec<Claim> {
    let mut claims = Vec::new();
    let ours = Scheme::ALL.into_iter().filter(|scheme| matches!(scheme, Scheme::Ours { .. }));
    for scheme in ours {
        for placement in Placement::ALL {
            for at_once in AT_ONCE {
                let Some(one) = found.of(scheme, placement, at_once) else { continue };
                let optimal = found.of(Scheme::Optimal, placement, at_once);
                let Some((ours, optimal)) = found.factor(one).zip(optimal) else { continue };
                let alone = found.of(scheme, placement, 1).and_then(|one| found.factor(one));
                let (name, place) = (scheme.name(), placement.name());
                let what = format!("{name}, mean over optimal, {place}, {at_once} at once");
                let published = Published::at_most("at most 1.1, our goal", 1.1);
                let row = Comparison::new(what, "ours", published, ours);
                let row = row.printed("", 2).within(Tolerance::Units(0.05));
                claims.push(row.because(reason(one, optimal, alone.as_ref())));
            }
        }
    }
    claims
}

/// Our tables beside a ring, which needs none and takes 1.4 times as long as the optimal scheme:
/// more than our goal.
fn against_ring(found: &Found<'_>) -> Vec<Claim> {
    let mut claims = Vec::new();
    let ours = Scheme::ALL.into_iter().filter(|scheme| matches!(scheme, Scheme::Ours { .. }));
    for scheme in ours {
        for placement in Placement::ALL {
            let of = |scheme| found.of(scheme, placement, AT_ONCE[1]);
            let Some((one, ring)) = of(scheme).zip(of(Scheme::RingInChunks)) else { continue };
            let (name, place) = (scheme.name(), placement.name());
            let what = format!("{name}, mean over {}, {place}, 8 at once", ring.scheme.name());
            let published = Published::at_most("at most 1, as our goal demands", 1.0);
            let ratio = match one.deadlocks {
                0 => one.mean_us.with(&ring.mean_us, |ours, ring| ours / ring),
                _ => f64::INFINITY.into(), // a broadcast that never ends
            };
            let row = Comparison::new(what, "ours", published, ratio).printed("", 2);
            let [ours_us, ring_us] = [one, ring].map(|one| one.mean_us.mean());
            claims.push(row.because(format!(
                "{}: {ours_us:.0} us on {place} against {ring_us:.0} us of the ring, whose servers send to the next one only",
                sharing(scheme)
            )));
        }
    }
    claims
}

/// Reason why a broadcast by our tables takes longer than the optimal one: as far as its own
/// figures say.
///
/// - `alone`: its time over the optimal one while no other job sends.
fn reason(one: &Outcome, optimal: &Outcome, alone: Option<&Sample>) -> String {
    let (sharing, place) = (sharing(one.scheme), one.placement.name());
    if one.deadlocks > 0 {
        return format!(
            "with {} seeds packets of {} jobs on {place} wait for each other in a circle: trees of merged groups go \
             down to a leaf switch and up again ({sharing})",
            one.deadlocks, one.at_once
        );
    }
    let [carried, least] = [one, optimal].map(|one| one.traffic.mean());
    let bytes = format!(
        "links between switches carry {carried:.1} messages, {least:.1} of the optimal scheme"
    );
    if one.at_once == 1 {
        return format!(
            "nobody else sends, so that only rails of the job meet, on {place}: two by one spine switch, or at a port to \
             which a shared tree leads besides; {sharing}: {bytes}"
        );
    }
    if one.placement == Placement::Leaves {
        let alone = alone.map_or(0.0, Sample::mean);
        return format!(
            "packets for others: no two of these jobs have a leaf switch in common, and one alone takes {alone:.2} times the \
             optimal time; {sharing}, {bytes} in the mean, and a broadcast waits for the fullest link"
        );
    }
    let rails = format!("the {RAILS} rails of each of up to two jobs on a leaf switch");
    let extra = carried / least.max(1e-9);
    let rest = one.mean_us.mean() / optimal.mean_us.mean().max(1e-9) / extra;
    if extra > rest {
        format!(
            "mostly packets for others: {sharing}, and {bytes}; besides, {rails} have one spine switch each, where the \
             optimal scheme has all {SPINES} in turn"
        )
    } else {
        format!(
            "mostly trees that meet: {rails} have one spine switch each, where the optimal scheme has all {SPINES} in \
             turn; packets for others add less: {sharing}, and {bytes}"
        )
    }
}

/// Groups that share trees with one scheme of ours.
fn sharing(scheme: Scheme) -> String {
    match scheme {
        Scheme::Ours { engine, programmed } if engine == EngineKind::CMr4lmsFixed => {
            let groups = programmed * RAILS;
            format!(
                "{groups} groups share {} spanning trees by their MGIDs",
                u32::from(ENTRIES) * SPINES
            )
        }
        Scheme::Ours { engine, programmed } => {
            format!(
                "{engine} merges {} groups into tables of {ENTRIES} entries",
                programmed * RAILS
            )
        }
        Scheme::Optimal
        | Scheme::PeelExact
        | Scheme::PeelOne
        | Scheme::Elmo
        | Scheme::Ring
        | Scheme::RingInChunks
        | Scheme::BinaryTree => "no groups share a tree".to_owned(),
    }
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
    use crate::claim::{self, Verdict};

    #[test]
    fn no_row_of_any_outcome_differs_without_a_reason_of_its_own() {
        let each = Scheme::ALL.into_iter().zip(1u32..).flat_map(|(scheme, place)| {
            Placement::ALL.into_iter().flat_map(move |placement| {
                AT_ONCE.map(move |at_once| {
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
        assert_eq!(claims.len(), 30);
        assert_eq!(claim::faults(&claims), Vec::<String>::new());
    }

    /// Eight jobs on whole leaf switches.
    fn outcome(scheme: Scheme, us: f64, messages: f64) -> Outcome {
        let [mean_us, traffic] = [us, messages].map(|value| Sample::from(vec![value; 2]));
        Outcome {
            scheme,
            placement: Placement::Leaves,
            at_once: 8,
            deadlocks: 0,
            mean_us,
            header_bytes: traffic.clone(),
            entries: traffic.clone(),
            traffic,
        }
    }

    #[test]
    fn a_ring_that_is_faster_makes_a_row_worse_that_names_both_times() {
        let row = |us| {
            let outcomes =
                [outcome(Scheme::ALL[1], us, 20.0), outcome(Scheme::RingInChunks, 128.0, 6.0)];
            against_ring(&Found(&outcomes)).remove(0)
        };
        assert_eq!(row(128.0).verdict, Verdict::Same);
        let slower = row(256.0);
        assert_eq!((slower.verdict, slower.ours.as_str()), (Verdict::Worse, "2.00"));
        let times = "256 us on whole leaf switches against 128 us of the ring";
        assert!(slower.why.contains(times), "{}", slower.why);
    }

    #[test]
    fn a_reason_says_what_costs_more_and_names_its_own_figures() {
        let (ours, optimal) = (Scheme::ALL[1], outcome(Scheme::Optimal, 90.0, 5.0));
        let on_servers = |us, messages| {
            let one = outcome(ours, us, messages);
            reason(&Outcome { placement: Placement::Servers, ..one }, &optimal, None)
        };
        let crowded = on_servers(540.0, 20.0);
        let expected = "mostly packets for others: 2048 groups share 512 spanning trees";
        assert!(crowded.starts_with(expected), "{crowded}");
        let met = on_servers(270.0, 6.0);
        assert!(met.starts_with("mostly trees that meet: the 8 rails of each"), "{met}");
        let figures = "links between switches carry 6.0 messages, 5.0 of the optimal scheme";
        assert!(met.ends_with(figures), "{met}");
    }

    /// Trees of jobs on leaf switches of their own meet only where packets are for others.
    #[test]
    fn jobs_without_a_common_leaf_switch_wait_for_packets_for_others_alone() {
        let (ours, optimal) = (Scheme::ALL[1], outcome(Scheme::Optimal, 90.0, 5.0));
        let one = outcome(ours, 270.0, 6.0);
        let text = reason(&one, &optimal, Some(&Sample::from(vec![1.0; 2])));
        assert!(text.starts_with("packets for others: no two of these jobs"), "{text}");
        assert!(text.contains("one alone takes 1.00 times the optimal time"), "{text}");
    }
}
