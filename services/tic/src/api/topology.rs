//! `TopologyService`: topologies are parsed and merged here, and taken by the writer. The services
//! of the term are then replaced by ones for the new topology. Links are drained and resumed.

use std::collections::BTreeSet;
use std::sync::Arc;

use fabricast_proto::v1;
use fabricast_rpc::{CallCost, Caller, CollectedBytes, Reason};
use fabricast_store::StoreError;
use fabricast_topology::{Graph, Peer, ibnetdiscover};
use tokio::sync::Mutex;
use tonic::{Request, Response, Status, Streaming};

use crate::api::batch_limits::{PacedMessages, UPLOAD_TIMEOUT};
use crate::api::{fields, status};
use crate::domain::elements::{self, ElementKey};
use crate::domain::topology::{TopologyChange, TopologySnapshot};
use crate::records::Records;
use crate::writer::error::WriteError;
use crate::writer::queue::WriterQueue;
use crate::writer::requests::{FollowFabric, PutFailedElements};

/// Most bytes of a topology: enough for some millions of endpoints.
const MAX_BYTES: usize = 256 << 20;
/// Most bytes of the topology in one message of a download; readers parse it message by message.
const CHUNK: usize = 1 << 17;

/// The service; cloning it is cheap.
#[derive(Clone, Debug)]
pub(crate) struct Topologies {
    pub(crate) queue: WriterQueue,
    pub(crate) records: Arc<Records>,
    pub(crate) topology: TopologySnapshot,
    /// Held while the list of drained links is changed.
    pub(crate) drained: Arc<Mutex<()>>,
    /// Held while a change of the topology is computed and decided: each costs as much memory as
    /// the topology. True once one was accepted, which ends the term.
    pub(crate) is_replaced: Arc<Mutex<bool>>,
}

/// Has collectives follow failed and drained parts of the fabric, some with each decision. Without
/// space in the store they follow at a later change.
pub(crate) async fn collectives_follow_fabric(
    queue: &WriterQueue,
    records: &Records,
) -> Result<(), WriteError> {
    while records.collectives_lag() {
        match queue.write(FollowFabric).await {
            Err(WriteError::StoreLimit(StoreError::NoSpace)) => return Ok(()),
            followed => followed?,
        }
    }
    Ok(())
}

/// A change of the drained links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkChange {
    Check,
    Drain,
    Resume,
}

impl Topologies {
    /// Makes a change, also if the caller is gone meanwhile.
    async fn change_links(
        &self,
        links: BTreeSet<ElementKey>,
        change: LinkChange,
    ) -> Result<Vec<v1::DrainedLink>, Status> {
        let wire = links.iter().filter_map(|link| self.wire_link(*link, false)).collect();
        let this = self.clone();
        let changing = tokio::spawn(async move {
            let _held = this.drained.lock().await;
            let known: BTreeSet<ElementKey> =
                this.records.drained().into_iter().map(|(link, _)| link).collect();
            let next: BTreeSet<ElementKey> = match change {
                LinkChange::Check | LinkChange::Drain => {
                    this.records.check_drain(&links)?;
                    known.union(&links).copied().collect()
                }
                LinkChange::Resume => known.difference(&links).copied().collect(),
            };
            if change == LinkChange::Check || next == known {
                return Ok(());
            }
            let text = elements::text(&this.topology.graph, &next);
            let elements = (!next.is_empty()).then_some(text);
            let reporter = elements::DRAINED.to_owned();
            this.queue.write(PutFailedElements { reporter, elements }).await?;
            tracing::info!(drained = next.len(), before = known.len(), "drained links changed");
            this.records.set_drained(next);
            collectives_follow_fabric(&this.queue, &this.records).await?;
            Ok::<(), Status>(())
        });
        changing.await.map_err(|_panic| status::panicked("the change of drained links"))??;
        Ok(wire)
    }

