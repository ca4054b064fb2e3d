//! Chooses MGIDs for groups so that no member uses a color on two spanning trees.
//!
//! This keeps rule R3's condition for groups whose MGID nobody fixed. It knows endpoints only
//! by number and the fabric only by the numbers of [`MgidSpace`].
//!
//! Of most groups only the first member is known when the choice has to be made. So colors are put
//! into *layers* as they are needed (`allocator/layers.rs`): a group goes into the layer used last
//! in which none of its known members has a group, and takes a color of it. So communicators that
//! are split off together get layers of their own, in whatever order their members join. Inside the
//! layer the choice is the spanning tree with, in this order: the fewest known members that use its
//! color on another tree already, the fewest that use the tree itself already (they would have to
//! be merged), the fewest groups, the smallest number; and on it the smallest free MGID. If every
//! tree there is a breach, all trees are searched in the same order.

mod batch;
mod batch_layers;
mod layers;
mod turns;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use fabricast_topology::{Mgid, TableKind};
use thiserror::Error;

use crate::spt::MgidSpace;
pub use batch::{BatchGroup, BatchMgid};
pub use layers::LayerHint;
use layers::{ColorLayers, LayerId};
use turns::TakenTurns;

/// Most uses of spanning trees by members that one choice looks at; the members after that do not
/// count. It bounds the time of a choice for a group of very many members.
const MOST_USES: usize = 1 << 20;

/// Keeps the groups there are and chooses MGIDs for new ones.
#[derive(Clone, Debug)]
pub struct MgidAllocator {
    groups: BTreeMap<Mgid, Vec<u32>>, // members, rising
    planner: MgidPlanner,
}

/// Everything that a choice depends on. A clone is cheap, so that many choices can be planned
/// aside from the allocator.
#[derive(Clone, Debug)]
pub struct MgidPlanner {
    space: MgidSpace,
    /// First MGID that may not be chosen; `None` if all may.
    limit: Option<u32>,
    load: Vec<u32>,                   // by spanning tree: its groups
    taken: BTreeMap<u32, TakenTurns>, // by spanning tree that has groups
    uses: Vec<Arc<Vec<Use>>>,         // by endpoint: rising by spanning tree
    layers: ColorLayers,
}

/// Number of an endpoint's groups on one spanning tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Use {
    spt: u32,
    groups: u32,
}

/// Facts about a new group.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
    /// Its members as far as they are known, each once.
    pub members: &'a [u32],
    /// Which groups it belongs with, if its creator says so.
    pub layer: Option<LayerHint<'a>>,
}

impl<'a> Wanted<'a> {
    /// Makes the request for a group of which only members are known.
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
    /// Members that use its color on another spanning tree; if not 0, rule R3's condition is
    /// breached.
    pub breaches: u32,
    /// Members that use its spanning tree already; if not 0, groups are merged.
    pub merges: u32,
}

impl MgidAllocator {
    /// Makes an allocator without groups.
    #[must_use]
    pub fn new(space: MgidSpace) -> Self {
        let planner = MgidPlanner {
            space,
            limit: None,
            load: vec![0; space.total() as usize],
            taken: BTreeMap::new(),
            uses: Vec::new(),
            layers: ColorLayers::new(&space),
        };
        Self { groups: BTreeMap::new(), planner }
    }

    /// Makes it choose no MGID from `limit` on.
    #[must_use]
    pub fn below(mut self, limit: u32) -> Self {
        self.planner.limit = Some(limit);
        self
    }

    /// Copies what choices depend on. Cost: the endpoints and spanning trees there are.
    #[must_use]
    pub fn planner(&self) -> MgidPlanner {
        self.planner.clone()
    }

    /// Tells whether a group has an MGID.
    #[must_use]
    pub fn has(&self, mgid: Mgid) -> bool {
        self.groups.contains_key(&mgid)
    }

    /// Records a group. With the request that its MGID was chosen for, it enters the layer that was
    /// meant.
    ///
    /// # Errors
    ///
    /// [`AllocatorError`] if the MGID is taken or a member is named twice; then nothing changes.
    pub fn insert(&mut self, mgid: Mgid, wanted: &Wanted<'_>) -> Result<(), AllocatorError> {
        let name = wanted.layer.map(|hint| hint.name);
        let color = self.planner.space.color(self.planner.space.spt(mgid));
        // A color that has a layer keeps it; then only a name may have to be noted.
        let is_settled = name.is_none() && self.planner.layers.of(color).is_some();
        let layer = if is_settled { None } else { self.planner.pick_layer(wanted) };
        let mut members = wanted.members.to_vec();
        members.sort_unstable();
        self.planner.note(mgid, &members, |layers, color| layers.enter(color, layer, name))?;
        self.groups.insert(mgid, members);
        Ok(())
    }

