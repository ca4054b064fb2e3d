//! The statements in the texts of MR4LMS §2.2 and C-MR4LMS §4.4, beside ours.

use super::collectives::{DYNAMIC, FIXED, GLOBAL, MR4LMS, OPERATIONS, PATTERNS, TWO_TREES, Timed};
use super::figures::{Found, base};
use super::trees::Measured;
use crate::claim::{CALIBRATED, Claim, Comparison, Law, NotCompared, Published, Tolerance};
use crate::routing::Way;
use crate::sample::Sample;

const COLLECTIVES: &str = "C-MR4LMS §4.4";
/// Note of all rows while the hardware is ours.
const INPUTS: &str = "inputs fitted: times of hosts, adapters and processes";

/// Sets the statements of the texts beside ours; `is_fitted` if the hardware is ours.
pub(super) fn claims(found: &Found, is_fitted: bool) -> Vec<Claim> {
    let fit = |row: Comparison, parameter: Option<&str>| match parameter {
        Some(parameter) if is_fitted => row.fitted(parameter),
        Some(_) | None => row,
    };
    let mut of_grids = against_global(found, fit);
    of_grids.extend(others_against_global(found));
    of_grids.extend(against_mr4lms(found));
    of_grids.extend(spreads(found));
    of_grids.extend(two_trees(found));
    let of_grids = of_grids.into_iter().map(|claim| claim.with_inputs(CALIBRATED));
    let claims = messages(found, fit).into_iter().chain(of_grids);
    let with_inputs = |claim: Claim| if is_fitted { claim.with_inputs(INPUTS) } else { claim };
    claims.map(with_inputs).collect()
}

/// Statements that have no row.
pub(super) const NOT_COMPARED: [NotCompared; 6] = [
    NotCompared {
        what: "Medians of table 1 and the violins of figures 11 and 12",
        source: "C-MR4LMS table 1, figures 11, 12",
        why: "the table is lost and the figures are pictures",
    },
    NotCompared {
        what: "Times of tables 1 and 2 in microseconds",
        source: "MR4LMS tables 1, 2",
        why: "the tables are lost; the text gives growths, which are compared",
    },
    NotCompared {
        what: "3-D patterns and random groups behave likewise",
        source: "C-MR4LMS §4.4",
        why: "the text gives no numbers; ours are two more 2-D patterns",
    },
    NotCompared {
        what: "With two trees dynamic roots survive a cut link as well",
        source: "C-MR4LMS §4.4",
        why: "two trees are simulated of fixed roots; `core/routing/tests/fault_tolerance.rs` cuts every link under both",
    },
    NotCompared {
        what: "Higher trees than of height 2 take longer still",
        source: "MR4LMS §2.2.1",
        why: "it is expected, not measured",
    },
    NotCompared {
        what: "Groups that share a link seldom send at once in real programs",
        source: "MR4LMS §2.2.2",
        why: "it is a remark on programs that were not measured",
    },
];

/// A growth in percent of which the lower one is better.
fn growth(what: impl Into<String>, source: &str, published: f64, ours: Sample) -> Comparison {
    let text = format!("{published:+} %");
    Comparison::new(what, source, Published::number(text, published), ours)
        .printed(" %", 1)
        .within(Tolerance::Units((published.abs() / 10.0).max(5.0)))
}

fn percent(ours: &Sample, base: &Sample) -> Sample {
    ours.with(base, |ours, base| (ours / base - 1.0) * 100.0)
}

/// A latency of a measurement.
type Time = fn(&Measured) -> &Sample;