    /// Has the writer take the topology after a change, which is computed here; returns a summary
    /// of what holds then, and whether it differs from before.
    async fn change_topology(
        &self,
        change: TopologyChange,
    ) -> Result<(v1::TopologySummary, bool), Status> {
        let turn = CallCost::current().turn().await;
        let mut is_replaced = self.is_replaced.lock().await;
        if *is_replaced {
            return Err(WriteError::Stopping.into());
        }
        let present = self.topology.clone();
        let computing = turn.run(move || present.next(&change));
        let next = computing.await.map_err(|_panic| status::panicked("merging topologies"))?;
        // The writer is asked also if nothing changes: the term may have ended meanwhile.
        let summary = self.queue.write(next.map_err(WriteError::from)?).await?;
        *is_replaced = summary.is_some();
        Ok((summary.clone().unwrap_or_else(|| self.topology.summary()), summary.is_some()))
    }

    fn wire_link(&self, link: ElementKey, needed: bool) -> Option<v1::DrainedLink> {
        let ElementKey::Link(port) = link else { return None };
        let Peer::Switch(peer) = self.topology.graph.peer(port) else { return None };
        let name = |port| v1::PortName {
            switch_name: self
                .topology
                .graph
                .switch_name(self.topology.graph.switch_of(port))
                .to_owned(),
            port: u32::from(self.topology.graph.port_number(port)),
        };
        Some(v1::DrainedLink { end: Some(name(port)), peer: Some(name(peer)), needed })
    }
}

#[tonic::async_trait]
impl v1::topology_service_server::TopologyService for Topologies {
    async fn report_topology(
        &self,
        request: Request<Streaming<v1::ReportTopologyRequest>>,
    ) -> Result<Response<v1::ReportTopologyResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let collected = CollectedBytes::of(request.extensions());
        let mut messages = PacedMessages::within(UPLOAD_TIMEOUT, Box::pin(request.into_inner()));
        let first = messages.next().await?.unwrap_or_default();
        let reporter = fields::label("reporter", &first.reporter)?.to_owned();
        caller.check_reporter(&reporter)?;
        let bytes = collect(first.chunk, messages, &collected, |message| message.chunk).await?;
        let graph = parse(bytes).await?;
        let (summary, changed) = self.change_topology(TopologyChange::Merge(graph)).await?;
        if changed {
            tracing::info!(reporter, "topology changed by a report");
        }
        Ok(Response::new(v1::ReportTopologyResponse { topology: Some(summary), changed }))
    }

    async fn replace_topology(
        &self,
        request: Request<Streaming<v1::ReplaceTopologyRequest>>,
    ) -> Result<Response<v1::ReplaceTopologyResponse>, Status> {
        let collected = CollectedBytes::of(request.extensions());
        let messages = PacedMessages::within(UPLOAD_TIMEOUT, Box::pin(request.into_inner()));
        let bytes = collect(Vec::new(), messages, &collected, |message| message.chunk).await?;
        let graph = parse(bytes).await?;
        let (summary, changed) = self.change_topology(TopologyChange::Replace(graph)).await?;
        Ok(Response::new(v1::ReplaceTopologyResponse { topology: Some(summary), changed }))
    }

    async fn drain_link(
        &self,
        request: Request<v1::DrainLinkRequest>,
    ) -> Result<Response<v1::DrainLinkResponse>, Status> {
        let v1::DrainLinkRequest { switch_name, peer_switch_name, port, validate_only } =
            request.into_inner();
        let links =
            elements::links_between(&self.topology.graph, [&switch_name, &peer_switch_name], port)?;
        let change = if validate_only { LinkChange::Check } else { LinkChange::Drain };
        let links = self.change_links(links, change).await?;
        Ok(Response::new(v1::DrainLinkResponse { links }))
    }

    async fn resume_link(
        &self,
        request: Request<v1::ResumeLinkRequest>,
    ) -> Result<Response<v1::ResumeLinkResponse>, Status> {
        let v1::ResumeLinkRequest { switch_name, peer_switch_name, port } = request.into_inner();
        let links =
            elements::links_between(&self.topology.graph, [&switch_name, &peer_switch_name], port)?;
        let links = self.change_links(links, LinkChange::Resume).await?;
        Ok(Response::new(v1::ResumeLinkResponse { links }))
    }

    async fn list_drained_links(
        &self,
        _request: Request<v1::ListDrainedLinksRequest>,
    ) -> Result<Response<v1::ListDrainedLinksResponse>, Status> {
        let drained = self.records.drained().into_iter();
        let links = drained.filter_map(|(link, needed)| self.wire_link(link, needed)).collect();
        Ok(Response::new(v1::ListDrainedLinksResponse { links }))
    }
}

