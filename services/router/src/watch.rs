//! Follows the TIC's records and topology for as long as the route service runs.

use std::sync::Arc;

use fabricast_rpc::{Backoff, Leader};
use fabricast_topology::{Graph, ibnetdiscover};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tonic::Status;
use tracing::warn;

use crate::app::RunError;
use crate::control::News;
use crate::mirror::Mirror;
use crate::outside::Outside;

/// The topology as the TIC serves it.
#[derive(Clone, Debug)]
pub struct Map {
    /// Its switches, endpoints and links.
    pub graph: Arc<Graph>,
    /// Digest of the text that it was read from.
    pub sha256: Vec<u8>,
}

/// Streams records into `news`, starting again with a snapshot whenever the stream breaks.
pub(crate) async fn follow<O: Outside>(outside: &O, news: mpsc::Sender<News>) {
    let mut backoff = Backoff::default();
    loop {
        match follow_once(outside, &news, &mut backoff).await {
            Ok(()) if news.is_closed() => return,
            Ok(()) => {}
            Err(status) => {
                warn!(peer = outside.tic(), error = %status.message(), "watch broken");
            }
        }
        if news.send(News::Lost).await.is_err() {
            return;
        }
        let pause = outside.pause(&mut backoff);
        outside.sleep_until(outside.now().after(pause)).await;
    }
}

async fn follow_once<O: Outside>(
    outside: &O,
    news: &mpsc::Sender<News>,
    backoff: &mut Backoff,
) -> Result<(), Status> {
    let mut watch = outside.watch().await?;
    let mut snapshot = Some(Box::new(Mirror::default()));
    loop {
        let Some(message) = outside.next_message(&mut watch).await? else { return Ok(()) };
        let ends = message.snapshot_end;
        let next = match snapshot.take() {
            None => News::Delta(message),
            Some(mut records) => {
                records.apply(message);
                if !ends {
                    snapshot = Some(records);
                    continue;
                }
                *backoff = Backoff::default();
                News::Snapshot(records)
            }
        };
        if news.send(next).await.is_err() {
            return Ok(());
        }
    }
}

/// Loads the topology from the TIC, however long it takes to answer.
///
/// # Errors
///
/// [`RunError::Topology`] if what it serves is no topology.
pub(crate) async fn topology(tic: &Leader) -> Result<Map, RunError> {
    let mut backoff = Backoff::default();
    loop {
        match tic.download_topology().await {
            Ok(text) => {
                let graph = Arc::new(ibnetdiscover::read(&text).map_err(RunError::Topology)?);
                return Ok(Map { graph, sha256: Sha256::digest(text).to_vec() });
            }
            Err(status) => {
                warn!(peer = tic.address(), error = %status.message(), "no topology yet");
            }
        }
        tokio::time::sleep(backoff.next_delay()).await;
    }
}
