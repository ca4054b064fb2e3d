//! The small form of the bench `decisions`: every change that a TIC can make, and every kind of
//! request that its writer decides.

#[path = "../../benches/decisions/collectives.rs"]
mod collectives;
#[path = "../../benches/decisions/fabric.rs"]
mod fabric;
#[path = "../../benches/decisions/groups.rs"]
mod groups;
#[path = "../../benches/decisions/jobs.rs"]
mod jobs;
#[path = "../../benches/decisions/load.rs"]
mod load;
#[path = "../../benches/decisions/log.rs"]
mod log;
#[path = "../../benches/decisions/nodes.rs"]
mod nodes;
#[path = "../../benches/decisions/routes.rs"]
mod routes;
#[path = "../../benches/decisions/sequence.rs"]
mod sequence;

use std::collections::BTreeSet;
use std::time::Duration;

use fabricast_tic::StoreLocation;
use fabricast_topology::spec::TopologySpec;

use crate::topology;

use self::load::{Scale, calls_left_out};
use self::log::{DecisionLog, Decisions, LONGEST, WRITER};

/// As the paper's fabric, but with 512 endpoints.
const FABRIC: &str = "kind = 'cn-tn-fat-tree'\nleaves_per_cn = 8\nspines_per_cn = 4\n\
                      tns_per_group = 2\nblocks = 4\ncns_per_block = 4\ncns = 4\n\
                      endpoints_per_leaf = 16\nswitch_ports = 40\n";
const SCALE: Scale = Scale { groups: 60, joins: 300, jobs: 6, collectives: 12 };
/// The requests of the writer.
const KINDS: [&str; 32] = [
    "AcquireRouteTerm",
    "CopyMgidPlanner",
    "CreateCollective",
    "CreateJob",
    "DeleteGroup",
    "DeleteJobGroups",
    "DrainNode",
    "FollowFabric",
    "ForgetFlaps",
    "FormPortion",
    "Join",
    "Leave",
    "MoveToTrees",
    "NodeFailed",
    "Option<NextTopology>",
    "Own<CancelReservation>",
    "Own<DeleteJob>",
    "Own<ReleaseCollective>",
    "Own<ReserveShare>",
    "PutFailedElements",
    "RegisterNode",
    "ReleaseRouteTerm",
    "RemoveNode",
    "RenewRouteTerm",
    "ReportRoutes",
    "ReportTrees",
    "RequestSwitchTree",
    "ReserveEntries",
    "SetConstants",
    "SetQuota",
    "ViewConstants",
    "ViewUsage",
];

/// Names of all calls of a TIC, each with its service.
pub(crate) fn names_of_calls() -> BTreeSet<(&'static str, &'static str)> {
    load::calls().map(|access| (access.service, access.call)).collect()
}

#[tokio::test]
async fn every_call_that_changes_something_is_made_and_every_kind_of_decision_is_logged() {
    let log = DecisionLog::default();
    let _logging = tracing::subscriber::set_default(log.clone());
    let tic = topology::start(StoreLocation::Memory).await;
    let graph = TopologySpec::parse(FABRIC).unwrap().generate().unwrap();
    sequence::make_all_changes(&tic.address, graph, SCALE).await;
    assert_eq!(calls_left_out(), Vec::<String>::new());
    assert_eq!(log.by_kind().keys().collect::<Vec<_>>(), KINDS);
    tic.stop().await;
}

#[test]
fn decisions_above_the_limit_are_counted_by_kind() {
    let log = DecisionLog::default();
    let limit = u64::try_from(LONGEST.as_micros()).unwrap();
    tracing::subscriber::with_default(log.clone(), || {
        for elapsed_us in [limit, limit + 1, 7] {
            tracing::debug!(target: WRITER, elapsed_us, request = "one::Own<other::Leave>");
        }
        tracing::debug!(target: "elsewhere", elapsed_us = limit + 1, request = "Leave");
    });
    let longest = LONGEST + Duration::from_micros(1);
    let leaves = Decisions { count: 3, too_long: 1, longest };
    assert_eq!(log.by_kind(), [("Own<Leave>".to_owned(), leaves)].into());
}
