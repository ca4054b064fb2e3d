//! Signs of life at fixed intervals: to the agents of the members' groups, and to the TIC.
//!
//! Their cost grows with the number of processes, not of groups: all nodes of this process speak
//! to all nodes of another in one call. Every address has its own call, so that a peer that does
//! not answer holds up only its own reports; while one is out the next is left out.

use std::collections::BTreeMap;
use std::time::Duration;

use fabricast_group::{Hosts, wire};
use fabricast_groups::ids::{Gn, Incarnation, Pn};
use fabricast_groups::message::OaReportReply;
use fabricast_groups::names::NodeName;
use fabricast_proto::v1;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, timeout};
use tonic::Status;
use tracing::debug;

use crate::host::Host;
use crate::questions::Question;

/// Memberships in one report, so that it stays far below the message limit.
const MEMBERSHIPS_PER_REPORT: usize = 20_000;
/// Nodes in one report to the TIC.
const NODES_PER_REPORT: usize = 5_000;

/// Nodes without group agents that report to the TIC in one round, about; so that a process with very
/// many nodes need not speak for all of them each time.
const IDLE_PER_ROUND: usize = 1_000;

/// A report is given up after two intervals, the next one says more, but not sooner than this.
const LEAST_DEADLINE: Duration = Duration::from_secs(1);

impl Host {
    /// Reports again and again.
    ///
    /// - `interval`: may change; the next report comes after the new one.
    pub(crate) async fn report_forever(self, mut interval: watch::Receiver<Duration>) {
        let ticking = |every: Duration| {
            let mut ticks = tokio::time::interval(every);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            (ticks, (every * 2).max(LEAST_DEADLINE))
        };
        let (mut ticks, mut deadline) = ticking(*interval.borrow_and_update());
        for round in 0.. {
            tokio::select! {
                _ = ticks.tick() => {}
                Ok(()) = interval.changed() => {
                    (ticks, deadline) = ticking(*interval.borrow_and_update());
                }
            }
            self.report_to_agents(deadline);
            self.spawn(move |host| async move {
                host.ask(Question::Status, host.report_to_tic(round, deadline)).await;
            });
        }
    }

    fn report_to_agents(&self, deadline: Duration) {
        let mut by_address: BTreeMap<String, Vec<v1::OperatingAgentStatus>> = BTreeMap::new();
        for node in self.nodes() {
            for (agent, address, report) in
                self.input(&node, |operating, now| operating.reports(now)).unwrap_or_default()
            {
                let status = wire::report_to_wire(&agent, &report);
                by_address.entry(address.to_string()).or_default().push(status);
            }
        }
        for (address, statuses) in by_address {
            self.send_report(address, statuses, deadline);
        }
    }

    fn send_report(
        &self,
        address: String,
        statuses: Vec<v1::OperatingAgentStatus>,
        deadline: Duration,
    ) {
        self.spawn(|host| async move {
            let question = Question::Report(address.clone());
            host.ask(question, host.report_to(&address, statuses, deadline)).await;
        });
    }

    async fn report_to(
        &self,
        address: &str,
        statuses: Vec<v1::OperatingAgentStatus>,
        deadline: Duration,
    ) {
        let Ok(peer) = self.peer(address) else { return };
        for statuses in parts(statuses) {
            let pairs: Vec<(String, String)> = statuses
                .iter()
                .map(|status| (status.node.clone(), status.agent_node.clone()))
                .collect();
            let request = v1::ReportOperatingAgentsRequest { statuses };
            let mut client = self.agents_at(&peer);
            match in_time(deadline, client.report_operating_agents(request)).await {
                Ok(answer) => self.take_replies(pairs, answer.into_inner()),
                Err(status) => {
                    debug!(peer = %address, error = %status.message(), "report not taken");
                    return;
                }
            }
        }
    }

    /// Hands the replies to the reporting nodes.
    ///
    /// - `pairs`: reporting node and node of the agents, for each report sent.
    fn take_replies(
        &self,
        pairs: Vec<(String, String)>,
        answer: v1::ReportOperatingAgentsResponse,
    ) {
        let mut replies: BTreeMap<String, OaReportReply> = BTreeMap::new();
        for position in &answer.positions {
            if let Ok(update) = wire::read_position(position) {
                replies.entry(position.node.clone()).or_default().positions.push(update);
            }
        }
        for unknown in answer.unknown {
            let reply = replies.entry(unknown.node).or_default();
            reply.unknown.push((Gn(unknown.gn), Pn(unknown.pn)));
        }
        for (node, agent) in pairs {
            if answer.absent_agent_nodes.contains(&agent) {
                continue;
            }
            // What several hosts on one process had to say comes with the first of them.
            let reply = replies.remove(&node).unwrap_or_default();
            if let (Ok(node), Ok(agent)) = (NodeName::new(&node), NodeName::new(&agent)) {
                self.input(&node, |operating, now| operating.report_answered(now, &agent, &reply));
            }
        }
    }

