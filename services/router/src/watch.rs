//! Follows the TIC's records, and loads its topology.

use std::sync::Arc;

use fabricast_reconciler::DirectoryUpdate;
use fabricast_rpc::{Backoff, Leader, RpcError};
use fabricast_topology::{Graph, ibnetdiscover};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tracing::warn;

use crate::environment::Environment;
use crate::run_error::RunError;
use crate::wire;

/// The topology as the TIC serves it.
#[derive(Clone, Debug)]
pub struct TopologySnapshot {
    /// Switches, endpoints and links.
    pub graph: Arc<Graph>,
    /// Digest of the text that the graph was read from.
    pub sha256: Vec<u8>,
}

/// A message of the watch of the TIC's records.
#[derive(Debug)]
pub(crate) enum WatchMessage {
    /// The records as a whole, in parts; the first message of every stream.
    Snapshot(Vec<DirectoryUpdate>),
    /// Changes since the last message.
    Delta {
        update: DirectoryUpdate,
        /// Traced requests that made them, as W3C trace parents.
        traceparents: Vec<String>,
    },
    /// The stream broke. The next one starts with a snapshot.
    Lost,
    /// The TIC has another topology by now.
    OtherTopology,
}

/// Sends messages of the watch until the receiver is gone. A broken stream is opened again, which
/// gives a new snapshot.
pub(crate) async fn follow<O: Environment>(
    environment: &O,
    topology: &TopologySnapshot,
    messages: mpsc::Sender<WatchMessage>,
) {
    let mut backoff = Backoff::default();
    loop {
        match follow_once(environment, topology, &messages, &mut backoff).await {
            Ok(()) if messages.is_closed() => return,
            Ok(()) => {}
            Err(error) => {
                warn!(peer = environment.tic(), error = %error.message(), "watch broken");
            }
        }
        if messages.send(WatchMessage::Lost).await.is_err() {
            return;
        }
        let pause = environment.pause(&mut backoff);
        environment.sleep_until(environment.now().after(pause)).await;
    }
}

async fn follow_once<O: Environment>(
    environment: &O,
    topology: &TopologySnapshot,
    messages: &mpsc::Sender<WatchMessage>,
    backoff: &mut Backoff,
) -> Result<(), RpcError> {
    let mut watch = environment.watch().await?;
    let mut snapshot = Some(Vec::new());
    loop {
        let Some(mut message) = environment.next_message(&mut watch).await? else { return Ok(()) };
        let is_last = message.snapshot_end;
        let traceparents = std::mem::take(&mut message.traceparents);
        let sha256 = std::mem::take(&mut message.topology_sha256);
        let update = wire::decode_update(&topology.graph, message)?;
        let message = match snapshot.take() {
            _ if !sha256.is_empty() && sha256 != topology.sha256 => WatchMessage::OtherTopology,
            None => WatchMessage::Delta { update, traceparents },
            Some(mut parts) => {
                parts.push(update);
                if !is_last {
                    snapshot = Some(parts);
                    continue;
                }
                *backoff = Backoff::default();
                WatchMessage::Snapshot(parts)
            }
        };
        if messages.send(message).await.is_err() {
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
        match download(tic).await {
            Ok(loaded) => return loaded.map_err(RunError::Topology),
            Err(error) => {
                warn!(peer = tic.address(), error = %error.message(), "topology not loaded yet");
            }
        }
        tokio::time::sleep(backoff.next_delay()).await;
    }
}

/// Downloads the topology, and parses it as it comes.
async fn download(
    tic: &Leader,
) -> Result<Result<TopologySnapshot, ibnetdiscover::ReadError>, RpcError> {
    let mut parts = tic.topology_parts().await?;
    let mut digest = Sha256::new();
    let mut reader = ibnetdiscover::Reader::default();
    while let Some(part) = parts.message().await? {
        digest.update(&part.chunk);
        if let Err(error) = reader.push(&part.chunk) {
            return Ok(Err(error));
        }
    }
    let snapshot =
        |graph| TopologySnapshot { graph: Arc::new(graph), sha256: digest.finalize().to_vec() };
    Ok(reader.finish().map(snapshot))
}
