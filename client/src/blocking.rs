//! The same for programs without async: every call waits for its end.
//!
//! ```no_run
//! # fn example() -> Result<(), fabricast_client::Error> {
//! use fabricast_client::blocking::Client;
//!
//! let client = Client::from_environment()?;
//! let group = client.join("rows/3")?;
//! println!("I am {} of {}", group.rank(), group.size()?);
//! # Ok(())
//! # }
//! ```
//!
//! One thread of its own keeps the connection going between calls. Calls must not be made from within an
//! async runtime.

use std::path::Path;
use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};

use crate::{Error, Member, Settings};

/// A process attached to the operating agent of its node; see [`crate::Client`].
#[derive(Clone, Debug)]
pub struct Client {
    client: crate::Client,
    runtime: Arc<Runtime>, // last: the client's tasks run in it
}

/// A membership of this process; see [`crate::Group`].
#[derive(Clone, Debug)]
pub struct Group {
    group: crate::Group,
    runtime: Arc<Runtime>,
}

/// News of the members of a group; see [`crate::MemberWatch`].
#[derive(Debug)]
pub struct MemberWatch {
    watch: crate::MemberWatch,
    runtime: Arc<Runtime>,
}

impl Client {
    /// As [`crate::Client::from_environment`].
    ///
    /// # Errors
    ///
    /// As there, and [`Error::Runtime`].
    pub fn from_environment() -> Result<Self, Error> {
        Self::attach(Settings::from_environment()?)
    }

    /// As [`crate::Client::connect`].
    ///
    /// # Errors
    ///
    /// As there, and [`Error::Runtime`].
    pub fn connect(socket: impl AsRef<Path>) -> Result<Self, Error> {
        Self::attach(Settings::at(socket.as_ref()))
    }

    /// As [`crate::Client::attach`].
    ///
    /// # Errors
    ///
    /// As there, and [`Error::Runtime`].
    pub fn attach(settings: Settings) -> Result<Self, Error> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("fabricast-client")
            .enable_all()
            .build()
            .map_err(Error::Runtime)?;
        let client = runtime.block_on(crate::Client::attach(settings))?;
        Ok(Self { client, runtime: Arc::new(runtime) })
    }

    /// The name under which the process is attached.
    #[must_use]
    pub fn process(&self) -> &str {
        self.client.process()
    }

    /// The node that the process is on.
    #[must_use]
    pub fn node(&self) -> &str {
        self.client.node()
    }

    /// As [`crate::Client::join`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn join(&self, group: &str) -> Result<Group, Error> {
        let group = self.runtime.block_on(self.client.join(group))?;
        Ok(Group { group, runtime: Arc::clone(&self.runtime) })
    }
}

impl Group {
    /// The name of the group.
    #[must_use]
    pub fn name(&self) -> &str {
        self.group.name()
    }

    /// The rank of this process: its PN, which no other member has.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.group.rank()
    }

    /// As [`crate::Group::members`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn members(&self) -> Result<Vec<Member>, Error> {
        self.runtime.block_on(self.group.members())
    }

    /// As [`crate::Group::size`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn size(&self) -> Result<usize, Error> {
        self.runtime.block_on(self.group.size())
    }

    /// As [`crate::Group::watch_members`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn watch_members(&self) -> Result<MemberWatch, Error> {
        let watch = self.runtime.block_on(self.group.watch_members())?;
        Ok(MemberWatch { watch, runtime: Arc::clone(&self.runtime) })
    }

    /// As [`crate::Group::leave`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn leave(self) -> Result<(), Error> {
        self.runtime.block_on(self.group.leave())
    }
}

impl MemberWatch {
    /// As [`crate::MemberWatch::next`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn wait(&mut self) -> Result<Vec<Member>, Error> {
        self.runtime.block_on(self.watch.next())
    }
}
