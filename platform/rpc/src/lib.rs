//! What every gRPC server and client of Fabricast shares.
//!
//! Read [`Services`] and [`BoundServer`] first for the server side: health, reflection and the
//! administration service come with them. [`Peer`] is the client side: a lazy channel with
//! deadlines and keep-alive, [`Backoff`] the delays of whoever asks again. [`Reason`] is the one place where an error
//! gets a gRPC code.

mod administration;
mod client;
mod server;
mod status;

pub use client::{Backoff, Peer, PeerError, request_id};
pub use server::{BindError, BoundServer, ServeError, Services};
pub use status::{Reason, reason_of};
