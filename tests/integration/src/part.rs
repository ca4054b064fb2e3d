//! One part of Fabricast in a runtime of its own.
//!
//! A part is killed by shutting its runtime down: all tasks stop where they are, the sockets close,
//! and no destructor can send anything. Aborting the serving task is not enough, because accepted
//! connections live in tasks of their own.

use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::wait::{eventually, soon};

/// A future that can be sent to the part's runtime.
type Sent<T> = Pin<Box<dyn Future<Output = T> + Send>>;
/// Binds the part to an address.
type Bind = Box<dyn Fn(SocketAddr) -> Sent<Result<Bound, String>> + Send + Sync>;

/// A part that holds its address and does not run yet.
pub struct Bound {
    /// Address that the part listens at.
    pub address: SocketAddr,
    /// Stops the part gracefully.
    pub stop: CancellationToken,
    /// Runs the part until it is stopped.
    pub run: Sent<Result<(), String>>,
}

impl Bound {
    /// Puts together an address and what runs there.
    ///
    /// - `run`: the part's `run`.
    pub fn new<E, F>(address: SocketAddr, run: impl FnOnce(CancellationToken) -> F) -> Self
    where
        E: std::fmt::Debug,
        F: Future<Output = Result<(), E>> + Send + 'static,
    {
        let stop = CancellationToken::new();
        let running = run(stop.clone());
        let run = Box::pin(async move { running.await.map_err(|error| format!("{error:?}")) });
        Self { address, stop, run }
    }
}

struct Running {
    runtime: Runtime,
    stop: CancellationToken,
    ended: JoinHandle<Result<(), String>>,
}

/// A part that can be started, stopped, killed and started again.
pub struct Part {
    name: String,
    bind: Bind,
    address: SocketAddr,
    running: Option<Running>,
}

impl Part {
    /// Starts a part at a free port.
    ///
    /// - `bind`: binds it to an address, inside the part's runtime; called at every start.
    pub async fn start<F>(
        name: &str,
        bind: impl Fn(SocketAddr) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Bound, String>> + Send + 'static,
    {
        let mut part = Self {
            name: name.to_owned(),
            bind: Box::new(move |address| Box::pin(bind(address))),
            address: (Ipv4Addr::LOCALHOST, 0).into(),
            running: None,
        };
        part.restart().await;
        part
    }

    /// The address; the same after every start.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts it again at its address, with the data that it has stored.
    ///
    /// # Panics
    ///
    /// If it runs, or cannot start though its predecessor is gone.
    pub async fn restart(&mut self) {
        assert!(self.running.is_none(), "{} runs already", self.name);
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name(self.name.clone())
            .enable_all()
            .build()
            .expect("a runtime can be had");
        // The predecessor may still hold the address or the store for a moment.
        let bound = eventually(&format!("{} starts", self.name), async || {
            runtime.spawn((self.bind)(self.address)).await.expect("binding does not panic")
        })
        .await;
        self.address = bound.address;
        let ended = runtime.spawn(bound.run);
        self.running = Some(Running { runtime, stop: bound.stop, ended });
    }

    /// Ends it without cleaning up, as a crash does.
    pub fn kill(&mut self) {
        if let Some(running) = self.running.take() {
            running.runtime.shutdown_background();
        }
    }

    /// Stops it gracefully. Returns the time that this took.
    ///
    /// # Panics
    ///
    /// If it was not running, or ended with an error.
    pub async fn stop(&mut self) -> Duration {
        let Running { runtime, stop, ended } = self.running.take().expect("it runs");
        let started = Instant::now();
        stop.cancel();
        let ended = soon(ended).await.expect("no panic");
        assert_eq!(ended, Ok(()), "{} ends well", self.name);
        let took = started.elapsed();
        runtime.shutdown_background();
        took
    }

    /// Result of the part, if it has ended by itself.
    pub async fn ended(&mut self) -> Option<Result<(), String>> {
        let running = self.running.as_mut().filter(|running| running.ended.is_finished())?;
        let ended = (&mut running.ended).await;
        Some(ended.unwrap_or_else(|panic| Err(panic.to_string())))
    }
}

impl std::fmt::Debug for Part {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Part")
            .field("name", &self.name)
            .field("address", &self.address)
            .field("runs", &self.running.is_some())
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Bound {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Bound").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.kill();
    }
}
