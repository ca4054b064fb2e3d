//! The group agent's gRPC face: [`GroupAgentServer`] over the state machines of `core/groups`.
//!
//! Group agents have no process of their own: an operating agent hosts them ([`Hosts`]). [`wire`]
//! turns the protocol's messages into `fabricast.v1` and back, for both kinds of agent.

mod service;
mod watchers;
pub mod wire;

pub use service::{GroupAgentServer, Hosts};
pub use watchers::{News, Watchers, news};

/// Longest message that agents take, in bytes: a group with all its members in one piece.
pub const MESSAGE_LIMIT: usize = 64 << 20;
