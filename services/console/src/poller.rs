//! The tasks that ask the control plane, for all viewers together.

use std::sync::Arc;
use std::time::Duration;

use fabricast_drawing::Fabric;
use fabricast_proto::v1;
use fabricast_rpc::RpcError;
use fabricast_topology::ibnetdiscover;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::calls::{Calls, text};
use crate::snapshot::{Records, Snapshot, Source};

/// Time between two readings of the route service's state.
const INTERVAL: Duration = Duration::from_millis(500);
/// Time between two readings of servers, and of switches that nothing was written to.
const SLOW_INTERVAL: Duration = Duration::from_secs(5);
/// Time until the records are asked for again.
const RETRY: Duration = Duration::from_secs(1);

/// The state that the tasks keep; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Shared(Arc<watch::Sender<Arc<Snapshot>>>);

impl Shared {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(Arc::default())))
    }

    /// The state now.
    pub(crate) fn now(&self) -> Arc<Snapshot> {
        Arc::clone(&self.0.borrow())
    }

    /// Tells of every change; a slow receiver misses some, and never holds anything up.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.0.subscribe()
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Snapshot)) {
        self.0.send_modify(|now| {
            let mut next = Snapshot::clone(now);
            change(&mut next);
            next.version += 1;
            *now = Arc::new(next);
        });
    }
}

/// Follows the records of the TIC, without end.
pub(crate) async fn follow_records(calls: Calls, shared: Shared) {
    let mut known = Vec::new();
    loop {
        let problem = match watch_records(&calls, &shared, &mut known).await {
            Ok(()) => "the TIC ended the watch".to_owned(),
            Err(problem) => problem,
        };
        if shared.now().problems.get(&Source::Records) != Some(&problem) {
            shared.change(|now| now.set_problem(Source::Records, Some(problem)));
        }
        sleep(RETRY).await;
    }
}

/// Follows the records until the watch ends.
///
/// - `known`: SHA-256 of the topology that the state has.
async fn watch_records(calls: &Calls, shared: &Shared, known: &mut Vec<u8>) -> Result<(), String> {
    let mut stream = calls.watch().await.map_err(|error| text(&error))?;
    let mut first = Records::default();
    loop {
        let message = stream.message().await.map_err(|status| text(&RpcError::from(status)))?;
        let Some(message) = message else { return Ok(()) };
        if !message.snapshot {
            shared.change(|now| {
                now.revision = message.revision;
                now.apply(message.changes);
            });
            continue;
        }
        if !message.topology_sha256.is_empty() && message.topology_sha256 != *known {
            let fabric = download(calls).await?;
            shared.change(|now| now.set_fabric(fabric));
            known.clone_from(&message.topology_sha256);
        }
        first.add(message.changes);
        if message.snapshot_end {
            let records = std::mem::take(&mut first);
            shared.change(|now| {
                now.set_problem(Source::Records, None);
                now.revision = message.revision;
                now.replace_records(records);
            });
        }
    }
}

/// Downloads the topology. It is parsed as it comes, because its text takes more memory than all
/// else that the console keeps of a large fabric.
async fn download(calls: &Calls) -> Result<Arc<Fabric>, String> {
    let mut parts = calls.topology().await.map_err(|error| text(&error))?;
    let mut reader = ibnetdiscover::Reader::default();
    while let Some(part) = parts.message().await.map_err(|status| text(&RpcError::from(status)))? {
        reader.push(&part.chunk).map_err(|error| error.to_string())?;
    }
    let build = move || {
        let graph = reader.finish().map_err(|error| error.to_string())?;
        Ok(Arc::new(Fabric::new(Arc::new(graph))))
    };
    tokio::task::spawn_blocking(build).await.map_err(|error| error.to_string())?
}

/// Reads the state of route service, servers and switches, without end.
pub(crate) async fn poll(calls: Calls, shared: Shared) {
    let mut slow = Instant::now();
    let mut written = None;
    loop {
        let is_due = slow <= Instant::now();
        let status = calls.route_status().await;
        let fence = status.as_ref().ok().map(|status| (status.fence, status.programmed_entries));
        put_status(&shared, status);
        if is_due {
            let servers = calls.servers().await;
            shared.change(|now| now.servers = Arc::new(servers));
        }
        if is_due || fence != written {
            poll_switches(&calls, &shared).await;
            written = fence;
        }
        if is_due {
            poll_drifts(&calls, &shared).await;
            slow = Instant::now() + SLOW_INTERVAL;
        }
        sleep(INTERVAL).await;
    }
}

fn put_status(shared: &Shared, status: Result<v1::GetRouteStatusResponse, RpcError>) {
    let now = shared.now();
    match status {
        Ok(status) => {
            let is_new = now.status.as_deref() != Some(&status);
            if is_new || now.problems.contains_key(&Source::RouteService) {
                shared.change(|now| {
                    let problem = (!status.active).then(|| "none is at work".to_owned());
                    now.set_problem(Source::RouteService, problem);
                    now.status = Some(Arc::new(status));
                });
            }
        }
        Err(error) => {
            let problem = text(&error);
            if now.problems.get(&Source::RouteService) != Some(&problem) {
                shared.change(|now| {
                    now.status = None;
                    now.set_problem(Source::RouteService, Some(problem));
                });
            }
        }
    }
}

async fn poll_switches(calls: &Calls, shared: &Shared) {
    let agents = shared.now().switch_agents();
    let answer = match agents.is_empty() {
        true => Err("none is known".to_owned()),
        false => calls.switches(&agents).await.map_err(|error| text(&error)),
    };
    let now = shared.now();
    match answer {
        Ok(switches) if *now.switches == switches && now.problems.is_empty() => {}
        Ok(switches) => shared.change(|now| {
            now.set_problem(Source::Switches, None);
            now.switches = Arc::new(switches);
        }),
        Err(problem) if now.problems.get(&Source::Switches) == Some(&problem) => {}
        Err(problem) => shared.change(|now| now.set_problem(Source::Switches, Some(problem))),
    }
}

async fn poll_drifts(calls: &Calls, shared: &Shared) {
    match calls.drifts().await {
        Ok(drifts) => shared.change(|now| {
            now.set_problem(Source::Drifts, None);
            now.drifts = Some(Arc::new(drifts));
        }),
        Err(error) => {
            let problem = text(&error);
            if shared.now().problems.get(&Source::Drifts) != Some(&problem) {
                shared.change(|now| now.set_problem(Source::Drifts, Some(problem)));
            }
        }
    }
}
