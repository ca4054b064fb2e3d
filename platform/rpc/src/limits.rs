//! Limits of the clients of a server, and the definition of a client.
//!
//! With certificates, a client is the identity in its certificate. In plain text it is an address;
//! from this machine, where all addresses are the same, each connection is a client. At a socket it
//! is a user, so that more processes give no larger share.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, LazyLock};
use std::thread::available_parallelism;

use parking_lot::RwLock;

use crate::identity::{Caller, Identity};

/// Bytes of requests, and of answers, that a client may always have, however many others have: a
/// message of most calls.
pub(crate) const ALWAYS: u64 = 4 << 20;

/// Clients that a user counts as at a socket: each of its processes has calls, connections and
/// segments of operations of its own, and an operation ends once all of them have sent theirs.
const CLIENTS_OF_USER: u32 = 16;

/// Limits of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Calls that a client may make in a second, at least 1.
    pub calls_per_second: u32,
    /// Calls that a client which was quiet before may make at once, at least 1.
    pub burst: u32,
    /// Percentage of the processors of the machine that work for a client may use, 1 to 100.
    pub processor_percent: u32,
    /// Calls, streams among them, that a client may have open, at least 1.
    pub open_calls: u32,
    /// Connections that a client may have, at least 1.
    pub client_connections: u32,
    /// Connections of all clients, at least 1.
    pub connections: u32,
    /// Bytes of requests that a client may have open: arriving, or not answered yet. With as many
    /// bytes of answers that it has not taken, its next calls wait.
    pub client_request_bytes: u64,
    /// Bytes of requests that all clients may have open. Beyond, those with up to 4 MiB are still
    /// served.
    pub request_bytes: u64,
}

impl Default for Limits {
    /// Four times the load of the busiest operating agent, 5 000 joins a second; half of the
    /// processors, so that no client has them all; the streams of two connections as open calls;
    /// connections for the agents of 40 000 nodes; four of the longest messages for a client, and
    /// 32 for all.
    fn default() -> Self {
        Self {
            calls_per_second: 20_000,
            burst: 20_000,
            processor_percent: 50,
            open_calls: 2_048,
            client_connections: 4_096,
            connections: 65_536,
            client_request_bytes: 256 << 20,
            request_bytes: 2 << 30,
        }
    }
}

/// Processors of the machine that this process may use.
static PROCESSORS: LazyLock<u64> =
    LazyLock::new(|| available_parallelism().map_or(1, |count| count.get() as u64));

impl Limits {
    /// Processor time that a client may use, in thousandths of the time that passes.
    pub(crate) fn processor_rate(&self) -> u64 {
        *PROCESSORS * u64::from(self.processor_percent) * 10
    }

    /// The limits of one client. A user has those of [`CLIENTS_OF_USER`] clients, but the processor
    /// time of one, and at most half of all connections and bytes, or what one client may have if
    /// that is more.
    pub(crate) fn of_client(self, client: &Client) -> Self {
        let weight = client.weight();
        if weight == 1 {
            return self;
        }
        let scaled = |limit: u32| limit.saturating_mul(weight);
        let connections = scaled(self.client_connections).min(self.connections / 2);
        let bytes = self.client_request_bytes.saturating_mul(weight.into());
        let bytes = bytes.min(self.request_bytes / 2);
        Self {
            calls_per_second: scaled(self.calls_per_second),
            burst: scaled(self.burst),
            open_calls: scaled(self.open_calls),
            client_connections: connections.max(self.client_connections),
            client_request_bytes: bytes.max(self.client_request_bytes),
            ..self
        }
    }
}

/// Limits that can change while the server runs; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct LiveLimits(Arc<RwLock<Limits>>);

impl From<Limits> for LiveLimits {
    fn from(limits: Limits) -> Self {
        Self(Arc::new(RwLock::new(limits)))
    }
}

impl LiveLimits {
    pub(crate) fn get(&self) -> Limits {
        *self.0.read()
    }

    pub(crate) fn set(&self, limits: Limits) {
        *self.0.write() = limits;
    }
}

/// The client of a connection, as a key for its usage.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Client {
    /// The holder of a certificate.
    Named(Vec<Identity>),
    /// An address of another machine.
    At(IpAddr),
    /// One connection from this machine.
    Through(SocketAddr),
    /// The processes of a user of this machine, at a socket.
    User(u32),
    /// The system gave no address.
    Unknown,
}

