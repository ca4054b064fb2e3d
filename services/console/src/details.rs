//! Answers that only one page shows: fetched when it is opened, and kept for all its viewers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fabricast_proto::v1;
use fabricast_routing::Capacity;
use fabricast_rpc::Reason;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::calls::{Calls, text};
use crate::capacity::{self, CapacityInput, MAX_GROUPS};
use crate::poller::Shared;
use crate::snapshot::Snapshot;

/// Time for which an answer is given again, whatever has changed.
const FRESH: Duration = Duration::from_millis(150);
/// Time for which an answer is given again if no record has changed.
const KEEP: Duration = Duration::from_secs(2);
/// Most answers of a kind that are kept (CONSOLE-2).
const MAX_KEPT: usize = 256;
/// Most pages that fetch at once.
const MAX_FETCHING: usize = 8;
/// Most groups whose routes are asked for together, and how many at a time.
const MAX_ROUTES: usize = 2_000;
const ROUTES_AT_ONCE: usize = 8;
/// Most groups on the same tree whose routes are compared.
const MAX_SHARERS: usize = 6;

/// Fetches answers for single pages.
#[derive(Debug)]
pub(crate) struct Details {
    calls: Calls,
    shared: Shared,
    permits: Semaphore,
    groups: Kept<GroupDetail>,
    routes: Kept<v1::RouteExplanation>,
    all_routes: Kept<Vec<v1::RouteExplanation>>,
    nodes: Kept<v1::GetNodeResponse>,
    switches: Kept<SwitchDetail>,
    tables: Kept<Vec<v1::SwitchTable>>,
    jobs: Kept<JobsDetail>,
    one_job: Kept<v1::Job>,
    /// The cost of table sizes, by the records that it was computed of; one is computed at a time.
    capacity: tokio::sync::Mutex<Option<KeptCapacity>>,
}

#[derive(Debug)]
struct KeptCapacity {
    revision: u64,
    answer: Answer<Capacity>,
}

/// An answer, or why there is none.
pub(crate) type Answer<T> = Arc<Result<T, String>>;

/// A group, its members and its route.
#[derive(Clone, Debug)]
pub(crate) struct GroupDetail {
    pub(crate) group: v1::Group,
    pub(crate) route: Answer<v1::RouteExplanation>,
    pub(crate) sharers: Vec<Sharer>,
}

/// A group on the same tree.
#[derive(Clone, Debug)]
pub(crate) struct Sharer {
    pub(crate) name: String,
    /// A link that both use; none if they meet only through other groups, or it was not looked for.
    pub(crate) link: Option<v1::TreeLink>,
}

/// The ports and the table of a switch.
#[derive(Clone, Debug)]
pub(crate) struct SwitchDetail {
    pub(crate) ports: Vec<v1::PortStatus>,
    pub(crate) table: v1::SwitchTable,
}

/// The jobs, the room for more, and what tenants hold.
#[derive(Clone, Debug)]
pub(crate) struct JobsDetail {
    pub(crate) jobs: Vec<v1::Job>,
    /// There are more jobs.
    pub(crate) is_cut: bool,
    pub(crate) report: Answer<v1::GetJobReportResponse>,
    pub(crate) usage: Answer<v1::GetEntryUsageResponse>,
}

impl Details {
    pub(crate) fn new(calls: Calls, shared: Shared) -> Self {
        Self {
            calls,
            shared,
            permits: Semaphore::new(MAX_FETCHING),
            groups: Kept::default(),
            routes: Kept::default(),
            all_routes: Kept::default(),
            nodes: Kept::default(),
            switches: Kept::default(),
            tables: Kept::default(),
            jobs: Kept::default(),
            one_job: Kept::default(),
            capacity: tokio::sync::Mutex::default(),
        }
    }

    /// A group with its members and its route.
    pub(crate) async fn group(&self, name: &str) -> Answer<GroupDetail> {
        let state = State::of(&self.shared.now());
        let fetch = async {
            let permit = self.permits.acquire().await;
            let group = self.calls.group(name).await.map_err(|error| text(&error))?;
            drop(permit);
            let route = self.route(name).await;
            let sharers = match &*route {
                Ok(route) => self.sharers(route).await,
                Err(_) => Vec::new(),
            };
            Ok(GroupDetail { group, route, sharers })
        };
        self.groups.get(name, state, fetch).await
    }

    /// The route of a group.
    pub(crate) async fn route(&self, name: &str) -> Answer<v1::RouteExplanation> {
        let state = State::of(&self.shared.now());
        let fetch = async {
            let _permit = self.permits.acquire().await;
            self.calls.route(name).await.map_err(|error| text(&error))
        };
        self.routes.get(name, state, fetch).await
    }

