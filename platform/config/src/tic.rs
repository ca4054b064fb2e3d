//! Settings of the TIC.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fabricast_groups::flaps::FlapDamping;
use fabricast_groups::watch::WatchConfig;
use fabricast_rpc::Limits;
use fabricast_store::StoreLocation;
use fabricast_topology::TableKind;
use serde::Deserialize;

use crate::detection::{Expel, RawAdaptive, RawDetection, RawFlapping};
use crate::job_shares::RawJobShares;
use crate::limits::RawLimits;
use crate::load::Role;
use crate::ports;
use crate::problem::Problems;
use crate::value::{
    PeerAddress, check_aggregation, check_colors, check_connections, check_path, check_positive,
    check_store,
};

/// Checked settings of the TIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TicConfig {
    /// Address to serve on.
    pub listen: SocketAddr,
    /// Folder with the part's certificate; `None` for plain text.
    pub certificates: Option<PathBuf>,
    /// Limits of each client.
    pub limits: Limits,
    /// Address that others use when this TIC leads; `None` for `listen`.
    pub advertise: Option<PeerAddress>,
    /// Store of groups, members and nodes.
    pub store: StoreLocation,
    /// A leader that the store has not heard of for this time is replaced, where several TICs share
    /// it.
    pub leader_lease: Duration,
    /// A route service that has not been heard of for this time is replaced, where another one
    /// waits.
    pub route_lease: Duration,
    /// Topology file, which the route service downloads from the TIC; `None` if switch agents
    /// discover it.
    pub topology: Option<PathBuf>,
    /// Table entries that groups may use, at least 1; MGIDs are chosen by it.
    pub colors: u16,
    /// If true, the route service gives every group two trees; the choice of MGIDs depends on it.
    pub fault_tolerant: bool,
    /// One table for each switch, or one for each port.
    pub tables: TableKind,
    /// Entries of a switch's aggregation engine, at least 1.
    pub aggregation_entries: u16,
    /// Children of such an entry, at least 3.
    pub aggregation_children: u32,
    /// File with the constants that trees of collectives are compared by; `None` for the paper's,
    /// and for stated defaults where these have none.
    pub aggregation_parameters: Option<PathBuf>,
    /// Times after which a node is probed, and expelled.
    pub watch: WatchConfig,
    /// Damping of nodes that come and go.
    pub damping: FlapDamping,
    /// Limits on the groups that jobs may reserve.
    pub job_shares: RawJobShares,
}

/// Section `[tic]` as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawTicConfig {
    /// Address to serve on; port 0 takes a free one. Default 127.0.0.1:7401: not reachable from
    /// other machines until someone decides so.
    pub listen: SocketAddr,
    /// Serve without encryption to other machines. Default false: only loopback is safe.
    pub allow_plaintext: bool,
    /// Folder with `ca.crt` (authorities to believe), `tls.crt` and `tls.key` (the part's own), all
    /// in PEM, as cert-manager names them. Given, all connections are encrypted and both ends show
    /// who they are; left out, none.
    pub certificates: Option<PathBuf>,
    /// Limits of each client, as `[tic.limits]`.
    pub limits: RawLimits,
    /// Address that others use when this TIC leads, `host:port`. Default: the address it
    /// listens at, which will not do if that is of all interfaces.
    pub advertise: Option<String>,
    /// `memory`, the path of the store's file, or `etcd://host:port,.../prefix`, which several TICs
    /// may share: then one of them leads. `?certificates=FOLDER` after it encrypts the connections,
    /// with `ca.crt`, `tls.crt` and `tls.key` of that folder; without it, `?plaintext` must say so
    /// of an etcd on other machines. No default: records that vanish with the process must be a
    /// choice.
    pub store: Option<String>,
    /// A leader that the store has not heard of for this time is replaced; whole seconds, at least
    /// 2s, as etcd grants nothing shorter. Default 5s: an etcd that elects a leader of its own,
    /// which takes it a second or two, deposes nobody.
    #[serde(with = "humantime_serde")]
    pub leader_lease: Duration,
    /// A route service that has not been heard of for this time is replaced, where another one
    /// waits. It says that it is there three times as often. Default 2s: switches go on forwarding
    /// meanwhile.
    #[serde(with = "humantime_serde")]
    pub route_lease: Duration,
    /// Topology file, as `ibnetdiscover` prints it; or `discovered`, if switch agents report what
    /// they find (with InfiniBand `report_topology`, with OpenFlow no `topology` of their own). No
    /// default: there is no usual network.
    pub topology: Option<PathBuf>,
    /// Table entries that groups may use, 1 to 65535. Default 32: what the paper's switches have.
    pub colors: u16,
    /// Must be set if the route service gives every group two trees. Default false, as there.
    pub fault_tolerant: bool,
    /// `per-port` or `per-switch`. Default `per-port`, as the paper's switches.
    pub tables: TableKind,
    /// Entries of a switch's aggregation engine, at least 1. Default 16: what the paper's switches
    /// have.
    pub aggregation_entries: u16,
    /// Children of such an entry, at least 3. Default 64: the most the paper measured.
    pub aggregation_children: u32,
    /// File with the constants that trees of collectives are compared by, as `fabricast collective
    /// fit` writes it, with times per byte of more than 0. Left out: the paper's, by which switch
    /// trees are faster for all sizes. Adapter trees are chosen by the constants that `fabricast
    /// collective fit --live` has measured, else by these, else by the paper's with stated times
    /// per byte.
    pub aggregation_parameters: Option<PathBuf>,
    /// A host of group agents that has not reported for this time has failed, or is asked. Default
    /// 2s: four reports of an operating agent at its default interval, so that one lost report or a
    /// pause of a second expels nobody.
    #[serde(with = "humantime_serde")]
    pub report_timeout: Duration,
    /// Adaptive timeouts of reports, as `[tic.adaptive]`. Default: none.
    pub adaptive: Option<RawAdaptive>,
    /// `probe` or `expel` a host whose report is overdue. Default `probe`: a slow node is no dead
    /// one.
    pub on_silence: Expel,
    /// `probe` or `expel` a member's node that a group agent cannot reach. Default `probe`: the
    /// agent knows only that the way from its own node is cut.
    pub on_report: Expel,
    /// `probe` or `expel` a node all of whose ports are down. Default `probe`: one that answers
    /// over the management network keeps its memberships, so a cable may be changed.
    pub on_ports_down: Expel,
    /// No node is expelled while more than this percentage of the nodes is silent, 1 to 100; 100
    /// expels whatever their number. Default 55, as in Kubernetes' node controller: the TIC
    /// is more likely cut off itself than so many have failed at once. With `on_silence = "expel"`
    /// the first ones are expelled before that is seen.
    pub max_silent_percent: u8,
    /// The same for the nodes at one leaf switch, but only for this time, since they may well be
    /// dead together: when more than `max_silent_percent` of those known there, and at least three,
    /// are silent at once, they are expelled this much later. Default 10s: longer than a switch of
    /// the management network needs to start its ports again. 0s expels them like any other.
    #[serde(with = "humantime_serde")]
    pub block_patience: Duration,
    /// Damping of nodes that come and go, as `[tic.flapping]`.
    pub flapping: RawFlapping,
    /// Groups that jobs may reserve, as `[tic.job_shares]`.
    pub job_shares: RawJobShares,
    /// Timeout of one probe. Default 500ms: a thousand times a round trip
    /// in a cluster, so only the dead miss it.
    #[serde(with = "humantime_serde")]
    pub probe_timeout: Duration,
    /// Probes without an answer, one after the other, that are a verdict; at least 1. Default 2:
    /// one lost message expels nobody.
    pub probe_attempts: u32,
}

