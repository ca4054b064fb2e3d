//! The statements in the text of the Dawning paper, beside ours.

use fabricast_routing::RootPolicy;
use fabricast_simulator::UnicastPattern;

use super::figures::Found;
use super::loads::{
    ALL_AT_FULL_RATE, ALL_TO_MANY, AS_MUCH_AS_LINKS_TAKE, Broadcasts, FAN_OUTS, Many, OUTPUTS,
    Output,
};
use crate::claim::{Claim, Comparison, Law, NotCompared, Published, Tolerance};
use crate::sample::Sample;

const BALANCED: [RootPolicy; 3] = [RootPolicy::Llp, RootPolicy::LlpEcMax, RootPolicy::LlpEcSum];
const FIGURE_8: &str = "Dawning §5.1, figure 8";
const FIGURE_9: &str = "Dawning §5.2, figure 9";
/// Parameter that was chosen for most statements about figure 8.
const BUFFERS: &str = "buffers of 1 280 bytes";
/// Note of all rows while the hardware is ours.
const INPUTS: &str = "inputs fitted: buffers, age of readings";

/// Sets the statements of the text beside ours; `is_fitted` if the hardware is ours.
pub(super) fn claims(found: &Found, is_fitted: bool) -> Vec<Claim> {
    let mut claims = stages(found);
    claims.extend(figure_8(&found.broadcasts, is_fitted));
    claims.extend(throughput(&found.many));
    claims.extend(splitting(&found.outputs));
    let with_inputs = |claim: Claim| if is_fitted { claim.with_inputs(INPUTS) } else { claim };
    claims.into_iter().map(with_inputs).collect()
}

/// Sets the statements about figure 8 beside broadcasts over every pattern of unicast.
pub(super) fn figure_8(all: &[Broadcasts], is_fitted: bool) -> Vec<Claim> {
    let mut claims = each_pattern(all, is_fitted);
    claims.extend(over_patterns(all, is_fitted));
    claims
}

/// Statements that have no row.
pub(super) const NOT_COMPARED: [NotCompared; 15] = [
    NotCompared {
        what: "Bars and curves of figures 5, 8 and 9 beyond the numbers of the text",
        source: "Dawning figures 5, 8, 9",
        why: "they are pictures whose values cannot be read",
    },
    NotCompared {
        what: "The path is unique once the root is chosen",
        source: "Dawning theorem 1",
        why: "it is a theorem, which `core/simulator` tests for every root",
    },
    NotCompared {
        what: "HLSE splits four multicasts over two roots with a chance of 50 %",
        source: "Dawning §4.2.2, figure 7",
        why: "it is arithmetic of an example of four roots, which `core/routing` tests",
    },
    NotCompared {
        what: "Table routing reaches members that are not neighbors",
        source: "Dawning §6",
        why: "it is a property of the hardware; all our trees are of table routing",
    },
    NotCompared {
        what: "Packets of different sources do not meet on the way up with cyclic roots",
        source: "Dawning §3.2",
        why: "it follows from the numbers of sources and roots; the rows of figure 9 with cyclic roots rest on it",
    },
    NotCompared {
        what: "Cyclic roots queue one source's packets on the way up, so that they suit broadcasts",
        source: "Dawning §3.2",
        why: "the text gives no number; the rows of figure 9 have cyclic roots at all fan-outs",
    },
    NotCompared {
        what: "Sources that know the same loads choose alike, and load a path the more",
        source: "Dawning §3.2, §4.2",
        why: "it explains why HLSE draws by chance; the rows of HLSE over the load-balanced policies have what comes of it",
    },
    NotCompared {
        what: "HLSE suffers less from loads that are out of date",
        source: "Dawning §4.2.2",
        why: "the text gives no number; the table `stale` has all policies over the age of readings",
    },
    NotCompared {
        what: "Wormhole switches deadlock between switches, and ways to end that",
        source: "Dawning §3.1, figure 1",
        why: "the simulator's switches cut through and store whole packets, as the Dawning's do",
    },
    NotCompared {
        what: "RBB is simple, and fairer than fixed priority",
        source: "Dawning §4.1",
        why: "the text gives no number; the table `output-policies` has the throughput and times of both",
    },
    NotCompared {
        what: "HLSE balances the better the larger the system is",
        source: "Dawning §4.2.2",
        why: "the text gives no number, and measures FT(8, 3) only",
    },
    NotCompared {
        what: "Source routes have long headers",
        source: "Dawning §4",
        why: "it is a property of the hardware; the experiment `broadcast` counts such headers",
    },
    NotCompared {
        what: "SP2 reaches 90 %, Quadrics ten times software; Quadrics' rules lower its throughput",
        source: "Dawning §1, §3.1",
        why: "they are of other machines, and cited",
    },
    NotCompared {
        what: "The chip has 20 M transistors, and multicast takes 2.4 % of its area",
        source: "Dawning §6",
        why: "it is hardware",
    },
    NotCompared {
        what: "Arbitration and transmission are pipelined",
        source: "Dawning §4.1",
        why: "delays of the arbiter are not given; ours takes no time beside `switch_ns`",
    },
];

