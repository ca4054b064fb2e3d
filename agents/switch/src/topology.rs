//! Tells the TIC what the hardware looks like, and the hardware's driver what ought to be there.
//!
//! What has just been plugged in is told when two looks have found the same: a fabric that is being
//! started would otherwise be another one at every look. The report is repeated, so a TIC that has got another
//! topology meanwhile, from an administrator or from a backup, makes itself known here.

use std::sync::Arc;
use std::time::Duration;

use fabricast_proto::v1;
use fabricast_proto::v1::topology_service_client::TopologyServiceClient;
use fabricast_rpc::{Leader, Reason, reason_of};
use fabricast_topology::{Graph, ibnetdiscover};
use tokio::sync::watch;
use tonic::Status;

use crate::driver::Driver;

/// Most bytes of the topology in one message.
const CHUNK: usize = 1 << 20;
/// So many looks at a fabric that stays the same pass between two reports.
const REPEAT: u32 = 10;

/// Looks at the hardware and reports for ever.
///
/// - `ready`: is told when the driver knows for the first time what ought to be there.
pub(crate) async fn report(
    driver: Arc<dyn Driver>,
    tic: Leader,
    interval: Duration,
    ready: watch::Sender<bool>,
) {
    let mut seen = String::new();
    let mut idle = REPEAT; // looks since the last report of what was seen
    let mut expected = Vec::new();
    let mut warned = false;
    loop {
        let told = match driver.discover().await {
            Err(error) => Err(error.to_string()),
            Ok(graph) => {
                let text = ibnetdiscover::write(&graph);
                let is_settled = text == seen;
                if is_settled {
                    idle += 1;
                } else {
                    (seen, idle) = (text, REPEAT);
                }
                if is_settled && idle > REPEAT {
                    idle = 0;
                    tell(&*driver, &tic, &seen, &mut expected).await.map_err(|status| {
                        idle = REPEAT; // once more at the next look
                        status.message().to_owned()
                    })
                } else {
                    Ok(false)
                }
            }
        };
        match told {
            Ok(false) => {}
            Ok(true) => {
                warned = false;
                ready.send_replace(true);
            }
            Err(reason) if !std::mem::replace(&mut warned, true) => {
                tracing::warn!(peer = tic.address(), reason, "topology not reported");
            }
            Err(_said_already) => {}
        }
        tokio::time::sleep(interval).await;
    }
}

/// Reports what was found, and has the driver expect what the TIC answers; `expected` is the digest of
/// what it expects.
async fn tell(
    driver: &dyn Driver,
    tic: &Leader,
    text: &str,
    expected: &mut Vec<u8>,
) -> Result<bool, Status> {
    let pieces = text.as_bytes().chunks(CHUNK);
    let pieces: Vec<_> =
        pieces.map(|piece| v1::ReportTopologyRequest { chunk: piece.to_vec() }).collect();
    let mut client = TopologyServiceClient::new(tic.channel());
    let sha256 = match client.report_topology(tokio_stream::iter(pieces)).await {
        Ok(answer) => answer.into_inner().topology.unwrap_or_default().sha256,
        // Then it is the TIC that says what ought to be there, once and for all.
        Err(status) if reason_of(&status).as_deref() == Some(Reason::TopologyFixed.text()) => {
            b"fixed".to_vec()
        }
        Err(status) => return Err(status),
    };
    if sha256 != *expected {
        let known = download(tic).await?;
        tracing::info!(
            switches = known.switch_count(),
            endpoints = known.endpoint_count(),
            "topology known"
        );
        driver.expect(Arc::new(known));
        *expected = sha256;
    }
    Ok(true)
}

async fn download(tic: &Leader) -> Result<Graph, Status> {
    let text = tic.download_topology().await?;
    ibnetdiscover::read(&text)
        .map_err(|error| Status::internal(format!("topology of the TIC: {error}")))
}
