//! Tells the TIC what has failed, at once on a change and again and again.
//!
//! The report is level-triggered: it always carries the whole list and is repeated, so a TIC that
//! was restarted or away learns it without being told apart. Before the hardware has answered
//! once nothing is reported, because an empty list would say that all is well.

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

use crate::driver::DriverError;
use crate::inventory::Inventory;
use crate::service::MESSAGE_LIMIT;

/// Most elements that are named in the log at once.
const MOST_LINES: usize = 16;

/// All failed parts the agent answers for; `None` until the hardware has answered.
pub(crate) type FailedElements = Option<Vec<v1::Element>>;

/// Follows the hardware's list for ever, riding over its restarts.
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

/// Says what has broken and what works again: one line each, but for more of them than anybody reads only how many.
fn log_changes(before: &[v1::Element], after: &[v1::Element]) {
    let lost = after.iter().filter(|element| !before.contains(element));
    let back = before.iter().filter(|element| !after.contains(element));
    for element in lost.clone().take(MOST_LINES) {
        tracing::warn!(element = %name(element), "element has failed");
    }
    for element in back.clone().take(MOST_LINES) {
        tracing::info!(element = %name(element), "element works again");
    }
    let (new, gone) = (lost.count(), back.count());
    tracing::info!(failed = after.len(), new, gone, "failed elements changed");
}

/// As the command line takes it: `S-1:3` for a link, else the name.
fn name(element: &v1::Element) -> String {
    match &element.kind {
        Some(Kind::Link(link)) => format!("{}:{}", link.switch_name, link.port),
        Some(Kind::SwitchName(name) | Kind::Endpoint(name)) => name.clone(),
        None => String::new(),
    }
}

/// Follows one stream to its end; `None` if it ended without an error.
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

/// Sends the list to the TIC for ever.
pub(crate) async fn report(
    reporter: String,
    tic: Leader,
    interval: watch::Receiver<Duration>,
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
            Ok(_counted) => {
                backoff = Backoff::default();
                warned = false;
                interval
            }
            Err(status) => {
                if !std::mem::replace(&mut warned, true) {
                    let (peer, reason) = (tic.address(), status.message());
                    tracing::warn!(peer, reason, "tic took no report of failed elements");
                }
                backoff.next_delay().min(interval)
            }
        };
        // Either way the loop goes on: with the new list, or with the old one once more.
        let _again = tokio::time::timeout(pause, failed.changed()).await;
    }
}

/// The part of the fabric an agent answers for.
#[derive(Debug)]
enum Scope {
    /// Everything.
    Fabric,
    /// Some switches and what is plugged into them.
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

    /// A link has two ends and its name shows only one, so both are looked at.
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

/// Joins an error and its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
