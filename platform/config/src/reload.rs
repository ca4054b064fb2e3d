//! Settings read again while a part runs.
//!
//! Some can change at any time: what is logged, which share of traces is kept, how fast something is done, how long is
//! waited. The others are what the part was built from. A file that differs in one of those is refused whole, so that
//! what runs is always one file, and never half of two (docs/adr/0025-settings-are-read-again-whole-or-not-at-all.md).
//!
//! Invariants
//! - CONFIG-2: what is read again is taken over whole or not at all.

use fabricast_rpc::Limits;

use crate::fabric::FabricConfig;
use crate::load::{Role, Sources, load_all};
use crate::operating_agent::OperatingAgentConfig;
use crate::problem::ConfigErrors;
use crate::router::RouterConfig;
use crate::switch_agent::SwitchAgentConfig;
use crate::telemetry::TelemetryConfig;
use crate::tic::TicConfig;

/// What came of reading settings again.
#[derive(Debug, PartialEq)]
pub enum Reread<R> {
    /// They are as they were.
    Same,
    /// They differ, in nothing that cannot change; the names of what does.
    Other {
        /// The settings of the part.
        part: R,
        /// Those that all parts have.
        telemetry: TelemetryConfig,
        /// Which differ.
        changed: Vec<String>,
    },
    /// These differ, and cannot change while the part runs.
    Fixed(Vec<String>),
    /// They are none.
    Bad(ConfigErrors),
}

/// A part that grants its clients something.
pub trait Granting {
    /// What it grants.
    fn limits(&self) -> Limits;
}

/// A part whose settings can be read again.
pub trait Reload: Role + Clone + PartialEq {
    /// Names of the settings that differ: those that cannot change while the part runs, then the others.
    fn differences(&self, next: &Self) -> (Vec<&'static str>, Vec<&'static str>);
}

/// Reads the settings of a part again, and says what that comes to.
///
/// - `now`: what is in force.
pub fn read_again<R: Reload>(now: &(R, TelemetryConfig), sources: &Sources) -> Reread<R> {
    let (part, telemetry) = match load_all::<R>(sources) {
        Ok(read) => read,
        Err(errors) => return Reread::Bad(errors),
    };
    let named = |section: &str, names: Vec<&str>| {
        names.into_iter().map(|name| format!("{section}.{name}")).collect::<Vec<_>>()
    };
    let (fixed, free) = now.0.differences(&part);
    let (all_fixed, all_free) = now.1.differences(&telemetry);
    let shared = TelemetryConfig::SECTION;
    let fixed = [named(R::SECTION, fixed), named(shared, all_fixed)].concat();
    let changed = [named(R::SECTION, free), named(shared, all_free)].concat();
    match (fixed.is_empty(), changed.is_empty()) {
        (false, _) => Reread::Fixed(fixed),
        (true, true) => Reread::Same,
        (true, false) => Reread::Other { part, telemetry, changed },
    }
}

/// Sorts every field of a type of settings, by its name or by the names it is written under; one that is left out does
/// not compile.
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
        aggregation_entries, aggregation_children, aggregation_parameters, damping as "flapping"
    ],
    free: [limits, watch as "report_timeout, adaptive, on_silence, on_report, on_ports_down, probe_timeout or probe_attempts"]
);

reload!(
    RouterConfig,
    fixed: [
        listen, advertise, certificates, tic, switch_agents, engine, root_scope, fault_tolerant, stay_after_healing,
        root_policy, colors, tables
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
    fixed: [listen, certificates, advertise, tic, fabric, nodes, socket, socket_mode, shared_memory],
    free: [
        limits, report_interval,
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