fn messages(found: &Found, fit: impl Fn(Comparison, Option<&str>) -> Comparison) -> Vec<Claim> {
    let of = |all: &[Measured], bytes: u32, what: u32, time: Time| {
        let one = all.iter().find(|one| one.bytes == bytes && one.what == what)?;
        Some(percent(time(one), time(base(all, one)?)))
    };
    let (heights, shared) = (&found.heights, &found.shared);
    let mean: Time = |one| &one.mean_us;
    let tail: Time = |one| &one.tail_us;
    let rows = [
        (
            "mean latency, height 1 to 2, 8 bytes",
            20.0,
            of(heights, 8, 2, mean),
            Some("host time of a message"),
            "the noise of a message is not part of the fit",
        ),
        (
            "99 % latency, height 1 to 2, 8 bytes",
            20.0,
            of(heights, 8, 2, tail),
            None,
            "the tail of our noise is added to both heights alike",
        ),
        (
            "mean latency, height 1 to 2, 2 KiB",
            15.0,
            of(heights, 2_048, 2, mean),
            Some("host time of a byte"),
            "the noise of a long message is not part of the fit",
        ),
        (
            "99 % latency, height 1 to 2, 2 KiB",
            15.0,
            of(heights, 2_048, 2, tail),
            None,
            "the exponential tail is the same at 2 KiB as at 8 bytes",
        ),
        (
            "mean latency, EFI 16, 2 KiB",
            38.0,
            of(shared, 2_048, 16, mean),
            None,
            "predicted: 16 senders without a pause are just past the rate of one link here, on a slope where the host \
          time decides",
        ),
        (
            "mean latency, EFI 128, 2 KiB",
            1_066.0,
            of(shared, 2_048, 128, mean),
            None,
            "predicted: far past the rate of the link, the number of senders alone decides",
        ),
    ];
    let mut claims: Vec<Claim> = rows
        .into_iter()
        .filter_map(|(what, published, ours, fitted, reason)| {
            let table = if what.contains("EFI") { "MR4LMS table 2" } else { "MR4LMS table 1" };
            Some(fit(growth(what, table, published, ours?), fitted).because(reason))
        })
        .collect();
    claims.extend(of(shared, 8, 128, mean).map(|ours| {
        let published = Published::range("slightly above 0 %", 0.1, 5.0);
        Comparison::new("mean latency, EFI 128, 8 bytes", "MR4LMS table 2", published, ours)
            .printed(" %", 1)
            .within(Tolerance::Units(1.0))
            .note("the range for 'slightly' is ours")
            .because("packets of 64 bytes of 128 groups take a small part of a link of 100 Gbit/s")
    }));
    claims
}

fn find(found: &Found, pattern: [u32; 2], way: Way, operation: usize) -> Option<&Timed> {
    let is_it =
        |one: &&Timed| one.pattern == pattern && one.way == way && one.operation == operation;
    found.timed.iter().find(is_it)
}

fn mean_us(found: &Found, way: Way, operation: usize) -> Option<&Sample> {
    find(found, PATTERNS[0], way, operation).map(|one| &one.mean_us)
}

fn against_global(
    found: &Found,
    fit: impl Fn(Comparison, Option<&str>) -> Comparison,
) -> Vec<Claim> {
    let rows = [
        (
            -10.0,
            Some("time to match a packet"),
            "the barrier's result is the only packet that the global tree multiplies",
        ),
        (
            -24.0,
            None,
            "8 bytes more than a barrier's packet change nothing in our adapters; in the paper's an all-reduce of 8 bytes \
          differs from its barrier by 14 points",
        ),
        (
            -13.0,
            None,
            "ours of the global tree wait for packets of other groups to be matched, one after the other; the paper's \
          adapters seem to drop some of them sooner",
        ),
        (
            -40.0,
            Some("time of a process between collectives"),
            "the rounds of 2 KiB spread with the noise",
        ),
    ];
    let each =
        rows.into_iter().enumerate().filter_map(|(operation, (published, fitted, reason))| {
            let ours =
                percent(mean_us(found, FIXED, operation)?, mean_us(found, GLOBAL, operation)?);
            let name = OPERATIONS[operation].0;
            let what = format!("{name}, 60x60, fixed root against the global tree, mean");
            Some(fit(growth(what, COLLECTIVES, published, ours), fitted).because(reason))
        });
    each.collect()
}

/// "MR4LMS and dynamic roots are clearly below the global tree as well."
fn others_against_global(found: &Found) -> Vec<Claim> {
    let least = |way: Way| {
        let each = (0..OPERATIONS.len()).map(|operation| {
            Some(percent(mean_us(found, way, operation)?, mean_us(found, GLOBAL, operation)?))
        });
        let each = each.collect::<Option<Vec<Sample>>>()?;
        each.into_iter().reduce(|a, b| a.with(&b, f64::max))
    };
    let each = [MR4LMS, DYNAMIC].into_iter().filter_map(|way| {
        let label = way.label();
        let what = format!("{label} against the global tree, 60x60, mean, least of the operations");
        let published = Published::at_most("clearly lower", -5.0);
        let row = Comparison::new(what, COLLECTIVES, published, least(way)?).printed(" %", 1);
        let row = row.within(Tolerance::Units(1.0)).note("the limit for 'clearly' is ours");
        Some(row.because(format!(
            "a barrier on the trees of {label} differs from one on the global tree by the packets that adapters drop"
        )))
    });
    each.collect()
}

