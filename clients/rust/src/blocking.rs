//! Blocking interface, for programs without async.
//!
//! ```no_run
//! # fn example() -> Result<(), fabricast_client::Error> {
//! use fabricast_client::blocking::Client;
//!
//! let client = Client::from_environment()?;
//! let group = client.join("rows/3")?;
//! group.wait_for(4)?;
//! println!("I am {} of {}", group.rank(), group.barrier()?.len());
//! # Ok(())
//! # }
//! ```
//!
//! A thread serves the connection between calls. Do not call it from within an async runtime.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use crate::{Error, GroupPath, Member, Message, Number, Payloads, Reduction, Settings, SwitchTree};

/// A process attached to the operating agent of its node; see [`crate::Client`].
#[derive(Clone, Debug)]
pub struct Client {
    client: crate::Client,
    runtime: Arc<Runtime>, // dropped last: the client's tasks run in it
}

/// A membership of this process; see [`crate::Group`].
#[derive(Clone, Debug)]
pub struct Group {
    group: crate::Group,
    runtime: Arc<Runtime>,
}

/// Stream of changes of the members of a group; see [`crate::MemberWatch`].
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
    /// As there, or [`Error::Runtime`].
    pub fn from_environment() -> Result<Self, Error> {
        Self::attach(Settings::from_environment()?)
    }

    /// As [`crate::Client::connect`].
    ///
    /// # Errors
    ///
    /// As there, or [`Error::Runtime`].
    pub fn connect(socket: impl AsRef<std::path::Path>) -> Result<Self, Error> {
        Self::attach(Settings::at(socket.as_ref()))
    }

    /// As [`crate::Client::attach`].
    ///
    /// # Errors
    ///
    /// As there, or [`Error::Runtime`].
    pub fn attach(settings: Settings) -> Result<Self, Error> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("fabricast-client")
            .enable_all()
            .build()
            .map_err(Error::Runtime)?;
        let client = block_on(&runtime, crate::Client::attach(settings))?;
        Ok(Self { client, runtime: Arc::new(runtime) })
    }

    /// Returns the name under which the process is attached.
    #[must_use]
    pub fn process(&self) -> &str {
        self.client.process()
    }

    /// Returns the node of the process.
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
        let group = block_on(&self.runtime, self.client.join(group))?;
        Ok(Group { group, runtime: Arc::clone(&self.runtime) })
    }
}

/// Blocks until a future has ended.
///
/// The runtime sees one type of future for each output, because tokio's scheduler is compiled again
/// for each type.
fn block_on<T>(runtime: &Runtime, work: impl Future<Output = T>) -> T {
    let work: Pin<&mut dyn Future<Output = T>> = pin!(work);
    runtime.block_on(work)
}

impl Group {
    /// Returns the name of the group.
    #[must_use]
    pub fn name(&self) -> &str {
        self.group.name()
    }

