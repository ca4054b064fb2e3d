//! Draws a fabric, and what lies over it, as SVG.
//!
//! Read [`draw`] first: it lays out a [`Fabric`] with an [`Overlay`] and returns a [`Drawing`], a
//! value with the place of every box and line. [`Drawing::svg`] prints it. Large fabrics are drawn
//! by midplane; [`Scope::Inside`] draws the switches of one.
//!
//! Invariants
//! - DRAW-1: no text of a topology is markup in the SVG, and none is a control character.
//! - DRAW-2: no two boxes of a drawing overlap.
#![warn(clippy::wildcard_enum_match_arm)]

mod chart;
mod drawing;
mod fabric;
mod layout;
mod members;
mod overlay;
mod svg;
mod unit;

pub use chart::{CHART_STYLE, Chart, ChartLine, ChartPoint};
pub use drawing::{Cell, Drawing, Frame, Line, RowLabel};
pub use fabric::Fabric;
pub use layout::draw;
pub use members::{MemberPlace, draw_members};
pub use overlay::{Overlay, Shade, fill_class};
pub use svg::{STYLE, escape};
pub use unit::{Scope, Unit};

#[cfg(test)]
mod tests;
