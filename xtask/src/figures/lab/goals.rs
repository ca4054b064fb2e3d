//! The goals that were set before anything was built, beside what was measured.

use std::fmt::Write as _;

use super::programs::{KINDS, LABS};
use crate::figures::Figures;

/// Goal of joins: milliseconds until the first datagram, in the median and at the 99th percentile.
const JOIN_MS: [f64; 2] = [20.0, 100.0];
/// Goal of messages: times faster than others.
const FASTER: f64 = 3.0;

/// Writes the table.
pub(super) fn table(found: &Figures) -> String {
    let mut text = String::from(HEAD);
    let goals = [
        ("join of a program until its first datagram: median 20 ms, p99 100 ms", joins(found)),
        ("sender that joined nothing, until a member hears it: the same", senders(found)),
        ("nothing lost by moves and mends, nothing doubled by any change", moves(found)),
        ("two trees: a cut loses no more than what is sent in 2 ms", cuts(found)),
        ("8 bytes to all: 3 times faster than through the agents", faster(found, "8", "agents")),
        ("8 bytes to all: 3 times faster than a loop", faster(found, "8", "tcp_loop/fabric")),
        ("1 MiB to all: 3 times faster than a tree", faster(found, "1048576", "tcp_tree/fabric")),
    ];
    for (goal, measured) in goals {
        let _ = match measured {
            Some(Measured { text: measured, is_met }) => {
                let verdict = if is_met { "met" } else { "missed" };
                writeln!(text, "| {goal} | {measured} | {verdict} |")
            }
            None => writeln!(text, "| {goal} | - | - |"),
        };
    }
    text
}

/// The measurement for a goal.
struct Measured {
    text: String,
    is_met: bool,
}

/// The number at the beginning of a figure.
fn number(found: &Figures, name: &str) -> Option<f64> {
    found.get(name)?.split(' ').next()?.parse().ok()
}

fn count(found: &Figures, name: &str) -> Option<u64> {
    found.get(name)?.split(' ').next()?.parse().ok()
}

fn joins(found: &Figures) -> Option<Measured> {
    let of = |what: &str| number(found, &format!("one_tree/joins/{what}"));
    let (median, p99, times) = (of("median")?, of("p99")?, of("n")?);
    let is_met = median <= JOIN_MS[0] && p99 <= JOIN_MS[1];
    Some(Measured { text: format!("{median:.1} and {p99:.1} ms, {times:.0} joins"), is_met })
}

fn senders(found: &Figures) -> Option<Measured> {
    let of = |what: &str| format!("one_tree/sender_that_joins_nothing/{what}");
    let reached = found.get(&of("reached"))?;
    let (times, senders) = reached.split_once(" of ")?;
    if times == "0" {
        return Some(Measured { text: format!("{reached} reach a member"), is_met: false });
    }
    let (median, p99) = (number(found, &of("median"))?, number(found, &of("p99"))?);
    let is_met = times == senders && median <= JOIN_MS[0] && p99 <= JOIN_MS[1];
    let text = format!("{median:.1} and {p99:.1} ms, {reached} reach a member");
    Some(Measured { text, is_met })
}

fn moves(found: &Figures) -> Option<Measured> {
    let (mut made, mut lost, mut doubled) = (0, 0, 0);
    for (lab, _) in LABS {
        made += count(found, &format!("{lab}/changes/made"))?;
        for (kind, _) in KINDS {
            doubled += count(found, &format!("{lab}/{kind}/doubled"))?;
            if !kind.starts_with("cut") {
                lost += count(found, &format!("{lab}/{kind}/lost"))?;
            }
        }
    }
    let text = format!("{lost} lost and {doubled} doubled, {made} changes");
    Some(Measured { text, is_met: lost + doubled == 0 })
}

fn cuts(found: &Figures) -> Option<Measured> {
    let above = count(found, "two_trees/cuts_above_goal")?;
    let text = format!("{} cuts lost more", found.get("two_trees/cuts_above_goal")?);
    Some(Measured { text, is_met: above == 0 })
}

/// The direct path beside another system, for messages of one size.
fn faster(found: &Figures, bytes: &str, other: &str) -> Option<Measured> {
    let median = |system: &str| number(found, &format!("{system}/{bytes}/median"));
    let gain = median(other)? / median("direct")?;
    Some(Measured { text: format!("{gain:.1} times"), is_met: gain >= FASTER })
}

const HEAD: &str = "
## Goals

Loops and trees are over TCP through the switches.

| goal | measured | |
| --- | --- | --- |
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::figures;

    /// Figures of both labs in which each kind of change cost this.
    fn changes(lost: u64, doubled: u64) -> String {
        let mut text = String::new();
        for (lab, _) in LABS {
            let _ = writeln!(text, "figure {lab}/changes/made 10 changes");
            for (kind, _) in KINDS {
                let lost = if kind.starts_with("cut") { 7 } else { lost };
                let _ = writeln!(text, "figure {lab}/{kind}/lost {lost} datagrams");
                let _ = writeln!(text, "figure {lab}/{kind}/doubled {doubled} datagrams");
            }
        }
        text
    }

    #[test]
    fn cuts_may_lose_and_nothing_else() {
        let row = |lost, doubled| table(&figures(&changes(lost, doubled)));
        assert!(row(0, 0).contains("| 0 lost and 0 doubled, 20 changes | met |"), "{}", row(0, 0));
        assert!(row(1, 0).contains("| 6 lost and 0 doubled, 20 changes | missed |"));
        assert!(row(0, 1).contains("| 0 lost and 10 doubled, 20 changes | missed |"));
    }

    #[test]
    fn senders_that_reach_nobody_miss_their_goal() {
        let of = |reached: &str| {
            let name = "figure one_tree/sender_that_joins_nothing";
            let times = format!("{name}/median 9.0 ms\n{name}/p99 99.0 ms\n");
            table(&figures(&format!("{times}{name}/reached {reached}\n")))
        };
        assert!(of("0 of 9").contains("| 0 of 9 reach a member | missed |"), "{}", of("0 of 9"));
        assert!(of("8 of 9").contains("| 9.0 and 99.0 ms, 8 of 9 reach a member | missed |"));
        assert!(of("9 of 9").contains("| 9.0 and 99.0 ms, 9 of 9 reach a member | met |"));
    }

    #[test]
    fn goals_are_met_at_their_bounds_and_figures_that_are_missing_are_dashes() {
        let text = table(&figures(
            "figure one_tree/joins/n 50 times\nfigure one_tree/joins/median 20.0 ms\n\
             figure one_tree/joins/p99 100.1 ms\nfigure two_trees/cuts_above_goal 1 of 9\n\
             figure direct/8/median 1000 us\nfigure agents/8/median 3000 us\n\
             figure tcp_loop/fabric/8/median 2900 us\n",
        ));
        assert!(text.contains("| 20.0 and 100.1 ms, 50 joins | missed |"), "{text}");
        assert!(text.contains("| 1 of 9 cuts lost more | missed |"), "{text}");
        assert!(text.contains("than through the agents | 3.0 times | met |"), "{text}");
        assert!(text.contains("than a loop | 2.9 times | missed |"), "{text}");
        assert!(text.contains("than a tree | - | - |"), "{text}");
    }
}
