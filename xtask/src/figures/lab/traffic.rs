//! The bytes that collective operations of MPI put on the links of the lab, by Open MPI's own
//! algorithms and through Fabricast.
//!
//! `deploy/lab/traffic` counts, while the ranks of `deploy/lab/traffic.c` run operations.

use std::fmt::Write as _;

use crate::figures::Figures;

/// Operations as they are named in figures, and whether there is a goal for their busiest link.
const OPERATIONS: [(&str, bool); 3] =
    [("broadcast", true), ("all-gather", true), ("all-reduce", false)];
/// Bytes of a broadcast, or of what each rank gives, with their name.
const SIZES: [(u32, &str); 2] = [(1 << 16, "64 KiB"), (1 << 20, "1 MiB")];
/// The goal: bytes over the busiest link, of those of Open MPI.
const MOST_SHARE: f64 = 0.25;

/// The bytes of one operation on the links of both networks.
struct Bytes {
    fabric: f64,
    management: f64,
}

impl Bytes {
    /// - `links`: `busiest` or `all`.
    fn find(found: &Figures, name: &str, links: &str) -> Option<Self> {
        let of = |network: &str| {
            let figure = found.get(&format!("{name}/{network}_{links}"))?;
            figure.strip_suffix(" bytes")?.parse::<f64>().ok()
        };
        Some(Self { fabric: of("fabric")?, management: of("management")? })
    }
}

/// Writes the section of the page.
pub(super) fn section(found: &Figures) -> String {
    format!("{HEAD}{}{ALL}{}", table(found, "busiest"), table(found, "all"))
}

/// The rows of one kind of links.
fn table(found: &Figures, links: &str) -> String {
    let mut text = String::new();
    for (operation, has_goal) in OPERATIONS {
        for (size, title) in SIZES {
            let of =
                |system: &str| Bytes::find(found, &format!("{system}/{operation}_{size}"), links);
            let Some((theirs, ours)) = of("openmpi").zip(of("fabricast")) else {
                let _ = writeln!(text, "| {operation} | {title} | - | - | - | - | - |");
                continue;
            };
            let (theirs, last) = if links == "busiest" {
                let theirs = theirs.fabric.max(theirs.management);
                let share = ours.fabric.max(ours.management) / theirs;
                let met = if share <= MOST_SHARE { "met" } else { "missed" };
                let goal =
                    if has_goal { format!("{MOST_SHARE}: {met}") } else { "none".to_owned() };
                (theirs, format!("{share:.2} | {goal}"))
            } else {
                let theirs = theirs.fabric + theirs.management;
                let gain = theirs / (ours.fabric + ours.management);
                let published = if operation == "all-gather" { "2x" } else { "none" };
                (theirs, format!("{gain:.2}x | {published}"))
            };
            let theirs = kibibytes(theirs);
            let (fabric, management) = (kibibytes(ours.fabric), kibibytes(ours.management));
            let _ = writeln!(
                text,
                "| {operation} | {title} | {theirs} | {fabric} | {management} | {last} |"
            );
        }
    }
    text
}

fn kibibytes(bytes: f64) -> String {
    format!("{:.1}", bytes / 1024.0)
}

const HEAD: &str = "
## Bytes on links: collective operations of MPI

A rank on each host, MTU 1500: Open MPI 4.1 by its own choice of algorithms over TCP through the switches, and
`coll/fabricast` on the same hosts.

- A link is one direction of a cable; headers, acknowledgements and what is sent again count. The ports of the
  switches count, each port what it sends, and those at hosts also what they receive.
- Fabricast's processes send reports, contributions and acknowledgements to each other over the *management network*,
  which the switches do not see: the hosts count these, and the link of a host there is a link as any other.
- Each figure is of one operation, the mean of 10 of 64 KiB or 3 of 1 MiB. What an idle interval of the same length
  carries (heartbeats, reports to the control plane) is taken off, link by link. Some small messages of Open MPI that
  begin and end a measurement are in the figures of both.
- Broadcasts are of rank 0. Which member is the root of Fabricast's tree depends on the order in which ranks join.
- A cable carries what its host needs, so the busiest link of an all-gather has the blocks of the 15 other hosts at
  least, by any algorithm: a quarter of Open MPI's is within reach only where Open MPI has 60 blocks there.
- On all links, a block that is multicast crosses 28 at least: those of 16 hosts and 12 between switches. The blocks of
  a ring of hosts in their order cross 840 links together, those of multicast 448.

### The busiest link

In KiB. Share: the busier of Fabricast's two over Open MPI's. The goal is a quarter at most, for broadcast and
all-gather.

| operation | bytes | Open MPI | Fabricast, fabric | Fabricast, management | share | goal |
| --- | ---: | ---: | ---: | ---: | ---: | --- |
";

const ALL: &str = "
### All links

In KiB. Gain: Open MPI's over the sum of Fabricast's. The published one is that of multicast all-gather on 188 nodes
(Khalilov et al., arXiv 2408.13356), on another fabric; [all-gather](../all-gather/comparison.md) has that number of nodes
on the simulator.

| operation | bytes | Open MPI | Fabricast, fabric | Fabricast, management | gain | published |
| --- | ---: | ---: | ---: | ---: | ---: | --- |
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::figures;

    #[test]
    fn the_busier_network_decides_on_the_share_and_both_count_on_all_links() {
        let found = figures(
            "figure openmpi/broadcast_65536/fabric_busiest 262144 bytes\n\
             figure openmpi/broadcast_65536/management_busiest 0 bytes\n\
             figure openmpi/broadcast_65536/fabric_all 3072000 bytes\n\
             figure openmpi/broadcast_65536/management_all 0 bytes\n\
             figure fabricast/broadcast_65536/fabric_busiest 65536 bytes\n\
             figure fabricast/broadcast_65536/management_busiest 131072 bytes\n\
             figure fabricast/broadcast_65536/fabric_all 1024000 bytes\n\
             figure fabricast/broadcast_65536/management_all 512000 bytes\n",
        );
        let busiest = table(&found, "busiest");
        let row = "| broadcast | 64 KiB | 256.0 | 64.0 | 128.0 | 0.50 | 0.25: missed |\n";
        assert!(busiest.starts_with(row), "{busiest}");
        let all = table(&found, "all");
        let row = "| broadcast | 64 KiB | 3000.0 | 1000.0 | 500.0 | 2.00x | none |\n";
        assert!(all.starts_with(row), "{all}");
    }

    #[test]
    fn a_quarter_meets_the_goal_and_operations_that_were_not_counted_are_dashes() {
        let mut text = String::new();
        for (system, bytes) in [("openmpi", 400), ("fabricast", 100)] {
            for network in ["fabric", "management"] {
                let name = format!("{system}/all-gather_1048576/{network}_busiest");
                let _ = writeln!(text, "figure {name} {bytes} bytes");
            }
        }
        let page = section(&figures(&text));
        assert!(
            page.contains("| all-gather | 1 MiB | 0.4 | 0.1 | 0.1 | 0.25 | 0.25: met |"),
            "{page}"
        );
        assert!(page.contains("| all-reduce | 1 MiB | - | - | - | - | - |"), "{page}");
    }
}
