//! A host with one node, and what it does by itself.

use super::*;
use std::time::Duration;

use fabricast_groups::detector::{DetectorConfig, Probing};
use fabricast_groups::names::Address;

pub(crate) fn host() -> (Host, NodeName) {
    let (host, node, _) = host_and_messages();
    (host, node)
}

/// A host with one node, and what it sends to the fabric.
pub(crate) fn host_and_messages() -> (Host, NodeName, mpsc::Receiver<v1::AttachEndpointsRequest>) {
    let second = Duration::from_secs(1);
    let node = NodeName::new("n0").unwrap();
    let identity = Identity {
        node: node.clone(),
        address: Address::new("127.0.0.1:1").unwrap(),
        endpoints: vec![EndpointName::new("h0").unwrap()],
    };
    let detector = DetectorConfig::new(second, Probing { timeout: second, attempts: 1 });
    let (to_fabric, messages) = mpsc::channel(1);
    let host = Host::new(Parts {
        nodes: vec![identity],
        operating_config: OaConfig {
            retry: second,
            host_timeout: second,
            call_timeout: second,
            calls: 1,
        },
        group_config: GaConfig { detector, resend: second, retry: second },
        tic: Leader::new(&["127.0.0.1:1".to_owned()]).unwrap(),
        fabric: Peer::new("127.0.0.1:1").unwrap(),
        security: Security::plaintext(),
        memories: Memories::default(),
        address: "127.0.0.1:1".to_owned(),
        start_id: 1,
        to_fabric,
    });
    (host, node, messages)
}

#[tokio::test]
async fn a_stopped_node_plugs_nothing_in_and_hosts_no_agents() {
    let (host, node) = host();
    assert_eq!(host.live_endpoints(), ["h0"]);
    host.input(&node, |agent, now| agent.stop(now)).unwrap();
    assert!(host.live_endpoints().is_empty());
    assert!(host.with_agents(&node, |_, _| ()).is_none());
    host.input(&node, |agent, now| agent.start(now)).unwrap();
    assert_eq!(host.live_endpoints(), ["h0"]);
}

#[tokio::test]
async fn a_node_that_is_not_hosted_here_is_nobody() {
    let (host, _) = host();
    let stranger = NodeName::new("n9").unwrap();
    assert!(host.input(&stranger, |_, _| ()).is_none());
    assert!(host.look(&stranger, |_| ()).is_none());
    assert!(host.deliver("h9", 0, b"", None).is_empty());
}
