//! Chooses MGIDs for groups so that no member uses a color on two spanning trees.
//!
//! This keeps rule R3's condition for groups whose MGID nobody fixed. It knows endpoints only
//! by number and the fabric only by the numbers of [`MgidSpace`].
//!
//! Of most groups only the first member is known when the choice has to be made. So colors are put into
//! *layers* as they are needed (`allocator/layers.rs`): a group goes into the layer used last in which
//! none of its known members has a group, and takes a color of it. Communicators that are split off together
//! then find themselves in layers of their own, whichever of their members come first. Inside the
//! layer the choice is the spanning tree with, in this order: the fewest known members that use its color on
//! another tree already, the fewest that use the tree itself already (they would have to be merged), the fewest
//! groups, the smallest number; and on it the smallest free MGID. Where that is a breach, the same is looked for
//! among all trees.

mod layers;

use std::collections::BTreeMap;

use fabricast_topology::TableKind;
use fixedbitset::FixedBitSet;
use thiserror::Error;

use crate::layers::{LayerSize, divide_colors};
use crate::mgid::Mgid;
use crate::spt::MgidSpace;
pub use layers::LayerHint;
use layers::{ColorLayers, LayerId};

/// Keeps the groups there are and chooses MGIDs for new ones.
#[derive(Clone, Debug)]
pub struct MgidAllocator {
    space: MgidSpace,
    groups: BTreeMap<Mgid, Vec<u32>>, // members, rising
    load: Vec<u32>,                   // by spanning tree: its groups
    uses: Vec<Vec<Use>>,              // by endpoint
    layers: ColorLayers,
}

/// How many groups of an endpoint are on one spanning tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Use {
    spt: u32,
    groups: u32,
}

/// What is known of a new group.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
    /// Its members as far as they are known, each once.
    pub members: &'a [u32],
    /// Which groups it belongs with, if its creator says so.
    pub layer: Option<LayerHint<'a>>,
}

impl<'a> Wanted<'a> {
    /// Makes the wish of a group of which only members are known.
    #[must_use]
    pub const fn of(members: &'a [u32]) -> Self {
        Self { members, layer: None }
    }
}

/// A chosen MGID and what choosing it costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The MGID.
    pub mgid: Mgid,
    /// Members that use its color on another spanning tree; if not 0, rule R3's condition is breached.
    pub breaches: u32,
    /// Members that use its spanning tree already; if not 0, groups are merged.
    pub merges: u32,
}

impl MgidAllocator {
    /// Makes an allocator without groups.
    #[must_use]
    pub fn new(space: MgidSpace) -> Self {
        Self {
            space,
            groups: BTreeMap::new(),
            load: vec![0; space.total() as usize],
            uses: Vec::new(),
            layers: ColorLayers::new(&space),
        }
    }

    /// Takes note of a group. With the wish that its MGID was chosen for, it enters the layer that was meant.
    ///
    /// # Errors
    ///
    /// [`AllocatorError`] if the MGID is taken or a member is named twice; then nothing changes.
    pub fn insert(&mut self, mgid: Mgid, wanted: &Wanted<'_>) -> Result<(), AllocatorError> {
        let layer = self.pick_layer(wanted);
        let name = wanted.layer.map(|hint| hint.name);
        self.note(mgid, wanted.members, |layers, color| layers.enter(color, layer, name)).map(drop)
    }

