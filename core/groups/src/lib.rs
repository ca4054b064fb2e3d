//! The hybrid-tree protocol of group communication (Wu et al. 1997) as state machines.
//!
//! Values in, values out: no clock, no socket, no thread. Read [`Directory`] first.
//!
//! | role | type | its shell |
//! | --- | --- | --- |
//! | TIC | [`Directory`]: records, decisions | `services/tic` |
//! | GA | [`agent::GaHost`]: all group agents of one node | `agents/group` |
//! | OA | [`operating::Oa`]: one node | `agents/operating` |
//!
//! [`tree`] makes the unicast tree from the live process numbers, [`detector`] judges who has
//! failed, [`watch`] whom the TIC asks and expels, [`flaps`] holds off
//! nodes that come and go, [`command`], [`record`] and [`message`] are the words the roles use.
//!
//! Everything is level-triggered: a message that tells somebody something is a hint that saves
//! time; the periodic reports find out who is behind, and whoever is fetches the truth.
//! The crate `fabricast-simulation` runs all roles together through storms of loss, death and return.
#![warn(clippy::wildcard_enum_match_arm)]

pub mod agent;
mod asked;
pub mod command;
pub mod detector;
pub mod directory;
mod duplicates;
pub mod flaps;
pub mod hints;
pub mod ids;
pub mod job;
pub mod message;
pub mod names;
pub mod operating;
pub mod record;
mod refusal;
pub mod tree;
pub mod watch;

pub use command::{Answer, Command, Decision, Refusal};
pub use directory::Directory;
pub use duplicates::{Duplicates, WINDOW};
pub use ids::{Epoch, Gn, Incarnation, Moment, Pn, Revision, Version};
