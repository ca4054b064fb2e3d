//! Keeps up with the kernel: a task for each bridge that looks at it, and one for each network
//! namespace that hears of changes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::commands::Commands;
use super::dispatch::{Dispatch, Event, Reaction};
use super::moves::Moves;
use super::options::Place;
use super::switch::BridgeSwitch;

/// Time in which further changes of interfaces are awaited before a look.
const BRIEF: Duration = Duration::from_millis(5);
/// Time until interfaces are watched again after that has failed, and time after which a monitor
/// that was started hears all changes.
const RETRY: Duration = Duration::from_secs(1);

/// State that all tasks share.
pub(super) struct Follower {
    pub(super) commands: Arc<dyn Commands>,
    pub(super) moves: Arc<Moves>,
    /// Time between two looks at a bridge.
    pub(super) sweep: Duration,
}

impl Follower {
    /// Starts the tasks, which end when stopped.
    pub(super) fn start<'a>(
        &self,
        bridges: impl Iterator<Item = &'a Arc<BridgeSwitch>>,
        stop: &CancellationToken,
    ) {
        let mut namespaces: BTreeMap<Option<String>, Vec<(Place, watch::Sender<()>)>> =
            BTreeMap::new();
        for bridge in bridges {
            let (place, news) = (bridge.place.clone(), watch::Sender::new(()));
            let followed = Followed {
                bridge: Arc::clone(bridge),
                moves: Arc::clone(&self.moves),
                sweep: self.sweep,
                news: news.clone(),
            };
            namespaces.entry(place.namespace.clone()).or_default().push((place, news));
            let stop = stop.clone();
            tokio::spawn(async move { stop.run_until_cancelled(followed.follow()).await });
        }
        for (namespace, followed) in namespaces {
            let (places, news) = followed.into_iter().unzip();
            let dispatch = Mutex::new(Dispatch::new(places));
            let commands = Arc::clone(&self.commands);
            let monitor = Monitor { commands, namespace, dispatch, news };
            let stop = stop.clone();
            tokio::spawn(async move { stop.run_until_cancelled(monitor.run()).await });
        }
    }
}

/// A bridge whose ports are followed.
struct Followed {
    bridge: Arc<BridgeSwitch>,
    moves: Arc<Moves>,
    sweep: Duration,
    /// Changes whenever an interface of the bridge does.
    news: watch::Sender<()>,
}

impl Followed {
    /// Looks at the bridge whenever an interface changes, and every sweep.
    async fn follow(self) {
        let mut news = self.news.subscribe();
        loop {
            // If it cannot be used, it has said so.
            let looked = self.bridge.look().await;
            if looked.is_ok()
                && let Err(error) = self.bridge.align().await
            {
                let reason = error.to_string();
                tracing::warn!(switch = self.bridge.name, reason, "programs not led");
            }
            self.moves.retry().await;
            // A changed interface is told in several lines.
            if timeout(self.sweep, news.changed()).await.is_ok() {
                sleep(BRIEF).await;
                news.mark_unchanged();
            }
        }
    }
}

/// Hears of the interfaces of a network namespace, for all of its bridges.
struct Monitor {
    commands: Arc<dyn Commands>,
    /// `None` for that of the agent.
    namespace: Option<String>,
    dispatch: Mutex<Dispatch>,
    /// Those of the bridges, in the order of the dispatch.
    news: Vec<watch::Sender<()>>,
}

impl Monitor {
    /// Runs `ip monitor`, and starts it again when it has ended.
    async fn run(self) {
        let hear = |heard| self.take(Event::Heard(heard));
        loop {
            let mut told = self.commands.monitor(self.namespace.as_deref(), &hear);
            let error = match timeout(RETRY, &mut told).await {
                Ok(error) => error,
                Err(_elapsed) => {
                    self.take(Event::Stands);
                    told.await
                }
            };
            self.take(Event::Ended(error));
            sleep(RETRY).await;
        }
    }

    fn take(&self, event: Event) {
        let reaction = self.dispatch.lock().handle(event);
        match reaction {
            Reaction::Look(bridges) => {
                for news in bridges.into_iter().filter_map(|at| self.news.get(at)) {
                    news.send_replace(());
                }
            }
            Reaction::Warn(error) => {
                let (namespace, reason) = (self.namespace.as_deref(), error.to_string());
                tracing::warn!(namespace, reason, "interfaces not watched");
            }
        }
    }
}
