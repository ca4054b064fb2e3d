//! What always holds, on random graphs with random tables: invariants EMU-1 to EMU-6.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

mod aggregation;
mod faults;
mod forwarding;
mod graphs;
mod tables;
