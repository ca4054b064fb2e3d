//! A fabric of Open vSwitch with a host at every endpoint, and the switch agent over it.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use fabricast_config::{DriverName, RawSwitchAgentConfig, SwitchAgentConfig, checked};
use fabricast_integration::{Bound, Layout, Part};
use fabricast_rpc::Security;
use fabricast_switch::{App, DriverContext, open_driver};
use fabricast_testing::{Ovs, OvsPort};
use fabricast_topology::{Graph, Peer, PortSet, TableKind};

use crate::program::{Listener, binary, send};

/// Address of color 0, as the driver has it by default.
const ADDRESSES: u32 = 0xefc0_0000;

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
            ovs.add_switch(&bridge(switch.0), u64::from_str_radix(guid, 16).unwrap());
        }
        for switch in graph.switches() {
            for port in graph.ports(switch) {
                let own = bridge(switch.0);
                let near = OvsPort { switch: &own, number: u32::from(graph.port_number(port)) };
                match graph.peer(port) {
                    Peer::Endpoint(endpoint) => {
                        let name = graph.endpoint_name(endpoint);
                        ovs.add_host(name, address(endpoint.0), near);
                    }
                    Peer::Switch(far) if port < far => {
                        let other = bridge(graph.switch_of(far).0);
                        let number = u32::from(graph.port_number(far));
                        ovs.connect(near, OvsPort { switch: &other, number });
                    }
                    Peer::Switch(_) | Peer::None => {}
                }
            }
        }
        Self { ovs, graph }
    }

    /// Name of the bridge of a switch.
    pub(crate) fn bridge(&self, node: &str) -> String {
        bridge(self.graph.find_switch(node).unwrap().0)
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
        self.ovs.set_link(OvsPort { switch: &self.bridge(node), number }, is_up);
    }

    /// Starts a switch agent.
    pub(crate) async fn agent(&self, layout: &Layout, tic: SocketAddr) -> Part {
        let bridges: Vec<_> = self.graph.switches().map(|switch| bridge(switch.0)).collect();
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
        let graph = Arc::clone(&self.graph);
        let settings = RawSwitchAgentConfig {
            name: Some("openflow".to_owned()),
            tic: [tic].into_iter().collect(),
            driver: DriverName::Other("openflow".to_owned()),
            driver_options: options.parse().unwrap(),
            ..RawSwitchAgentConfig::default()
        };
        Part::start("switch-agent", move |listen| {
            let config = RawSwitchAgentConfig { listen, ..settings.clone() };
            let config = checked::<SwitchAgentConfig>(config).unwrap();
            let graph = Arc::clone(&graph);
            async move {
                let security = Security::plaintext();
                let read_topology = |_: &Path| Ok(Arc::clone(&graph));
                let context = DriverContext {
                    hardware: &config.hardware,
                    security: &security,
                    read_topology: &read_topology,
                };
                let driver = open_driver(&context).map_err(|error| error.to_string())?;
                let app = App::bind(config, security, driver).map_err(|error| error.to_string())?;
                Ok(Bound::new(app.address(), |stop| app.run(stop)))
            }
        })
        .await
    }

    /// Has a program on one host send by a color, and counts what programs on all others receive:
    /// datagrams by endpoint, and datagrams that came more than once.
    pub(crate) fn carry(
        &self,
        from: &str,
        color: u32,
        count: u32,
    ) -> (Vec<(String, usize)>, usize) {
        let group = Ipv4Addr::from(ADDRESSES + color);
        let (mut listeners, mut source) = (Vec::new(), None);
        for endpoint in self.graph.endpoints() {
            let name = self.graph.endpoint_name(endpoint);
            if name == from {
                source = Some(address(endpoint.0));
                continue;
            }
            let command = self.ovs.command(name, binary());
            let listener = Listener::start(command, address(endpoint.0), group);
            listeners.push((name.to_owned(), listener));
        }
        send(self.ovs.command(from, binary()), source.expect("an endpoint"), group, count);
        let (mut received, mut twice) = (Vec::new(), 0);
        for (name, listener) in listeners {
            let (once, again) = listener.end();
            received.push((name, once));
            twice += again;
        }
        (received, twice)
    }
}

fn bridge(number: u32) -> String {
    format!("s{number}")
}

fn address(endpoint: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0001 + endpoint)
}