    /// Takes note of a group that enters the layer `enter` gives its color.
    fn note(
        &mut self,
        mgid: Mgid,
        members: &[u32],
        enter: impl FnOnce(&mut ColorLayers, u16) -> LayerId,
    ) -> Result<LayerId, AllocatorError> {
        if self.groups.contains_key(&mgid) {
            return Err(AllocatorError::Taken { mgid });
        }
        let mut members = members.to_vec();
        members.sort_unstable();
        if let Some(pair) = members.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(AllocatorError::AlreadyMember { mgid, endpoint: pair[0] });
        }
        let spt = self.space.spt(mgid);
        for endpoint in &members {
            self.add_use(*endpoint, spt);
        }
        self.load[spt as usize] += 1;
        self.groups.insert(mgid, members);
        Ok(enter(&mut self.layers, self.space.color(spt)))
    }

    /// Takes note of a new member.
    ///
    /// # Errors
    ///
    /// [`AllocatorError`] if there is no such group or it has the member.
    pub fn join(&mut self, mgid: Mgid, endpoint: u32) -> Result<(), AllocatorError> {
        let members = self.groups.get_mut(&mgid).ok_or(AllocatorError::Unknown { mgid })?;
        match members.binary_search(&endpoint) {
            Ok(_) => return Err(AllocatorError::AlreadyMember { mgid, endpoint }),
            Err(at) => members.insert(at, endpoint),
        }
        self.add_use(endpoint, self.space.spt(mgid));
        Ok(())
    }

    /// Takes note that a member has left.
    ///
    /// # Errors
    ///
    /// [`AllocatorError`] if there is no such group or it does not have the member.
    pub fn leave(&mut self, mgid: Mgid, endpoint: u32) -> Result<(), AllocatorError> {
        let members = self.groups.get_mut(&mgid).ok_or(AllocatorError::Unknown { mgid })?;
        let at = members
            .binary_search(&endpoint)
            .map_err(|_| AllocatorError::NotMember { mgid, endpoint })?;
        members.remove(at);
        self.drop_use(endpoint, self.space.spt(mgid));
        Ok(())
    }

    /// Forgets a group; its MGID can be chosen again.
    ///
    /// # Errors
    ///
    /// [`AllocatorError`] if there is no such group.
    pub fn remove(&mut self, mgid: Mgid) -> Result<(), AllocatorError> {
        let members = self.groups.remove(&mgid).ok_or(AllocatorError::Unknown { mgid })?;
        let spt = self.space.spt(mgid);
        for endpoint in members {
            self.drop_use(endpoint, spt);
        }
        self.load[spt as usize] -= 1;
        self.layers.leave(self.space.color(spt));
        Ok(())
    }

    /// Chooses an MGID for a group; changes nothing. None if all 2^32 are taken.
    ///
    /// Cost: the spanning trees there are, and the groups of the members.
    #[must_use]
    pub fn choose(&self, wanted: &Wanted<'_>) -> Option<Choice> {
        let everywhere = || self.choose_among(wanted.members, 0..self.space.total());
        if self.space.tables() == TableKind::PerSwitch {
            return everywhere(); // every spanning tree has an entry of its own
        }
        let colors = self.layers.colors_for(self.pick_layer(wanted), wanted.layer);
        let trees = colors.into_iter().flat_map(|color| self.trees_of(color..color + 1));
        match self.choose_among(wanted.members, trees) {
            Some(choice) if choice.breaches == 0 => Some(choice),
            Some(_) | None => everywhere(),
        }
    }

    /// Finds the layer for a group; none if a new one is to be opened.
    fn pick_layer(&self, wanted: &Wanted<'_>) -> Option<LayerId> {
        let mut met: BTreeMap<LayerId, u32> = BTreeMap::new(); // members with a group in the layer
        for member in wanted.members {
            let uses = self.uses.get(*member as usize).map_or(&[][..], Vec::as_slice);
            let mut layers: Vec<LayerId> =
                uses.iter().filter_map(|one| self.layers.of(self.space.color(one.spt))).collect();
            layers.sort_unstable();
            layers.dedup();
            for layer in layers {
                *met.entry(layer).or_default() += 1;
            }
        }
        self.layers.pick(&met, wanted.layer.map(|hint| hint.name))
    }

    /// Gives the spanning trees of some colors that follow each other.
    fn trees_of(&self, colors: std::ops::Range<u32>) -> std::ops::Range<u32> {
        let trees = self.space.trees_per_color();
        colors.start * trees..colors.end * trees
    }

    /// Chooses MGIDs for many groups at once and takes note of them.
    ///
    /// One at a time, each group takes the least used color, and endpoints end up with so different colors that
    /// a group of many finds none free. Known together, groups are first put into layers, each into the first
    /// one that none of its members has a group in; layers get colors in proportion to their groups
    /// ([`divide_colors`]) and the choice is made among these.
    ///
    /// # Errors
    ///
    /// [`AllocatorError`] if a group names a member twice or no MGID is left; groups before it are noted.
    pub fn choose_all(&mut self, groups: &[Vec<u32>]) -> Result<Vec<Choice>, AllocatorError> {
        let batch_layers = first_fit_layers(groups);
        let ranges = self.divide(&batch_layers);
        let mut opened = vec![None; ranges.len()]; // the layer of colors that were unused
        let mut choices = Vec::with_capacity(groups.len());
        for (members, at) in groups.iter().zip(batch_layers) {
            let near = ranges
                .get(at)
                .and_then(|range| self.choose_among(members, self.trees_of(range.clone())));
            let choice = match near {
                Some(choice) if choice.breaches == 0 => Some(choice),
                Some(_) | None => self.choose_among(members, 0..self.space.total()),
            };
            let choice = choice.ok_or(AllocatorError::Full)?;
            let layer = opened.get(at).copied().flatten();
            let entered =
                self.note(choice.mgid, members, |layers, color| layers.enter(color, layer, None))?;
            if let Some(opened) = opened.get_mut(at) {
                *opened = Some(entered);
            }
            choices.push(choice);
        }
        Ok(choices)
    }

    /// Divides the colors among the layers of a batch; none at all if there are fewer colors than layers.
    fn divide(&self, layers: &[usize]) -> Vec<std::ops::Range<u32>> {
        let mut sizes: Vec<LayerSize> = Vec::new();
        for layer in layers {
            if *layer >= sizes.len() {
                sizes.resize(*layer + 1, LayerSize { dimension: 0, groups: 0 });
            }
            sizes[*layer].groups += 1;
        }
        if self.space.tables() == TableKind::PerSwitch {
            return Vec::new();
        }
        let colors = divide_colors(u32::from(self.space.colors()), &sizes).unwrap_or_default();
        let mut end = 0;
        let range = |colors: u32| {
            let first = end;
            end += colors;
            first..end
        };
        colors.into_iter().map(range).collect()
    }

    fn choose_among(
        &self,
        members: &[u32],
        trees: impl IntoIterator<Item = u32>,
    ) -> Option<Choice> {
        let mut on_tree = vec![0u32; self.load.len()];
        let mut only_on = vec![0u32; self.load.len()]; // members that use the color on this tree only
        let mut of_color = vec![0u32; usize::from(self.space.colors())];
        for member in members {
            let uses = self.uses.get(*member as usize).map_or(&[][..], Vec::as_slice);
            for (at, one) in uses.iter().enumerate() {
                let color = self.space.color(one.spt);
                let same_color = |other: &&Use| self.space.color(other.spt) == color;
                on_tree[one.spt as usize] += 1;
                only_on[one.spt as usize] += u32::from(uses.iter().filter(same_color).count() == 1);
                of_color[usize::from(color)] +=
                    u32::from(!uses[..at].iter().any(|one| same_color(&one)));
            }
        }
        let mut best: Option<([u32; 4], Choice)> = None;
        for spt in trees {
            let (load, merges) = (self.load[spt as usize], on_tree[spt as usize]);
            let color = self.space.color(spt);
            let breaches = of_color[usize::from(color)] - only_on[spt as usize];
            let key = [breaches, merges, load, spt];
            if best.is_none_or(|(other, _)| key < other)
                && let Some(mgid) = self.free_mgid(spt)
            {
                best = Some((key, Choice { mgid, breaches, merges }));
            }
        }
        best.map(|(_, choice)| choice)
    }

    /// Finds the smallest free MGID of a spanning tree.
    fn free_mgid(&self, spt: u32) -> Option<Mgid> {
        let turns =
            (0..=(u32::MAX - spt) / self.space.total()).map(|turn| turn * self.space.total());
        turns.map(|turn| Mgid(spt + turn)).find(|mgid| !self.groups.contains_key(mgid))
    }

    fn add_use(&mut self, endpoint: u32, spt: u32) {
        let at = endpoint as usize;
        if at >= self.uses.len() {
            self.uses.resize(at + 1, Vec::new());
        }
        match self.uses[at].iter_mut().find(|one| one.spt == spt) {
            Some(one) => one.groups += 1,
            None => self.uses[at].push(Use { spt, groups: 1 }),
        }
    }

    fn drop_use(&mut self, endpoint: u32, spt: u32) {
        let uses = &mut self.uses[endpoint as usize];
        let at = uses.iter().position(|one| one.spt == spt).expect("noted when it joined");
        uses[at].groups -= 1;
        if uses[at].groups == 0 {
            uses.swap_remove(at);
        }
    }
}

