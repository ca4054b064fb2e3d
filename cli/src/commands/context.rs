//! `fabricast context`: control planes by name.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::args::Format;
use crate::command::{Globals, Run};
use crate::contexts::{Context, Contexts};
use crate::failure::Failure;
use crate::output::{self, Rows};
use crate::remote::{self, Remote};

/// Keep addresses and certificates of control planes under names, in a file of yours.
///
/// The file is $FABRICAST_CONTEXTS, or else fabricast/contexts.toml below $XDG_CONFIG_HOME or
/// ~/.config. The current context counts for commands without --server and --context.
#[derive(Debug, Subcommand)]
pub(crate) enum ContextCommand {
    /// Add a context, or replace the one of that name. The first one becomes the current context.
    Add(AddArgs),
    /// Make a context the current one.
    Use {
        /// Name of the context.
        name: String,
    },
    /// List all contexts; * marks the current one.
    List,
    /// Delete a context.
    #[command(alias = "remove")]
    Delete {
        /// Name of the context.
        name: String,
    },
}

/// Flags of `context add`.
#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// Name of the context.
    name: String,
    /// Addresses of the TICs, or the one address of `fabricast up`.
    #[arg(long, required = true, value_delimiter = ',', value_name = "HOST:PORT,...")]
    server: Vec<String>,
    /// Addresses of the route services; default: as the TICs name them.
    #[arg(long, value_delimiter = ',', value_name = "HOST:PORT,...")]
    router: Vec<String>,
    /// Addresses of the switch agents; default: as the route services name them.
    #[arg(long, value_delimiter = ',', value_name = "HOST:PORT,...")]
    switch_agent: Vec<String>,
    /// Addresses of operating agents; default: as the TICs name them, for each node.
    #[arg(long, value_delimiter = ',', value_name = "HOST:PORT,...")]
    operating_agent: Vec<String>,
    /// Address of the emulated fabric.
    #[arg(long, value_name = "HOST:PORT")]
    fabric: Option<String>,
    /// Folder with ca.crt, tls.crt and tls.key of the caller, if the control plane uses TLS.
    #[arg(long, value_name = "DIR")]
    certificates: Option<PathBuf>,
    /// Allow unencrypted connections to other machines.
    #[arg(long, conflicts_with = "certificates")]
    plaintext: bool,
}

/// One line of the list.
#[derive(Serialize)]
struct Listed<'a> {
    name: &'a str,
    current: bool,
    #[serde(flatten)]
    context: &'a Context,
}

impl Run for ContextCommand {
    fn run(self, globals: &Globals) -> Result<(), Failure> {
        let mut contexts = Contexts::read()?;
        match self {
            Self::Add(args) => add(args, contexts, globals.format),
            Self::Use { name } => {
                contexts.named(&name)?;
                contexts.current = Some(name.clone());
                contexts.write()?;
                changed(&name, "is the current one", globals.format)
            }
            Self::List => list(&contexts, globals.format),
            Self::Delete { name } => {
                contexts.named(&name)?;
                contexts.contexts.remove(&name);
                contexts.current = contexts.current.filter(|current| *current != name);
                contexts.write()?;
                changed(&name, "deleted", globals.format)
            }
        }
    }
}

fn add(args: AddArgs, mut contexts: Contexts, format: Format) -> Result<(), Failure> {
    let AddArgs { name, server, router, switch_agent, operating_agent, fabric, .. } = args;
    if name.is_empty() || name.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(Failure::input("NAME: no blanks or control characters, and not empty"));
    }
    // Commands may run in another folder.
    let absolute = |folder: PathBuf| {
        let named = || format!("--certificates: '{}'", folder.display());
        std::fs::canonicalize(&folder).with_context(named)
    };
    let certificates = args.certificates.map(absolute).transpose()?;
    let fabric = fabric.into_iter().collect();
    let plaintext = args.plaintext;
    let context =
        Context { server, router, switch_agent, operating_agent, fabric, certificates, plaintext };
    let security = remote::security(context.certificates.as_deref(), plaintext)?;
    remote::block_on(async { Remote::of_context(&context, security).map(drop) })?;
    contexts.current.get_or_insert_with(|| name.clone());
    let before = contexts.contexts.insert(name.clone(), context);
    contexts.write()?;
    let state = match (before.is_some(), contexts.current.as_ref() == Some(&name)) {
        (true, _) => "replaced",
        (false, true) => "added, and is the current one",
        (false, false) => "added",
    };
    changed(&name, state, format)
}

/// Says what has become of a context.
fn changed(name: &str, state: &str, format: Format) -> Result<(), Failure> {
    // Older versions have it as `name` alone.
    let value = serde_json::json!({ "context": name, "name": name, "state": state });
    output::print(format, &value, |_| format!("context {name} {state}"))
}

fn list(contexts: &Contexts, format: Format) -> Result<(), Failure> {
    let listed = contexts.contexts.iter().map(|(name, context)| {
        let current = contexts.current.as_ref() == Some(name);
        Listed { name, current, context }
    });
    output::print(format, &listed.collect::<Vec<_>>(), |listed| {
        let mut rows = Rows::new(&["CURRENT", "NAME", "SERVER", "CONNECTIONS"]);
        for Listed { name, current, context } in listed {
            rows.push(vec![
                if *current { "*" } else { "" }.to_owned(),
                (*name).to_owned(),
                context.server.join(","),
                match &context.certificates {
                    Some(folder) => format!("TLS, {}", folder.display()),
                    None => "plain text".to_owned(),
                },
            ]);
        }
        rows.to_string()
    })
}
