//! Places of boxes, frames and labels.

use std::collections::BTreeMap;

use super::Plan;
use crate::drawing::{Cell, Drawing, Frame, RowLabel};
use crate::fabric::Fabric;
use crate::svg::{CELL_HEIGHT, CELL_WIDTH};
use crate::unit::{Scope, Unit};

/// Space between boxes.
const GAP: i32 = 6;
/// Space between frames.
const FRAME_GAP: i32 = 22;
/// Space between rows, for the lines.
const ROW_GAP: i32 = 96;
/// Space around everything.
const MARGIN: i32 = 18;
/// Space for the labels of rows.
const LABELS: i32 = 40;
/// Width that rows of midplanes are wrapped at.
const WRAP: i32 = 1_240;
/// Room around the boxes of a frame.
const PAD: i32 = 7;

/// Boxes of a row by frame.
type RowCells = BTreeMap<u32, Vec<usize>>;

/// Places boxes in rows, the lowest level at the bottom.
pub(super) fn rows(plan: &Plan) -> Drawing {
    let mut by_row: BTreeMap<u32, RowCells> = BTreeMap::new();
    for (at, cell) in plan.cells.iter().enumerate() {
        by_row.entry(cell.slot.row).or_default().entry(cell.slot.frame).or_default().push(at);
    }
    let shapes: Vec<RowShape<'_>> = by_row.values().map(|frames| shape(plan, frames)).collect();
    let width = shapes.iter().map(|row| row.width).max().unwrap_or(0);
    let mut places = vec![(0, 0); plan.cells.len()];
    let mut y = MARGIN + 12;
    for row in shapes.iter().rev() {
        let mut x = MARGIN + LABELS + (width - row.width) / 2;
        let mut height = 0;
        for FrameShape { cells, columns } in &row.frames {
            for (index, cell) in (0..).zip(cells.iter()) {
                let (column, line) = (index % columns, index / columns);
                places[*cell] = (x + column * (CELL_WIDTH + GAP), y + line * (CELL_HEIGHT + GAP));
                height = height.max((line + 1) * (CELL_HEIGHT + GAP) - GAP);
            }
            x += columns * (CELL_WIDTH + GAP) - GAP + FRAME_GAP;
        }
        y += height + ROW_GAP;
    }
    Drawing {
        width: width + 2 * MARGIN + LABELS,
        height: (y - ROW_GAP + MARGIN).max(2 * MARGIN),
        cells: cells(plan, &places),
        ..Drawing::default()
    }
}

/// A row of boxes, and its width.
struct RowShape<'a> {
    frames: Vec<FrameShape<'a>>,
    width: i32,
}

/// The boxes of a frame, in so many columns.
struct FrameShape<'a> {
    cells: &'a [usize],
    columns: i32,
}

fn shape<'a>(plan: &Plan, frames: &'a RowCells) -> RowShape<'a> {
    let shaped = frames.values();
    let shaped = shaped.map(|cells| FrameShape { cells, columns: columns(plan, frames, cells) });
    let shaped: Vec<FrameShape<'_>> = shaped.collect();
    let boxes: i32 = shaped.iter().map(|frame| frame.columns * (CELL_WIDTH + GAP) - GAP).sum();
    let width = boxes + FRAME_GAP * (count(shaped.len()) - 1).max(0);
    RowShape { frames: shaped, width }
}

/// Columns of a frame: all its switches side by side, and midplanes wrapped.
fn columns(plan: &Plan, frames: &RowCells, cells: &[usize]) -> i32 {
    let is_switch = |at: &usize| matches!(plan.cells[*at].slot.unit, Unit::Switch(_));
    let most = count(cells.len());
    if cells.iter().all(is_switch) {
        return most.max(1);
    }
    let share = (WRAP / count(frames.len()).max(1) - FRAME_GAP) / (CELL_WIDTH + GAP);
    // All lines about as long.
    let share = share.clamp(1, most.max(1));
    let lines = (most + share - 1) / share;
    ((most + lines - 1) / lines.max(1)).max(1)
}

