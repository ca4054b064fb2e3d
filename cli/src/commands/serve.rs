//! The long-running commands: everything at once (`up`), or one part with its settings.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow};
use fabricast_collectives::{Limits, Settings};
use fabricast_config::{
    FabricConfig, Hardware, OperatingAgentConfig, PeerAddress, RouterConfig, RoutingName, Sources,
    SwitchAgentConfig, TicConfig, load,
};
use fabricast_emulator::AggregationLimits;
use fabricast_operating::{LocalSocket, NodeSpec};
use fabricast_routing::{EngineOptions, mgid_space};
use fabricast_rpc::{BoundServer, CertificateFiles, Security};
use fabricast_switch::{Driver, EmulatedDriver, InfinibandDriver, InfinibandOptions, Routing};
use fabricast_telemetry::metrics::MetricsServer;
use fabricast_tic::TopologySource;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::args::{ServeArgs, UpArgs};
use crate::cluster::{Cluster, Layout, engine_options};
use crate::commands::collective;
use crate::failure::Failure;
use crate::output;
use crate::scene::build_failure;
use crate::source::Topology;

/// Runs all parts in this process until interrupted.
///
/// # Errors
///
/// What keeps a part from starting, or made it end.
pub(crate) fn up(args: &UpArgs) -> Result<(), Failure> {
    if !args.listen.ip().is_loopback() && !args.plaintext {
        let what = format!("--listen: {} can be reached from other machines", args.listen);
        return Err(
            Failure::input(what).hint("nothing is encrypted: give --plaintext to accept that")
        );
    }
    // The lines that begin and end a log are for services; here they would frame every refusal.
    let _telemetry = telemetry("fabricast", "info,fabricast_telemetry=warn")?;
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
pub(crate) fn tic(args: ServeArgs) -> Result<(), Failure> {
    let config = settings::<TicConfig>(args.config)?;
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
    let _telemetry = telemetry("fabricast-tic", "info")?;
    let mut options = fabricast_tic::Options::new(config.listen, config.store, topology);
    options.security = security;
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
        serve(("tic", app.address()), args.metrics, |stop| app.run(stop)).await
    })
}

/// Runs the route service alone.
///
/// # Errors
///
/// As [`tic`].
pub(crate) fn router(args: ServeArgs) -> Result<(), Failure> {
    let Some(config) = checked::<RouterConfig>(args.config, args.check_config)? else {
        return Ok(());
    };
    let security = security(config.certificates.as_deref(), config.limits)?;
    let _telemetry = telemetry("fabricast-router", "info")?;
    let engine_options = EngineOptions {
        root_scope: config.root_scope,
        fault_tolerant: config.fault_tolerant,
        stay_after_healing: config.stay_after_healing,
        root_policy: config.root_policy,
        ..EngineOptions::new(config.colors, config.tables)
    };
    let options = fabricast_router::Options {
        listen: config.listen,
        security,
        name: format!("router at {}", config.listen),
        advertise: config.advertise.map(|address| address.as_str().to_owned()),
        tic: addresses(&config.tic),
        switch_agents: addresses(&config.switch_agents),
        engine: config.engine,
        engine_options,
        drain: config.drain,
        read_back: config.read_back,
        read_back_rate: config.read_back_rate,
        counter_interval: config.counter_interval,
    };
    runtime()?.block_on(async {
        let app = fabricast_router::App::bind(options).context("start the route service")?;
        Box::pin(serve(("router", app.address()), args.metrics, |stop| app.run(stop))).await
    })
}

/// Runs the emulated fabric alone.
///
/// # Errors
///
/// As [`tic`].
pub(crate) fn fabric(
    config: PathBuf,
    check_config: bool,
    metrics: Option<SocketAddr>,
) -> Result<(), Failure> {
    let config = settings::<FabricConfig>(config)?;
    let topology = topology("fabric", &config.topology)?;
    if check_config {
        return Ok(());
    }
    let security = security(config.certificates.as_deref(), config.limits)?;
    let _telemetry = telemetry("fabricast-fabric", "info")?;
    let options = fabricast_fabric::Options {
        listen: config.listen,
        security,
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
        serve(("fabric", app.address()), metrics, |stop| app.run(stop)).await
    })
}

