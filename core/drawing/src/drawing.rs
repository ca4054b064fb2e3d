//! A drawing as a value: every box, line and label with its place.

use crate::unit::Unit;

/// A fabric, laid out. Lengths are pixels at a scale of 1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drawing {
    /// Width of the whole.
    pub width: i32,
    /// Height of the whole.
    pub height: i32,
    /// Title, for readers of the screen.
    pub title: String,
    /// Beginning of the ids of boxes, for pages with several drawings.
    pub prefix: String,
    /// Labels of the levels, at the left.
    pub rows: Vec<RowLabel>,
    /// Frames around boxes that belong together.
    pub frames: Vec<Frame>,
    /// Lines between boxes, or between frames where there would be too many.
    pub lines: Vec<Line>,
    /// Boxes of switches, level by level.
    pub cells: Vec<Cell>,
    /// Number of what is not drawn, as there is too much: pairs of boxes with links, or members.
    pub left_out: usize,
}

/// The name of a level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowLabel {
    /// Label at the left margin.
    pub text: String,
    /// Middle of the row.
    pub y: i32,
}

/// A frame around boxes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The text above it; empty for a frame that is not drawn.
    pub label: String,
    /// Left edge in SVG units.
    pub x: i32,
    /// Upper edge in SVG units.
    pub y: i32,
    /// Width in SVG units.
    pub width: i32,
    /// Height in SVG units.
    pub height: i32,
}

/// A box: a switch, or several as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The part of the fabric.
    pub unit: Unit,
    /// Its name, shortened to fit.
    pub label: String,
    /// A second line.
    pub note: String,
    /// All about it, for the pointer and readers of the screen.
    pub title: String,
    /// Left edge in SVG units.
    pub x: i32,
    /// Upper edge in SVG units.
    pub y: i32,
    /// Switches in it.
    pub switches: u32,
    /// Failed switches, links and endpoints in it.
    pub failed: u32,
    /// All its switches have failed.
    pub dead: bool,
    /// Class of its fullest table ([`crate::fill_class`]).
    pub fill: u8,
    /// A tree that is shown passes through it.
    pub on_tree: bool,
    /// The root of the tree is in it.
    pub is_root: bool,
    /// Members whose endpoint is attached to it.
    pub members: u32,
}

/// A line: the links between two boxes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// One end, in SVG units from the left.
    pub x1: i32,
    /// One end, in SVG units from the top.
    pub y1: i32,
    /// The other end.
    pub x2: i32,
    /// The other end.
    pub y2: i32,
    /// Description, for the pointer.
    pub title: String,
    /// Links that the line stands for, failed ones included.
    pub links: u32,
    /// Links that carry nothing, as they or a switch at their ends have failed.
    pub failed: u32,
    /// Class of the fullest table at their ends.
    pub fill: u8,
    /// Trees that use one of them, one bit for each.
    pub trees: u8,
}
