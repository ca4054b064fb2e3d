//! Terms of office: how one begins, what runs in it, and how it ends.

use std::sync::Arc;
use std::time::Duration;

use fabricast_groups::Gn;
use fabricast_groups::directory::Directory;
use fabricast_groups::watch::WatchConfig;
use fabricast_proto::v1::collective_service_server::CollectiveServiceServer;
use fabricast_proto::v1::group_batch_service_server::GroupBatchServiceServer;
use fabricast_proto::v1::job_service_server::JobServiceServer;
use fabricast_proto::v1::route_choice_service_server::RouteChoiceServiceServer;
use fabricast_proto::v1::tic_service_server::TicServiceServer;
use fabricast_proto::v1::topology_service_server::TopologyServiceServer;
use fabricast_routing::LayoutError;
use fabricast_rpc::Reason;
use fabricast_store::Store;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::app::{Options, RunError};
use crate::audit;
use crate::batch_service::GroupBatches;
use crate::choice_service::RouteChoices;
use crate::choices::report::Yardstick;
use crate::collective_service::Collectives;
use crate::collectives::CollectiveDesk;
use crate::election::{Candidate, Tenure};
use crate::elements::FailedElements;
use crate::hints::Hints;
use crate::job_service::Jobs;
use crate::jobs::JobDesk;
use crate::liveness::{Inbox, Liveness};
use crate::mgids::MgidChoice;
use crate::office::{Office, RecordsCopy, Seat};
use crate::orders::{OrderQueue, Orders};
use crate::peers::Peers;
use crate::records::Records;
use crate::service::Tic;
use crate::storage::{Loaded, Storage};
use crate::topology::Site;
use crate::topology_service::Topologies;
use crate::unwritten::{Ended, chain};
use crate::watchers::Watchers;
use crate::writer::Writer;

/// Longest message of a batch, in bytes: a group of a million members goes into one.
const BATCH_MESSAGE: usize = 64 << 20;

/// What was written before this time is forgotten by a store that several share.
const HISTORY: Duration = Duration::from_secs(120);

/// What every office of a TIC is made from.
#[derive(Debug)]
pub(crate) struct Blueprint {
    pub(crate) options: Options,
    pub(crate) storage: Storage,
    pub(crate) seat: Arc<Seat>,
    pub(crate) peers: Arc<Peers>,
    /// How nodes are watched now.
    pub(crate) watching: Arc<watch::Sender<WatchConfig>>,
}

/// What runs during one term of office.
#[derive(Debug)]
pub(crate) struct Term {
    tenure: Tenure,
    orders: OrderQueue,
    writer: Writer,
    liveness: Liveness,
    records: Arc<Records>,
    hints: Arc<Hints>,
    peers: Arc<Peers>,
    hint_pause: Duration,
}

impl Blueprint {
    /// Makes an office from what the store holds.
    pub(crate) fn open(
        &self,
        tenure: &Tenure,
        mut loaded: Loaded,
    ) -> Result<(Office, Term), LayoutError> {
        let options = &self.options;
        let engine_options = options.engine_options();
        let site = Site::new(&options.topology, loaded.topology.take(), engine_options);
        let graph = Arc::clone(&site.graph);
        let mgids = MgidChoice::new(Arc::clone(&graph), engine_options, &loaded.directory)?;
        let revision = loaded.directory.revision().0;
        let groups = loaded.directory.groups_from(Gn(0)).count();
        tracing::info!(revision, groups, "records read");
        let records = self.records(&site, loaded.directory.clone(), loaded.failed.clone());
        let (hints, inbox) = (Arc::<Hints>::default(), Arc::<Inbox>::default());
        let (orders, queue) = Orders::open(options.order_queue);
        let topology_sha256 = site.sha256[..].into();
        let yardstick = Yardstick { graph: Arc::clone(&graph), topology_sha256 };
        let parts = (orders.clone(), Arc::clone(&records), Arc::clone(&inbox));
        let tic = self.tic(parts, (&site, &mgids), None);
        let batches = GroupBatchServiceServer::new(GroupBatches::new(tic.clone()));
        let office = Office {
            tenure: tenure.clone(),
            batches: batches.max_decoding_message_size(BATCH_MESSAGE),
            tic: TicServiceServer::new(tic),
            jobs: JobServiceServer::new(Jobs {
                orders: orders.clone(),
                records: Arc::clone(&records),
            }),
            topologies: TopologyServiceServer::new(Topologies { orders: orders.clone() })
                .max_decoding_message_size(BATCH_MESSAGE),
            choices: RouteChoiceServiceServer::new(RouteChoices {
                orders: orders.clone(),
                yardstick,
            }),
            collectives: CollectiveServiceServer::new(Collectives {
                orders: orders.clone(),
                publisher: Arc::clone(&records.collectives),
                graph: Arc::clone(&graph),
            }),
        };
        let desk = CollectiveDesk::new(
            Arc::clone(&graph),
            options.collectives.clone(),
            site.sha256.iter().map(|byte| format!("{byte:02x}")).collect(),
            std::mem::take(&mut loaded.collectives),
            Arc::clone(&records.collectives),
        );
        let to_others = (Arc::clone(&hints), Arc::clone(&inbox));
        let writer = Writer::new(
            (self.storage.clone(), tenure.clone()),
            (loaded, options.route_lease, site),
            Arc::clone(&records),
            to_others,
            (mgids, JobDesk::new(graph), desk),
        );
        let (peers, settings) = (Arc::clone(&self.peers), self.watching.subscribe());
        let watching = (Arc::clone(&records), orders);
        let liveness = Liveness::new(inbox, watching.0, watching.1, Arc::clone(&peers), settings);
        let (tenure, hint_pause) = (tenure.clone(), options.hint_pause);
        let orders = queue;
        Ok((office, Term { tenure, orders, writer, liveness, records, hints, peers, hint_pause }))
    }