/// Figure 5: the share of the way up, and the root above all other switches.
fn stages(found: &Found) -> Vec<Claim> {
    let mut claims = Vec::new();
    for one in found.stages.iter().filter(|one| one.load != AS_MUCH_AS_LINKS_TAKE) {
        let all_to_all = one.load == ALL_AT_FULL_RATE;
        let switches = &one.stages_us[1..];
        let sum = |stages: &[Sample]| {
            let all = stages.iter().cloned().reduce(|a, b| a.with(&b, |a, b| a + b));
            all.unwrap_or_else(|| Sample::from(0.0))
        };
        let share = sum(&switches[..3]).with(&sum(switches), |up, all| 100.0 * up / all.max(1e-9));
        let what = format!("share of leaf, level 1 and root on the way up, {}", one.load);
        let row =
            Comparison::new(what, "Dawning figure 5", Published::at_least("> 90 %", 90.0), share);
        claims.push(row.printed(" %", 0).higher_is_better().within(Tolerance::Units(2.0)).because(
            if all_to_all {
                "packets of all sources meet on the way down as well"
            } else {
                "more of the time goes on the way down with these buffers and channels"
            },
        ));
        let others = switches.iter().enumerate().filter(|(stage, _)| *stage != 2);
        let others = others.map(|(_, time)| time.clone()).reduce(|a, b| a.with(&b, f64::max));
        let ratio =
            others.map(|others| switches[2].with(&others, |root, other| root / other.max(1e-9)));
        claims.extend(ratio.map(|ratio| {
            let what = format!("time in the root over that in any other switch, {}", one.load);
            let published = Published::at_least("the largest", 1.0);
            let row = Comparison::new(what, "Dawning figure 5", published, ratio);
            row.printed("x", 2).higher_is_better().within(Tolerance::Units(0.1)).because(
                if all_to_all {
                    "the queue before the root reaches back to the leaf, where packets wait as long"
                } else {
                    "a packet waits longest in its own leaf, for the unicast of its neighbors"
                },
            )
        }));
    }
    claims
}

pub(super) fn mean(
    all: &[Broadcasts],
    pattern: UnicastPattern,
    policy: RootPolicy,
) -> Option<Sample> {
    let is_it = |one: &&Broadcasts| one.pattern == pattern && one.policy == policy;
    all.iter().find(is_it).map(|one| one.mean_us.clone())
}

/// Returns the time of the load-balanced policy that is the fastest, each seed by itself.
pub(super) fn best_balanced(all: &[Broadcasts], pattern: UnicastPattern) -> Option<Sample> {
    fold(BALANCED.into_iter().filter_map(|one| mean(all, pattern, one)), f64::min)
}

fn fold(samples: impl Iterator<Item = Sample>, pick: fn(f64, f64) -> f64) -> Option<Sample> {
    samples.reduce(|a, b| a.with(&b, pick))
}

/// The least and the largest mean.
fn ends(samples: impl Iterator<Item = Sample>) -> (f64, f64) {
    samples.map(|one| one.mean()).fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), mean| {
        (least.min(mean), most.max(mean))
    })
}

