//! Streams between nodes of different processes: one for each pair of nodes that needs one.
//!
//! Either node opens the link when it needs it. If both do, the stream of the node whose name comes
//! first stays. A stream that ends is opened again for as long as the link is needed.

use std::time::Duration;

use fabricast_groups::ids::{Gn, Pn};
use fabricast_groups::names::{Address, NodeName};
use fabricast_groups::operating::Phase;
use fabricast_messages::{Body, Frame};
use fabricast_proto::v1;
use fabricast_rpc::{Backoff, RpcError};
use thiserror::Error;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tracing::{debug, warn};

use crate::nodes::direct::{CarriedFrame, Waiting, next_link};
use crate::nodes::messages::{LinkState, LinkStream};
use crate::runtime::Runtime;
use crate::runtime::channels::unavailable;

/// Frames that may wait for a stream; a peer that lets more wait is cut off.
const LINK_QUEUE: usize = 8192;
/// Most peers of one node.
const MAX_PEERS: usize = 16_384;
/// Delay before the node whose name comes second opens a stream: the other's would replace it.
const PRECEDENCE: Duration = Duration::from_millis(20);

/// Opens and accepts streams between nodes.
#[derive(Clone, Debug)]
pub(crate) struct Streams {
    pub(crate) runtime: Runtime,
}

/// The two ends of a link.
#[derive(Clone, Debug)]
pub(crate) struct Ends {
    pub(crate) node: NodeName,
    pub(crate) peer: NodeName,
}

/// The refusal of a stream that another node has opened.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum LinkError {
    #[error("to_node: '{node}' is not hosted here")]
    UnknownNode { node: NodeName },
    #[error("node '{node}' is not up")]
    NodeNotUp { node: NodeName },
    #[error("from_node: '{peer}' is linked already, or too many nodes are linked to '{node}'")]
    NotWanted { node: NodeName, peer: NodeName },
}

impl Streams {
    /// Links a node to one of another process; ends once the link is up or not needed.
    pub(crate) fn open(&self, ends: Ends, address: Address) {
        let this = self.clone();
        self.runtime.tasks.spawn(async move {
            let mut backoff = Backoff::default();
            if ends.node > ends.peer {
                tokio::time::sleep(PRECEDENCE).await;
            }
            while this.must_dial(&ends) {
                let delay = match this.dial(&ends, &address).await {
                    Err(error) => {
                        let Ends { node, peer } = &ends;
                        debug!(%node, %peer, error = %error.message(), "not linked");
                        backoff.delay_after_error(&error)
                    }
                    Ok(()) => {
                        backoff = Backoff::default();
                        backoff.next_delay()
                    }
                };
                tokio::time::sleep(delay).await;
            }
        });
    }

    /// Tells if a stream must still be opened. If not, the next need of the link begins anew.
    fn must_dial(&self, ends: &Ends) -> bool {
        let must_dial = self.runtime.nodes.messages(&ends.node, |messages, _, _| {
            let link = messages.links.get_mut(&ends.peer)?;
            link.is_dialing = link.address.is_some() && matches!(link.state, LinkState::Down);
            Some(link.is_dialing)
        });
        must_dial.flatten().unwrap_or(false)
    }

    /// Opens a stream and serves it until it ends.
    async fn dial(&self, ends: &Ends, address: &Address) -> Result<(), RpcError> {
        let unusable = |_| unavailable("the peer's address cannot be used");
        let mut client =
            self.runtime.channels.operating_agents_at(address.as_str()).map_err(unusable)?;
        let (frames, queue) = mpsc::channel(LINK_QUEUE);
        let hello = v1::OpenLinkRequest {
            from_node: ends.node.to_string(),
            to_node: ends.peer.to_string(),
            frames: Vec::new(),
        };
        let later = ReceiverStream::new(queue).map(|one: Waiting<_>| v1::OpenLinkRequest {
            frames: vec![one.message],
            ..<_>::default()
        });
        let stream = tokio_stream::once(hello).chain(later);
        let mut arriving = client.open_link(stream).await?.into_inner();
        let Some(id) = self.link_up(ends, ends.node < ends.peer, frames) else { return Ok(()) };
        let ended = loop {
            match arriving.message().await {
                Ok(Some(message)) => {
                    if !self.receive(ends, id, message.frames) {
                        break Ok(());
                    }
                }
                Ok(None) => break Ok(()),
                Err(status) => break Err(status.into()),
            }
        };
        self.link_down(ends, id);
        ended
    }

