//! What every gRPC server and client of Fabricast shares.
//!
//! Read [`Services`] and [`BoundServer`] first for the server side: health, reflection and the
//! administration service come with them. [`Peer`] is the client side: a lazy channel with
//! deadlines and keep-alive, [`Leader`] calls to whichever of several parts is at work, [`Backoff`] the delays of whoever asks again. [`Reason`] is the one place where an error
//! gets a gRPC code.

mod administration;
mod client;
mod leader;
mod refusals;
mod server;
mod status;

pub use client::{Backoff, Peer, PeerError, request_id};
pub use leader::{Leader, LeaderChannel};
pub use refusals::{refusal_from_wire, refusal_to_wire};
pub use server::{AskLeadership, BindError, BoundServer, ServeError, Services};
pub use status::{Reason, fact_of, reason_of};
