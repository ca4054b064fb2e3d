//! Tables of ordinary programs and of messages: joins, new senders, changes of cables, times.

use std::fmt::Write as _;

use crate::figures::{Figures, time};

/// Labs as they are named in figures, and their titles.
pub(super) const LABS: [(&str, &str); 2] = [("one_tree", "one tree"), ("two_trees", "two trees")];
/// Kinds of changes as they are named in figures, and their titles.
pub(super) const KINDS: [(&str, &str); 5] = [
    ("cut_at_the_sender", "cut, at the sender's leaf switch"),
    ("cut_elsewhere", "cut, elsewhere"),
    ("mended", "mended"),
    ("drained", "taken out of service"),
    ("resumed", "back in service"),
];
/// Measured times of programs as they are named in figures, and their titles.
const TIMES: [(&str, &str); 3] = [
    ("joins", "a program joins, until its first datagram"),
    ("sender_that_joins", "a new sender joins and sends, until a member hears it"),
    ("sender_that_joins_nothing", "a new sender joins nothing and sends, until a member hears it"),
];
/// Systems that carry messages as they are named in figures, and their titles.
const SYSTEMS: [(&str, &str); 6] = [
    ("agents", "agents"),
    ("direct", "direct"),
    ("tcp_loop/fabric", "TCP loop"),
    ("tcp_tree/fabric", "TCP tree"),
    ("tcp_loop/management", "TCP loop, management"),
    ("tcp_tree/management", "TCP tree, management"),
];
/// Bytes of messages, with their names.
const SIZES: [(u32, &str); 4] =
    [(8, "8"), (4 << 10, "4 KiB"), (64 << 10, "64 KiB"), (1 << 20, "1 MiB")];

/// Writes the sections.
pub(super) fn sections(found: &Figures) -> String {
    let mut text = String::from(JOINS);
    for (name, title) in TIMES {
        let _ = writeln!(text, "| {title} | {} |", times(found, &format!("one_tree/{name}")));
    }
    text += CHANGES;
    for (lab, title) in LABS {
        for (kind, what) in KINDS {
            let name = format!("{lab}/{kind}");
            let of = |what: &str| figure(found, &format!("{name}/{what}"));
            let cells = format!("{} | {} | {}", times(found, &name), of("lost"), of("doubled"));
            let _ = writeln!(text, "| {title} | {what} | {} |", cells.replace(" datagrams", ""));
        }
    }
    for (lab, title) in LABS {
        let of = |what: &str| figure(found, &format!("{lab}/{what}"));
        let (made, sent, seed) = (of("changes/made"), of("changes/sent"), of("seed"));
        let (rate, receivers) = (of("changes/rate"), of("changes/receivers"));
        let _ = writeln!(
            text,
            "\nLab of {title}: {made}, {sent} sent at {rate} to {receivers}, seed {seed}."
        );
    }
    text + &messages(found)
}

fn figure(found: &Figures, name: &str) -> String {
    found.get(name).cloned().unwrap_or_else(|| "-".to_owned())
}

/// A figure without its unit.
fn amount(figure: &str) -> &str {
    figure.split(' ').next().unwrap_or(figure)
}

/// Four cells: number, median, 99th percentile and the largest one.
fn times(found: &Figures, name: &str) -> String {
    let of = |what: &str| figure(found, &format!("{name}/{what}"));
    let count = of("n");
    if amount(&count) == "0" {
        return "0 | none | none | none".to_owned();
    }
    format!("{} | {} | {} | {}", amount(&count), of("median"), of("p99"), of("most"))
}

fn messages(found: &Figures) -> String {
    let mut text = String::from(MESSAGES);
    let titles = SYSTEMS.map(|(_, title)| title).join(" | ");
    let _ = writeln!(text, "| bytes | n | {titles} |\n| ---: | ---: {}|", "| ---: ".repeat(6));
    for (bytes, title) in SIZES {
        let cell = |(system, _): (&str, &str)| {
            let of = |what: &str| found.get(&format!("{system}/{bytes}/{what}"));
            let both = of("median").zip(of("p99"));
            both.map_or("-".to_owned(), |(one, p99)| format!("{} ({})", time(one), time(p99)))
        };
        let count = figure(found, &format!("agents/{bytes}/n"));
        let _ =
            writeln!(text, "| {title} | {} | {} |", amount(&count), SYSTEMS.map(cell).join(" | "));
    }
    text
}

const JOINS: &str = "
## Joins of programs, and new senders

Datagrams come or are sent steadily: 1 000 a second to a program that joins, 200 a second of a new sender. 10 ms of a
join are the kernel's, which waits so long before it sends an IGMP report. A sender that joins nothing sends for 2
seconds; n counts those that a member heard.

| measured | n | median | p99 | most |
| --- | ---: | ---: | ---: | ---: |
";

const CHANGES: &str = "
## Cables that are cut, mended and drained under load

An ordinary program sends to three others. Cables that carry its datagrams are cut and mended, or taken out of service
and back (`fabricast link drain` and `resume`), one after the other and by chance. Datagrams lost by a change are those
of the receiver that lost most; those doubled are of all receivers.

| lab | cable | n | lost, median | p99 | most | sum | doubled |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |
";

const MESSAGES: &str = "
## Messages until all have acknowledged them

Medians (and p99) of messages of one host to the 15 others. *Agents* and *direct* are the two paths of Fabricast
([messages.md](../../messages.md), Paths): the frames of agents go over the management network, a bridge of the kernel that
carries 64 KiB at once; multicast of the direct path goes through the switches. A *TCP loop* sends to all others and
then waits for their answers. In a *TCP tree* each process has two below it and passes pieces on as they come. Both are
measured through the switches, and over the management network.

";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::figures;

    #[test]
    fn changes_and_messages_become_rows() {
        let found = figures(
            "figure one_tree/joins/n 50 times\nfigure one_tree/joins/median 31.5 ms\n\
             figure one_tree/drained/n 3 times\nfigure one_tree/drained/median 0 datagrams\n\
             figure one_tree/drained/p99 1 datagrams\nfigure one_tree/drained/most 2 datagrams\n\
             figure one_tree/drained/lost 3 datagrams\nfigure one_tree/drained/doubled 4 datagrams\n\
             figure two_trees/mended/n 0 times\nfigure two_trees/mended/lost 0 datagrams\n\
             figure two_trees/mended/doubled 0 datagrams\nfigure two_trees/seed 23\n\
             figure agents/8/n 100 times\nfigure agents/8/median 4000 us\n\
             figure agents/8/p99 12000 us\n",
        );
        let text = sections(&found);
        assert!(text.contains("until its first datagram | 50 | 31.5 ms | - | - |\n"), "{text}");
        let row = "| one tree | taken out of service | 3 | 0 | 1 | 2 | 3 | 4 |\n";
        assert!(text.contains(row), "{text}");
        let row = "| two trees | mended | 0 | none | none | none | 0 | 0 |\n";
        assert!(text.contains(row), "{text}");
        assert!(
            text.contains("| two trees | cut, elsewhere | - | - | - | - | - | - |\n"),
            "{text}"
        );
        assert!(text.contains("seed 23.\n"), "{text}");
        let row = "| 8 | 100 | 4.0 ms (12.0 ms) | - | - | - | - | - |\n";
        assert!(text.contains(row), "{text}");
    }
}
