//! The TIC over real gRPC on a port of its own, in memory or on a file.
#![expect(clippy::unwrap_used, reason = "what fails in a test's harness fails the test")]

mod backup;
mod batches;
mod choices;
mod choices_crash;
mod cluster;
mod contract;
mod decisions;
mod durability;
mod endpoint_names;
mod extremes;
mod flaps;
mod full_etcd;
mod full_store;
mod full_store_calls;
mod groups;
mod harness;
mod hosts;
mod job_entries;
mod jobs;
mod liveness;
mod mgids;
mod nodes;
mod refusals;
mod requested_trees;
mod routes;
mod shares;
mod topology;
mod upgrade;
mod vouchers;
mod watch;
