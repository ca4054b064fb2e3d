//! Reports failed parts of the fabric to the TIC, at once on a change and then periodically.
//!
//! Level-triggered: a report always carries the whole list. A TIC that was restarted learns it with
//! the next report. Nothing is reported before the hardware has answered once, because an empty
//! list would say that nothing has failed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use fabricast_proto::v1;
use fabricast_proto::v1::element::Kind;
use fabricast_proto::v1::tic_service_client::TicServiceClient;
use fabricast_rpc::{Backoff, Leader};
use fabricast_telemetry::metrics::SWITCH_FAILED_ELEMENTS;
use tokio::sync::watch;
use tokio_stream::StreamExt;

use crate::api::MESSAGE_LIMIT;
use crate::driver::DriverError;
use crate::inventory::{GrantedTerms, Inventory};

/// Most elements that are logged by name after one change.
const MAX_LINES: usize = 16;

/// Failed parts in the scope of the agent; `None` until the hardware has answered.
pub(crate) type FailedElements = Option<Vec<v1::Element>>;

/// Follows the list of the hardware until dropped, across restarts of the hardware.
pub(crate) async fn follow(inventory: Arc<Inventory>, failed: watch::Sender<FailedElements>) {
    let mut backoff = Backoff::default();
    let mut warned = false;
    loop {
        let error = follow_once(&inventory, &failed, || {
            backoff = Backoff::default();
            warned = false;
        })
        .await;
        if !std::mem::replace(&mut warned, true) {
            let reason = error.map_or_else(|| "stream ended".to_owned(), |e| chain(&e));
            tracing::warn!(reason, "fabric does not report failures");
        }
        inventory.forget().await;
        tokio::time::sleep(backoff.next_delay()).await;
    }
}

/// Logs which elements have failed and which work again: one line for each of the first
/// [`MAX_LINES`], and the counts.
fn log_changes(before: &[v1::Element], after: &[v1::Element]) {
    let lost = after.iter().filter(|element| !before.contains(element));
    let back = before.iter().filter(|element| !after.contains(element));
    for element in lost.clone().take(MAX_LINES) {
        tracing::warn!(element = %name(element), "element has failed");
    }
    for element in back.clone().take(MAX_LINES) {
        tracing::info!(element = %name(element), "element works again");
    }
    let (new, gone) = (lost.count(), back.count());
    tracing::info!(failed = after.len(), new, gone, "failed elements changed");
}

/// Name of an element as on the command line: `S-1:3` for a link.
fn name(element: &v1::Element) -> String {
    match &element.kind {
        Some(Kind::Link(link)) => format!("{}:{}", link.switch_name, link.port),
        Some(Kind::SwitchName(name) | Kind::Endpoint(name)) => name.clone(),
        None => String::new(),
    }
}

/// Follows one stream to its end. `None` if it ended without an error.
async fn follow_once(
    inventory: &Inventory,
    failed: &watch::Sender<FailedElements>,
    mut answered: impl FnMut(),
) -> Option<DriverError> {
    let scope = match Scope::of(inventory).await {
        Ok(scope) => scope,
        Err(error) => return Some(error),
    };
    let mut lists = match inventory.driver().watch_failed_elements().await {
        Ok(lists) => lists,
        Err(error) => return Some(error),
    };
    while let Some(list) = lists.next().await {
        let list = match list {
            Ok(list) => list,
            Err(error) => return Some(error),
        };
        answered();
        let ours: Vec<_> = list.into_iter().filter(|element| scope.holds(element)).collect();
        failed.send_if_modified(|known| {
            let changed = known.as_ref() != Some(&ours);
            if changed {
                SWITCH_FAILED_ELEMENTS.set(ours.len() as u64);
                log_changes(known.as_deref().unwrap_or_default(), &ours);
                *known = Some(ours);
            }
            changed
        });
    }
    None
}

/// Sends the list to the TIC until dropped; the answers tell which route terms it has granted.
pub(crate) async fn report(
    reporter: String,
    tic: Leader,
    interval: watch::Receiver<Duration>,
    granted: &GrantedTerms,
    mut failed: watch::Receiver<FailedElements>,
) {
    let mut client = TicServiceClient::new(tic.channel()).max_encoding_message_size(MESSAGE_LIMIT);
    let mut backoff = Backoff::default();
    let mut warned = false;
    loop {
        let known = failed.borrow_and_update().clone();
        let Some(elements) = known else {
            if failed.changed().await.is_err() {
                return;
            }
            continue;
        };
        let interval = *interval.borrow();
        let request = v1::ReportFailedElementsRequest { reporter: reporter.clone(), elements };
        let pause = match client.report_failed_elements(request).await {
            Ok(answer) => {
                granted.answered(answer.into_inner().newest_route_term);
                backoff = Backoff::default();
                warned = false;
                interval
            }
            Err(error) => {
                if !std::mem::replace(&mut warned, true) {
                    let (peer, reason) = (tic.address(), error.message());
                    tracing::warn!(peer, reason, "failed elements not reported");
                }
                backoff.next_delay().min(interval)
            }
        };
        // On a change the new list is sent at once, else the old one again.
        tokio::select! {
            _changed = failed.changed() => {}
            () = granted.asked() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// The part of the fabric that an agent reports.
#[derive(Debug)]
enum Scope {
    /// The whole fabric.
    Fabric,
    /// Some switches, and the links and endpoints at them.
    Some {
        switches: BTreeSet<String>,
        far_ports: BTreeSet<(String, u32)>,
        endpoints: BTreeSet<String>,
    },
}

impl Scope {
    async fn of(inventory: &Inventory) -> Result<Self, DriverError> {
        if !inventory.is_limited() {
            return Ok(Self::Fabric);
        }
        let known = inventory.switches(std::iter::empty()).await?;
        let switches: BTreeSet<_> = known.keys().cloned().collect();
        let (mut far_ports, mut endpoints) = (BTreeSet::new(), BTreeSet::new());
        for switch in &switches {
            for port in inventory.driver().list_ports(switch).await? {
                if port.peer_port != 0 {
                    far_ports.insert((port.peer, port.peer_port));
                } else if !port.peer.is_empty() {
                    endpoints.insert(port.peer);
                }
            }
        }
        Ok(Self::Some { switches, far_ports, endpoints })
    }

    /// True if an element is in the scope. A link is named by one of its ends, so both ends count.
    fn holds(&self, element: &v1::Element) -> bool {
        let Self::Some { switches, far_ports, endpoints } = self else { return true };
        match &element.kind {
            Some(Kind::Link(end)) => {
                switches.contains(&end.switch_name)
                    || far_ports.contains(&(end.switch_name.clone(), end.port))
            }
            Some(Kind::SwitchName(name)) => switches.contains(name),
            Some(Kind::Endpoint(name)) => endpoints.contains(name),
            None => false,
        }
    }
}

/// Text of an error and its sources.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
