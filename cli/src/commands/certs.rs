//! An authority for clusters that have none, and the certificates it makes.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Subcommand, value_parser};
use fabricast_rpc::{
    Authority, CertificateFiles, Credentials, Identity, Role, identity_name, write_whole,
};
use serde::Serialize;
use time::{Duration, OffsetDateTime};

use crate::args::Format;
use crate::command::{Globals, Run};
use crate::failure::Failure;
use crate::output;

/// Largest difference assumed between the clocks of machines.
const CLOCK_SKEW: Duration = Duration::minutes(5);

/// Create a certificate authority and certificates, for clusters that have no authority of their
/// own.
#[derive(Debug, Subcommand)]
pub(crate) enum CertsCommand {
    /// Create an authority: ca.crt, which every part trusts, and ca.key, which signs certificates
    /// and must not be stored on a machine of the cluster.
    Authority {
        /// Folder to write to, created if missing. Existing files are never overwritten.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// Validity in days.
        #[arg(long, default_value_t = 3650, value_parser = value_parser!(u32).range(1..=36_500))]
        days: u32,
    },
    /// Issue a certificate for one process: ca.crt, tls.crt and tls.key, for its setting
    /// `certificates` or for --certificates. In a folder with an older certificate it is replaced;
    /// a running process reloads it.
    Issue(IssueArgs),
    /// Revoke a certificate: adds it to ca.crl in the folder of the authority. Every part that has
    /// this file beside its ca.crt refuses the certificate within seconds, also on connections that
    /// it has.
    Revoke {
        /// Folder that `certs authority` has written.
        #[arg(long, value_name = "DIR")]
        authority: PathBuf,
        /// The certificate, in PEM, such as tls.crt.
        certificate: PathBuf,
    },
}

