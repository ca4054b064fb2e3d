//! Invariants: checked at every step, or once everything is healed and no message is in flight.
//!
//! A violation ends the run by a panic whose text begins with the rule's id.

pub(crate) mod flaps;
pub(crate) mod g1;
pub(crate) mod g2;
pub(crate) mod g3;
pub(crate) mod g4;
pub(crate) mod g4_routes;
pub(crate) mod g5;
pub(crate) mod g5_probes;
pub(crate) mod r1;
pub(crate) mod r2;
pub(crate) mod r3;
pub(crate) mod r4;
pub(crate) mod r5;
