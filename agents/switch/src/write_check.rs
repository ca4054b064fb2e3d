//! Checks a write before anything is sent to the hardware.
//!
//! The part of a switch is accepted or refused as a whole, so its first problem decides.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_proto::v1;
use fabricast_rpc::Reason;
use thiserror::Error;

/// Splits a write into parts for the hardware and refusals, each in the order of the request.
///
/// A switch that is named twice is refused once, and neither of its parts is written: only the
/// writer can say which one should win.
pub(crate) fn split_writes(
    switches: &BTreeMap<String, v1::Switch>,
    writes: Vec<v1::SwitchWrite>,
) -> (Vec<v1::SwitchWrite>, Vec<v1::SwitchRefusal>) {
    let (mut seen, mut doubled) = (BTreeSet::new(), BTreeSet::new());
    for write in &writes {
        if !seen.insert(write.switch_name.clone()) {
            doubled.insert(write.switch_name.clone());
        }
    }
    let (mut accepted, mut refusals) = (Vec::with_capacity(writes.len()), Vec::new());
    for write in writes {
        let first_mention = seen.remove(&write.switch_name);
        let checked = match switches.get(&write.switch_name) {
            None => Err((Reason::UnknownSwitch, Problem::UnknownSwitch)),
            Some(_) if doubled.contains(&write.switch_name) => {
                Err((Reason::BadEntry, Problem::SwitchTwice))
            }
            Some(switch) => {
                check_entries(switch, &write.entries).map_err(|bad| (Reason::BadEntry, bad))
            }
        };
        match checked {
            Ok(()) => accepted.push(write),
            Err((reason, problem)) if first_mention => refusals.push(v1::SwitchRefusal {
                switch_name: write.switch_name,
                reason: reason.text().to_owned(),
                message: problem.to_string(),
            }),
            Err(_) => {}
        }
    }
    (accepted, refusals)
}

/// Checks entries against what the switch offers.
fn check_entries(switch: &v1::Switch, entries: &[v1::TableEntry]) -> Result<(), Problem> {
    let per_switch = switch.table_kind() == v1::TableKind::PerSwitch;
    let ports = switch.port_count;
    let mut keys = BTreeSet::new();
    for entry in entries {
        let v1::TableEntry { in_port, color, out_ports } = entry;
        let (in_port, color) = (*in_port, *color);
        if color >= switch.colors {
            return Err(Problem::Color { color, colors: switch.colors });
        }
        if per_switch && in_port != 0 {
            return Err(Problem::InPortOfWholeSwitch { in_port, color });
        }
        if !per_switch && !(1..=ports).contains(&in_port) {
            return Err(Problem::InPort { in_port, color, ports });
        }
        if let Some(&port) = out_ports.iter().find(|port| !(1..=ports).contains(*port)) {
            return Err(Problem::OutPort { port, in_port, color, ports });
        }
        if !out_ports.is_sorted_by(|before, after| before < after) {
            return Err(Problem::OutPortOrder { in_port, color });
        }
        if !keys.insert((in_port, color)) {
            return Err(Problem::EntryTwice { in_port, color });
        }
    }
    Ok(())
}

