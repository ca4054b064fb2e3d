//! Describes a cycle of channels that wait for each other, with names instead of numbers.

use std::fmt;

use fabricast_routing::verify::Cycle;
use fabricast_topology::Graph;
use serde::Serialize;

/// Groups of a turn that the text names.
const NAMED: usize = 3;

/// A cycle of channels, and what it means on this fabric.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Deadlock {
    severity: Severity,
    /// Unicast packets that go up and then down have a part in it.
    with_unicast: bool,
    turns: Vec<Turn>,
}

/// Meaning of a cycle on this fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Severity {
    /// Links are lossless: the packets of the cycle can stop for ever.
    Violation,
    /// On links that drop what finds no room nothing stops.
    Warning,
}

/// A turn that packets make in one switch.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Turn {
    switch: String,
    in_port: u8,
    out_port: u8,
    /// Left out for unicast packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    color: Option<u16>,
    groups: Vec<u32>,
}

impl Deadlock {
    pub(super) fn new(graph: &Graph, cycle: &Cycle, is_lossless: bool) -> Self {
        let turns = cycle.turns.iter().map(|turn| Turn {
            switch: graph.switch_name(turn.switch).to_owned(),
            in_port: turn.in_port,
            out_port: turn.out_port,
            color: turn.color,
            groups: turn.groups.iter().map(|mgid| mgid.0).collect(),
        });
        Self {
            severity: if is_lossless { Severity::Violation } else { Severity::Warning },
            with_unicast: !cycle.is_of_multicast(),
            turns: turns.collect(),
        }
    }

    pub(super) fn is_violation(&self) -> bool {
        self.severity == Severity::Violation
    }
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.severity {
            Severity::Violation => "DEADLOCK: packets can wait for each other for ever",
            Severity::Warning => "warning: on a lossless fabric packets could deadlock",
        })?;
        f.write_str(if self.with_unicast { ", unicast packets among them:" } else { ":" })?;
        for Turn { switch, in_port, out_port, color, groups } in &self.turns {
            write!(f, "\n  {switch}: in by port {in_port}, out by port {out_port}, ")?;
            match color {
                None => f.write_str("unicast")?,
                Some(color) => {
                    let named: Vec<String> =
                        groups.iter().take(NAMED).map(ToString::to_string).collect();
                    write!(f, "color {color}, groups {}", named.join(", "))?;
                    if groups.len() > NAMED {
                        write!(f, " and {} more", groups.len() - NAMED)?;
                    }
                }
            }
        }
        Ok(())
    }
}