    /// Accepts a stream that another node has opened; returns the frames to be sent on it.
    ///
    /// - `first`: the frames of the first message.
    /// - `later`: the frames of all others; ends with the stream.
    pub(crate) fn accept(
        &self,
        ends: Ends,
        first: Vec<v1::LinkFrame>,
        later: impl Stream<Item = Vec<v1::LinkFrame>> + Send + Unpin + 'static,
    ) -> Result<ReceiverStream<Waiting<v1::LinkFrame>>, LinkError> {
        let node = ends.node.clone();
        match self.runtime.nodes.read(&node, |agent| agent.phase()) {
            None => return Err(LinkError::UnknownNode { node }),
            Some(Phase::Up) => {}
            Some(Phase::Registering | Phase::Stopped) => return Err(LinkError::NodeNotUp { node }),
        }
        let (frames, queue) = mpsc::channel(LINK_QUEUE);
        let Some(id) = self.link_up(&ends, ends.peer < ends.node, frames) else {
            return Err(LinkError::NotWanted { node, peer: ends.peer });
        };
        let (this, mut arriving) = (self.clone(), tokio_stream::once(first).chain(later));
        self.runtime.tasks.spawn(async move {
            while let Some(frames) = arriving.next().await {
                if !this.receive(&ends, id, frames) {
                    break;
                }
            }
            this.link_down(&ends, id);
        });
        Ok(ReceiverStream::new(queue))
    }

    /// Makes a new stream the link of two nodes; `None` if it is not to be used.
    fn link_up(
        &self,
        ends: &Ends,
        is_preferred: bool,
        frames: mpsc::Sender<Waiting<v1::LinkFrame>>,
    ) -> Option<u64> {
        let Ends { node, peer } = ends;
        let linked = self.runtime.nodes.messages(node, |messages, agent, now| {
            let is_full = messages.links.len() >= MAX_PEERS && !messages.links.contains_key(peer);
            if agent.phase() != Phase::Up || is_full {
                return None;
            }
            let link = messages.links.entry(peer.clone()).or_default();
            match &link.state {
                LinkState::Local(_) | LinkState::Direct => return None,
                LinkState::Stream(held) if held.is_preferred && !is_preferred => return None,
                LinkState::Stream(_) | LinkState::Down => {}
            }
            let id = next_link();
            link.state = LinkState::Stream(LinkStream { id, is_preferred, frames });
            messages.layer.link_up(now, peer);
            Some(id)
        });
        linked.flatten()
    }

    /// Takes frames from a stream; returns false if it is not the link any more.
    fn receive(&self, ends: &Ends, id: u64, frames: Vec<v1::LinkFrame>) -> bool {
        let Ends { node, peer } = ends;
        let taken = self.runtime.nodes.messages(node, |messages, agent, now| {
            if !messages.links.get(peer).is_some_and(|link| link.is_stream(id)) {
                return false;
            }
            for mut frame in frames {
                let frame_end = frame.direct.take();
                let body = match Body::decode(&frame.body) {
                    Ok(body) => body,
                    Err(error) => {
                        warn!(%peer, %error, "frame not understood");
                        return false;
                    }
                };
                let (gn, from, to) = (Gn(frame.gn), Pn(frame.from_pn), Pn(frame.to_pn));
                let frame = Frame { gn, from, to, body };
                let carried = CarriedFrame { frame, direct: frame_end, permit: None };
                messages.receive(now, agent, peer, carried);
            }
            true
        });
        taken == Some(true)
    }

    /// Notes that a stream has ended.
    fn link_down(&self, ends: &Ends, id: u64) {
        let Ends { node, peer } = ends;
        self.runtime.nodes.messages(node, |messages, _, now| {
            let link = messages.links.get_mut(peer).filter(|link| link.is_stream(id));
            let Some(link) = link else { return };
            link.state = LinkState::Down;
            if link.address.is_none() {
                messages.links.remove(peer);
            }
            messages.layer.link_down(now, peer);
        });
    }
}
