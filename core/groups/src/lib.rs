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
//! [`tree`] computes the unicast tree from the live process numbers, [`detector`] decides which
//! peers have failed, [`watch`] decides which nodes the TIC probes and expels, and [`flaps`]
//! suppresses nodes that come and go. [`command`], [`record`] and [`message`] define the data that
//! the roles exchange.
//!
//! The protocol is level-triggered. A pushed message is a hint that saves time; periodic reports
//! show who is behind, and a role that is behind fetches the current state. The crate
//! `fabricast-simulation` runs all roles together under message loss, crashes and restarts.
#![warn(clippy::wildcard_enum_match_arm)]

pub mod agent;
pub mod command;
pub mod detector;
pub mod directory;
mod duplicates;
mod fetches;
pub mod flaps;
mod hex;
pub mod hints;
pub mod ids;
pub mod job;
pub mod message;
pub mod names;
pub mod operating;
pub mod programs;
pub mod record;
mod refusal;
pub mod token;
pub mod tree;
pub mod voucher;
pub mod watch;

pub use command::{Answer, Command, Decision, Refusal, TicRefusal};
pub use directory::Directory;
pub use duplicates::{Duplicates, WINDOW};
pub use ids::{Epoch, Gn, Incarnation, Moment, Pn, Revision, Version};
