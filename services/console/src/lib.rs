//! The console: a control plane in a browser, over HTTP.
//!
//! Read [`App`] first, then `snapshot.rs`. One watch and one poller ask the control plane, through
//! the API, as any client would; every page is made of the [`Snapshot`](snapshot::Snapshot) that
//! they keep, so the number of viewers does not matter to the control plane. Data that only one
//! page shows is fetched when it is opened, and kept for a second (`details.rs`).
//!
//! Invariants
//! - CONSOLE-1: nothing is answered before the `Host` header was checked, and unless everybody may
//!   look, nothing but the sign-in page, its style and script without a session.
//! - CONSOLE-2: connections, streams of events and kept answers are bounded; a viewer that does not
//!   read is dropped.
//! - CONSOLE-3: the console makes a call that changes something only for an administrator who was
//!   shown what it would do and has shown the token again, on a form of this console.

mod access;
mod app;
mod bounded;
mod calls;
mod capacity;
mod changes;
mod details;
mod history;
mod http;
mod overlay;
mod pages;
mod poller;
mod rate_meter;
mod rates;
mod results;
mod snapshot;
mod timed_stream;

pub use access::{Level, Token};
pub use app::{App, Settings, StartError};
pub use overlay::{faults, tree_overlay};
