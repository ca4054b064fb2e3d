//! Settings read again while a part runs.
//!
//! Some can change at any time: the log filter, the share of traces, limits, intervals and
//! timeouts. The part was built from the others. A file that differs in one of those is refused as
//! a whole, so that the settings in force always are those of one file
//! (docs/adr/0025-settings-are-read-again-whole-or-not-at-all.md).
//!
//! Invariants
//! - CONFIG-2: settings that are read again are taken over all together or not at all.

use fabricast_rpc::Limits;

use crate::fabric::FabricConfig;
use crate::load::{Role, Sources, load_all};
use crate::operating_agent::OperatingAgentConfig;
use crate::problem::ConfigErrors;
use crate::router::RouterConfig;
use crate::switch_agent::SwitchAgentConfig;
use crate::telemetry::TelemetryConfig;
use crate::tic::TicConfig;

/// Result of reading settings again.
#[derive(Debug, PartialEq)]
pub enum Reread<R> {
    /// All settings are unchanged.
    Same,
    /// Some settings changed, all of which may change while the part runs.
    Other {
        /// New settings of the part.
        part: R,
        /// New settings that all parts have.
        telemetry: TelemetryConfig,
        /// Full names of the changed settings.
        changed: Vec<String>,
    },
    /// Names of changed settings that cannot change while the part runs.
    Fixed(Vec<String>),
    /// The sources have errors.
    Bad(ConfigErrors),
}

/// Settings with limits of clients.
pub trait Granting {
    /// Limits of each client.
    fn limits(&self) -> Limits;
}

/// A part whose settings can be read again.
pub trait Reload: Role + Clone + PartialEq {
    /// Names of the settings that differ: those that cannot change while the part runs, then the
    /// others.
    fn differences(&self, next: &Self) -> (Vec<&'static str>, Vec<&'static str>);
}

/// Reads the settings of a part again and compares them.
///
/// `part_now` and `telemetry_now` are the settings in force.
pub fn read_again<R: Reload>(
    part_now: &R,
    telemetry_now: &TelemetryConfig,
    sources: &Sources,
) -> Reread<R> {
    let (part, telemetry) = match load_all::<R>(sources) {
        Ok(read) => read,
        Err(errors) => return Reread::Bad(errors),
    };
    let named = |section: &str, names: Vec<&str>| {
        names.into_iter().map(|name| format!("{section}.{name}")).collect::<Vec<_>>()
    };
    let (fixed, free) = part_now.differences(&part);
    let (all_fixed, all_free) = telemetry_now.differences(&telemetry);
    let shared = TelemetryConfig::SECTION;
    let fixed = [named(R::SECTION, fixed), named(shared, all_fixed)].concat();
    let changed = [named(R::SECTION, free), named(shared, all_free)].concat();
    match (fixed.is_empty(), changed.is_empty()) {
        (false, _) => Reread::Fixed(fixed),
        (true, true) => Reread::Same,
        (true, false) => Reread::Other { part, telemetry, changed },
    }
}

/// Sorts every field of a type of settings, by its name or by the names it is written under; one
/// that is left out does not compile.
macro_rules! reload {
    ($type:ty, fixed: [$($fixed:ident $(as $name:literal)?),*], free: [$($free:ident $(as $other:literal)?),*]) => {
        impl Reload for $type {
            fn differences(&self, next: &Self) -> (Vec<&'static str>, Vec<&'static str>) {
                let Self { $($fixed,)* $($free),* } = next;
                let fixed: &[(bool, &'static str)] =
                    &[$((differ(&self.$fixed, $fixed), reload!(@ $fixed $($name)?))),*];
                let free: &[(bool, &'static str)] =
                    &[$((differ(&self.$free, $free), reload!(@ $free $($other)?))),*];
                (differing(fixed), differing(free))
            }
        }
    };
    (@ $field:ident) => { stringify!($field) };
    (@ $field:ident $name:literal) => { $name };
}

macro_rules! granting {
    ($($type:ty),*) => {
        $(impl Granting for $type {
            fn limits(&self) -> Limits {
                self.limits
            }
        })*
    };
}

granting!(TicConfig, RouterConfig, FabricConfig, OperatingAgentConfig, SwitchAgentConfig);

fn differ<T: PartialEq>(one: &T, other: &T) -> bool {
    one != other
}

fn differing(fields: &[(bool, &'static str)]) -> Vec<&'static str> {
    fields.iter().filter(|(differs, _)| *differs).map(|(_, name)| *name).collect()
}

reload!(
    TicConfig,
    fixed: [
        listen, certificates, advertise, store, leader_lease, route_lease, topology, colors, fault_tolerant, tables,
        aggregation_entries, aggregation_children, aggregation_parameters, damping as "flapping",
        job_shares
    ],
    free: [limits, watch as "report_timeout, adaptive, on_silence, on_report, on_ports_down, max_silent_percent, block_patience, probe_timeout or probe_attempts"]
);

reload!(
    RouterConfig,
    fixed: [
        listen, advertise, certificates, tic, switch_agents, engine, root_scope, fault_tolerant, stay_after_healing,
        root_policy, merge_policy, merge_partner, deadlock_free, colors, tables, recording_bytes,
        recording_folder, recording_folder_bytes
    ],
    free: [limits, counter_interval, drain, read_back, read_back_rate]
);

reload!(
    FabricConfig,
    fixed: [
        listen, certificates, topology, colors, tables, aggregation_entries, aggregation_children, management_key
    ],
    free: [limits]
);

reload!(
    OperatingAgentConfig,
    fixed: [
        listen, certificates, advertise, tic, fabric, nodes, socket, socket_mode, shared_memory, program_ranges,
        program_senders as "program_senders or program_sender_timeout", color_addresses, announce
    ],
    free: [
        limits, process_rules, report_interval,
        detector as "report_timeout, adaptive, on_silence, probe_timeout or probe_attempts"
    ]
);

reload!(
    SwitchAgentConfig,
    fixed: [
        listen, certificates, name, tic, hardware as "driver, fabric, management_key or infiniband", switches
    ],
    free: [limits, report_interval]
);

reload!(TelemetryConfig, fixed: [log_format, traces], free: [log, trace_share]);
