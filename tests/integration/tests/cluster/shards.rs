//! Thousands of switches in one emulated fabric, and switch agents that have a shard of them each.

use std::collections::BTreeMap;

use fabricast_integration::{Cluster, Layout, Traffic, copied, eventually};
use fabricast_proto::v1;
use fabricast_proto::v1::disturb_switch_request::Disturbance;
use fabricast_topology::Faults;

const SWITCHES: usize = 2_304;
const AGENTS: usize = 3;

/// Four levels of switches with 512 endpoints, of which 64 are nodes: it is switches that are to be
/// many.
fn thousands() -> Layout {
    let layout = Layout::of(
        "kind = 'cn-tn-fat-tree'\nleaves_per_cn = 16\nspines_per_cn = 32\ntns_per_group = 2\n\
         blocks = 8\ncns_per_block = 4\nendpoints_per_leaf = 1\n",
    );
    let hosts = layout.hosts.iter().map(|host| host.iter().step_by(8).cloned().collect());
    let hosts = hosts.collect();
    layout.with_hosts(hosts).with_switch_agents(AGENTS)
}

/// The agent of every switch; no switch has two.
async fn owners(cluster: &Cluster) -> BTreeMap<String, usize> {
    let mut owners = BTreeMap::new();
    for (number, mut agent) in cluster.client.switch_agents().enumerate() {
        let listed = agent.list_switches(v1::ListSwitchesRequest {}).await.unwrap();
        for switch in listed.into_inner().switches {
            assert_eq!(owners.insert(switch.name, number), None);
        }
    }
    owners
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_program_disjoint_shards_of_thousands_of_switches() {
    let cluster = Cluster::start(thousands()).await;
    let client = &cluster.client;
    assert_eq!(cluster.layout.graph.switch_count(), SWITCHES);
    let owners = owners(&cluster).await;
    assert_eq!(owners.len(), SWITCHES);

    let traffic = Traffic::listen(client).await;
    let nodes: Vec<&str> = cluster.layout.hosts.iter().flatten().map(|node| &*node.name).collect();
    for stride in [1, 2, 3, 5] {
        let members: Vec<&str> = nodes.iter().step_by(stride).copied().collect();
        client.join_all(&format!("every-{stride}"), &members).await;
    }
    cluster.is_whole(&traffic, &Faults::new()).await;
    let tables = client.tables().await;
    let mut used = [0; AGENTS];
    for table in tables.iter().filter(|table| !table.entries.is_empty()) {
        used[owners[&table.switch_name]] += 1;
    }
    assert!(used.iter().all(|used| *used > 0), "{used:?}");

    // Nobody writes to what is another's.
    let root = client.explain("every-1").await.unwrap().root;
    let stranger = client.switch_agents().nth((owners[&root] + 1) % AGENTS);
    let request = v1::ReadTablesRequest { switch_names: vec![root.clone()] };
    let refused = stranger.unwrap().read_tables(request).await.map(drop).unwrap_err();
    assert_eq!(refused.code(), tonic::Code::NotFound, "{refused}");

    // One table among thousands is missed, and written again.
    let wiped = Some(Disturbance::Wipe(v1::WipeTable {}));
    let request = v1::DisturbSwitchRequest { switch_name: root.clone(), disturbance: wiped };
    client.fabric().disturb_switch(request).await.unwrap();
    eventually("the table is written again", async || {
        let request = v1::ListTableDriftsRequest {};
        let listed = client.router().list_table_drifts(request).await;
        let drifts = listed.map_err(|status| status.to_string())?.into_inner().drifts;
        let is_repaired =
            drifts.iter().any(|one| one.switch_name == root && one.repaired_ago.is_some());
        if is_repaired { Ok(()) } else { Err(format!("{drifts:?}")) }
    })
    .await;
    assert_eq!(copied(&client.tables().await), copied(&tables));
}
