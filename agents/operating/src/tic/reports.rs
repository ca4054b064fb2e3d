//! Signs of life to the TIC, and reports of nodes that do not answer.

use std::time::Duration;

use fabricast_group::GroupAgentHost;
use fabricast_groups::directory::Verdict;
use fabricast_groups::ids::Incarnation;
use fabricast_groups::names::NodeName;
use fabricast_proto::v1;
use fabricast_rpc::RpcError;
use fabricast_wire::{decode_verdict, encode_hosted_group};
use tracing::debug;

use crate::runtime::Runtime;
use crate::runtime::channels::within;
use crate::runtime::in_flight::InFlight;

/// Nodes in one report.
const NODES_PER_REPORT: usize = 5_000;
/// Nodes without group agents that report in one round, about, so that a process with very many
/// nodes need not report all of them each time.
const IDLE_PER_ROUND: usize = 1_000;

/// Time between two reports, and the time that one of them may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) interval: Duration,
    pub(crate) deadline: Duration,
}

/// Reports to the TIC; clones share the calls in flight.
#[derive(Clone, Debug)]
pub(crate) struct TicReports {
    runtime: Runtime,
    statuses: InFlight<()>,
    failures: InFlight<(NodeName, NodeName, Incarnation)>,
}

impl TicReports {
    pub(crate) fn new(runtime: Runtime) -> Self {
        Self { runtime, statuses: InFlight::default(), failures: InFlight::default() }
    }

    /// Reports that a node does not answer the group agents of another.
    ///
    /// - `reporter`: the node of the agents.
    pub(crate) fn report_failure(
        &self,
        reporter: NodeName,
        failed: NodeName,
        incarnation: Incarnation,
    ) {
        let this = self.clone();
        self.runtime.tasks.spawn(async move {
            let request = v1::ReportNodeFailureRequest {
                node: failed.to_string(),
                incarnation: incarnation.0,
                reporter: format!("group agents on {reporter}"),
                probe_first: true,
            };
            let mut tic = this.runtime.channels.tic();
            let key = (reporter, failed.clone(), incarnation);
            let answer = this.failures.call(key, tic.report_node_failure(request)).await;
            if let Some(Err(status)) = answer {
                debug!(node = %failed, error = %status.message(), "failure not reported");
            }
        });
    }

    /// Reports the nodes that host group agents, and some of the others: the TIC waits for all of
    /// them, and tells of groups that no hint told them of. Does nothing while a report is in
    /// flight.
    ///
    /// - `round`: number of the report, from 0.
    pub(crate) fn report_status(&self, round: usize, pace: Pace) {
        let this = self.clone();
        self.runtime.tasks.spawn(async move {
            let report = this.send_status(round, pace);
            if let Some(Err(error)) = this.statuses.call((), report).await {
                debug!(error = %error.message(), "status not taken by the TIC");
            }
        });
    }

    async fn send_status(&self, round: usize, pace: Pace) -> Result<(), RpcError> {
        let nodes = self.runtime.nodes.names();
        let turns = nodes.len().div_ceil(IDLE_PER_ROUND).max(1);
        let next = pace.interval.saturating_mul(u32::try_from(turns).unwrap_or(u32::MAX));
        let next_report_in = prost_types::Duration::try_from(next).ok();
        let status = |(index, node): (usize, NodeName)| {
            self.runtime.nodes.read_agents(&node, |agents| {
                let groups: Vec<_> = agents.status().iter().map(encode_hosted_group).collect();
                let reports = !groups.is_empty() || index % turns == round % turns;
                let incarnation = agents.incarnation().0;
                let node = node.to_string();
                reports.then_some(v1::GroupAgentStatus {
                    node,
                    incarnation,
                    groups,
                    next_report_in,
                })
            })
        };
        let statuses = nodes.into_iter().enumerate().filter_map(status);
        let statuses: Vec<v1::GroupAgentStatus> = statuses.flatten().collect();
        for part in statuses.chunks(NODES_PER_REPORT) {
            let request = v1::ReportGroupAgentsRequest { statuses: part.to_vec() };
            let mut tic = self.runtime.channels.tic();
            let answer = within(pace.deadline, tic.report_group_agents(request)).await?;
            for (status, verdict) in part.iter().zip(answer.verdicts) {
                self.take_verdict(Incarnation(status.incarnation), &verdict);
            }
        }
        Ok(())
    }

    /// - `reported`: the incarnation that the verdict answers.
    fn take_verdict(&self, reported: Incarnation, verdict: &v1::GroupAgentVerdict) {
        let Ok(node) = NodeName::new(&verdict.node) else { return };
        let verdict = decode_verdict(verdict);
        if verdict == Verdict::default() {
            return; // as almost always
        }
        self.runtime.nodes.with_agents(&node, |agents, now| {
            // A verdict on an earlier incarnation does not apply to this one.
            if agents.incarnation() == reported {
                agents.verdict(now, &verdict);
            }
        });
        if verdict.expelled {
            self.runtime.nodes.input(&node, |operating, now| operating.expelled(now, reported));
        }
    }
}
