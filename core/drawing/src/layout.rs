//! Lays out a fabric: rows of boxes from the leaf switches up, or a circle where there are no
//! levels, and the lines between them.

mod pairs;
mod place;

use std::collections::BTreeMap;

use fabricast_topology::{Peer, SwitchId};

use crate::drawing::{Cell, Drawing};
use crate::fabric::{Fabric, Slot};
use crate::overlay::{Overlay, fill_class};
use crate::unit::{Scope, Unit};

use pairs::{LinkCounts, Scale, frame_pairs, lines, pairs};
use place::{frames, on_circle, row_labels, rows};

/// Most lines of a drawing; if there were more, lines join frames.
const MAX_LINES: usize = 1_200;
/// Most characters of a label.
const MAX_LABEL: usize = 11;

/// Lays out a fabric with what lies over it.
///
/// Cost: linear in the number of ports.
#[must_use]
pub fn draw(fabric: &Fabric, scope: Scope, overlay: &Overlay) -> Drawing {
    let switches: Vec<(Slot, SwitchId)> = {
        let graph = fabric.graph();
        let slots = graph.switches().filter_map(|s| Some((fabric.slot(scope, s)?, s)));
        slots.collect()
    };
    let mut plan = Plan::of(fabric, &switches);
    let mut kept = pairs(fabric, &plan, overlay);
    if matches!(scope, Scope::Inside(_)) {
        plan.keep_linked(&kept);
        kept = pairs(fabric, &plan, overlay);
    }
    let mut drawing = if fabric.is_fat_tree() { rows(&plan) } else { on_circle(&plan) };
    drawing.title = title(fabric, scope);
    drawing.rows = row_labels(fabric, scope, &drawing, &plan);
    drawing.frames = frames(fabric, scope, &drawing, &plan);
    for (cell, members) in drawing.cells.iter_mut().zip(&plan.cells) {
        describe(cell, fabric, overlay, &members.switches);
    }
    let names = |cell: usize| fabric.title(plan.cells[cell].slot.unit);
    let scale = Scale { shade: overlay.shade, full: overlay.full };
    drawing.lines = if kept.len() <= MAX_LINES {
        lines(&drawing, kept.iter().map(|(pair, counts)| (*pair, counts)), names, scale)
    } else {
        let special = kept.iter().filter(|(_, counts)| counts.is_special());
        let few = special.take(MAX_LINES).map(|(pair, counts)| (*pair, counts));
        let few = lines(&drawing, few, names, scale);
        drawing.left_out = kept.len() - few.len();
        let mut all = frame_pairs(&drawing, &plan, &kept, scale);
        all.extend(few);
        all
    };
    drawing
}

/// The boxes, and the switches of each.
pub(crate) struct Plan {
    pub(crate) cells: Vec<PlannedCell>,
    /// Box of each switch, by switch; those that are not drawn have none.
    cell_of: Vec<Option<usize>>,
}

pub(crate) struct PlannedCell {
    pub(crate) slot: Slot,
    pub(crate) switches: Vec<SwitchId>,
}

impl Plan {
    fn of(fabric: &Fabric, switches: &[(Slot, SwitchId)]) -> Self {
        let mut by_slot: BTreeMap<(Slot, u32), Vec<SwitchId>> = BTreeMap::new();
        for (slot, switch) in switches {
            // A switch is drawn in the order of its number, whatever its midplane.
            let order = if matches!(slot.unit, Unit::Switch(_)) { switch.0 } else { 0 };
            by_slot.entry((*slot, order)).or_default().push(*switch);
        }
        debug_assert!(switches.len() <= fabric.graph().switch_count(), "each switch once");
        let cells = by_slot.into_iter();
        Self::from_cells(cells.map(|((slot, _), switches)| PlannedCell { slot, switches }))
    }

    fn from_cells(cells: impl Iterator<Item = PlannedCell>) -> Self {
        let cells: Vec<PlannedCell> = cells.collect();
        let switches = cells.iter().flat_map(|cell| &cell.switches);
        let count = switches.map(|switch| switch.index() + 1).max().unwrap_or(0);
        let mut cell_of = vec![None; count];
        for (at, cell) in cells.iter().enumerate() {
            for switch in &cell.switches {
                cell_of[switch.index()] = Some(at);
            }
        }
        Self { cells, cell_of }
    }

    /// Box of a switch, if it is drawn.
    pub(crate) fn cell_of(&self, switch: SwitchId) -> Option<usize> {
        self.cell_of.get(switch.index()).copied().flatten()
    }

