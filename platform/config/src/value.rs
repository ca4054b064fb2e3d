//! Checked values that the configurations of several parts share.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use fabricast_rpc::is_of_this_machine;
use fabricast_store::{LocationError, StoreLocation};

use crate::problem::Problems;

/// Address where another part listens: `host:port`. The host may be a name, so it is resolved when
/// used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PeerAddress(String);

impl PeerAddress {
    /// The address as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reads `host:port`; the port may not be 0, for nobody can be reached there.
    pub(crate) fn check(problems: &mut Problems, field: &str, text: &str) -> Option<Self> {
        let host_and_port = text.rsplit_once(':').filter(|(host, port)| {
            let bracketed = host.starts_with('[') && host.ends_with(']');
            let plain = !host.contains([':', '/', '[', ']']) && !host.contains(char::is_whitespace);
            !host.is_empty() && (bracketed || plain) && port.parse::<u16>().is_ok_and(|p| p > 0)
        });
        if host_and_port.is_none() {
            problems.add(field, format!("'{text}' is not of the form host:port"));
            return None;
        }
        Some(Self(text.to_owned()))
    }
}

impl AsRef<str> for PeerAddress {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A key that must not appear in logs: `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The key itself.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Reads a key; it may not be empty.
    pub(crate) fn check(
        problems: &mut Problems,
        field: &str,
        text: Option<String>,
    ) -> Option<Self> {
        let text = problems.required(field, text)?;
        if text.is_empty() {
            problems.add(field, "empty");
            return None;
        }
        Some(Self(text))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

/// Reads where durable records are kept: `memory`, a path, or the URL of an etcd.
pub(crate) fn check_store(
    problems: &mut Problems,
    field: &str,
    text: Option<String>,
) -> Option<StoreLocation> {
    match problems.required(field, text)?.parse() {
        Ok(location) => Some(location),
        Err(error) => {
            problems.add(field, LocationError::to_string(&error));
            None
        }
    }
}

/// Checks that a part which other machines can reach has certificates, or that plain text was
/// allowed. The files are not read.
pub(crate) fn check_connections(
    problems: &mut Problems,
    listen: SocketAddr,
    allow_plaintext: bool,
    certificates: Option<PathBuf>,
) -> Option<PathBuf> {
    match &certificates {
        None if !listen.ip().is_loopback() && !allow_plaintext => problems.add(
            "listen",
            format!("{listen} can be reached from other machines, and connections are not encrypted: give certificates, or set allow_plaintext = true to accept that"),
        ),
        Some(folder) if folder.as_os_str().is_empty() => problems.add("certificates", "empty"),
        Some(_) if allow_plaintext => {
            let why = "contradicts certificates: with them nothing is in plain text";
            problems.add("allow_plaintext", why);
        }
        None | Some(_) => {}
    }
    certificates
}

/// Refuses peers on other machines if connections are in plain text and that was not allowed.
///
/// - `unasked`: connections are in plain text, and `allow_plaintext` is not set.
pub(crate) fn check_calls<'a>(
    problems: &mut Problems,
    unasked: bool,
    field: &str,
    peers: impl IntoIterator<Item = &'a PeerAddress>,
) {
    let far = peers.into_iter().find(|address| !is_of_this_machine(address.as_str()));
    if let Some(far) = far.filter(|_| unasked) {
        let what = format!(
            "{far} is on another machine, and connections are not encrypted: give certificates, or set allow_plaintext = true to accept that"
        );
        problems.add(field, what);
    }
}

/// Refuses a duration of zero.
pub(crate) fn check_positive(problems: &mut Problems, field: &str, duration: Duration) {
    if duration.is_zero() {
        problems.add(field, "must be longer than 0s");
    }
}

/// A duration and the field that it was given in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'a> {
    pub(crate) name: &'a str,
    pub(crate) duration: Duration,
}

/// Refuses a timeout of reports that is not longer than their interval.
pub(crate) fn check_longer(problems: &mut Problems, timeout: Field<'_>, interval: Field<'_>) {
    if timeout.duration <= interval.duration {
        let what = format!(
            "{:?} is not longer than {}, {:?}",
            timeout.duration, interval.name, interval.duration
        );
        problems.add(timeout.name, what);
    }
}

/// Refuses zero probes.
pub(crate) fn check_attempts(problems: &mut Problems, attempts: u32) {
    if attempts == 0 {
        problems.add("probe_attempts", "must be at least 1: nobody is given up unasked");
    }
}

/// Refuses an empty name.
pub(crate) fn check_name(
    problems: &mut Problems,
    field: &str,
    name: Option<String>,
) -> Option<String> {
    let name = problems.required(field, name)?;
    if name.is_empty() {
        problems.add(field, "empty");
        return None;
    }
    Some(name)
}

/// Refuses an empty path.
pub(crate) fn check_path(
    problems: &mut Problems,
    field: &str,
    path: Option<PathBuf>,
) -> Option<PathBuf> {
    let path = problems.required(field, path)?;
    if path.as_os_str().is_empty() {
        problems.add(field, "empty; expected the path of a file");
        return None;
    }
    Some(path)
}

/// Reads the permissions of a file, in octal; its owner must be able to use it.
pub(crate) fn check_mode(problems: &mut Problems, field: &str, text: &str) -> Option<u32> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| mode & !0o777 == 0);
    match mode {
        Some(mode) if mode & 0o600 == 0o600 => Some(mode),
        Some(_) => {
            problems.add(field, format!("'{text}' keeps the agent's own user out"));
            None
        }
        None => {
            problems.add(field, format!("'{text}' is not the octal mode of a file, such as 660"));
            None
        }
    }
}

/// Refuses a fabric without table entries.
pub(crate) fn check_colors(problems: &mut Problems, colors: u16) {
    if colors == 0 {
        problems.add("colors", "a switch has at least 1 table entry");
    }
}

/// Refuses aggregation engines that cannot hold a tree.
pub(crate) fn check_aggregation(problems: &mut Problems, entries: u16, children: u32) {
    if entries == 0 {
        problems.add(
            "aggregation_entries",
            "at least 1; without collectives in the network nobody asks for them",
        );
    }
    if children < 3 {
        let what =
            format!("{children} are too few for a tree: its own process and two others are 3");
        problems.add("aggregation_children", what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(text: &str) -> Option<PeerAddress> {
        PeerAddress::check(&mut Problems::new("tic"), "peer", text)
    }

    #[test]
    fn a_peer_is_a_host_and_a_port() {
        for good in ["127.0.0.1:7401", "tic.fabric.local:1", "[::1]:7401"] {
            assert_eq!(peer(good).unwrap().to_string(), good);
        }
        for bad in [
            "",
            "tic",
            "tic:",
            ":7401",
            "tic:0",
            "tic:70000",
            "http://tic:7401",
            "::1:7401",
            "a b:1",
        ] {
            assert_eq!(peer(bad), None, "{bad}");
        }
    }

    #[test]
    fn permissions_are_octal_and_let_the_owner_in() {
        let mode = |text: &str| check_mode(&mut Problems::new("operating_agent"), "mode", text);
        assert_eq!((mode("600"), mode("0660")), (Some(0o600), Some(0o660)));
        for bad in ["", "rw-", "888", "1777", "60", "066"] {
            assert_eq!(mode(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_secret_never_shows_in_debug_output() {
        let secret = Secret("open sesame".into());
        assert_eq!(format!("{secret:?}"), "Secret(hidden)");
        assert_eq!(secret.reveal(), "open sesame");
    }
}