fn against_mr4lms(found: &Found) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (operation, (name, _)) in OPERATIONS.iter().enumerate() {
        let (Some(fixed), Some(mr4lms)) =
            (mean_us(found, FIXED, operation), mean_us(found, MR4LMS, operation))
        else {
            continue;
        };
        let ours = percent(fixed, mr4lms);
        let what = format!("{name}, 60x60, fixed root against MR4LMS, mean");
        claims.push(if operation == 3 {
            Comparison::new(what, COLLECTIVES, Published::at_most("clearly lower", -5.0), ours)
                .printed(" %", 1)
                .within(Tolerance::Units(1.0))
                .note("the limit for 'clearly' is ours")
                .because(
                    "our MR4LMS, with lookahead, spreads these 120 groups as well as C-MR4LMS does",
                )
        } else {
            let published = Published::range("about the same", -2.0, 2.0);
            Comparison::new(what, COLLECTIVES, published, ours)
                .printed(" %", 1)
                .within(Tolerance::Units(3.0))
                .note("the range for 'about' is ours")
                .because(format!("links carry too little of a {name} to tell trees apart"))
        });
        if let Some(dynamic) = mean_us(found, DYNAMIC, operation) {
            let what = format!("{name}, 60x60, dynamic roots against fixed, mean");
            let published = Published::range("no difference", -2.0, 2.0);
            let row = Comparison::new(what, COLLECTIVES, published, percent(dynamic, fixed));
            let row = row
                .printed(" %", 1)
                .within(Tolerance::Units(3.0))
                .note("the range for 'no' is ours");
            claims.push(row.because(format!(
                "dynamic roots lie on other links than fixed ones, which a {name} feels"
            )));
        }
    }
    claims
}

/// Differences between patterns, and between rounds.
fn spreads(found: &Found) -> Vec<Claim> {
    let mut claims = Vec::new();
    let widest = |way: Way| {
        let each = (0..OPERATIONS.len()).map(|operation| {
            let medians = PATTERNS.iter().map(|pattern| {
                find(found, *pattern, way, operation).map(|one| one.median_us.clone())
            });
            let medians = medians.collect::<Option<Vec<Sample>>>()?;
            let most = medians.iter().cloned().reduce(|a, b| a.with(&b, f64::max))?;
            let least = medians.into_iter().reduce(|a, b| a.with(&b, f64::min))?;
            Some(percent(&most, &least))
        });
        let each = each.collect::<Option<Vec<Sample>>>()?;
        each.into_iter().reduce(|a, b| a.with(&b, f64::max))
    };
    claims.extend(widest(GLOBAL).zip(widest(FIXED)).map(|(global, fixed)| {
        let what = "difference of medians between patterns, most of the operations, global tree over fixed root";
        let ours = global.with(&fixed, |global, fixed| global / fixed.max(0.1));
        Comparison::new(what, COLLECTIVES, Published::at_least("larger", 1.0), ours)
            .printed("x", 1)
            .higher_is_better()
            .within(Tolerance::Units(0.1))
            .because("the fixed root's columns of 180x20 stay within a CN, which shortens their ways; the paper's \
                      patterns other than 60x60 are not named")
    }));
    let middle = |way| {
        find(found, PATTERNS[0], way, 3)
            .map(|one| one.middle_us.with(&one.median_us, |wide, median| 100.0 * wide / median))
    };
    let all: Option<Vec<Sample>> =
        [GLOBAL, MR4LMS, FIXED, DYNAMIC].map(middle).into_iter().collect();
    claims.extend(all.and_then(|all| {
        let most = all.iter().cloned().reduce(|a, b| a.with(&b, f64::max))?;
        let least = all.into_iter().reduce(|a, b| a.with(&b, f64::min))?;
        let what =
            "quartiles apart in % of the median, 2 KiB, 60x60, most less least of four routings";
        let published = Published::range("little difference", 0.0, 5.0);
        let row = Comparison::new(
            what,
            COLLECTIVES,
            published,
            most.with(&least, |most, least| most - least),
        );
        let row = row
            .printed(" %", 1)
            .within(Tolerance::Units(1.0))
            .note("the range for 'little' is ours");
        Some(row.because("queues of the global tree come and go from round to round"))
    }));
    claims
}

