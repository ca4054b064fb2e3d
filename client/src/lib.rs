//! What a process uses to take part in groups: it attaches to the operating agent of its node, over a
//! Unix domain socket, and joins groups by name.
//!
//! Read [`Client`] first, then [`Group`]; [`blocking`] has the same for programs without async. An agent
//! listens where its settings say (`fabricast up --socket PATH`); `fabricast run` starts programs that
//! find it by themselves.
//!
//! ```no_run
//! # async fn example() -> Result<(), fabricast_client::Error> {
//! use fabricast_client::Client;
//!
//! let client = Client::from_environment().await?;
//! let group = client.join("rows/3").await?;
//! println!("I am {} of {}", group.rank(), group.members().await?.len());
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
mod session;
mod settings;

pub use error::Error;
pub use group::{Group, Member, MemberWatch};
pub use session::{Client, Reserved};
pub use settings::Settings;
