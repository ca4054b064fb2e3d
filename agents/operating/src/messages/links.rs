//! Streams between nodes of different processes: one for each pair of nodes that needs one.
//!
//! Whichever node needs the link opens it; when both have, the stream of the one whose name comes first
//! stays. A stream that ends is opened again for as long as the link is needed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fabricast_group::wire::name;
use fabricast_groups::ids::{Gn, Pn};
use fabricast_groups::names::{Address, NodeName};
use fabricast_groups::operating::Phase;
use fabricast_messages::{Body, Frame};
use fabricast_proto::v1;
use fabricast_rpc::{Backoff, Reason};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};
use tracing::{debug, warn};

use super::{Link, Peering};
use crate::host::Host;

/// Frames that may wait for a stream; a peer that lets more wait is cut off.
const LINK_QUEUE: usize = 8192;
/// Most peers of one node.
const MAX_PEERS: usize = 16_384;
/// Who opens a stream says in this time who it is.
const FIRST_WORD: Duration = Duration::from_secs(5);
/// The node whose name comes second waits so long to be called before it calls itself.
const PRECEDENCE: Duration = Duration::from_millis(20);

/// Numbers of streams, unique in this process.
static NEXT: AtomicU64 = AtomicU64::new(1);

impl Host {
    /// Links a node to one in another process, for as long as that is needed and there is no link.
    pub(crate) async fn dial(self, node: NodeName, peer: NodeName, address: Address) {
        let mut backoff = Backoff::default();
        if node > peer {
            tokio::time::sleep(PRECEDENCE).await;
        }
        while self.needs_call(&node, &peer) {
            let delay = match self.dial_once(&node, &peer, &address).await {
                Err(status) => {
                    debug!(member = %node, peer = %peer, error = %status.message(), "not linked");
                    backoff.delay_after(&status)
                }
                Ok(()) => {
                    backoff = Backoff::default();
                    backoff.next_delay()
                }
            };
            tokio::time::sleep(delay).await;
        }
    }

    /// Whether a node still needs a call; if not, the next need begins another one.
    fn needs_call(&self, node: &NodeName, peer: &NodeName) -> bool {
        let mut state = self.state();
        let hosted = state.nodes.get_mut(node);
        let Some(peering) = hosted.and_then(|hosted| hosted.messages.peers.get_mut(peer)) else {
            return false;
        };
        peering.dialing = peering.address.is_some() && matches!(peering.link, Link::Down);
        peering.dialing
    }

    async fn dial_once(
        &self,
        node: &NodeName,
        peer: &NodeName,
        address: &Address,
    ) -> Result<(), Status> {
        let gone = |_| Reason::PeerUnavailable.status("the peer's address cannot be used", &[]);
        let at = self.peer(address.as_str()).map_err(gone)?;
        let (frames, queue) = mpsc::channel(LINK_QUEUE);
        let hello = v1::OpenLinkRequest {
            from_node: node.to_string(),
            to_node: peer.to_string(),
            frames: Vec::new(),
        };
        let later = ReceiverStream::new(queue)
            .map(|frame| v1::OpenLinkRequest { frames: vec![frame], ..<_>::default() });
        let stream = tokio_stream::once(hello).chain(later);
        let mut arriving = self.agent_at(&at).open_link(stream).await?.into_inner();
        let Some(id) = self.linked(node, peer, node < peer, frames) else { return Ok(()) };
        let ended = loop {
            match arriving.message().await {
                Ok(Some(message)) => {
                    if !self.arrive(node, peer, id, message.frames) {
                        break Ok(());
                    }
                }
                Ok(None) => break Ok(()),
                Err(status) => break Err(status),
            }
        };
        self.cut(node, peer, id);
        ended
    }