impl Client {
    /// The client of a connection.
    pub(crate) fn of(caller: &Caller, from: Option<SocketAddr>) -> Self {
        match (caller, from) {
            (Caller::Known(identities), _) => Self::Named(identities.clone()),
            (Caller::Unasked, Some(from)) if from.ip().is_loopback() => Self::Through(from),
            (Caller::Unasked, Some(from)) => Self::At(from.ip().to_canonical()),
            (Caller::Unasked, None) => Self::Unknown,
        }
    }

    /// Number of clients that it counts as.
    pub(crate) fn weight(&self) -> u32 {
        match self {
            Self::User(_) => CLIENTS_OF_USER,
            Self::Named(_) | Self::At(_) | Self::Through(_) | Self::Unknown => 1,
        }
    }

    /// Its role, as metrics name it: that of its certificate, `process` for the processes of a user
    /// at a socket, and `anyone` for others.
    pub(crate) fn role(&self) -> &'static str {
        match self {
            Self::Named(identities) => identities.first().map_or("anyone", |one| one.role.word()),
            Self::At(_) | Self::Through(_) | Self::Unknown => "anyone",
            Self::User(_) => "process",
        }
    }
}

impl fmt::Display for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(identities) => Caller::Known(identities.clone()).fmt(formatter),
            Self::At(address) => write!(formatter, "{address}"),
            Self::Through(address) => write!(formatter, "{address}"),
            Self::User(user) => write!(formatter, "user {user}"),
            Self::Unknown => formatter.write_str("an unknown client"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_has_the_same_defaults() {
        let documentation = include_str!("../../../docs/security.md");
        let Limits {
            calls_per_second,
            burst,
            processor_percent,
            open_calls,
            client_connections,
            connections,
            client_request_bytes,
            request_bytes,
        } = Limits::default();
        for (name, value) in [
            ("calls_per_second", calls_per_second.into()),
            ("burst", burst.into()),
            ("processor_percent", processor_percent.into()),
            ("open_calls", open_calls.into()),
            ("client_connections", client_connections.into()),
            ("connections", connections.into()),
            ("client_request_bytes", client_request_bytes),
            ("request_bytes", request_bytes),
        ] {
            assert!(documentation.contains(&format!("\n| `{name}` | {value} | ")), "{name}");
        }
    }

    #[test]
    fn whoever_is_on_this_machine_is_told_apart_by_connection() {
        let of = |from: &str| Client::of(&Caller::Unasked, Some(from.parse().unwrap()));
        assert_ne!(of("127.0.0.1:1"), of("127.0.0.1:2"));
        assert_eq!(of("10.0.0.1:1"), of("10.0.0.1:2"));
        assert_eq!(of("10.0.0.1:1"), of("[::ffff:10.0.0.1]:9"));
        assert_ne!(of("10.0.0.1:1"), of("10.0.0.2:1"));
        assert_eq!(of("10.0.0.1:1").role(), "anyone");
    }

    #[test]
    fn a_user_has_room_for_its_processes_and_leaves_half_to_others() {
        let limits = Limits::default();
        let of_user = |limits: Limits| limits.of_client(&Client::User(7));
        let calls = |limits: Limits| [limits.calls_per_second, limits.burst, limits.open_calls];
        assert_eq!(calls(of_user(limits)), calls(limits).map(|limit| 16 * limit));
        let held = |limits: Limits| (limits.client_connections, limits.client_request_bytes >> 20);
        assert_eq!(held(of_user(limits)), (32_768, 1_024));
        // Four operations at a time of 128 processes, each with a segment of 1 MiB, and some more.
        assert!(of_user(limits).client_request_bytes > 128 * 4 * ((1 << 20) + 1_000));
        assert_eq!(of_user(limits).processor_percent, limits.processor_percent);
        let all_of_one = Limits { connections: 4_096, request_bytes: 256 << 20, ..limits };
        assert_eq!(held(of_user(all_of_one)), held(limits), "no less than another client");
        assert_eq!(limits.of_client(&Client::Unknown), limits);
        assert_eq!(limits.of_client(&Client::At([10, 0, 0, 1].into())), limits);
    }

    #[test]
    fn a_certificate_says_who_a_client_is_wherever_it_calls_from() {
        let caller = Caller::Known(vec!["tenant/acme".parse().unwrap()]);
        let of = |from: &str| Client::of(&caller, Some(from.parse().unwrap()));
        assert_eq!(of("10.0.0.1:1"), of("127.0.0.1:9"));
        assert_eq!(
            (of("10.0.0.1:1").role(), of("[::1]:1").to_string().as_str()),
            ("tenant", "tenant/acme")
        );
    }
}
