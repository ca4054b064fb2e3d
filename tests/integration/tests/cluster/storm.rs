//! Everything at once: groups change while one part after the other is killed and started again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fabricast_integration::{Cluster, Flow, Layout, Traffic, eventually};
use fabricast_topology::{Faults, TableKind};
use tokio_util::sync::CancellationToken;

use crate::history::{Chance, Model, recorded, step};

/// Each kind of part is killed so often.
const ROUNDS: usize = 3;

/// Waits until more packets were sent and more processes have joined or left.
async fn life_goes_on(flow: &Flow, steps: &AtomicUsize) {
    let goal = (flow.sent() + 20, steps.load(Ordering::Relaxed) + 4);
    eventually("packets flow and groups change", async || {
        let now = (flow.sent(), steps.load(Ordering::Relaxed));
        if now.0 >= goal.0 && now.1 >= goal.1 {
            Ok(())
        } else {
            Err(format!("{now:?} of {goal:?}"))
        }
    })
    .await;
}

async fn storm(layout: Layout, seed: u64) {
    let mut cluster = Cluster::start(layout).await;
    let client = cluster.client.clone();
    // The smallest MGID has the first choice, so this group stays where it is. Groups off their
    // trees may have to exchange their colors, and then there is no order of writes without a loss.
    client.join_fixed("standing", 0, &["n0", "n1", "n5", "n10", "n15"]).await;
    let traffic = Traffic::listen(&client).await;
    cluster.is_whole(&traffic, &Faults::new()).await;
    let standing = vec![client.group("standing").await];
    let flow = traffic.flow(&standing);
    let (calm, steps) = (CancellationToken::new(), Arc::new(AtomicUsize::new(0)));
    let churn = {
        let (client, calm, steps) = (client.clone(), calm.clone(), Arc::clone(&steps));
        tokio::spawn(async move {
            let (mut chance, mut model) = (Chance(seed), Model::new());
            while !calm.is_cancelled() {
                step(&client, &mut chance, &mut model, |_| None).await;
                steps.fetch_add(1, Ordering::Relaxed);
            }
            model
        })
    };
    for _ in 0..ROUNDS {
        for victim in 0..2 + cluster.switches.len() {
            let (part, groups_change_without_it) = match victim {
                0 => (&mut cluster.tic, false),
                1 => (&mut cluster.router, true),
                agent => (&mut cluster.switches[agent - 2], true),
            };
            part.kill();
            if groups_change_without_it {
                life_goes_on(&flow, &steps).await;
            }
            part.restart().await;
            life_goes_on(&flow, &steps).await;
        }
    }
    calm.cancel();
    let mut model = churn.await.unwrap();
    client.settled().await;
    flow.stop().await;
    traffic.all_arrived(&standing).await;
    cluster.is_whole(&traffic, &Faults::new()).await;
    model.retain(|_, members| !members.is_empty());
    let mut found = recorded(&client.groups().await);
    assert!(found.remove("standing").is_some());
    assert_eq!(found, model);
}

#[tokio::test]
async fn a_standing_group_loses_nothing_while_parts_die_and_others_change() {
    storm(Layout::leaf_spine().with_switch_agents(2).with_colors(4), 0x5eed_1001).await;
}

#[tokio::test]
async fn a_standing_group_on_three_levels_with_a_table_per_switch_loses_nothing_either() {
    let layout = Layout::three_levels().with_tables(TableKind::PerSwitch);
    storm(layout, 0x5eed_1002).await;
}
