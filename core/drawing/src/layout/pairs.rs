//! Links between boxes, counted, and the lines that show them.

use std::collections::BTreeMap;

use fabricast_topology::Peer;

use super::Plan;
use crate::drawing::{Cell, Drawing, Frame, Line};
use crate::fabric::Fabric;
use crate::overlay::{Overlay, Shade, fill_class};
use crate::svg::{CELL_HEIGHT, CELL_WIDTH};

/// The quantity that colors show, and its full amount.
#[derive(Clone, Copy)]
pub(super) struct Scale {
    pub(super) shade: Shade,
    pub(super) full: u32,
}

/// The links between two boxes.
#[derive(Clone, Debug, Default)]
pub(super) struct LinkCounts {
    links: u32,
    failed: u32,
    trees: u8,
    used: Option<u32>,
}

impl LinkCounts {
    /// True if the line says more than that there are links.
    pub(super) fn is_special(&self) -> bool {
        self.failed > 0 || self.trees > 0
    }

    fn add(&mut self, other: &Self) {
        self.links += other.links;
        self.failed += other.failed;
        self.trees |= other.trees;
        self.used = self.used.max(other.used);
    }
}

/// Counts the links of each pair of boxes; the smaller box is first.
pub(super) fn pairs(
    fabric: &Fabric,
    plan: &Plan,
    overlay: &Overlay,
) -> BTreeMap<(usize, usize), LinkCounts> {
    let graph = fabric.graph();
    let mut pairs: BTreeMap<(usize, usize), LinkCounts> = BTreeMap::new();
    for (at, cell) in plan.cells.iter().enumerate() {
        for port in cell.switches.iter().flat_map(|switch| graph.ports(*switch)) {
            let Peer::Switch(other) = graph.peer(port) else { continue };
            let Some(to) = plan.cell_of(graph.switch_of(other)) else { continue };
            if at >= to {
                continue; // counted from the other end, or inside of a box
            }
            pairs.entry((at, to)).or_default().add(&LinkCounts {
                links: 1,
                failed: u32::from(!overlay.faults.port_is_live(graph, port)),
                trees: overlay.trees_at(graph, port),
                used: overlay.amount_at(port).max(overlay.amount_at(other)),
            });
        }
    }
    pairs
}

/// Draws a line for each pair of boxes.
pub(super) fn lines<'a>(
    drawing: &Drawing,
    pairs: impl Iterator<Item = ((usize, usize), &'a LinkCounts)>,
    name: impl Fn(usize) -> String,
    scale: Scale,
) -> Vec<Line> {
    let line = |((from, to), counts): ((usize, usize), &LinkCounts)| {
        let (a, b) = (&drawing.cells[from], &drawing.cells[to]);
        let title = format!("{} – {}", name(from), name(to));
        line_of(counts, &title, ends(a, b), scale)
    };
    pairs.map(line).collect()
}

/// Draws a line for each pair of frames.
pub(super) fn frame_pairs(
    drawing: &Drawing,
    plan: &Plan,
    pairs: &BTreeMap<(usize, usize), LinkCounts>,
    scale: Scale,
) -> Vec<Line> {
    let of = |cell: usize| {
        let (x, y) = (drawing.cells[cell].x, drawing.cells[cell].y);
        drawing.frames.iter().position(|frame| {
            (frame.x..frame.x + frame.width).contains(&x)
                && (frame.y..frame.y + frame.height).contains(&y)
        })
    };
    let frame_of: Vec<Option<usize>> = (0..plan.cells.len()).map(of).collect();
    let mut joined: BTreeMap<(usize, usize), LinkCounts> = BTreeMap::new();
    for ((from, to), counts) in pairs {
        let (Some(from), Some(to)) = (frame_of[*from], frame_of[*to]) else { continue };
        if from != to {
            // Failures and trees are lines of their own.
            let plain = LinkCounts { failed: 0, trees: 0, ..counts.clone() };
            joined.entry((from.min(to), from.max(to))).or_default().add(&plain);
        }
    }
    let line = |((from, to), counts): (&(usize, usize), &LinkCounts)| {
        let (a, b) = (&drawing.frames[*from], &drawing.frames[*to]);
        let title = format!("{} – {}", a.label, b.label);
        let (lower, upper) = if a.y > b.y { (a, b) } else { (b, a) };
        let middle = |frame: &Frame| frame.x + frame.width / 2;
        let ends = Ends {
            from: Point { x: middle(lower), y: lower.y },
            to: Point { x: middle(upper), y: upper.y + upper.height },
        };
        line_of(counts, &title, ends, scale)
    };
    joined.iter().map(line).collect()
}

/// A place in a drawing, or a size.
#[derive(Clone, Copy)]
struct Point {
    x: i32,
    y: i32,
}

/// The two ends of a line.
struct Ends {
    from: Point,
    to: Point,
}

/// Ends of a line between two boxes: at their facing edges, or their middles in one row.
fn ends(a: &Cell, b: &Cell) -> Ends {
    let half = CELL_WIDTH / 2;
    if a.y == b.y {
        let middle = |cell: &Cell| Point { x: cell.x + half, y: cell.y + CELL_HEIGHT / 2 };
        return Ends { from: middle(a), to: middle(b) };
    }
    let (lower, upper) = if a.y > b.y { (a, b) } else { (b, a) };
    let to = Point { x: upper.x + half, y: upper.y + CELL_HEIGHT };
    Ends { from: Point { x: lower.x + half, y: lower.y }, to }
}

fn line_of(counts: &LinkCounts, title: &str, ends: Ends, scale: Scale) -> Line {
    let mut title = match counts.links {
        1 => format!("{title}: 1 link"),
        links => format!("{title}: {links} links"),
    };
    match counts.failed {
        0 => {}
        failed if failed == counts.links => title.push_str(", failed"),
        failed => title.push_str(&format!(", {failed} failed")),
    }
    if let Some(used) = counts.used {
        title.push_str(&format!(", {}", scale.shade.words(used, scale.full)));
    }
    match counts.trees {
        0 => {}
        1 => title.push_str(", on the tree"),
        2 => title.push_str(", on the second tree"),
        _ => title.push_str(", on both trees"),
    }
    Line {
        x1: ends.from.x,
        y1: ends.from.y,
        x2: ends.to.x,
        y2: ends.to.y,
        title,
        links: counts.links,
        failed: counts.failed,
        fill: fill_class(counts.used.unwrap_or(0), scale.full),
        trees: counts.trees,
    }
}
