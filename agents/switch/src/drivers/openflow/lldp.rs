//! Has all switches send LLDP frames, and follows what they hear.
//!
//! Frames go out of all live ports at an interval, and soon after a port, a connection or a
//! neighbor has changed. Sessions follow the ports at which endpoints are found, and the log has a
//! line for each cable that is not where the topology has it.

use std::collections::BTreeMap;
use std::sync::Arc;

use fabricast_openflow::{Contradiction, Neighbor, SwitchPort};
use fabricast_topology::Peer;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::neighbors::Neighbors;
use super::session::Session;
use super::switches::Switches;

/// Changes within this part of the interval share one round of frames.
const SOON: u32 = 10;

/// Sends frames and follows what is heard until stopped; does nothing if no cables are looked for.
pub(super) async fn follow(switches: Arc<Switches>, stop: CancellationToken) {
    let Some(neighbors) = switches.neighbors() else { return };
    let mut changes = switches.changes();
    let interval = neighbors.interval;
    let sender = Arc::new(FrameSender { switches, neighbors, refused: Mutex::default() });
    let (mut next, mut known) = (Instant::now(), Heard::new());
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            Ok(()) = changes.changed() => {
                sender.follow_endpoint_ports();
                known = told(&sender.switches, &known);
                next = next.min(Instant::now() + interval / SOON);
            }
            () = sleep_until(next) => {
                sender.send_round();
                next = Instant::now() + interval;
            }
        }
    }
}

/// Sends frames by all connected switches.
struct FrameSender {
    switches: Arc<Switches>,
    neighbors: Arc<Neighbors>,
    /// Reason by switch for which it did not send the last ones.
    refused: Mutex<BTreeMap<String, String>>,
}

impl FrameSender {
    /// Starts one round; no switch waits for another.
    fn send_round(self: &Arc<Self>) {
        if self.neighbors.forget_silent() {
            self.switches.note_change();
        }
        for session in self.switches.sessions() {
            tokio::spawn(Arc::clone(self).send(session));
        }
    }

    /// Has all sessions take the ports at which endpoints are now.
    fn follow_endpoint_ports(&self) {
        for session in self.switches.sessions() {
            if session.mapping().endpoint_ports == self.switches.endpoint_ports(&session.name) {
                continue;
            }
            let switches = Arc::clone(&self.switches);
            tokio::spawn(async move {
                // Asked once more when nobody else writes to the switch.
                let ports = || switches.endpoint_ports(&session.name);
                session.follow_endpoint_ports(ports).await;
            });
        }
    }

    async fn send(self: Arc<Self>, session: Arc<Session>) {
        let watched = session.watched();
        let Some(datapath) = watched.datapath() else { return };
        let messages = self.neighbors.messages(&session.mapping(), datapath, &watched.live_ports());
        // The end of a connection is told where it was made.
        let Ok(answers) = session.connection.exchange(&messages).await else { return };
        let refusal = answers.into_iter().find_map(|answer| answer.refusal);
        let switch = session.name.as_str();
        let Some(reason) = refusal.map(|error| error.to_string()) else {
            self.refused.lock().remove(switch);
            return;
        };
        let before = self.refused.lock().insert(switch.to_owned(), reason.clone());
        if before.as_ref() != Some(&reason) {
            tracing::warn!(switch, reason, "LLDP frames not sent");
        }
    }
}

/// Neighbors by the port that hears them.
type Heard = BTreeMap<SwitchPort, Neighbor>;

/// Logs the cables that are not where they were expected, but for those that were `known` before;
/// returns all of them.
fn told(switches: &Switches, known: &Heard) -> Heard {
    let port_name = |port: SwitchPort| {
        let switch = switches.node(port.datapath);
        let switch = switch.unwrap_or_else(|| format!("{:#018x}", port.datapath));
        format!("{switch}:{}", port.number)
    };
    let fabric = switches.fabric();
    let mut found = Heard::new();
    for (expected, Contradiction { port, neighbor }) in switches.contradictions(&fabric) {
        if known.get(&port) != Some(&neighbor) {
            let peer = match &neighbor {
                Neighbor::Switch(far) => port_name(*far),
                Neighbor::Endpoint { name, .. } => name.clone(),
            };
            let cable = match fabric.peer(expected) {
                Peer::Endpoint(endpoint) => fabric.endpoint_name(endpoint).to_owned(),
                Peer::Switch(_) | Peer::None => fabric.port_label(expected),
            };
            tracing::warn!(cable, port = port_name(port), peer, "cable leads elsewhere");
        }
        found.insert(port, neighbor);
    }
    found
}
