//! Fuzz targets for every parser and every call of the API.
//!
//! Read [`TARGETS`] first. A target is a function of bytes that panics if a promise is broken: no
//! parser panics, a value that was read is written and read back equal, no call of a service ends
//! with `INTERNAL`, and a refused call changes nothing. `cargo nextest run -p fabricast-fuzz` runs
//! each target on its corpus and on a fixed number of mutations of it. `cargo xtask fuzz TARGET
//! MINUTES` runs libFuzzer, guided by coverage. Inputs that it finds become files in
//! `corpus/<target>`.

mod calls;
mod corpus;
mod entropy;
mod formats;
mod handlers;
mod mutation;
mod parsers;
mod stores;

pub use corpus::{corpus, seeds};
pub use mutation::Mutator;

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Name of the target and of its corpus folder.
    pub name: &'static str,
    /// Runs the target on an input; panics if a promise is broken.
    pub run: fn(&[u8]),
    /// Mutations that each test run tries; fewer for slow targets.
    pub mutations: u32,
}

const fn target(name: &'static str, run: fn(&[u8]), mutations: u32) -> Target {
    Target { name, run, mutations }
}

/// All targets.
pub const TARGETS: &[Target] = &[
    target("ibnetdiscover", formats::ibnetdiscover, 2_000),
    target("topology-toml", formats::topology_toml, 1_000),
    target("groups", formats::groups, 3_000),
    target("routes", formats::routes, 3_000),
    target("tables", formats::tables, 3_000),
    target("hostlist", formats::hostlist, 3_000),
    target("slurm", formats::slurm, 2_000),
    target("measurements", formats::measurements, 2_000),
    target("settings", parsers::settings, 1_000),
    target("values", parsers::values, 3_000),
    target("identity", parsers::identity, 5_000),
    target("certificate", parsers::certificate, 2_000),
    target("frame", parsers::frame, 10_000),
    target("packet", parsers::packet, 10_000),
    target("smp", parsers::smp, 5_000),
    target("discovery", parsers::discovery, 1_000),
    target("openflow", parsers::openflow, 10_000),
    target("openflow-table", parsers::openflow_table, 5_000),
    target("heard-frame", parsers::heard_frame, 10_000),
    target("programs", parsers::programs, 10_000),
    target("store-location", stores::location, 5_000),
    target("record", stores::record, 5_000),
    target("records-file", stores::records_file, 300),
    target("store-file", stores::store_file, 40),
    target("tic", handlers::tic, 300),
    target("router", handlers::router, 150),
    target("switch-agent", handlers::switch_agent, 250),
    target("operating-agent", handlers::operating_agent, 200),
    target("fabric", handlers::fabric, 200),
];
