//! Properties of every fabric, policy and load.

mod conservation;
mod deadlock;
mod latency;
mod queues;
mod support;
mod throughput;
mod valleys;
