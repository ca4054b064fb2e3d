//! The stream to the fabric: endpoints attached, packets out, packets in.

use std::collections::BTreeSet;
use std::time::Duration;

use fabricast_proto::v1;
use fabricast_proto::v1::fabric_service_client::FabricServiceClient;
use fabricast_rpc::{Backoff, Channel, Reason, RpcError};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::time::Instant;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tracing::{debug, warn};

use super::listeners::Listeners;
use super::packets::PacketSender;
use crate::runtime::Runtime;

/// Messages between the queue of packets and the stream.
const STREAM_QUEUE: usize = 1024;
/// Delays before an endpoint is attached again that the fabric holds for another connection. The
/// connection of a process that was killed ends only when the fabric notices.
const ATTACH_AGAIN: Backoff =
    Backoff { first: Duration::from_millis(50), most: Duration::from_secs(2) };

/// Keeps a stream to the fabric, and the live endpoints attached.
#[derive(Clone, Debug)]
pub(crate) struct FabricStream {
    pub(crate) runtime: Runtime,
    pub(crate) packets: PacketSender,
    pub(crate) listeners: Listeners,
}

impl FabricStream {
    /// Opens a stream again and again.
    ///
    /// - `messages`: from [`PacketSender::new`].
    pub(crate) async fn run(self, mut messages: mpsc::Receiver<v1::AttachEndpointsRequest>) {
        let Some(fabric) = self.runtime.channels.fabric() else {
            while messages.recv().await.is_some() {}
            return;
        };
        let (mut backoff, peer) = (Backoff::default(), fabric.address());
        loop {
            let client = FabricServiceClient::new(fabric.channel());
            let ended = self.attach(client, &mut messages, &mut backoff).await;
            self.packets.set_attached(false);
            // Messages queued without a stream are lost, as on a wire.
            while messages.try_recv().is_ok() {}
            let delay = match &ended {
                Ok(()) => {
                    debug!(peer, "fabric closed the stream");
                    backoff.next_delay()
                }
                Err(error) => {
                    warn!(peer, error = %error.message(), "fabric not attached");
                    backoff.delay_after_error(error)
                }
            };
            tokio::time::sleep(delay).await;
        }
    }

    /// Serves one stream until it ends.
    async fn attach(
        &self,
        mut client: FabricServiceClient<Channel>,
        messages: &mut mpsc::Receiver<v1::AttachEndpointsRequest>,
        backoff: &mut Backoff,
    ) -> Result<(), RpcError> {
        let nodes = &self.runtime.nodes;
        let (out, stream) = mpsc::channel(STREAM_QUEUE);
        let attach =
            v1::AttachEndpointsRequest { attach: nodes.live_endpoints(), ..Default::default() };
        // The queue is empty and longer than one message.
        let _ = out.try_send(attach);
        let answer = client.attach_endpoints(ReceiverStream::new(stream)).await?;
        let mut arriving = answer.into_inner();
        *backoff = Backoff::default();
        self.packets.set_attached(true);
        let mut endpoints = AttachedEndpoints::default();
        loop {
            // Arriving packets are taken even while the fabric takes nothing, or both would wait
            // forever.
            let leaving = async {
                let room = out.reserve().await.ok()?;
                Some((messages.recv().await?, room))
            };
            tokio::select! {
                arrived = arriving.next() => {
                    let Some(message) = arrived else { return Ok(()) };
                    let message = message?;
                    endpoints.answered(&message);
                    for refusal in &message.refusals {
                        warn!(reason = %refusal, "fabric refused");
                    }
                    self.listeners.receive(message.packets);
                },
                leaving = leaving => {
                    let Some((message, room)) = leaving else { return Ok(()) };
                    endpoints.sent(&message);
                    room.send(message);
                },
                () = endpoints.retry_due() => {
                    let attach = endpoints.take_missing(nodes.live_endpoints());
                    let again = v1::AttachEndpointsRequest { attach, ..Default::default() };
                    if matches!(out.try_send(again), Err(TrySendError::Full(_))) {
                        endpoints.retry_later();
                    }
                },
            }
        }
    }
}

/// Endpoints that one stream has attached, and the time to retry those that were refused.
#[derive(Debug)]
struct AttachedEndpoints {
    attached: BTreeSet<String>,
    retry_at: Option<Instant>,
    backoff: Backoff,
}

impl Default for AttachedEndpoints {
    fn default() -> Self {
        Self { attached: BTreeSet::new(), retry_at: None, backoff: ATTACH_AGAIN }
    }
}

impl AttachedEndpoints {
    /// Notes an outgoing message: its endpoints are not attached until that is confirmed.
    fn sent(&mut self, message: &v1::AttachEndpointsRequest) {
        for endpoint in message.attach.iter().chain(&message.detach) {
            self.attached.remove(endpoint);
        }
    }

    fn answered(&mut self, message: &v1::AttachEndpointsResponse) {
        self.attached.extend(message.attached.iter().cloned());
        let held = Reason::EndpointAttached.text();
        if message.refusals.iter().any(|line| line.split(':').next() == Some(held)) {
            self.retry_later();
        }
    }

    fn retry_later(&mut self) {
        if self.retry_at.is_none() {
            self.retry_at = Some(Instant::now() + self.backoff.next_delay());
        }
    }

    async fn retry_due(&self) {
        match self.retry_at {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    /// Takes the live endpoints that are not attached, for a retry now.
    fn take_missing(&mut self, live: Vec<String>) -> Vec<String> {
        self.retry_at = None;
        let missing: Vec<String> =
            live.into_iter().filter(|endpoint| !self.attached.contains(endpoint)).collect();
        if missing.is_empty() {
            self.backoff = ATTACH_AGAIN;
        }
        missing
    }
}

#[cfg(test)]
mod tests;
