//! One term: the tasks that run in it, and the services that it offers.

use std::sync::Arc;
use std::time::Duration;

use fabricast_groups::Gn;
use fabricast_groups::directory::Directory;
use fabricast_groups::names::EndpointName;
use fabricast_groups::watch::{Blocks, WatchConfig};
use fabricast_proto::v1::collective_service_server::CollectiveServiceServer;
use fabricast_proto::v1::group_batch_service_server::GroupBatchServiceServer;
use fabricast_proto::v1::job_service_server::JobServiceServer;
use fabricast_proto::v1::route_choice_service_server::RouteChoiceServiceServer;
use fabricast_proto::v1::tic_service_server::TicServiceServer;
use fabricast_proto::v1::topology_service_server::TopologyServiceServer;
use fabricast_routing::LayoutError;
use fabricast_topology::Graph;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::api::batches::GroupBatches;
use crate::api::choice_report::ReportContext;
use crate::api::choices::RouteChoices;
use crate::api::collectives::Collectives;
use crate::api::gate::{CurrentServices, LeaderServices};
use crate::api::job_placer::JobPlacer;
use crate::api::jobs::Jobs;
use crate::api::record_export::RecordExports;
use crate::api::term_holder::{ActiveRouter, TermHolder};
use crate::api::tic::{PLANS, StaleReads, Tic};
use crate::api::topology::Topologies;
use crate::clock::BootClock;
use crate::config::Setup;
use crate::domain::collectives::text::Texts;
use crate::domain::collectives::{CollectiveAllocations, CollectiveParts};
use crate::domain::elements::FailedElements;
use crate::domain::mgids::MgidAllocations;
use crate::domain::route_terms::{GrantedTerm, RouteTerms};
use crate::domain::shares::JobShares;
use crate::domain::topology::TopologySnapshot;
use crate::expiry::JobExpiry;
use crate::gauges;
use crate::leadership::election::LeaderLease;
use crate::liveness::Liveness;
use crate::liveness::hints::{HintSender, Hints};
use crate::liveness::inbox::LivenessInbox;
use crate::liveness::peers::NodePeers;
use crate::records::Records;
use crate::records::choices::ChoiceStore;
use crate::records::copy::RecordsCopy;
use crate::records::storage::{Loaded, Storage, StoredChoices};
use crate::records::watchers::{WatchEnd, Watchers};
use crate::writer::Writer;
use crate::writer::error::TermEnd;
use crate::writer::queue::{WriteReceiver, WriterQueue};
use crate::writer::state::WriterState;

/// Longest message of a batch, in bytes: a group of a million members goes into one.
const BATCH_MESSAGE: usize = 64 << 20;

/// Most open watches.
const WATCHES: usize = 64;
/// Hints to one address are at least this far apart, so that they merge.
const HINT_PAUSE: Duration = Duration::from_millis(20);

/// Builds the services and tasks of each term of a TIC.
#[derive(Debug)]
pub(crate) struct TermBuilder {
    pub(crate) setup: Setup,
    pub(crate) storage: Storage,
    pub(crate) current: Arc<CurrentServices>,
    pub(crate) peers: Arc<NodePeers>,
    pub(crate) active_router: ActiveRouter,
    /// Times of the watch over nodes, which may change while a term runs.
    pub(crate) watch_config: Arc<watch::Sender<WatchConfig>>,
}

/// The tasks of one term, before they run.
#[derive(Debug)]
pub(crate) struct Term {
    queue: WriteReceiver,
    writer: Writer,
    liveness: Liveness,
    records: Arc<Records>,
    choices: Arc<ChoiceStore>,
    hints: Arc<Hints>,
    hint_sender: HintSender,
    expiry: JobExpiry,
}

/// The two steps in which a TIC stops.
#[derive(Clone, Debug)]
pub(crate) struct Shutdown {
    /// Cancelled first: no new calls are taken.
    pub(crate) stop: CancellationToken,
    /// Cancelled then: the calls in flight have been answered.
    pub(crate) drained: CancellationToken,
}

