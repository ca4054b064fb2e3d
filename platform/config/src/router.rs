//! Settings of the route service. The topology is not among them: it comes from the TIC.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use fabricast_routing::{
    EngineKind, EngineOptions, MergePartner, MergePolicy, RootPolicy, RootScope, refused_options,
};
use fabricast_rpc::Limits;
use fabricast_topology::TableKind;
use serde::{Deserialize, Deserializer};

use crate::addresses::Addresses;
use crate::limits::RawLimits;
use crate::load::Role;
use crate::ports;
use crate::problem::Problems;
use crate::value::{PeerAddress, check_calls, check_colors, check_connections, check_positive};

/// Least interval between two readings of port counters.
const LEAST_COUNTER_INTERVAL: Duration = Duration::from_millis(100);

/// Value of `engine` that selects the engine by topology.
const AUTO: &str = "auto";

/// Checked settings of the route service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouterConfig {
    /// Address to serve on.
    pub listen: SocketAddr,
    /// Address that other route services give to callers; `None` for `listen`.
    pub advertise: Option<PeerAddress>,
    /// Folder with the part's certificate; `None` for plain text.
    pub certificates: Option<PathBuf>,
    /// Limits of each client.
    pub limits: Limits,
    /// Addresses of all TICs that share a store.
    pub tic: Vec<PeerAddress>,
    /// Switch agents, at least one; each says itself which switches it programs.
    pub switch_agents: Vec<PeerAddress>,
    /// Routing engine; `None` to select it by topology.
    pub engine: Option<EngineKind>,
    /// Part of the fabric where `c-mr4lms-dynamic` looks for roots; `None` for the widest that the
    /// tables allow.
    pub root_scope: Option<RootScope>,
    /// If true, every group has two disjoint trees.
    pub fault_tolerant: bool,
    /// If true, groups that a failed link has moved stay on their new tree when it is back.
    pub stay_after_healing: bool,
    /// Policy among equally good roots; `None` for the order of the engine.
    pub root_policy: Option<RootPolicy>,
    /// Treatment of the trees of groups that `mr4lms` merges; `None` for its own default.
    pub merge_policy: Option<MergePolicy>,
    /// Tree that `mr4lms` merges a group with; `None` for its own default.
    pub merge_partner: Option<MergePartner>,
    /// If true, `mr4lms` makes no trees that can deadlock; `None` for its own default.
    pub deadlock_free: Option<bool>,
    /// Time between two readings of all port counters.
    pub counter_interval: Duration,
    /// Table entries that may be used, at least 1.
    pub colors: u16,
    /// One table for each switch, or one for each port.
    pub tables: TableKind,
    /// Time for which old entries are kept beside new ones; longer than the report interval of the
    /// operating agents.
    pub drain: Duration,
    /// Time in which every table is read back and compared once.
    pub read_back: Duration,
    /// Tables that are read back in a second at most; where there are more, it takes longer.
    pub read_back_rate: u32,
    /// Bytes that the recording of inputs may take in memory; 0 records nothing.
    pub recording_bytes: usize,
    /// Folder for files of the recording; `None` to write none.
    pub recording_folder: Option<PathBuf>,
    /// Bytes that these files may have; at least twice `recording_bytes` if there is a folder.
    pub recording_folder_bytes: u64,
}

impl RouterConfig {
    /// Tables of the switches, and options of the engine.
    #[must_use]
    pub fn engine_options(&self) -> EngineOptions {
        EngineOptions {
            colors: self.colors,
            tables: self.tables,
            root_scope: self.root_scope,
            fault_tolerant: self.fault_tolerant,
            stay_after_healing: self.stay_after_healing,
            root_policy: self.root_policy,
            merge_policy: self.merge_policy,
            merge_partner: self.merge_partner,
            deadlock_free: self.deadlock_free,
        }
    }
}