fn over(a: &Sample, b: &Sample) -> Sample {
    a.with(b, |a, b| a / b)
}

/// Reason why HLSE's time over one pattern of unicast is another.
const fn hlse_reason(pattern: UnicastPattern) -> &'static str {
    match pattern {
        UnicastPattern::Uniform => {
            "with buffers of one packet cyclic takes far longer, see the sweep"
        }
        UnicastPattern::Sphere => {
            "half of the packets stay below the roots, but the other half fills the buffers"
        }
        UnicastPattern::Decay => {
            "with these buffers only hot-region holds broadcasts up for long; with 1 KiB decay holds those of cyclic up, see the \
             sweep. How steep the paper's decay is the text does not say"
        }
        UnicastPattern::HotRegion => "the hot region's queues reach back to the roots",
    }
}

/// Names the parameter that was chosen for a row, if the hardware is ours.
fn name_fitted(row: Comparison, parameter: &str, is_fitted: bool) -> Comparison {
    if is_fitted { row.fitted(parameter) } else { row }
}

fn each_pattern(all: &[Broadcasts], is_fitted: bool) -> Vec<Claim> {
    let mut claims = Vec::new();
    for pattern in UnicastPattern::ALL {
        let of = |policy| mean(all, pattern, policy);
        let (Some(cyclic), Some(hlse)) = (of(RootPolicy::Cyclic), of(RootPolicy::Hlse)) else {
            continue;
        };
        let name = pattern.name();
        let others = BALANCED.into_iter().chain([RootPolicy::Hlse]).filter_map(of);
        claims.extend(fold(others, f64::max).map(|worst| {
            let (of_cyclic, of_hlse) = (cyclic.mean(), hlse.mean());
            let (least, most) = ends(BALANCED.into_iter().filter_map(of));
            let what = format!("broadcast over {name}, cyclic over the worst other policy");
            let published = Published::at_least("cyclic is worst", 1.0);
            let row = Comparison::new(what, FIGURE_8, published, over(&cyclic, &worst))
                .printed("x", 2)
                .higher_is_better()
                .within(Tolerance::Units(0.05));
            name_fitted(row, BUFFERS, is_fitted).because(format!(
                "over {name} cyclic takes {of_cyclic:.0} us, the load-balanced policies {least:.0} to {most:.0} us, \
                 HLSE {of_hlse:.0} us"
            ))
        }));
        let what = format!("broadcast over {name}, HLSE");
        let published = match pattern {
            UnicastPattern::Decay => Published::at_least("above 100 us", 100.0),
            UnicastPattern::Uniform | UnicastPattern::Sphere | UnicastPattern::HotRegion => {
                Published::at_most("below 100 us", 100.0)
            }
        };
        let row = Comparison::new(what, FIGURE_8, published, hlse);
        let row = row.printed(" us", 0).within(Tolerance::Percent(10.0));
        claims.push(name_fitted(row, BUFFERS, is_fitted).because(hlse_reason(pattern)));
    }
    claims
}

