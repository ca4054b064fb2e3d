//! What a process uses to take part in groups: it attaches to the operating agent of its node, over a
//! Unix domain socket, joins groups by name, sends messages to their members and runs collective operations with
//! them; `docs/messages.md` says what is promised.
//!
//! Read [`Client`] first, then [`Group`]; [`blocking`] has the same for programs without async. An agent
//! listens where its settings say (`fabricast up --socket PATH`); `fabricast run` starts programs that
//! find it by themselves.
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
//! What a process is a member of ends with the process, however that ends: its agent sees the connection
//! close.

pub mod blocking;
mod error;
mod group;
mod memory;
mod operations;
mod part;
mod session;
mod settings;

pub use error::Error;
pub use group::{Group, Member, MemberWatch};
pub use operations::{Number, Payloads, Reduction};
pub use part::Message;
pub use session::{Client, Reserved};
pub use settings::Settings;
