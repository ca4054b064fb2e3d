//! Colors in layers that open as groups need them.
//!
//! A color belongs to one layer as long as a group uses it. Nobody knows how many layers and groups
//! there will be, so a layer takes another color only when its trees hold more groups each than
//! colors are worth by then: 1 while none is taken, and twice as many with every sixth of the
//! colors that are. (Tried on the grids of C-MR4LMS §4, formed one member at a time: steeper and
//! flatter prices both gave higher TFIs.)

use std::collections::{BTreeMap, BTreeSet};

use crate::spt::MgidSpace;

/// Hint of a group's creator about the groups it belongs with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerHint<'a> {
    /// Names the layer: no endpoint is in two groups of it. Layers whose names agree up to the last
    /// `/` belong together, as those of one grid do, and never have a color in common.
    pub name: &'a str,
    /// Groups that the layer will have; 0 if not known.
    pub groups: u32,
    /// Groups that all layers which belong together will have; 0 if not known.
    pub all_groups: u32,
}

/// Numbers a layer; never used again.
pub(super) type LayerId = u32;

/// Entry of a group into a color that nobody uses.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entry<'a> {
    /// The layer that takes the color; a new one if there is none.
    pub(super) layer: Option<LayerId>,
    /// Name that the group's creator gives the layer.
    pub(super) name: Option<&'a str>,
}

/// The entry of a group, with what undoes it.
#[derive(Clone, Debug)]
pub(super) struct LayerEntered {
    /// Layer of the color from now on.
    pub(super) layer: LayerId,
    color: u16,
    /// Turn in which a group had entered the layer last.
    used: u64,
    /// Number of the next layer before.
    next: LayerId,
    /// Name that the layer has got.
    name: Option<String>,
}

/// The leaving of a group, with what undoes it.
#[derive(Clone, Debug)]
pub(super) struct LayerLeft {
    color: u16,
    layer: Option<LayerId>,
    /// The layer, if it has ended.
    ended: Option<Layer>,
}

/// Layers that the colors belong to.
#[derive(Clone, Debug)]
pub(super) struct ColorLayers {
    trees_per_color: u32,
    owner: Vec<Option<LayerId>>, // by color
    groups: Vec<u32>,            // by color
    layers: BTreeMap<LayerId, Layer>,
    next: LayerId,
    turn: u64,
}

#[derive(Clone, Debug, Default)]
struct Layer {
    names: BTreeSet<String>,
    colors: BTreeSet<u16>,
    groups: u32,
    used: u64, // the turn in which a group entered last
    /// True of a color that an exclusive group opened: no other group picks it.
    is_exclusive: bool,
}

impl ColorLayers {
    pub(super) fn new(space: &MgidSpace) -> Self {
        Self {
            trees_per_color: space.trees_per_color(),
            owner: vec![None; usize::from(space.colors())],
            groups: vec![0; usize::from(space.colors())],
            layers: BTreeMap::new(),
            next: 0,
            turn: 0,
        }
    }

    /// Returns the layer of a color.
    pub(super) fn of(&self, color: u16) -> Option<LayerId> {
        self.owner[usize::from(color)]
    }

    /// Tells whether a color is kept for exclusive groups.
    pub(super) fn is_exclusive(&self, color: u16) -> bool {
        self.of(color).and_then(|id| self.layers.get(&id)).is_some_and(|layer| layer.is_exclusive)
    }

    /// Picks a layer for a group that is not exclusive; none if it needs a new one.
    ///
    /// - `met`: known members that have a group in a layer, where there are any.
    pub(super) fn pick(&self, met: &BTreeMap<LayerId, u32>, name: Option<&str>) -> Option<LayerId> {
        let named = |layer: &&Layer, name: &str| layer.names.contains(name);
        let by_name = |name| self.layers.iter().find(|(_, layer)| named(layer, name));
        if let Some((id, _)) = name.and_then(by_name) {
            return Some(*id);
        }
        let is_kin = |layer: &Layer| {
            name.is_some_and(|name| layer.names.iter().any(|other| family(other) == family(name)))
        };
        let others = self.layers.iter().filter(|(_, layer)| !is_kin(layer) && !layer.is_exclusive);
        let cost = |id: &LayerId| met.get(id).copied().unwrap_or(0);
        // A group without a name keeps away from layers that were promised to named ones.
        let strange = |layer: &Layer| name.is_none() && !layer.names.is_empty();
        let key = |(id, layer): &(&LayerId, &Layer)| {
            (cost(id), strange(layer), std::cmp::Reverse(layer.used))
        };
        let best = others.min_by_key(key);
        let is_free = best.is_some_and(|(id, layer)| cost(id) == 0 && !strange(layer));
        if is_free || self.unclaimed().is_none() { best.map(|(id, _)| *id) } else { None }
    }