    /// Takes a stream that another node has opened.
    pub(crate) async fn answer_link(
        &self,
        mut requests: Streaming<v1::OpenLinkRequest>,
    ) -> Result<impl tokio_stream::Stream<Item = v1::OpenLinkResponse> + use<>, Status> {
        let missing = || Reason::FieldMissing.status("to_node is missing", &[]);
        let first = tokio::time::timeout(FIRST_WORD, requests.message()).await;
        let first = first.map_err(|_| missing())??.ok_or_else(missing)?;
        let node = name("to_node", &first.to_node, NodeName::new)?;
        let peer = name("from_node", &first.from_node, NodeName::new)?;
        let facts = [("node", node.as_str())];
        match self.look(&node, |agent| agent.phase()) {
            None => {
                let text = format!("to_node: '{node}' is not hosted here");
                return Err(Reason::UnknownNode.status(text, &facts));
            }
            Some(Phase::Up) => {}
            Some(Phase::Registering | Phase::Stopped) => {
                return Err(Reason::NodeStopped.status(format!("node '{node}' is not up"), &facts));
            }
        }
        let (frames, queue) = mpsc::channel(LINK_QUEUE);
        let Some(id) = self.linked(&node, &peer, peer < node, frames) else {
            let text = format!("from_node: '{peer}' is linked already, or too many are");
            return Err(Reason::LimitReached.status(text, &facts));
        };
        self.spawn(|host| async move {
            if host.arrive(&node, &peer, id, first.frames) {
                while let Ok(Some(message)) = requests.message().await {
                    if !host.arrive(&node, &peer, id, message.frames) {
                        break;
                    }
                }
            }
            host.cut(&node, &peer, id);
        });
        Ok(ReceiverStream::new(queue).map(|frame| v1::OpenLinkResponse { frames: vec![frame] }))
    }

    /// Takes a new stream as the link of two nodes; `None` if it is not to be used.
    fn linked(
        &self,
        node: &NodeName,
        peer: &NodeName,
        preferred: bool,
        frames: mpsc::Sender<v1::LinkFrame>,
    ) -> Option<u64> {
        self.messages(node, |messages, agent, now| {
            let full = messages.peers.len() >= MAX_PEERS && !messages.peers.contains_key(peer);
            if agent.phase() != Phase::Up || full {
                return None;
            }
            let peering = messages.peers.entry(peer.clone()).or_default();
            match peering.link {
                Link::Inside => return None,
                Link::Stream { preferred: held, .. } if held && !preferred => return None,
                Link::Stream { .. } | Link::Down => {}
            }
            let id = NEXT.fetch_add(1, Ordering::Relaxed);
            peering.link = Link::Stream { id, preferred, frames };
            messages.courier.link_up(now, peer);
            Some(id)
        })
        .flatten()
    }

    /// Takes frames from a stream; answers false if it is the link no more.
    fn arrive(
        &self,
        node: &NodeName,
        peer: &NodeName,
        id: u64,
        frames: Vec<v1::LinkFrame>,
    ) -> bool {
        let taken = self.messages(node, |messages, _, now| {
            if !messages.peers.get(peer).is_some_and(|peering| peering.is(id)) {
                return false;
            }
            for frame in frames {
                let body = match Body::decode(&frame.body) {
                    Ok(body) => body,
                    Err(error) => {
                        warn!(peer = %peer, error = %error, "frame not understood");
                        return false;
                    }
                };
                let (gn, from, to) = (Gn(frame.gn), Pn(frame.from_pn), Pn(frame.to_pn));
                messages.courier.frame(now, peer, Frame { gn, from, to, body });
            }
            true
        });
        taken == Some(true)
    }

    /// Notes that a stream has ended.
    fn cut(&self, node: &NodeName, peer: &NodeName, id: u64) {
        self.messages(node, |messages, _, now| {
            let Some(peering) = messages.peers.get_mut(peer).filter(|one| one.is(id)) else {
                return;
            };
            peering.link = Link::Down;
            if peering.address.is_none() {
                messages.peers.remove(peer);
            }
            messages.courier.link_down(now, peer);
        });
    }
}

impl Peering {
    fn is(&self, stream: u64) -> bool {
        matches!(self.link, Link::Stream { id, .. } if id == stream)
    }
}