/// Reason why the part of a switch is refused.
#[derive(Debug, PartialEq, Eq, Error)]
enum Problem {
    #[error("no such switch at this agent")]
    UnknownSwitch,
    #[error("the switch has two parts in one request")]
    SwitchTwice,
    #[error("entries.color {color} is not below {colors}")]
    Color { color: u32, colors: u32 },
    #[error("entries.in_port {in_port} of color {color} is not a port from 1 to {ports}")]
    InPort { in_port: u32, color: u32, ports: u32 },
    #[error("entries.in_port {in_port} of color {color} must be 0 with per-switch tables")]
    InPortOfWholeSwitch { in_port: u32, color: u32 },
    #[error(
        "entries.out_ports {port} of in_port {in_port}, color {color} is not a port from 1 to {ports}"
    )]
    OutPort { port: u32, in_port: u32, color: u32, ports: u32 },
    #[error("entries.out_ports of in_port {in_port}, color {color} do not ascend")]
    OutPortOrder { in_port: u32, color: u32 },
    #[error("two entries for in_port {in_port}, color {color}")]
    EntryTwice { in_port: u32, color: u32 },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch(kind: v1::TableKind) -> v1::Switch {
        v1::Switch {
            name: "S-1".into(),
            port_count: 4,
            table_kind: kind.into(),
            colors: 8,
            ..v1::Switch::default()
        }
    }

    fn entry(in_port: u32, color: u32, out_ports: &[u32]) -> v1::TableEntry {
        v1::TableEntry { in_port, color, out_ports: out_ports.to_vec() }
    }

    fn part(switch_name: &str, entries: &[v1::TableEntry]) -> v1::SwitchWrite {
        v1::SwitchWrite { switch_name: switch_name.into(), entries: entries.to_vec() }
    }

    #[test]
    fn entries_within_the_table_are_accepted() {
        let highest = [entry(4, 7, &[1, 2, 3, 4]), entry(1, 0, &[])];
        assert_eq!(check_entries(&switch(v1::TableKind::PerPort), &highest), Ok(()));
        let whole = [entry(0, 7, &[1, 4])];
        assert_eq!(check_entries(&switch(v1::TableKind::PerSwitch), &whole), Ok(()));
    }

    #[test]
    fn the_first_wrong_entry_is_named() {
        let per_port = switch(v1::TableKind::PerPort);
        let check = |bad| check_entries(&per_port, &[entry(1, 1, &[2]), bad]).unwrap_err();
        assert_eq!(check(entry(1, 8, &[2])), Problem::Color { color: 8, colors: 8 });
        let in_port = |in_port| Problem::InPort { in_port, color: 2, ports: 4 };
        assert_eq!(check(entry(0, 2, &[2])), in_port(0));
        assert_eq!(check(entry(5, 2, &[2])), in_port(5));
        let out_port = |port| Problem::OutPort { port, in_port: 3, color: 2, ports: 4 };
        assert_eq!(check(entry(3, 2, &[0, 1])), out_port(0));
        assert_eq!(check(entry(3, 2, &[1, 5])), out_port(5));
        let order = Problem::OutPortOrder { in_port: 3, color: 2 };
        assert_eq!(check(entry(3, 2, &[2, 1])), order);
        assert_eq!(check(entry(3, 2, &[2, 2])), order);
        assert_eq!(check(entry(1, 1, &[3])), Problem::EntryTwice { in_port: 1, color: 1 });
        let whole = check_entries(&switch(v1::TableKind::PerSwitch), &[entry(1, 1, &[2])]);
        assert_eq!(whole, Err(Problem::InPortOfWholeSwitch { in_port: 1, color: 1 }));
    }

    #[test]
    fn a_bad_part_is_refused_and_the_others_are_accepted() {
        let known: BTreeMap<_, _> = ["S-1", "S-2", "S-3"]
            .map(|name| (name.to_owned(), switch(v1::TableKind::PerPort)))
            .into();
        let good = entry(1, 1, &[2]);
        let writes = vec![
            part("S-2", std::slice::from_ref(&good)),
            part("S-9", std::slice::from_ref(&good)),
            part("S-1", std::slice::from_ref(&good)),
            part("S-2", &[]),
            part("S-3", &[good, entry(1, 9, &[2])]),
        ];
        let (accepted, refusals) = split_writes(&known, writes);
        assert_eq!(accepted.iter().map(|part| &*part.switch_name).collect::<Vec<_>>(), ["S-1"]);
        let refused: Vec<_> =
            refusals.iter().map(|refusal| (&*refusal.switch_name, &*refusal.reason)).collect();
        let bad = "BAD_ENTRY";
        assert_eq!(refused, [("S-2", bad), ("S-9", "UNKNOWN_SWITCH"), ("S-3", bad)]);
    }
}