/// Places boxes on a circle, as a fabric without levels has no order.
pub(super) fn on_circle(plan: &Plan) -> Drawing {
    let number = count(plan.cells.len()).max(1);
    let around = f64::from(number) * f64::from(CELL_WIDTH + 2 * GAP);
    let radius = (around / std::f64::consts::TAU).max(f64::from(CELL_WIDTH));
    let middle = radius + f64::from(MARGIN + CELL_WIDTH / 2);
    let places: Vec<(i32, i32)> = (0..number)
        .map(|at| {
            let angle = f64::from(at) / f64::from(number) * std::f64::consts::TAU;
            let x = middle + radius * angle.sin() - f64::from(CELL_WIDTH) / 2.0;
            let y = middle - radius * angle.cos() - f64::from(CELL_HEIGHT) / 2.0;
            (whole(x), whole(y))
        })
        .collect();
    let size = whole(middle * 2.0);
    Drawing { width: size, height: size, cells: cells(plan, &places), ..Drawing::default() }
}

fn cells(plan: &Plan, places: &[(i32, i32)]) -> Vec<Cell> {
    let placed = plan.cells.iter().zip(places);
    let cell = |(planned, (x, y)): (&super::PlannedCell, &(i32, i32))| Cell {
        unit: planned.slot.unit,
        label: String::new(),
        note: String::new(),
        title: String::new(),
        x: *x,
        y: *y,
        switches: 0,
        failed: 0,
        dead: false,
        fill: 0,
        on_tree: false,
        is_root: false,
        members: 0,
    };
    placed.map(cell).collect()
}

/// Labels the rows at their middle.
pub(super) fn row_labels(
    fabric: &Fabric,
    scope: Scope,
    drawing: &Drawing,
    plan: &Plan,
) -> Vec<RowLabel> {
    let mut extent: BTreeMap<u32, (i32, i32)> = BTreeMap::new();
    for (cell, planned) in drawing.cells.iter().zip(&plan.cells) {
        let (top, bottom) =
            extent.entry(planned.slot.row).or_insert((cell.y, cell.y + CELL_HEIGHT));
        *top = cell.y.min(*top);
        *bottom = (cell.y + CELL_HEIGHT).max(*bottom);
    }
    let label = |(row, (top, bottom)): (u32, (i32, i32))| RowLabel {
        text: fabric.row_label(scope, row),
        y: i32::midpoint(top, bottom),
    };
    extent.into_iter().map(label).filter(|label| !label.text.is_empty()).collect()
}

/// Draws frames around the midplanes of a block or TN group, if there are several.
pub(super) fn frames(fabric: &Fabric, scope: Scope, drawing: &Drawing, plan: &Plan) -> Vec<Frame> {
    if scope != Scope::Whole || fabric.is_small() || !fabric.is_fat_tree() {
        return Vec::new();
    }
    let mut frames: BTreeMap<(u32, u32), Frame> = BTreeMap::new();
    for (cell, planned) in drawing.cells.iter().zip(&plan.cells) {
        let label = match planned.slot.unit {
            Unit::Cn(_) => format!("block {}", planned.slot.frame),
            Unit::Tn(_) => format!("TNs {}", planned.slot.frame),
            Unit::Switch(_) | Unit::Part(_) | Unit::Member(_) => String::new(),
        };
        let (x, y) = (cell.x - PAD, cell.y - PAD);
        let (right, bottom) = (cell.x + CELL_WIDTH + PAD, cell.y + CELL_HEIGHT + PAD);
        let key = (planned.slot.row, planned.slot.frame);
        let frame = frames.entry(key).or_insert(Frame {
            label,
            x,
            y,
            width: right - x,
            height: bottom - y,
        });
        let (old_right, old_bottom) = (frame.x + frame.width, frame.y + frame.height);
        (frame.x, frame.y) = (frame.x.min(x), frame.y.min(y));
        frame.width = old_right.max(right) - frame.x;
        frame.height = old_bottom.max(bottom) - frame.y;
    }
    frames.into_values().collect()
}

fn count(length: usize) -> i32 {
    i32::try_from(length).expect("a drawing has fewer than 2^31 boxes")
}

#[expect(clippy::cast_possible_truncation, reason = "lengths of a drawing are far below 2^31")]
fn whole(length: f64) -> i32 {
    length.round() as i32
}