    /// The routes of all groups, which are told by name.
    pub(crate) async fn routes(&self, groups: Vec<String>) -> Answer<Vec<v1::RouteExplanation>> {
        let state = State::of(&self.shared.now());
        let fetch = async {
            if groups.len() > MAX_ROUTES {
                return Err(format!("more than {MAX_ROUTES} groups are not asked for at once"));
            }
            let _permit = self.permits.acquire().await;
            let mut routes = Vec::with_capacity(groups.len());
            for some in groups.chunks(ROUTES_AT_ONCE) {
                let mut asking = JoinSet::new();
                for group in some {
                    let (calls, group) = (self.calls.clone(), group.clone());
                    asking.spawn(async move { calls.route(&group).await });
                }
                for answer in asking.join_all().await {
                    // A group may have ended meanwhile.
                    match answer {
                        Ok(route) => routes.push(route),
                        Err(error) if error.reason() == Some(Reason::UnknownGroup) => {}
                        Err(error) => return Err(text(&error)),
                    }
                }
            }
            routes.sort_by(|a, b| a.group.cmp(&b.group));
            Ok(routes)
        };
        self.all_routes.get("", state, fetch).await
    }

    /// The groups on the same tree, the first of them with a link that both use.
    async fn sharers(&self, route: &v1::RouteExplanation) -> Vec<Sharer> {
        let mut sharers = Vec::new();
        for (index, name) in route.shares_with.iter().enumerate() {
            let mut sharer = Sharer { name: name.clone(), link: None };
            if index < MAX_SHARERS
                && let Ok(other) = &*self.route(name).await
            {
                sharer.link = common_link(route, other);
            }
            sharers.push(sharer);
        }
        sharers
    }

    /// A node with its memberships.
    pub(crate) async fn node(&self, name: &str) -> Answer<v1::GetNodeResponse> {
        let state = State::of(&self.shared.now());
        let fetch = async {
            let _permit = self.permits.acquire().await;
            self.calls.node(name).await.map_err(|error| text(&error))
        };
        self.nodes.get(name, state, fetch).await
    }

    /// All jobs, and what tenants hold.
    pub(crate) async fn jobs(&self) -> Answer<JobsDetail> {
        let fetch = async {
            let _permit = self.permits.acquire().await;
            let (jobs, is_cut) = self.calls.jobs().await.map_err(|error| text(&error))?;
            let report = self.calls.job_report().await.map_err(|error| text(&error));
            let usage = self.calls.entry_usage().await.map_err(|error| text(&error));
            Ok(JobsDetail { jobs, is_cut, report: Arc::new(report), usage: Arc::new(usage) })
        };
        self.jobs.get("", State::of(&self.shared.now()), fetch).await
    }

    /// One job.
    pub(crate) async fn job(&self, name: &str) -> Answer<v1::Job> {
        let fetch = async {
            let _permit = self.permits.acquire().await;
            self.calls.job(name).await.map_err(|error| text(&error))
        };
        self.one_job.get(name, State::of(&self.shared.now()), fetch).await
    }

    /// The cost of other sizes of tables for the groups that there are, which may take seconds; it
    /// is computed once for each state of the records.
    pub(crate) async fn capacity(&self) -> Answer<Capacity> {
        let mut held = self.capacity.lock().await;
        let now = self.shared.now();
        if let Some(kept) = held.as_ref().filter(|kept| kept.revision == now.revision) {
            return Arc::clone(&kept.answer);
        }
        let answer = Arc::new(self.compute_capacity(&now).await);
        if answer.is_ok() {
            *held = Some(KeptCapacity { revision: now.revision, answer: Arc::clone(&answer) });
        }
        answer
    }

    async fn compute_capacity(&self, now: &Snapshot) -> Result<Capacity, String> {
        let fabric = now.fabric.clone().ok_or("no TIC has answered")?;
        let status = now.status.clone().ok_or("no route service answers")?;
        if now.groups.len() > MAX_GROUPS {
            return Err(format!("more than {MAX_GROUPS} groups are not planned for here"));
        }
        let tables =
            now.switches.first().map_or(v1::TableKind::Unspecified, |one| one.table_kind());
        let groups = self.calls.groups().await.map_err(|error| text(&error))?;
        let input = CapacityInput { fabric, status, tables, groups };
        let computing = tokio::task::spawn_blocking(move || capacity::compute(&input));
        computing.await.map_err(|_panic| "it could not be computed".to_owned())?
    }

    /// The ports and the table of a switch.
    pub(crate) async fn switch(&self, name: &str) -> Answer<SwitchDetail> {
        let snapshot = self.shared.now();
        let fetch = async {
            let _permit = self.permits.acquire().await;
            let agents = snapshot.switch_agents();
            let ports = self.calls.ports(&agents, name).await.map_err(|error| text(&error))?;
            let tables = self.calls.tables(&agents, &[name.to_owned()]).await;
            let tables = tables.map_err(|error| text(&error))?;
            Ok(SwitchDetail { ports, table: tables.into_iter().next().unwrap_or_default() })
        };
        self.switches.get(name, State::of(&snapshot), fetch).await
    }

