//! Traffic of endpoints: unicast patterns, multicast streams with roots chosen by load.

mod patterns;
mod registers;
mod streams;

pub use patterns::{Destinations, UnicastPattern};
pub use registers::{LoadMeasure, Reading, Registers};
pub use streams::{Finished, MulticastLoad, Received, Streams, StreamsSpec, UnicastLoad};
