//! Rules R1 to R4 and G2 on what is read back after random histories.

use fabricast_integration::{Cluster, Layout, Traffic, copied};
use fabricast_topology::{Faults, TableKind};

use crate::history::{Chance, Model, recorded, step};

const BATCHES: usize = 4;
const STEPS: usize = 30;

async fn random_history(layout: Layout, seed: u64) {
    let mut cluster = Cluster::start(layout).await;
    let traffic = Traffic::listen(&cluster.client).await;
    let (mut chance, mut model) = (Chance(seed), Model::new());
    let (mut merged, mut displaced) = (0, 0);
    for _ in 0..BATCHES {
        for _ in 0..STEPS {
            // Few enough to meet on trees, and to be refused now and then.
            let mgid = |chance: &mut Chance| match chance.below(3) {
                0 => u32::try_from(chance.below(40)).ok(),
                _ => None,
            };
            step(&cluster.client, &mut chance, &mut model, mgid).await;
        }
        model.retain(|_, members| !members.is_empty());
        assert_eq!(recorded(&cluster.client.groups().await), model);
        cluster.is_whole(&traffic, &Faults::new()).await;
        let status = cluster.client.route_status().await.unwrap();
        merged += status.routed_groups - status.virtual_groups;
        for group in model.keys() {
            let plan = cluster.client.explain(group).await.unwrap();
            displaced += u32::from(plan.spanning_tree != Some(plan.home_spanning_tree));
        }
    }
    assert!(
        merged > 0 && displaced > 0,
        "trees were shared {merged} times, left {displaced} times"
    );
    // R3: who computes from scratch comes to the same tables.
    let tables = cluster.client.tables().await;
    assert!(copied(&tables).len() > 1, "the history left something to compare");
    cluster.router.kill();
    cluster.router.restart().await;
    cluster.is_whole(&traffic, &Faults::new()).await;
    assert_eq!(copied(&cluster.client.tables().await), copied(&tables));
    for (group, members) in &model {
        for (node, process) in members {
            cluster.client.leave_as(group, node, process).await.unwrap();
        }
    }
    cluster.is_whole(&traffic, &Faults::new()).await;
    assert_eq!(cluster.client.groups().await, []);
    assert_eq!(copied(&cluster.client.tables().await), []);
}

#[tokio::test]
async fn two_levels_with_a_table_per_port_keep_the_rules() {
    random_history(Layout::leaf_spine().with_colors(4), 0x5eed_0001).await;
}

#[tokio::test]
async fn two_levels_with_a_table_per_switch_keep_the_rules() {
    let layout = Layout::leaf_spine().with_tables(TableKind::PerSwitch);
    random_history(layout.with_colors(5), 0x5eed_0002).await;
}

#[tokio::test]
async fn three_levels_with_a_table_per_port_keep_the_rules() {
    random_history(Layout::three_levels().with_colors(3), 0x5eed_0003).await;
}

#[tokio::test]
async fn three_levels_with_a_table_per_switch_keep_the_rules() {
    let layout = Layout::three_levels().with_tables(TableKind::PerSwitch);
    random_history(layout.with_colors(5).with_switch_agents(3), 0x5eed_0024).await;
}

#[tokio::test]
async fn four_levels_with_two_entries_keep_the_rules() {
    let layout = Layout::four_levels().with_colors(2).with_switch_agents(2);
    random_history(layout, 0x5eed_0005).await;
}
