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
//!
//! An *exclusive* group shares its spanning tree with no other group. It takes a tree without
//! groups on which it breaches nothing: one of a color that nobody uses if there is one, so that no
//! member can breach later, or else of a color that only exclusive groups use. Other groups take a
//! tree of an exclusive group only if every tree with a free MGID is one, and a color of exclusive
//! groups only if every other color is a breach or has them merged.
//!
//! Invariant
//! - EXCL-1: while a tree without groups breaches nothing, an exclusive group gets such a tree; and
//!   while a tree has no exclusive group, no other group gets the tree of one.

mod batch;
mod batch_layers;
mod layers;
mod turns;
mod undo;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use fabricast_topology::{Mgid, TableKind};
use thiserror::Error;

use crate::spt::MgidSpace;
pub use batch::{BatchGroup, BatchMgid};
pub use layers::LayerHint;
use layers::{ColorLayers, Entry, LayerEntered, LayerId, LayerLeft};
use turns::TakenTurns;
use undo::{Journal, Step};

/// Most uses of spanning trees by members that one choice looks at; the members after that do not
/// count. It bounds the time of a choice for a group of very many members.
const MOST_USES: usize = 1 << 20;

/// Keeps the groups there are and chooses MGIDs for new ones.
#[derive(Clone, Debug)]
pub struct MgidAllocator {
    groups: BTreeMap<Mgid, Option<KnownGroup>>, // none of an MGID that is held
    planner: MgidPlanner,
    journal: Journal,
}

/// A group that has an MGID.
#[derive(Clone, Debug)]
struct KnownGroup {
    members: Vec<u32>, // rising
    is_exclusive: bool,
}

/// Everything that a choice depends on. A clone is cheap, so that many choices can be planned
/// aside from the allocator.
#[derive(Clone, Debug)]
pub struct MgidPlanner {
    space: MgidSpace,
    /// First MGID that may not be chosen; `None` if all may.
    limit: Option<u32>,
    load: Vec<u32>,                   // by spanning tree: its groups
    exclusive: Vec<u32>,              // by spanning tree: its exclusive groups
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
    /// Groups that it belongs with, if its creator says so.
    pub layer: Option<LayerHint<'a>>,
    /// True if it must not share a spanning tree.
    pub exclusive: bool,
    /// Spanning trees that it must not get.
    pub avoid: &'a [u32],
}

impl<'a> Wanted<'a> {
    /// Makes the request for a group of which only members are known.
    #[must_use]
    pub const fn of(members: &'a [u32]) -> Self {
        Self { members, layer: None, exclusive: false, avoid: &[] }
    }
}

/// A chosen MGID and what choosing it costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// MGID that no group has.
    pub mgid: Mgid,
    /// Members that use its color on another spanning tree; if not 0, rule R3's condition is
    /// breached.
    pub breaches: u32,
    /// Members that use its spanning tree already; if not 0, groups are merged.
    pub merges: u32,
}

/// A spanning tree that a group could take.
#[derive(Clone, Copy, Debug)]
struct Offer {
    spt: u32,
    breaches: u32,
    merges: u32,
    /// It has the place in its color of a tree that the group must not get, and so most of its
    /// links.
    is_like_avoided: bool,
}

/// Cost of an offer; the least is taken. Without exclusive groups: breaches, merges, load, and
/// the number of the tree.
type Cost = [u32; 9];

impl MgidAllocator {
    /// Makes an allocator without groups.
    #[must_use]
    pub fn new(space: MgidSpace) -> Self {
        let planner = MgidPlanner {
            space,
            limit: None,
            load: vec![0; space.total() as usize],
            exclusive: vec![0; space.total() as usize],
            taken: BTreeMap::new(),
            uses: Vec::new(),
            layers: ColorLayers::new(&space),
        };
        Self { groups: BTreeMap::new(), planner, journal: Journal::default() }
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
        let is_exclusive = wanted.exclusive;
        let layer = if is_settled || is_exclusive { None } else { self.planner.pick_layer(wanted) };
        let mut members = wanted.members.to_vec();
        members.sort_unstable();
        let entered = self.planner.note(mgid, &members, is_exclusive, Entry { layer, name })?;
        self.groups.insert(mgid, Some(KnownGroup { members, is_exclusive }));
        self.journal.note(Step::Inserted { mgid, entered });
        Ok(())
    }

    /// Keeps an MGID from being chosen though no group is on its spanning tree.
    ///
    /// # Errors
    ///
    /// [`AllocatorError`] if the MGID is taken.
    pub fn hold(&mut self, mgid: Mgid) -> Result<(), AllocatorError> {
        if self.has(mgid) {
            return Err(AllocatorError::Taken { mgid });
        }
        self.planner.take(mgid);
        self.groups.insert(mgid, None);
        self.journal.note(Step::Held { mgid });
        Ok(())
    }

