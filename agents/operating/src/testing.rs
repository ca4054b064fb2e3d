//! An agent with one node, or more, for unit tests.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use fabricast_groups::agent::GaConfig;
use fabricast_groups::detector::{DetectorConfig, Probing};
use fabricast_groups::ids::Incarnation;
use fabricast_groups::names::{Address, EndpointName, NodeName};
use fabricast_groups::operating::{Identity, OaConfig};
use fabricast_groups::record::{NodeRecord, NodeState};
use fabricast_groups::voucher::VoucherSeed;
use fabricast_proto::v1;
use fabricast_rpc::{Leader, Peer, Security};
use tokio::sync::mpsc;

use crate::agent::{Agent, Parts};
use crate::fabric::packets::PacketSender;
use crate::nodes::NodeSettings;
use crate::processes::memory::Memories;
use crate::processes::user_rules::UserRules;

/// Address where nobody listens.
const NOWHERE: &str = "127.0.0.1:1";

/// The output of a future that comes without waiting for others; `None` if it waits.
pub(crate) async fn at_once<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

pub(crate) struct TestAgent {
    pub(crate) agent: Arc<Agent>,
    /// The first node.
    pub(crate) node: NodeName,
    /// Messages to the fabric.
    pub(crate) messages: mpsc::Receiver<v1::AttachEndpointsRequest>,
}

/// An agent with node `n0` and endpoint `h0` that reaches nobody.
pub(crate) fn agent() -> TestAgent {
    agent_with_nodes(1)
}

/// An agent with nodes `n0`, `n1` and so on that reaches nobody else.
pub(crate) fn agent_with_nodes(count: usize) -> TestAgent {
    agent_with(count, NOWHERE, NOWHERE)
}

pub(crate) fn agent_with_fabric(fabric: &str) -> TestAgent {
    agent_with(1, NOWHERE, fabric)
}

pub(crate) fn agent_with_tic(tic: &str) -> TestAgent {
    agent_with(1, tic, NOWHERE)
}

fn agent_with(count: usize, tic: &str, fabric: &str) -> TestAgent {
    let second = Duration::from_secs(1);
    let identity = |number| Identity {
        node: NodeName::new(&format!("n{number}")).unwrap(),
        address: Address::new(NOWHERE).unwrap(),
        endpoints: vec![EndpointName::new(&format!("h{number}")).unwrap()],
    };
    let identities: Vec<Identity> = (0..count).map(identity).collect();
    let node = identities[0].node.clone();
    let detector = DetectorConfig::new(second, Probing { timeout: second, attempts: 1 });
    let (packets, messages) = PacketSender::with_queue(1);
    let agent = Agent::new(Parts {
        nodes: NodeSettings {
            nodes: identities,
            operating_config: OaConfig {
                retry: second,
                host_timeout: second,
                call_timeout: second,
                calls: 10,
            },
            group_config: GaConfig { detector, resend: second, retry: second },
            start_id: 1,
            voucher_seed: VoucherSeed([7; 16]),
            adapters: None,
        },
        tic: Leader::new(&[tic.to_owned()]).unwrap(),
        fabric: Some(Peer::new(fabric).unwrap()),
        security: Security::plaintext(),
        user_rules: UserRules::default(),
        memories: Memories::default(),
        direct_hosts: BTreeMap::new(),
        address: NOWHERE.to_owned(),
        packets,
    });
    TestAgent { agent, node, messages }
}

impl TestAgent {
    /// Answers the registration of the first node, so that it is up.
    pub(crate) fn node_up(&self) {
        self.up(&self.node);
    }

    /// Answers the registration of a node, so that it is up.
    pub(crate) fn up(&self, node: &NodeName) {
        let nodes = &self.agent.runtime.nodes;
        let record = nodes.read(node, |agent| NodeRecord {
            name: node.clone(),
            address: agent.identity().address.clone(),
            endpoints: agent.identity().endpoints.clone(),
            incarnation: Incarnation(1),
            start_id: 1,
            state: NodeState::Up,
            flaps: None,
            drained: false,
            voucher_key: None,
        });
        nodes.input(node, |agent, now| agent.registered(now, Ok(record.unwrap())));
    }
}
