//! Table rows and cables in the shape a walk wants.

use fabricast_topology::{Faults, Graph, Peer, PortId, PortSet, SwitchId, TableEntry, TableKind};

use super::{Options, RowKey, Violation};

/// Place where a copy that leaves by a port arrives.
pub(super) enum Hop {
    Nowhere,
    Switch(u32),
    Endpoint(u32),
}

/// The far ends of all live cables.
pub(super) struct Hops {
    peers: Vec<Peer>,
}

impl Hops {
    pub(super) fn new(graph: &Graph, faults: &Faults) -> Self {
        let peer = |port| {
            if faults.port_is_live(graph, port) { graph.peer(port) } else { Peer::None }
        };
        Self { peers: graph.switches().flat_map(|switch| graph.ports(switch)).map(peer).collect() }
    }

    pub(super) fn is_live(&self, port: PortId) -> bool {
        self.peers[port.index()] != Peer::None
    }

    pub(super) fn from(&self, port: u32) -> Hop {
        match self.peers[port as usize] {
            Peer::None => Hop::Nowhere,
            Peer::Switch(port) => Hop::Switch(port.0),
            Peer::Endpoint(endpoint) => Hop::Endpoint(endpoint.0),
        }
    }
}

/// All rows, found by input port (per-port tables) or switch, then entry number.
pub(super) struct Rows {
    tables: TableKind,
    first: Vec<u32>, // by port or switch, one more
    keys: Vec<RowKey>,
    colors: Vec<u16>,
    outs: Vec<PortSet>,
    port_switch: Vec<u32>,
    switch_port: Vec<u32>, // by switch: its first port
}

impl Rows {
    pub(super) fn new(
        graph: &Graph,
        entries: &[TableEntry],
        options: Options,
        mut note: impl FnMut(Violation),
    ) -> Self {
        let tables = options.tables;
        let count = match tables {
            TableKind::PerPort => graph.port_count(),
            TableKind::PerSwitch => graph.switch_count(),
        };
        let mut found: Vec<(u32, RowKey, PortSet)> = Vec::with_capacity(entries.len());
        for entry in entries {
            let TableEntry { switch, in_port, color, out } = *entry;
            let row = RowKey { switch, in_port, color };
            if color >= options.colors {
                note(Violation::EntryOutOfRange { row });
                continue;
            }
            let table = match tables {
                TableKind::PerPort => graph.port(switch, in_port).map(|port| port.0),
                TableKind::PerSwitch => Some(switch.0),
            };
            let unknown = out.iter().find(|port| graph.port(switch, *port).is_none());
            match (table, unknown) {
                (Some(table), None) => found.push((table, row, out)),
                (_, Some(port)) => note(Violation::UnknownPort { row, port }),
                (None, None) => note(Violation::UnknownPort { row, port: in_port }),
            }
        }
        found.sort_by_key(|(table, row, _)| (*table, row.color)); // stable: the first of two wins
        found.dedup_by(|b, a| {
            let same = (a.0, a.1.color) == (b.0, b.1.color);
            if same {
                note(Violation::DuplicateEntry { row: b.1 });
            }
            same
        });
        let mut first = vec![0u32; count + 1];
        for (table, ..) in &found {
            first[*table as usize + 1] += 1;
        }
        for at in 0..count {
            first[at + 1] += first[at];
        }
        let switch_port =
            graph.switches().map(|switch| graph.ports(switch).next().map_or(0, |port| port.0));
        let ports = graph.switches().flat_map(|switch| graph.ports(switch).map(move |_| switch.0));
        Self {
            tables,
            first,
            colors: found.iter().map(|(_, row, _)| row.color).collect(),
            outs: found.iter().map(|(.., out)| *out).collect(),
            keys: found.into_iter().map(|(_, row, _)| row).collect(),
            port_switch: ports.collect(),
            switch_port: switch_port.collect(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Walks all rows: the number, the input port if there is a table for each, the port whose
    /// number is 1, and the output ports.
    pub(super) fn each(&self, mut each: impl FnMut(usize, Option<u32>, u32, PortSet)) {
        for (table, range) in (0u32..).zip(self.first.windows(2)) {
            for row in range[0] as usize..range[1] as usize {
                let in_port = (self.tables == TableKind::PerPort).then_some(table);
                let first = self.switch_port[self.keys[row].switch.index()];
                each(row, in_port, first, self.outs[row]);
            }
        }
    }

    /// Lists the rows that packets which come in by a port can meet.
    pub(super) fn of(&self, in_port: u32) -> std::ops::Range<usize> {
        let table = match self.tables {
            TableKind::PerPort => in_port,
            TableKind::PerSwitch => self.port_switch[in_port as usize],
        } as usize;
        self.first[table] as usize..self.first[table + 1] as usize
    }

    pub(super) fn is_per_port(&self) -> bool {
        self.tables == TableKind::PerPort
    }

    /// Returns the output ports of a row.
    pub(super) fn out(&self, row: usize) -> PortSet {
        self.outs[row]
    }

    pub(super) fn key(&self, row: usize) -> RowKey {
        self.keys[row]
    }

    /// Finds the row for packets of a color that come in by a port.
    pub(super) fn find(&self, in_port: u32, color: u16) -> Option<usize> {
        let rows = self.of(in_port);
        let at = self.colors[rows.clone()].binary_search(&color).ok()?;
        Some(rows.start + at)
    }

    /// Walks the ports by which copies leave.
    pub(super) fn outputs(&self, row: usize, in_port: u32, mut each: impl FnMut(u32)) {
        let SwitchId(switch) = self.keys[row].switch;
        let first = self.switch_port[switch as usize];
        let mut base = first.wrapping_sub(1); // physical numbers start at 1
        for mut bits in self.outs[row].words() {
            while bits != 0 {
                let out = base.wrapping_add(bits.trailing_zeros());
                bits &= bits - 1;
                if self.tables == TableKind::PerPort || out != in_port {
                    each(out);
                }
            }
            base = base.wrapping_add(64);
        }
    }
}