    /// Records a new member.
    ///
    /// # Errors
    ///
    /// [`AllocatorError`] if there is no such group or it has the member.
    pub fn join(&mut self, mgid: Mgid, endpoint: u32) -> Result<(), AllocatorError> {
        self.add_member(mgid, endpoint)?;
        self.journal.note(Step::Joined { mgid, endpoint });
        Ok(())
    }

    fn add_member(&mut self, mgid: Mgid, endpoint: u32) -> Result<(), AllocatorError> {
        let members = self.members_mut(mgid)?;
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
        self.remove_member(mgid, endpoint)?;
        self.journal.note(Step::Left { mgid, endpoint });
        Ok(())
    }

    fn remove_member(&mut self, mgid: Mgid, endpoint: u32) -> Result<(), AllocatorError> {
        let members = self.members_mut(mgid)?;
        let at = members
            .binary_search(&endpoint)
            .map_err(|_| AllocatorError::NotMember { mgid, endpoint })?;
        members.remove(at);
        self.planner.drop_use(endpoint, self.planner.space.spt(mgid));
        Ok(())
    }

    fn members_mut(&mut self, mgid: Mgid) -> Result<&mut Vec<u32>, AllocatorError> {
        let group = self.groups.get_mut(&mgid).and_then(Option::as_mut);
        group.map(|group| &mut group.members).ok_or(AllocatorError::Unknown { mgid })
    }

    /// Forgets a group, or an MGID that is held; the MGID can be chosen again.
    ///
    /// # Errors
    ///
    /// [`AllocatorError`] if the MGID is not taken.
    pub fn remove(&mut self, mgid: Mgid) -> Result<(), AllocatorError> {
        let group = self.groups.remove(&mgid).ok_or(AllocatorError::Unknown { mgid })?;
        self.planner.free(mgid);
        self.journal.note(match group {
            Some(group) => {
                let left = self.planner.forget(mgid, &group);
                Step::Removed { mgid, group, left }
            }
            None => Step::Released { mgid },
        });
        Ok(())
    }

    /// Chooses another MGID for an exclusive group: one whose spanning tree has no groups and where
    /// the group breaches nothing. `None` if there is none, or the group is not exclusive.
    ///
    /// - `avoid`: spanning trees that it must not get.
    pub fn choose_alone(&mut self, mgid: Mgid, avoid: &[u32]) -> Option<Mgid> {
        let group = self.groups.get(&mgid)?.clone().filter(|group| group.is_exclusive)?;
        let left = self.planner.forget(mgid, &group);
        let wanted = Wanted { exclusive: true, avoid, ..Wanted::of(&group.members) };
        let choice = self.planner.choose(&wanted).filter(|choice| {
            let spt = self.planner.space.spt(choice.mgid);
            self.planner.load[spt as usize] == 0 && choice.breaches == 0
        });
        self.planner.undo_forget(mgid, &group, left);
        choice.map(|choice| choice.mgid)
    }

    /// Lists the free MGIDs of a spanning tree, rising.
    pub fn free_mgids(&self, spt: u32) -> impl Iterator<Item = Mgid> {
        let MgidPlanner { space, limit, taken, .. } = &self.planner;
        let taken = taken.get(&spt);
        let first = taken.map_or(0, TakenTurns::first_free);
        let free = (first..).filter(move |turn| taken.is_none_or(|taken| !taken.contains(*turn)));
        let mgids = free.map_while(move |turn| turn.checked_mul(space.total())?.checked_add(spt));
        mgids.take_while(move |mgid| limit.is_none_or(|limit| *mgid < limit)).map(Mgid)
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
    /// Takes note of a group, with rising members.
    fn note(
        &mut self,
        mgid: Mgid,
        members: &[u32],
        is_exclusive: bool,
        entry: Entry<'_>,
    ) -> Result<LayerEntered, AllocatorError> {
        let (spt, turn) = (self.space.spt(mgid), self.turn(mgid));
        if self.taken.get(&spt).is_some_and(|turns| turns.contains(turn)) {
            return Err(AllocatorError::Taken { mgid });
        }
        if let Some(pair) = members.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(AllocatorError::AlreadyMember { mgid, endpoint: pair[0] });
        }
        self.take(mgid);
        self.count_in(spt, members, is_exclusive);
        let color = self.space.color(spt);
        Ok(match is_exclusive {
            true => self.layers.enter_exclusive(color),
            false => self.layers.enter(color, entry),
        })
    }

    /// Forgets a group, but for its MGID.
    fn forget(&mut self, mgid: Mgid, group: &KnownGroup) -> LayerLeft {
        let spt = self.space.spt(mgid);
        self.count_out(spt, group);
        self.layers.leave(self.space.color(spt))
    }

    fn count_in(&mut self, spt: u32, members: &[u32], is_exclusive: bool) {
        for endpoint in members {
            self.add_use(*endpoint, spt);
        }
        self.load[spt as usize] += 1;
        self.exclusive[spt as usize] += u32::from(is_exclusive);
    }

