//! Verbs of `certs`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Verbs of `certs`.
#[derive(Debug, Subcommand)]
pub enum CertsCommand {
    /// Make an authority: ca.crt, for every part to believe, and ca.key, which makes certificates and so belongs
    /// on no machine of the cluster.
    Authority {
        /// The folder to write to; made if it is missing. What is there is never overwritten.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// How many days it is believed.
        #[arg(long, default_value_t = 3650, value_parser = clap::value_parser!(u32).range(1..=36_500))]
        days: u32,
    },
    /// Make a certificate for one process: ca.crt, tls.crt and tls.key, for `certificates` of its settings or --certificates.
    /// Into the folder of another one it writes its replacement, which a running process takes up by itself.
    Issue(IssueArgs),
}

/// Flags of `certs issue`.
#[derive(Debug, Args)]
pub struct IssueArgs {
    /// The folder that `certs authority` has written.
    #[arg(long, value_name = "DIR")]
    pub authority: PathBuf,
    /// Who it is: tic/NAME, router/NAME, fabric/NAME, operating-agent/NODE (one for each node it hosts),
    /// switch-agent/NAME, admin/NAME, or tenant/NAME, who has the groups named NAME/... Left out for a server of another
    /// program, such as an etcd, which has hosts only.
    #[arg(long = "identity", value_name = "ROLE/NAME", required_unless_present = "hosts")]
    pub identities: Vec<String>,
    /// A name or address that others call it by; needed by all that serve.
    #[arg(long = "host", value_name = "HOST")]
    pub hosts: Vec<String>,
    /// How many days it is believed.
    #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub days: u32,
    /// The folder to write to; made if it is missing.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}
