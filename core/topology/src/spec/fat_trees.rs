//! Parameters of the regular fat trees.

use serde::Deserialize;

use super::midplanes::Shape;
use super::ranges::{at_most, positive, share};
use super::{FaultSpec, Kind, SpecError, one};

/// Four levels: compute midplanes (CN) below top midplanes (TN), C-MR4LMS §2.
///
/// In brackets the paper's letters, which may be used in the TOML as well.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CnTnSpec {
    #[serde(rename = "kind")]
    pub(super) _kind: Kind,
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
    /// Number of CNs, the first ones; by default all `blocks * cns_per_block`.
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
    /// Ports of every switch; by default as many as it needs.
    pub switch_ports: Option<u8>,
    /// Faults of the generated fabric.
    #[serde(default)]
    pub faults: FaultSpec,
}

/// Three levels of switches with `k` ports: half down, half up.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KAry3Spec {
    #[serde(rename = "kind")]
    pub(super) _kind: Kind,
    /// Ports of a switch; even.
    pub k: u8,
    /// Number of pods; by default `k / lanes1`.
    pub pods: Option<u32>,
    /// Endpoints of a leaf; by default `k / 2`.
    pub endpoints_per_leaf: Option<u32>,
    /// Up-ports of a leaf; by default `k / 2`, fewer is a pruned tree.
    pub leaf_uplinks: Option<u32>,
    /// Up-ports of a level-1 switch; by default `k / 2`, fewer is a pruned tree.
    pub spine_uplinks: Option<u32>,
    /// Parallel links from a leaf to a level-1 switch; divides the number of links.
    #[serde(default = "one")]
    pub lanes0: u32,
    /// Parallel links from a level-1 to a core switch; divides the number of links.
    #[serde(default = "one")]
    pub lanes1: u32,
    /// Faults of the generated fabric.
    #[serde(default)]
    pub faults: FaultSpec,
}

/// Two levels, every leaf linked to every spine.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeafSpineSpec {
    #[serde(rename = "kind")]
    pub(super) _kind: Kind,
    /// Number of leaf switches.
    pub leaves: u32,
    /// Spine switches; 0 only for a single leaf.
    pub spines: u32,
    /// Endpoints of a leaf.
    pub endpoints_per_leaf: u32,
    /// Parallel links from a leaf to a spine.
    #[serde(default = "one")]
    pub lanes0: u32,
    /// Ports of every switch; by default as many as it needs.
    pub switch_ports: Option<u8>,
    /// Faults of the generated fabric.
    #[serde(default)]
    pub faults: FaultSpec,
}

impl CnTnSpec {
    pub(super) fn shape(&self) -> Result<Shape, SpecError> {
        let tops = self.l3_per_tn.unwrap_or(self.cns_per_block);
        let most_cns = u64::from(self.blocks) * u64::from(self.cns_per_block);
        let all = u32::try_from(most_cns).unwrap_or(u32::MAX);
        positive(&[
            ("leaves_per_cn", self.leaves_per_cn),
            ("spines_per_cn", self.spines_per_cn),
            ("tns_per_group", self.tns_per_group),
            ("blocks", self.blocks),
            ("cns_per_block", self.cns_per_block),
            ("l3_per_tn", tops),
            ("cns", self.cns.unwrap_or(1)),
            ("endpoints_per_leaf", self.endpoints_per_leaf),
            ("lanes0", self.lanes0),
            ("lanes1", self.lanes1),
            ("lanes2", self.lanes2),
        ])?;
        Ok(Shape {
            levels: 4,
            cns: at_most("cns", self.cns.unwrap_or(all), most_cns)?,
            leaves: self.leaves_per_cn,
            endpoints: self.endpoints_per_leaf,
            spines: self.spines_per_cn,
            tns: self.tns_per_group,
            blocks: self.blocks,
            cns_per_block: self.cns_per_block,
            tops,
            lanes: [self.lanes0, self.lanes1, self.lanes2],
            ports: self.switch_ports,
        })
    }
}

impl KAry3Spec {
    pub(super) fn shape(&self) -> Result<Shape, SpecError> {
        if self.k < 2 || self.k % 2 == 1 {
            let rule = "even and at least 2".into();
            return Err(SpecError::Range { field: "k", value: self.k.into(), rule });
        }
        let (all, half) = (u32::from(self.k), u32::from(self.k / 2));
        positive(&[("lanes0", self.lanes0), ("lanes1", self.lanes1)])?;
        let most_pods = all / self.lanes1;
        let endpoints = self.endpoints_per_leaf.unwrap_or(half);
        let leaf_uplinks = at_most("leaf_uplinks", self.leaf_uplinks.unwrap_or(half), half.into())?;
        let spine_uplinks =
            at_most("spine_uplinks", self.spine_uplinks.unwrap_or(half), half.into())?;
        let pods = at_most("pods", self.pods.unwrap_or(most_pods), most_pods.into())?;
        positive(&[("pods", pods), ("endpoints_per_leaf", endpoints)])?;
        Ok(Shape {
            levels: 3,
            cns: pods,
            leaves: share("k / 2", half, self.lanes0)?,
            endpoints,
            spines: share("leaf_uplinks", leaf_uplinks, self.lanes0)?,
            tns: share("spine_uplinks", spine_uplinks, self.lanes1)?,
            blocks: 1,
            cns_per_block: pods,
            tops: 0,
            lanes: [self.lanes0, self.lanes1, 0],
            ports: Some(self.k),
        })
    }
}

impl LeafSpineSpec {
    pub(super) fn shape(&self) -> Result<Shape, SpecError> {
        positive(&[
            ("leaves", self.leaves),
            ("spines", self.spines.max(u32::from(self.leaves == 1))),
            ("endpoints_per_leaf", self.endpoints_per_leaf),
            ("lanes0", self.lanes0),
        ])?;
        Ok(Shape {
            levels: if self.spines == 0 { 1 } else { 2 },
            cns: 1,
            leaves: self.leaves,
            endpoints: self.endpoints_per_leaf,
            spines: self.spines,
            tns: 0,
            blocks: 0,
            cns_per_block: 0,
            tops: 0,
            lanes: [self.lanes0, 0, 0],
            ports: self.switch_ports,
        })
    }
}
