//! `fabricast collective fit --live`: measures operations between the agents of a running cluster.
//!
//! Groups of one member on each of some nodes are formed, with trees of several widths. All members
//! run the same operations at the same time; a round takes as long as for the slowest member, and
//! the median of the rounds counts. The groups end with the measurement.

use std::collections::BTreeSet;

use anyhow::anyhow;
use fabricast_collectives::{Measurement, Operation, TreeKind};
use fabricast_proto::v1;
use fabricast_rpc::request_id;

use super::model::wire_operation;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::remote::{self, Remote};

/// Job of the groups, and name of the processes of their members.
const NAME: &str = "fabricast-fit";

/// Widths of the trees, as far as there are members for them.
const WIDTHS: [u32; 4] = [2, 3, 5, 16];

/// Operations and their bytes.
const OPERATIONS: [(Operation, u32); 9] = [
    (Operation::Barrier, 0),
    (Operation::Broadcast, 4 << 10),
    (Operation::Broadcast, 64 << 10),
    (Operation::Broadcast, 512 << 10),
    (Operation::AllReduce, 8),
    (Operation::AllReduce, 4 << 10),
    (Operation::AllReduce, 64 << 10),
    (Operation::AllReduce, 512 << 10),
    (Operation::Reduce, 64 << 10),
];

/// Rounds that are run before those that count.
const WARM_UP: usize = 2;

/// Measures with up to `most` nodes that are up.
///
/// # Errors
///
/// Fewer than four nodes, an agent that cannot measure, or an operation that fails.
pub(super) async fn measure(
    remote: &Remote,
    most: usize,
    rounds: u32,
) -> Result<Vec<Measurement>, Failure> {
    let nodes = remote.nodes().await?.into_iter();
    let is_usable = |node: &v1::Node| {
        node.state() == v1::NodeState::Up && !node.drained && !node.endpoints.is_empty()
    };
    let nodes: Vec<v1::Node> = nodes.filter(is_usable).take(most).collect();
    let all = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
    if all < 4 {
        return Err(Failure::input(format!("{all} nodes are up, a measurement takes 4 or more")));
    }
    let counts: BTreeSet<u32> = [all, all.div_ceil(2).max(4)].into();
    let designs: Vec<(u32, u32)> = counts
        .into_iter()
        .flat_map(|count| WIDTHS.into_iter().map(move |width| (count, width)))
        .filter(|(count, width)| width < count)
        .collect();
    let progress = Progress::new("trees", designs.len());
    let mut measurements = Vec::new();
    for (done, (count, width)) in designs.into_iter().enumerate() {
        progress.at(done, "measuring");
        let members = usize::try_from(count).unwrap_or(usize::MAX);
        let group = Group { remote, nodes: &nodes[..members], width };
        let measured = group.measure(rounds).await;
        group.end().await?;
        measurements.extend(measured?);
    }
    progress.finish();
    Ok(measurements)
}

/// A group that is formed for one tree.
struct Group<'a> {
    remote: &'a Remote,
    nodes: &'a [v1::Node],
    width: u32,
}

impl Group<'_> {
    fn name(&self) -> String {
        format!("{NAME}/{}-of-width-{}", self.nodes.len(), self.width)
    }

    async fn measure(&self, rounds: u32) -> Result<Vec<Measurement>, Failure> {
        self.form().await?;
        let warm_up = u32::try_from(WARM_UP).unwrap_or(0);
        let steps: Vec<v1::MeasuredOperation> = OPERATIONS
            .iter()
            .map(|(operation, bytes)| v1::MeasuredOperation {
                operation: wire_operation(*operation).into(),
                byte_count: *bytes,
                round_count: rounds + warm_up,
            })
            .collect();
        let count = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        let mut calls = tokio::task::JoinSet::new();
        for node in self.nodes {
            let host = self.remote.host_of(&node.name).await?;
            let request = v1::MeasureOperationsRequest {
                node: node.name.clone(),
                group: self.name(),
                process: NAME.to_owned(),
                member_count: count,
                operations: steps.clone(),
            };
            calls.spawn(async move {
                let answer = remote::answer(host.agent().measure_operations(request)).await;
                answer.map_err(|error| host.failed(error))
            });
        }
        let mut slowest: Vec<Vec<f64>> = vec![Vec::new(); steps.len()];
        while let Some(answer) = calls.join_next().await {
            let answer = answer.map_err(|error| anyhow!("a call did not end: {error}"))??;
            for (slowest, times) in slowest.iter_mut().zip(answer.times) {
                slowest.resize(slowest.len().max(times.seconds.len()), 0.0);
                for (most, seconds) in slowest.iter_mut().zip(times.seconds) {
                    *most = most.max(seconds);
                }
            }
        }
        let measured = OPERATIONS.iter().zip(slowest).map(|((operation, bytes), times)| {
            let (processes, width, kind) = (count, self.width, TreeKind::Adapter);
            let seconds = median(times.into_iter().skip(WARM_UP).collect());
            Measurement { operation: *operation, bytes: *bytes, processes, width, kind, seconds }
        });
        Ok(measured.collect())
    }

    async fn form(&self) -> Result<(), Failure> {
        let member = |node: &v1::Node| v1::FormedMember {
            endpoint: node.endpoints.first().cloned().unwrap_or_default(),
            process: NAME.to_owned(),
            node: node.name.clone(),
            ..Default::default()
        };
        let family = v1::TreeFamily::KAry.into();
        let group = v1::FormedGroupSpec {
            group: self.name(),
            members: self.nodes.iter().map(member).collect(),
            tree: Some(v1::TreeShape { family, width: self.width, block: 0 }),
            ..Default::default()
        };
        let request = v1::FormGroupsRequest {
            request_id: request_id(),
            groups: vec![group],
            ..Default::default()
        };
        self.remote.form_groups(vec![request], |_| ()).await
    }

    /// Ends the group; one that was not formed is none.
    async fn end(&self) -> Result<(), Failure> {
        let request = v1::DeleteGroupRequest { request_id: request_id(), group: self.name() };
        match remote::answer(self.remote.tic().delete_group(request)).await {
            Err(error) if error.reason_text().as_deref() != Some("UNKNOWN_GROUP") => {
                Err(self.remote.failed(error))
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slow_round_does_not_count() {
        assert!((median(vec![3.0, 1.0, 900.0]) - 3.0).abs() < 1e-9);
        assert!(median(Vec::new()).abs() < 1e-9);
    }
}