impl TermBuilder {
    /// Builds a term from what the store holds.
    pub(crate) fn build(
        &self,
        lease: &LeaderLease,
        mut loaded: Loaded,
    ) -> Result<(LeaderServices, Term), LayoutError> {
        let setup = &self.setup;
        let engine_options = setup.engine_options();
        let discovered = loaded.topology.take();
        let topology = TopologySnapshot::new(&setup.topology, discovered, engine_options);
        let graph = Arc::clone(&topology.graph);
        let mgids = MgidAllocations::new(Arc::clone(&graph), engine_options, &loaded.directory)?;
        let revision = loaded.directory.revision().0;
        let groups = loaded.directory.groups_from(Gn(0)).count();
        tracing::info!(revision, groups, "records read");
        let records = self.records(&topology, loaded.directory.clone(), loaded.failed);
        let (hints, inbox) = (Arc::<Hints>::default(), Arc::<LivenessInbox>::default());
        let blocks = blocks(&graph);
        let (queue, receiver) = WriterQueue::open(setup.order_queue);
        let route_terms = RouteTerms::new(loaded.route_term, setup.config.route_lease);
        let tic = Tic {
            queue: queue.clone(),
            records: Arc::clone(&records),
            liveness: Arc::clone(&inbox),
            topology: topology.clone(),
            colors: setup.config.colors,
            space: *mgids.space(),
            route_term: route_terms.granted(),
            term_holder: TermHolder::default(),
            active_router: self.active_router.clone(),
            plans: Arc::new(Semaphore::new(PLANS)),
            exports: RecordExports::new(&self.storage),
            stale_reads: None,
        };
        let choices = self.choices(lease, &records, &route_terms, loaded.choices);
        let services = leader_services(lease, tic, &queue, &choices);
        let collectives = self.collectives(&topology, &records, loaded.collectives);
        let rules = setup.config.job_shares.rules(setup.config.colors);
        let state = WriterState {
            shares: JobShares::new(graph, rules, &loaded.directory),
            directory: loaded.directory,
            inverses: Vec::new(),
            mgids,
            collectives,
            route_terms,
            next_topology: None,
            records: Arc::clone(&records),
            liveness: Arc::clone(&inbox),
            has_space: false,
        };
        let writer = Writer {
            state,
            storage: self.storage.clone(),
            lease: lease.clone(),
            hints: Arc::clone(&hints),
            choices: Arc::clone(&choices),
            in_doubt: false,
            no_space: None,
        };
        let peers = Arc::clone(&self.peers);
        let hint_sender =
            HintSender { peers: Arc::clone(&peers), lease: lease.clone(), pause: HINT_PAUSE };
        let config = self.watch_config.subscribe();
        let expiry = JobExpiry::new(Arc::clone(&records), queue.clone());
        let liveness = Liveness::new(inbox, Arc::clone(&records), queue, peers, config);
        let liveness = liveness.with_blocks(blocks);
        let queue = receiver;
        Ok((
            services,
            Term { queue, writer, liveness, records, choices, hints, hint_sender, expiry },
        ))
    }

    fn choices(
        &self,
        lease: &LeaderLease,
        records: &Arc<Records>,
        route_terms: &RouteTerms,
        stored: StoredChoices,
    ) -> Arc<ChoiceStore> {
        let (store, records) = (&self.storage.store, Arc::clone(records));
        let term = route_terms.granted();
        Arc::new(ChoiceStore::new(store, lease.clone(), records, term, stored))
    }

    fn collectives(
        &self,
        topology: &TopologySnapshot,
        records: &Records,
        texts: Texts,
    ) -> CollectiveAllocations {
        CollectiveAllocations::new(CollectiveParts {
            graph: Arc::clone(&topology.graph),
            settings: self.setup.collectives(),
            configured: self.setup.parameters,
            topology: topology.sha256.iter().map(|byte| format!("{byte:02x}")).collect(),
            texts,
            publisher: Arc::clone(&records.collectives),
        })
    }

    /// Builds the service that answers stale reads while another TIC leads.
    pub(crate) fn copy(&self) -> Result<TicServiceServer<Tic>, LayoutError> {
        let engine_options = self.setup.engine_options();
        let topology = TopologySnapshot::new(&self.setup.topology, None, engine_options);
        let empty = Directory::new(self.setup.limits());
        let graph = Arc::clone(&topology.graph);
        let mgids = MgidAllocations::new(graph, engine_options, &empty)?;
        let records = self.records(&topology, empty, Vec::new());
        // Nobody reads this queue: the gate lets no call through that writes.
        let (queue, _) = WriterQueue::open(1);
        Ok(TicServiceServer::new(Tic {
            queue,
            records: Arc::clone(&records),
            liveness: Arc::default(),
            topology,
            colors: self.setup.config.colors,
            space: *mgids.space(),
            route_term: GrantedTerm::default(),
            term_holder: TermHolder::default(),
            active_router: self.active_router.clone(),
            plans: Arc::new(Semaphore::new(PLANS)),
            exports: RecordExports::new(&self.storage),
            stale_reads: Some(StaleReads {
                leader: Arc::clone(&self.current.leader),
                copy: Arc::new(RecordsCopy::new(
                    self.storage.clone(),
                    records,
                    Arc::new(BootClock),
                )),
            }),
        }))
    }

