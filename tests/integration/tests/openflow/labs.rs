//! The parts of a lab that are the same for all kinds of real switches: cables, the switch agent,
//! programs on hosts, and waiting for the control plane.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use fabricast_config::{DriverName, RawSwitchAgentConfig, SwitchAgentConfig, checked};
use fabricast_integration::{Bound, Client, Conformance, Part, eventually};
use fabricast_proto::v1;
use fabricast_proto::v1::switch_agent_service_client::SwitchAgentServiceClient;
use fabricast_rpc::{Peer, Security};
use fabricast_switch::{App, Driver, DriverContext, open_driver};
use fabricast_testing::SwitchPort;
use fabricast_topology::{Graph, Peer as Far};

use crate::program::{Listener, send};

/// No TIC listens here.
pub(crate) const NO_TIC: &str = "127.0.0.1:1";
/// Datagrams of one try.
pub(crate) const COUNT: u32 = 100;
/// Address of color 0, as the drivers have it by default.
const ADDRESSES: u32 = 0xefc0_0000;

/// Name of a switch in a lab, by its number in the graph.
pub(crate) fn name(number: u32) -> String {
    format!("s{number}")
}

/// Address of the host at an endpoint.
fn address(endpoint: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0001 + endpoint)
}

/// Address of a color.
pub(crate) fn address_of_color(color: u32) -> Ipv4Addr {
    Ipv4Addr::from(ADDRESSES + color)
}

/// The far end of a cable.
pub(crate) enum End<'a> {
    Host { name: &'a str, address: Ipv4Addr },
    Switch(SwitchPort<'a>),
}

/// Has all cables of a fabric plugged in, each once.
pub(crate) fn plug_all(graph: &Graph, mut plug: impl FnMut(SwitchPort<'_>, End<'_>)) {
    for port in graph.switches().flat_map(|switch| graph.ports(switch)) {
        let own = name(graph.switch_of(port).0);
        let near = SwitchPort { switch: &own, number: u32::from(graph.port_number(port)) };
        match graph.peer(port) {
            Far::Endpoint(endpoint) => {
                let (name, address) = (graph.endpoint_name(endpoint), address(endpoint.0));
                plug(near, End::Host { name, address });
            }
            Far::Switch(far) if port < far => {
                let other = name(graph.switch_of(far).0);
                let number = u32::from(graph.port_number(far));
                plug(near, End::Switch(SwitchPort { switch: &other, number }));
            }
            Far::Switch(_) | Far::None => {}
        }
    }
}

/// Settings of a switch agent.
pub(crate) fn settings(driver: &str, options: &str, tic: SocketAddr) -> RawSwitchAgentConfig {
    RawSwitchAgentConfig {
        name: Some(driver.to_owned()),
        tic: [tic].into_iter().collect(),
        driver: DriverName::Other(driver.to_owned()),
        driver_options: options.parse().unwrap(),
        ..RawSwitchAgentConfig::default()
    }
}

/// Opens the driver that the settings name.
pub(crate) fn open(
    config: &SwitchAgentConfig,
    graph: &Arc<Graph>,
) -> Result<Arc<dyn Driver>, String> {
    let security = Security::plaintext();
    let read_topology = |_: &Path| Ok(Arc::clone(graph));
    let context = DriverContext {
        hardware: &config.hardware,
        security: &security,
        read_topology: &read_topology,
    };
    open_driver(&context).map_err(|error| error.to_string())
}

/// Starts a switch agent.
pub(crate) async fn start_agent(settings: RawSwitchAgentConfig, graph: &Arc<Graph>) -> Part {
    let graph = Arc::clone(graph);
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

/// Runs the suite that all drivers pass.
///
/// - `set_link`: takes the cable at a port of a switch out, or puts it in again.
pub(crate) async fn conforms(agent: &Part, set_link: impl Fn(&str, u32, bool)) {
    let peer = Peer::new(&agent.address().to_string()).unwrap();
    let suite = Conformance::new(SwitchAgentServiceClient::new(peer.channel()), 7);
    let link = suite.check().await;
    set_link(&link.0, link.1, false);
    suite.link_is(&link, false).await;
    set_link(&link.0, link.1, true);
    suite.link_is(&link, true).await;
}

/// Has a program on one host send by a color, and counts what programs on all others receive:
/// datagrams by endpoint, and datagrams that came more than once.
///
/// - `program`: a command that runs this test binary on a host.
pub(crate) fn carry(
    graph: &Graph,
    program: impl Fn(&str) -> Command,
    from: &str,
    color: u32,
) -> (Vec<(String, usize)>, usize) {
    let group = address_of_color(color);
    let (mut listeners, mut source) = (Vec::new(), None);
    for endpoint in graph.endpoints() {
        let host = graph.endpoint_name(endpoint);
        if host == from {
            source = Some(address(endpoint.0));
            continue;
        }
        let listener = Listener::start(program(host), address(endpoint.0), group);
        listeners.push((host.to_owned(), listener));
    }
    send(program(from), source.expect("an endpoint"), group, COUNT);
    let (mut received, mut twice) = (Vec::new(), 0);
    for (host, listener) in listeners {
        let (once, again) = listener.end();
        received.push((host, once));
        twice += again;
    }
    (received, twice)
}

/// Entries of all switches.
pub(crate) fn entries(tables: &[v1::SwitchTable]) -> Vec<(String, Vec<v1::TableEntry>)> {
    tables.iter().map(|table| (table.switch_name.clone(), table.entries.clone())).collect()
}

/// Waits until no tree of a group crosses a cable.
pub(crate) async fn goes_round(client: &Client, group: &str, cable: &v1::PortName) {
    eventually("the tree goes round the cable", async || {
        let links = client.explain(group).await?.links;
        let uses = links.iter().any(|link| {
            (&link.switch_name, link.port) == (&cable.switch_name, cable.port)
                || (&link.peer, link.peer_port) == (&cable.switch_name, cable.port)
        });
        if uses { Err("not yet".to_owned()) } else { Ok(()) }
    })
    .await;
}

/// Waits until no part of the fabric counts as failed.
pub(crate) async fn nothing_has_failed(client: &Client) {
    eventually("nothing has failed", async || {
        let failed = client.failed_elements().await?;
        if failed.is_empty() { Ok(()) } else { Err(format!("{failed:?}")) }
    })
    .await;
}
