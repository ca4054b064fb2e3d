//! Hints to the hosts of group agents that groups of theirs have changed.
//!
//! A hint is for speed only: a host that misses one learns the same from the answer to its next
//! status report. So hints wait in one bounded heap, merge while they wait, and are dropped when
//! it is full. One call at a time goes to an address; what gathers meanwhile goes with the next.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fabricast_telemetry::traces::{Origin, Origins};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::election::Tenure;
use crate::peers::Peers;

/// Hints that wait at a time.
const MAX_WAITING: usize = 1 << 17;
/// Calls under way at a time.
const MAX_CALLS: usize = 64;
/// Groups in one call.
const GNS_PER_CALL: usize = 10_000;
/// A call is given up after this time.
const PATIENCE: Duration = Duration::from_secs(1);

/// Where hints gather.
#[derive(Debug, Default)]
pub(crate) struct Hints {
    waiting: Mutex<Waiting>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    by_address: BTreeMap<String, Parcel>,
    count: usize,
}

/// What waits for one address.
#[derive(Debug, Default)]
struct Parcel {
    /// Nodes, and groups of theirs.
    hints: BTreeSet<(String, u64)>,
    /// Of the traced requests that they come of.
    origins: Origins,
}

/// One group whose agent is to hear of a change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Hint {
    pub(crate) address: String,
    pub(crate) node: String,
    pub(crate) gn: u64,
}

impl Hints {
    /// Leaves hints to be sent soon.
    ///
    /// - `origins`: of the traced requests that they come of.
    pub(crate) fn leave(
        &self,
        hints: impl IntoIterator<Item = Hint>,
        origins: impl IntoIterator<Item = Origin>,
    ) {
        let origins: Vec<Origin> = origins.into_iter().collect();
        let mut any = false;
        {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// Takes everything for one address that no call is under way to.
    fn take(&self, busy: &BTreeSet<String>) -> Option<(String, Parcel)> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let address = waiting.by_address.keys().find(|address| !busy.contains(*address))?.clone();
        let parcel = waiting.by_address.remove(&address)?;
        waiting.count -= parcel.hints.len();
        Some((address, parcel))
    }

    /// Sends hints until told to stop.
    ///
    /// - `pause`: after a call, its address is left alone for this long, so that hints merge.
    /// - `tenure`: after its end hints stay where they are.
    pub(crate) async fn run(
        &self,
        (peers, tenure): (Arc<Peers>, Tenure),
        pause: Duration,
        stop: CancellationToken,
    ) {
        let mut calls = JoinSet::new();
        let mut busy = BTreeSet::new();
        loop {
            while calls.len() < MAX_CALLS
                && tenure.holds()
                && let Some((address, parcel)) = self.take(&busy)
            {
                busy.insert(address.clone());
                let peers = Arc::clone(&peers);
                calls.spawn(async move {
                    let span = parcel.origins.span("notify");
                    span.origin().cover(send(&peers, &address, parcel.hints)).await;
                    drop(span);
                    tokio::time::sleep(pause).await;
                    address
                });
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.arrived.notified() => {}
                Some(done) = calls.join_next() => {
                    busy.remove(&done.expect("a call to a host does not panic"));
                }
            }
        }
    }
}

async fn send(peers: &Peers, address: &str, hints: BTreeSet<(String, u64)>) {
    let mut by_node: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for (node, gn) in hints {
        by_node.entry(node).or_default().push(gn);
    }
    for (node, gns) in by_node {
        for some in gns.chunks(GNS_PER_CALL) {
            peers.notify(address, &node, some.to_vec(), PATIENCE).await;
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
    fn hints_merge_while_they_wait_and_an_address_in_use_is_left_alone() {
        let hints = Hints::default();
        hints.leave([hint("a", 1), hint("a", 1), hint("b", 1), hint("a", 2)], []);
        let (address, taken) = hints.take(&BTreeSet::new()).unwrap();
        assert_eq!((address.as_str(), taken.hints.len()), ("a", 2));
        let busy = BTreeSet::from(["b".to_owned()]);
        assert!(hints.take(&busy).is_none());
        assert!(hints.take(&BTreeSet::new()).is_some());
        assert_eq!(hints.waiting.lock().unwrap().count, 0);
    }

    #[test]
    fn too_many_hints_are_dropped() {
        let hints = Hints::default();
        hints.leave((0..MAX_WAITING as u64 + 5).map(|gn| hint("a", gn)), []);
        assert_eq!(hints.take(&BTreeSet::new()).unwrap().1.hints.len(), MAX_WAITING);
    }
}