    /// What answers while another TIC leads.
    pub(crate) fn copy(&self) -> Result<TicServiceServer<Tic>, LayoutError> {
        let engine_options = self.options.engine_options();
        let site = Site::new(&self.options.topology, None, engine_options);
        let empty = Directory::new(self.options.limits.clone());
        let graph = Arc::clone(&site.graph);
        let mgids = MgidChoice::new(graph, engine_options, &empty)?;
        let records = self.records(&site, empty, Vec::new());
        let copy = RecordsCopy {
            seat: Arc::clone(&self.seat),
            storage: self.storage.clone(),
            records: Arc::clone(&records),
            read: Mutex::default(),
        };
        // Nobody reads what is put into this queue: calls that would do so do not get here.
        let (orders, _) = Orders::open(1);
        let tic = (orders, records, Arc::default());
        let tic = self.tic(tic, (&site, &mgids), Some(Arc::new(copy)));
        Ok(TicServiceServer::new(tic))
    }

    fn records(
        &self,
        site: &Site,
        directory: Directory,
        failed: Vec<(String, String)>,
    ) -> Arc<Records> {
        let watchers = Watchers::new(self.options.watch_queue, self.options.watches);
        let failed = FailedElements::load(&site.graph, failed);
        Arc::new(Records::new(site, directory, failed, watchers))
    }

    fn tic(
        &self,
        (orders, records, liveness): (Orders, Arc<Records>, Arc<Inbox>),
        (site, mgids): (&Site, &MgidChoice),
        copy: Option<Arc<RecordsCopy>>,
    ) -> Tic {
        Tic {
            orders,
            records,
            liveness,
            graph: Arc::clone(&site.graph),
            topology: Arc::clone(&site.text),
            colors: self.options.colors,
            space: *mgids.space(),
            copy,
        }
    }
}

impl Term {
    /// Works until `drained`, after `stop`: then calls in flight have been answered.
    ///
    /// # Errors
    ///
    /// [`Ended`] if it cannot go on.
    async fn run(self, stop: CancellationToken, drained: CancellationToken) -> Result<(), Ended> {
        let Self { tenure, orders, writer, liveness, records, hints, peers, hint_pause } = self;
        // The tasks end with the term, also when it is cut short.
        let ends = stop.child_token();
        let _ends = ends.clone().drop_guard();
        let _closes = Closing(Arc::clone(&records));
        let mut tasks = JoinSet::new();
        tasks.spawn(writer.run(orders, drained));
        let watching = liveness.run(ends.clone());
        tasks.spawn(async move {
            watching.await;
            Ok(())
        });
        let hinting = ends.clone();
        tasks.spawn(async move {
            hints.run((peers, tenure), hint_pause, hinting).await;
            Ok(())
        });
        let mut closing = Some(stop);
        loop {
            let stopped = async {
                match &closing {
                    Some(stop) => stop.cancelled().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                ended = tasks.join_next() => match ended {
                    Some(Ok(Ok(()))) => {}
                    Some(Ok(Err(ended))) => return Err(ended),
                    Some(Err(panic)) => return Err(Ended::Task(panic)),
                    None => return Ok(()),
                },
                () = stopped => {
                    records.close(Reason::ShuttingDown); // a watch never ends by itself
                    closing = None;
                }
            }
        }
    }
}

/// Ends the watches with the term of office.
struct Closing(Arc<Records>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close(Reason::NotLeader);
    }
}

