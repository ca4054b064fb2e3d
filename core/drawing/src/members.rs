//! Draws the unicast tree of a group: the members from the root down.

use std::collections::BTreeMap;

use crate::drawing::{Cell, Drawing, Line};
use crate::svg::{CELL_HEIGHT, CELL_WIDTH};
use crate::unit::Unit;

/// Most members that are drawn, those nearest to the root.
const MOST: usize = 48;
const GAP: i32 = 8;
const ROW_GAP: i32 = 40;
const MARGIN: i32 = 18;

/// A member of a group, and its place in the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberPlace {
    /// Its number in the group.
    pub pn: u32,
    /// Name of its node.
    pub label: String,
    /// All about it.
    pub title: String,
    /// Number of its parent; none at the root.
    pub parent: Option<u32>,
}

/// Draws the members that are nearest to the root, at most 48; `left_out` of the drawing counts
/// the others.
///
/// - `members`: by number, rising; each parent is among them, and the parents make one tree.
#[must_use]
pub fn draw_members(members: &[MemberPlace]) -> Drawing {
    let mut children: BTreeMap<Option<u32>, Vec<&MemberPlace>> = BTreeMap::new();
    for member in members {
        children.entry(member.parent).or_default().push(member);
    }
    // Level by level, so that the nearest are drawn.
    let mut rows: Vec<Vec<&MemberPlace>> = Vec::new();
    let mut row = children.get(&None).cloned().unwrap_or_default();
    let mut left = MOST;
    while !row.is_empty() && left > 0 {
        row.truncate(left);
        left -= row.len();
        let below = row.iter().filter_map(|one| children.get(&Some(one.pn)));
        let next = below.flatten().copied().collect();
        rows.push(std::mem::replace(&mut row, next));
    }
    let shown = rows.iter().map(Vec::len).sum::<usize>();
    let columns = columns(&rows);
    let count = |number: usize| i32::try_from(number).expect("at most 48 are drawn");
    let width = columns.values().max().map_or(0, |last| (last + 2) * (CELL_WIDTH + GAP) / 2);
    let mut drawing = Drawing {
        width: width + 2 * MARGIN,
        height: count(rows.len()) * (CELL_HEIGHT + ROW_GAP) - ROW_GAP + 2 * MARGIN,
        title: format!("Unicast tree of {} members", members.len()),
        left_out: members.len() - shown,
        ..Drawing::default()
    };
    for (depth, row) in rows.iter().enumerate() {
        for member in row {
            let x = MARGIN + columns[&member.pn] * (CELL_WIDTH + GAP) / 2;
            let y = MARGIN + count(depth) * (CELL_HEIGHT + ROW_GAP);
            drawing.cells.push(cell(member, x, y));
        }
    }
    let place = |pn: u32| drawing.cells.iter().find(|cell| cell.unit == Unit::Member(pn));
    let line = |member: &MemberPlace| {
        let (own, above) = (place(member.pn)?, place(member.parent?)?);
        let title = format!("{} – {}", above.title, own.title);
        let half = CELL_WIDTH / 2;
        let (x1, y1) = (above.x + half, above.y + CELL_HEIGHT);
        let (x2, y2) = (own.x + half, own.y);
        Some(Line { x1, y1, x2, y2, title, links: 1, failed: 0, fill: 0, trees: 0 })
    };
    let lines: Vec<Line> = members.iter().filter_map(line).collect();
    drawing.lines = lines;
    drawing
}

/// Columns of members, by number, in halves of a box: a member without children has the next two
/// free ones, and others stand above the middle of their children.
fn columns(rows: &[Vec<&MemberPlace>]) -> BTreeMap<u32, i32> {
    let mut below: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for member in rows.iter().flatten() {
        if let Some(parent) = member.parent {
            below.entry(parent).or_default().push(member.pn);
        }
    }
    let (mut columns, mut next) = (BTreeMap::new(), 0);
    let roots = rows.first().into_iter().flatten().rev().map(|root| (root.pn, false));
    let mut open: Vec<(u32, bool)> = roots.collect();
    while let Some((pn, is_placed_below)) = open.pop() {
        let own = below.get(&pn).map_or(&[][..], Vec::as_slice);
        match own {
            [] => {
                columns.insert(pn, next);
                next += 2;
            }
            [first, .., last] | [first @ last] if is_placed_below => {
                columns.insert(pn, i32::midpoint(columns[first], columns[last]));
            }
            _ => {
                open.push((pn, true));
                open.extend(own.iter().rev().map(|child| (*child, false)));
            }
        }
    }
    columns
}

fn cell(member: &MemberPlace, x: i32, y: i32) -> Cell {
    Cell {
        unit: Unit::Member(member.pn),
        label: format!("PN {}", member.pn),
        note: crate::layout::short(&member.label),
        title: member.title.clone(),
        x,
        y,
        switches: 0,
        failed: 0,
        dead: false,
        fill: 0,
        on_tree: false,
        is_root: member.parent.is_none(),
        members: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A heap: the children of n are 2n + 1 and 2n + 2.
    fn heap(count: u32) -> Vec<MemberPlace> {
        let parent = |pn: u32| (pn > 0).then(|| (pn - 1) / 2);
        let place = |pn| MemberPlace { pn, parent: parent(pn), ..MemberPlace::default() };
        (0..count).map(place).collect()
    }

    #[test]
    fn boxes_stand_apart_and_each_has_a_line_to_its_parent() {
        for count in [0, 1, 2, 7, 20, 48, 300] {
            let drawing = draw_members(&heap(count));
            let shown = drawing.cells.len();
            assert_eq!(shown + drawing.left_out, count as usize);
            assert_eq!(shown, (count as usize).min(MOST));
            assert_eq!(drawing.lines.len(), shown.saturating_sub(1));
            for (at, a) in drawing.cells.iter().enumerate() {
                assert!(a.x >= MARGIN && a.x + CELL_WIDTH + MARGIN <= drawing.width + GAP, "{a:?}");
                for b in &drawing.cells[at + 1..] {
                    let meet = (a.x - b.x).abs() < CELL_WIDTH && (a.y - b.y).abs() < CELL_HEIGHT;
                    assert!(!meet, "{a:?} and {b:?}");
                }
            }
        }
    }

    #[test]
    fn a_chain_is_drawn_to_its_end() {
        let place = |pn: u32| MemberPlace { pn, parent: pn.checked_sub(1), ..Default::default() };
        let chain: Vec<MemberPlace> = (0..5).map(place).collect();
        let drawing = draw_members(&chain);
        assert_eq!(drawing.lines.len(), 4);
        assert!(drawing.cells.iter().all(|cell| cell.x == MARGIN), "one column");
    }
}