/// Runs operating agents alone.
///
/// # Errors
///
/// As [`tic`].
pub(crate) fn operating_agent(args: ServeArgs) -> Result<(), Failure> {
    let Some(config) = checked::<OperatingAgentConfig>(args.config, args.check_config)? else {
        return Ok(());
    };
    let security = security(config.certificates.as_deref(), config.limits)?;
    let _telemetry = telemetry("fabricast-operating-agent", "info")?;
    let nodes = config.nodes.into_iter();
    let options = fabricast_operating::Options {
        advertise: config.advertise.map(|address| address.as_str().to_owned()),
        listen: config.listen,
        security,
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
        serve(("operating-agent", app.address()), args.metrics, |stop| app.run(stop)).await
    })
}

/// Runs a switch agent alone.
///
/// # Errors
///
/// As [`tic`].
pub(crate) fn switch_agent(args: ServeArgs) -> Result<(), Failure> {
    let Some(config) = checked::<SwitchAgentConfig>(args.config, args.check_config)? else {
        return Ok(());
    };
    let security = security(config.certificates.as_deref(), config.limits)?;
    let _telemetry = telemetry("fabricast-switch-agent", "info")?;
    runtime()?.block_on(async {
        let discovery_interval = config.hardware.discovery_interval();
        let driver = driver(config.hardware, &security)?;
        let options = fabricast_switch::Options {
            listen: config.listen,
            security,
            name: config.name,
            tic: addresses(&config.tic),
            driver,
            switches: config.switches.unwrap_or_else(BTreeSet::new),
            report_interval: config.report_interval,
            discovery_interval,
        };
        let app = fabricast_switch::App::bind(options).context("start the switch agent")?;
        serve(("switch-agent", app.address()), args.metrics, |stop| app.run(stop)).await
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

/// Opens the hardware that a switch agent programs.
fn driver(hardware: Hardware, security: &Security) -> Result<Arc<dyn Driver>, Failure> {
    match hardware {
        Hardware::Emulated { fabric, management_key } => {
            let fabric = security.peer(fabric.as_str())?;
            Ok(Arc::new(EmulatedDriver::new(fabric, management_key.reveal())))
        }
        Hardware::Infiniband(config) => {
            let expected = config.topology.as_deref();
            let expected =
                expected.map(|file| topology("switch_agent.infiniband", file)).transpose()?;
            let options = InfinibandOptions {
                adapter: config.adapter,
                port: config.port,
                key: config.management_key,
                first_entry: config.first_entry,
                colors: config.colors,
                expected: expected.map(|topology| topology.graph),
                sweep: config.sweep,
                patience: (config.timeout, config.retries),
                routing: match config.routing {
                    RoutingName::Directed => Routing::Directed,
                    RoutingName::Lid => Routing::Lid,
                },
            };
            Ok(Arc::new(InfinibandDriver::open(options).context("open the InfiniBand port")?))
        }
    }
}

/// Reads the settings; `None` if they were only to be checked.
fn checked<R: fabricast_config::Role>(
    file: PathBuf,
    only_check: bool,
) -> Result<Option<R>, Failure> {
    let config = settings(file)?;
    Ok((!only_check).then_some(config))
}

fn settings<R: fabricast_config::Role>(file: PathBuf) -> Result<R, Failure> {
    load(&Sources::of_this_process(Some(file))).map_err(|errors| Failure::BadConfig(errors.into()))
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
async fn serve<E, F>(
    (role, address): (&'static str, SocketAddr),
    metrics: Option<SocketAddr>,
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
