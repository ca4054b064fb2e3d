//! Runs of collectives, and who may contribute to them (FAB-4).

use fabricast_proto::v1;
use fabricast_proto::v1::{aggregation_node, aggregation_place, collective_values};
use tonic::{Code, Status};

use crate::faults::switch;
use crate::{Fabric, KEY, refusal, soon, why};

const TREE: u32 = 5;

fn process(number: u32, endpoint: &str) -> v1::AggregationProcess {
    v1::AggregationProcess { process: number, endpoint: endpoint.into() }
}

fn process_node(number: u32, endpoint: &str) -> v1::AggregationNode {
    let kind = aggregation_node::Kind::Process(process(number, endpoint));
    v1::AggregationNode { kind: Some(kind) }
}

fn switch_node(name: &str) -> v1::AggregationNode {
    v1::AggregationNode { kind: Some(aggregation_node::Kind::SwitchName(name.into())) }
}

/// A write of one entry to the switch that holds it.
fn entry(
    holder: &str,
    parent: Option<&str>,
    children: &[v1::AggregationNode],
) -> v1::AggregationWrite {
    let kind = aggregation_place::Kind::SwitchName(holder.into());
    let entry = v1::AggregationEntry {
        tree: TREE,
        holder: Some(switch_node(holder)),
        parent: parent.map(switch_node),
        children: children.to_vec(),
    };
    v1::AggregationWrite {
        place: Some(v1::AggregationPlace { kind: Some(kind) }),
        removed: Vec::new(),
        added: vec![entry],
    }
}

fn number(value: i64) -> v1::CollectiveValues {
    let values = v1::SignedValues { values: vec![value] };
    v1::CollectiveValues { kind: Some(collective_values::Kind::SignedValues(values)) }
}

/// A contribution of the process's own number, and 1, to the sum of a run of three.
fn part(process: v1::AggregationProcess, to: &str) -> v1::ContributeValuesRequest {
    let work = v1::CollectiveWork {
        operation: v1::CollectiveOperation::AllReduce.into(),
        reduction: v1::Reduction::Sum.into(),
        root_process: 0,
    };
    v1::ContributeValuesRequest {
        tree: TREE,
        sequence: 1,
        process_count: 3,
        to: Some(switch_node(to)),
        work: Some(work),
        values: Some(number(i64::from(process.process) + 1)),
        process: Some(process),
        timeout: Some(prost_types::Duration { seconds: 9, nanos: 0 }),
    }
}

impl Fabric {
    /// Writes the tree: processes 0 and 1 at h0 and h1 below S-0, which is below S-1 with process 2
    /// at h2.
    async fn write_tree(&self) {
        let low = [process_node(0, "h0"), process_node(1, "h1")];
        let top = [switch_node("S-0"), process_node(2, "h2")];
        let request = v1::WriteFabricAggregationRequest {
            management_key: KEY.into(),
            fence: Some(v1::Fence { term: 1, generation: 1 }),
            writes: vec![entry("S-0", Some("S-1"), &low), entry("S-1", None, &top)],
        };
        let answer = soon(self.engines.clone().write_fabric_aggregation(request)).await;
        assert_eq!(answer.expect("a good write").into_inner().refusals, []);
    }

    async fn contribute(
        &self,
        part: v1::ContributeValuesRequest,
    ) -> Result<Option<v1::CollectiveValues>, Status> {
        Ok(soon(self.engines.clone().contribute_values(part)).await?.into_inner().values)
    }
}

#[tokio::test]
async fn who_takes_no_part_in_a_run_neither_ends_nor_spoils_it() {
    let fabric = Fabric::start();
    let _process = fabric.attached(&["h0", "h1", "h2"]).await;
    fabric.write_tree().await;
    let forbidden = refusal(Code::PermissionDenied, "NOT_PERMITTED");
    let comes_again = refusal(Code::Aborted, "COLLECTIVE_FAILED");
    for (stranger, reason) in [
        // No process of this number, and one that is at another endpoint.
        (part(process(7, "h0"), "S-0"), &forbidden),
        (part(process(0, "h2"), "S-0"), &forbidden),
        // One of the tree, sent to a switch where it is not a child.
        (part(process(2, "h2"), "S-0"), &forbidden),
        // Nobody has attached it, as while its agent connects again.
        (part(process(0, "h3"), "S-0"), &comes_again),
        (part(process(1, "h1"), "S-2"), &comes_again),
        (v1::ContributeValuesRequest { tree: 6, ..part(process(1, "h1"), "S-0") }, &comes_again),
        // The first of a run says how many there are: not this one.
        (
            v1::ContributeValuesRequest { process_count: 1, ..part(process(7, "h1"), "S-0") },
            &forbidden,
        ),
    ] {
        let told = format!("{stranger:?}");
        assert_eq!(why(fabric.contribute(stranger).await), *reason, "{told}");
    }
    let parts = tokio::join!(
        fabric.contribute(part(process(0, "h0"), "S-0")),
        fabric.contribute(part(process(1, "h1"), "S-0")),
        fabric.contribute(part(process(2, "h2"), "S-1")),
    );
    for sum in [parts.0, parts.1, parts.2] {
        assert_eq!(sum.expect("the run ends well"), Some(number(1 + 2 + 3)));
    }
    fabric.stop().await;
}

#[tokio::test]
async fn an_entry_lost_with_the_power_ends_the_run_for_all_at_once() {
    let fabric = Fabric::start();
    let _process = fabric.attached(&["h0", "h1", "h2"]).await;
    fabric.write_tree().await;
    assert!(fabric.fail(switch("S-0")).await.unwrap());
    assert!(fabric.heal(switch("S-0")).await.unwrap());
    // The third does not even take part: nobody waits for it.
    let parts = tokio::join!(
        fabric.contribute(part(process(0, "h0"), "S-0")),
        fabric.contribute(part(process(2, "h2"), "S-1")),
    );
    for ended in [parts.0, parts.1] {
        let status = ended.expect_err("the run has ended");
        assert_eq!(status.code(), Code::Aborted, "{status}");
        assert!(status.message().contains("S-0 has no entry for the tree"), "{status}");
    }
    fabric.stop().await;
}