/// Statements about all patterns together.
fn over_patterns(all: &[Broadcasts], is_fitted: bool) -> Vec<Claim> {
    let mut claims = Vec::new();
    claims.extend(mean(all, UnicastPattern::HotRegion, RootPolicy::Cyclic).map(|ours| {
        let what = "broadcast over hot-region, cyclic";
        let row = Comparison::new(what, FIGURE_8, Published::number("500 us", 500.0), ours);
        let row = row.printed(" us", 0).within(Tolerance::Percent(20.0));
        name_fitted(row, BUFFERS, is_fitted)
            .because("few broadcasts find the hot region's queues as long as the others do")
    }));
    let patterns: Vec<UnicastPattern> = UnicastPattern::ALL
        .into_iter()
        .filter(|one| mean(all, *one, RootPolicy::Cyclic).is_some())
        .collect();
    let gains = |best: fn(&[Broadcasts], UnicastPattern) -> Option<Sample>| {
        fold(patterns.iter().filter_map(|pattern| best(all, *pattern)), f64::max)
    };
    let balanced = |all: &[Broadcasts], pattern| {
        let best = best_balanced(all, pattern)?;
        Some(over(&mean(all, pattern, RootPolicy::Cyclic)?, &best))
    };
    claims.extend(gains(balanced).map(|ours| {
        let what = "cyclic over the best load-balanced policy, most of the patterns";
        let row = Comparison::new(what, FIGURE_8, Published::number("up to 1.9x", 1.9), ours);
        let row = row.printed("x", 2).higher_is_better().within(Tolerance::Percent(10.0));
        name_fitted(row, "registers read every 300 us", is_fitted)
            .because("readings of another age give other factors, see `stale`")
    }));
    let hlse = |all: &[Broadcasts], pattern| {
        let best = best_balanced(all, pattern)?;
        Some(over(&best, &mean(all, pattern, RootPolicy::Hlse)?))
    };
    claims.extend(gains(hlse).map(|ours| {
        let what = "best load-balanced policy over HLSE, most of the patterns";
        let row = Comparison::new(what, FIGURE_8, Published::number("almost 3x", 3.0), ours);
        let row = row.printed("x", 2).higher_is_better().within(Tolerance::Percent(20.0));
        name_fitted(row, "readings and buffers together", is_fitted)
            .because("HLSE gains where readings are old and queues long; the paper gives neither")
    }));
    if patterns.len() == UnicastPattern::ALL.len() {
        claims.extend(orders(all, is_fitted));
    }
    claims
}

/// Pattern that takes longest, and the shortest one.
fn orders(all: &[Broadcasts], is_fitted: bool) -> Vec<Claim> {
    let others = |but: UnicastPattern, policy, pick| {
        let rest = UnicastPattern::ALL.into_iter().filter(move |one| *one != but);
        fold(rest.filter_map(|one| mean(all, one, policy)), pick)
    };
    let hot = UnicastPattern::HotRegion;
    let longest = mean(all, hot, RootPolicy::Cyclic)
        .zip(others(hot, RootPolicy::Cyclic, f64::max))
        .map(|(hot, others)| over(&hot, &others));
    let mut claims = Vec::new();
    claims.extend(longest.map(|ours| {
        let what = "cyclic, hot-region over the longest other pattern";
        let published = Published::at_least("hot-region is its highest", 1.0);
        let row = Comparison::new(what, FIGURE_8, published, ours);
        let row = row.printed("x", 2).higher_is_better().within(Tolerance::Units(0.05));
        name_fitted(row, "buffers of a multicast and a unicast packet", is_fitted)
            .because("with buffers of one packet uniform unicast takes longer, see the sweep")
    }));
    let shares = RootPolicy::ALL.into_iter().filter_map(|policy| {
        let sphere = mean(all, UnicastPattern::Sphere, policy)?;
        Some(over(&sphere, &others(UnicastPattern::Sphere, policy, f64::min)?))
    });
    claims.extend(fold(shares, f64::max).map(|ours| {
        let what = "sphere over the shortest other pattern, most of the policies";
        let published = Published::at_most("sphere is lowest", 1.0);
        let row = Comparison::new(what, FIGURE_8, published, ours).printed("x", 2);
        name_fitted(row.within(Tolerance::Units(0.05)), BUFFERS, is_fitted).because(
            "half of sphere's unicast stays in its midplane and loads the leaf switches more; the note on the sweep names \
             the buffers with which sphere is lowest",
        )
    }));
    claims
}

/// Returns the throughput of a policy at the highest load offered.
pub(super) fn saturation(all: &[Many], policy: RootPolicy, fan_out: u32) -> Option<Sample> {
    let of = all.iter().filter(|one| one.policy == policy && one.fan_out == fan_out);
    of.max_by(|a, b| a.offered.total_cmp(&b.offered)).map(|one| one.throughput.clone())
}