fn invalid(why: String) -> Status {
    Reason::TopologyInvalid.status(why, &[("field", "chunk")])
}

/// Joins the chunks of a stream.
///
/// - `bytes`: of messages that were read before.
/// - `collected`: has the client charged with them.
async fn collect<T>(
    mut bytes: Vec<u8>,
    mut messages: PacedMessages<T>,
    collected: &CollectedBytes,
    chunk: impl Fn(T) -> Vec<u8>,
) -> Result<Vec<u8>, Status> {
    while let Some(message) = messages.next().await? {
        bytes.extend(chunk(message));
        if bytes.len() > MAX_BYTES {
            return Err(invalid(format!("chunk: more than {MAX_BYTES} bytes in all")));
        }
        collected.hold(bytes.len())?;
    }
    Ok(bytes)
}

/// Parses the text of a topology.
async fn parse(bytes: Vec<u8>) -> Result<Arc<Graph>, Status> {
    let text = String::from_utf8(bytes).map_err(|error| {
        invalid(format!("chunk: not text from byte {}", error.utf8_error().valid_up_to()))
    })?;
    // Parsing a large text takes longer than other calls may wait.
    let parsing = CallCost::current().turn().await.run(move || ibnetdiscover::read(&text));
    let graph = parsing.await.map_err(|_panic| status::panicked("parsing the topology"))?;
    let graph = graph.map_err(|error| invalid(format!("chunk: {error}")))?;
    if graph.switch_count() == 0 {
        return Err(invalid("chunk: there is no switch in it".to_owned()));
    }
    Ok(Arc::new(graph))
}

/// The topology's text, cut into messages as they are read.
#[derive(Debug)]
pub(crate) struct TopologyChunks {
    text: Arc<str>,
    at: usize,
}

impl TopologyChunks {
    pub(crate) fn new(text: Arc<str>) -> Self {
        Self { text, at: 0 }
    }
}

impl Iterator for TopologyChunks {
    type Item = Result<v1::DownloadTopologyResponse, Status>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.text.as_bytes().get(self.at..).filter(|rest| !rest.is_empty())?;
        let chunk = rest[..rest.len().min(CHUNK)].to_vec();
        self.at += chunk.len();
        Some(Ok(v1::DownloadTopologyResponse { chunk }))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;
    use tokio_stream::{StreamExt, iter, pending};

    use super::*;

    /// Collects chunks; gives how that ended, and the time that it took.
    async fn collected_of(
        messages: tonic::codegen::BoxStream<Vec<u8>>,
    ) -> (Result<Vec<u8>, Status>, Duration) {
        let begun = Instant::now();
        let messages = PacedMessages::within(UPLOAD_TIMEOUT, messages);
        let outside = CollectedBytes::of(&http::Extensions::new());
        let ended = collect(b"a".to_vec(), messages, &outside, |chunk| chunk).await;
        (ended, begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_topology_that_stays_away_or_comes_bit_by_bit_is_given_up() {
        let chunks = |count| iter((0..count).map(|_| Ok::<_, Status>(b"b".to_vec())));
        let (whole, _) = collected_of(Box::pin(chunks(3))).await;
        assert_eq!(whole.unwrap(), b"abbb");
        let (silent, after) = collected_of(Box::pin(chunks(1).chain(pending()))).await;
        assert!(Reason::RequestTooSlow.is_of(&silent.unwrap_err()));
        assert!(after < UPLOAD_TIMEOUT, "{after:?}");
        let slow = chunks(1_000).throttle(Duration::from_secs(1));
        let (slow, after) = collected_of(Box::pin(slow)).await;
        assert!(Reason::RequestTooSlow.is_of(&slow.unwrap_err()));
        assert!(after >= UPLOAD_TIMEOUT && after < UPLOAD_TIMEOUT * 2, "{after:?}");
    }
}