/// Section `[router]` as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawRouterConfig {
    /// Address to serve on; port 0 takes a free one. Default 127.0.0.1:7402: not reachable from
    /// other machines until someone decides so.
    pub listen: SocketAddr,
    /// Serve without encryption to other machines. Default false: only loopback is safe.
    pub allow_plaintext: bool,
    /// Address where callers reach this route service, `host:port`; others that wait for its term
    /// send theirs there. Default: `listen`, which another machine can use only if it is no
    /// loopback or unspecified address.
    pub advertise: Option<String>,
    /// Folder with `ca.crt` (authorities to believe), `tls.crt` and `tls.key` (the part's own), all
    /// in PEM, as cert-manager names them. Given, all connections are encrypted and both ends show
    /// who they are; left out, none.
    pub certificates: Option<PathBuf>,
    /// Limits of each client, as `[router.limits]`.
    pub limits: RawLimits,
    /// The TIC, `host:port`, or a list of all that share a store: the one that leads is found.
    /// Default 127.0.0.1:7401, the TIC's own default.
    pub tic: Addresses,
    /// The switch agents, each `host:port`. Default: one, at the switch agent's own default.
    pub switch_agents: Vec<String>,
    /// Routing engine: one of those that `route plan --help` lists, or `auto`.
    /// Default `auto`: the engine that has the options below, if only one has them
    /// (`c-mr4lms-dynamic` for `fault_tolerant` with a `root_policy`); else `c-mr4lms-fixed`, whose
    /// tables are a pure function of the groups, where the topology is a fat tree, and else, or
    /// with a `root_policy`, `mr4lms`.
    #[serde(deserialize_with = "engine")]
    pub engine: Option<EngineKind>,
    /// Part of the fabric where `c-mr4lms-dynamic` looks for roots: `tn`, in one top midplane, or
    /// `tn-group`, in all of its group, which needs per-port tables. Default: `tn-group` with
    /// per-port tables, because it merges fewer groups; `tn` with per-switch tables.
    pub root_scope: Option<RootScope>,
    /// Give every group two trees that share nothing above the leaf switches, so that no packet is
    /// lost when a link or switch there dies; the engines of C-MR4LMS only, and the TIC must be
    /// told the same. Default false: it halves the groups that can go without sharing trees.
    pub fault_tolerant: bool,
    /// Leave groups that a dead link has moved where they are when it is back, so that nothing is
    /// written again; `c-mr4lms-fixed` only. Default false: tables are a pure function of groups
    /// and dead parts, and a group that came back shares a tree with whom its MGID says.
    pub stay_after_healing: bool,
    /// Policy among equally good roots: `cyclic`, `llp`, `llp-ec-max`,
    /// `llp-ec-sum` or `hlse`; all but `cyclic` look at the load that port counters show. Not for
    /// `c-mr4lms-fixed`, `c-mr4lms-hybrid` and `global-tree`, which choose no roots by load.
    /// Default: none, the engine's own order, which counts groups and not bytes. A root that was
    /// chosen stays while it is as good as any other.
    #[serde(deserialize_with = "root_policy")]
    pub root_policy: Option<RootPolicy>,
    /// Treatment of the trees of groups that `mr4lms` merges: `keep` adds branches, `rebuild` makes
    /// one new tree for all. Default `keep`: fewer entries are written.
    pub merge_policy: Option<MergePolicy>,
    /// Trees that `mr4lms` merges a group with: `fewest-groups`, those in the way of a good tree,
    /// under the color where they have the fewest groups; `nearest`, the nearest tree; or
    /// `rarest-color`, what is in the way under the color with the fewest groups in all. Default
    /// `fewest-groups`: the fewest groups share a tree, and it takes the least time.
    pub merge_partner: Option<MergePartner>,
    /// Makes `mr4lms` keep its trees to an order of the switches, so that packets on them never
    /// wait for each other in a cycle, which on a lossless fabric can be a deadlock. Default: true
    /// on fabrics with levels, as fat trees have, where it costs little; elsewhere false, since
    /// trees crowd around one switch there.
    pub deadlock_free: Option<bool>,
    /// Time between two readings of all port counters; at least 100ms, so that agents have time for
    /// other work. Default 1s: loads are older than that anyway by the time a packet takes the
    /// tree.
    #[serde(with = "humantime_serde")]
    pub counter_interval: Duration,
    /// Table entries that may be used, 1 to 65535. Default 32: what the paper's switches have.
    pub colors: u16,
    /// `per-port` or `per-switch`. Default `per-port`, as the paper's switches.
    pub tables: TableKind,
    /// Time for which the old entries of a group that changes its color stay for senders that have
    /// not heard of it; what they send later is lost. Default 1s: hints reach them within the TIC's
    /// pause of 20ms, and who missed one learns it with a report, every 500ms by default; as much
    /// again is in reserve. With a longer report interval, lengthen this too.
    #[serde(with = "humantime_serde")]
    pub drain: Duration,
    /// Time in which every table is read back from its switch and compared once, a few at a time.
    /// Default 10s: a switch that lost its tables without anybody seeing it go down serves nobody
    /// until its turn comes.
    #[serde(with = "humantime_serde")]
    pub read_back: Duration,
    /// Tables that are read back in a second at most, at least 1; with more switches than fit into
    /// `read_back`, a round takes longer. Default 200: an InfiniBand table is about 100 packets,
    /// and one adapter sends 20000 a second.
    pub read_back_rate: u32,
    /// Bytes of memory for the recording of the latest inputs, which `fabricast debug bundle`
    /// fetches and `fabricast debug replay` plays; 0 records nothing. Default 67108864, some
    /// hundred thousand changes.
    pub recording_bytes: usize,
    /// Folder where the recording is written to files, too, so that it outlasts a crash; for this
    /// route service alone, and made if it is missing. While it cannot be used, the route service
    /// works without it, and its log says so. Default: none, no files are written, as the service
    /// has no folder of its own otherwise.
    pub recording_folder: Option<PathBuf>,
    /// Bytes that the files in `recording_folder` may have together, at least twice
    /// `recording_bytes`; the oldest ones are deleted. Default 1073741824, sixteen times what is in
    /// memory.
    pub recording_folder_bytes: u64,
}

