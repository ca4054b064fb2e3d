//! Hints to the hosts of group agents that their groups have changed.
//!
//! A hint only saves time: a host that misses one learns the same from the answer to its next
//! status report. So hints wait in one bounded set, merge while they wait, and are dropped when it
//! is full. One call at a time goes to an address; later hints go with the next.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fabricast_rpc::joined;
use fabricast_telemetry::traces::{Origin, Origins};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::leadership::election::LeaderLease;
use crate::liveness::peers::NodePeers;

/// Most hints that wait.
const MAX_WAITING: usize = 1 << 17;
/// Most calls at one time.
const MAX_CALLS: usize = 64;
/// Most groups in one call.
const GNS_PER_CALL: usize = 10_000;
/// Timeout of one call.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Hints that wait to be sent.
#[derive(Debug, Default)]
pub(crate) struct Hints {
    waiting: Mutex<Waiting>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    by_address: BTreeMap<String, HintBatch>,
    count: usize,
}

/// Hints for one address.
#[derive(Debug, Default)]
struct HintBatch {
    /// Pairs of a node and a group that it hosts.
    hints: BTreeSet<(String, u64)>,
    /// Of the traced requests that caused them.
    origins: Origins,
}

/// One group whose agent is to be notified of a change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Hint {
    pub(crate) address: String,
    pub(crate) node: String,
    pub(crate) gn: u64,
}

/// Settings of [`Hints::run`].
#[derive(Debug)]
pub(crate) struct HintSender {
    pub(crate) peers: Arc<NodePeers>,
    /// No hint is sent once it has expired.
    pub(crate) lease: LeaderLease,
    /// Time between two calls to one address, in which hints merge.
    pub(crate) pause: Duration,
}

impl Hints {
    /// Adds hints to be sent soon.
    ///
    /// - `origins`: of the traced requests that caused them.
    pub(crate) fn add(
        &self,
        hints: impl IntoIterator<Item = Hint>,
        origins: impl IntoIterator<Item = Origin>,
    ) {
        let origins: Vec<Origin> = origins.into_iter().collect();
        let mut any = false;
        {
            let mut waiting = self.waiting.lock();
            for hint in hints {
                if waiting.count >= MAX_WAITING {
                    tracing::debug!("hints dropped, too many wait");
                    break;
                }
                let at = waiting.by_address.entry(hint.address).or_default();
                origins.iter().for_each(|origin| at.origins.add(origin.clone()));
                if at.hints.insert((hint.node, hint.gn)) {
                    waiting.count += 1;
                    any = true;
                }
            }
        }
        if any {
            self.arrived.notify_one();
        }
    }

    /// Takes all hints for one address that is not busy.
    fn take(&self, busy: &BTreeSet<String>) -> Option<(String, HintBatch)> {
        let mut waiting = self.waiting.lock();
        let address = waiting.by_address.keys().find(|address| !busy.contains(*address))?.clone();
        let batch = waiting.by_address.remove(&address)?;
        waiting.count -= batch.hints.len();
        Some((address, batch))
    }

    /// Sends hints until told to stop.
    pub(crate) async fn run(&self, sender: HintSender, stop: CancellationToken) {
        let HintSender { peers, lease, pause } = sender;
        let mut calls = JoinSet::new();
        let mut busy = BTreeSet::new();
        loop {
            while calls.len() < MAX_CALLS
                && lease.holds()
                && let Some((address, batch)) = self.take(&busy)
            {
                busy.insert(address.clone());
                let peers = Arc::clone(&peers);
                calls.spawn(async move {
                    let span = batch.origins.span("notify");
                    span.origin().cover(send(&peers, &address, batch.hints)).await;
                    drop(span);
                    tokio::time::sleep(pause).await;
                    address
                });
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.arrived.notified() => {}
                Some(done) = calls.join_next() => {
                    busy.remove(&joined(done).await);
                }
            }
        }
    }
}

async fn send(peers: &NodePeers, address: &str, hints: BTreeSet<(String, u64)>) {
    let mut by_node: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for (node, gn) in hints {
        by_node.entry(node).or_default().push(gn);
    }
    for (node, gns) in by_node {
        for some in gns.chunks(GNS_PER_CALL) {
            peers.notify(address, &node, some.to_vec(), TIMEOUT).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(address: &str, gn: u64) -> Hint {
        Hint { address: address.to_owned(), node: "n".to_owned(), gn }
    }

    #[test]
    fn hints_merge_while_they_wait_and_a_busy_address_is_skipped() {
        let hints = Hints::default();
        hints.add([hint("a", 1), hint("a", 1), hint("b", 1), hint("a", 2)], []);
        let (address, taken) = hints.take(&BTreeSet::new()).unwrap();
        assert_eq!((address.as_str(), taken.hints.len()), ("a", 2));
        let busy = BTreeSet::from(["b".to_owned()]);
        assert!(hints.take(&busy).is_none());
        assert!(hints.take(&BTreeSet::new()).is_some());
        assert_eq!(hints.waiting.lock().count, 0);
    }

    #[test]
    fn too_many_hints_are_dropped() {
        let hints = Hints::default();
        hints.add((0..MAX_WAITING as u64 + 5).map(|gn| hint("a", gn)), []);
        assert_eq!(hints.take(&BTreeSet::new()).unwrap().1.hints.len(), MAX_WAITING);
    }
}
