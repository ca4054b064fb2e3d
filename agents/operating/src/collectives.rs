//! `CollectiveAgentService`: processes of the nodes hosted here take part in collectives.
//!
//! What a collective runs on is asked of the TIC for every run: a tree that was lost a moment ago is not
//! used again. The values go to the fabric, whose switches and adapters combine them.

use fabricast_group::wire::name;
use fabricast_groups::names::NodeName;
use fabricast_groups::operating::Phase;
use fabricast_proto::v1;
use fabricast_proto::v1::aggregation_node::Kind;
use fabricast_proto::v1::collective_agent_service_server::CollectiveAgentService;
use fabricast_proto::v1::collective_service_client::CollectiveServiceClient;
use fabricast_proto::v1::fabric_aggregation_service_client::FabricAggregationServiceClient;
use fabricast_rpc::{Reason, reason_of};
use tonic::{Request, Response, Status};

use crate::host::Host;

/// Bytes in one message: a collective of the largest group fits.
const MESSAGE_LIMIT: usize = 64 * 1024 * 1024;

/// The gRPC service.
#[derive(Clone, Debug)]
pub(crate) struct CollectiveAgent {
    pub(crate) host: Host,
}

impl CollectiveAgent {
    fn live_node(&self, text: &str) -> Result<NodeName, Status> {
        let node = name("node", text, NodeName::new)?;
        let facts = [("node", node.as_str())];
        match self.host.look(&node, |agent| agent.phase()) {
            None => {
                let text = format!("node: '{node}' is not hosted here");
                Err(Reason::UnknownNode.status(text, &facts))
            }
            Some(Phase::Stopped) => {
                Err(Reason::NodeStopped.status(format!("node '{node}' is stopped"), &facts))
            }
            Some(Phase::Up | Phase::Registering) => Ok(node),
        }
    }

    async fn collective(&self, name: String) -> Result<v1::Collective, Status> {
        let client = CollectiveServiceClient::new(self.host.0.tic.channel());
        let mut client = client.max_decoding_message_size(MESSAGE_LIMIT);
        let answer = client.get_collective(v1::GetCollectiveRequest { name }).await;
        let answer = answer.map_err(|status| unreachable(status, "TIC"))?;
        Ok(answer.into_inner().collective.unwrap_or_default())
    }
}

/// What the peer itself has to say goes on as it is.
fn unreachable(status: Status, peer: &str) -> Status {
    if reason_of(&status).is_some() {
        return status;
    }
    let text = format!("the {peer} does not answer: {}", status.message());
    Reason::PeerUnavailable.status(text, &[])
}

#[tonic::async_trait]
impl CollectiveAgentService for CollectiveAgent {
    async fn run_collective(
        &self,
        request: Request<v1::RunCollectiveRequest>,
    ) -> Result<Response<v1::RunCollectiveResponse>, Status> {
        let request = request.into_inner();
        let node = self.live_node(&request.node)?;
        let collective = self.collective(request.collective).await?;
        let part = Part::of(&collective, node.as_str(), &request.process)?;
        let bytes = bytes_of(request.values.as_ref());
        let tree = choose(&collective, request.work.as_ref(), bytes)?;
        let contribution = v1::ContributeValuesRequest {
            tree: tree.tree,
            sequence: request.sequence,
            process_count: part.processes,
            to: Some(part.target(tree)?),
            process: Some(part.process),
            work: request.work,
            values: request.values,
            timeout: request.timeout,
        };
        let mut fabric = FabricAggregationServiceClient::new(self.host.0.fabric.channel());
        let answer = fabric.contribute_values(contribution).await;
        let answer = answer.map_err(|status| unreachable(status, "fabric"))?;
        let values = answer.into_inner().values;
        Ok(Response::new(v1::RunCollectiveResponse { values, tree: tree.tree }))
    }
}

/// A process's place in its collective.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) process: v1::AggregationProcess,
    pub(crate) processes: u32,
}

impl Part {
    pub(crate) fn of(
        collective: &v1::Collective,
        node: &str,
        process: &str,
    ) -> Result<Self, Status> {
        let all = &collective.processes;
        let mut numbered = (0_u32..).zip(all);
        let found = numbered.find(|(_, one)| (&*one.node, &*one.process) == (node, process));
        let (number, one) = found.ok_or_else(|| {
            let text = format!(
                "process: '{process}' of node '{node}' is not in collective '{}'",
                collective.name
            );
            Reason::NotAMember.status(text, &[("collective", &collective.name)])
        })?;
        let endpoint = one.endpoint.clone();
        let processes = u32::try_from(all.len()).unwrap_or(u32::MAX);
        Ok(Self { process: v1::AggregationProcess { process: number, endpoint }, processes })
    }

    /// Whom the process sends to: itself if it combines, else who has it as a child.
    pub(crate) fn target(&self, tree: &v1::AggregationTree) -> Result<v1::AggregationNode, Status> {
        let own = v1::AggregationNode { kind: Some(Kind::Process(self.process.clone())) };
        let holders = || tree.entries.iter();
        if holders().any(|entry| entry.holder.as_ref() == Some(&own)) {
            return Ok(own);
        }
        let above = holders().find(|entry| entry.children.contains(&own));
        above.and_then(|entry| entry.holder.clone()).ok_or_else(|| {
            Reason::NotProgrammed.status("the process is in no entry of the tree", &[])
        })
    }
}

