//! Where a topology comes from: a file as `ibnetdiscover` prints it, a spec in TOML, or a preset.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use fabricast_topology::{FatTree, Graph, ibnetdiscover, spec};
use sha2::{Digest, Sha256};

use crate::failure::Failure;

/// A real cluster: 96 hosts, four leaf and two spine switches, six links between each pair.
const REAL_CLUSTER: &str = include_str!("../../data/cluster-edr-96.ibnetdiscover");
/// A topology that has been read.
#[derive(Clone, Debug)]
pub struct Topology {
    /// What to call it: the file's name or the preset.
    pub title: String,
    /// The network.
    pub graph: Arc<Graph>,
    /// The network as `ibnetdiscover` prints it.
    pub text: Arc<str>,
}

impl Topology {
    /// Reads a topology.
    ///
    /// - `source`: a path, or one of `cluster` (the real one), `demo`, `paper`.
    ///
    /// # Errors
    ///
    /// Names the file, the line and what is wrong with it.
    pub fn read(source: &str) -> Result<Self, Failure> {
        let graph = match source {
            "cluster" => ibnetdiscover::read(REAL_CLUSTER).context("the built-in cluster")?,
            "demo" => spec::TopologySpec::demo().generate().context("preset 'demo'")?,
            "paper" => spec::TopologySpec::paper().generate().context("preset 'paper'")?,
            path => read_file(Path::new(path))?,
        };
        let text = ibnetdiscover::write(&graph).into();
        Ok(Self { title: source.to_owned(), graph: Arc::new(graph), text })
    }

    /// Finds the fat tree in it.
    ///
    /// # Errors
    ///
    /// Says which switches and links contradict a fat tree.
    pub fn fat_tree(&self) -> Result<FatTree, Failure> {
        FatTree::detect(&self.graph)
            .map_err(|error| anyhow!(error).context(format!("topology '{}'", self.title)).into())
    }

    /// SHA-256 of the normal form, as route files name it.
    #[must_use]
    pub fn digest(&self) -> String {
        let digest = Sha256::digest(self.text.as_bytes());
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

fn read_file(path: &Path) -> Result<Graph, Failure> {
    let bytes = std::fs::read(path).with_context(|| format!("read '{}'", path.display()))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        anyhow!("byte {} is not UTF-8 text", error.utf8_error().valid_up_to())
            .context(format!("read '{}'", path.display()))
    })?;
    let named = || format!("'{}'", path.display());
    if path.extension().is_some_and(|extension| extension == "toml") {
        Ok(generated(&text).with_context(named)?)
    } else {
        Ok(ibnetdiscover::read(&text).with_context(named)?)
    }
}

fn generated(text: &str) -> anyhow::Result<Graph> {
    Ok(spec::TopologySpec::parse(text)?.generate()?)
}
