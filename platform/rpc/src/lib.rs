//! The common parts of every gRPC server and client of Fabricast.
//!
//! - Servers: [`Services`] and [`BoundServer`], or [`BoundSocket`] for a Unix domain socket.
//!   Health, reflection and the administration service come with them. Read these first.
//! - Clients: [`Peer`] is a lazy channel with deadlines and keep-alive, [`Leader`] calls the leader
//!   among several parts, [`Backoff`] gives the delays between attempts.
//! - Errors: [`Reason`] makes a status of a refusal, [`RpcError`] is the error of a call as its
//!   caller handles it.
//! - Security: [`Security`] has the certificates of a process, [`Caller`] the identities of a
//!   client; `access.rs` is the table of calls that each role may make. [`ExternalTls`] connects to
//!   servers of other programs.
//! - [`Limits`] bound the calls and connections of each client, and the processor time that it
//!   uses, which [`CallCost`] charges; `message_bounds.rs` bounds the memory of a request, and
//!   `answer_bytes.rs` that of answers which are not taken.

mod accept;
mod access;
mod administration;
mod answer_bytes;
mod authority;
mod browser_tls;
mod call_cost;
mod call_log;
mod call_memory;
mod call_spans;
mod certificates;
mod channel;
mod client;
mod client_limiter;
mod connection;
mod cost_budget;
mod external_tls;
mod identity;
mod joined;
mod leader;
mod limit_clients;
mod limits;
mod local_process;
mod log_budget;
mod message_bounds;
mod middleware;
mod network;
mod on_behalf;
mod open_connections;
mod open_files;
mod outgoing_connection;
mod peers;
mod request_bytes;
mod scheduled_clock;
mod security;
mod server;
mod shown_certificate;
mod socket;
mod switch_tls;
mod topology;
mod turns;
mod unreadable_requests;
mod whole_file;

pub use access::{Access, Bound, access_table};
pub use authority::{Authority, AuthorityError, Credentials};
pub use browser_tls::BrowserTls;
pub use call_cost::{CallCost, Turn, measured};
pub use call_memory::CallMemory;
pub use certificates::{CertificateFiles, SecurityError};
pub use channel::Channel;
pub use client::{Backoff, Peer, PeerError, is_of_this_machine, request_id};
pub use external_tls::{ExternalTls, MonitoredStream};
pub use fabricast_status::{Reason, RpcError, fact_of, reason_of, retry_after};
pub use identity::{
    Caller, Identity, IdentityError, NamelessError, Role, certificate_identities, identity_name,
};
pub use joined::joined;
pub use leader::{Leader, LeaderChannel};
pub use limit_clients::client_key;
pub use limits::Limits;
pub use local_process::LocalProcess;
pub use network::{Arriving, Connection, Network};
pub use on_behalf::on_behalf_of;
pub use peers::Peers;
pub use request_bytes::CollectedBytes;
pub use scheduled_clock::ScheduledClock;
pub use security::Security;
pub use server::{
    AskAddress, AskLeadership, AskReadiness, BindError, BoundServer, ServeError, Services,
};
pub use socket::{BoundSocket, SocketError};
pub use switch_tls::{SwitchStream, SwitchTls};
pub use turns::give_turn;
pub use whole_file::write_whole;