    fn count_out(&mut self, spt: u32, group: &KnownGroup) {
        for endpoint in &group.members {
            self.drop_use(*endpoint, spt);
        }
        self.load[spt as usize] -= 1;
        self.exclusive[spt as usize] -= u32::from(group.is_exclusive);
    }

    fn take(&mut self, mgid: Mgid) {
        let (spt, turn) = (self.space.spt(mgid), self.turn(mgid));
        self.taken.entry(spt).or_default().insert(turn);
    }

    fn free(&mut self, mgid: Mgid) {
        let (spt, turn) = (self.space.spt(mgid), self.turn(mgid));
        self.taken.entry(spt).or_default().remove(turn);
    }

    /// MGIDs of one spanning tree follow each other in turns.
    fn turn(&self, mgid: Mgid) -> u32 {
        mgid.0 / self.space.total()
    }

    fn choose(&self, wanted: &Wanted<'_>) -> Option<Choice> {
        let everywhere = || self.choose_among(wanted, 0..self.space.total());
        // With per-switch tables every spanning tree has an entry of its own.
        if wanted.exclusive || self.space.tables() == TableKind::PerSwitch {
            return everywhere();
        }
        let colors = self.layers.colors_for(self.pick_layer(wanted), wanted.layer);
        let trees = colors.into_iter().flat_map(|color| self.trees_of(color..color + 1));
        match self.choose_among(wanted, trees) {
            Some(choice) if self.is_undisturbed(&choice) => Some(choice),
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

    /// True if a choice breaches nothing and is no tree of an exclusive group.
    fn is_undisturbed(&self, choice: &Choice) -> bool {
        choice.breaches == 0 && self.exclusive[self.space.spt(choice.mgid) as usize] == 0
    }

    /// The cost of an offer to a group.
    fn cost(&self, offer: Offer, is_exclusive: bool) -> Cost {
        let Offer { spt, breaches, merges, is_like_avoided } = offer;
        let load = self.load[spt as usize];
        let color = self.space.color(spt);
        let is_kept = self.layers.is_exclusive(color);
        let (is_no_home, crowd) = match (is_exclusive, load + breaches) {
            (false, _) => (0, 0),
            (true, 0) if self.layers.of(color).is_none() => (0, 0),
            (true, 0) if is_kept => (0, 1),
            (true, 0) => (0, 2),
            (true, _) => (1, 0),
        };
        let meets = u32::from(self.exclusive[spt as usize] > 0);
        let (kept, like) = (u32::from(is_kept), u32::from(is_like_avoided));
        [is_no_home, like, crowd, meets, breaches, merges, kept, load, spt]
    }

    fn choose_among(
        &self,
        wanted: &Wanted<'_>,
        trees: impl IntoIterator<Item = u32>,
    ) -> Option<Choice> {
        let mut on_tree = vec![0u32; self.load.len()];
        let mut only_on = vec![0u32; self.load.len()]; // members that use the color on this tree only
        let mut of_color = vec![0u32; usize::from(self.space.colors())];
        let color = |one: &Use| self.space.color(one.spt);
        for uses in self.uses_of(wanted.members) {
            for of_one_color in uses.chunk_by(|a, b| color(a) == color(b)) {
                of_color[usize::from(color(&of_one_color[0]))] += 1;
                if let [only] = of_one_color {
                    only_on[only.spt as usize] += 1;
                }
                of_one_color.iter().for_each(|one| on_tree[one.spt as usize] += 1);
            }
        }
        let mut best: Option<(Cost, Choice)> = None;
        let place = |spt: &u32| spt % self.space.trees_per_color();
        for spt in trees {
            if wanted.avoid.contains(&spt) {
                continue;
            }
            let is_like_avoided = wanted.avoid.iter().any(|other| place(other) == place(&spt));
            let merges = on_tree[spt as usize];
            let color = self.space.color(spt);
            let breaches = of_color[usize::from(color)] - only_on[spt as usize];
            let key = self.cost(Offer { spt, breaches, merges, is_like_avoided }, wanted.exclusive);
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
        /// MGID that is taken.
        mgid: Mgid,
    },
    /// No group has the MGID.
    #[error("no group has mgid {}", .mgid.0)]
    Unknown {
        /// MGID that no group has.
        mgid: Mgid,
    },
    /// All MGIDs are taken.
    #[error("no mgid is left")]
    Full,
    /// The endpoint is a member already.
    #[error("group {}: endpoint {endpoint} is a member already", .mgid.0)]
    AlreadyMember {
        /// MGID of the group.
        mgid: Mgid,
        /// Number of the endpoint in the topology.
        endpoint: u32,
    },
    /// The endpoint is not a member.
    #[error("group {}: endpoint {endpoint} is not a member", .mgid.0)]
    NotMember {
        /// MGID of the group.
        mgid: Mgid,
        /// Number of the endpoint in the topology.
        endpoint: u32,
    },
}

#[cfg(test)]
mod tests;
