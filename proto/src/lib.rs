//! The wire contract of Fabricast: the types generated from `fabricast/v1/*.proto`.
//!
//! Read the `.proto` files first; they say what each call does and which errors it has. The Rust
//! in `generated/` is checked in and written by `cargo xtask proto`, so a build needs no `protoc`.

mod calls;

pub use calls::BytesCodec;

/// Messages, clients and servers of the package `fabricast.v1`.
pub mod v1 {
    include!("generated/fabricast.v1.rs");
}

/// The compiled descriptors of `fabricast.v1` and its imports, for gRPC reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("generated/descriptor.bin");
