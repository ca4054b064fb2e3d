//! The stream to the fabric: endpoints attached, packets out, packets in.

use fabricast_proto::v1;
use fabricast_proto::v1::fabric_service_client::FabricServiceClient;
use fabricast_rpc::{Backoff, Peer};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use tracing::{debug, warn};

use crate::host::Host;

/// Messages on their way to the fabric.
const QUEUE: usize = 1024;

impl Host {
    /// Keeps the endpoints attached for as long as the process runs.
    pub(crate) async fn attach_forever(
        self,
        fabric: Peer,
        mut messages: mpsc::Receiver<v1::AttachEndpointsRequest>,
    ) {
        let mut backoff = Backoff::default();
        loop {
            match self.attach_once(&fabric, &mut messages, &mut backoff).await {
                Ok(()) => debug!(peer = fabric.address(), "fabric closed the stream"),
                Err(status) => {
                    warn!(peer = fabric.address(), error = %status.message(), "fabric not attached");
                }
            }
            // What was to be sent while nobody listened is lost, as on a wire.
            while messages.try_recv().is_ok() {}
            tokio::time::sleep(backoff.next_delay()).await;
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
        loop {
            tokio::select! {
                arrived = arriving.next() => match arrived {
                    Some(message) => self.arrived(message?),
                    None => return Ok(()),
                },
                message = messages.recv() => match message {
                    Some(message) => {
                        if out.send(message).await.is_err() {
                            return Ok(());
                        }
                    }
                    None => return Ok(()),
                },
            }
        }
    }

    fn arrived(&self, message: v1::AttachEndpointsResponse) {
        for refusal in message.refusals {
            warn!(reason = %refusal, "fabric refused");
        }
        let mut packets = Vec::new();
        for arrived in message.packets {
            if let Some(packet) = arrived.packet {
                let own = self.deliver(&arrived.endpoint, packet.mgid, &packet.payload, None);
                packets.extend(own);
            }
        }
        self.publish(packets);
    }
}
