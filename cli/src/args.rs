//! Arguments that several commands take.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgGroup, Args, ValueEnum, value_parser};
use fabricast_routing::{EngineKind, MAX_COLORS, RootPolicy};

/// Output format of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Tables for people.
    Table,
    /// JSON for programs.
    Json,
    /// Nodes as Slurm writes them; verbs of `job`.
    #[value(hide = true)]
    Hostlist,
    /// Slurm's topology.conf; `topology export`.
    #[value(hide = true)]
    Slurm,
}

/// Addresses where a running control plane answers.
#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    /// Address of any part of the running control plane; with several TICs or route services on
    /// standby, all of their addresses, separated by commas. Default: those of the context, or
    /// 127.0.0.1:7400.
    #[arg(long, env = "FABRICAST_SERVER", value_name = "HOST:PORT,...")]
    pub(crate) server: Option<String>,
    /// Context to use, see `fabricast context`; default: the current one, unless --server is given.
    #[arg(long, env = "FABRICAST_CONTEXT", value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Folder with ca.crt, tls.crt and tls.key of the caller, if the control plane uses TLS.
    #[arg(long, env = "FABRICAST_CERTIFICATES", value_name = "DIR")]
    pub(crate) certificates: Option<PathBuf>,
    /// Allow unencrypted connections to other machines.
    #[arg(long, env = "FABRICAST_PLAINTEXT", conflicts_with = "certificates")]
    pub(crate) plaintext: bool,
}

/// Repetition of a command that shows a state.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct WatchArgs {
    /// Print again every 2 s until interrupted.
    #[arg(long, short)]
    pub(crate) watch: bool,
}

/// Token of a job, for its groups.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct JobTokenArgs {
    /// Token of the job that the groups belong to.
    #[arg(long, env = "FABRICAST_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    job_token: Option<String>,
}

impl JobTokenArgs {
    /// The token; empty without one.
    pub(crate) fn text(&self) -> String {
        self.job_token.clone().unwrap_or_default()
    }
}

/// Defines the arguments for a value that older versions take as an option; that one still works.
macro_rules! value_or_option {
    ($(#[$doc:meta])* struct $name:ident { $(#[$help:meta])* $long:literal: $value_name:literal }) => {
        $(#[$doc])*
        #[derive(Debug, clap::Args)]
        pub(crate) struct $name {
            $(#[$help])*
            #[arg(value_name = $value_name, required_unless_present = "named")]
            value: Option<String>,
            /// The same, as older versions take it.
            #[arg(long = $long, id = "named", value_name = $value_name, hide = true,
                conflicts_with = "value")]
            named: Option<String>,
        }

        impl $name {
            fn get(&self) -> &str {
                self.value.as_deref().or(self.named.as_deref()).unwrap_or_default()
            }
        }
    };
}
pub(crate) use value_or_option;

/// Numbers of colors that a fabric can have.
pub(crate) fn colors() -> clap::builder::RangedI64ValueParser<u16> {
    value_parser!(u16).range(1..=i64::from(MAX_COLORS))
}

/// The engines that can be asked for.
pub(crate) fn engine_kind() -> impl TypedValueParser<Value = EngineKind> {
    PossibleValuesParser::new(EngineKind::ALL.iter().map(|kind| kind.name()))
        .try_map(|name| name.parse::<EngineKind>())
}

/// The root policies that can be asked for.
pub(crate) fn root_policy() -> impl TypedValueParser<Value = RootPolicy> {
    PossibleValuesParser::new(RootPolicy::ALL.map(|policy| policy.name()))
        .try_map(|name| name.parse::<RootPolicy>())
}

/// Options for traces.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct TraceArgs {
    /// Send traces to this OTLP collector over gRPC, such as http://host:port; also set by
    /// FABRICAST_TELEMETRY__TRACES. The trace of a command covers its effects in all parts that
    /// write traces.
    #[arg(long, global = true, value_name = "URL", help_heading = "Traces")]
    pub(crate) traces: Option<String>,
    /// Print the id of the command's trace on standard error.
    #[arg(long, global = true, help_heading = "Traces")]
    pub(crate) trace_id: bool,
}

/// Table organisation: one table for each input port, or one for the whole switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Tables {
    /// Every input port has a table of its own.
    PerPort,
    /// One table serves the whole switch.
    PerSwitch,
}

/// Scope in which dynamic roots are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scope {
    /// In the top midplane of the spanning tree.
    Tn,
    /// In all top midplanes of its group; needs per-port tables.
    TnGroup,
}

/// MGID layers of a process grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Layers {
    /// Few and even layers.
    Compact,
    /// The construction of the paper's proof.
    Wide,
}

