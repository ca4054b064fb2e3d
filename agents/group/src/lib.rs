//! Group agents as a gRPC service: [`GroupAgentServer`] over the state machines of `core/groups`.
//!
//! Group agents have no process of their own: an operating agent hosts them ([`GroupAgentHost`]).

mod api;
mod watchers;

pub use api::{GroupAgentHost, GroupAgentServer};
pub use watchers::{Changes, Watchers, changes};

/// Longest message that agents accept, in bytes: a group with all its members.
pub const MESSAGE_LIMIT: usize = 64 << 20;