/// Flags of `certs issue`.
#[derive(Debug, Args)]
pub(crate) struct IssueArgs {
    /// Folder that `certs authority` has written.
    #[arg(long, value_name = "DIR")]
    authority: PathBuf,
    /// Identity of the process: tic/NAME, router/NAME, fabric/NAME, operating-agent/NODE (one for
    /// each node it hosts), switch-agent/NAME, admin/NAME, reader/NAME, which may look at
    /// everything and change nothing, tenant/NAME, which owns the groups named NAME/..., or
    /// tenant-admin/NAME, which has the jobs and reservations of that tenant besides. Not needed
    /// for a server of another program, such as etcd, which has hosts only.
    #[arg(long = "identity", value_name = "ROLE/NAME", required_unless_present = "hosts")]
    identities: Vec<String>,
    /// DNS name or address at which others call the process; required for servers.
    #[arg(long = "host", value_name = "HOST")]
    hosts: Vec<String>,
    /// Validity in days.
    #[arg(long, default_value_t = 365, value_parser = value_parser!(u32).range(1..=36_500))]
    days: u32,
    /// Folder to write to, created if missing.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

impl Run for CertsCommand {
    fn run(self, globals: &Globals) -> Result<(), Failure> {
        let format = globals.format;
        let from = OffsetDateTime::now_utc() - CLOCK_SKEW;
        match self {
            Self::Authority { out, days } => {
                let (certificate, key) = (out.join("ca.crt"), out.join("ca.key"));
                for path in [&certificate, &key] {
                    if path.exists() {
                        let what = format!("{} is there already", path.display());
                        return Err(Failure::input(what)
                        .hint("certificates of a lost authority are worth nothing: choose another folder, or remove it"));
                    }
                }
                let authority =
                    Authority::create(from, Duration::days(i64::from(days)) + CLOCK_SKEW)
                        .context("make an authority")?;
                fs::create_dir_all(&out).with_context(|| named(&out))?;
                write(&key, &authority.credentials().key, 0o600)?;
                write(&certificate, &authority.credentials().certificate, 0o644)?;
                show(&Made { folder: out.display().to_string(), ..Made::default() }, format)
            }
            Self::Issue(args) => issue(&args, from, format),
            Self::Revoke { authority, certificate } => {
                let list = authority.join("ca.crl");
                let former = list.exists().then(|| read(&list)).transpose()?;
                let text = load(&authority)?
                    .revoke(&read(&certificate)?, former.as_deref(), from)
                    .with_context(|| named(&certificate))?;
                write(&list, &text, 0o644)?;
                let (folder, certificate) = (named(&list), named(&certificate));
                show(&Made { folder, certificate, revoked: true, ..Made::default() }, format)
            }
        }
    }
}

fn issue(args: &IssueArgs, from: OffsetDateTime, format: Format) -> Result<(), Failure> {
    let identities: Vec<Identity> =
        args.identities.iter().map(|text| identity(text)).collect::<Result<_, _>>()?;
    if args.hosts.is_empty()
        && let Some(server) = identities.iter().find(|one| one.role.serves())
    {
        let failure = Failure::input(format!("{server} serves, but no --host says where"));
        return Err(failure.hint("give the names and addresses that others call it by"));
    }
    let authority = load(&args.authority)?;
    let days = Duration::days(i64::from(args.days)) + CLOCK_SKEW;
    let own = authority.issue(&identities, &args.hosts, from, days).context("--host")?;
    fs::create_dir_all(&args.out).with_context(|| named(&args.out))?;
    let files = CertificateFiles::in_folder(&args.out);
    files.write(&authority, &own).with_context(|| named(&args.out))?;
    let revoked = args.authority.join("ca.crl");
    if revoked.exists() {
        write(&files.revocations(), &read(&revoked)?, 0o644)?;
    }
    let identities = identities.iter().map(ToString::to_string).collect();
    let (folder, hosts) = (args.out.display().to_string(), args.hosts.clone());
    show(&Made { folder, identities, hosts, ..Made::default() }, format)
}

/// Reads the authority in a folder.
fn load(folder: &Path) -> Result<Authority, Failure> {
    let (certificate, key) = (read(&folder.join("ca.crt"))?, read(&folder.join("ca.key"))?);
    Ok(Authority::load(Credentials { certificate, key }).with_context(|| named(folder))?)
}

fn read(path: &Path) -> Result<String, Failure> {
    Ok(fs::read_to_string(path).with_context(|| named(path))?)
}

/// Reads `ROLE/NAME`, where the name may be any name of a node.
fn identity(text: &str) -> Result<Identity, Failure> {
    let (role, name) = text.split_once('/').unwrap_or((text, ""));
    let written = format!("{role}/{}", identity_name(name));
    written.parse().map_err(|_| {
        let roles: Vec<_> = Role::ALL.iter().map(|role| role.word()).collect();
        Failure::input(format!("--identity: '{text}' is not of the form ROLE/NAME"))
            .hint(format!("roles are {}", roles.join(", ")))
    })
}

fn write(path: &Path, text: &str, mode: u32) -> Result<(), Failure> {
    Ok(write_whole(path, text, mode).with_context(|| named(path))?)
}

fn named(path: &Path) -> String {
    path.display().to_string()
}

/// Result of the command: the files written.
#[derive(Default, Serialize)]
struct Made {
    folder: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    identities: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hosts: Vec<String>,
    /// File of the certificate that was revoked.
    #[serde(skip_serializing_if = "String::is_empty")]
    certificate: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    revoked: bool,
}

fn show(made: &Made, format: Format) -> Result<(), Failure> {
    output::print(format, made, |made| match (made.identities.as_slice(), made.hosts.as_slice()) {
        _ if made.revoked => format!("certificate {} revoked in {}", made.certificate, made.folder),
        ([], []) => format!("authority in {}", made.folder),
        ([], names) | (names, _) => {
            format!("certificate of {} in {}", names.join(", "), made.folder)
        }
    })
}