    /// Drops midplanes without a link to another box.
    fn keep_linked(&mut self, pairs: &BTreeMap<(usize, usize), LinkCounts>) {
        let mut linked = vec![false; self.cells.len()];
        for (from, to) in pairs.keys() {
            // Two midplanes may be linked to each other and to nothing that is drawn one by one.
            let alone = |at: usize| matches!(self.cells[at].slot.unit, Unit::Switch(_));
            if alone(*from) || alone(*to) {
                linked[*from] = true;
                linked[*to] = true;
            }
        }
        let cells = std::mem::take(&mut self.cells).into_iter().zip(linked);
        let kept =
            cells.filter(|(cell, linked)| *linked || matches!(cell.slot.unit, Unit::Switch(_)));
        *self = Self::from_cells(kept.map(|(cell, _)| cell));
    }
}

fn title(fabric: &Fabric, scope: Scope) -> String {
    let graph = fabric.graph();
    let size = format!("{} switches, {} endpoints", graph.switch_count(), graph.endpoint_count());
    match scope {
        Scope::Whole => format!("Fabric of {size}"),
        Scope::Inside(unit) => format!("{} of a fabric of {size}", fabric.title(unit)),
    }
}

/// Fills in what a box says.
fn describe(cell: &mut Cell, fabric: &Fabric, overlay: &Overlay, switches: &[SwitchId]) {
    let graph = fabric.graph();
    let (mut endpoints, mut dead, mut used) = (0, 0, None);
    for switch in switches {
        endpoints += fabric.endpoints(*switch);
        dead += u32::from(!overlay.faults.switch_is_live(*switch));
        let amount = overlay.by_switch.get(switch.index()).copied();
        used = match (used, amount) {
            (Some(one), Some(other)) => Some(overlay.shade.join(one, other)),
            (one, other) => one.or(other),
        };
        cell.is_root |= overlay.root == Some(*switch);
        for port in graph.ports(*switch) {
            cell.on_tree |= overlay.trees_at(graph, port) != 0;
            let Peer::Endpoint(endpoint) = graph.peer(port) else { continue };
            cell.members += u32::from(overlay.members.contains(&endpoint));
            cell.failed += u32::from(
                overlay.faults.switch_is_live(*switch) && !overlay.faults.port_is_live(graph, port),
            );
        }
    }
    cell.failed += dead;
    cell.switches = u32::try_from(switches.len()).expect("fewer than 2^32 switches");
    cell.dead = dead == cell.switches;
    cell.fill = fill_class(used.unwrap_or(0), overlay.full);
    cell.label = short(&fabric.title(cell.unit));
    cell.note = match (overlay.has_tree(), cell.members, used) {
        (true, 0, _) if cell.is_root => "root".to_owned(),
        (true, 0, _) => String::new(),
        (true, 1, _) => "1 member".to_owned(),
        (true, members, _) => format!("{members} members"),
        (false, _, Some(used)) if overlay.full > 0 => overlay.shade.note(used, overlay.full),
        (false, ..) if endpoints > 0 => format!("{endpoints} endpoints"),
        (false, ..) => String::new(),
    };
    let used = used.filter(|_| overlay.full > 0);
    let amount = used.map(|used| overlay.shade.words(used, overlay.full)).unwrap_or_default();
    cell.title = cell_title(cell, fabric, endpoints, &amount);
}

fn cell_title(cell: &Cell, fabric: &Fabric, endpoints: u32, amount: &str) -> String {
    let mut text = fabric.title(cell.unit);
    if let Unit::Switch(switch) = cell.unit
        && fabric.graph().switch_name(switch) != text
    {
        text.push_str(&format!(" ({})", fabric.graph().switch_name(switch)));
    }
    if cell.switches > 1 {
        text.push_str(&format!(", {} switches", cell.switches));
    }
    if endpoints > 0 {
        text.push_str(&format!(", {endpoints} endpoints"));
    }
    if !amount.is_empty() {
        text.push_str(&format!(", {amount}"));
    }
    match (cell.dead, cell.failed) {
        (true, _) => text.push_str(", failed"),
        (false, 0) => {}
        (false, failed) => text.push_str(&format!(", {failed} failed")),
    }
    if cell.is_root {
        text.push_str(", root of the tree");
    }
    if cell.members > 0 {
        text.push_str(&format!(", members: {}", cell.members));
    }
    text
}

/// Shortens a name; its end tells more than its beginning.
pub(crate) fn short(name: &str) -> String {
    let count = name.chars().count();
    if count <= MAX_LABEL {
        return name.to_owned();
    }
    let end: String = name.chars().skip(count - (MAX_LABEL - 3)).collect();
    format!("…{end}")
}
