//! The two tasks of an attached process: one reads its requests, one writes to it.
//!
//! There are two because requests of a process that does not read its packets must still be
//! handled, and because a slow reader must not hold up the fabric (FAB-1).

use std::collections::BTreeSet;
use std::sync::Arc;

use fabricast_emulator::Packet;
use fabricast_proto::v1;
use fabricast_rpc::Reason;
use fabricast_topology::{EndpointId, Graph};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};

use crate::fabric::{AlreadyAttached, Fabric};
use crate::mailbox::Mailbox;
use crate::wire::{self, Refusal};

/// Most packets that are sent before the lock is released.
const PACKETS_PER_BATCH: usize = 16;

/// A message to the process, or the end of its stream.
pub(super) type Answer = Result<v1::AttachEndpointsResponse, Status>;

/// Handles the requests of the process until its stream ends, then detaches its endpoints.
///
/// - `answers`: confirmations and refusals. The channel is bounded, so a process that does not read
///   them delays only its own requests.
pub(super) async fn listen(
    fabric: Arc<Fabric>,
    mailbox: Arc<Mailbox>,
    mut requests: Streaming<v1::AttachEndpointsRequest>,
    answers: mpsc::Sender<v1::AttachEndpointsResponse>,
) {
    let mut process = Process { fabric, mailbox, attached: BTreeSet::new() };
    // After an error the connection is closed, and nobody reads an answer.
    while let Ok(Some(request)) = requests.message().await {
        let answer = process.handle(request).await;
        let is_empty = answer.attached.is_empty() && answer.refusals.is_empty();
        if !is_empty && answers.send(answer).await.is_err() {
            break;
        }
    }
    tracing::debug!(endpoints = process.attached.len(), "process detached");
}

/// Sends answers and packets to the process until either side ends.
pub(super) async fn deliver(
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
                // If there is no room, the process just sees the end of the stream.
                let stopping = Reason::ShuttingDown.status("the fabric is stopping", &[]);
                let _ = to.try_send(Err(stopping));
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

/// An attached process; its endpoints are detached when this is dropped, however the stream ended.
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
    /// Attaches, sends and detaches, in this order. Wrong parts are refused, the others are done.
    async fn handle(&mut self, request: v1::AttachEndpointsRequest) -> v1::AttachEndpointsResponse {
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
            let mut batch = Vec::with_capacity(PACKETS_PER_BATCH);
            for checked in packets.by_ref().take(PACKETS_PER_BATCH) {
                match checked {
                    Ok(sending) => batch.push(sending),
                    Err(refusal) => refusals.push(refusal.line()),
                }
            }
            self.send(batch);
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
        attached.map_err(|AlreadyAttached| Refusal::Attached { name: name.to_owned() })?;
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

    /// Checks a packet to be sent: it must be within the limits, and come from an endpoint that
    /// this process has attached (FAB-2).
    fn check(&self, sending: v1::EndpointPacket) -> Result<(EndpointId, Packet), Refusal> {
        let v1::EndpointPacket { endpoint: name, packet } = sending;
        let endpoint = wire::endpoint(&self.fabric.graph, &name)?;
        if !self.attached.contains(&endpoint) {
            return Err(Refusal::NotAttached { name });
        }
        Ok((endpoint, wire::packet(packet, self.fabric.colors)?))
    }

    fn send(&self, batch: Vec<(EndpointId, Packet)>) {
        let mut core = self.fabric.core();
        for (from, packet) in batch {
            core.send(from, packet);
        }
    }
}
