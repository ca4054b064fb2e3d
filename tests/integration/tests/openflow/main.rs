//! The control plane over OpenFlow: Open vSwitch in network namespaces carries the packets of
//! programs, by tables that the switch agent wrote.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod labs;
mod needs_ovs;
mod program;
