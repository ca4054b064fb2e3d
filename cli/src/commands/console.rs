//! `fabricast console`: a control plane in a browser.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use fabricast_console::{App, Level, Settings, Token};
use fabricast_rpc::{BrowserTls, Security};
use tokio_util::sync::CancellationToken;

use crate::args::ServerArgs;
use crate::command::{Globals, Run};
use crate::failure::Failure;
use crate::output;
use crate::remote::{self, Remote, Role};
use crate::secrets::{random, random_token};
use crate::serve::{block_on_threads, interrupted};
use crate::source::read_text;
use crate::telemetry::{self, Telemetry};

/// Shortest token, in characters.
const MIN_TOKEN: usize = 16;
/// Name of the viewer who shows the only token of a file without names.
const VIEWER: &str = "viewer";

/// Show a running control plane in a browser: fabric, groups with their trees, tables, jobs, nodes,
/// health. A certificate of a reader is enough. Administrators may fail and heal parts of the
/// emulated fabric and expel nodes, if --admin-certificates is given.
#[derive(Debug, Args)]
pub(crate) struct ConsoleArgs {
    /// Address to listen at; port 0 takes a free one.
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:7480")]
    listen: SocketAddr,
    /// File with the token that viewers sign in with, or with lines of NAME TOKEN; default: a
    /// random token, which is printed, unless --listen is of this machine and the control plane
    /// uses no certificates.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Folder with the certificate of an administrator, with which the console makes the changes
    /// that administrators ask for.
    #[arg(long, value_name = "DIR")]
    admin_certificates: Option<PathBuf>,
    /// File with lines of NAME TOKEN, for those who may change something; default: a random token,
    /// which is printed.
    #[arg(long, value_name = "FILE")]
    admin_token_file: Option<PathBuf>,
    /// Folder with tls.crt and tls.key for TLS, and ca.crt for the certificates that viewers may
    /// sign in with, of readers and administrators.
    #[arg(long, value_name = "DIR")]
    tls: Option<PathBuf>,
    /// Folder with results of `fabricast eval` or `fabricast plan`, to be shown beside the running
    /// control plane.
    #[arg(long, value_name = "DIR")]
    evaluation: Option<PathBuf>,
    /// Another name that viewers call the console by, such as that of a proxy; may be repeated.
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// Allow --listen to be reachable from other machines, although pages and the token are not
    /// encrypted.
    #[arg(long, conflicts_with = "tls")]
    unencrypted: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// Rules of sign-in, and the certificates for changes.
struct Admission {
    tokens: Vec<Token>,
    is_open: bool,
    changes: Option<Security>,
    tls: Option<BrowserTls>,
}

impl Run for ConsoleArgs {
    fn run(self, globals: &Globals) -> Result<(), Failure> {
        spare_memory();
        let is_local = self.listen.ip().is_loopback();
        if !is_local && !self.unencrypted && self.tls.is_none() {
            let what = format!("--listen: {} can be reached from other machines", self.listen);
            return Err(Failure::input(what).hint(
                "pages are not encrypted: give --tls, listen at 127.0.0.1 behind `ssh -L` or a \
                 proxy with TLS, or give --unencrypted to accept that",
            ));
        }
        let context = Remote::context(&self.server)?;
        let is_certified = context.certificates.is_some();
        let admission = self.admission(is_certified)?;
        let security = remote::security(context.certificates.as_deref(), context.plaintext)?;
        let mut settings = telemetry::settings(&globals.trace)?;
        settings.log.push_str(",fabricast_telemetry=warn");
        let _telemetry = Telemetry::begin("console", &settings)?;
        let Self { listen, host: hosts, evaluation, .. } = self;
        let secret = random()?;
        block_on_threads(async {
            let remote = Remote::of_context(&context, security.clone())?;
            // While nothing answers, the servers that were named stand for both.
            let found = |parts: Result<_, Failure>| parts.unwrap_or(context.server.clone());
            let tics = found(remote.parts(Role::Tic).await);
            let routers = found(remote.parts(Role::Router).await);
            let Admission { tokens, is_open, changes, tls } = admission;
            let scheme = if tls.is_some() { "https" } else { "http" };
            let app = bind(Settings {
                listen,
                tics,
                routers,
                security,
                hosts,
                tokens,
                is_open,
                changes,
                tls,
                evaluation,
                secret,
            })
            .await?;
            output::notice(&format!("fabricast: console at {scheme}://{}", app.address()));
            let stop = CancellationToken::new();
            tokio::select! {
                stopped = interrupted() => stopped,
                ended = app.run(stop) => match ended { Ok(()) => Ok(()) },
            }
        })
    }
}

/// Keeps the allocator from huge pages, which save the console no time and cost it a third of its
/// memory. A system that lacks them refuses, and nothing is lost.
fn spare_memory() {
    #[cfg(target_os = "linux")]
    let _refused = rustix::thread::disable_transparent_huge_pages(true);
}

impl ConsoleArgs {
    /// Reads the tokens and certificates, and prints the tokens that it makes itself.
    fn admission(&self, is_certified: bool) -> Result<Admission, Failure> {
        let tls = self.tls.as_deref().map(BrowserTls::new).transpose().context("--tls")?;
        let is_local = self.listen.ip().is_loopback();
        let is_open = is_local && !is_certified && self.token_file.is_none() && tls.is_none();
        let mut tokens = match &self.token_file {
            Some(path) => tokens("--token-file", path, Level::Reader)?,
            None if is_open || tls.is_some() => Vec::new(),
            None => vec![printed(VIEWER.to_owned(), Level::Reader)?],
        };
        let changes = match (&self.admin_certificates, &self.admin_token_file) {
            (Some(folder), _) => Some(remote::security(Some(folder), false)?),
            (None, Some(_)) if is_certified => {
                let failure = Failure::input("--admin-token-file: the console may only read");
                return Err(failure.hint("give --admin-certificates, as there are certificates"));
            }
            (None, Some(_)) => Some(remote::security(None, self.server.plaintext)?),
            (None, None) => None,
        };
        match &self.admin_token_file {
            Some(path) => {
                tokens.extend(self::tokens("--admin-token-file", path, Level::Administrator)?);
            }
            None if changes.is_some() && tls.is_none() => {
                tokens.push(printed(user(), Level::Administrator)?);
            }
            None => {}
        }
        Ok(Admission { tokens, is_open, changes, tls })
    }
}

/// Binds the console that `up` has, which shows what answers at an address of this machine.
/// Everybody on it may look, as at the control plane; changes take the token that is printed.
///
/// # Errors
///
/// The address is taken.
pub(super) async fn beside(
    listen: SocketAddr,
    server: SocketAddr,
    evaluation: Option<PathBuf>,
) -> Result<App, Failure> {
    let tics = vec![server.to_string()];
    let (routers, security) = (tics.clone(), Security::plaintext());
    bind(Settings {
        listen,
        tics,
        routers,
        changes: Some(security.clone()),
        security,
        hosts: Vec::new(),
        tokens: vec![printed(user(), Level::Administrator)?],
        is_open: true,
        tls: None,
        evaluation,
        secret: random()?,
    })
    .await
}

async fn bind(settings: Settings) -> Result<App, Failure> {
    let bound = App::bind(settings).await.context("start the console")?;
    Ok(bound)
}

/// Makes a token and prints it.
fn printed(person: String, level: Level) -> Result<Token, Failure> {
    let secret = random_token()?;
    let purpose = match level {
        Level::Reader => "to look",
        Level::Administrator => "for changes",
    };
    output::notice(&format!("fabricast: token of the console {purpose}: {secret}"));
    Ok(Token { person, secret, level })
}

/// Name of the user who has started this process.
fn user() -> String {
    let named = ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok());
    named.filter(|name| !name.is_empty()).unwrap_or_else(|| "administrator".to_owned())
}

