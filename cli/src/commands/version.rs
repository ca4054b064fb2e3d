//! `fabricast version`: this program, and the parts of a running control plane.

use clap::Args;
use fabricast_proto::v1;
use fabricast_routing::EngineKind;
use serde::Serialize;

use crate::args::{Format, ServerArgs};
use crate::command::{Globals, Run};
use crate::failure::Failure;
use crate::output::{self, Rows};
use crate::progress::Progress;
use crate::remote::{DEFAULT_SERVER, Remote, Role, block_on};

/// Package of the API that this program speaks.
const PROTOCOL: &str = "fabricast.v1";
/// Most operating agents that are asked.
const MOST_AGENTS: usize = 64;

/// Print the version of this program and of each part of the running control plane: version, commit
/// if the build was told it, protocol, and the engines that this program can plan with.
#[derive(Debug, Args)]
pub(crate) struct VersionArgs {
    /// Only of this program.
    #[arg(long)]
    client: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// Result of the command.
#[derive(Debug, Serialize)]
struct Versions {
    client: ClientVersion,
    parts: Vec<PartVersion>,
}

/// Versions of this program.
#[derive(Debug, Serialize)]
struct ClientVersion {
    version: &'static str,
    commit: Option<&'static str>,
    protocols: [&'static str; 1],
    features: Vec<&'static str>,
}

/// Versions of a part, or why it has not told them.
#[derive(Debug, Serialize)]
struct PartVersion {
    roles: Vec<String>,
    address: String,
    version: Option<String>,
    commit: Option<String>,
    protocols: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

impl Run for VersionArgs {
    fn run(self, globals: &Globals) -> Result<(), Failure> {
        let format = globals.format;
        if self.client {
            return print(format, Vec::new());
        }
        block_on(async {
            let context = Remote::context(&self.server)?;
            let is_default = self.server.server.is_none() && context.server == [DEFAULT_SERVER];
            match parts(&Remote::new(&self.server)?).await {
                Ok(parts) => print(format, parts),
                // Without an address the question is about this program alone.
                Err(Failure::Hinted(..) | Failure::Unreachable(_)) if is_default => {
                    print(format, Vec::new())
                }
                Err(failure) => Err(failure),
            }
        })
    }

    fn calls_running_parts(&self) -> bool {
        !self.client
    }
}

/// Asks every part that can be found.
async fn parts(remote: &Remote) -> Result<Vec<PartVersion>, Failure> {
    let mut addresses = remote.parts(Role::Tic).await?;
    for role in [Role::Router, Role::SwitchAgent, Role::Fabric] {
        // There need not be one, such as an emulated fabric.
        addresses.extend(remote.parts(role).await.unwrap_or_default());
    }
    let nodes = remote.nodes().await.unwrap_or_default();
    addresses.extend(nodes.into_iter().map(|node| node.address).take(MOST_AGENTS));
    let mut parts: Vec<PartVersion> = Vec::new();
    let progress = Progress::new("asking", addresses.len());
    for address in addresses {
        if parts.iter().all(|part| part.address != address) {
            let info = remote.info(&address).await;
            parts.push(PartVersion::of(address, info));
        }
        progress.step();
    }
    progress.finish();
    Ok(parts)
}

impl PartVersion {
    fn of(address: String, info: Result<v1::GetServerInfoResponse, Failure>) -> Self {
        match info {
            Ok(info) => {
                let (version, commit) = match info.version.split_once('+') {
                    Some((version, commit)) => (version.to_owned(), Some(commit.to_owned())),
                    None => (info.version, None),
                };
                let (version, problem) = (Some(version), None);
                // It has answered in it.
                let protocols = vec![PROTOCOL];
                Self { roles: info.roles, address, version, commit, protocols, problem }
            }
            Err(failure) => Self {
                roles: Vec::new(),
                address,
                version: None,
                commit: None,
                protocols: Vec::new(),
                problem: failure.message().lines().next().map(str::to_owned),
            },
        }
    }
}

fn print(format: Format, parts: Vec<PartVersion>) -> Result<(), Failure> {
    let client = ClientVersion {
        version: env!("CARGO_PKG_VERSION"),
        commit: option_env!("FABRICAST_COMMIT").filter(|commit| !commit.is_empty()),
        protocols: [PROTOCOL],
        features: EngineKind::ALL.iter().map(|kind| kind.name()).collect(),
    };
    output::print(format, &Versions { client, parts }, text)
}

fn text(versions: &Versions) -> String {
    let client = &versions.client;
    let mut rows = Rows::new(&["PART", "ADDRESS", "VERSION", "COMMIT", "PROTOCOL"]);
    rows.push(vec![
        "this program".to_owned(),
        String::new(),
        client.version.to_owned(),
        client.commit.unwrap_or_default().to_owned(),
        client.protocols.join(" "),
    ]);
    for part in &versions.parts {
        rows.push(vec![
            part.roles.join(" "),
            part.address.clone(),
            part.version.clone().or_else(|| part.problem.clone()).unwrap_or_default(),
            part.commit.clone().unwrap_or_default(),
            part.protocols.join(" "),
        ]);
    }
    format!("{rows}\nengines: {}", client.features.join(", "))
}
