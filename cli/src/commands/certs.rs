//! An authority for clusters that have none, and the certificates it makes.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::Context;
use fabricast_rpc::{Authority, CertificateFiles, Credentials, Identity, Role, identity_name};
use serde::Serialize;
use time::{Duration, OffsetDateTime};

use crate::args::{CertsCommand, Format, IssueArgs};
use crate::failure::Failure;
use crate::output;

/// Clocks of machines may differ by so much.
const CLOCK_SKEW: Duration = Duration::minutes(5);

/// Runs a verb of `certs`.
///
/// # Errors
///
/// What is wrong with which file or identity; then nothing was written, or what stood there stands.
pub(crate) fn run(command: CertsCommand, format: Format) -> Result<(), Failure> {
    let from = OffsetDateTime::now_utc() - CLOCK_SKEW;
    match command {
        CertsCommand::Authority { out, days } => {
            let (certificate, key) = (out.join("ca.crt"), out.join("ca.key"));
            for path in [&certificate, &key] {
                if path.exists() {
                    let what = format!("{} is there already", path.display());
                    return Err(Failure::input(what)
                        .hint("certificates of a lost authority are worth nothing: choose another folder, or remove it"));
                }
            }
            let authority = Authority::create(from, Duration::days(i64::from(days)) + CLOCK_SKEW)
                .context("make an authority")?;
            fs::create_dir_all(&out).with_context(|| named(&out))?;
            write(&key, &authority.credentials().key, 0o600)?;
            write(&certificate, &authority.credentials().certificate, 0o644)?;
            show(&Made { folder: out.display().to_string(), ..Made::default() }, format)
        }
        CertsCommand::Issue(args) => issue(&args, from, format),
    }
}

fn issue(args: &IssueArgs, from: OffsetDateTime, format: Format) -> Result<(), Failure> {
    let identities: Vec<Identity> =
        args.identities.iter().map(|text| identity(text)).collect::<Result<_, _>>()?;
    let serves = |one: &Identity| !matches!(one.role, Role::Administrator | Role::Tenant);
    if args.hosts.is_empty()
        && let Some(server) = identities.iter().find(|one| serves(one))
    {
        let failure = Failure::input(format!("{server} serves, but no --host says where"));
        return Err(failure.hint("give the names and addresses that others call it by"));
    }
    let read = |name: &str| {
        let path = args.authority.join(name);
        fs::read_to_string(&path).with_context(|| named(&path))
    };
    let credentials = Credentials { certificate: read("ca.crt")?, key: read("ca.key")? };
    let believed = credentials.certificate.clone();
    let authority = Authority::load(credentials).with_context(|| named(&args.authority))?;
    let days = Duration::days(i64::from(args.days)) + CLOCK_SKEW;
    let own = authority.issue(&identities, &args.hosts, (from, days)).context("--host")?;
    fs::create_dir_all(&args.out).with_context(|| named(&args.out))?;
    let files = CertificateFiles::in_folder(&args.out);
    // A process that looks in between finds a pair that does not fit, and keeps the old one.
    write(&files.key, &own.key, 0o600)?;
    write(&files.certificate, &own.certificate, 0o644)?;
    write(&files.authority, &believed, 0o644)?;
    let identities = identities.iter().map(ToString::to_string).collect();
    let (folder, hosts) = (args.out.display().to_string(), args.hosts.clone());
    show(&Made { folder, identities, hosts }, format)
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

/// Writes a file as a whole: whoever reads it finds the old or the new text.
fn write(path: &Path, text: &str, mode: u32) -> Result<(), Failure> {
    let fresh = path.with_added_extension("unfinished");
    // One that an earlier run has left would keep its mode.
    let _ = fs::remove_file(&fresh);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&fresh)
        .with_context(|| named(&fresh))?;
    file.write_all(text.as_bytes()).with_context(|| named(&fresh))?;
    file.sync_all().with_context(|| named(&fresh))?;
    Ok(fs::rename(&fresh, path).with_context(|| named(path))?)
}

fn named(path: &Path) -> String {
    path.display().to_string()
}

/// What was written, as it is printed.
#[derive(Default, Serialize)]
struct Made {
    folder: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    identities: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hosts: Vec<String>,
}

fn show(made: &Made, format: Format) -> Result<(), Failure> {
    output::print(format, made, |made| match (made.identities.as_slice(), made.hosts.as_slice()) {
        ([], []) => format!("authority in {}", made.folder),
        ([], names) | (names, _) => {
            format!("certificate of {} in {}", names.join(", "), made.folder)
        }
    })
}
