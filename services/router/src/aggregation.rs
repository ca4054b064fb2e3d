//! The trees of collectives: watched at the TIC, programmed into switches and adapters, reported.
//!
//! Level-triggered like the routes: what ought to be held is compared with what the switch agents
//! have confirmed, and only the difference is written. A tree is never changed, only added and taken
//! away, and its number is never used again; so nothing has to be made before it is broken: a packet of a
//! tree that is half gone ends with an error and never with a wrong value.

mod agents;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_proto::v1;
use fabricast_proto::v1::collective_service_client::CollectiveServiceClient;
use fabricast_rpc::{Backoff, Leader, Peer, Reason, reason_of};
use fabricast_topology::Graph;
use tokio::time::Instant;
use tonic::{Code, Status, Streaming};
use tracing::{info, warn};

use agents::{Agents, Place};

use crate::terms::LiveSettings;

/// Bytes in one message: a few hundred large trees fit.
const MESSAGE_LIMIT: usize = 64 * 1024 * 1024;

/// An entry by tree and by who holds it, as bytes.
type Key = (u32, Vec<u8>);
/// What places hold, or ought to.
type Entries = BTreeMap<Place, BTreeMap<Key, v1::AggregationEntry>>;

/// Programs the trees of collectives.
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
    complaint: String,
    backoff: Backoff,
    retry_at: Option<Instant>,
    read_back_at: Instant,
}

impl Aggregation {
    pub(crate) fn new(
        (tic, agents): (Leader, Vec<Peer>),
        graph: Arc<Graph>,
        term: u64,
        live: LiveSettings,
    ) -> Self {
        Self {
            tic,
            term,
            agents: Agents::new(graph, agents),
            trees: BTreeMap::new(),
            revision: 0,
            has_snapshot: false,
            reported: None,
            complaint: String::new(),
            backoff: Backoff::default(),
            retry_at: None,
            read_back_at: Instant::now() + live.pacing().read_back,
            live,
        }
    }

    /// Runs until a newer route service shows up; the caller drops the future to stop it.
    pub(crate) async fn run(mut self) {
        let mut backoff = Backoff::default();
        let mut warned = false;
        loop {
            match self.follow(&mut backoff).await {
                Ok(()) => return,
                Err(status) if !std::mem::replace(&mut warned, true) => {
                    let peer = self.tic.address();
                    info!(%peer, error = status.message(), "watch of aggregation trees ended");
                }
                Err(_) => {}
            }
            // Another TIC knows nothing of what was reported.
            self.reported = None;
            tokio::time::sleep(backoff.next_delay()).await;
        }
    }

    /// Follows one watch to its end; `Ok` if a newer route service is at work.
    async fn follow(&mut self, backoff: &mut Backoff) -> Result<(), Status> {
        let client = CollectiveServiceClient::new(self.tic.channel());
        let mut client = client.max_decoding_message_size(MESSAGE_LIMIT);
        let watch = client.watch_aggregation_trees(v1::WatchAggregationTreesRequest {}).await;
        let mut messages: Streaming<_> = watch?.into_inner();
        loop {
            let due = self.retry_at.map_or(self.read_back_at, |at| at.min(self.read_back_at));
            tokio::select! {
                message = messages.message() => {
                    let message = message?.ok_or_else(|| Status::unavailable("watch ended"))?;
                    *backoff = Backoff::default();
                    if !self.take_in(message) {
                        continue;
                    }
                }
                () = tokio::time::sleep_until(due) => {
                    if Instant::now() >= self.read_back_at {
                        self.agents.doubt_all();
                        self.read_back_at = Instant::now() + self.live.pacing().read_back;
                    }
                }
            }
            if self.turn().await {
                return Ok(());
            }
        }
    }

    /// Takes a message over; whether it completes a revision.
    fn take_in(&mut self, message: v1::WatchAggregationTreesResponse) -> bool {
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

    /// Writes what differs and reports; whether a newer route service is at work.
    async fn turn(&mut self) -> bool {
        self.retry_at = None;
        if !self.has_snapshot || (self.trees.is_empty() && self.agents.are_idle()) {
            return false;
        }
        let desired = desired(&self.trees);
        let outcome = self.agents.write(self.term, &desired).await;
        let reported = if outcome.deposed { Ok(()) } else { self.report().await };
        let deposed = outcome.deposed || reported.as_ref().is_err_and(is_stale);
        let complaint = match reported {
            Err(status) => format!("report to the TIC: {}", status.message()),
            Ok(()) => outcome.incomplete.unwrap_or_default(),
        };
        if complaint.is_empty() {
            self.backoff = Backoff::default();
        } else {
            self.retry_at = Some(Instant::now() + self.backoff.next_delay());
            // Said once, not at every attempt.
            if self.complaint != complaint {
                warn!(error = complaint, "aggregation trees are not programmed yet");
            }
        }
        self.complaint = complaint;
        deposed
    }

    /// Tells the TIC which trees are not held everywhere, if that is news.
    async fn report(&mut self) -> Result<(), Status> {
        let missing: BTreeSet<u32> = self
            .trees
            .iter()
            .filter(|(_, entries)| !entries.iter().all(|entry| self.agents.holds(entry)))
            .map(|(tree, _)| *tree)
            .collect();
        let news = (self.revision, missing.into_iter().collect::<Vec<_>>());
        if self.reported.as_ref() == Some(&news) {
            return Ok(());
        }
        let request = v1::ReportAggregationTreesRequest {
            term: self.term,
            revision: news.0,
            missing_trees: news.1.clone(),
        };
        let mut client = CollectiveServiceClient::new(self.tic.channel());
        client.report_aggregation_trees(request).await?;
        self.reported = Some(news);
        Ok(())
    }
}

fn is_stale(status: &Status) -> bool {
    status.code() == Code::Aborted
        && reason_of(status).is_some_and(|reason| reason == Reason::StaleTerm.text())
}

/// What every place ought to hold.
fn desired(trees: &BTreeMap<u32, Vec<v1::AggregationEntry>>) -> Entries {
    let mut entries = Entries::new();
    for entry in trees.values().flatten() {
        if let Some(place) = agents::place_of(entry.holder.as_ref()) {
            entries.entry(place).or_default().insert(agents::key(entry), entry.clone());
        }
    }
    entries
}