    /// Records a new member.
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
        self.planner.add_use(endpoint, self.planner.space.spt(mgid));
        Ok(())
    }

    /// Records that a member has left.
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
        self.planner.drop_use(endpoint, self.planner.space.spt(mgid));
        Ok(())
    }

    /// Forgets a group; its MGID can be chosen again.
    ///
    /// # Errors
    ///
    /// [`AllocatorError`] if there is no such group.
    pub fn remove(&mut self, mgid: Mgid) -> Result<(), AllocatorError> {
        let members = self.groups.remove(&mgid).ok_or(AllocatorError::Unknown { mgid })?;
        self.planner.forget(mgid, &members);
        Ok(())
    }

    /// Chooses an MGID for a group; changes nothing. None if all are taken.
    ///
    /// Cost: the spanning trees there are, and the groups of the members up to a bound.
    #[must_use]
    pub fn choose(&self, wanted: &Wanted<'_>) -> Option<Choice> {
        self.planner.choose(wanted)
    }
}

impl MgidPlanner {
    /// Takes note of a group, with rising members, that enters the layer `enter` gives its color.
    fn note(
        &mut self,
        mgid: Mgid,
        members: &[u32],
        enter: impl FnOnce(&mut ColorLayers, u16) -> LayerId,
    ) -> Result<LayerId, AllocatorError> {
        let (spt, turn) = (self.space.spt(mgid), self.turn(mgid));
        if self.taken.get(&spt).is_some_and(|turns| turns.contains(turn)) {
            return Err(AllocatorError::Taken { mgid });
        }
        if let Some(pair) = members.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(AllocatorError::AlreadyMember { mgid, endpoint: pair[0] });
        }
        for endpoint in members {
            self.add_use(*endpoint, spt);
        }
        self.load[spt as usize] += 1;
        self.taken.entry(spt).or_default().insert(turn);
        Ok(enter(&mut self.layers, self.space.color(spt)))
    }

    fn forget(&mut self, mgid: Mgid, members: &[u32]) {
        let (spt, turn) = (self.space.spt(mgid), self.turn(mgid));
        for endpoint in members {
            self.drop_use(*endpoint, spt);
        }
        self.load[spt as usize] -= 1;
        self.taken.entry(spt).or_default().remove(turn);
        self.layers.leave(self.space.color(spt));
    }

    /// MGIDs of one spanning tree follow each other in turns.
    fn turn(&self, mgid: Mgid) -> u32 {
        mgid.0 / self.space.total()
    }

    fn choose(&self, wanted: &Wanted<'_>) -> Option<Choice> {
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

    /// The uses of each member, up to a bound.
    fn uses_of<'a>(&'a self, members: &'a [u32]) -> impl Iterator<Item = &'a [Use]> {
        let mut seen = 0;
        let uses = members.iter().filter_map(|member| self.uses.get(*member as usize));
        uses.map(|uses| uses.as_slice()).take_while(move |uses| {
            seen += uses.len();
            seen <= MOST_USES
        })
    }

    /// Finds the layer for a group; none if a new one is to be opened.
    fn pick_layer(&self, wanted: &Wanted<'_>) -> Option<LayerId> {
        let mut met: BTreeMap<LayerId, u32> = BTreeMap::new(); // members with a group in the layer
        for uses in self.uses_of(wanted.members) {
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

    /// Returns the spanning trees of some colors that follow each other.
    fn trees_of(&self, colors: Range<u32>) -> Range<u32> {
        let trees = self.space.trees_per_color();
        colors.start * trees..colors.end * trees
    }

    fn choose_among(
        &self,
        members: &[u32],
        trees: impl IntoIterator<Item = u32>,
    ) -> Option<Choice> {
        let mut on_tree = vec![0u32; self.load.len()];
        let mut only_on = vec![0u32; self.load.len()]; // members that use the color on this tree only
        let mut of_color = vec![0u32; usize::from(self.space.colors())];
        let color = |one: &Use| self.space.color(one.spt);
        for uses in self.uses_of(members) {
            for of_one_color in uses.chunk_by(|a, b| color(a) == color(b)) {
                of_color[usize::from(color(&of_one_color[0]))] += 1;
                if let [only] = of_one_color {
                    only_on[only.spt as usize] += 1;
                }
                of_one_color.iter().for_each(|one| on_tree[one.spt as usize] += 1);
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
        let turn = self.taken.get(&spt).map_or(0, TakenTurns::first_free);
        let mgid = turn.checked_mul(self.space.total())?.checked_add(spt)?;
        self.limit.is_none_or(|limit| mgid < limit).then_some(Mgid(mgid))
    }

    fn add_use(&mut self, endpoint: u32, spt: u32) {
        let at = endpoint as usize;
        if at >= self.uses.len() {
            self.uses.resize_with(at + 1, Arc::default);
        }
        let uses = Arc::make_mut(&mut self.uses[at]);
        match uses.binary_search_by_key(&spt, |one| one.spt) {
            Ok(at) => uses[at].groups += 1,
            Err(at) => uses.insert(at, Use { spt, groups: 1 }),
        }
    }

    fn drop_use(&mut self, endpoint: u32, spt: u32) {
        let uses = Arc::make_mut(&mut self.uses[endpoint as usize]);
        let at = uses.binary_search_by_key(&spt, |one| one.spt).expect("noted when it joined");
        uses[at].groups -= 1;
        if uses[at].groups == 0 {
            uses.remove(at);
        }
    }
}

/// Reasons to refuse a group or a member.
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