fn throughput(all: &[Many]) -> Vec<Claim> {
    let of = |policy, fan_out| saturation(all, policy, fan_out);
    let percent = |ours: &Sample| ours.with(&Sample::from(100.0), |ours, by| ours * by);
    let mut claims = Vec::new();
    let mut push = |policy: RootPolicy, fan_out: u32, published: Published, reason: String| {
        claims.extend(of(policy, fan_out).map(|ours| {
            let what = format!("many-to-many throughput, fan-out {fan_out}, {policy}");
            let row = Comparison::new(what, FIGURE_9, published, percent(&ours));
            row.printed(" %", 0).higher_is_better().within(Tolerance::Units(2.0)).because(reason)
        }));
    };
    let above = || Published::at_least("> 90 %", 90.0);
    let (least, most) = ends(RootPolicy::ALL.into_iter().filter_map(|policy| of(policy, 96)));
    let points = (100.0 * (most - least)).ceil();
    push(RootPolicy::Cyclic, 64, above(),
        "one channel, whose number the paper does not give; 8 channels of 16 KiB or 16 of 4 KiB give 90 % and more, but \
         then fan-out 96 gives less than 64, see the sweep".to_owned());
    push(
        RootPolicy::Llp,
        96,
        Published::at_most("< 70 %", 70.0),
        format!("all policies are within {points:.0} points of each other at this fan-out here"),
    );
    for policy in RootPolicy::ALL {
        push(
            policy,
            128,
            above(),
            format!("{policy} lets broadcasts meet on the way up at this load"),
        );
    }
    claims.extend(cyclic_is_best(all));
    claims.extend(against_cyclic(all));
    claims.extend(llp_is_worst(all));
    claims.extend(growth(all));
    claims
}

fn cyclic_is_best(all: &[Many]) -> Vec<Claim> {
    let each = FAN_OUTS.into_iter().filter_map(|fan_out| {
        let others = RootPolicy::ALL.into_iter().filter(|policy| *policy != RootPolicy::Cyclic);
        let most = fold(others.filter_map(|policy| saturation(all, policy, fan_out)), f64::max)?;
        let ours = over(&saturation(all, RootPolicy::Cyclic, fan_out)?, &most);
        let what = format!(
            "many-to-many throughput, fan-out {fan_out}, cyclic over the best other policy"
        );
        let published = Published::at_least("cyclic is best", 1.0);
        let row = Comparison::new(what, FIGURE_9, published, ours).printed("x", 2);
        let row = row.higher_is_better().within(Tolerance::Units(0.03));
        Some(row.because(format!(
            "at fan-out {fan_out} other policies put packets of one source on several roots"
        )))
    });
    each.collect()
}

/// "Fan-out splitting has the best throughput."
fn splitting(outputs: &[Output]) -> Option<Claim> {
    let of_load = outputs.iter().filter(|one| one.load == ALL_TO_MANY && one.deadlock.is_none());
    let (split, others): (Vec<&Output>, Vec<&Output>) =
        of_load.partition(|one| one.name == OUTPUTS[2].0);
    let most = fold(others.iter().map(|one| one.throughput.clone()), f64::max)?;
    let ours = split.first()?.throughput.with(&most, |split, most| split / most.max(1e-9));
    let what = "throughput at fan-out 64, fan-out splitting over the best other output policy";
    let row = Comparison::new(what, "Dawning §3.1", Published::at_least("the best", 1.0), ours);
    let row = row.printed("x", 2).higher_is_better().within(Tolerance::Units(0.05));
    Some(row.because("packets wait for links and not for several outputs at this load"))
}

fn against_cyclic(all: &[Many]) -> Vec<Claim> {
    let Some(cyclic) = saturation(all, RootPolicy::Cyclic, 64) else { return Vec::new() };
    let rows = [
        (
            RootPolicy::LlpEcMax,
            "high, above LLP's",
            "sources that see the same loads choose the same root, as the paper says of exact choices",
        ),
        (
            RootPolicy::LlpEcSum,
            "high, above LLP's",
            "the sum over a path hides its fullest link for as long",
        ),
        (
            RootPolicy::Hlse,
            "close to it",
            "drawing among half of the roots lets some packets meet on the way up",
        ),
    ];
    let each = rows.into_iter().filter_map(|(policy, published, reason)| {
        let ours = over(&saturation(all, policy, 64)?, &cyclic);
        let what = format!("many-to-many throughput, fan-out 64, {policy} over cyclic");
        let row = Comparison::new(what, FIGURE_9, Published::at_least(published, 0.95), ours);
        let row = row.note("the limit is ours").printed("x", 2).higher_is_better();
        Some(row.within(Tolerance::Units(0.05)).because(reason))
    });
    each.collect()
}

