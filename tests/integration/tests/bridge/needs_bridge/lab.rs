//! A fabric of Linux bridges with a host at every endpoint, and the switch agent over it.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use fabricast_config::{DriverName, RawSwitchAgentConfig, SwitchAgentConfig, checked};
use fabricast_integration::{Bound, Layout, Part};
use fabricast_rpc::Security;
use fabricast_switch::{App, Driver, DriverContext, open_driver};
use fabricast_testing::{BridgePort, Bridges};
use fabricast_topology::{Graph, Peer, SwitchId};

use crate::program::{Listener, binary, send};

/// The fabric of a layout. The bridge of switch number N is that of `sN`.
pub(crate) struct Lab {
    pub(crate) bridges: Bridges,
    graph: Arc<Graph>,
}

impl Lab {
    pub(crate) fn start(layout: &Layout) -> Self {
        let graph = Arc::clone(&layout.graph);
        let mut bridges = Bridges::start();
        for switch in graph.switches() {
            bridges.add_switch(&name(switch.0));
        }
        for port in graph.switches().flat_map(|switch| graph.ports(switch)) {
            let own = name(graph.switch_of(port).0);
            let near = BridgePort { switch: &own, number: u32::from(graph.port_number(port)) };
            match graph.peer(port) {
                Peer::Endpoint(endpoint) => {
                    let host = graph.endpoint_name(endpoint);
                    bridges.add_host(host, address(endpoint.0), near);
                }
                Peer::Switch(far) if port < far => {
                    let other = name(graph.switch_of(far).0);
                    let number = u32::from(graph.port_number(far));
                    bridges.connect(near, BridgePort { switch: &other, number });
                }
                Peer::Switch(_) | Peer::None => {}
            }
        }
        Self { bridges, graph }
    }

    /// Name of a switch in the lab.
    pub(crate) fn name(&self, node: &str) -> String {
        name(self.graph.find_switch(node).unwrap().0)
    }

    /// Takes the cable at a port out, or puts it in again.
    pub(crate) fn set_link(&self, node: &str, number: u32, is_up: bool) {
        self.bridges.set_link(BridgePort { switch: &self.name(node), number }, is_up);
    }

    /// Settings of the switch agent.
    ///
    /// - `more`: further options of the driver.
    fn settings(&self, layout: &Layout, tic: SocketAddr, more: &str) -> RawSwitchAgentConfig {
        let bridge = |switch: SwitchId| {
            let (node, ports) = (self.graph.switch_name(switch), Bridges::PORTS);
            let namespace = self.bridges.namespace(&name(switch.0));
            format!("{{ switch = '{node}', namespace = '{namespace}', ports = ['{ports}'] }}")
        };
        let bridges: Vec<String> = self.graph.switches().map(bridge).collect();
        let options = format!(
            "topology = 'in memory'\ncolors = {}\ntimeout = '20s'\n{more}\nbridges = [{}]",
            layout.colors,
            bridges.join(", ")
        );
        RawSwitchAgentConfig {
            name: Some("bridge".to_owned()),
            tic: [tic].into_iter().collect(),
            driver: DriverName::Other("bridge".to_owned()),
            driver_options: options.parse().unwrap(),
            ..RawSwitchAgentConfig::default()
        }
    }

    /// Opens the driver alone.
    pub(crate) fn driver(&self, layout: &Layout) -> Arc<dyn Driver> {
        let settings = self.settings(layout, "127.0.0.1:1".parse().unwrap(), "sweep = '200ms'");
        let config = checked::<SwitchAgentConfig>(settings).unwrap();
        open(&config, &self.graph).unwrap()
    }

    /// Starts a switch agent.
    pub(crate) async fn agent(&self, layout: &Layout, tic: SocketAddr) -> Part {
        let (settings, graph) = (self.settings(layout, tic, ""), Arc::clone(&self.graph));
        Part::start("switch-agent", move |listen| {
            let config = RawSwitchAgentConfig { listen, ..settings.clone() };
            let config = checked::<SwitchAgentConfig>(config).unwrap();
            let graph = Arc::clone(&graph);
            async move {
                let driver = open(&config, &graph)?;
                let security = Security::plaintext();
                let app = App::bind(config, security, driver).map_err(|error| error.to_string())?;
                Ok(Bound::new(app.address(), |stop| app.run(stop)))
            }
        })
        .await
    }

    /// Has a program on one host send to a group, and counts what programs on all others receive:
    /// datagrams by endpoint, and datagrams that came more than once.
    pub(crate) fn carry(
        &self,
        from: &str,
        group: Ipv4Addr,
        count: u32,
    ) -> (Vec<(String, usize)>, usize) {
        let (mut listeners, mut source) = (Vec::new(), None);
        for endpoint in self.graph.endpoints() {
            let host = self.graph.endpoint_name(endpoint);
            if host == from {
                source = Some(address(endpoint.0));
                continue;
            }
            let command = self.bridges.command(host, binary());
            let listener = Listener::start(command, address(endpoint.0), group);
            listeners.push((host.to_owned(), listener));
        }
        let source = source.expect("an endpoint");
        send(self.bridges.command(from, binary()), source, group, count);
        let (mut received, mut twice) = (Vec::new(), 0);
        for (host, listener) in listeners {
            let (once, again) = listener.end();
            received.push((host, once));
            twice += again;
        }
        (received, twice)
    }
}

fn open(config: &SwitchAgentConfig, graph: &Arc<Graph>) -> Result<Arc<dyn Driver>, String> {
    let security = Security::plaintext();
    let read_topology = |_: &Path| Ok(Arc::clone(graph));
    let context = DriverContext {
        hardware: &config.hardware,
        security: &security,
        read_topology: &read_topology,
    };
    open_driver(&context).map_err(|error| error.to_string())
}

fn name(number: u32) -> String {
    format!("s{number}")
}

fn address(endpoint: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0001 + endpoint)
}
