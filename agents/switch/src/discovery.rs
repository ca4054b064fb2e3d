//! Reports the topology of the hardware to the TIC, and tells the driver which one to expect.
//!
//! A topology is reported after two discoveries in a row found the same one, because a fabric that
//! is starting changes all the time. The report is repeated, so that a change of the TIC's
//! topology, by an administrator or from a backup, is noticed here.

use std::sync::Arc;
use std::time::Duration;

use fabricast_proto::v1;
use fabricast_proto::v1::topology_service_client::TopologyServiceClient;
use fabricast_rpc::{Leader, Reason, RpcError};
use fabricast_topology::ibnetdiscover;
use thiserror::Error;
use tokio::sync::watch;

use crate::inventory::Inventory;

/// Most bytes of the topology in one message.
const CHUNK: usize = 1 << 20;
/// Number of equal discoveries between two reports.
const REPEAT: u32 = 10;

/// Reason why a topology was not reported.
#[derive(Debug, Error)]
enum ReportError {
    /// The TIC did not take the report, or did not serve its topology.
    #[error("{}", .0.message())]
    Call(#[from] RpcError),
    /// The TIC serves a topology that cannot be read.
    #[error("topology of the TIC: {0}")]
    Topology(ibnetdiscover::ReadError),
}

/// A topology that was found, and by whom.
#[derive(Clone, Copy, Debug)]
struct TopologyReport<'a> {
    reporter: &'a str,
    text: &'a str,
}

impl TopologyReport<'_> {
    fn messages(self) -> Vec<v1::ReportTopologyRequest> {
        let message = |chunk: &[u8]| v1::ReportTopologyRequest {
            chunk: chunk.to_vec(),
            reporter: self.reporter.to_owned(),
        };
        self.text.as_bytes().chunks(CHUNK).map(message).collect()
    }
}

/// Discovers the hardware and reports until dropped.
///
/// - `reporter`: name of the switch agent.
/// - `ready`: set once the driver knows the expected topology.
pub(crate) async fn report(
    inventory: Arc<Inventory>,
    tic: Leader,
    reporter: String,
    interval: Duration,
    ready: watch::Sender<bool>,
) {
    let mut seen = String::new();
    let mut since_report = REPEAT; // equal discoveries
    let mut expected = Vec::new();
    let mut warned = false;
    loop {
        let reported = match inventory.driver().discover().await {
            Err(error) => Err(error.to_string()),
            Ok(graph) => {
                let text = ibnetdiscover::write(&graph);
                let is_settled = text == seen;
                if is_settled {
                    since_report += 1;
                } else {
                    (seen, since_report) = (text, REPEAT);
                }
                if is_settled && since_report > REPEAT {
                    since_report = 0;
                    let message = TopologyReport { reporter: &reporter, text: &seen };
                    let reported = report_once(&inventory, &tic, message, &mut expected).await;
                    reported.map(|()| true).map_err(|error| {
                        since_report = REPEAT; // again after the next discovery
                        error.to_string()
                    })
                } else {
                    Ok(false)
                }
            }
        };
        match reported {
            Ok(false) => {}
            Ok(true) => {
                warned = false;
                ready.send_replace(true);
            }
            Err(reason) if !std::mem::replace(&mut warned, true) => {
                tracing::warn!(peer = tic.address(), reason, "topology not reported");
            }
            Err(_logged_before) => {}
        }
        tokio::time::sleep(interval).await;
    }
}

/// Reports a topology, and has the driver expect the one that the TIC answers.
///
/// - `expected`: digest of the topology that the driver expects.
async fn report_once(
    inventory: &Inventory,
    tic: &Leader,
    report: TopologyReport<'_>,
    expected: &mut Vec<u8>,
) -> Result<(), ReportError> {
    let mut client = TopologyServiceClient::new(tic.channel());
    let answer = client.report_topology(tokio_stream::iter(report.messages())).await;
    let sha256 = match answer.map_err(RpcError::from) {
        Ok(answer) => answer.into_inner().topology.unwrap_or_default().sha256,
        // The TIC has a topology from a file, which does not change.
        Err(error) if error.reason() == Some(Reason::TopologyFixed) => b"fixed".to_vec(),
        Err(error) => return Err(error.into()),
    };
    if sha256 != *expected {
        let text = tic.download_topology().await.map_err(RpcError::from)?;
        let graph = ibnetdiscover::read(&text).map_err(ReportError::Topology)?;
        tracing::info!(
            switches = graph.switch_count(),
            endpoints = graph.endpoint_count(),
            "topology known"
        );
        inventory.driver().expect(Arc::new(graph));
        inventory.forget().await; // switches may have more ports now
        *expected = sha256;
    }
    Ok(())
}