fn llp_is_worst(all: &[Many]) -> Vec<Claim> {
    let each = FAN_OUTS.into_iter().filter(|fan_out| *fan_out < 128).filter_map(|fan_out| {
        let others = RootPolicy::ALL.into_iter().filter(|policy| *policy != RootPolicy::Llp);
        let least = fold(others.filter_map(|policy| saturation(all, policy, fan_out)), f64::min)?;
        let ours = over(&saturation(all, RootPolicy::Llp, fan_out)?, &least);
        let what = format!("many-to-many throughput, fan-out {fan_out}, LLP over the least other policy");
        let row = Comparison::new(what, FIGURE_9, Published::at_most("LLP is worst", 0.99), ours);
        let of = |policy| saturation(all, policy, fan_out).map_or(0.0, |of| 100.0 * of.mean());
        let [llp, max, sum] = BALANCED.map(of);
        let reason = format!(
            "at fan-out {fan_out} LLP gives {llp:.0} %, LLP-EC {max:.0} % by the maximum and {sum:.0} % by the sum"
        );
        Some(row.printed("x", 2).within(Tolerance::Units(0.03)).because(reason))
    });
    each.collect()
}

fn growth(all: &[Many]) -> Vec<Claim> {
    let each = FAN_OUTS.windows(2).filter_map(|pair| {
        let (less, more) = (pair[0], pair[1]);
        let steps = RootPolicy::ALL.into_iter().filter_map(|policy| {
            Some(over(&saturation(all, policy, more)?, &saturation(all, policy, less)?))
        });
        let ours = fold(steps, f64::min)?;
        let what = format!("throughput at fan-out {more} over {less}, least of the policies");
        let row = Comparison::new(what, FIGURE_9, Published::at_least("grows", 1.0), ours);
        let row = row.printed("x", 2).higher_is_better().within(Tolerance::Units(0.03));
        Some(row.because(format!("one policy is at its limit at fan-out {less} already")))
    });
    each.collect()
}

