//! A fabric of Open vSwitch with a host at every endpoint, and the switch agent over it.

use std::net::SocketAddr;
use std::sync::Arc;

use fabricast_integration::{Layout, Part};
use fabricast_testing::{Ovs, SwitchPort};
use fabricast_topology::{Graph, Peer, PortSet, TableKind};

use crate::labs::{self, End, name, plug_all};
use crate::program::binary;

/// The fabric of a layout. Switch `S-...` is the bridge `s<number>`.
pub(crate) struct Lab {
    pub(crate) ovs: Ovs,
    graph: Arc<Graph>,
}

impl Lab {
    pub(crate) fn start(layout: &Layout) -> Self {
        let graph = Arc::clone(&layout.graph);
        let mut ovs = Ovs::start();
        for switch in graph.switches() {
            let guid = graph.switch_name(switch).trim_start_matches("S-");
            ovs.add_switch(&name(switch.0), u64::from_str_radix(guid, 16).unwrap());
        }
        plug_all(&graph, |near, far| match far {
            End::Host { name, address } => ovs.add_host(name, address, near),
            End::Switch(far) => ovs.connect(near, far),
        });
        Self { ovs, graph }
    }

    /// Name of the bridge of a switch.
    pub(crate) fn bridge(&self, node: &str) -> String {
        name(self.graph.find_switch(node).unwrap().0)
    }

    /// Ports of a switch that lead to hosts.
    pub(crate) fn endpoint_ports(&self, node: &str) -> PortSet {
        let ports = self.graph.ports(self.graph.find_switch(node).unwrap());
        let ports = ports.filter(|port| matches!(self.graph.peer(*port), Peer::Endpoint(_)));
        ports.map(|port| self.graph.port_number(port)).collect()
    }

    /// Node id of the switch of a host.
    pub(crate) fn leaf(&self, host: &str) -> String {
        let endpoint = self.graph.find_endpoint(host).unwrap();
        let port = self.graph.attachment(endpoint).expect("every host has a switch");
        self.graph.switch_name(self.graph.switch_of(port)).to_owned()
    }

    /// The ports that each failover group of a switch watches, in their order.
    pub(crate) fn ways(&self, node: &str) -> Vec<Vec<u32>> {
        let groups = self.ovs.ofctl("dump-groups", &self.bridge(node), &[]);
        let port = |rest: &str| rest.split(',').next().unwrap().parse().unwrap();
        let ways = |line: &str| line.split("watch_port:").skip(1).map(port).collect();
        groups.lines().filter(|line| line.contains("type=ff")).map(ways).collect()
    }

    /// The port at the other end of a cable: node id and number.
    pub(crate) fn far_end(&self, node: &str, number: u32) -> (String, u32) {
        let switch = self.graph.find_switch(node).unwrap();
        let port = self.graph.port(switch, u8::try_from(number).unwrap()).unwrap();
        let Peer::Switch(far) = self.graph.peer(port) else { panic!("{node}:{number}") };
        let name = self.graph.switch_name(self.graph.switch_of(far)).to_owned();
        (name, u32::from(self.graph.port_number(far)))
    }

    /// Takes the cable at a port out, or puts it in again.
    pub(crate) fn set_link(&self, node: &str, number: u32, is_up: bool) {
        self.ovs.set_link(SwitchPort { switch: &self.bridge(node), number }, is_up);
    }

    /// Starts a switch agent.
    pub(crate) async fn agent(&self, layout: &Layout, tic: SocketAddr) -> Part {
        let bridges: Vec<_> = self.graph.switches().map(|switch| name(switch.0)).collect();
        let target = |bridge: &String| format!("unix:{}", self.ovs.socket(bridge).display());
        let connect: Vec<String> = bridges.iter().map(target).collect();
        let tables = match layout.tables {
            TableKind::PerPort => "per-port",
            TableKind::PerSwitch => "per-switch",
        };
        let options = format!(
            "topology = 'in memory'\nconnect = {connect:?}\ntables = '{tables}'\ncolors = {}\n\
             fault_tolerant = {}\ntimeout = '10s'\ngrace = '1s'",
            layout.colors, layout.fault_tolerant
        );
        labs::start_agent(labs::settings("openflow", &options, tic), &self.graph).await
    }

    /// Has a program on one host send by a color, and counts what programs on all others receive:
    /// datagrams by endpoint, and datagrams that came more than once.
    pub(crate) fn carry(&self, from: &str, color: u32) -> (Vec<(String, usize)>, usize) {
        labs::carry(&self.graph, |host| self.ovs.command(host, binary()), from, color)
    }
}