    fn records(
        &self,
        topology: &TopologySnapshot,
        directory: Directory,
        failed: Vec<(String, String)>,
    ) -> Arc<Records> {
        let watchers = Watchers::new(self.setup.watch_queue, WATCHES);
        let failed = FailedElements::load(&topology.graph, failed);
        Arc::new(Records::new(topology, directory, failed, watchers))
    }
}

/// Nodes at one leaf switch are a block.
fn blocks(graph: &Graph) -> Blocks {
    let block = |endpoint| {
        let switch = graph.switch_of(graph.attachment(endpoint)?);
        let name = EndpointName::new(graph.endpoint_name(endpoint)).ok()?;
        Some((name, u32::try_from(switch.index()).ok()?))
    };
    graph.endpoints().filter_map(block).collect()
}

fn leader_services(
    lease: &LeaderLease,
    tic: Tic,
    queue: &WriterQueue,
    choices: &Arc<ChoiceStore>,
) -> LeaderServices {
    let graph = &tic.topology.graph;
    let context =
        ReportContext { graph: Arc::clone(graph), topology_sha256: tic.topology.sha256[..].into() };
    let collectives = Collectives {
        queue: queue.clone(),
        publisher: Arc::clone(&tic.records.collectives),
        graph: Arc::clone(graph),
        term_holder: tic.term_holder.clone(),
    };
    let term_holder = tic.term_holder.clone();
    let choices = RouteChoices { store: Arc::clone(choices), context, term_holder };
    LeaderServices {
        lease: lease.clone(),
        queue: queue.clone(),
        jobs: JobServiceServer::new(Jobs {
            graph: Arc::clone(&tic.topology.graph),
            queue: queue.clone(),
            records: Arc::clone(&tic.records),
            placer: Arc::new(JobPlacer::new(&tic)),
        }),
        topologies: TopologyServiceServer::new(Topologies {
            queue: queue.clone(),
            records: Arc::clone(&tic.records),
            topology: tic.topology.clone(),
            drained: Arc::default(),
            is_replaced: Arc::default(),
        })
        .max_decoding_message_size(BATCH_MESSAGE),
        choices: RouteChoiceServiceServer::new(choices),
        collectives: CollectiveServiceServer::new(collectives),
        batches: GroupBatchServiceServer::new(GroupBatches::new(tic.clone()))
            .max_decoding_message_size(BATCH_MESSAGE),
        tic: TicServiceServer::new(tic),
    }
}

impl Term {
    /// Works until the calls in flight have been answered after a stop.
    ///
    /// # Errors
    ///
    /// [`TermEnd`] if it cannot go on.
    pub(crate) async fn run(self, shutdown: Shutdown) -> Result<(), TermEnd> {
        let choices = Arc::clone(&self.choices);
        let ended = Box::pin(self.run_tasks(shutdown)).await;
        // The next term reads the store.
        choices.close().await;
        ended
    }

    async fn run_tasks(self, shutdown: Shutdown) -> Result<(), TermEnd> {
        let Self { queue, writer, liveness, records, choices: _, hints, hint_sender, expiry } =
            self;
        let Shutdown { stop, drained } = shutdown;
        // The tasks end with the term, also when it is cut short.
        let ends = stop.child_token();
        let _ends = ends.clone().drop_guard();
        let _closes = CloseWatches(Arc::clone(&records));
        let mut tasks = JoinSet::new();
        let counting = gauges::update_until(
            ends.clone(),
            Arc::clone(&records),
            Arc::clone(&writer.state.liveness),
        );
        tasks.spawn(async move {
            counting.await;
            Ok(())
        });
        tasks.spawn(writer.run(queue, drained));
        let expiring = expiry.run(ends.clone());
        tasks.spawn(async move {
            expiring.await;
            Ok(())
        });
        let watching = liveness.run(ends.clone());
        tasks.spawn(async move {
            watching.await;
            Ok(())
        });
        tasks.spawn(async move {
            hints.run(hint_sender, ends).await;
            Ok(())
        });
        let mut waiting_for = Some(stop);
        loop {
            let stopped = async {
                match &waiting_for {
                    Some(stop) => stop.cancelled().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                ended = tasks.join_next() => match ended {
                    Some(Ok(Ok(()))) => {}
                    Some(Ok(Err(ended))) => return Err(ended),
                    Some(Err(panic)) => return Err(TermEnd::Task(panic)),
                    None => return Ok(()),
                },
                () = stopped => {
                    records.close(WatchEnd::ShuttingDown); // a watch never ends by itself
                    waiting_for = None;
                }
            }
        }
    }
}

/// Ends the watches when the term ends.
struct CloseWatches(Arc<Records>);

impl Drop for CloseWatches {
    fn drop(&mut self) {
        self.0.close(WatchEnd::NotLeader);
    }
}
