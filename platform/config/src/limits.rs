//! Limits of each client, which all parts have in common.

use fabricast_rpc::Limits;
use serde::Deserialize;

use crate::problem::Problems;

/// Section `[<part>.limits]` as written. A client is who its certificate says; in plain text it is
/// the address that it calls from, on this machine each connection, and at a socket each user, who
/// may have as much as 16 clients, up to half of all connections and bytes, but the processor time
/// of one. One that asks for more is refused with `RESOURCE_EXHAUSTED` and told when to come again.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawLimits {
    /// Calls that a client may make in a second, 1 to 1000000. Default 20000: four times what the
    /// busiest operating agent asks of a TIC.
    pub calls_per_second: u32,
    /// Calls that a client which was quiet before may make at once, 1 to 1000000. Default 20000: a
    /// second's worth.
    pub burst: u32,
    /// Percentage of the machine's processors that work for a client may use, 1 to 100. Default
    /// 50: the others have the other half. A client that uses more waits, and is refused when it is
    /// a second of processor time ahead.
    pub processor_percent: u32,
    /// Calls that a client may have open, streams among them; at least 1. Default 2048: a quarter
    /// of what a part works on at a time, so that few clients do not have it all.
    pub open_calls: u32,
    /// Connections that a client may have, at least 1. Default 4096: behind one address there may
    /// be many.
    pub client_connections: u32,
    /// Connections of all clients, at least 1. Default 65536: the agents of a cluster of 40000
    /// nodes, and some. The limit of open files of the process should be as high.
    pub connections: u32,
    /// Bytes of requests that a client may have open: arriving, or not answered yet; at least
    /// 67108864, the longest message. A message that takes more than four times its length in
    /// memory counts as a quarter of that. While a client has as many bytes of answers that it has
    /// not taken, its next calls wait. Default 268435456.
    pub client_request_bytes: u64,
    /// The same of all clients, at least as many. Default 2147483648. Beyond, clients with up to
    /// 4 MiB are still served. Decoded, a message takes more (docs/security.md).
    pub request_bytes: u64,
}

impl Default for RawLimits {
    fn default() -> Self {
        let limits = Limits::default();
        Self {
            calls_per_second: limits.calls_per_second,
            burst: limits.burst,
            processor_percent: limits.processor_percent,
            open_calls: limits.open_calls,
            client_connections: limits.client_connections,
            connections: limits.connections,
            client_request_bytes: limits.client_request_bytes,
            request_bytes: limits.request_bytes,
        }
    }
}

/// No more can be told apart.
const MOST_CALLS: u32 = 1_000_000;
/// Length of the longest message.
const LONGEST_MESSAGE: u64 = 64 << 20;

impl RawLimits {
    pub(crate) fn check(self, problems: &mut Problems) -> Limits {
        let Self { calls_per_second, burst, open_calls, client_connections, connections, .. } =
            self;
        let Self { client_request_bytes, request_bytes, processor_percent, .. } = self;
        if processor_percent == 0 || processor_percent > 100 {
            let what = format!("{processor_percent} is not from 1 to 100");
            problems.add("limits.processor_percent", what);
        }
        for (field, value) in [("calls_per_second", calls_per_second), ("burst", burst)] {
            if value == 0 || value > MOST_CALLS {
                let what = format!("{value} is not from 1 to {MOST_CALLS}");
                problems.add(&format!("limits.{field}"), what);
            }
        }
        for (field, value) in [
            ("open_calls", open_calls),
            ("client_connections", client_connections),
            ("connections", connections),
        ] {
            if value == 0 {
                problems.add(&format!("limits.{field}"), "must be at least 1: nobody could call");
            }
        }
        if client_connections > connections {
            let what = format!("{client_connections} are more than connections, {connections}");
            problems.add("limits.client_connections", what);
        }
        if client_request_bytes < LONGEST_MESSAGE {
            let what = format!("{client_request_bytes} is less than a message, {LONGEST_MESSAGE}");
            problems.add("limits.client_request_bytes", what);
        }
        if request_bytes < client_request_bytes {
            let what = format!("{request_bytes} is less than that of one, {client_request_bytes}");
            problems.add("limits.request_bytes", what);
        }
        Limits {
            calls_per_second,
            burst,
            processor_percent,
            open_calls,
            client_connections,
            connections,
            client_request_bytes,
            request_bytes,
        }
    }
}
