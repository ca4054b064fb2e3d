//! `CollectiveAgentService`: processes of the nodes hosted here take part in collectives.
//!
//! The TIC is asked for the collective's trees at every run: a tree that was lost a moment ago is
//! not used again. The values go to the fabric, whose switches and adapters combine them.

use std::sync::Arc;

use fabricast_proto::v1;
use fabricast_proto::v1::collective_agent_service_server::CollectiveAgentService;
use fabricast_rpc::Reason;
use tonic::{Request, Response, Status};

use super::membership_requests::live_node;
use super::status::unreachable;
use crate::agent::Agent;
use crate::collectives::{CollectiveError, CollectiveProcess, bytes_of, choose_tree};

/// The gRPC service.
#[derive(Clone, Debug)]
pub(crate) struct CollectiveAgent {
    agent: Arc<Agent>,
}

impl CollectiveAgent {
    pub(crate) fn new(agent: &Arc<Agent>) -> Self {
        Self { agent: Arc::clone(agent) }
    }

    async fn collective(&self, name: String) -> Result<v1::Collective, Status> {
        let mut tic = self.agent.runtime.channels.collectives();
        let answer = tic.get_collective(v1::GetCollectiveRequest { name }).await;
        let answer = answer.map_err(|status| unreachable(status, "TIC"))?;
        Ok(answer.into_inner().collective.unwrap_or_default())
    }
}

#[tonic::async_trait]
impl CollectiveAgentService for CollectiveAgent {
    async fn run_collective(
        &self,
        request: Request<v1::RunCollectiveRequest>,
    ) -> Result<Response<v1::RunCollectiveResponse>, Status> {
        let request = request.into_inner();
        let node = live_node(&self.agent.runtime.nodes, &request.node)?;
        let collective = self.collective(request.collective).await?;
        let process = CollectiveProcess::find(&collective, node.as_str(), &request.process);
        let process = process.ok_or_else(|| CollectiveError::NotAMember {
            collective: collective.name.clone(),
            node: node.to_string(),
            process: request.process.clone(),
        })?;
        let bytes = bytes_of(request.values.as_ref());
        let tree = choose_tree(&collective, request.work.as_ref(), bytes)?;
        let contribution = v1::ContributeValuesRequest {
            tree: tree.tree,
            sequence: request.sequence,
            process_count: process.count,
            to: Some(process.target(tree).ok_or(CollectiveError::NotInTree)?),
            process: Some(process.process),
            work: request.work,
            values: request.values,
            timeout: request.timeout,
        };
        let none = || Reason::FabricUnavailable.status("there is no emulated fabric", &[]);
        let mut fabric = self.agent.runtime.channels.aggregation().ok_or_else(none)?;
        let answer = fabric.contribute_values(contribution).await;
        let answer = answer.map_err(|status| unreachable(status, "fabric"))?;
        let values = answer.into_inner().values;
        Ok(Response::new(v1::RunCollectiveResponse { values, tree: tree.tree }))
    }
}
