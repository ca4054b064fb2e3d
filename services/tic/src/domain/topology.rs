//! The topology of one term, and how a discovered one is stored.

use std::collections::BTreeSet;
use std::sync::Arc;

use fabricast_groups::directory::Directory;
use fabricast_groups::names::{EndpointName, NodeName};
use fabricast_groups::record::{NodeRecord, NodeState};
use fabricast_proto::v1;
use fabricast_routing::{EngineOptions, LayoutError};
use fabricast_topology::{Graph, GraphBuilder, ibnetdiscover};
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::domain::mgids;
use crate::records::keys::{Puts, TOPOLOGY};

/// Most bytes of a piece in the store.
const PIECE: usize = 1 << 18;

/// The source of the topology.
#[derive(Clone, Debug)]
pub enum TopologySource {
    /// A file: its text as `ibnetdiscover` prints it, and the same, parsed.
    File(Arc<str>, Arc<Graph>),
    /// The reports of switch agents, merged; it is kept in the store.
    Discovered,
}

/// The topology during one term; cloning it is cheap.
#[derive(Clone, Debug)]
pub(crate) struct TopologySnapshot {
    /// As `ibnetdiscover` prints it; empty as long as none has been discovered.
    pub(crate) text: Arc<str>,
    pub(crate) graph: Arc<Graph>,
    pub(crate) sha256: [u8; 32],
    is_discovered: bool,
    /// Determine how MGIDs are numbered on it.
    engine_options: EngineOptions,
}

impl TopologySnapshot {
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

    /// Computes the topology after a change; `None` if it stays as it is. Cost: the graphs and
    /// their texts, so this is no work for the writer.
    ///
    /// # Errors
    ///
    /// [`TopologyError::Fixed`] or [`TopologyError::NoMgids`].
    pub(crate) fn next(
        &self,
        change: &TopologyChange,
    ) -> Result<Option<NextTopology>, TopologyError> {
        if !self.is_discovered {
            return Err(TopologyError::Fixed);
        }
        let graph = match change {
            TopologyChange::Merge(found) => self.graph.merged(found),
            TopologyChange::Replace(graph) => (**graph).clone(),
        };
        let text = ibnetdiscover::write(&graph);
        if *text == *self.text {
            return Ok(None);
        }
        mgids::space(&graph, self.engine_options)?;
        let names = self.graph.endpoints().map(|endpoint| self.graph.endpoint_name(endpoint));
        let lost = names.filter(|name| graph.find_endpoint(name).is_none());
        let lost = lost.map(str::to_owned).collect();
        let sha256 = Sha256::digest(text.as_bytes()).into();
        let next = Self { text: text.into(), graph: Arc::new(graph), sha256, ..self.clone() };
        let puts = next.puts(self);
        Ok(Some(NextTopology { topology: next, lost, puts }))
    }

    /// The writes that store this topology in pieces in place of another one.
    fn puts(&self, before: &Self) -> Puts {
        let mut puts = Puts::new();
        let mut at = 0;
        let mut number = 0;
        while at < self.text.len() {
            let end = self.text.floor_char_boundary(at + PIECE);
            puts.insert(piece_key(number), Some(self.text.as_bytes()[at..end].to_vec()));
            (at, number) = (end, number + 1);
        }
        // A piece ends at a character, up to 3 bytes early, so there may be one more.
        for number in number..=before.text.len().div_ceil(PIECE - 3) {
            puts.insert(piece_key(number), None);
        }
        puts
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

/// The topology that is to follow that of the term.
#[derive(Debug)]
pub(crate) struct NextTopology {
    pub(crate) topology: TopologySnapshot,
    /// Names of the endpoints that only the present one has.
    lost: BTreeSet<String>,
    /// The writes that store it.
    pub(crate) puts: Puts,
}

impl NextTopology {
    /// Checks that no node needs an endpoint that would be gone.
    ///
    /// # Errors
    ///
    /// [`TopologyError::EndpointInUse`].
    pub(crate) fn check(&self, directory: &Directory) -> Result<(), TopologyError> {
        if self.lost.is_empty() {
            return Ok(());
        }
        let is_needed = |node: &&NodeRecord| {
            node.state == NodeState::Up || directory.memberships(&node.name).next().is_some()
        };
        for node in directory.nodes().filter(is_needed) {
            let mut endpoints = node.endpoints.iter();
            if let Some(endpoint) = endpoints.find(|name| self.lost.contains(name.as_str())) {
                let (node, endpoint) = (node.name.clone(), endpoint.clone());
                return Err(TopologyError::EndpointInUse { node, endpoint });
            }
        }
        Ok(())
    }
}

fn piece_key(number: usize) -> Vec<u8> {
    format!("{TOPOLOGY}{number:05}").into_bytes()
}

/// A change of the topology.
#[derive(Clone, Debug)]
pub(crate) enum TopologyChange {
    /// Adds this to the known topology.
    Merge(Arc<Graph>),
    /// Replaces the known topology.
    Replace(Arc<Graph>),
}

/// Reason why the topology cannot change.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum TopologyError {
    /// It comes from a file.
    #[error("the topology of this TIC comes from a file")]
    Fixed,
    /// A node that is up or has members would lose an endpoint.
    #[error("node '{node}' has endpoint '{endpoint}', which would be gone")]
    EndpointInUse { node: NodeName, endpoint: EndpointName },
    /// The colors do not make a space of MGIDs on it.
    #[error("no MGIDs can be chosen on this topology: {0}")]
    NoMgids(#[from] LayoutError),
}
