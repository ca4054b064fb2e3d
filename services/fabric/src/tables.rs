//! Tables, ports and counters of switches, between the wire and the emulator.

use fabricast_emulator::{EntryWrite, Fence, TableProblem};
use fabricast_proto::v1;
use fabricast_rpc::Reason;
use fabricast_topology::{Peer, SwitchId, TableKind};
use thiserror::Error;

use crate::fabric::{Core, Fabric};
use crate::wire::{self, Refusal};

/// A switch has seen a newer fence; nothing was written.
#[derive(Debug, PartialEq, Eq, Error)]
#[error(
    "fence (term {}, generation {}) is older than (term {}, generation {}) at switch {switch}",
    offered.term, offered.generation, seen.term, seen.generation
)]
pub(crate) struct StaleFence {
    pub(crate) switch: String,
    pub(crate) offered: Fence,
    pub(crate) seen: Fence,
}

/// Lists all switches by node id.
pub(crate) fn list(fabric: &Fabric) -> Vec<v1::Switch> {
    let graph = &fabric.graph;
    let core = fabric.core();
    let mut switches: Vec<_> = graph
        .switches()
        .map(|switch| v1::Switch {
            name: graph.switch_name(switch).to_owned(),
            description: graph.switch_description(switch).to_owned(),
            port_count: u32::try_from(graph.ports(switch).len()).expect("at most 255 ports"),
            table_kind: wire::table_kind(core.emulator.table_kind()).into(),
            colors: fabric.colors.into(),
            live: core.emulator.faults().switch_is_live(switch),
            used_entries: used_entries(fabric, &core, switch).into(),
        })
        .collect();
    drop(core);
    switches.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    switches
}

/// Counts the entries in the fullest table of a switch; a dead one holds none.
fn used_entries(fabric: &Fabric, core: &Core, switch: SwitchId) -> u16 {
    let used = |in_port| {
        let free = core.emulator.free_entries(switch, in_port);
        free.map_or(0, |free| fabric.colors - free)
    };
    match core.emulator.table_kind() {
        TableKind::PerSwitch => used(0),
        TableKind::PerPort => {
            let ports = fabric.graph.ports(switch);
            ports.map(|port| used(fabric.graph.port_number(port))).max().unwrap_or(0)
        }
    }
}

/// Finds the switches to read, all of them if no names are given.
pub(crate) fn find_all(fabric: &Fabric, names: &[String]) -> Result<Vec<SwitchId>, Refusal> {
    if names.is_empty() {
        return Ok(fabric.graph.switches().collect());
    }
    names.iter().map(|name| wire::switch(&fabric.graph, name)).collect()
}

/// Reads the table of a switch; `None` if it is dead.
pub(crate) fn read(fabric: &Fabric, switch: SwitchId) -> Option<v1::SwitchTable> {
    let core = fabric.core();
    let entries = core.emulator.read_table(switch).ok()?;
    let fence = core.emulator.fence(switch).ok()?;
    drop(core);
    Some(v1::SwitchTable {
        switch_name: fabric.graph.switch_name(switch).to_owned(),
        entries: entries.iter().map(wire::entry).collect(),
        fence: wire::fence(fence),
    })
}

/// Writes to switches, each part all or nothing; nothing at all if the writer is out of date.
pub(crate) fn write(
    fabric: &Fabric,
    fence: Fence,
    writes: &[v1::SwitchWrite],
) -> Result<v1::WriteSwitchTablesResponse, StaleFence> {
    let mut answer = v1::WriteSwitchTablesResponse::default();
    let mut core = fabric.core();
    // One stale part shows that the writer as a whole is (FAB-3).
    for write in writes {
        let switch = fabric.graph.find_switch(&write.switch_name);
        let seen = switch.and_then(|switch| core.emulator.fence(switch).ok());
        if let Some(seen) = seen.filter(|seen| fence < *seen) {
            return Err(StaleFence { switch: write.switch_name.clone(), offered: fence, seen });
        }
    }
    for write in writes {
        match write_one(fabric, &mut core, fence, write) {
            Ok(entries) => answer.written_entries += entries,
            Err((reason, message)) => answer.refusals.push(v1::SwitchRefusal {
                switch_name: write.switch_name.clone(),
                reason: reason.text().to_owned(),
                message,
            }),
        }
    }
    Ok(answer)
}

fn write_one(
    fabric: &Fabric,
    core: &mut Core,
    fence: Fence,
    write: &v1::SwitchWrite,
) -> Result<u64, (Reason, String)> {
    let switch = wire::switch(&fabric.graph, &write.switch_name)
        .map_err(|unknown| (Reason::UnknownSwitch, unknown.to_string()))?;
    if fabric.write_behaviors.fails(switch) {
        return Err((Reason::WriteFailed, "the switch does not keep what is written".to_owned()));
    }
    let entries: Vec<EntryWrite> = write
        .entries
        .iter()
        .map(wire::entry_write)
        .collect::<Result<_, _>>()
        .map_err(|wrong| (Reason::BadEntry, wrong))?;
    match core.emulator.write_table(switch, fence, &entries) {
        Ok(()) => Ok(u64::try_from(entries.len()).expect("a length fits in 64 bits")),
        Err(error) => {
            let reason = match error.problem {
                TableProblem::Unknown => Reason::UnknownSwitch,
                TableProblem::Dead => Reason::SwitchDown,
                TableProblem::StaleFence { .. } => Reason::StaleFence,
                TableProblem::Entry { .. } => Reason::BadEntry,
            };
            Err((reason, error.problem.to_string()))
        }
    }
}

/// Lists the ports of a switch.
pub(crate) fn ports(fabric: &Fabric, name: &str) -> Result<Vec<v1::PortStatus>, Refusal> {
    let graph = &fabric.graph;
    let switch = wire::switch(graph, name)?;
    let core = fabric.core();
    let ports = graph.ports(switch).map(|port| {
        let (peer, peer_port) = match graph.peer(port) {
            Peer::None => (String::new(), 0),
            Peer::Endpoint(endpoint) => (graph.endpoint_name(endpoint).to_owned(), 0),
            Peer::Switch(other) => {
                let name = graph.switch_name(graph.switch_of(other)).to_owned();
                (name, graph.port_number(other).into())
            }
        };
        let counters = core.emulator.counters(port);
        v1::PortStatus {
            port: graph.port_number(port).into(),
            peer,
            peer_port,
            live: core.emulator.port_is_up(port),
            received_packets: counters.received,
            sent_packets: counters.sent,
            dropped_packets: counters.dropped,
        }
    });
    Ok(ports.collect())
}

/// Reads the counters of a switch; `None` if it is dead.
pub(crate) fn counters(fabric: &Fabric, switch: SwitchId) -> Option<v1::SwitchCounters> {
    let graph = &fabric.graph;
    let core = fabric.core();
    if !core.emulator.faults().switch_is_live(switch) {
        return None;
    }
    let ports = graph.ports(switch).map(|port| {
        let counters = core.emulator.counters(port);
        v1::PortCounters {
            port: graph.port_number(port).into(),
            received_packets: counters.received,
            sent_packets: counters.sent,
            received_bytes: counters.received_bytes,
            sent_bytes: counters.sent_bytes,
            dropped_packets: counters.dropped,
        }
    });
    let switch_name = graph.switch_name(switch).to_owned();
    Some(v1::SwitchCounters { switch_name, ports: ports.collect() })
}
