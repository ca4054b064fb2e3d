//! The long-running commands: everything at once (`up`), or one part with its settings.

mod hardware;
mod live;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, anyhow};
use fabricast_collectives::{Limits, Settings};
use fabricast_config::{
    FabricConfig, OperatingAgentConfig, PeerAddress, RouterConfig, SwitchAgentConfig, TicConfig,
};
use fabricast_emulator::AggregationLimits;
use fabricast_operating::{LocalSocket, NodeSpec};
use fabricast_routing::{EngineOptions, mgid_space};
use fabricast_rpc::{BoundServer, CertificateFiles, Security};
use fabricast_telemetry::metrics::MetricsServer;
use fabricast_tic::TopologySource;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::args::{ServeArgs, TraceArgs, UpArgs};
use crate::cluster::{Cluster, Layout, engine_options};
use crate::commands::collective;
use crate::failure::Failure;
use crate::output;
use crate::scene::build_failure;
use crate::source::Topology;
use crate::voice::{self, Voice};

use hardware::driver;
use live::Live;

/// Runs all parts in this process until interrupted.
///
/// # Errors
///
/// What keeps a part from starting, or made it end.
pub(crate) fn up(args: &UpArgs, traces: &TraceArgs) -> Result<(), Failure> {
    if !args.listen.ip().is_loopback() && !args.plaintext {
        let what = format!("--listen: {} can be reached from other machines", args.listen);
        return Err(
            Failure::input(what).hint("nothing is encrypted: give --plaintext to accept that")
        );
    }
    let mut settings = voice::settings(traces)?;
    // The lines that begin and end a log are for services; here they would frame every refusal.
    settings.log.push_str(",fabricast_telemetry=warn");
    let _voice = Voice::begin("fabricast", &settings)?;
    let topology = Topology::read(args.topology.as_deref().unwrap_or("cluster"))?;
    let fat_tree = if args.engine.needs_fat_tree() { Some(topology.fat_tree()?) } else { None };
    let options = engine_options(args.engine, args.colors, args.fault_tolerant, fat_tree.as_ref())?;
    let options = EngineOptions { root_policy: args.root_policy, ..options };
    mgid_space(args.engine, fat_tree.as_ref(), options).map_err(build_failure)?;
    let (engine, store) = (args.engine, args.store.clone());
    let socket = args.socket.clone();
    let layout = Layout {
        topology,
        engine,
        options,
        store,
        agent_hosts: 1,
        switch_agents: 1,
        socket,
        strict: true,
    };
    runtime()?.block_on(async {
        // First of all, so that a port in use stops everything before it has begun.
        let front = BoundServer::bind(args.listen).map_err(|error| {
            Failure::from(error).hint("--listen names another address, port 0 takes a free one")
        })?;
        let address = front.address();
        let cluster = Cluster::start(layout).await?;
        cluster.serve_at(front).await;
        output::say(&format!(
            "fabricast: all services at {address} ({} nodes); parts: tic {}, router {}, fabric {}, \
             switch agent {}, operating agents {}",
            cluster.node_count(),
            cluster.tic,
            cluster.router,
            cluster.fabric,
            listed(&cluster.switch_agents),
            listed(&cluster.operating),
        ));
        let ended = tokio::select! {
            stopped = interrupted() => stopped,
            failed = cluster.failed() => Err(failed),
        };
        cluster.stop().await;
        ended
    })
}