/// Puts every group into the first layer that none of its members has a group in.
fn first_fit_layers(groups: &[Vec<u32>]) -> Vec<usize> {
    let endpoints = groups.iter().flatten().max().map_or(0, |last| *last as usize + 1);
    let mut layers_of: Vec<FixedBitSet> = vec![FixedBitSet::new(); endpoints];
    let mut taken = FixedBitSet::new();
    let fit = |members: &Vec<u32>| {
        taken.clear();
        for member in members {
            taken.union_with(&layers_of[*member as usize]);
        }
        let layer = taken.zeroes().next().unwrap_or(taken.len());
        for member in members {
            layers_of[*member as usize].grow_and_insert(layer);
        }
        layer
    };
    groups.iter().map(fit).collect()
}

/// Why a group cannot be noted as it is said to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AllocatorError {
    /// Another group has the MGID.
    #[error("mgid {} is taken", .mgid.0)]
    Taken {
        /// The MGID.
        mgid: Mgid,
    },
    /// No group has the MGID.
    #[error("no group has mgid {}", .mgid.0)]
    Unknown {
        /// The MGID.
        mgid: Mgid,
    },
    /// All MGIDs are taken.
    #[error("no mgid is left")]
    Full,
    /// The endpoint is a member already.
    #[error("group {}: endpoint {endpoint} is a member already", .mgid.0)]
    AlreadyMember {
        /// The group.
        mgid: Mgid,
        /// The endpoint.
        endpoint: u32,
    },
    /// The endpoint is not a member.
    #[error("group {}: endpoint {endpoint} is not a member", .mgid.0)]
    NotMember {
        /// The group.
        mgid: Mgid,
        /// The endpoint.
        endpoint: u32,
    },
}

#[cfg(test)]
mod tests;
