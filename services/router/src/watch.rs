//! Follows the TIC's records, and loads its topology.

use std::sync::Arc;

use fabricast_proto::v1;
use fabricast_rpc::{Backoff, Leader, RpcError};
use fabricast_topology::{Graph, ibnetdiscover};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tracing::warn;

use crate::directory_cache::DirectoryCache;
use crate::environment::Environment;
use crate::run_error::RunError;

/// The topology as the TIC serves it.
#[derive(Clone, Debug)]
pub struct TopologySnapshot {
    /// Switches, endpoints and links.
    pub graph: Arc<Graph>,
    /// Digest of the text that the graph was read from.
    pub sha256: Vec<u8>,
}

/// An event of the watch of the TIC's records.
#[derive(Debug)]
pub(crate) enum WatchEvent {
    /// The records as a whole; the first event of every stream.
    Snapshot(Box<DirectoryCache>),
    /// Changes since the last event.
    Delta(v1::WatchDirectoryResponse),
    /// The stream broke. The next one starts with a snapshot.
    Lost,
}

/// Sends watch events until the receiver is gone. A broken stream is opened again, which gives a
/// new snapshot.
pub(crate) async fn follow<O: Environment>(environment: &O, events: mpsc::Sender<WatchEvent>) {
    let mut backoff = Backoff::default();
    loop {
        match follow_once(environment, &events, &mut backoff).await {
            Ok(()) if events.is_closed() => return,
            Ok(()) => {}
            Err(error) => {
                warn!(peer = environment.tic(), error = %error.message(), "watch broken");
            }
        }
        if events.send(WatchEvent::Lost).await.is_err() {
            return;
        }
        let pause = environment.pause(&mut backoff);
        environment.sleep_until(environment.now().after(pause)).await;
    }
}

async fn follow_once<O: Environment>(
    environment: &O,
    events: &mpsc::Sender<WatchEvent>,
    backoff: &mut Backoff,
) -> Result<(), RpcError> {
    let mut watch = environment.watch().await?;
    let mut snapshot = Some(Box::new(DirectoryCache::default()));
    loop {
        let Some(message) = environment.next_message(&mut watch).await? else { return Ok(()) };
        let is_last = message.snapshot_end;
        let event = match snapshot.take() {
            None => WatchEvent::Delta(message),
            Some(mut records) => {
                records.apply(message);
                if !is_last {
                    snapshot = Some(records);
                    continue;
                }
                *backoff = Backoff::default();
                WatchEvent::Snapshot(records)
            }
        };
        if events.send(event).await.is_err() {
            return Ok(());
        }
    }
}

/// Loads the topology from the TIC; retries until the TIC answers.
///
/// # Errors
///
/// [`RunError::Topology`] if the TIC serves a text that is no topology.
pub(crate) async fn load_topology(tic: &Leader) -> Result<TopologySnapshot, RunError> {
    let mut backoff = Backoff::default();
    loop {
        match tic.download_topology().await {
            Ok(text) => {
                let graph = Arc::new(ibnetdiscover::read(&text).map_err(RunError::Topology)?);
                return Ok(TopologySnapshot { graph, sha256: Sha256::digest(text).to_vec() });
            }
            Err(error) => {
                warn!(peer = tic.address(), error = %error.message(), "topology not loaded yet");
            }
        }
        tokio::time::sleep(backoff.next_delay()).await;
    }
}