    /// Returns the colors for a group of a layer: those of the layer, and a new one if the layer
    /// should take another.
    pub(super) fn colors_for(
        &self,
        layer: Option<LayerId>,
        hint: Option<LayerHint<'_>>,
    ) -> Vec<u32> {
        let layer = layer.and_then(|id| self.layers.get(&id));
        let mut colors: Vec<u32> = layer
            .into_iter()
            .flat_map(|layer| &layer.colors)
            .map(|color| u32::from(*color))
            .collect();
        if layer.is_none_or(|layer| self.wants_more(layer, hint)) {
            colors.extend(self.unclaimed());
        }
        colors
    }

    fn unclaimed(&self) -> Option<u32> {
        (0u32..).zip(&self.owner).find(|(_, owner)| owner.is_none()).map(|(color, _)| color)
    }

    /// Tells whether a layer should take another color.
    fn wants_more(&self, layer: &Layer, hint: Option<LayerHint<'_>>) -> bool {
        let all = u64::try_from(self.owner.len()).expect("colors are few");
        let claimed = self.owner.iter().flatten().count();
        let claimed = u64::try_from(claimed).expect("colors are few");
        let colors = u64::try_from(layer.colors.len()).expect("colors are few");
        let (groups, trees) =
            (u64::from(layer.groups) + 1, colors * u64::from(self.trees_per_color));
        let sized = hint.filter(|hint| hint.groups > 0 && hint.all_groups >= hint.groups);
        if let Some(hint) = sized {
            let share = all * u64::from(hint.groups) / u64::from(hint.all_groups);
            return colors < share && groups > trees;
        }
        // 64 to the power of claimed/all, straight between powers of 2.
        let (whole, part) = (6 * claimed / all, 6 * claimed % all);
        groups * all > (trees << whole) * (all + part)
    }

    /// Counts a group in; an unused color goes to the layer of the entry, or to a new one.
    pub(super) fn enter(&mut self, color: u16, Entry { layer, name }: Entry<'_>) -> LayerEntered {
        let meant = layer.filter(|id| self.layers.contains_key(id));
        let (mut entered, layer) = self.count_in(color, meant);
        // The creator may have fixed an MGID of another layer.
        let is_new = layer.groups == 1;
        let named = name.filter(|_| is_new || meant == Some(entered.layer));
        if let Some(name) = named
            && layer.names.insert(name.to_owned())
        {
            entered.name = Some(name.to_owned());
        }
        entered
    }

    /// Counts an exclusive group in; an unused color is kept for exclusive groups from now on.
    pub(super) fn enter_exclusive(&mut self, color: u16) -> LayerEntered {
        let (entered, layer) = self.count_in(color, None);
        layer.is_exclusive |= layer.groups == 1;
        entered
    }

    fn count_in(&mut self, color: u16, meant: Option<LayerId>) -> (LayerEntered, &mut Layer) {
        let at = usize::from(color);
        let (id, next) = (self.owner[at].or(meant).unwrap_or(self.next), self.next);
        self.next = self.next.max(id + 1);
        self.turn += 1;
        self.owner[at] = Some(id);
        self.groups[at] += 1;
        let layer = self.layers.entry(id).or_default();
        let entered = LayerEntered { layer: id, color, used: layer.used, next, name: None };
        layer.colors.insert(color);
        layer.groups += 1;
        layer.used = self.turn;
        (entered, layer)
    }

    /// Counts a group out; a color without groups, and a layer without colors, are free again.
    pub(super) fn leave(&mut self, color: u16) -> LayerLeft {
        let at = usize::from(color);
        self.groups[at] -= 1;
        let mut left = LayerLeft { color, layer: self.owner[at], ended: None };
        let Some(id) = left.layer else { return left };
        let layer = self.layers.get_mut(&id).expect("an owner is there");
        layer.groups -= 1;
        if self.groups[at] == 0 {
            layer.colors.remove(&color);
            self.owner[at] = None;
            if layer.colors.is_empty() {
                left.ended = self.layers.remove(&id);
            }
        }
        left
    }

    /// Undoes an entry; later ones must be undone already.
    pub(super) fn undo_enter(&mut self, entered: &LayerEntered) {
        let LayerEntered { layer, color, used, next, name } = entered;
        self.leave(*color);
        self.next = *next;
        self.turn -= 1;
        if let Some(layer) = self.layers.get_mut(layer) {
            layer.used = *used;
            name.as_ref().map(|name| layer.names.remove(name));
        }
    }

    /// Undoes a leaving; later ones must be undone already.
    pub(super) fn undo_leave(&mut self, left: LayerLeft) {
        let LayerLeft { color, layer, ended } = left;
        let at = usize::from(color);
        self.groups[at] += 1;
        let Some(id) = layer else { return };
        self.owner[at] = Some(id);
        let layer = self.layers.entry(id).or_insert_with(|| ended.unwrap_or_default());
        layer.colors.insert(color);
        layer.groups += 1;
    }
}

/// The common part of layers that belong together: the name up to its last `/`, or all of it.
fn family(name: &str) -> &str {
    name.rsplit_once('/').map_or(name, |(family, _)| family)
}
