//! The command line as a person and a script meet it: the real binary, its output and exit codes.

#[path = "cli/access_matrix.rs"]
mod access_matrix;
#[path = "cli/calls.rs"]
mod calls;
#[path = "cli/certificates.rs"]
mod certificates;
#[path = "cli/collectives.rs"]
mod collectives;
#[path = "cli/commands.rs"]
mod commands;
#[path = "cli/console.rs"]
mod console;
#[path = "cli/contexts.rs"]
mod contexts;
#[path = "cli/fairness.rs"]
mod fairness;
#[path = "cli/fault_tolerance.rs"]
mod fault_tolerance;
#[path = "cli/files.rs"]
mod files;
#[path = "cli/golden.rs"]
mod golden;
#[path = "cli/jobs.rs"]
mod jobs;
#[path = "cli/metrics.rs"]
mod metrics;
#[path = "cli/needs_chromium.rs"]
mod needs_chromium;
#[path = "cli/needs_etcd.rs"]
mod needs_etcd;
#[path = "cli/needs_ovs.rs"]
mod needs_ovs;
#[path = "cli/needs_prometheus.rs"]
mod needs_prometheus;
#[path = "cli/needs_slurm.rs"]
mod needs_slurm;
#[path = "cli/offline.rs"]
mod offline;
#[path = "cli/own_calls.rs"]
mod own_calls;
#[path = "cli/planning.rs"]
mod planning;
#[path = "cli/processes.rs"]
mod processes;
#[path = "cli/refusals.rs"]
mod refusals;
#[path = "cli/reloading.rs"]
mod reloading;
#[path = "cli/routes.rs"]
mod routes;
#[path = "cli/running.rs"]
mod running;
#[path = "cli/standby.rs"]
mod standby;
#[path = "cli/support.rs"]
mod support;
#[path = "cli/traces.rs"]
mod traces;
#[path = "cli/unbound_calls.rs"]
mod unbound_calls;
#[path = "cli/vouchers.rs"]
mod vouchers;
