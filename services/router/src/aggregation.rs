//! Programs the aggregation trees of collectives, and reports to the TIC which are programmed.
//!
//! Level-triggered like the control loop: desired entries are compared with what the switch agents
//! have confirmed, and only the difference is written. A tree never changes and its number is never
//! used again, so no order of writes is needed: an operation on a tree that is half gone ends with
//! an error and never with a wrong value.

mod agents;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_proto::v1;
use fabricast_proto::v1::collective_service_client::CollectiveServiceClient;
use fabricast_rpc::{Backoff, Leader, Peer, Reason, RpcError};
use fabricast_topology::Graph;
use thiserror::Error;
use tokio::time::Instant;
use tonic::Streaming;
use tracing::{info, warn};

use agents::{Agents, Place};

use crate::settings::LiveSettings;

/// Limit of one message in bytes; a few hundred large trees fit.
const MESSAGE_LIMIT: usize = 64 * 1024 * 1024;

/// Key of an entry at its place: the tree, and the encoded node that holds the entry.
type Key = (u32, Vec<u8>);
/// Entries by place, held or desired.
type Entries = BTreeMap<Place, BTreeMap<Key, v1::AggregationEntry>>;

/// State of the loop; it lasts for one term.
#[derive(Debug)]
pub(crate) struct Aggregation {
    tic: Leader,
    term: u64,
    live: LiveSettings,
    agents: Agents,
    trees: BTreeMap<u32, Vec<v1::AggregationEntry>>,
    revision: u64,
    has_snapshot: bool,
    /// Revision and missing trees as reported last.
    reported: Option<(u64, Vec<u32>)>,
    /// Problem of the last turn, empty if there was none.
    last_error: String,
    backoff: Backoff,
    retry_at: Option<Instant>,
    read_back_at: Instant,
}

impl Aggregation {
    pub(crate) fn new(
        tic: Leader,
        agents: Vec<Peer>,
        graph: Arc<Graph>,
        term: u64,
        live: LiveSettings,
    ) -> Self {
        let read_back_at = Instant::now() + live.config().read_back;
        Self {
            tic,
            term,
            agents: Agents::new(graph, agents),
            trees: BTreeMap::new(),
            revision: 0,
            has_snapshot: false,
            reported: None,
            last_error: String::new(),
            backoff: Backoff::default(),
            retry_at: None,
            read_back_at,
            live,
        }
    }

    /// Runs until a newer route service is active; drop the future to stop the loop.
    pub(crate) async fn run(mut self) {
        let mut backoff = Backoff::default();
        let mut warned = false;
        loop {
            match self.follow(&mut backoff).await {
                Ok(()) => return,
                Err(error) if !std::mem::replace(&mut warned, true) => {
                    let peer = self.tic.address();
                    info!(%peer, %error, "watch of aggregation trees ended");
                }
                Err(_) => {}
            }
            // Another TIC may lead now, which does not know what was reported.
            self.reported = None;
            tokio::time::sleep(backoff.next_delay()).await;
        }
    }

    /// Follows one watch to its end. `Ok` if a newer route service is active.
    async fn follow(&mut self, backoff: &mut Backoff) -> Result<(), WatchError> {
        let client = CollectiveServiceClient::new(self.tic.channel());
        let mut client = client.max_decoding_message_size(MESSAGE_LIMIT);
        let watch = client.watch_aggregation_trees(v1::WatchAggregationTreesRequest {}).await;
        let mut messages: Streaming<_> = watch.map_err(RpcError::from)?.into_inner();
        loop {
            let due = self.retry_at.map_or(self.read_back_at, |at| at.min(self.read_back_at));
            tokio::select! {
                message = messages.message() => {
                    let Some(message) = message.map_err(RpcError::from)? else {
                        return Err(WatchError::Ended) };
                    *backoff = Backoff::default();
                    if !self.apply(message) {
                        continue;
                    }
                }
                () = tokio::time::sleep_until(due) => {
                    if Instant::now() >= self.read_back_at {
                        self.agents.doubt_all();
                        self.read_back_at = Instant::now() + self.live.config().read_back;
                    }
                }
            }
            if self.turn().await {
                return Ok(());
            }
        }
    }

    /// Applies a message of the watch. Returns whether it completes a revision.
    fn apply(&mut self, message: v1::WatchAggregationTreesResponse) -> bool {
        if message.snapshot {
            self.trees.clear();
            self.has_snapshot = false;
            self.agents.doubt_all();
        }
        for tree in message.removed {
            self.trees.remove(&tree);
        }
        for v1::AggregationTree { tree, entries } in message.added {
            self.trees.insert(tree, entries);
        }
        self.has_snapshot |= message.revision > 0 || message.snapshot;
        if message.revision > 0 {
            self.revision = message.revision;
        }
        message.revision > 0 || message.snapshot
    }

    /// Writes what differs and reports. Returns whether a newer route service is active.
    async fn turn(&mut self) -> bool {
        self.retry_at = None;
        if !self.has_snapshot || (self.trees.is_empty() && self.agents.are_idle()) {
            return false;
        }
        let desired = desired(&self.trees);
        let outcome = self.agents.write(self.term, &desired).await;
        let reported = if outcome.deposed { Ok(()) } else { self.report().await };
        let is_stale = |error: &RpcError| error.reason() == Some(Reason::StaleTerm);
        let deposed = outcome.deposed || reported.as_ref().is_err_and(is_stale);
        let last_error = match reported {
            Err(error) => format!("report to the TIC: {}", error.message()),
            Ok(()) => outcome.incomplete.map_or_else(String::new, |error| error.to_string()),
        };
        if last_error.is_empty() {
            self.backoff = Backoff::default();
        } else {
            self.retry_at = Some(Instant::now() + self.backoff.next_delay());
            // Logged once, not at every attempt.
            if self.last_error != last_error {
                warn!(error = last_error, "aggregation trees are not programmed yet");
            }
        }
        self.last_error = last_error;
        deposed
    }

    /// Reports to the TIC which trees are not held everywhere, if that has changed.
    async fn report(&mut self) -> Result<(), RpcError> {
        let missing: BTreeSet<u32> = self
            .trees
            .iter()
            .filter(|(_, entries)| !entries.iter().all(|entry| self.agents.holds(entry)))
            .map(|(tree, _)| *tree)
            .collect();
        let report = (self.revision, missing.into_iter().collect::<Vec<_>>());
        if self.reported.as_ref() == Some(&report) {
            return Ok(());
        }
        let request = v1::ReportAggregationTreesRequest {
            term: self.term,
            revision: report.0,
            missing_trees: report.1.clone(),
        };
        let mut client = CollectiveServiceClient::new(self.tic.channel());
        client.report_aggregation_trees(request).await?;
        self.reported = Some(report);
        Ok(())
    }
}

/// Reason why a watch of the trees ended.
#[derive(Debug, Error)]
enum WatchError {
    /// The call failed, or the stream broke.
    #[error(transparent)]
    Call(#[from] RpcError),
    /// The TIC ended the stream.
    #[error("watch ended")]
    Ended,
}

/// Desired entries of all places.
fn desired(trees: &BTreeMap<u32, Vec<v1::AggregationEntry>>) -> Entries {
    let mut entries = Entries::new();
    for entry in trees.values().flatten() {
        if let Some(place) = agents::place_of(entry.holder.as_ref()) {
            entries.entry(place).or_default().insert(agents::key(entry), entry.clone());
        }
    }
    entries
}
