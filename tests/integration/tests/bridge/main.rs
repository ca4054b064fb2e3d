//! The control plane over Linux bridges: the kernel carries packets of programs, by entries that
//! the switch agent wrote.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

#[path = "../openflow/labs.rs"]
mod labs;
mod needs_bridge;
#[path = "../openflow/program.rs"]
mod program;
