//! A fabric of Linux bridges with a host at every endpoint, and the switch agent over it.

use std::net::SocketAddr;
use std::sync::Arc;

use fabricast_config::{RawSwitchAgentConfig, SwitchAgentConfig, checked};
use fabricast_integration::{Layout, Part};
use fabricast_switch::Driver;
use fabricast_testing::{Bridges, SwitchPort};
use fabricast_topology::{Graph, SwitchId};

use crate::labs::{self, End, NO_TIC, name, plug_all};
use crate::program::binary;

/// The fabric of a layout. The bridge of switch number N is that of `sN`.
pub(crate) struct Lab {
    pub(crate) bridges: Bridges,
    graph: Arc<Graph>,
}

impl Lab {
    pub(crate) fn of(layout: &Layout) -> Self {
        let graph = Arc::clone(&layout.graph);
        let mut bridges = Bridges::start();
        for switch in graph.switches() {
            bridges.add_switch(&name(switch.0));
        }
        plug_all(&graph, |near, far| match far {
            End::Host { name, address } => bridges.add_host(name, address, near),
            End::Switch(far) => bridges.connect(near, far),
        });
        Self { bridges, graph }
    }

    /// Name of a switch in the lab.
    pub(crate) fn name(&self, node: &str) -> String {
        name(self.graph.find_switch(node).unwrap().0)
    }

    /// Takes the cable at a port out, or puts it in again.
    pub(crate) fn set_link(&self, node: &str, number: u32, is_up: bool) {
        self.bridges.set_link(SwitchPort { switch: &self.name(node), number }, is_up);
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
        labs::settings("bridge", &options, tic)
    }

    /// Opens the driver alone.
    pub(crate) fn driver(&self, layout: &Layout) -> Arc<dyn Driver> {
        let settings = self.settings(layout, NO_TIC.parse().unwrap(), "sweep = '200ms'");
        let config = checked::<SwitchAgentConfig>(settings).unwrap();
        labs::open(&config, &self.graph).unwrap()
    }

    /// Starts a switch agent.
    pub(crate) async fn agent(&self, layout: &Layout, tic: SocketAddr) -> Part {
        labs::start_agent(self.settings(layout, tic, ""), &self.graph).await
    }

    /// Has a program on one host send by a color, and counts what programs on all others receive:
    /// datagrams by endpoint, and datagrams that came more than once.
    pub(crate) fn carry(&self, from: &str, color: u32) -> (Vec<(String, usize)>, usize) {
        labs::carry(&self.graph, |host| self.bridges.command(host, binary()), from, color)
    }
}
