//! Fabrics described by a few numbers in TOML instead of by every cable.
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

mod faults;
mod generate;

use serde::Deserialize;
use thiserror::Error;

/// A fabric to generate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopologySpec {
    /// `kind = "cn-tn-fat-tree"`: four levels of midplanes.
    CnTnFatTree(CnTnSpec),
    /// `kind = "k-ary-3-level"`: pods and core switches of one port count.
    KAry3Level(KAry3Spec),
    /// `kind = "leaf-spine"`: two levels; one level if there are no spines.
    LeafSpine(LeafSpineSpec),
}

/// Four levels: compute midplanes (CN) below top midplanes (TN), C-MR4LMS §2.
///
/// In brackets the paper's letters, which may be used in the TOML as well.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CnTnSpec {
    #[serde(rename = "kind")]
    _kind: Kind,
    /// Leaf switches of a CN (q).
    #[serde(alias = "q")]
    pub leaves_per_cn: u32,
    /// Level-1 switches of a CN, and TN groups (m).
    #[serde(alias = "m")]
    pub spines_per_cn: u32,
    /// TNs that a level-1 switch is wired to (p); fewer is a pruned tree.
    #[serde(alias = "p")]
    pub tns_per_group: u32,
    /// Level-2 switches of a TN, and blocks of CNs (k).
    #[serde(alias = "k")]
    pub blocks: u32,
    /// CNs that a level-2 switch serves (w).
    #[serde(alias = "w")]
    pub cns_per_block: u32,
    /// Level-3 switches of a TN; as many as `cns_per_block` unless given (w in the paper; fewer is
    /// a pruned tree).
    pub l3_per_tn: Option<u32>,
    /// CNs that are there, the first ones; all `blocks * cns_per_block` unless given.
    pub cns: Option<u32>,
    /// Endpoints of a leaf switch.
    pub endpoints_per_leaf: u32,
    /// Parallel links from a leaf to a level-1 switch.
    #[serde(default = "one")]
    pub lanes0: u32,
    /// Parallel links from a level-1 to a level-2 switch.
    #[serde(default = "one")]
    pub lanes1: u32,
    /// Parallel links from a level-2 to a level-3 switch.
    #[serde(default = "one")]
    pub lanes2: u32,
    /// Ports of every switch; as many as it needs unless given.
    pub switch_ports: Option<u8>,
    /// What is broken.
    #[serde(default)]
    pub faults: FaultSpec,
}

/// Three levels of switches with `k` ports: half down, half up.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KAry3Spec {
    #[serde(rename = "kind")]
    _kind: Kind,
    /// Ports of a switch; even.
    pub k: u8,
    /// Pods that are there; `k / lanes1` unless given.
    pub pods: Option<u32>,
    /// Endpoints of a leaf; `k / 2` unless given.
    pub endpoints_per_leaf: Option<u32>,
    /// Up-ports of a leaf; `k / 2` unless given, fewer is a pruned tree.
    pub leaf_uplinks: Option<u32>,
    /// Up-ports of a level-1 switch; `k / 2` unless given, fewer is a pruned tree.
    pub spine_uplinks: Option<u32>,
    /// Parallel links from a leaf to a level-1 switch; divides the number of links.
    #[serde(default = "one")]
    pub lanes0: u32,
    /// Parallel links from a level-1 to a core switch; divides the number of links.
    #[serde(default = "one")]
    pub lanes1: u32,
    /// What is broken.
    #[serde(default)]
    pub faults: FaultSpec,
}

/// Two levels, every leaf linked to every spine.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeafSpineSpec {
    #[serde(rename = "kind")]
    _kind: Kind,
    /// Leaf switches.
    pub leaves: u32,
    /// Spine switches; 0 only for a single leaf.
    pub spines: u32,
    /// Endpoints of a leaf.
    pub endpoints_per_leaf: u32,
    /// Parallel links from a leaf to a spine.
    #[serde(default = "one")]
    pub lanes0: u32,
    /// Ports of every switch; as many as it needs unless given.
    pub switch_ports: Option<u8>,
    /// What is broken.
    #[serde(default)]
    pub faults: FaultSpec,
}