fn listed(addresses: &[SocketAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// Runs the topology information center alone.
///
/// # Errors
///
/// Bad settings, or what keeps it from running.
pub(crate) fn tic(args: ServeArgs, traces: &TraceArgs) -> Result<(), Failure> {
    let live = Live::<TicConfig>::read(&args, traces)?;
    let config = live.part();
    let topology = match &config.topology {
        Some(file) => {
            let topology = topology("tic", file)?;
            TopologySource::File(topology.text, topology.graph)
        }
        None => TopologySource::Discovered,
    };
    let parameters = collective::parameters(config.aggregation_parameters.as_deref());
    let parameters = parameters.map_err(|failure| {
        Failure::BadConfig(anyhow!("tic.aggregation_parameters: {}", failure.message()))
    })?;
    if args.check_config {
        return Ok(());
    }
    let security = security(config.certificates.as_deref(), config.limits)?;
    let voice = live.voice("fabricast-tic")?;
    let mut options = fabricast_tic::Options::new(config.listen, config.store, topology);
    options.security = security.clone();
    options.advertise = config.advertise.map(|address| address.as_str().to_owned());
    options.leader_lease = config.leader_lease;
    options.route_lease = config.route_lease;
    options.colors = config.colors;
    options.fault_tolerant = config.fault_tolerant;
    options.tables = config.tables;
    options.watch = config.watch;
    options.limits.damping = config.damping;
    let children = config.aggregation_children;
    options.collectives = Settings {
        entries: config.aggregation_entries,
        limits: Limits {
            adapter_children: children,
            switch_children: children,
            ..Limits::default()
        },
        parameters,
        ..Settings::default()
    };
    runtime()?.block_on(async {
        let app = fabricast_tic::App::bind(options).await.context("start the TIC")?;
        let settings = app.settings();
        let following = live.follow((&voice, &security), |config| settings.set_watch(config.watch));
        let part = ("tic", app.address());
        Box::pin(serve(part, args.metrics, following, |stop| app.run(stop))).await
    })
}

/// Runs the route service alone.
///
/// # Errors
///
/// As [`tic`].
pub(crate) fn router(args: ServeArgs, traces: &TraceArgs) -> Result<(), Failure> {
    let live = Live::<RouterConfig>::read(&args, traces)?;
    let config = live.part();
    if args.check_config {
        return Ok(());
    }
    let security = security(config.certificates.as_deref(), config.limits)?;
    let voice = live.voice("fabricast-router")?;
    let engine_options = EngineOptions {
        root_scope: config.root_scope,
        fault_tolerant: config.fault_tolerant,
        stay_after_healing: config.stay_after_healing,
        root_policy: config.root_policy,
        ..EngineOptions::new(config.colors, config.tables)
    };
    let options = fabricast_router::Options {
        listen: config.listen,
        security: security.clone(),
        name: format!("router at {}", config.listen),
        advertise: config.advertise.as_ref().map(|address| address.as_str().to_owned()),
        tic: addresses(&config.tic),
        switch_agents: addresses(&config.switch_agents),
        engine: config.engine,
        engine_options,
        pacing: pacing(&config),
    };
    runtime()?.block_on(async {
        let app = fabricast_router::App::bind(options).context("start the route service")?;
        let settings = app.settings();
        let following =
            live.follow((&voice, &security), |config| settings.set_pacing(pacing(config)));
        let part = ("router", app.address());
        Box::pin(serve(part, args.metrics, following, |stop| app.run(stop))).await
    })
}

/// How fast the route service is to go.
fn pacing(config: &RouterConfig) -> fabricast_router::Pacing {
    fabricast_router::Pacing {
        drain: config.drain,
        read_back: config.read_back,
        read_back_rate: config.read_back_rate,
        counter_interval: config.counter_interval,
    }
}

/// Runs the emulated fabric alone.
///
/// # Errors
///
/// As [`tic`].
pub(crate) fn fabric(args: ServeArgs, traces: &TraceArgs) -> Result<(), Failure> {
    let live = Live::<FabricConfig>::read(&args, traces)?;
    let config = live.part();
    let topology = topology("fabric", &config.topology)?;
    if args.check_config {
        return Ok(());
    }
    let security = security(config.certificates.as_deref(), config.limits)?;
    let voice = live.voice("fabricast-fabric")?;
    let options = fabricast_fabric::Options {
        listen: config.listen,
        security: security.clone(),
        graph: topology.graph,
        tables: config.tables,
        colors: config.colors,
        aggregation: AggregationLimits {
            entries: config.aggregation_entries,
            children: config.aggregation_children,
        },
        management_key: config.management_key.reveal().to_owned(),
        queue: fabricast_fabric::DEFAULT_QUEUE,
    };
    runtime()?.block_on(async {
        let app = fabricast_fabric::App::bind(options).context("start the emulated fabric")?;
        let following = live.follow((&voice, &security), |_config| {});
        serve(("fabric", app.address()), args.metrics, following, |stop| app.run(stop)).await
    })
}

/// Runs operating agents alone.
///
/// # Errors
///
/// As [`tic`].
pub(crate) fn operating_agent(args: ServeArgs, traces: &TraceArgs) -> Result<(), Failure> {
    let live = Live::<OperatingAgentConfig>::read(&args, traces)?;
    let config = live.part();
    if args.check_config {
        return Ok(());
    }
    let security = security(config.certificates.as_deref(), config.limits)?;
    let voice = live.voice("fabricast-operating-agent")?;
    let nodes = config.nodes.into_iter();
    let options = fabricast_operating::Options {
        advertise: config.advertise.map(|address| address.as_str().to_owned()),
        listen: config.listen,
        security: security.clone(),
        tic: addresses(&config.tic),
        fabric: config.fabric.as_str().to_owned(),
        nodes: nodes.map(|node| NodeSpec { name: node.name, endpoints: node.endpoints }).collect(),
        socket: config.socket.map(|path| LocalSocket {
            path,
            mode: config.socket_mode,
            memory: config.shared_memory,
        }),
        report_interval: config.report_interval,
        detector: config.detector,
    };
    runtime()?.block_on(async {
        let app = fabricast_operating::App::bind(options).context("start the operating agent")?;
        let settings = app.settings();
        let following = live.follow((&voice, &security), |config| {
            let OperatingAgentConfig { report_interval, detector, .. } = *config;
            settings.set_pacing(fabricast_operating::Pacing { report_interval, detector });
        });
        let part = ("operating-agent", app.address());
        Box::pin(serve(part, args.metrics, following, |stop| app.run(stop))).await
    })
}

/// Runs a switch agent alone.
///
/// # Errors
///
/// As [`tic`].
pub(crate) fn switch_agent(args: ServeArgs, traces: &TraceArgs) -> Result<(), Failure> {
    let live = Live::<SwitchAgentConfig>::read(&args, traces)?;
    let config = live.part();
    if args.check_config {
        return Ok(());
    }
    let security = security(config.certificates.as_deref(), config.limits)?;
    let voice = live.voice("fabricast-switch-agent")?;
    runtime()?.block_on(async {
        let discovery_interval = config.hardware.discovery_interval();
        let driver = driver(config.hardware, &security)?;
        let options = fabricast_switch::Options {
            listen: config.listen,
            security: security.clone(),
            name: config.name,
            tic: addresses(&config.tic),
            driver,
            switches: config.switches.unwrap_or_else(BTreeSet::new),
            report_interval: config.report_interval,
            discovery_interval,
        };
        let app = fabricast_switch::App::bind(options).context("start the switch agent")?;
        let settings = app.settings();
        let following = live.follow((&voice, &security), |config| {
            settings.set_report_interval(config.report_interval)
        });
        let part = ("switch-agent", app.address());
        Box::pin(serve(part, args.metrics, following, |stop| app.run(stop))).await
    })
}

fn addresses(peers: &[PeerAddress]) -> Vec<String> {
    peers.iter().map(|peer| peer.as_str().to_owned()).collect()
}

/// Reads the part's certificates, if it has any.
fn security(folder: Option<&Path>, limits: fabricast_rpc::Limits) -> Result<Security, Failure> {
    let Some(folder) = folder else { return Ok(Security::plaintext().limited(limits)) };
    let security = Security::mutual(CertificateFiles::in_folder(folder));
    let security = security.map(|security| security.limited(limits));
    security.map_err(|error| Failure::BadConfig(anyhow!(error).context("certificates")))
}

/// Reads the topology that the settings of a part name; a bad one is a bad setting.
fn topology(section: &str, file: &Path) -> Result<Topology, Failure> {
    Topology::read(&file.display().to_string())
        .map_err(|failure| Failure::BadConfig(anyhow!("{section}.topology: {}", failure.message())))
}

pub(crate) fn telemetry(
    service: &'static str,
    filter: &str,
) -> Result<fabricast_telemetry::Guard, Failure> {
    let format = fabricast_telemetry::Format::Text;
    Ok(fabricast_telemetry::init(service, format, filter).context("start logging")?)
}

pub(crate) fn runtime() -> Result<Runtime, Failure> {
    Ok(tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("start the runtime")?)
}

/// Runs one part until it is interrupted or ends by itself.
///
/// - `following`: what reads its settings again meanwhile.
async fn serve<E, F>(
    (role, address): (&'static str, SocketAddr),
    metrics: Option<SocketAddr>,
    following: impl Future<Output = Result<Infallible, Failure>>,
    run: impl FnOnce(CancellationToken) -> F,
) -> Result<(), Failure>
where
    E: std::error::Error + Send + Sync + 'static,
    F: Future<Output = Result<(), E>>,
{
    let _metrics = match metrics {
        Some(asked) => {
            let server = MetricsServer::start(asked, role).await.context("--metrics")?;
            info!(peer = %server.address(), "metrics are served");
            Some(server)
        }
        None => None,
    };
    info!(peer = %address, "{role} serves");
    let stop = CancellationToken::new();
    let running = run(stop.clone());
    tokio::pin!(running);
    tokio::select! {
        ended = &mut running => return Ok(ended.context(role)?),
        stopped = interrupted() => stopped?,
        followed = following => match followed? {},
    }
    stop.cancel();
    Ok(running.await.context(role)?)
}

/// Waits for Ctrl-C or SIGTERM.
async fn interrupted() -> Result<(), Failure> {
    let mut terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    tokio::select! {
        pressed = tokio::signal::ctrl_c() => pressed.context("listen for Ctrl-C")?,
        _ = terminate.recv() => {}
    }
    Ok(())
}