/// The tree that a run takes: all processes of a run choose the same.
fn choose<'a>(
    collective: &'a v1::Collective,
    work: Option<&v1::CollectiveWork>,
    bytes: usize,
) -> Result<&'a v1::AggregationTree, Status> {
    let facts = [("collective", collective.name.as_str())];
    if collective.state() == v1::CollectiveState::Suspended {
        let text = format!("collective '{}': {}", collective.name, collective.reason);
        return Err(Reason::MemberCutOff.status(text, &facts));
    }
    if !collective.programmed && collective.processes.len() > 1 {
        let text = format!("switches do not hold the tree of '{}' yet", collective.name);
        return Err(Reason::NotProgrammed.status(text, &facts));
    }
    let reduces = work.is_some_and(|work| match work.operation() {
        v1::CollectiveOperation::Reduce | v1::CollectiveOperation::AllReduce => true,
        v1::CollectiveOperation::Unspecified
        | v1::CollectiveOperation::Barrier
        | v1::CollectiveOperation::Broadcast => false,
    });
    let limit = usize::try_from(collective.switch_tree_max_bytes).unwrap_or(usize::MAX);
    let small = !reduces || bytes <= limit;
    let switch = collective.switch_tree.as_ref();
    let adapters = collective.adapter_tree.as_ref();
    let tree = if small { switch.or(adapters) } else { adapters.or(switch) };
    tree.ok_or_else(|| {
        let text = format!("collective '{}' has no tree to run on", collective.name);
        Reason::NotProgrammed.status(text, &facts)
    })
}

/// Bytes of a message: eight for each number.
fn bytes_of(values: Option<&v1::CollectiveValues>) -> usize {
    use v1::collective_values::Kind;
    let count = match values.and_then(|values| values.kind.as_ref()) {
        None => 0,
        Some(Kind::SignedValues(some)) => some.values.len(),
        Some(Kind::UnsignedValues(some)) => some.values.len(),
        Some(Kind::FloatValues(some)) => some.values.len(),
    };
    8 * count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(number: u32) -> v1::AggregationNode {
        let process = v1::AggregationProcess { process: number, endpoint: format!("h{number}") };
        v1::AggregationNode { kind: Some(Kind::Process(process)) }
    }

    fn entry(holder: v1::AggregationNode, children: &[u32]) -> v1::AggregationEntry {
        let children = children.iter().copied().map(process).collect();
        v1::AggregationEntry { tree: 1, holder: Some(holder), parent: None, children }
    }

    fn collective() -> v1::Collective {
        let one = |number: u32| v1::CollectiveProcess {
            node: format!("n{number}"),
            process: "p".to_owned(),
            endpoint: format!("h{number}"),
        };
        let switch = v1::AggregationNode { kind: Some(Kind::SwitchName("s".to_owned())) };
        v1::Collective {
            name: "c".to_owned(),
            state: v1::CollectiveState::SwitchTree.into(),
            processes: (0..3).map(one).collect(),
            switch_tree: Some(v1::AggregationTree {
                tree: 1,
                entries: vec![entry(switch, &[0, 1, 2])],
            }),
            adapter_tree: Some(v1::AggregationTree {
                tree: 2,
                entries: vec![entry(process(0), &[0, 1, 2])],
            }),
            switch_tree_max_bytes: 8,
            programmed: true,
            ..v1::Collective::default()
        }
    }

    #[test]
    fn a_process_sends_to_who_has_it_as_a_child_or_to_itself() {
        let collective = collective();
        let part = Part::of(&collective, "n1", "p").unwrap();
        let trees = [&collective.switch_tree, &collective.adapter_tree];
        let [switch, adapter] = trees.map(|tree| tree.as_ref().unwrap());
        assert_eq!(part.target(switch).unwrap(), switch.entries[0].holder.clone().unwrap());
        assert_eq!(part.target(adapter).unwrap(), process(0));
        let root = Part::of(&collective, "n0", "p").unwrap();
        assert_eq!(root.target(adapter).unwrap(), process(0));
        let stranger = Part::of(&collective, "n0", "q").unwrap_err();
        assert_eq!(reason_of(&stranger).as_deref(), Some("NOT_A_MEMBER"));
    }

    #[test]
    fn large_reductions_run_on_adapters_and_the_rest_on_switches() {
        let collective = collective();
        let chosen = |operation: v1::CollectiveOperation, bytes| {
            let work = v1::CollectiveWork { operation: operation.into(), ..Default::default() };
            choose(&collective, Some(&work), bytes).unwrap().tree
        };
        assert_eq!(chosen(v1::CollectiveOperation::AllReduce, 8), 1);
        assert_eq!(chosen(v1::CollectiveOperation::AllReduce, 16), 2);
        assert_eq!(chosen(v1::CollectiveOperation::Broadcast, 16), 1);
    }

    #[test]
    fn nothing_runs_before_the_tree_is_there() {
        let waits = v1::Collective { programmed: false, ..collective() };
        let refused = choose(&waits, None, 0).unwrap_err();
        assert_eq!(reason_of(&refused).as_deref(), Some("NOT_PROGRAMMED"));
        let state = v1::CollectiveState::Suspended.into();
        let cut = v1::Collective { state, ..collective() };
        let refused = choose(&cut, None, 0).unwrap_err();
        assert_eq!(reason_of(&refused).as_deref(), Some("MEMBER_CUT_OFF"));
    }
}
