//! `FabricService`: attached processes, faults, and the tables for switch agents.

use std::sync::Arc;

use fabricast_emulator::Fence;
use fabricast_proto::v1;
use fabricast_proto::v1::disturb_switch_request::Disturbance;
use fabricast_proto::v1::fabric_service_server::FabricService;
use fabricast_rpc::{Caller, Reason};
use tokio::sync::{mpsc, watch};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status, Streaming};

use super::attach;
use crate::disturb;
use crate::fabric::{Fabric, FailedElements};
use crate::key::ManagementKey;
use crate::tables;
use crate::wire::{self, Refusal};

/// Bound of the channels to one process, in messages of at most about 1 MiB.
const MESSAGES_IN_FLIGHT: usize = 4;

/// The service, and what its streams need.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    pub(crate) fabric: Arc<Fabric>,
    pub(crate) key: ManagementKey,
    /// Cancelled when the streams must end.
    pub(crate) stop: CancellationToken,
    /// Tasks of the streams.
    pub(crate) tasks: TaskTracker,
}

#[tonic::async_trait]
impl FabricService for Service {
    type AttachEndpointsStream = BoxStream<v1::AttachEndpointsResponse>;

    async fn attach_endpoints(
        &self,
        request: Request<Streaming<v1::AttachEndpointsRequest>>,
    ) -> Result<Response<Self::AttachEndpointsStream>, Status> {
        let mailbox = self.fabric.mailbox(Caller::of(request.extensions()));
        let (answer_sender, answers) = mpsc::channel(MESSAGES_IN_FLIGHT);
        let (to, responses) = mpsc::channel(MESSAGES_IN_FLIGHT);
        let fabric = Arc::clone(&self.fabric);
        let requests = request.into_inner();
        let listening = attach::listen(fabric, Arc::clone(&mailbox), requests, answer_sender);
        let graph = Arc::clone(&self.fabric.graph);
        let delivering = attach::deliver(graph, mailbox, answers, to, self.stop.clone());
        // The listener ends with the deliverer.
        let gone = CancellationToken::new();
        let guard = gone.clone().drop_guard();
        self.tasks.spawn(async move { gone.run_until_cancelled(listening).await });
        self.tasks.spawn(async move {
            let _ends_the_listener = guard;
            delivering.await;
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(responses))))
    }

    async fn inject_packet(
        &self,
        request: Request<v1::InjectPacketRequest>,
    ) -> Result<Response<v1::InjectPacketResponse>, Status> {
        let v1::InjectPacketRequest { endpoint, packet } = request.into_inner();
        let graph = &self.fabric.graph;
        let from = wire::endpoint(graph, &endpoint)?;
        let packet = wire::packet(packet, self.fabric.colors)?;
        let mut core = self.fabric.core();
        let (outcome, reached) = core.send(from, packet);
        let name = |endpoint: &_| graph.endpoint_name(*endpoint).to_owned();
        Ok(Response::new(v1::InjectPacketResponse {
            delivered: reached.iter().map(name).collect(),
            hops: outcome.hops,
            dropped_no_entry: outcome.dropped.no_entry,
            dropped_dead_port: outcome.dropped.dead_port,
            looped: outcome.looped(),
        }))
    }

    async fn fail_element(
        &self,
        request: Request<v1::FailElementRequest>,
    ) -> Result<Response<v1::FailElementResponse>, Status> {
        let component = wire::component(&self.fabric.graph, request.into_inner().element)?;
        let changed = self.fabric.set_live(component, false);
        Ok(Response::new(v1::FailElementResponse { changed }))
    }

    async fn heal_element(
        &self,
        request: Request<v1::HealElementRequest>,
    ) -> Result<Response<v1::HealElementResponse>, Status> {
        let component = wire::component(&self.fabric.graph, request.into_inner().element)?;
        let changed = self.fabric.set_live(component, true);
        Ok(Response::new(v1::HealElementResponse { changed }))
    }

    async fn disturb_switch(
        &self,
        request: Request<v1::DisturbSwitchRequest>,
    ) -> Result<Response<v1::DisturbSwitchResponse>, Status> {
        let v1::DisturbSwitchRequest { switch_name, disturbance } = request.into_inner();
        let disturbance = disturbance.ok_or(Refusal::Missing { field: "disturbance" })?;
        let switch = wire::switch(&self.fabric.graph, &switch_name)?;
        let changed = match disturbance {
            Disturbance::Wipe(_) => disturb::wipe(&self.fabric, switch),
            Disturbance::Corrupt(how) => disturb::corrupt(&self.fabric, switch, how.entries),
            Disturbance::Programming(behavior) => {
                self.fabric.write_behaviors.set(switch, behavior);
                Some(0)
            }
        };
        let dead =
            || Reason::SwitchDown.status("the switch does not answer", &[("switch", &switch_name)]);
        let changed_entries = changed.ok_or_else(dead)?;
        tracing::info!(switch = switch_name, entries = changed_entries, "switch disturbed");
        Ok(Response::new(v1::DisturbSwitchResponse { changed_entries }))
    }

    type WatchFailedElementsStream = BoxStream<v1::WatchFailedElementsResponse>;

    async fn watch_failed_elements(
        &self,
        request: Request<v1::WatchFailedElementsRequest>,
    ) -> Result<Response<Self::WatchFailedElementsStream>, Status> {
        self.key.check(&request.into_inner().management_key)?;
        let (to, lists) = mpsc::channel(1);
        self.tasks.spawn(send_failed(self.fabric.watch_failed(), to, self.stop.clone()));
        Ok(Response::new(Box::pin(ReceiverStream::new(lists))))
    }

    async fn list_fabric_switches(
        &self,
        request: Request<v1::ListFabricSwitchesRequest>,
    ) -> Result<Response<v1::ListFabricSwitchesResponse>, Status> {
        self.key.check(&request.into_inner().management_key)?;
        let switches = tables::list(&self.fabric);
        Ok(Response::new(v1::ListFabricSwitchesResponse { switches }))
    }

    type ReadSwitchTablesStream = BoxStream<v1::ReadSwitchTablesResponse>;

    async fn read_switch_tables(
        &self,
        request: Request<v1::ReadSwitchTablesRequest>,
    ) -> Result<Response<Self::ReadSwitchTablesStream>, Status> {
        let v1::ReadSwitchTablesRequest { management_key, switch_names } = request.into_inner();
        self.key.check(&management_key)?;
        let switches = tables::find_all(&self.fabric, &switch_names)?;
        let fabric = Arc::clone(&self.fabric);
        // A dead switch has no tables and is left out.
        let answers = tokio_stream::iter(switches).filter_map(move |switch| {
            let table = tables::read(&fabric, switch)?;
            Some(Ok(v1::ReadSwitchTablesResponse { table: Some(table) }))
        });
        Ok(Response::new(Box::pin(answers)))
    }

    async fn write_switch_tables(
        &self,
        request: Request<v1::WriteSwitchTablesRequest>,
    ) -> Result<Response<v1::WriteSwitchTablesResponse>, Status> {
        let v1::WriteSwitchTablesRequest { management_key, fence, writes } = request.into_inner();
        self.key.check(&management_key)?;
        let v1::Fence { term, generation } = fence.ok_or(Refusal::Missing { field: "fence" })?;
        let graph = &self.fabric.graph;
        let targets = writes.iter().filter_map(|write| graph.find_switch(&write.switch_name));
        tokio::time::sleep(self.fabric.write_behaviors.delay(targets)).await;
        let answer = tables::write(&self.fabric, Fence { term, generation }, &writes);
        Ok(Response::new(answer?))
    }

    type ReadSwitchCountersStream = BoxStream<v1::ReadSwitchCountersResponse>;

    async fn read_switch_counters(
        &self,
        request: Request<v1::ReadSwitchCountersRequest>,
    ) -> Result<Response<Self::ReadSwitchCountersStream>, Status> {
        let v1::ReadSwitchCountersRequest { management_key, switch_names } = request.into_inner();
        self.key.check(&management_key)?;
        let switches = tables::find_all(&self.fabric, &switch_names)?;
        let fabric = Arc::clone(&self.fabric);
        let answers = tokio_stream::iter(switches).filter_map(move |switch| {
            let counters = tables::counters(&fabric, switch)?;
            Some(Ok(v1::ReadSwitchCountersResponse { counters: Some(counters) }))
        });
        Ok(Response::new(Box::pin(answers)))
    }

    async fn list_switch_ports(
        &self,
        request: Request<v1::ListSwitchPortsRequest>,
    ) -> Result<Response<v1::ListSwitchPortsResponse>, Status> {
        let v1::ListSwitchPortsRequest { management_key, switch_name } = request.into_inner();
        self.key.check(&management_key)?;
        let ports = tables::ports(&self.fabric, &switch_name)?;
        Ok(Response::new(v1::ListSwitchPortsResponse { ports }))
    }
}

/// Sends the newest list of failed parts whenever it changes and the reader has room.
async fn send_failed(
    mut failed: watch::Receiver<FailedElements>,
    to: mpsc::Sender<Result<v1::WatchFailedElementsResponse, Status>>,
    stop: CancellationToken,
) {
    loop {
        let room = tokio::select! {
            () = stop.cancelled() => return,
            room = to.reserve() => room,
        };
        let Ok(room) = room else { return };
        let elements = failed.borrow_and_update().to_vec();
        room.send(Ok(v1::WatchFailedElementsResponse { elements }));
        tokio::select! {
            () = stop.cancelled() => return,
            () = to.closed() => return,
            changed = failed.changed() => if changed.is_err() { return },
        }
    }
}
