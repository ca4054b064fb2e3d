//! All parts together over real gRPC, every test with a cluster of its own.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod audit;
mod bad_input;
mod batches;
mod blocking;
mod c_library;
mod choices;
mod collectives;
mod combining;
mod direct;
mod drains;
mod drift;
mod driver;
mod engines;
mod extremes;
mod failures;
mod fault_tolerance;
mod groups;
mod history;
mod limits;
mod long_operations;
mod memory;
mod messages;
mod multicast;
mod needs_etcd;
mod needs_openmpi;
mod needs_python;
mod needs_root;
mod previews;
mod processes;
mod rebalance;
mod reflection;
mod requested_trees;
mod restarts;
mod restoring;
mod root_policies;
mod rules;
mod shards;
mod slow;
mod stability;
mod standby;
mod storm;
mod talking;
mod tenants;
mod trees;
