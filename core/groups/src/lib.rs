//! The hybrid-tree protocol of group communication (Wu et al. 1997) as state machines.
//!
//! Values in, values out: no clock, no socket, no thread. Read [`Directory`] first.
//!
//! - [`directory`]: the TIC's records and its decisions on them; [`command`], [`record`].
//! - [`tree`]: the unicast tree of a group as a function of its live process numbers.
#![warn(clippy::wildcard_enum_match_arm)]

pub mod command;
pub mod directory;
pub mod ids;
pub mod names;
pub mod record;
pub mod tree;

pub use command::{Answer, Command, Decision, Refusal};
pub use directory::Directory;
pub use ids::{Epoch, Gn, Incarnation, Moment, Pn, Revision, Version};
