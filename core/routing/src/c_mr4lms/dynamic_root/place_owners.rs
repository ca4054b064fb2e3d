//! Owners of places: by place and color, the virtual group whose tree is there.
//!
//! Places come in four ranks. With per-port tables they are the links of endpoints, leaves, CNs and
//! blocks; with per-switch tables the switches: leaves, one for each CN, one for each block, the
//! root. Ranks 0 and 1 are the same whatever the root; places of rank 2 depend on the first step to
//! the root, those of rank 3 on both ([`Roots::steps`](super::roots::Roots::steps)).

use fabricast_topology::TableKind;

use crate::c_mr4lms::fabric::{Fabric, NONE};
use crate::c_mr4lms::footprint::Footprint;
use crate::c_mr4lms::numbers::{EndpointSlot, TreeNumber};
use crate::spt::MgidSpace;

use super::roots::Roots;

/// Places of four ranks; each list without duplicates.
pub(super) type Places = [Vec<u32>; 4];

/// The virtual group at every place.
#[derive(Clone, Debug)]
pub(super) struct PlaceOwners {
    tables: TableKind,
    space: MgidSpace,
    ups: usize,
    tops: usize,
    widths: [usize; 4],
    owners: [Vec<u32>; 4],
    /// Of ranks 2 and 3, one bit where there is an owner.
    taken: [Vec<u64>; 2],
}

impl PlaceOwners {
    pub(super) fn new(fabric: &Fabric, space: MgidSpace, roots: &Roots) -> Self {
        let tables = space.tables();
        let (leaves, cns) = (fabric.leaf_cn.len(), fabric.cn_block.len());
        let blocks = fabric.cn_block.iter().max().map_or(0, |last| *last as usize + 1);
        let widths = match tables {
            TableKind::PerPort => [fabric.slots(), leaves, cns, blocks],
            TableKind::PerSwitch => [leaves, cns, blocks, 1],
        };
        let trees = space.total() as usize;
        let (ups, tops) = (roots.ups as usize, roots.tops as usize);
        let colors = usize::from(space.colors()); // one tree each with per-switch tables
        let domains = [colors, trees, trees * ups, trees * ups * tops];
        let owners = std::array::from_fn(|rank| vec![NONE; domains[rank] * widths[rank]]);
        let words = |rank: usize| vec![0; domains[rank] * widths[rank].div_ceil(64)];
        Self { tables, space, ups, tops, widths, owners, taken: [words(2), words(3)] }
    }

    /// Gives the places of a group that has two live members or more.
    pub(super) fn places(&self, footprint: &Footprint, members: &[EndpointSlot]) -> Places {
        let [leaves, cns, blocks] = footprint.places();
        let above = |places: &[u32], below: &[u32]| {
            if below.len() > 1 { places.to_vec() } else { Vec::new() }
        };
        match self.tables {
            TableKind::PerPort => [
                footprint.live(members).iter().map(|slot| slot.0).collect(),
                above(leaves, leaves),
                above(cns, cns),
                above(blocks, blocks),
            ],
            TableKind::PerSwitch => {
                [leaves.to_vec(), above(cns, leaves), above(blocks, cns), above(&[0], blocks)]
            }
        }
    }

    /// Counts the places of a rank in one domain.
    pub(super) const fn width(&self, rank: usize) -> usize {
        self.widths[rank]
    }

    /// Gives the block that a place of rank 2 is in.
    pub(super) fn block_of(&self, fabric: &Fabric, at: u32) -> u32 {
        match self.tables {
            TableKind::PerPort => fabric.cn_block[at as usize],
            TableKind::PerSwitch => at,
        }
    }

    /// Gives the domain of a rank: places are told apart within one only.
    fn domain(&self, rank: usize, spt: TreeNumber, root: u32) -> usize {
        let (tree, root) = (spt.index(), root as usize);
        match rank {
            0 => usize::from(self.space.color(spt.0)),
            1 => tree,
            2 => tree * self.ups + root / self.tops,
            _ => tree * self.ups * self.tops + root,
        }
    }

    /// Gives the virtual group at a place, or [`NONE`].
    pub(super) fn owner(&self, rank: usize, spt: TreeNumber, root: u32, at: u32) -> u32 {
        self.owners[rank][self.domain(rank, spt, root) * self.widths[rank] + at as usize]
    }

    /// Gives the bits of taken places of rank 2 or 3 under a root.
    pub(super) fn taken(&self, rank: usize, spt: TreeNumber, root: u32) -> &[u64] {
        let words = self.widths[rank].div_ceil(64);
        let first = self.domain(rank, spt, root) * words;
        &self.taken[rank - 2][first..first + words]
    }

    /// Counts the words of a set of places of rank 2 or 3.
    pub(super) fn words(&self, rank: usize) -> usize {
        self.widths[rank].div_ceil(64)
    }

    /// Sets the owner of places; [`NONE`] frees them.
    pub(super) fn set_owner(
        &mut self,
        spt: TreeNumber,
        root: u32,
        places: &Places,
        virtual_group: u32,
    ) {
        for (rank, places) in places.iter().enumerate() {
            if places.is_empty() {
                continue; // there may be no root then
            }
            let domain = self.domain(rank, spt, root);
            let owners = &mut self.owners[rank][domain * self.widths[rank]..];
            for at in places {
                owners[*at as usize] = virtual_group;
            }
            if rank >= 2 {
                let words = self.widths[rank].div_ceil(64);
                let taken = &mut self.taken[rank - 2][domain * words..];
                for at in places {
                    let (word, bit) = (*at as usize >> 6, 1 << (at & 63));
                    if virtual_group == NONE {
                        taken[word] &= !bit;
                    } else {
                        taken[word] |= bit;
                    }
                }
            }
        }
    }
}