/// What is broken in a generated fabric, by the names it gives.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FaultSpec {
    /// Dead switches, by description or node id.
    pub switches: Vec<String>,
    /// Dead endpoints.
    pub endpoints: Vec<String>,
    /// Dead links.
    pub links: Vec<LinkSpec>,
}

/// A link: `{switch, port}`, `{switch, to, lane}` or `{endpoint}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LinkSpec {
    /// One of its switches.
    pub switch: Option<String>,
    /// The port of that switch.
    pub port: Option<u8>,
    /// The other switch.
    pub to: Option<String>,
    /// Which of the parallel links between both, from 0; all unless given.
    pub lane: Option<usize>,
    /// The endpoint whose link it is.
    pub endpoint: Option<String>,
}

/// Why a description gives no fabric.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SpecError {
    /// The text is not TOML of a known kind; the message has line and field.
    #[error("{0}")]
    Syntax(String),
    /// A number is out of its range.
    #[error("{field} is {value}, which must be {rule}")]
    Range {
        /// The field.
        field: &'static str,
        /// What it says.
        value: u64,
        /// What it may say.
        rule: String,
    },
    /// A switch would need more ports than it has.
    #[error("a {level} switch needs {needs} ports and has at most {has}")]
    Ports {
        /// Which switches.
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
        /// The limit.
        most: u64,
    },
    /// A fault names something that is not there.
    #[error("faults.{field}: no {what} is called {name:?}")]
    UnknownName {
        /// `switches`, `endpoints` or `links`.
        field: &'static str,
        /// What kind of thing.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A fault names a link that is not there, or says it in no known form.
    #[error("faults.links[{index}]: {problem}")]
    BadLink {
        /// Position in the list.
        index: usize,
        /// What is wrong.
        problem: String,
    },
}

/// Which generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    CnTnFatTree,
    #[serde(rename = "k-ary-3-level")]
    KAry3Level,
    LeafSpine,
}

/// Just enough of the text to choose the type of the rest.
#[derive(Deserialize)]
struct Header {
    kind: Kind,
}

const fn one() -> u32 {
    1
}

impl TopologySpec {
    /// Reads a description.
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
        })
    }

    /// Gives the fabric the C-MR4LMS paper measured (§4): 64 of 512 CNs and all 96 TNs,
    /// 7 680 switches and 32 768 endpoints.
    #[must_use]
    pub const fn paper() -> Self {
        Self::CnTnFatTree(CnTnSpec {
            _kind: Kind::CnTnFatTree,
            leaves_per_cn: 32,
            spines_per_cn: 16,
            tns_per_group: 6,
            blocks: 32,
            cns_per_block: 16,
            l3_per_tn: None,
            cns: Some(64),
            endpoints_per_leaf: 16,
            lanes0: 1,
            lanes1: 1,
            lanes2: 1,
            switch_ports: Some(40),
            faults: FaultSpec::new(),
        })
    }

    /// Gives a four-level fabric of 2 048 endpoints and 256 switches for demonstrations:
    /// every part of the paper's fabric is there, just fewer of each.
    #[must_use]
    pub const fn demo() -> Self {
        Self::CnTnFatTree(CnTnSpec {
            _kind: Kind::CnTnFatTree,
            leaves_per_cn: 8,
            spines_per_cn: 4,
            tns_per_group: 2,
            blocks: 4,
            cns_per_block: 4,
            l3_per_tn: None,
            cns: None,
            endpoints_per_leaf: 16,
            lanes0: 1,
            lanes1: 1,
            lanes2: 1,
            switch_ports: Some(40),
            faults: FaultSpec::new(),
        })
    }
}

impl FaultSpec {
    /// Makes the description of a healthy fabric.
    #[must_use]
    pub const fn new() -> Self {
        Self { switches: Vec::new(), endpoints: Vec::new(), links: Vec::new() }
    }
}

fn from_toml<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, SpecError> {
    toml::from_str(text).map_err(|error| SpecError::Syntax(error.to_string().trim_end().to_owned()))
}
