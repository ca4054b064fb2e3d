//! Every change that a TIC can make, as large as it may sensibly be on a fabric.

use fabricast_proto::v1;
use fabricast_topology::Graph;

use super::load::{Load, Scale, made};
use super::{collectives, fabric, groups, jobs, nodes, routes};

/// Makes all changes, one after the other. The TIC must not have a topology yet.
pub(super) async fn make_all_changes(address: &str, graph: Graph, scale: Scale) {
    let load = Load::connect(address, graph, scale);
    let topology = fabric::report(&load).await;
    nodes::register(&load).await;
    nodes::report(&load).await;
    collectives::set_constants(&load).await;
    jobs::begin_and_end(&load).await;
    let formed = groups::form(&load).await;
    groups::join_and_leave(&load, &formed).await;
    collectives::create(&load, &formed).await;
    let term = routes::acquire(&load).await;
    routes::report(&load, &formed, term).await;
    routes::report_trees(&load, term).await;
    routes::record_choices(&load, &formed, term, &topology).await;
    routes::move_groups(&load, &formed).await;
    fabric::fail_switches(&load).await;
    fabric::drain_links(&load).await;
    nodes::drain(&load).await;
    nodes::fail_and_return(&load, &formed.random).await;
    copy_records(&load).await;
    collectives::release(&load, &formed).await;
    fabric::replace(&load).await;
    fabric::report(&load).await;
    nodes::report(&load).await;
    groups::delete(&load, &formed).await;
    routes::report_clean(&load, term).await;
    routes::release(&load, term).await;
}

/// Reads a copy of all records, and says that it is complete.
async fn copy_records(load: &Load) {
    let request = v1::ExportRecordsRequest {};
    let mut copy = made(async || load.tic.clone().export_records(request).await).await;
    while copy.message().await.expect("the copy goes on").is_some() {}
    let request = v1::ReportRecordsCopyRequest {};
    made(async || load.tic.clone().report_records_copy(request).await).await;
}