/// The groups that are routed.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("what").args(["groups", "pattern"]).requires("topology")))]
pub(crate) struct GroupArgs {
    /// Groups in JSON lines; members are endpoints, by name or GUID of the port.
    #[arg(long, value_name = "FILE")]
    pub(crate) groups: Option<PathBuf>,
    /// Generate groups instead: of a process grid such as `64x32x16` (one group per line and
    /// dimension), or random ones.
    #[arg(long, value_name = "XxY|XxYxZ|random:N:SEED", allow_hyphen_values = true)]
    pub(crate) pattern: Option<String>,
    /// Processes per endpoint of a pattern.
    #[arg(long, default_value_t = 1, conflicts_with = "groups", requires = "what",
        value_parser = value_parser!(u32).range(1..))]
    pub(crate) processes: u32,
    /// MGID layers of a pattern.
    #[arg(long, value_enum, default_value_t = Layers::Compact, conflicts_with = "groups",
        requires = "what")]
    pub(crate) layers: Layers,
}

/// The fabric and the groups of a plan that is made without a control plane.
#[derive(Debug, Args)]
pub(crate) struct OfflineGroupArgs {
    /// The topology: file as `ibnetdiscover` prints it, spec in TOML, or preset (see `topology
    /// list`).
    #[arg(long, value_name = "FILE|PRESET", requires = "what")]
    pub(crate) topology: String,
    #[command(flatten)]
    pub(crate) groups: GroupArgs,
}

/// Treatment of the trees of groups that are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Merging {
    /// They stay, and branches are added.
    Keep,
    /// One new tree is made for all.
    Rebuild,
}

/// Choice of the tree that a group is merged with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Partner {
    /// The trees in the way of a good tree, under the color where they have the fewest groups.
    FewestGroups,
    /// The nearest tree.
    Nearest,
    /// The trees in the way under the color that has the fewest groups in all.
    RarestColor,
}

/// The engine, its options, and the kind of tables.
#[derive(Debug, Args)]
pub(crate) struct EngineArgs {
    /// Routing engine.
    #[arg(id = "engine", long, default_value_t = EngineKind::CMr4lmsFixed,
        value_parser = engine_kind())]
    pub(crate) kind: EngineKind,
    /// Scope in which `c-mr4lms-dynamic` chooses roots; default: `tn-group` with per-port tables,
    /// else `tn`.
    #[arg(long, value_enum)]
    pub(crate) root_scope: Option<Scope>,
    /// Policy for choosing among equally good roots, not for `c-mr4lms-fixed`, `c-mr4lms-hybrid`
    /// and `global-tree`; default: the order of the engine. All policies but `cyclic` go by the
    /// load of ports.
    #[arg(long, value_parser = root_policy())]
    pub(crate) root_policy: Option<RootPolicy>,
    /// Treatment of the trees of groups that `mr4lms` merges; default: `keep`.
    #[arg(long, value_enum)]
    pub(crate) merge_policy: Option<Merging>,
    /// Trees that `mr4lms` merges a group with; default: `fewest-groups`.
    #[arg(long, value_enum)]
    pub(crate) merge_partner: Option<Partner>,
    /// Keep trees of `mr4lms` to an order of the switches, so that packets on them cannot deadlock
    /// a lossless fabric; default: on fabrics with levels, as fat trees have.
    #[arg(long, value_name = "true|false")]
    pub(crate) deadlock_free: Option<bool>,
    /// Table organisation: one table for each input port, or one for the whole switch.
    #[arg(long, value_enum, default_value_t = Tables::PerPort)]
    pub(crate) tables: Tables,
    /// Give every group two trees that share nothing above the leaf switches, so that packets
    /// survive any one failure there (engines of C-MR4LMS). Half as many groups fit without
    /// sharing.
    #[arg(long)]
    pub(crate) fault_tolerant: bool,
    /// Leave groups that a dead link has moved where they are when it is back (`c-mr4lms-fixed`).
    #[arg(long)]
    pub(crate) stay_after_healing: bool,
}

/// Work of MR4LMS, groups times ports of the fabric, in a millisecond of one core.
const WORK_PER_MS: u64 = 20_000;

/// Limit of a comparison of engines.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct CompareArgs {
    /// Always compare with all other engines.
    #[arg(long, requires = "topology")]
    compare: bool,
    /// Compare with the engines that are expected to take this long at most. The estimate is by the
    /// sizes of fabric and groups, the same on every machine.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration,
        default_value = "10s", conflicts_with = "compare", requires = "topology")]
    within: Duration,
}

impl CompareArgs {
    /// The work that MR4LMS may take.
    pub(crate) fn budget(self) -> u64 {
        let milliseconds = u64::try_from(self.within.as_millis()).unwrap_or(u64::MAX);
        if self.compare { u64::MAX } else { milliseconds.saturating_mul(WORK_PER_MS) }
    }
}

/// The engine of a plan that is made without a control plane.
#[derive(Debug, Args)]
#[command(group(
    ArgGroup::new("planning")
        .args([
            "engine",
            "root_scope",
            "root_policy",
            "merge_policy",
            "merge_partner",
            "deadlock_free",
            "tables",
            "fault_tolerant",
            "stay_after_healing",
        ])
        .multiple(true)
        .requires("topology")
))]
pub(crate) struct OfflineEngineArgs {
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    /// Port counters for `--root-policy`, as `switch show --counters --format json` prints them;
    /// all policies but `cyclic` need them.
    #[arg(long, value_name = "FILE", requires = "root_policy")]
    pub(crate) loads: Option<PathBuf>,
}
