//! Sources of a topology: a file as `ibnetdiscover` prints it, a spec in TOML, or a preset.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use fabricast_routing::EngineKind;
use fabricast_topology::{FatTree, Graph, NotFatTree, ibnetdiscover, spec};
use sha2::{Digest, Sha256};

use crate::failure::Failure;

/// A real cluster: 96 hosts, four leaf and two spine switches, six links between each pair.
const REAL_CLUSTER: &str = include_str!("../../data/cluster-edr-96.ibnetdiscover");
/// Name and description of the preset `cluster`, the one that is not generated.
pub(crate) const CLUSTER: (&str, &str) =
    ("cluster", "a real cluster: 96 hosts, four leaf and two spine switches");

/// A topology that has been read.
#[derive(Clone, Debug)]
pub struct Topology {
    /// Name of the file or preset.
    pub title: String,
    /// Graph of switches and endpoints.
    pub graph: Arc<Graph>,
    /// The network as `ibnetdiscover` prints it.
    pub text: Arc<str>,
    is_infiniband: bool,
}

impl Topology {
    /// Reads a topology.
    ///
    /// - `source`: a path, `cluster` (the real one), or one of [`spec::PRESETS`].
    ///
    /// # Errors
    ///
    /// Names the file, the line and what is wrong with it.
    pub fn read(source: &str) -> Result<Self, Failure> {
        let graph = match (source, spec::TopologySpec::preset(source)) {
            ("cluster", _) => ibnetdiscover::read(REAL_CLUSTER).context("the built-in cluster")?,
            (_, Some(spec)) => spec.generate().with_context(|| format!("preset '{source}'"))?,
            (path, None) => return Self::read_file(Path::new(path)),
        };
        Ok(Self { is_infiniband: source == CLUSTER.0, ..Self::of(source, graph) })
    }

    /// Reads a topology from a file, whatever its name.
    ///
    /// # Errors
    ///
    /// Names the file, the line and what is wrong with it.
    pub fn read_file(path: &Path) -> Result<Self, Failure> {
        let topology = Self::of(&path.display().to_string(), graph_in(path)?);
        Ok(Self { is_infiniband: !is_spec(path), ..topology })
    }

    /// Tells whether it was read from InfiniBand's tools, and not generated.
    #[must_use]
    pub const fn is_infiniband(&self) -> bool {
        self.is_infiniband
    }

    /// A topology that came from elsewhere.
    pub(crate) fn of(title: &str, graph: Graph) -> Self {
        let text = ibnetdiscover::write(&graph).into();
        Self { title: title.to_owned(), graph: Arc::new(graph), text, is_infiniband: false }
    }

    /// Finds the fat tree in it.
    ///
    /// # Errors
    ///
    /// Says which switches and links contradict a fat tree.
    pub fn fat_tree(&self) -> Result<FatTree, Failure> {
        FatTree::detect(&self.graph).map_err(|error| self.no_fat_tree(error))
    }

    /// Makes a failure that says what to do without a fat tree.
    pub(crate) fn no_fat_tree(&self, error: NotFatTree) -> Failure {
        let failure = Failure::from(anyhow!(error).context(format!("'{}'", self.title)));
        failure.hint(format!(
            "fat trees have endpoints on leaf switches only and one to four levels of switches; \
             `fabricast topology show '{}'` lists what was read, the presets are {}; {} route \
             any topology",
            self.title,
            preset_names(),
            engines_for_all()
        ))
    }

    /// SHA-256 of the normal form, as route files name it.
    #[must_use]
    pub fn digest(&self) -> String {
        let digest = Sha256::digest(self.text.as_bytes());
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Lists the preset topologies, for messages.
fn preset_names() -> String {
    let others = spec::PRESETS.iter().map(|preset| preset.name);
    let names: Vec<&str> = std::iter::once(CLUSTER.0).chain(others).collect();
    names.join(", ")
}

/// Lists the engines that need no fat tree, for messages.
fn engines_for_all() -> String {
    let all = EngineKind::ALL.iter().filter(|kind| !kind.needs_fat_tree());
    all.map(|kind| kind.name()).collect::<Vec<_>>().join(", ")
}

fn is_spec(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "toml")
}

fn graph_in(path: &Path) -> Result<Graph, Failure> {
    let text = read_text(path).map_err(|failure| match path.try_exists() {
        Ok(false) => failure.hint(format!("the presets are {}", preset_names())),
        Ok(true) | Err(_) => failure,
    })?;
    let named = || format!("'{}'", path.display());
    if is_spec(path) {
        Ok(generated(&text).with_context(named)?)
    } else {
        Ok(ibnetdiscover::read(&text).with_context(named)?)
    }
}

/// Reads a text file.
///
/// # Errors
///
/// Names the file.
pub(crate) fn read_text(path: &Path) -> Result<String, Failure> {
    let bytes = std::fs::read(path).with_context(|| format!("read '{}'", path.display()))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..at].split(|byte| *byte == b'\n').count();
        anyhow!("line {line}: not UTF-8 text").context(format!("read '{}'", path.display()))
    })?;
    Ok(text)
}

fn generated(text: &str) -> anyhow::Result<Graph> {
    let spec = spec::TopologySpec::parse(text).map_err(|error| match error {
        spec::SpecError::Syntax(message) => anyhow!(in_one_line(&message)),
        other => other.into(),
    })?;
    Ok(spec.generate()?)
}

/// Shortens the multi-line error of the TOML parser to `line 3, column 9: what`.
pub(crate) fn in_one_line(message: &str) -> String {
    let mut lines = message.lines();
    let first = lines.next().unwrap_or_default();
    let Some(place) = first.strip_prefix("TOML parse error at ") else {
        return message.replace('\n', " ");
    };
    let what = lines.filter(|line| !is_picture(line)).collect::<Vec<_>>().join(" ");
    format!("{place}: {what}")
}

/// True if a line shows the text of the file, such as `12 | leaves =` or `   | ^`.
fn is_picture(line: &str) -> bool {
    line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit()).trim_start().starts_with('|')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_in_a_spec_is_told_in_one_line_with_its_place() {
        let failure = generated("kind = \"leaf-spine\"\nleaves = |\n").unwrap_err().to_string();
        assert!(failure.starts_with("line 2, column 10: "), "{failure}");
        let failure = generated("kind = \"leaf-spine\"\n").unwrap_err().to_string();
        assert_eq!(failure, "line 1, column 1: missing field `leaves`");
    }
}
