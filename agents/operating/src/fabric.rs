//! The stream to the fabric: endpoints attached, packets out, packets in.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fabricast_proto::v1;
use fabricast_proto::v1::fabric_service_client::FabricServiceClient;
use fabricast_rpc::{Backoff, Peer, Reason};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::time::Instant;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use tracing::{debug, warn};

use crate::host::Host;

/// Messages on their way to the fabric.
const QUEUE: usize = 1024;
/// Delays before an endpoint is attached again that the fabric holds for another connection: that
/// of a process that is gone ends only when the fabric notices.
const ATTACH_AGAIN: Backoff =
    Backoff { first: Duration::from_millis(50), most: Duration::from_secs(2) };

impl Host {
    /// Keeps the endpoints attached for as long as the process runs.
    pub(crate) async fn attach_forever(
        self,
        fabric: Peer,
        mut messages: mpsc::Receiver<v1::AttachEndpointsRequest>,
    ) {
        let mut backoff = Backoff::default();
        loop {
            let ended = self.attach_once(&fabric, &mut messages, &mut backoff).await;
            match &ended {
                Ok(()) => debug!(peer = fabric.address(), "fabric closed the stream"),
                Err(status) => {
                    warn!(peer = fabric.address(), error = %status.message(), "fabric not attached");
                }
            }
            self.0.attached.store(false, Ordering::Relaxed);
            // What was to be sent while nobody listened is lost, as on a wire.
            while messages.try_recv().is_ok() {}
            let delay = match &ended {
                Ok(()) => backoff.next_delay(),
                Err(status) => backoff.delay_after(status),
            };
            tokio::time::sleep(delay).await;
        }
    }

    async fn attach_once(
        &self,
        fabric: &Peer,
        messages: &mut mpsc::Receiver<v1::AttachEndpointsRequest>,
        backoff: &mut Backoff,
    ) -> Result<(), Status> {
        let (out, stream) = mpsc::channel(QUEUE);
        let attach =
            v1::AttachEndpointsRequest { attach: self.live_endpoints(), ..Default::default() };
        // The queue is empty and longer than one message.
        let _ = out.try_send(attach);
        let mut client = FabricServiceClient::new(fabric.channel());
        let answer = client.attach_endpoints(ReceiverStream::new(stream)).await?;
        let mut arriving = answer.into_inner();
        *backoff = Backoff::default();
        self.0.attached.store(true, Ordering::Relaxed);
        let mut plugs = Plugs::default();
        loop {
            // What arrives is taken even while the fabric takes nothing, or both wait forever.
            let leaving = async {
                let room = out.reserve().await.ok()?;
                Some((messages.recv().await?, room))
            };
            tokio::select! {
                arrived = arriving.next() => match arrived {
                    Some(message) => {
                        let message = message?;
                        plugs.answered(&message);
                        self.arrived(message);
                    }
                    None => return Ok(()),
                },
                leaving = leaving => match leaving {
                    Some((message, room)) => {
                        plugs.told(&message);
                        room.send(message);
                    }
                    None => return Ok(()),
                },
                () = plugs.due() => {
                    let attach = plugs.again(self.live_endpoints());
                    let again = v1::AttachEndpointsRequest { attach, ..Default::default() };
                    if matches!(out.try_send(again), Err(TrySendError::Full(_))) {
                        plugs.refused();
                    }
                },
            }
        }
    }

    /// Sends packets to the fabric; those in a queue when the stream ends are lost, as on a wire.
    ///
    /// # Errors
    ///
    /// `UNAVAILABLE / FABRIC_UNAVAILABLE` without a stream, `RESOURCE_EXHAUSTED / LIMIT_REACHED`
    /// if the queue is full.
    pub(crate) fn send_packets(&self, packets: Vec<v1::EndpointPacket>) -> Result<(), Status> {
        let cut = || Reason::FabricUnavailable.status("no connection to the fabric", &[]);
        if !self.0.attached.load(Ordering::Relaxed) {
            return Err(cut());
        }
        let message = v1::AttachEndpointsRequest { packets, ..Default::default() };
        self.0.to_fabric.try_send(message).map_err(|error| match error {
            TrySendError::Full(_) => {
                Reason::LimitReached.status("too many packets wait for the fabric", &[])
            }
            TrySendError::Closed(_) => cut(),
        })
    }

    fn arrived(&self, message: v1::AttachEndpointsResponse) {
        for refusal in message.refusals {
            warn!(reason = %refusal, "fabric refused");
        }
        let mut packets = Vec::new();
        for arrived in message.packets {
            if let Some(packet) = arrived.packet {
                let v1::Packet { mgid, source, sequence, .. } = packet;
                if self.is_first(&arrived.endpoint, mgid, (source, sequence))
                    && !self.layer_packet(&arrived.endpoint, mgid, &packet.payload)
                {
                    packets.extend(self.deliver(&arrived.endpoint, mgid, &packet.payload, None));
                }
            }
        }
        self.publish(packets);
    }
}

/// What one stream has attached, and when to try again what was refused.
#[derive(Debug)]
struct Plugs {
    attached: BTreeSet<String>,
    again_at: Option<Instant>,
    backoff: Backoff,
}

impl Default for Plugs {
    fn default() -> Self {
        Self { attached: BTreeSet::new(), again_at: None, backoff: ATTACH_AGAIN }
    }
}

impl Plugs {
    /// Notes what goes out: an endpoint plugged or pulled is not attached until it is confirmed.
    fn told(&mut self, message: &v1::AttachEndpointsRequest) {
        for endpoint in message.attach.iter().chain(&message.detach) {
            self.attached.remove(endpoint);
        }
    }

    fn answered(&mut self, message: &v1::AttachEndpointsResponse) {
        self.attached.extend(message.attached.iter().cloned());
        let held = Reason::EndpointAttached.text();
        if message.refusals.iter().any(|line| line.split(':').next() == Some(held)) {
            self.refused();
        }
    }

    fn refused(&mut self) {
        if self.again_at.is_none() {
            self.again_at = Some(Instant::now() + self.backoff.next_delay());
        }
    }

    /// Waits until something refused is to be tried again.
    async fn due(&self) {
        match self.again_at {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    /// Takes what is to be attached again.
    fn again(&mut self, live: Vec<String>) -> Vec<String> {
        self.again_at = None;
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