/// Reads a file with lines of `NAME TOKEN`; the only token of readers needs no name.
fn tokens(flag: &str, path: &Path, level: Level) -> Result<Vec<Token>, Failure> {
    let text = read_text(path)?;
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let wrong = |what: String| {
        let failure = Failure::input(format!("{flag}: '{}' {what}", path.display()));
        Err(failure.hint("`openssl rand -hex 32` makes a token"))
    };
    if lines.is_empty() {
        return wrong("has no token".to_owned());
    }
    let mut tokens = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (person, secret) = match words[..] {
            [person, secret] => (person, secret),
            [secret] if lines.len() == 1 && level == Level::Reader => (VIEWER, secret),
            _ => return wrong(format!("has no NAME TOKEN in line {}", number + 1)),
        };
        if secret.chars().count() < MIN_TOKEN {
            let line = number + 1;
            return wrong(format!(
                "has less than {MIN_TOKEN} characters in the token of line {line}"
            ));
        }
        tokens.push(Token { person: person.to_owned(), secret: secret.to_owned(), level });
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, level: Level) -> Result<Vec<String>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        std::fs::write(&path, text).unwrap();
        let read = tokens("--token-file", &path, level).map_err(|failure| failure.message())?;
        Ok(read.into_iter().map(|token| token.person).collect())
    }

    #[test]
    fn a_file_has_one_token_or_named_ones() {
        let (one, other) = ("0123456789abcdef", "fedcba9876543210");
        assert_eq!(read(&format!("{one}\n"), Level::Reader).unwrap(), [VIEWER]);
        let named = format!("ann {one}\n\nbob {other}\n");
        assert_eq!(read(&named, Level::Administrator).unwrap(), ["ann", "bob"]);
        let unnamed = read(one, Level::Administrator).unwrap_err();
        assert!(unnamed.contains("no NAME TOKEN in line 1"), "the audit needs a name: {unnamed}");
        assert!(read(&format!("{one}\n{other}"), Level::Reader).is_err());
        let short = read("ann short", Level::Reader).unwrap_err();
        assert!(short.contains("less than 16 characters"), "{short}");
        assert!(read("\n", Level::Reader).unwrap_err().contains("has no token"));
    }
}
