//! One attached process: a task that reads its stream and a task that writes to it.
//!
//! They are apart because a process that does not read its packets must still be heard, and
//! because waiting for it must not hold up anybody else (FAB-1).

use std::collections::BTreeSet;
use std::sync::Arc;

use fabricast_emulator::Packet;
use fabricast_proto::v1;
use fabricast_rpc::Reason;
use fabricast_topology::{EndpointId, Graph};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};

use crate::fabric::{Fabric, Taken};
use crate::mailbox::Mailbox;
use crate::wire::{self, Refusal};

/// Packets sent before the lock is given to others.
const PACKETS_PER_TURN: usize = 16;

/// What goes back to the process.
pub(crate) type Answer = Result<v1::AttachEndpointsResponse, Status>;

/// Obeys the process until its stream ends, then detaches its endpoints.
///
/// - `answers`: refusals and confirmations; bounded, the process waits for itself.
pub(crate) async fn listen(
    fabric: Arc<Fabric>,
    mailbox: Arc<Mailbox>,
    mut requests: Streaming<v1::AttachEndpointsRequest>,
    answers: mpsc::Sender<v1::AttachEndpointsResponse>,
) {
    let mut process = Process { fabric, mailbox, attached: BTreeSet::new() };
    // An error is the end of the connection: nobody is left to be told.
    while let Ok(Some(request)) = requests.message().await {
        let answer = process.obey(request).await;
        let silent = answer.attached.is_empty() && answer.refusals.is_empty();
        if !silent && answers.send(answer).await.is_err() {
            break;
        }
    }
    tracing::debug!(endpoints = process.attached.len(), "process detached");
}

/// Sends answers and packets to the process until either side ends.
pub(crate) async fn deliver(
    graph: Arc<Graph>,
    mailbox: Arc<Mailbox>,
    mut answers: mpsc::Receiver<v1::AttachEndpointsResponse>,
    to: mpsc::Sender<Answer>,
    stop: CancellationToken,
) {
    loop {
        let response = tokio::select! {
            biased;
            () = stop.cancelled() => {
                // A process too slow to take even this sees the stream end.
                let _told = to.try_send(Err(Reason::ShuttingDown.status("fabric stops", &[])));
                return;
            }
            () = to.closed() => return,
            Some(answer) = answers.recv() => answer,
            batch = mailbox.next_batch() => {
                let Some(batch) = batch else { return };
                let packets = batch.into_iter().map(|(endpoint, packet)| v1::EndpointPacket {
                    endpoint: graph.endpoint_name(endpoint).to_owned(),
                    packet: Some(v1::Packet {
                        mgid: packet.mgid,
                        color: packet.color.into(),
                        payload: packet.payload.clone(),
                        source: packet.origin.0,
                        sequence: packet.origin.1,
                    }),
                });
                v1::AttachEndpointsResponse { packets: packets.collect(), ..<_>::default() }
            }
        };
        tokio::select! {
            sent = to.send(Ok(response)) => if sent.is_err() { return },
            () = stop.cancelled() => {}
        }
    }
}

/// What a process has attached; detaches it when dropped, however the stream ended.
struct Process {
    fabric: Arc<Fabric>,
    mailbox: Arc<Mailbox>,
    attached: BTreeSet<EndpointId>,
}

impl Drop for Process {
    fn drop(&mut self) {
        let mut core = self.fabric.core();
        for endpoint in &self.attached {
            core.detach(*endpoint);
        }
        drop(core);
        self.mailbox.close();
    }
}

impl Process {
    /// Attaches, sends, detaches, in this order; what is wrong is refused and the rest done.
    async fn obey(&mut self, request: v1::AttachEndpointsRequest) -> v1::AttachEndpointsResponse {
        let v1::AttachEndpointsRequest { attach, detach, packets } = request;
        let (mut attached, mut refusals) = (Vec::new(), Vec::new());
        for name in attach {
            match self.attach(&name) {
                Ok(()) => attached.push(name),
                Err(refusal) => refusals.push(refusal.line()),
            }
        }
        let mut packets = packets.into_iter().map(|packet| self.check(packet)).peekable();
        while packets.peek().is_some() {
            let mut turn = Vec::with_capacity(PACKETS_PER_TURN);
            for checked in packets.by_ref().take(PACKETS_PER_TURN) {
                match checked {
                    Ok(sending) => turn.push(sending),
                    Err(refusal) => refusals.push(refusal.line()),
                }
            }
            self.send(turn);
            tokio::task::yield_now().await;
        }
        drop(packets);
        for name in detach {
            if let Err(refusal) = self.detach(&name) {
                refusals.push(refusal.line());
            }
        }
        v1::AttachEndpointsResponse { packets: Vec::new(), attached, refusals }
    }

    fn attach(&mut self, name: &str) -> Result<(), Refusal> {
        let endpoint = wire::endpoint(&self.fabric.graph, name)?;
        let attached = self.fabric.core().attach(endpoint, &self.mailbox);
        attached.map_err(|Taken| Refusal::Attached { name: name.to_owned() })?;
        self.attached.insert(endpoint);
        Ok(())
    }

    fn detach(&mut self, name: &str) -> Result<(), Refusal> {
        let endpoint = wire::endpoint(&self.fabric.graph, name)?;
        if !self.attached.remove(&endpoint) {
            return Err(Refusal::NotAttached { name: name.to_owned() });
        }
        self.fabric.core().detach(endpoint);
        Ok(())
    }

    /// Checks a packet to be sent: from one of the process's own endpoints (FAB-2), within limits.
    fn check(&self, sending: v1::EndpointPacket) -> Result<(EndpointId, Packet), Refusal> {
        let v1::EndpointPacket { endpoint: name, packet } = sending;
        let endpoint = wire::endpoint(&self.fabric.graph, &name)?;
        if !self.attached.contains(&endpoint) {
            return Err(Refusal::NotAttached { name });
        }
        Ok((endpoint, wire::packet(packet, self.fabric.colors)?))
    }

    fn send(&self, turn: Vec<(EndpointId, Packet)>) {
        let mut core = self.fabric.core();
        for (from, packet) in turn {
            core.send(from, packet);
        }
    }
}
