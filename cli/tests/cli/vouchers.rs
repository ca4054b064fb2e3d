//! An operating agent of another node: its certificate alone makes nobody a member of a group, and
//! nobody a neighbour of one.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

use fabricast_proto::v1;
use fabricast_rpc::{Channel, reason_of};
use tonic::Code;
use v1::group_agent_service_client::GroupAgentServiceClient;
use v1::operating_agent_service_client::OperatingAgentServiceClient;
use v1::tic_service_client::TicServiceClient;

use crate::certificates::{Parts, issue};
use crate::support::own_host;

/// Folder of a good certificate, of an agent that is alone with its node.
const STRANGER: &str = "operating-agent-b";

impl Parts {
    fn to_tic(&self, who: &str) -> Channel {
        self.channel(who, &self.tic)
    }

    /// To the agent of `node001` and `gpu042`.
    fn to_agents(&self, who: &str) -> Channel {
        self.channel(who, &self.agents)
    }

    async fn group(&self, who: &str) -> v1::Group {
        let (group, with_vouchers) = ("rows/1".to_owned(), true);
        let request = v1::GetGroupRequest { group, with_vouchers, ..Default::default() };
        let mut tic = TicServiceClient::new(self.to_tic(who));
        tic.get_group(request).await.unwrap().into_inner().group.unwrap()
    }

    /// Groups and processes of the memberships of the agent's nodes.
    async fn memberships(&self) -> Vec<(String, String)> {
        let mut agents = OperatingAgentServiceClient::new(self.to_agents("admin"));
        let request = v1::ListMembershipsRequest::default();
        let found = agents.list_memberships(request).await.unwrap().into_inner().memberships;
        found.into_iter().map(|membership| (membership.group, membership.process)).collect()
    }

    /// Nodes of the members of a group, as its agent knows them.
    async fn nodes_at_agent(&self, group: &v1::Group) -> Vec<String> {
        let mut agents = GroupAgentServiceClient::new(self.to_agents("admin"));
        let (agent_node, gn) = (group.agent_node.clone(), group.gn);
        let query = v1::QueryGroupRequest { agent_node, gn };
        let found = agents.query_group(query).await.unwrap().into_inner().group.unwrap();
        found.members.into_iter().map(|member| member.node).collect()
    }

    /// Registers a member with the group's agent, as the stranger.
    async fn register_with_agent(
        &self,
        group: &v1::Group,
        member: v1::Member,
    ) -> Result<v1::RegisterMemberResponse, tonic::Status> {
        let mut agents = GroupAgentServiceClient::new(self.to_agents(STRANGER));
        let request = v1::RegisterMemberRequest {
            agent_node: group.agent_node.clone(),
            gn: group.gn,
            epoch: group.epoch,
            member: Some(member),
        };
        Ok(agents.register_member(request).await?.into_inner())
    }
}

/// A cluster with a group of two nodes, and the certificate of an agent of a third one.
fn cluster() -> Parts {
    let parts = Parts::start();
    let host = own_host().to_string();
    issue(&parts.sandbox, STRANGER, &["operating-agent/node002"], &[host.as_str()]);
    for node in ["node001", "gpu042"] {
        let join = ["group", "join", "rows/1", "--node", node];
        parts.wait("admin", &join, &parts.agents, |_| true);
    }
    parts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_of_an_agent_makes_nobody_of_another_node_a_member() {
    let parts = cluster();
    let told = parts.group("operating-agent").await;
    assert!(told.members.iter().all(|member| member.voucher.is_some()), "{told:?}");
    for who in [STRANGER, "admin", "reader"] {
        let told = parts.group(who).await;
        assert_eq!(told.members.len(), 2, "{who}");
        assert!(told.members.iter().all(|member| member.voucher.is_none()), "{who}: {told:?}");
    }
    let before = parts.memberships().await;
    assert_eq!(before.len(), 2);
    let real = told.members.iter().find(|member| member.node == "node001").unwrap();
    let mut agents = OperatingAgentServiceClient::new(parts.to_agents(STRANGER));
    // One has no voucher, one that of a real membership.
    for voucher in [None, Some(0), real.voucher] {
        let member = v1::Member { process: "victim".to_owned(), pn: 7, voucher, ..real.clone() };
        let enrolment = v1::Enrolment {
            group: "rows/made-up".to_owned(),
            mgid: told.mgid + 1,
            member: Some(member),
            agent_node: "node002".to_owned(),
            agent_address: "127.0.0.1:1".to_owned(),
            revision: u64::MAX,
        };
        let position = v1::Position {
            gn: told.gn + 100,
            epoch: 1,
            pn: 7,
            node: "node001".to_owned(),
            version: 1,
            enrolment: Some(enrolment),
            ..Default::default()
        };
        let request = v1::UpdatePositionsRequest { positions: vec![position] };
        let answer = agents.update_positions(request).await.unwrap().into_inner();
        assert_eq!(answer.refused.len(), 1, "{voucher:?}");
        assert_eq!(parts.memberships().await, before, "{voucher:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_of_an_agent_gives_no_place_at_a_free_rank() {
    let parts = cluster();
    let group = parts.group(STRANGER).await;
    let made_up = v1::Member {
        pn: 9,
        node: "node002".to_owned(),
        endpoint: "node002 HCA-1".to_owned(),
        process: "p".to_owned(),
        address: "127.0.0.1:1".to_owned(),
        joined_revision: 1 << 40,
        incarnation: 1,
        voucher: None,
        sends_only: false,
    };
    for voucher in [None, Some(0), Some(u64::MAX)] {
        let member = v1::Member { voucher, ..made_up.clone() };
        let refused = parts.register_with_agent(&group, member).await.unwrap_err();
        assert_eq!(refused.code(), Code::NotFound, "{refused:?}");
        assert_eq!(reason_of(&refused).as_deref(), Some("NOT_A_MEMBER"));
        assert_eq!(parts.nodes_at_agent(&group).await.len(), 2);
    }
    // A member of the TIC's grant is welcome, and its voucher is good for no other.
    let mut tic = TicServiceClient::new(parts.to_tic(STRANGER));
    let node = v1::Node {
        name: "node002".to_owned(),
        address: "127.0.0.1:1".to_owned(),
        endpoints: vec!["node002 HCA-1".to_owned()],
        ..Default::default()
    };
    let register =
        v1::RegisterNodeRequest { node: Some(node), start_id: 1, voucher_key: vec![7; 16] };
    let node = tic.register_node(register).await.unwrap().into_inner().node.unwrap();
    let join = v1::JoinGroupRequest {
        request_id: "join".to_owned(),
        group: "rows/1".to_owned(),
        node: "node002".to_owned(),
        incarnation: node.incarnation,
        endpoint: "node002 HCA-1".to_owned(),
        process: "p".to_owned(),
        ..Default::default()
    };
    let granted = tic.join_group(join).await.unwrap().into_inner().member.unwrap();
    assert!(granted.voucher.is_some());
    let other = v1::Member { pn: 9, ..granted.clone() };
    let refused = parts.register_with_agent(&group, other).await.unwrap_err();
    assert_eq!(reason_of(&refused).as_deref(), Some("NOT_A_MEMBER"));
    let placed = parts.register_with_agent(&group, granted).await.unwrap().position.unwrap();
    assert!(placed.parent.is_some() || !placed.children.is_empty(), "{placed:?}");
}
