//! Invariants EMU-1 to EMU-6, on random graphs with random tables.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

mod aggregation;
mod faults;
mod forwarding;
mod graphs;
mod tables;
