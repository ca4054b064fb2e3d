//! The topology: what the TIC works with, how it lies in the store if it was discovered, and how it
//! travels to those who download it.

use std::sync::Arc;

use fabricast_groups::directory::Directory;
use fabricast_groups::record::{NodeRecord, NodeState};
use fabricast_proto::v1;
use fabricast_routing::EngineOptions;
use fabricast_rpc::Reason;
use fabricast_topology::{Graph, GraphBuilder, ibnetdiscover};
use sha2::{Digest, Sha256};
use tonic::Status;

use crate::choices::Puts;
use crate::mgids::MgidChoice;

/// Most bytes of the topology in one message.
const CHUNK: usize = 1 << 20;
/// Where it lies in the store, in pieces.
pub(crate) const TOPOLOGY: &str = "tic/topology/";
/// Most bytes of a piece in the store.
const PIECE: usize = 1 << 18;

/// Where the topology comes from.
#[derive(Clone, Debug)]
pub enum TopologySource {
    /// From a file: its text as `ibnetdiscover` prints it, and the same, parsed.
    File(Arc<str>, Arc<Graph>),
    /// From what switch agents discover; it is kept in the store.
    Discovered,
}

/// The topology during one term of office.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    /// As `ibnetdiscover` prints it; empty as long as none has been discovered.
    pub(crate) text: Arc<str>,
    pub(crate) graph: Arc<Graph>,
    pub(crate) sha256: [u8; 32],
    is_discovered: bool,
    /// What says how MGIDs are numbered on it.
    engine_options: EngineOptions,
}

impl Site {
    pub(crate) fn new(
        source: &TopologySource,
        discovered: Option<(Arc<str>, Arc<Graph>)>,
        engine_options: EngineOptions,
    ) -> Self {
        let (text, graph) = match source {
            TopologySource::File(text, graph) => (Arc::clone(text), Arc::clone(graph)),
            TopologySource::Discovered => discovered.unwrap_or_else(|| {
                let nothing = GraphBuilder::new().build().expect("no two names are equal");
                ("".into(), Arc::new(nothing))
            }),
        };
        let sha256 = Sha256::digest(text.as_bytes()).into();
        let is_discovered = matches!(source, TopologySource::Discovered);
        Self { text, graph, sha256, is_discovered, engine_options }
    }

    /// Gives what becomes of the topology with something else in place of it, or merged into it; `None`
    /// if it stays as it is.
    ///
    /// # Errors
    ///
    /// `TOPOLOGY_FIXED`, `TOPOLOGY_INVALID`, `ENDPOINT_IN_USE`: nothing may be changed.
    pub(crate) fn changed(
        &self,
        change: &TopologyChange,
        directory: &Directory,
    ) -> Result<Option<Self>, Status> {
        if !self.is_discovered {
            let text = "the topology of this TIC comes from a file";
            return Err(Reason::TopologyFixed.status(text, &[]));
        }
        let graph = match change {
            TopologyChange::Merge(found) => self.graph.merged(found),
            TopologyChange::Replace(graph) => (**graph).clone(),
        };
        let text = ibnetdiscover::write(&graph);
        if *text == *self.text {
            return Ok(None);
        }
        let is_needed = |node: &&NodeRecord| {
            node.state == NodeState::Up || directory.memberships(&node.name).next().is_some()
        };
        for node in directory.nodes().filter(is_needed) {
            let mut endpoints = node.endpoints.iter();
            let missing = endpoints.find(|name| graph.find_endpoint(name.as_str()).is_none());
            if let Some(endpoint) = missing {
                let (node, endpoint) = (node.name.as_str(), endpoint.as_str());
                let text = format!("node '{node}' has endpoint '{endpoint}', which would be gone");
                let facts = [("node", node), ("endpoint", endpoint)];
                return Err(Reason::EndpointInUse.status(text, &facts));
            }
        }
        let graph = Arc::new(graph);
        MgidChoice::new(Arc::clone(&graph), self.engine_options, directory).map_err(|error| {
            let text = format!("no MGIDs can be chosen on this topology: {error}");
            Reason::TopologyInvalid.status(text, &[])
        })?;
        let sha256 = Sha256::digest(text.as_bytes()).into();
        Ok(Some(Self { text: text.into(), graph, sha256, ..self.clone() }))
    }

    /// Puts the pieces into a transaction, and takes those out that another topology has more.
    pub(crate) fn store(&self, before: &Self, puts: &mut Puts) {
        let mut at = 0;
        let mut number = 0;
        while at < self.text.len() {
            let end = self.text.floor_char_boundary(at + PIECE);
            puts.insert(piece_key(number), Some(self.text.as_bytes()[at..end].to_vec()));
            (at, number) = (end, number + 1);
        }
        // A piece may be some bytes shorter than it might be, so there may be one more.
        for number in number..=before.text.len().div_ceil(PIECE - 3) {
            puts.insert(piece_key(number), None);
        }
    }

    pub(crate) fn summary(&self) -> v1::TopologySummary {
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        v1::TopologySummary {
            sha256: self.sha256.to_vec(),
            switch_count: count(self.graph.switch_count()),
            endpoint_count: count(self.graph.endpoint_count()),
        }
    }
}

fn piece_key(number: usize) -> Vec<u8> {
    format!("{TOPOLOGY}{number:05}").into_bytes()
}

/// What somebody wants the topology to be.
#[derive(Clone, Debug)]
pub(crate) enum TopologyChange {
    /// What is known and this.
    Merge(Arc<Graph>),
    /// This.
    Replace(Arc<Graph>),
}

/// The topology's text, cut into messages as they are read.
#[derive(Debug)]
pub(crate) struct TopologyChunks {
    text: Arc<str>,
    at: usize,
}

impl TopologyChunks {
    pub(crate) fn of(text: Arc<str>) -> Self {
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