/// How a TIC comes to lead.
#[derive(Debug)]
pub(crate) enum Ruling {
    /// It has its store to itself, and this is its first term.
    Alone(Box<Blueprint>, Box<Term>),
    /// It is one of several.
    Among(Box<Blueprint>, Candidate),
}

impl Ruling {
    /// Leads, or waits to, until `drained`.
    ///
    /// # Errors
    ///
    /// [`RunError`] if it ends by itself.
    pub(crate) async fn run(
        self,
        stop: CancellationToken,
        drained: CancellationToken,
    ) -> Result<(), RunError> {
        match self {
            Self::Alone(blueprint, term) => {
                alone(&blueprint, *term, (stop, drained)).await.map_err(|ended| match ended {
                    Ended::Store(error) => RunError::Store(error),
                    Ended::Records(error) => RunError::Records(error),
                    Ended::Layout(error) => RunError::Layout(error),
                    Ended::Task(panic) => RunError::Task(panic),
                    Ended::Deposed | Ended::Replaced => unreachable!("a term that cannot be lost"),
                })
            }
            Self::Among(blueprint, candidate) => rule(*blueprint, candidate, stop, drained).await,
        }
    }
}

/// The first term, and one more for every other topology.
async fn alone(
    blueprint: &Blueprint,
    mut term: Term,
    (stop, drained): (CancellationToken, CancellationToken),
) -> Result<(), Ended> {
    loop {
        match term.run(stop.clone(), drained.clone()).await {
            Err(Ended::Replaced) => {
                blueprint.seat.leave();
                let tenure = Tenure::alone();
                let loaded = blueprint.storage.adopt(&tenure).await?.ok_or(Ended::Deposed)?;
                let (office, next) = blueprint.open(&tenure, loaded)?;
                blueprint.seat.take(office, "");
                term = next;
            }
            ended => return ended,
        }
    }
}

/// One term of office after the other.
async fn rule(
    blueprint: Blueprint,
    candidate: Candidate,
    stop: CancellationToken,
    drained: CancellationToken,
) -> Result<(), RunError> {
    let seat = Arc::clone(&blueprint.seat);
    loop {
        let tenure = tokio::select! {
            tenure = candidate.campaign(|incumbent| seat.follow(incumbent)) => tenure,
            () = stop.cancelled() => return Ok(()),
        };
        tracing::info!(epoch = tenure.term(), "this TIC leads");
        audit::leads(tenure.term());
        let ended = tokio::select! {
            ended = lead(&blueprint, &candidate, &tenure, (stop.clone(), drained.clone())) => ended,
            () = candidate.keep(&tenure) => Err(Ended::Deposed),
        };
        seat.leave();
        candidate.resign(&tenure).await;
        match ended {
            Ok(()) => return Ok(()),
            Err(Ended::Deposed | Ended::Replaced) => {
                tracing::warn!(epoch = tenure.term(), "this TIC does not lead any more");
            }
            Err(Ended::Store(error)) => {
                tracing::warn!(error = chain(&error), "store failed, this TIC gives up the lead");
            }
            Err(Ended::Records(error)) => return Err(RunError::Records(error)),
            Err(Ended::Layout(error)) => return Err(RunError::Layout(error)),
            Err(Ended::Task(panic)) => return Err(RunError::Task(panic)),
        }
    }
}

async fn lead(
    blueprint: &Blueprint,
    candidate: &Candidate,
    tenure: &Tenure,
    (stop, drained): (CancellationToken, CancellationToken),
) -> Result<(), Ended> {
    loop {
        let adopted = blueprint.storage.adopt(tenure).await?;
        let (office, term) = blueprint.open(tenure, adopted.ok_or(Ended::Deposed)?)?;
        blueprint.seat.take(office, &candidate.address);
        let ended = tokio::select! {
            ended = term.run(stop.clone(), drained.clone()) => ended,
            () = forget_history(&blueprint.storage.store) => Ok(()),
        };
        if !matches!(ended, Err(Ended::Replaced)) {
            return ended;
        }
        blueprint.seat.leave();
    }
}

/// Forgets what nobody reads any more, again and again: a store that several share keeps its history
/// until it is told not to, and then is full.
async fn forget_history(store: &Arc<dyn Store>) {
    let mut old = None;
    loop {
        let now = store.revision().await;
        if let Some(revision) = old
            && let Err(error) = store.compact(revision).await
        {
            tracing::warn!(error = chain(&error), "history not forgotten");
        }
        old = now.ok();
        tokio::time::sleep(HISTORY).await;
    }
}
