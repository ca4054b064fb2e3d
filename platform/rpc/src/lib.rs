//! What every gRPC server and client of Fabricast shares.
//!
//! Read [`Services`] and [`BoundServer`] first for the server side: health, reflection and the
//! administration service come with them, and with [`BoundSocket`], which listens at a Unix domain
//! socket. [`Peer`] is the client side: a lazy channel with
//! deadlines and keep-alive, [`Leader`] calls to whichever of several parts is at work, [`Backoff`] the delays of whoever asks again. [`Reason`] is the one place where an error
//! gets a gRPC code. [`Security`] is who may connect, [`Caller`] who did, and `access.rs` the one table of who may call what.
//! [`Limits`] are what one client may ask of a server, [`OutsideServers`] are those of other programs that want certificates.

mod access;
mod administration;
mod allowance;
mod around;
mod authority;
mod certificates;
mod channel;
mod client;
mod connection;
mod identity;
mod leader;
mod limits;
mod observe;
mod outside;
mod pace;
mod refusals;
mod security;
mod server;
mod socket;
mod status;
mod topology;
mod trace;

pub use access::{Access, access_table};
pub use authority::{Authority, AuthorityError, Credentials};
pub use certificates::{CertificateFiles, SecurityError};
pub use channel::Channel;
pub use client::{Backoff, Peer, PeerError, is_of_this_machine, request_id};
pub use identity::{
    Caller, Identity, IdentityError, NamelessError, Role, certificate_identities, identity_name,
};
pub use leader::{Leader, LeaderChannel};
pub use limits::Limits;
pub use outside::{OutsideServers, Watchful};
pub use pace::{BEAT, Pace};
pub use refusals::{refusal_from_wire, refusal_to_wire};
pub use security::Security;
pub use server::{AskLeadership, BindError, BoundServer, ServeError, Services};
pub use socket::{BoundSocket, SocketError};
pub use status::{Reason, fact_of, reason_of, retry_after};