fn two_trees(found: &Found) -> Vec<Claim> {
    const SOURCE: &str = "C-MR4LMS figure 12";
    let rows = [
        (
            "slightly lower",
            [-5.0, -0.01],
            "the paper's network has noise that a second copy hides; ours has only that of hosts",
        ),
        (
            "slightly lower",
            [-5.0, -0.01],
            "an all-reduce waits for the slowest member, whose second copy costs its adapter a match",
        ),
        (
            "slightly higher",
            [0.01, 5.0],
            "the copies of 8 bytes are far apart in time, so that the second one disturbs nobody",
        ),
        (
            "slightly higher",
            [0.01, 5.0],
            "twice as many packets of 2 KiB share the links near the members",
        ),
    ];
    let mut claims = Vec::new();
    for (operation, (published, [least, most], reason)) in rows.into_iter().enumerate() {
        let of = |way| find(found, PATTERNS[0], way, operation);
        let (Some(two), Some(one)) = (of(TWO_TREES), of(FIXED)) else { continue };
        let name = OPERATIONS[operation].0;
        let what = format!("{name}, 60x60, two trees against one, median");
        let published = Published::range(published, least, most);
        let row = Comparison::new(what, SOURCE, published, percent(&two.median_us, &one.median_us));
        let row = row
            .printed(" %", 2)
            .within(Tolerance::Units(0.1))
            .note("the range for 'slightly' is ours");
        claims.push(row.because(reason));
        let what = format!("{name}, 60x60, two trees against one, quartiles apart");
        let published = Published::range("slightly lower", -20.0, -0.1);
        let row = Comparison::new(what, SOURCE, published, percent(&two.middle_us, &one.middle_us));
        let row = row
            .printed(" %", 1)
            .within(Tolerance::Units(2.0))
            .note("the range for 'slightly' is ours");
        claims.push(row.because(if operation == 3 {
            "both copies of 2 KiB queue for the links near the members, in some rounds longer than in others"
                .to_owned()
        } else {
            format!("rounds of a {name} vary with the noise of processes here, which both copies share")
        }));
    }
    claims
}

/// Survivors of a cut link.
pub(super) fn laws(found: &Found) -> Vec<Law> {
    let published = [GLOBAL, MR4LMS, FIXED, TWO_TREES];
    let known = found.cut.iter().filter(|one| published.contains(&one.way));
    let each = known.map(|one| {
        let survives = one.way == TWO_TREES;
        let [done, of] = one.done;
        Law {
            what: format!("a link cut by hand, {}", one.way.label()),
            source: COLLECTIVES.to_owned(),
            demanded: if survives { "runs on" } else { "messages are lost" }.to_owned(),
            found: format!("{done} of {of} processes end, {} copies lost", one.lost),
            holds: survives == (done == of),
        }
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::super::collectives::{Cut, WAYS};
    use super::super::model::Summary;
    use super::super::trees::SIZES;
    use super::*;
    use crate::claim;

    /// All measurements, each by so much longer than the one before it.
    fn found(step_us: f64) -> Found {
        let sample = |place: usize| Sample::from(vec![10.0 + step_us * place as f64; 2]);
        let messages = |counts: &[u32]| -> Vec<Measured> {
            let each =
                SIZES.into_iter().flat_map(|bytes| counts.iter().map(move |what| (bytes, *what)));
            let measured = each.enumerate().map(|(place, (bytes, what))| Measured {
                bytes,
                what,
                messages: 1,
                mean_us: sample(place),
                tail_us: sample(place),
            });
            measured.collect()
        };
        let mut timed = Vec::new();
        for pattern in PATTERNS {
            for way in WAYS {
                for operation in 0..OPERATIONS.len() {
                    let time = sample(timed.len());
                    timed.push(Timed {
                        pattern,
                        operation,
                        way,
                        rounds_us: vec![1.0],
                        time: Summary::of(&[1]),
                        mean_us: time.clone(),
                        median_us: time.clone(),
                        middle_us: time,
                    });
                }
            }
        }
        let cut = WAYS.map(|way| Cut { way, done: [usize::from(way == TWO_TREES), 1], lost: 1 });
        let (heights, shared) = (messages(&[1, 2]), messages(&[1, 16, 128]));
        Found { heights, shared, timed, cut: cut.to_vec() }
    }

    #[test]
    fn no_row_of_any_outcome_differs_without_a_reason_of_its_own() {
        for step_us in [-0.05, 0.5] {
            let claims = claims(&found(step_us), true);
            assert_eq!(claims.len(), 31);
            assert_eq!(claim::faults(&claims), Vec::<String>::new());
        }
    }

    #[test]
    fn only_two_trees_survive_a_cut_link() {
        let mut found = found(0.5);
        assert!(laws(&found).iter().all(|law| law.holds));
        found.cut.iter_mut().for_each(|one| one.done = [1, 1]);
        let broken = laws(&found).into_iter().filter(|law| !law.holds);
        assert_eq!(broken.count(), 3);
    }
}
