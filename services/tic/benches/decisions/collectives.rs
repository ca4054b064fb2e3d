//! Collectives, and what is reserved for them.

use fabricast_proto::v1;
use v1::CollectiveOperation::{AllReduce, Barrier, Broadcast};

use super::groups::{Groups, PROCESS, WHOLE, join, leave};
use super::load::{Load, made, node_name};

const TENANT: &str = "physics";

fn holder() -> Option<v1::CollectiveHolder> {
    Some(v1::CollectiveHolder { tenant: TENANT.to_owned(), job: None })
}

/// Sets constants, by which the TIC chooses the unicast trees of new groups.
pub(super) async fn set_constants(load: &Load) {
    let constants = v1::TreeConstants {
        path_link_count: 4.0,
        link_us: 15.0,
        matching_us: 10.0,
        store_us_per_byte: 0.001,
        reduce_us_per_byte: 0.002,
        software_us: 20.0,
        ..Default::default()
    };
    let request = v1::SetTreeConstantsRequest { constants: Some(constants) };
    made(async || load.collectives.clone().set_tree_constants(request.clone()).await).await;
    let request = v1::GetTreeConstantsRequest {};
    made(async || load.collectives.clone().get_tree_constants(request).await).await;
}

/// Reserves entries at all endpoints, and gives them back.
async fn reserve(load: &Load) {
    let quota =
        v1::CollectiveQuota { holder: holder(), collectives: Some(100_000), ..Default::default() };
    let request = v1::SetCollectiveQuotaRequest { quota: Some(quota) };
    made(async || load.collectives.clone().set_collective_quota(request.clone()).await).await;
    let reservation = v1::CollectiveReservation {
        id: 0,
        holder: holder(),
        entries: 1,
        endpoints: load.endpoints.clone(),
    };
    let request = v1::ReserveEntriesRequest { reservation: Some(reservation) };
    let reserved =
        made(async || load.collectives.clone().reserve_entries(request.clone()).await).await;
    let id = reserved.reservation.expect("it was reserved").id;
    let request = v1::CancelReservationRequest { id };
    made(async || load.collectives.clone().cancel_reservation(request).await).await;
}

async fn request_tree(load: &Load, group: &str, process: &str) {
    let request = v1::RequestSwitchTreeRequest {
        group: group.to_owned(),
        node: node_name(0),
        process: process.to_owned(),
    };
    made(async || load.collectives.clone().request_switch_tree(request.clone()).await).await;
}

/// Has members ask for switch trees. That of a group of some nodes ends as one of them leaves.
async fn request_trees(load: &Load, groups: &Groups) {
    request_tree(load, WHOLE, PROCESS).await;
    let asks = join(load, &groups.random[0].group, 0, "asks".to_owned());
    made(async || load.tic.clone().join_group(asks.clone()).await).await;
    request_tree(load, &asks.group, &asks.process).await;
    let leaves = leave(&asks);
    made(async || load.tic.clone().leave_group(leaves.clone()).await).await;
}

/// Groups that get a collective; the collectives have the same names.
fn groups_of<'a>(load: &Load, groups: &'a Groups) -> impl Iterator<Item = &'a str> {
    let random = groups.random.iter().map(|group| &*group.group);
    std::iter::once(WHOLE).chain(random).take(load.scale.collectives)
}

/// Reserves, requests and creates.
pub(super) async fn create(load: &Load, groups: &Groups) {
    reserve(load).await;
    request_trees(load, groups).await;
    for group in groups_of(load, groups) {
        let request = v1::CreateCollectiveRequest {
            name: group.to_owned(),
            group: group.to_owned(),
            tenant: TENANT.to_owned(),
            operations: [Barrier, Broadcast, AllReduce].map(i32::from).to_vec(),
            max_bytes: 8,
            ..Default::default()
        };
        made(async || load.collectives.clone().create_collective(request.clone()).await).await;
    }
    let request = v1::GetEntryUsageRequest {};
    made(async || load.collectives.clone().get_entry_usage(request).await).await;
}

/// Releases what was created.
pub(super) async fn release(load: &Load, groups: &Groups) {
    for group in groups_of(load, groups) {
        let request = v1::ReleaseCollectiveRequest { name: group.to_owned() };
        made(async || load.collectives.clone().release_collective(request.clone()).await).await;
    }
}
