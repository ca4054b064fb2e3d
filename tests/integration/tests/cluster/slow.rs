//! A node that says nothing but answers when it is asked: it is slow, not dead.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use fabricast_integration::{Cluster, Layout, eventually};
use fabricast_proto::v1;
use fabricast_proto::v1::operating_agent_service_server::{
    OperatingAgentService, OperatingAgentServiceServer,
};
use fabricast_rpc::{BoundServer, Security, Services, request_id};
use tokio_util::sync::CancellationToken;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};

/// An operating agent that can only be probed.
#[derive(Clone, Debug, Default)]
struct Slow {
    probes: Arc<AtomicU32>,
}

fn too_slow<T>() -> Result<Response<T>, Status> {
    Err(Status::unimplemented("this node only answers probes"))
}

#[tonic::async_trait]
impl OperatingAgentService for Slow {
    async fn probe_node(
        &self,
        _request: Request<v1::ProbeNodeRequest>,
    ) -> Result<Response<v1::ProbeNodeResponse>, Status> {
        self.probes.fetch_add(1, Ordering::Relaxed);
        Ok(Response::new(v1::ProbeNodeResponse { incarnation: 1 }))
    }

    async fn join_group(
        &self,
        _: Request<v1::OperatingAgentServiceJoinGroupRequest>,
    ) -> Result<Response<v1::OperatingAgentServiceJoinGroupResponse>, Status> {
        too_slow()
    }

    async fn leave_group(
        &self,
        _: Request<v1::OperatingAgentServiceLeaveGroupRequest>,
    ) -> Result<Response<v1::OperatingAgentServiceLeaveGroupResponse>, Status> {
        too_slow()
    }

    async fn join_many(
        &self,
        _: Request<v1::OperatingAgentServiceJoinManyRequest>,
    ) -> Result<Response<v1::OperatingAgentServiceJoinManyResponse>, Status> {
        too_slow()
    }

    async fn leave_many(
        &self,
        _: Request<v1::OperatingAgentServiceLeaveManyRequest>,
    ) -> Result<Response<v1::OperatingAgentServiceLeaveManyResponse>, Status> {
        too_slow()
    }

    async fn query_group(
        &self,
        _: Request<v1::OperatingAgentServiceQueryGroupRequest>,
    ) -> Result<Response<v1::OperatingAgentServiceQueryGroupResponse>, Status> {
        too_slow()
    }

    async fn list_memberships(
        &self,
        _: Request<v1::ListMembershipsRequest>,
    ) -> Result<Response<v1::ListMembershipsResponse>, Status> {
        too_slow()
    }

    async fn send_packet(
        &self,
        _: Request<v1::SendPacketRequest>,
    ) -> Result<Response<v1::SendPacketResponse>, Status> {
        too_slow()
    }

    type ReceivePacketsStream = BoxStream<v1::ReceivePacketsResponse>;

    async fn receive_packets(
        &self,
        _: Request<v1::ReceivePacketsRequest>,
    ) -> Result<Response<Self::ReceivePacketsStream>, Status> {
        too_slow()
    }

    type OpenLinkStream = BoxStream<v1::OpenLinkResponse>;

    async fn open_link(
        &self,
        _: Request<tonic::Streaming<v1::OpenLinkRequest>>,
    ) -> Result<Response<Self::OpenLinkStream>, Status> {
        too_slow()
    }

    async fn update_positions(
        &self,
        _: Request<v1::UpdatePositionsRequest>,
    ) -> Result<Response<v1::UpdatePositionsResponse>, Status> {
        too_slow()
    }

    async fn list_hosted_nodes(
        &self,
        _: Request<v1::ListHostedNodesRequest>,
    ) -> Result<Response<v1::ListHostedNodesResponse>, Status> {
        too_slow()
    }

    async fn stop_node(
        &self,
        _: Request<v1::StopNodeRequest>,
    ) -> Result<Response<v1::StopNodeResponse>, Status> {
        too_slow()
    }

    async fn start_node(
        &self,
        _: Request<v1::StartNodeRequest>,
    ) -> Result<Response<v1::StartNodeResponse>, Status> {
        too_slow()
    }

    async fn measure_operations(
        &self,
        _: Request<v1::MeasureOperationsRequest>,
    ) -> Result<Response<v1::MeasureOperationsResponse>, Status> {
        too_slow()
    }
}

/// A cluster without node `n15`, whose place the slow node "snail" takes.
struct Snail {
    cluster: Cluster,
    probes: Arc<AtomicU32>,
    power: CancellationToken,
}

impl Snail {
    async fn start() -> Self {
        let mut layout = Layout::leaf_spine();
        layout.hosts[1].pop();
        let cluster = Cluster::start(layout).await;
        let (slow, power) = (Slow::default(), CancellationToken::new());
        let probes = Arc::clone(&slow.probes);
        let server =
            BoundServer::bind("127.0.0.1:0".parse().unwrap(), Security::plaintext()).unwrap();
        let node = v1::Node {
            name: "snail".to_owned(),
            address: server.address().to_string(),
            endpoints: vec!["h15".to_owned()],
            ..Default::default()
        };
        let services = Services::new("snail").with(OperatingAgentServiceServer::new(slow));
        tokio::spawn(server.serve(services, power.clone()));
        let node = Some(node);
        let request = v1::RegisterNodeRequest { node, start_id: 1, ..Default::default() };
        cluster.client.tic().register_node(request).await.unwrap();
        Self { cluster, probes, power }
    }

    async fn join(&self, group: &str) {
        let request = v1::JoinGroupRequest {
            request_id: request_id(),
            group: group.to_owned(),
            node: "snail".to_owned(),
            incarnation: 1,
            endpoint: "h15".to_owned(),
            process: "p0".to_owned(),
            ..Default::default()
        };
        self.cluster.client.tic().join_group(request).await.unwrap();
    }

    async fn is_member_of(&self, group: &str) -> bool {
        let groups = self.cluster.client.groups().await;
        let group = groups.iter().find(|one| one.name == group);
        group.is_some_and(|group| group.members.iter().any(|member| member.node == "snail"))
    }

    /// Probed again and again it stays; without power it goes.
    async fn spared_until_it_is_dead(self, group: &str) {
        eventually("the snail is probed three times", async || {
            let probes = self.probes.load(Ordering::Relaxed);
            if probes >= 3 { Ok(()) } else { Err(format!("{probes} probes")) }
        })
        .await;
        assert!(self.is_member_of(group).await);
        let record = self.cluster.client.node("snail").await.unwrap();
        assert_eq!((record.state(), record.incarnation), (v1::NodeState::Up, 1));
        let died = Instant::now();
        self.power.cancel();
        eventually("the dead snail is expelled", async || {
            let state = self.cluster.client.node("snail").await?.state();
            let member = self.is_member_of(group).await;
            let gone = state == v1::NodeState::Failed && !member;
            if gone { Ok(()) } else { Err(format!("{state:?}")) }
        })
        .await;
        assert!(died.elapsed() < Duration::from_secs(8), "{:?}", died.elapsed());
    }
}

#[tokio::test]
async fn a_slow_member_is_probed_by_its_group_agent_and_stays() {
    let snail = Snail::start().await;
    snail.cluster.client.join_all("g", &["n0", "n5"]).await;
    snail.join("g").await;
    snail.spared_until_it_is_dead("g").await;
}

#[tokio::test]
async fn a_slow_host_of_a_group_agent_is_probed_by_the_tic_and_stays() {
    let snail = Snail::start().await;
    snail.join("own").await;
    snail.spared_until_it_is_dead("own").await;
}
