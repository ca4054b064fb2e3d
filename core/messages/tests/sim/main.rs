//! Many layers together, in simulated time and under drawn faults.

#![expect(clippy::unwrap_used, reason = "what is not there fails the test")]

mod deaths;
mod early;
mod hostile;
mod messages;
mod multicast;
mod operations;
mod steps;
mod storm;
mod successors;
mod world;
