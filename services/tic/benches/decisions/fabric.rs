//! Reports and changes of the topology, and of failed and drained parts of it.

use fabricast_proto::v1;
use fabricast_topology::{Faults, Graph, Peer, SwitchId, ibnetdiscover};

use super::load::{Load, made};
use super::nodes::REMOVED;

/// Bytes of a topology in one message.
const CHUNK: usize = 1 << 20;
/// One of so many switches without endpoints fails. The parts of our fabrics do not have a multiple
/// of it, so other switches fail in each.
const FAILING: usize = 7;
/// Links that are drained at a time, each at another switch.
const DRAINED: usize = 8;
const REPORTER: &str = "switches";

/// Reports the whole topology.
pub(super) async fn report(load: &Load) -> v1::TopologySummary {
    let text = ibnetdiscover::write(&load.graph).into_bytes();
    let pieces = text.chunks(CHUNK).map(|piece| v1::ReportTopologyRequest {
        chunk: piece.to_vec(),
        reporter: REPORTER.to_owned(),
    });
    let pieces: Vec<_> = pieces.collect();
    let reported = made(async || {
        load.topologies.clone().report_topology(tokio_stream::iter(pieces.clone())).await
    });
    let v1::ReportTopologyResponse { topology, changed } = reported.await;
    assert!(changed, "it is another one");
    // A topology can be had once it has taken effect.
    let request = v1::DownloadTopologyRequest {};
    drop(made(async || load.tic.clone().download_topology(request).await).await);
    topology.expect("a summary")
}

/// Replaces the topology by one without the endpoint of a node that was removed.
pub(super) async fn replace(load: &Load) {
    let mut faults = Faults::new();
    faults.fail_endpoint(load.graph.endpoints().nth(REMOVED).expect("there are more"));
    let text = ibnetdiscover::write(&load.graph.without(&faults)).into_bytes();
    let pieces: Vec<_> = text
        .chunks(CHUNK)
        .map(|piece| v1::ReplaceTopologyRequest { chunk: piece.to_vec() })
        .collect();
    let replaced = made(async || {
        load.topologies.clone().replace_topology(tokio_stream::iter(pieces.clone())).await
    });
    assert!(replaced.await.changed, "it is another one");
}

/// Some switches above the leaf switches, which endpoints can do without.
fn some_switches(graph: &Graph) -> Vec<SwitchId> {
    let is_leaf = |switch: SwitchId| {
        graph.ports(switch).any(|port| matches!(graph.peer(port), Peer::Endpoint(_)))
    };
    graph.switches().filter(|switch| !is_leaf(*switch)).step_by(FAILING).collect()
}

/// Switches fail, half of them are repaired, and the list of the others is removed.
pub(super) async fn fail_switches(load: &Load) {
    let switches = some_switches(&load.graph);
    for failed in [&switches[..], &switches[switches.len() / 2..]] {
        let element = |switch: &SwitchId| {
            let name = load.graph.switch_name(*switch).to_owned();
            v1::Element { kind: Some(v1::element::Kind::SwitchName(name)) }
        };
        let request = v1::ReportFailedElementsRequest {
            reporter: REPORTER.to_owned(),
            elements: failed.iter().map(element).collect(),
        };
        made(async || load.tic.clone().report_failed_elements(request.clone()).await).await;
    }
    let request = v1::RemoveReporterRequest { reporter: REPORTER.to_owned() };
    made(async || load.tic.clone().remove_reporter(request.clone()).await).await;
}

/// A link to another switch: the two switches, and the port of the first.
fn link_of(graph: &Graph, switch: SwitchId) -> Option<v1::DrainLinkRequest> {
    graph.ports(switch).find_map(|port| match graph.peer(port) {
        Peer::Switch(peer) => Some(v1::DrainLinkRequest {
            switch_name: graph.switch_name(switch).to_owned(),
            peer_switch_name: graph.switch_name(graph.switch_of(peer)).to_owned(),
            port: u32::from(graph.port_number(port)),
            validate_only: false,
        }),
        Peer::Endpoint(_) | Peer::None => None,
    })
}

/// Drains links, then resumes them.
pub(super) async fn drain_links(load: &Load) {
    let switches = some_switches(&load.graph).into_iter();
    let links = switches.filter_map(|switch| link_of(&load.graph, switch));
    let links: Vec<_> = links.take(DRAINED).collect();
    for request in &links {
        made(async || load.topologies.clone().drain_link(request.clone()).await).await;
    }
    for v1::DrainLinkRequest { switch_name, peer_switch_name, port, .. } in links {
        let request = v1::ResumeLinkRequest { switch_name, peer_switch_name, port };
        made(async || load.topologies.clone().resume_link(request.clone()).await).await;
    }
}
