//! Starts the route services and operating agents of a cluster.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fabricast_config::{
    NodeConfig, OperatingAgentConfig, ProcessRule, RawNode, RawOperatingAgentConfig,
    RawRouterConfig, checked,
};
use fabricast_groups::detector::{DetectorConfig, Probing};
use fabricast_operating::Messages;
use fabricast_rpc::Security;
use parking_lot::Mutex;

use crate::cluster::text;
use crate::layout::Layout;
use crate::part::{Bound, Part};

pub(crate) const REPORT_INTERVAL: Duration = Duration::from_millis(100);
/// Longer than a process waits on a busy machine, because a wrong verdict would fail a test.
pub(crate) const DETECTOR: DetectorConfig = DetectorConfig::new(
    Duration::from_millis(1_500),
    Probing { timeout: Duration::from_millis(1_000), attempts: 1 },
);
/// Long enough for a new color to reach every sender: some reports and the calls they lead to.
pub(crate) const DRAIN: Duration = Duration::from_millis(400);

/// Short, so that tests need not wait long for loads.
pub(crate) const COUNTER_INTERVAL: Duration = Duration::from_millis(100);
/// The messages of a running process of operating agents; `None` while it is stopped.
pub(crate) type MessagesOfAgent = Arc<Mutex<Option<Messages>>>;

pub(crate) async fn router(
    layout: &Layout,
    tics: &[SocketAddr],
    switch_agents: Vec<String>,
) -> Part {
    let (layout, tics) = (layout.clone(), tics.to_vec());
    Part::start("router", move |listen| {
        let config = checked(RawRouterConfig {
            listen,
            tic: tics.iter().collect(),
            switch_agents: switch_agents.clone(),
            engine: layout.engine_is_named.then_some(layout.engine),
            colors: layout.colors,
            tables: layout.tables,
            fault_tolerant: layout.fault_tolerant,
            stay_after_healing: layout.stays_after_healing,
            root_scope: layout.root_scope,
            root_policy: layout.root_policy,
            drain: DRAIN,
            read_back: layout.read_back,
            read_back_rate: 1_000,
            counter_interval: COUNTER_INTERVAL,
            ..RawRouterConfig::default()
        });
        async {
            let app = fabricast_router::App::bind(config.map_err(text)?, Security::plaintext())
                .map_err(text)?;
            Ok(Bound::new(app.address(), |stop| app.run(stop)))
        }
    })
    .await
}

pub(crate) async fn operating_agent(
    name: &str,
    nodes: &[NodeConfig],
    settings: RawOperatingAgentConfig,
    rules: &[ProcessRule],
) -> (Part, MessagesOfAgent) {
    let node = |node: &NodeConfig| RawNode {
        name: Some(node.name.clone()),
        endpoints: Some(node.endpoints.clone()),
        interfaces: node.interfaces.clone(),
    };
    let settings = RawOperatingAgentConfig { nodes: nodes.iter().map(node).collect(), ..settings };
    let messages = MessagesOfAgent::default();
    let (slot, rules) = (messages.clone(), rules.to_vec());
    let part = Part::start(name, move |listen| {
        let config = checked(RawOperatingAgentConfig { listen, ..settings.clone() });
        let (slot, process_rules) = (slot.clone(), rules.clone());
        async move {
            // Not among the settings: in plain text, as everything is here, rules are refused.
            let config = config.map_err(text)?;
            let config = OperatingAgentConfig { detector: DETECTOR, process_rules, ..config };
            let app =
                fabricast_operating::App::bind(config, Security::plaintext()).map_err(text)?;
            *slot.lock() = Some(app.messages());
            Ok(Bound::new(app.address(), |stop| app.run(stop)))
        }
    });
    (part.await, messages)
}
