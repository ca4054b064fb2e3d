//! Runs the control loop, one term after the other.
//!
//! A term ends when another route service gets the next one. This one then waits for a term again,
//! with no state left over.

use std::future::pending;

use tokio::sync::mpsc;

use crate::control_loop::{ControlLoop, LoopEnd, Query, Term};
use crate::counters::LoadReader;
use crate::environment::Environment;
use crate::run_error::RunError;
use crate::settings::RoutingSettings;
use crate::standby::{ActiveRouter, Standby};
use crate::watch::{self, TopologySnapshot};

/// Bound of the two channels to the control loop: watch events and queries.
pub(crate) const QUEUE: usize = 1024;

/// Runs a route service without an API; the simulation runs it so, in an environment of its own.
///
/// - `name`: for route services that wait for its term.
///
/// # Errors
///
/// [`RunError`] if the topology has changed, or does not fit the settings.
pub async fn run_without_api<O: Environment>(
    environment: O,
    name: String,
    topology: TopologySnapshot,
    settings: RoutingSettings,
) -> Result<(), RunError> {
    let (address, active) = (String::new(), ActiveRouter::default());
    let standby = Standby { environment, name, address, active };
    let (_sender, mut queries) = mpsc::channel(1);
    run_terms(&standby, &topology, &settings, &mut queries, |_term| pending()).await
}

/// Waits for a term and runs the control loop until the term ends; repeats that.
///
/// - `beside`: other work of a term. The term is over when it ends.
pub(crate) async fn run_terms<O: Environment, F: Future<Output = ()>>(
    standby: &Standby<O>,
    topology: &TopologySnapshot,
    settings: &RoutingSettings,
    queries: &mut mpsc::Receiver<Query>,
    beside: impl Fn(u64) -> F,
) -> Result<(), RunError> {
    loop {
        let (term, lease) = tokio::select! {
            biased;
            term = standby.acquire() => term,
            // Queries that were sent when the last term ended.
            () = drop_all(queries) => return Ok(()),
        };
        let (sender, mut events) = mpsc::channel(QUEUE);
        let work = async {
            let environment = standby.environment.clone();
            let (reader, loads) = LoadReader::new(environment.clone(), &topology.graph, settings);
            let term_parts = Term { number: term, topology, loads };
            let control = ControlLoop::start(environment, settings.clone(), term_parts).await?;
            tokio::select! {
                biased;
                () = beside(term) => Err(LoopEnd::Deposed),
                ended = control.run(&mut events, queries) => ended,
                () = watch::follow(&standby.environment, topology, sender) => Ok(()),
                () = reader.run() => Ok(()),
            }
        };
        let ended = tokio::select! {
            biased;
            ended = work => ended,
            () = standby.renew_until_refused(term, lease) => Err(LoopEnd::Deposed),
        };
        standby.step_down();
        match ended {
            Ok(()) => return Ok(()),
            Err(LoopEnd::Failed(error)) => return Err(error),
            Err(LoopEnd::Deposed) => {
                tracing::warn!(term, "another route service has taken over");
            }
        }
    }
}

/// Drops queries, which tells their senders that there is no answer. Never ends.
async fn drop_all(queries: &mut mpsc::Receiver<Query>) {
    while let Some(query) = queries.recv().await {
        drop(query);
    }
    pending().await
}