impl Default for RawTicConfig {
    fn default() -> Self {
        Self {
            listen: ports::loopback(ports::TIC),
            allow_plaintext: false,
            certificates: None,
            limits: RawLimits::default(),
            advertise: None,
            store: None,
            leader_lease: Duration::from_secs(5),
            route_lease: Duration::from_secs(2),
            topology: None,
            colors: 32,
            fault_tolerant: false,
            tables: TableKind::PerPort,
            aggregation_entries: 16,
            aggregation_children: 64,
            aggregation_parameters: None,
            report_timeout: Duration::from_secs(2),
            adaptive: None,
            on_silence: Expel::Probe,
            on_report: Expel::Probe,
            on_ports_down: Expel::Probe,
            max_silent_percent: 55,
            block_patience: Duration::from_secs(10),
            flapping: RawFlapping::default(),
            job_shares: RawJobShares::default(),
            probe_timeout: Duration::from_millis(500),
            probe_attempts: 2,
        }
    }
}

impl Role for TicConfig {
    type Raw = RawTicConfig;
    const SECTION: &'static str = "tic";

    fn check(raw: RawTicConfig, problems: &mut Problems) -> Option<Self> {
        let certificates =
            check_connections(problems, raw.listen, raw.allow_plaintext, raw.certificates);
        let limits = raw.limits.check(problems);
        check_colors(problems, raw.colors);
        check_aggregation(problems, raw.aggregation_entries, raw.aggregation_children);
        check_positive(problems, "route_lease", raw.route_lease);
        if raw.leader_lease < Duration::from_secs(2) || raw.leader_lease.subsec_nanos() > 0 {
            let given = raw.leader_lease;
            problems.add("leader_lease", format!("{given:?} is not whole seconds, at least 2s"));
        }
        let store = check_store(problems, "store", raw.store);
        let advertise = raw.advertise.map(|text| PeerAddress::check(problems, "advertise", &text));
        let is_shared = store.as_ref().is_some_and(StoreLocation::is_shared);
        if raw.listen.ip().is_unspecified() && is_shared && advertise.is_none() {
            let why = "missing; nobody can call a TIC at an address of all interfaces";
            problems.add("advertise", why);
        }
        if !(1..=100).contains(&raw.max_silent_percent) {
            let what = format!("{} is not from 1 to 100", raw.max_silent_percent);
            problems.add("max_silent_percent", what);
        }
        let topology = check_path(problems, "topology", raw.topology);
        let detection = RawDetection {
            report_timeout: raw.report_timeout,
            adaptive: raw.adaptive,
            on_silence: raw.on_silence,
            probe_timeout: raw.probe_timeout,
            probe_attempts: raw.probe_attempts,
        };
        let detector = detection.check(problems);
        let damping = raw.flapping.check(problems);
        let (on_report, on_ports_down) = (raw.on_report.into(), raw.on_ports_down.into());
        Some(Self {
            listen: raw.listen,
            certificates,
            limits,
            advertise: advertise.flatten(),
            store: store?,
            leader_lease: raw.leader_lease,
            route_lease: raw.route_lease,
            topology: topology.map(|path| (path != Path::new("discovered")).then_some(path))?,
            colors: raw.colors,
            fault_tolerant: raw.fault_tolerant,
            tables: raw.tables,
            aggregation_entries: raw.aggregation_entries,
            aggregation_children: raw.aggregation_children,
            aggregation_parameters: raw.aggregation_parameters,
            watch: WatchConfig {
                detector: detector?,
                on_report,
                on_ports_down,
                max_silent_percent: raw.max_silent_percent,
                block_patience: raw.block_patience,
            },
            damping,
            job_shares: raw.job_shares,
        })
    }
}
