//! What must hold: at every step, or once everything is healed and nothing is under way.
//!
//! A rule that is broken ends the run by a panic that begins with its name.

pub(crate) mod flaps;
pub(crate) mod g1;
pub(crate) mod g2;
pub(crate) mod g3;
pub(crate) mod g4;
pub(crate) mod g4_routes;
pub(crate) mod g5;
pub(crate) mod r1;
pub(crate) mod r2;
pub(crate) mod r3;
pub(crate) mod r4;
pub(crate) mod r5;
