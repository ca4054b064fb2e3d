//! Every store passes the same suite. A new kind of store adds a file here that opens one and calls
//! [`suite::run`].

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

mod embedded;
mod needs_etcd;
mod suite;
