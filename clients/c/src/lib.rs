//! C library for programs that use hardware multicast groups and collective operations:
//! `libfabricast.so`, over the Rust client.
//!
//! `include/fabricast.h` declares and documents every function; a test compares it with what the
//! library exports. Read [`failure::guard`] first: every function runs in it, so that a failure is
//! a code and a text, and no panic reaches C.
//!
//! Each handle has its connection, or a share of it, and functions take handles by reference: any
//! number of threads may use one. What C has to promise is the same everywhere, and the header says
//! it: pointers are valid for the lengths given, and no handle is used after it was freed.
#![expect(unsafe_code, reason = "called by C; `arguments.rs` reads and writes what C points to")]

mod arguments;
mod callback;
mod client;
mod failure;
mod group;
mod members;
mod message;
mod numbers;
mod operation;
mod outcome;
mod payload_list;
mod payloads;
mod request;
mod runtime;
mod turns;