    /// Returns the rank (PN) of this process, which no other member has.
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
        block_on(&self.runtime, self.group.members())
    }

    /// As [`crate::Group::size`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn size(&self) -> Result<usize, Error> {
        block_on(&self.runtime, self.group.size())
    }

    /// As [`crate::Group::watch_members`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn watch_members(&self) -> Result<MemberWatch, Error> {
        let watch = block_on(&self.runtime, self.group.watch_members())?;
        Ok(MemberWatch { watch, runtime: Arc::clone(&self.runtime) })
    }

    /// As [`crate::Group::take_part`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn take_part(&self) -> Result<(), Error> {
        block_on(&self.runtime, self.group.take_part())
    }

    /// As [`crate::Group::participants`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn participants(&self) -> Result<Vec<u32>, Error> {
        block_on(&self.runtime, self.group.participants())
    }

    /// As [`crate::Group::wait_for`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn wait_for(&self, count: usize) -> Result<Vec<u32>, Error> {
        block_on(&self.runtime, self.group.wait_for(count))
    }

    /// As [`crate::Group::multicast`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn multicast(&self, payload: &[u8]) -> Result<Vec<u32>, Error> {
        block_on(&self.runtime, self.group.multicast(payload))
    }

    /// As [`crate::Group::multicast_best_effort`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn multicast_best_effort(&self, payload: &[u8]) -> Result<(), Error> {
        block_on(&self.runtime, self.group.multicast_best_effort(payload))
    }

    /// As [`crate::Group::receive`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn receive(&self) -> Result<Message, Error> {
        block_on(&self.runtime, self.group.receive())
    }

    /// As [`crate::Group::receive_timeout`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn receive_timeout(&self, timeout: Duration) -> Result<Option<Message>, Error> {
        block_on(&self.runtime, self.group.receive_timeout(timeout))
    }

    /// As [`crate::Group::request_switch_tree`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn request_switch_tree(&self) -> Result<SwitchTree, Error> {
        block_on(&self.runtime, self.group.request_switch_tree())
    }

    /// As [`crate::Group::combined_by_switches`].
    #[must_use]
    pub fn combined_by_switches(&self) -> u64 {
        self.group.combined_by_switches()
    }

    /// As [`crate::Group::path`].
    #[must_use]
    pub fn path(&self) -> GroupPath {
        self.group.path()
    }

    /// As [`crate::Group::connections`].
    #[must_use]
    pub fn connections(&self) -> usize {
        self.group.connections()
    }

    /// As [`crate::Group::among_survivors`].
    #[must_use]
    pub fn among_survivors(&self) -> Self {
        Self { group: self.group.among_survivors(), runtime: Arc::clone(&self.runtime) }
    }

    /// As [`crate::Group::barrier`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn barrier(&self) -> Result<Vec<u32>, Error> {
        block_on(&self.runtime, self.group.barrier())
    }

    /// As [`crate::Group::broadcast`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn broadcast(&self, source: u32, payload: &[u8]) -> Result<Vec<u8>, Error> {
        block_on(&self.runtime, self.group.broadcast(source, payload))
    }

    /// As [`crate::Group::reduce`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn reduce<N: Number>(
        &self,
        root: u32,
        reduction: Reduction,
        numbers: &[N],
    ) -> Result<Option<Vec<N>>, Error> {
        block_on(&self.runtime, self.group.reduce(root, reduction, numbers))
    }

    /// As [`crate::Group::all_reduce`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn all_reduce<N: Number>(
        &self,
        reduction: Reduction,
        numbers: &[N],
    ) -> Result<Vec<N>, Error> {
        block_on(&self.runtime, self.group.all_reduce(reduction, numbers))
    }

    /// As [`crate::Group::gather`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn gather(&self, root: u32, payload: &[u8]) -> Result<Option<Payloads>, Error> {
        block_on(&self.runtime, self.group.gather(root, payload))
    }

    /// As [`crate::Group::scatter`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn scatter(&self, source: u32, parts: &[(u32, Vec<u8>)]) -> Result<Option<Vec<u8>>, Error> {
        block_on(&self.runtime, self.group.scatter(source, parts))
    }

    /// As [`crate::Group::all_gather`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn all_gather(&self, payload: &[u8]) -> Result<Payloads, Error> {
        block_on(&self.runtime, self.group.all_gather(payload))
    }

    /// As [`crate::Group::scan`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn scan<N: Number>(&self, reduction: Reduction, numbers: &[N]) -> Result<Vec<N>, Error> {
        block_on(&self.runtime, self.group.scan(reduction, numbers))
    }

    /// As [`crate::Group::leave`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn leave(self) -> Result<(), Error> {
        block_on(&self.runtime, self.group.leave())
    }
}

impl MemberWatch {
    /// As [`crate::MemberWatch::next`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn wait(&mut self) -> Result<Vec<Member>, Error> {
        block_on(&self.runtime, self.watch.next())
    }
}
