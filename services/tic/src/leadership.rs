//! Serves one term after the other, and takes the lead for each.

pub(crate) mod election;
pub(crate) mod state;
pub(crate) mod term;

use std::sync::Arc;
use std::time::Duration;

use fabricast_routing::LayoutError;
use fabricast_rpc::ServeError;
use fabricast_store::{Store, StoreError};
use thiserror::Error;
use tokio::task::JoinError;

use crate::audit;
use crate::error_text::chain;
use crate::leadership::election::{Candidate, LeaderLease};
use crate::leadership::term::{Shutdown, Term, TermBuilder};
use crate::records::keys::RecordsError;
use crate::writer::error::TermEnd;

/// Time for which a shared store keeps old revisions.
const HISTORY: Duration = Duration::from_secs(120);

/// Reason why a running TIC ended by itself.
#[derive(Debug, Error)]
pub enum RunError {
    /// The gRPC server failed.
    #[error("the TIC's server failed")]
    Serve(#[from] ServeError),
    /// The store failed; only a restart shows what it holds.
    #[error("the TIC's store failed")]
    Store(#[source] StoreError),
    /// Another program wrote to the store, and what it left cannot be used.
    #[error("the TIC's records cannot be read")]
    Records(#[source] RecordsError),
    /// The records leave no room to number MGIDs on this topology.
    #[error("the TIC cannot choose MGIDs")]
    Layout(#[source] LayoutError),
    /// A task panicked.
    #[error("a task of the TIC ended with a panic")]
    Task(#[source] JoinError),
}

/// The way in which a TIC gets the lead.
#[derive(Debug)]
pub(crate) enum Leadership {
    /// It has its store to itself, and serves this term first.
    Sole { builder: Box<TermBuilder>, first: Box<Term> },
    /// It shares its store with other TICs.
    Elected { builder: Box<TermBuilder>, candidate: Candidate },
}

impl Leadership {
    /// Leads, or waits to lead, until the calls in flight have been answered after a stop.
    ///
    /// # Errors
    ///
    /// [`RunError`] if it ends by itself.
    pub(crate) async fn run(self, shutdown: Shutdown) -> Result<(), RunError> {
        match self {
            Self::Sole { builder, first } => {
                run_sole(&builder, *first, shutdown).await.map_err(|ended| match ended {
                    TermEnd::Store(error) => RunError::Store(error),
                    TermEnd::Records(error) => RunError::Records(error),
                    TermEnd::Layout(error) => RunError::Layout(error),
                    TermEnd::Task(panic) => RunError::Task(panic),
                    TermEnd::Deposed | TermEnd::NewTopology => {
                        unreachable!("a TIC that is alone cannot lose its term")
                    }
                })
            }
            Self::Elected { builder, candidate } => {
                run_elected(*builder, candidate, shutdown).await
            }
        }
    }
}

/// Serves the first term, and one more for every new topology.
async fn run_sole(
    builder: &TermBuilder,
    mut term: Term,
    shutdown: Shutdown,
) -> Result<(), TermEnd> {
    loop {
        match term.run(shutdown.clone()).await {
            Err(TermEnd::NewTopology) => {
                builder.current.end_term();
                term = next_term(builder, &LeaderLease::sole(), "").await?;
            }
            ended => return ended,
        }
    }
}

/// Campaigns and leads, again and again.
async fn run_elected(
    builder: TermBuilder,
    candidate: Candidate,
    shutdown: Shutdown,
) -> Result<(), RunError> {
    let leader = Arc::clone(&builder.current.leader);
    loop {
        let lease = tokio::select! {
            lease = candidate.campaign(|other| leader.follow(other)) => lease,
            () = shutdown.stop.cancelled() => return Ok(()),
        };
        tracing::info!(term = lease.term(), "this TIC leads");
        audit::leads(lease.term());
        let ended = tokio::select! {
            ended = lead(&builder, &candidate, &lease, shutdown.clone()) => ended,
            () = candidate.keep(&lease) => Err(TermEnd::Deposed),
        };
        builder.current.end_term();
        if ended.is_ok() {
            candidate.resign(&lease).await;
        } else {
            candidate.step_down(&lease).await;
        }
        match ended {
            Ok(()) => return Ok(()),
            Err(TermEnd::Deposed | TermEnd::NewTopology) => {
                tracing::warn!(term = lease.term(), "this TIC does not lead any more");
            }
            Err(TermEnd::Store(error)) => {
                tracing::warn!(error = chain(&error), "store failed, this TIC resigns");
            }
            Err(TermEnd::Records(error)) => return Err(RunError::Records(error)),
            Err(TermEnd::Layout(error)) => return Err(RunError::Layout(error)),
            Err(TermEnd::Task(panic)) => return Err(RunError::Task(panic)),
        }
    }
}

/// Serves while it leads; a new topology is served with services built anew.
async fn lead(
    builder: &TermBuilder,
    candidate: &Candidate,
    lease: &LeaderLease,
    shutdown: Shutdown,
) -> Result<(), TermEnd> {
    loop {
        let term = next_term(builder, lease, &candidate.address).await?;
        let ended = tokio::select! {
            ended = term.run(shutdown.clone()) => ended,
            () = compact_history(&builder.storage.store) => Ok(()),
        };
        if !matches!(ended, Err(TermEnd::NewTopology)) {
            return ended;
        }
        builder.current.end_term();
    }
}

/// Builds a term from the store and takes its services into use.
async fn next_term(
    builder: &TermBuilder,
    lease: &LeaderLease,
    address: &str,
) -> Result<Term, TermEnd> {
    let loaded = builder.storage.adopt(lease).await?.ok_or(TermEnd::Deposed)?;
    let (services, term) = builder.build(lease, loaded)?;
    builder.current.begin_term(services, address);
    Ok(term)
}

/// Compacts a shared store at intervals, which would otherwise keep its history until it is full.
async fn compact_history(store: &Arc<dyn Store>) {
    let mut old = None;
    loop {
        let now = store.revision().await;
        if let Some(revision) = old
            && let Err(error) = store.compact(revision).await
        {
            tracing::warn!(error = chain(&error), "history of the store not compacted");
        }
        old = now.ok();
        tokio::time::sleep(HISTORY).await;
    }
}
