//! Shared by the commands that run one part: arguments, settings, the wait for the end.

mod reload;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::Args;
use fabricast_rpc::{CertificateFiles, Security};
use fabricast_telemetry::metrics::MetricsServer;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::failure::Failure;
use crate::remote::run_to_end;
use crate::source::Topology;

pub(crate) use reload::ReloadableSettings;

/// Options of a part that runs alone.
#[derive(Debug, Args)]
pub(crate) struct PartArgs {
    /// Settings of the part, in TOML.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Check the settings and exit; 78 if they are wrong.
    #[arg(long)]
    pub(crate) check_config: bool,
    /// Address for GET /metrics, for Prometheus; default: none.
    #[arg(long, value_name = "IP:PORT")]
    pub(crate) metrics: Option<SocketAddr>,
}

/// A part that is bound to its address.
#[derive(Debug)]
pub(crate) struct Part {
    /// Role in logs and metrics, such as `switch-agent`.
    pub(crate) role: &'static str,
    /// Address at which the part answers.
    pub(crate) address: SocketAddr,
    /// Address for `GET /metrics`.
    pub(crate) metrics: Option<SocketAddr>,
}

impl Part {
    /// Runs the part until it is interrupted or ends by itself.
    ///
    /// - `following`: what reads its settings again meanwhile.
    pub(crate) async fn serve<E, F>(
        self,
        following: impl Future<Output = Result<Infallible, Failure>>,
        run: impl FnOnce(CancellationToken) -> F,
    ) -> Result<(), Failure>
    where
        E: std::error::Error + Send + Sync + 'static,
        F: Future<Output = Result<(), E>>,
    {
        let Self { role, address, metrics } = self;
        let _metrics = serve_metrics(metrics, role).await?;
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
}

/// Serves metrics until the value is dropped.
///
/// - `asked`: from `--metrics`; `None` for no metrics.
///
/// # Errors
///
/// The address cannot be bound.
pub(crate) async fn serve_metrics(
    asked: Option<SocketAddr>,
    role: &'static str,
) -> Result<Option<MetricsServer>, Failure> {
    let Some(asked) = asked else { return Ok(None) };
    let server = MetricsServer::start(asked, role).await.context("--metrics")?;
    info!(peer = %server.address(), "metrics are served");
    Ok(Some(server))
}

/// Reads the certificates of the part, if it has any.
pub(crate) fn security(
    folder: Option<&Path>,
    limits: fabricast_rpc::Limits,
) -> Result<Security, Failure> {
    let Some(folder) = folder else { return Ok(Security::plaintext().limited(limits)) };
    let security = Security::mutual(CertificateFiles::in_folder(folder));
    let security = security.map(|security| security.limited(limits));
    security.map_err(|error| Failure::BadConfig(anyhow!(error).context("certificates")))
}

/// Reads the topology that the settings of a part name; an invalid one is a settings error.
pub(crate) fn topology(section: &str, file: &Path) -> Result<Topology, Failure> {
    Topology::read(&file.display().to_string())
        .map_err(|failure| Failure::BadConfig(anyhow!("{section}.topology: {}", failure.message())))
}

pub(crate) fn init_log(
    service: &'static str,
    filter: &str,
) -> Result<fabricast_telemetry::Guard, Failure> {
    let format = fabricast_telemetry::Format::Text;
    Ok(fabricast_telemetry::init(service, format, filter).context("start logging")?)
}

/// Runs a part, or several, on all cores until they end.
///
/// # Errors
///
/// Those of the work, or that no runtime could be started.
pub(crate) fn block_on_threads<T>(
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("start the runtime")?;
    run_to_end(&runtime, work)
}

/// Waits for Ctrl-C or SIGTERM.
pub(crate) async fn interrupted() -> Result<(), Failure> {
    let mut terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    tokio::select! {
        pressed = tokio::signal::ctrl_c() => pressed.context("listen for Ctrl-C")?,
        _ = terminate.recv() => {}
    }
    Ok(())
}
