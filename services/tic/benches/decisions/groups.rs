//! Groups are formed, joined, left and deleted.

use std::collections::BTreeSet;

use fabricast_proto::v1;
use fabricast_topology::SplitMix;
use v1::join_answer::Answer as Joined;
use v1::leave_answer::Answer as Left;

use super::load::{Load, made, node_name};

/// Members of a group of random nodes.
const MEMBERS: usize = 33;
/// Groups that share their trees with no other.
const EXCLUSIVE: usize = 64;
/// Groups in one message of a batch.
const PER_MESSAGE: usize = 124;
/// Groups whose MGIDs are planned with one call.
const PLANNED: usize = 1_000;
/// The group of all nodes, and its process on each of them.
pub(super) const WHOLE: &str = "whole";
pub(super) const PROCESS: &str = "p";

/// Groups that were formed.
pub(super) struct Groups {
    /// Groups of random nodes.
    pub(super) random: Vec<v1::FormedGroup>,
    /// The same, but exclusive.
    pub(super) exclusive: Vec<v1::FormedGroup>,
}

/// Groups that are formed with one call.
pub(super) struct Batch {
    pub(super) job: &'static str,
    pub(super) token: &'static str,
    pub(super) groups: Vec<v1::FormedGroupSpec>,
}

/// A group of some nodes.
pub(super) fn spec(
    load: &Load,
    group: String,
    nodes: impl IntoIterator<Item = usize>,
) -> v1::FormedGroupSpec {
    let member = |node: usize| v1::FormedMember {
        endpoint: load.endpoints[node].clone(),
        process: PROCESS.to_owned(),
        ..Default::default()
    };
    let members = nodes.into_iter().map(member).collect();
    v1::FormedGroupSpec { group, members, ..Default::default() }
}

/// Groups of nodes that differ with each seed.
fn random_specs(load: &Load, name: &str, count: usize, seed: u64) -> Vec<v1::FormedGroupSpec> {
    let bound = u32::try_from(load.endpoints.len()).expect("fewer endpoints");
    let mut chance = SplitMix::new(seed);
    let group = |number: usize| {
        let mut nodes = BTreeSet::new();
        while nodes.len() < MEMBERS {
            nodes.insert(chance.below(bound) as usize);
        }
        spec(load, format!("{name}/{number}"), nodes)
    };
    (0..count).map(group).collect()
}

/// Forms groups with one call.
pub(super) async fn form_batch(load: &Load, batch: Batch) -> Vec<v1::FormedGroup> {
    let Batch { job, token, groups } = batch;
    let message = |groups: &[v1::FormedGroupSpec]| v1::FormGroupsRequest {
        request_id: format!("form {job}"),
        job: job.to_owned(),
        groups: groups.to_vec(),
        job_token: token.to_owned(),
    };
    let messages: Vec<_> = groups.chunks(PER_MESSAGE).map(message).collect();
    let forming =
        made(async || load.batches.clone().form_groups(tokio_stream::iter(messages.clone())).await);
    let (mut answers, mut formed) = (forming.await, Vec::new());
    while let Some(answer) = answers.message().await.expect("the batch is formed") {
        formed.extend(answer.groups);
    }
    formed
}

/// Forms groups of random nodes, exclusive ones, and one of all nodes.
pub(super) async fn form(load: &Load) -> Groups {
    let groups = random_specs(load, "random", load.scale.groups, 1);
    let planned = groups.iter().take(PLANNED).map(|group| v1::PlannedGroup {
        group: group.group.clone(),
        endpoints: group.members.iter().map(|member| member.endpoint.clone()).collect(),
        ..Default::default()
    });
    let request = v1::PlanMgidsRequest { groups: planned.collect() };
    made(async || load.tic.clone().plan_mgids(request.clone()).await).await;
    let random = form_batch(load, Batch { job: "random", token: "", groups }).await;
    let mut groups = random_specs(load, "exclusive", EXCLUSIVE, 2);
    groups.iter_mut().for_each(|group| group.exclusive = true);
    let exclusive = form_batch(load, Batch { job: "exclusive", token: "", groups }).await;
    let groups = vec![spec(load, WHOLE.to_owned(), 0..load.endpoints.len())];
    form_batch(load, Batch { job: WHOLE, token: "", groups }).await;
    Groups { random, exclusive }
}

pub(super) fn join(load: &Load, group: &str, node: usize, process: String) -> v1::JoinGroupRequest {
    v1::JoinGroupRequest {
        request_id: format!("join {group} {node} {process}"),
        group: group.to_owned(),
        node: node_name(node),
        incarnation: 1,
        endpoint: load.endpoints[node].clone(),
        process,
        ..Default::default()
    }
}

pub(super) fn leave(join: &v1::JoinGroupRequest) -> v1::LeaveGroupRequest {
    v1::LeaveGroupRequest {
        request_id: format!("leave {}", join.request_id),
        group: join.group.clone(),
        node: join.node.clone(),
        incarnation: join.incarnation,
        process: join.process.clone(),
    }
}

async fn join_many(load: &Load, joins: &[v1::JoinGroupRequest]) {
    let request = v1::JoinManyRequest { joins: joins.to_vec() };
    let joined = made(async || load.batches.clone().join_many(request.clone()).await).await;
    let refused = joined.answers.iter().find(|one| !matches!(one.answer, Some(Joined::Joined(_))));
    assert_eq!(refused, None);
}

/// Has one node join all groups.
pub(super) async fn join_all(load: &Load, node: usize, groups: &[v1::FormedGroup]) {
    let join = |group: &v1::FormedGroup| join(load, &group.group, node, "everywhere".to_owned());
    let joins: Vec<_> = groups.iter().map(join).collect();
    join_many(load, &joins).await;
}

/// Has many processes join groups with one call, and leave them with another: new groups, that of
/// all nodes, and others.
pub(super) async fn join_and_leave(load: &Load, groups: &Groups) {
    let late = |number: usize| {
        let group = match number % 4 {
            0 => format!("new/{number}"),
            1 => WHOLE.to_owned(),
            _ => groups.random[number % groups.random.len()].group.clone(),
        };
        join(load, &group, number % load.endpoints.len(), format!("late{number}"))
    };
    let joins: Vec<_> = (0..load.scale.joins).map(late).collect();
    join_many(load, &joins).await;
    let request = v1::LeaveManyRequest { leaves: joins.iter().map(leave).collect() };
    let left = made(async || load.batches.clone().leave_many(request.clone()).await).await;
    let refused = left.answers.iter().find(|one| !matches!(one.answer, Some(Left::Left(_))));
    assert_eq!(refused, None);
}

/// Deletes all groups.
pub(super) async fn delete(load: &Load, groups: &Groups) {
    for group in [WHOLE, groups.random[0].group.as_str()] {
        let request = v1::DeleteGroupRequest {
            request_id: format!("delete {group}"),
            group: group.to_owned(),
        };
        made(async || load.tic.clone().delete_group(request.clone()).await).await;
    }
    for job in ["random", "exclusive"] {
        let request =
            v1::DeleteJobGroupsRequest { request_id: format!("delete {job}"), job: job.to_owned() };
        made(async || load.batches.clone().delete_job_groups(request.clone()).await).await;
    }
}
