//! Answers that only one page shows: fetched when it is opened, and kept for all its viewers.

mod kept;
mod processes;

use std::collections::BTreeSet;
use std::sync::Arc;

use fabricast_proto::v1;
use fabricast_routing::Capacity;
use tokio::sync::Semaphore;
use tonic::Streaming;

use crate::calls::{Calls, text};
use crate::capacity::{self, CapacityInput, MAX_GROUPS};
use crate::poller::Shared;
use crate::rate_meter::RateDemand;
use crate::snapshot::Snapshot;

use kept::{Kept, State};

pub(crate) use kept::Answer;
pub(crate) use processes::{Call, Metrics, Process};

/// Most pages that fetch at once.
const MAX_FETCHING: usize = 8;
/// Most answers to what would be with other faults, which may be long, that are kept.
const MAX_PLANS: usize = 8;
/// Most groups on the same tree whose routes are compared.
const MAX_SHARERS: usize = 24;
/// Most switches of a tree whose counters are read.
const MAX_COUNTED: usize = 64;

/// Fetches answers for single pages.
#[derive(Debug)]
pub(crate) struct Details {
    calls: Calls,
    shared: Shared,
    demand: RateDemand,
    permits: Semaphore,
    /// Permit to have the route service plan, which may take seconds.
    planning: Semaphore,
    groups: Kept<GroupDetail>,
    routes: Kept<v1::RouteExplanation>,
    faults: Kept<v1::PlanFaultsResponse>,
    link_loads: Kept<v1::ListLinkLoadsResponse>,
    processes: Kept<Vec<Process>>,
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

/// A group, its members and its route.
#[derive(Clone, Debug)]
pub(crate) struct GroupDetail {
    pub(crate) group: v1::Group,
    pub(crate) route: Answer<v1::RouteExplanation>,
    pub(crate) sharers: Vec<Sharer>,
    /// Counters of the switches on the tree, of 64 at most.
    pub(crate) counters: Answer<Vec<v1::SwitchCounters>>,
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
    pub(crate) fn new(calls: Calls, shared: Shared, demand: RateDemand) -> Self {
        Self {
            calls,
            shared,
            demand,
            permits: Semaphore::new(MAX_FETCHING),
            planning: Semaphore::new(1),
            groups: Kept::default(),
            routes: Kept::default(),
            faults: Kept::until_a_change(MAX_PLANS),
            link_loads: Kept::default(),
            processes: Kept::default(),
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
            let (sharers, counters) = match &*route {
                Ok(route) => (self.sharers(route).await, self.counters(route).await),
                Err(_) => (Vec::new(), Arc::new(Ok(Vec::new()))),
            };
            Ok(GroupDetail { group, route, sharers, counters })
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

    /// The routes that groups would have with other faults, planned once for each state.
    pub(crate) async fn faults(
        &self,
        request: v1::PlanFaultsRequest,
    ) -> Answer<v1::PlanFaultsResponse> {
        let key = format!("{request:?}");
        let fetch = async {
            let _permit = self.planning.acquire().await;
            self.calls.plan_faults(request).await.map_err(|error| text(&error))
        };
        self.faults.get(&key, State::of(&self.shared.now()), fetch).await
    }

    /// The number of groups on each link.
    pub(crate) async fn link_loads(&self) -> Answer<v1::ListLinkLoadsResponse> {
        let fetch = async {
            let _permit = self.permits.acquire().await;
            self.calls.link_loads().await.map_err(|error| text(&error))
        };
        self.link_loads.get("", State::of(&self.shared.now()), fetch).await
    }

    /// Has the rates of packets measured for a while; they come with the state.
    pub(crate) fn want_rates(&self) {
        self.demand.renew();
    }

    /// The port counters of the switches on the tree of a group.
    async fn counters(&self, route: &v1::RouteExplanation) -> Answer<Vec<v1::SwitchCounters>> {
        let snapshot = self.shared.now();
        let switches: BTreeSet<&String> =
            route.links.iter().map(|link| &link.switch_name).collect();
        let switches: Vec<String> =
            switches.into_iter().take(MAX_COUNTED).map(String::clone).collect();
        let _permit = self.permits.acquire().await;
        let counters = match switches.is_empty() {
            true => Ok(Vec::new()),
            false => self.calls.counters(&snapshot.switch_agents(), &switches).await,
        };
        Arc::new(counters.map_err(|error| text(&error)))
    }

    /// Metrics and audit of the processes of the control plane.
    pub(crate) async fn processes(&self) -> Answer<Vec<Process>> {
        let snapshot = self.shared.now();
        let fetch = async {
            let _permit = self.permits.acquire().await;
            Ok(processes::ask(&self.calls, &snapshot.servers).await)
        };
        self.processes.get("", State::of(&snapshot), fetch).await
    }

    /// The recording of the route service.
    pub(crate) async fn recording(
        &self,
    ) -> Result<Streaming<v1::DownloadRecordingResponse>, String> {
        let _permit = self.permits.acquire().await;
        self.calls.recording().await.map_err(|error| text(&error))
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
