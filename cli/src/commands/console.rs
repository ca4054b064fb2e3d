//! `fabricast console`: a control plane in a browser.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use fabricast_console::{App, Settings};
use fabricast_rpc::Security;
use tokio_util::sync::CancellationToken;

use crate::args::ServerArgs;
use crate::command::{Globals, Run};
use crate::failure::Failure;
use crate::output;
use crate::remote::{self, Remote, Role};
use crate::serve::{block_on_threads, interrupted};
use crate::source::read_text;
use crate::telemetry::{self, Telemetry};

/// Shortest token, in characters.
const MIN_TOKEN: usize = 16;

/// Show a running control plane in a browser: fabric, groups with their trees, tables, nodes,
/// health. It only reads.
#[derive(Debug, Args)]
pub(crate) struct ConsoleArgs {
    /// Address to listen at; port 0 takes a free one.
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:7480")]
    listen: SocketAddr,
    /// File with the token that viewers sign in with; needed unless --listen is of this machine and
    /// the control plane uses no certificates.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Another name that viewers call the console by, such as that of a proxy; may be repeated.
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// Allow --listen to be reachable from other machines, although pages and the token are not
    /// encrypted.
    #[arg(long)]
    unencrypted: bool,
    #[command(flatten)]
    server: ServerArgs,
}

impl Run for ConsoleArgs {
    fn run(self, globals: &Globals) -> Result<(), Failure> {
        let is_local = self.listen.ip().is_loopback();
        if !is_local && !self.unencrypted {
            let what = format!("--listen: {} can be reached from other machines", self.listen);
            return Err(Failure::input(what).hint(
                "pages are not encrypted: listen at 127.0.0.1 behind `ssh -L` or a proxy with TLS, \
                 or give --unencrypted to accept that",
            ));
        }
        let context = Remote::context(&self.server)?;
        if self.token_file.is_none() && (!is_local || context.certificates.is_some()) {
            let failure =
                Failure::input("without --token-file everybody who reaches it could read");
            return Err(failure.hint("`openssl rand -hex 32 > token` makes one"));
        }
        let token = self.token_file.as_deref().map(token).transpose()?;
        let security = remote::security(context.certificates.as_deref(), context.plaintext)?;
        let mut settings = telemetry::settings(&globals.trace)?;
        settings.log.push_str(",fabricast_telemetry=warn");
        let _telemetry = Telemetry::begin("console", &settings)?;
        let Self { listen, host: hosts, .. } = self;
        block_on_threads(async {
            let remote = Remote::of_context(&context, security.clone())?;
            // While nothing answers, the servers that were named stand for both.
            let found = |parts: Result<_, Failure>| parts.unwrap_or(context.server.clone());
            let tics = found(remote.parts(Role::Tic).await);
            let routers = found(remote.parts(Role::Router).await);
            let settings = Settings { listen, tics, routers, security, hosts, token };
            let app = bind(settings).await?;
            output::notice(&format!("fabricast: console at http://{}", app.address()));
            let stop = CancellationToken::new();
            tokio::select! {
                stopped = interrupted() => stopped,
                ended = app.run(stop) => match ended { Ok(()) => Ok(()) },
            }
        })
    }
}

/// Binds the console that `up` has, which shows what answers at an address of this machine.
///
/// # Errors
///
/// The address is taken.
pub(super) async fn beside(listen: SocketAddr, server: SocketAddr) -> Result<App, Failure> {
    let tics = vec![server.to_string()];
    let (routers, security) = (tics.clone(), Security::plaintext());
    bind(Settings { listen, tics, routers, security, hosts: Vec::new(), token: None }).await
}

async fn bind(settings: Settings) -> Result<App, Failure> {
    let bound = App::bind(settings).await.context("start the console")?;
    Ok(bound)
}

fn token(path: &Path) -> Result<String, Failure> {
    let text = read_text(path)?;
    let token = text.trim();
    if token.chars().count() < MIN_TOKEN {
        let what =
            format!("--token-file: '{}' has less than {MIN_TOKEN} characters", path.display());
        return Err(Failure::input(what).hint("`openssl rand -hex 32 > token` makes one"));
    }
    Ok(token.to_owned())
}