fn engine<'de, D: Deserializer<'de>>(value: D) -> Result<Option<EngineKind>, D::Error> {
    let name = String::deserialize(value)?;
    if name == AUTO {
        return Ok(None);
    }
    name.parse().map(Some).map_err(|_| {
        let known: Vec<String> = EngineKind::ALL.iter().map(|kind| format!("`{kind}`")).collect();
        let known = format!("`{AUTO}`, {}", known.join(", "));
        serde::de::Error::custom(format!("unknown engine `{name}`, expected one of {known}"))
    })
}

fn root_policy<'de, D: Deserializer<'de>>(value: D) -> Result<Option<RootPolicy>, D::Error> {
    let name = String::deserialize(value)?;
    name.parse().map(Some).map_err(serde::de::Error::custom)
}

impl Default for RawRouterConfig {
    fn default() -> Self {
        Self {
            listen: ports::loopback(ports::ROUTER),
            allow_plaintext: false,
            advertise: None,
            certificates: None,
            limits: RawLimits::default(),
            tic: Addresses::from_iter([ports::local_peer(ports::TIC)]),
            switch_agents: vec![ports::local_peer(ports::SWITCH_AGENT)],
            engine: None,
            root_scope: None,
            fault_tolerant: false,
            stay_after_healing: false,
            root_policy: None,
            merge_policy: None,
            merge_partner: None,
            deadlock_free: None,
            counter_interval: Duration::from_secs(1),
            colors: 32,
            tables: TableKind::PerPort,
            drain: Duration::from_secs(1),
            read_back: Duration::from_secs(10),
            read_back_rate: 200,
            recording_bytes: 64 << 20,
            recording_folder: None,
            recording_folder_bytes: 1 << 30,
        }
    }
}