/// Output policies that end in a deadlock.
pub(super) fn laws(found: &Found) -> Vec<Law> {
    let each = found.outputs.iter().map(|one| {
        let naive = one.name == OUTPUTS[4].0;
        Law {
            what: format!("deadlock, {}, {}", one.name, one.load),
            source: "Dawning §3.1, figure 1".to_owned(),
            demanded: if naive { "deadlock" } else { "none" }.to_owned(),
            found: match &one.deadlock {
                None => "none".to_owned(),
                Some(first) => {
                    let seeds = one.throughput.values().len();
                    format!("with {} of {seeds} seeds, the first: {first}", one.deadlocked)
                }
            },
            holds: naive == one.deadlock.is_some(),
        }
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::super::loads::Stages;
    use super::*;
    use crate::claim::{self, Verdict};

    fn found(us: f64, throughput: f64) -> Found {
        let seeds = |value: f64| Sample::from(vec![value, value]);
        let broadcasts = UnicastPattern::ALL.into_iter().flat_map(|pattern| {
            RootPolicy::ALL.into_iter().zip(1u32..).map(move |(policy, place)| Broadcasts {
                pattern,
                policy,
                reading_ps: 1,
                count: 2,
                mean_us: seeds(us * f64::from(place)),
                with_queue_us: seeds(us),
            })
        });
        let many = FAN_OUTS.into_iter().flat_map(|fan_out| {
            RootPolicy::ALL.into_iter().zip(1u32..).map(move |(policy, place)| Many {
                fan_out,
                policy,
                offered: 1.0,
                throughput: seeds(throughput / f64::from(place * fan_out)),
            })
        });
        let stages = ["one broadcast", ALL_AT_FULL_RATE].map(|load| Stages {
            load,
            stages_us: (0u32..6).map(|stage| seeds(f64::from(stage))).collect(),
        });
        Found {
            stages: stages.to_vec(),
            broadcasts: broadcasts.collect(),
            stale: Vec::new(),
            many: many.collect(),
            outputs: Vec::new(),
            fits: Vec::new(),
            rooms: Vec::new(),
        }
    }

    fn output(policy: usize, throughput: [f64; 2]) -> Output {
        Output {
            name: OUTPUTS[policy].0,
            load: ALL_TO_MANY,
            throughput: Sample::from(throughput.to_vec()),
            mean_us: Sample::from(vec![1.0; 2]),
            deadlock: None,
            deadlocked: 0,
        }
    }

    /// As the notes say, no row of figure 8 is a prediction.
    #[test]
    fn rows_of_figure_8_that_agree_are_fitted_with_our_hardware() {
        let found = found(10.0, 1.0);
        let of = |is_fitted| {
            let claims = figure_8(&found.broadcasts, is_fitted).into_iter();
            claims.filter(Claim::agrees).map(|claim| claim.verdict).collect::<Vec<_>>()
        };
        assert_eq!(of(true), [Verdict::Fitted; 5]);
        assert_eq!(of(false), [Verdict::Same; 5]);
    }

    #[test]
    fn a_tie_is_not_the_worst() {
        let mut found = found(1.0, 1.0);
        found.many.iter_mut().for_each(|one| one.throughput = Sample::from(vec![0.3; 2]));
        let verdicts = llp_is_worst(&found.many).into_iter().map(|claim| claim.verdict);
        assert_eq!(verdicts.collect::<Vec<_>>(), [Verdict::Near; 3]);
    }

    #[test]
    fn seeds_that_disagree_on_the_best_output_policy_give_no_verdict() {
        let of = |split| splitting(&[output(0, [0.8, 0.8]), output(2, split)]).unwrap().verdict;
        assert_eq!(of([0.9, 0.9]), Verdict::Same);
        assert_eq!(of([0.9, 0.7]), Verdict::Undecided);
    }

    #[test]
    fn a_deadlock_with_one_seed_breaks_the_law_of_a_policy_that_has_none() {
        let mut found = found(1.0, 1.0);
        found.outputs = vec![output(0, [0.8, 0.8])];
        assert!(laws(&found)[0].holds);
        found.outputs[0].deadlock = Some("a circle".to_owned());
        found.outputs[0].deadlocked = 1;
        let law = &laws(&found)[0];
        let says = "with 1 of 2 seeds, the first: a circle";
        assert_eq!((law.holds, &*law.found), (false, says));
    }

    /// Reasons that name figures take them from the rows.
    #[test]
    fn reasons_name_the_figures_of_their_rows() {
        let claims = claims(&found(10.0, 48.0), true);
        let why = |what: &str| &claims.iter().find(|one| one.what == what).expect("a row").reason;
        let uniform = why("broadcast over uniform, cyclic over the worst other policy");
        let figures = "cyclic takes 10 us, the load-balanced policies 20 to 40 us, HLSE 50 us";
        assert!(uniform.ends_with(figures), "{uniform}");
        let llp = why("many-to-many throughput, fan-out 96, llp");
        assert!(llp.contains("within 40 points"), "{llp}");
        let least = why("many-to-many throughput, fan-out 32, LLP over the least other policy");
        assert!(
            least.ends_with("LLP gives 75 %, LLP-EC 50 % by the maximum and 38 % by the sum"),
            "{least}"
        );
    }

    #[test]
    fn no_row_of_any_outcome_differs_without_a_reason_of_its_own() {
        for (us, throughput) in [(1.0, 1.0), (1e4, 1e4)] {
            let claims = claims(&found(us, throughput), true);
            assert!(claims.len() > 25, "{}", claims.len());
            assert_eq!(claim::faults(&claims), Vec::<String>::new());
        }
    }
}
