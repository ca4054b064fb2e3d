//! Client library for processes: attach to the operating agent of the node over a Unix domain
//! socket, join groups by name, send messages to their members and run collective operations.
//! `docs/messages.md` lists the guarantees.
//!
//! Read [`Client`] first, then [`Group`]; [`blocking`] is the interface for programs without async.
//! `fabricast up --socket PATH` starts an agent; `fabricast run` starts programs with the socket in
//! their environment.
//!
//! ```no_run
//! # async fn example() -> Result<(), fabricast_client::Error> {
//! use fabricast_client::{Client, Reduction};
//!
//! let client = Client::from_environment().await?;
//! let group = client.join("rows/3").await?;
//! group.wait_for(4).await?;
//! group.multicast(b"here I am").await?;
//! let sum = group.all_reduce(Reduction::Sum, &[group.rank()]).await?;
//! println!("I am {}; our ranks add up to {}", group.rank(), sum[0]);
//! group.leave().await?;
//! # Ok(())
//! # }
//! ```
//!
//! Memberships of a process end with it, however it ends: its agent sees the connection close.

mod agent_part;
pub mod blocking;
mod client;
mod direct;
mod error;
mod group;
mod memory;
mod operations;
mod part;
mod part_state;
mod segments;
mod session;
mod settings;

pub use client::{Client, Reserved};
pub use error::Error;
pub use group::{Group, Member, MemberWatch, SwitchTree};
pub use operations::{Number, Payloads, Reduction};
pub use part_state::Message;
pub use settings::{GroupPath, Path, Settings};
