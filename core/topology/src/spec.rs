//! Generated fabrics, described by a few parameters in TOML.
//!
//! ```
//! let text = r#"
//!     kind = "leaf-spine"
//!     leaves = 4
//!     spines = 2
//!     endpoints_per_leaf = 24
//!     lanes0 = 6
//!     [faults]
//!     links = [{ switch = "leaf0", to = "spine1", lane = 5 }]
//! "#;
//! let graph = fabricast_topology::spec::TopologySpec::parse(text)?.generate()?;
//! assert_eq!((graph.switch_count(), graph.endpoint_count()), (6, 96));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cables;
mod dragonfly;
mod fat_trees;
mod faults;
mod midplanes;
mod presets;
mod pruned;
mod random;
mod ranges;
mod torus;

use serde::Deserialize;
use thiserror::Error;

use crate::graph::{EndpointNameError, Graph};
pub use dragonfly::DragonflySpec;
pub use fat_trees::{CnTnSpec, KAry3Spec, LeafSpineSpec};
pub use presets::{PRESETS, Preset};
pub use pruned::PrunedSpec;
pub use random::RandomSpec;
pub use torus::TorusSpec;

/// A fabric to generate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopologySpec {
    /// `kind = "cn-tn-fat-tree"`: four levels of midplanes.
    CnTnFatTree(CnTnSpec),
    /// `kind = "k-ary-3-level"`: pods and core switches of one port count.
    KAry3Level(KAry3Spec),
    /// `kind = "leaf-spine"`: two levels; one level if there are no spines.
    LeafSpine(LeafSpineSpec),
    /// `kind = "pruned-fat-tree"`: midplanes below a few director switches, such as the Sunway
    /// machines'.
    Pruned(PrunedSpec),
    /// `kind = "torus"`: a grid of switches closed to rings.
    Torus(TorusSpec),
    /// `kind = "dragonfly"`: groups of fully linked routers, every two groups linked once.
    Dragonfly(DragonflySpec),
    /// `kind = "random-regular"`: switches linked by chance.
    Random(RandomSpec),
}

/// Faults of a generated fabric, by the names that the generator gives.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FaultSpec {
    /// Dead switches, by description or node id.
    pub switches: Vec<String>,
    /// Dead endpoints, by name.
    pub endpoints: Vec<String>,
    /// Dead links, by their ends.
    pub links: Vec<LinkSpec>,
}

/// A link: `{switch, port}`, `{switch, to, lane}` or `{endpoint}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LinkSpec {
    /// One of the link's switches.
    pub switch: Option<String>,
    /// The port of that switch.
    pub port: Option<u8>,
    /// The other switch.
    pub to: Option<String>,
    /// Number of the parallel link between both switches, from 0; all of them if left out.
    pub lane: Option<usize>,
    /// The endpoint whose link it is.
    pub endpoint: Option<String>,
}

/// Error in a description.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SpecError {
    /// The text is not TOML of a known kind; the message has line and field.
    #[error("{0}")]
    Syntax(String),
    /// A number is out of its range.
    #[error("{field} is {value}, which must be {rule}")]
    Range {
        /// Name of the field.
        field: &'static str,
        /// Value of the field.
        value: u64,
        /// Range of valid values.
        rule: String,
    },
    /// A switch would need more ports than it has.
    #[error("a {level} switch needs {needs} ports and has at most {has}")]
    Ports {
        /// Kind of the switches.
        level: &'static str,
        /// Ports its links take.
        needs: u64,
        /// Ports it can have.
        has: u32,
    },
    /// The fabric would be too large to number.
    #[error("{ports} switch ports are more than {most}")]
    TooLarge {
        /// Switch ports it would have.
        ports: u64,
        /// Limit on switch ports.
        most: u64,
    },
    /// A fault names a part that does not exist.
    #[error("faults.{field}: no {what} is called {name:?}")]
    UnknownName {
        /// `switches` or `links`.
        field: &'static str,
        /// Kind of the part.
        what: &'static str,
        /// The name as given.
        name: String,
    },
    /// A fault names no endpoint, or several.
    #[error("faults.endpoints: {0}")]
    Endpoint(EndpointNameError),
    /// A fault names a link that does not exist, or has an unknown form.
    #[error("faults.links[{index}]: {problem}")]
    BadLink {
        /// Position in the list.
        index: usize,
        /// Error in the entry.
        problem: String,
    },
}

/// Kind of generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    CnTnFatTree,
    #[serde(rename = "k-ary-3-level")]
    KAry3Level,
    LeafSpine,
    #[serde(rename = "pruned-fat-tree")]
    Pruned,
    Torus,
    Dragonfly,
    #[serde(rename = "random-regular")]
    Random,
}

/// Only the field that selects the generator.
#[derive(Deserialize)]
struct Header {
    kind: Kind,
}

const fn one() -> u32 {
    1
}

const fn first_seed() -> u64 {
    1
}

impl TopologySpec {
    /// Parses a description.
    ///
    /// # Errors
    ///
    /// [`SpecError::Syntax`] with line and field if it is not TOML of a known kind.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let header: Header = from_toml(text)?;
        Ok(match header.kind {
            Kind::CnTnFatTree => Self::CnTnFatTree(from_toml(text)?),
            Kind::KAry3Level => Self::KAry3Level(from_toml(text)?),
            Kind::LeafSpine => Self::LeafSpine(from_toml(text)?),
            Kind::Pruned => Self::Pruned(from_toml(text)?),
            Kind::Torus => Self::Torus(from_toml(text)?),
            Kind::Dragonfly => Self::Dragonfly(from_toml(text)?),
            Kind::Random => Self::Random(from_toml(text)?),
        })
    }

    /// Generates the fabric; faulty parts are left out as by [`Graph::without`].
    ///
    /// # Errors
    ///
    /// [`SpecError`] naming the field that is out of range or names nothing.
    pub fn generate(&self) -> Result<Graph, SpecError> {
        let (graph, faults) = match self {
            Self::CnTnFatTree(spec) => (spec.shape()?.wire()?, &spec.faults),
            Self::KAry3Level(spec) => (spec.shape()?.wire()?, &spec.faults),
            Self::LeafSpine(spec) => (spec.shape()?.wire()?, &spec.faults),
            Self::Pruned(spec) => (spec.wire()?, &spec.faults),
            Self::Torus(spec) => (spec.wire()?, &spec.faults),
            Self::Dragonfly(spec) => (spec.wire()?, &spec.faults),
            Self::Random(spec) => (spec.wire()?, &spec.faults),
        };
        if *faults == FaultSpec::default() {
            return Ok(graph);
        }
        let faults = faults::resolve(&graph, faults)?;
        Ok(graph.without(&faults))
    }
}

fn from_toml<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, SpecError> {
    toml::from_str(text).map_err(|error| SpecError::Syntax(error.to_string().trim_end().to_owned()))
}