    /// The tables of several switches.
    ///
    /// - `key`: stands for the list of names.
    pub(crate) async fn tables(&self, key: &str, names: &[String]) -> Answer<Vec<v1::SwitchTable>> {
        let snapshot = self.shared.now();
        let fetch = async {
            let _permit = self.permits.acquire().await;
            let tables = self.calls.tables(&snapshot.switch_agents(), names).await;
            tables.map_err(|error| text(&error))
        };
        self.tables.get(key, State::of(&snapshot), fetch).await
    }
}

fn common_link(a: &v1::RouteExplanation, b: &v1::RouteExplanation) -> Option<v1::TreeLink> {
    // A link is named from either end.
    let is_same = |x: &v1::TreeLink, y: &v1::TreeLink| {
        let ends = |l: &v1::TreeLink| (l.switch_name.clone(), l.port);
        let far = |l: &v1::TreeLink| (l.peer.clone(), l.peer_port);
        (ends(x) == ends(y) && far(x) == far(y)) || (ends(x) == far(y) && far(x) == ends(y))
    };
    // Links between switches are what trees meet at; those of endpoints say less.
    let mut links: Vec<&v1::TreeLink> = a.links.iter().collect();
    links.sort_by_key(|link| link.peer_port == 0);
    links.into_iter().find(|link| b.links.iter().any(|other| is_same(link, other))).cloned()
}

/// The state that an answer was fetched in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    revision: u64,
    fence: Option<v1::Fence>,
    entries: u64,
}

impl State {
    fn of(snapshot: &Snapshot) -> Self {
        let status = snapshot.status.as_ref();
        Self {
            revision: snapshot.revision,
            fence: status.and_then(|status| status.fence),
            entries: status.map_or(0, |status| status.programmed_entries),
        }
    }
}

/// Answers by what was asked; whoever asks for one that is under way waits for it.
#[derive(Debug)]
struct Kept<T> {
    entries: Mutex<BTreeMap<String, Entry<T>>>,
}

type Entry<T> = Arc<tokio::sync::Mutex<Option<KeptAnswer<T>>>>;

#[derive(Debug)]
struct KeptAnswer<T> {
    at: Instant,
    state: State,
    answer: Answer<T>,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self { entries: Mutex::default() }
    }
}

impl<T> Kept<T> {
    async fn get(
        &self,
        key: &str,
        state: State,
        fetch: impl Future<Output = Result<T, String>>,
    ) -> Answer<T> {
        let entry = {
            let mut entries = self.entries.lock();
            if entries.len() >= MAX_KEPT && !entries.contains_key(key) {
                entries.clear();
            }
            Arc::clone(entries.entry(key.to_owned()).or_default())
        };
        let mut held = entry.lock().await;
        if let Some(kept) = &*held {
            let age = kept.at.elapsed();
            if age < FRESH || (age < KEEP && kept.state == state) {
                return Arc::clone(&kept.answer);
            }
        }
        let answer = Arc::new(fetch.await);
        *held = Some(KeptAnswer { at: Instant::now(), state, answer: Arc::clone(&answer) });
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    const STATE: State = State { revision: 1, fence: None, entries: 0 };

    #[tokio::test]
    async fn many_viewers_cost_one_call() {
        let kept = Arc::new(Kept::<u32>::default());
        let calls = Arc::new(AtomicU32::new(0));
        let mut asking = JoinSet::new();
        for _ in 0..200 {
            let (kept, calls) = (Arc::clone(&kept), Arc::clone(&calls));
            asking.spawn(async move {
                let fetch = async { Ok(calls.fetch_add(1, Ordering::Relaxed)) };
                kept.get("group", STATE, fetch).await
            });
        }
        for answer in asking.join_all().await {
            assert_eq!(*answer, Ok(0));
        }
        assert_eq!(calls.load(Ordering::Relaxed), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_fetched_again_after_a_change() {
        let kept = Kept::<u32>::default();
        assert_eq!(*kept.get("a", STATE, async { Ok(1) }).await, Ok(1));
        tokio::time::advance(FRESH).await;
        assert_eq!(*kept.get("a", STATE, async { Ok(2) }).await, Ok(1), "nothing has changed");
        let later = State { revision: 2, ..STATE };
        assert_eq!(*kept.get("a", later, async { Ok(3) }).await, Ok(3));
        for key in 0..2 * MAX_KEPT {
            kept.get(&key.to_string(), STATE, async { Ok(0) }).await;
        }
        assert!(kept.entries.lock().len() <= MAX_KEPT);
    }
}
