//! All parts together over real gRPC, every test with a cluster of its own.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod driver;
mod restarts;
mod stability;
