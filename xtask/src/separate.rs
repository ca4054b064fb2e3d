//! Runs a program with networks and processes of its own, which end with it.

use std::process::Command;

use crate::setup;

/// Brings the loopback device up. Slurm's daemons look for an address that is no loopback: it has
/// one for documents.
const SCRIPT: &str = r#"
ip_in_sbin() { PATH=$PATH:/usr/sbin:/sbin ip "$@"; }
ip_in_sbin link set lo up && ip_in_sbin address add 192.0.2.1/32 dev lo && exec "$0" "$@"
"#;

/// A command that runs another one, whose words follow, as root of a network that nobody else is
/// in; the loopback device is up. For root it is root of the machine, too: a switch that waits for
/// a processor must run before others.
pub(crate) fn command() -> Command {
    let mut command = Command::new("unshare");
    if !setup::is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--net", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "--"]);
    command.args(["sh", "-c", SCRIPT]);
    command
}

/// Checks that this system can do it.
///
/// # Errors
///
/// Output of unshare.
pub(crate) fn check() -> Result<(), String> {
    match command().arg("true").output() {
        Err(error) => Err(format!("unshare: {error}")),
        Ok(output) if !output.status.success() => {
            Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
        }
        Ok(_) => Ok(()),
    }
}