    /// Reports the nodes that host group agents, which the TIC waits for, and some of the others, which
    /// it does not: they learn of an office that no hint told them of.
    async fn report_to_tic(&self, round: usize, deadline: Duration) {
        let nodes = self.nodes();
        let turns = nodes.len().div_ceil(IDLE_PER_ROUND).max(1);
        let status = |(index, node): (usize, NodeName)| {
            self.look_at_agents(&node, |agents| {
                let groups: Vec<_> = agents.status().iter().map(wire::hosted_to_wire).collect();
                let reports = !groups.is_empty() || index % turns == round % turns;
                let incarnation = agents.incarnation().0;
                let node = node.to_string();
                reports.then_some(v1::GroupAgentStatus { node, incarnation, groups })
            })
        };
        let statuses = nodes.into_iter().enumerate().filter_map(status);
        let statuses: Vec<v1::GroupAgentStatus> = statuses.flatten().collect();
        for part in statuses.chunks(NODES_PER_REPORT) {
            let request = v1::ReportGroupAgentsRequest { statuses: part.to_vec() };
            match in_time(deadline, self.tic().report_group_agents(request)).await {
                Ok(answer) => {
                    for (status, verdict) in part.iter().zip(answer.into_inner().verdicts) {
                        self.take_verdict(status.incarnation, &verdict);
                    }
                }
                Err(status) => {
                    debug!(error = %status.message(), "status not taken by the TIC");
                    return;
                }
            }
        }
    }

    fn take_verdict(&self, incarnation: u64, verdict: &v1::GroupAgentVerdict) {
        let Ok(node) = NodeName::new(&verdict.node) else { return };
        let read = wire::read_verdict(verdict);
        self.with_agents(&node, |agents, now| {
            // A verdict about an earlier life says nothing about this one.
            if agents.incarnation().0 == incarnation {
                agents.verdict(now, &read);
            }
        });
        if read.expelled {
            self.input(&node, |operating, now| operating.expelled(now, Incarnation(incarnation)));
        }
    }
}

async fn in_time<T>(
    deadline: Duration,
    call: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    timeout(deadline, call).await.unwrap_or_else(|_| Err(Status::deadline_exceeded("too late")))
}

/// Cuts reports into parts of bounded size.
fn parts(statuses: Vec<v1::OperatingAgentStatus>) -> Vec<Vec<v1::OperatingAgentStatus>> {
    let mut parts = vec![Vec::new()];
    let mut memberships = 0;
    for status in statuses {
        if memberships + status.memberships.len() > MEMBERSHIPS_PER_REPORT && memberships > 0 {
            parts.push(Vec::new());
            memberships = 0;
        }
        memberships += status.memberships.len();
        parts.last_mut().expect("never empty").push(status);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::lock;
    use crate::host::tests::host;
    use std::collections::BTreeSet;
    use tokio::net::TcpListener;

    #[test]
    fn reports_are_cut_before_they_grow_too_large() {
        let status = |count: usize| v1::OperatingAgentStatus {
            memberships: vec![v1::MembershipStatus::default(); count],
            ..Default::default()
        };
        let cut = parts(vec![status(15_000), status(4_000), status(2_000), status(30_000)]);
        assert_eq!(cut.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1, 1]);
    }

    #[tokio::test]
    async fn a_peer_that_does_not_answer_holds_up_only_its_own_reports() {
        let (host, _) = host();
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let report = |to: &TcpListener| {
            let address = to.local_addr().unwrap().to_string();
            host.send_report(address.clone(), Vec::new(), Duration::from_secs(60));
            Question::Report(address)
        };
        let first = report(&silent);
        let _held = silent.accept().await.unwrap();
        assert_eq!(report(&silent), first);
        let second = report(&other);
        let _told = other.accept().await.unwrap();
        let out = lock(&host.0.questions).clone();
        assert!(out.into_iter().eq([first, second].into_iter().collect::<BTreeSet<_>>()));
        host.0.stop.cancel();
        host.0.tasks.close();
        host.0.tasks.wait().await;
        assert!(lock(&host.0.questions).is_empty());
    }
}