impl RawRouterConfig {
    /// Tables of the switches, and options of the engine.
    fn engine_options(&self) -> EngineOptions {
        EngineOptions {
            colors: self.colors,
            tables: self.tables,
            root_scope: self.root_scope,
            fault_tolerant: self.fault_tolerant,
            stay_after_healing: self.stay_after_healing,
            root_policy: self.root_policy,
            merge_policy: self.merge_policy,
            merge_partner: self.merge_partner,
            deadlock_free: self.deadlock_free,
        }
    }

    /// Refuses a folder for recordings that could not hold any.
    fn check_recording_folder(&self, problems: &mut Problems) {
        let Some(folder) = &self.recording_folder else { return };
        if folder.as_os_str().is_empty() {
            problems.add("recording_folder", "empty; expected the path of a folder");
        }
        if self.recording_bytes == 0 {
            problems.add("recording_folder", "nothing is recorded, as recording_bytes is 0");
        }
        let least = u64::try_from(self.recording_bytes).unwrap_or(u64::MAX).saturating_mul(2);
        if self.recording_folder_bytes < least {
            let what = format!("less than {least}, twice recording_bytes");
            problems.add("recording_folder_bytes", what);
        }
    }

    /// Refuses options that the engine does not have.
    fn check_engine(&self, problems: &mut Problems) {
        let options = self.engine_options();
        if let Some(engine) = self.engine {
            for error in refused_options(engine, &options) {
                problems.add(error.option(), error.to_string());
            }
        } else if let Some((engine, option)) = options.implied_engine() {
            for error in refused_options(engine, &options) {
                problems.add(error.option(), format!("{error}; `{option}` selects {engine}"));
            }
        }
    }
}

impl Role for RouterConfig {
    type Raw = RawRouterConfig;
    const SECTION: &'static str = "router";

    fn check(raw: RawRouterConfig, problems: &mut Problems) -> Option<Self> {
        raw.check_engine(problems);
        raw.check_recording_folder(problems);
        let certificates =
            check_connections(problems, raw.listen, raw.allow_plaintext, raw.certificates);
        let unasked = certificates.is_none() && !raw.allow_plaintext;
        let limits = raw.limits.check(problems);
        check_colors(problems, raw.colors);
        if raw.counter_interval < LEAST_COUNTER_INTERVAL {
            problems.add("counter_interval", "less than 100ms");
        }
        check_positive(problems, "read_back", raw.read_back);
        if raw.read_back_rate == 0 {
            problems.add("read_back_rate", "at least 1; what is never compared is never repaired");
        }
        if raw.switch_agents.is_empty() {
            problems.add("switch_agents", "empty; without an agent no switch can be programmed");
        }
        let advertise = raw.advertise.map(|text| PeerAddress::check(problems, "advertise", &text));
        let tic = raw.tic.check(problems, "tic");
        check_calls(problems, unasked, "tic", tic.iter().flatten());
        let mut switch_agents = Vec::new();
        for (index, agent) in raw.switch_agents.iter().enumerate() {
            let field = format!("switch_agents[{index}]");
            let agent = PeerAddress::check(problems, &field, agent);
            if agent.as_ref().is_some_and(|agent| switch_agents.contains(agent)) {
                problems.add(&field, "listed twice");
            }
            switch_agents.extend(agent);
        }
        check_calls(problems, unasked, "switch_agents", &switch_agents);
        Some(Self {
            listen: raw.listen,
            advertise: advertise.flatten(),
            certificates,
            limits,
            tic: tic?,
            switch_agents,
            engine: raw.engine,
            root_scope: raw.root_scope,
            fault_tolerant: raw.fault_tolerant,
            stay_after_healing: raw.stay_after_healing,
            root_policy: raw.root_policy,
            merge_policy: raw.merge_policy,
            merge_partner: raw.merge_partner,
            deadlock_free: raw.deadlock_free,
            counter_interval: raw.counter_interval,
            colors: raw.colors,
            tables: raw.tables,
            drain: raw.drain,
            read_back: raw.read_back,
            read_back_rate: raw.read_back_rate,
            recording_bytes: raw.recording_bytes,
            recording_folder: raw.recording_folder,
            recording_folder_bytes: raw.recording_folder_bytes,
        })
    }
}
