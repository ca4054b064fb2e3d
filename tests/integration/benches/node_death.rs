//! Measures how long a dead node stays in its groups, and how long it takes until they are whole
//! without it.
//!
//! A whole cluster runs here, each part in a runtime of its own and all on this machine. Nodes
//! report every 0.1 s; silence of 1.5 s is probed, once for 1 s. The agents of a group see a member
//! die; then the TIC probes it, too. The TIC sees the death of a node that hosts agents itself.

#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]

use std::time::{Duration, Instant};

use fabricast_integration::{Client, Cluster, Layout, eventually, member_tables_agree};
use fabricast_proto::v1;

/// Groups, each of four nodes; every node hosts the agents of some.
const GROUPS: usize = 48;
const NODES: usize = 16;
/// Deaths of each kind; the longest one counts.
const DEATHS: usize = 3;

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let cluster = Cluster::start(Layout::leaf_spine()).await;
        let client = &cluster.client;
        // Nodes 0 to 11 found groups; the others only join.
        for group in 0..GROUPS {
            for step in [0, 1, 5] {
                join(client, group, (group + step) % 12).await;
            }
            join(client, group, 12 + group % (NODES - 12)).await;
        }
        client.settled().await;
        for (kind, first) in [("agents", 0), ("member", 12)] {
            let mut worst = Times::default();
            for death in 0..DEATHS {
                let times = dies(client, &format!("n{}", first + death)).await;
                worst = worst.max(&times);
            }
            for (what, time) in [
                ("out_of_all_groups", worst.out),
                ("trees_whole", worst.trees),
                ("routed_anew", worst.routed),
            ] {
                println!("figure node_death/{kind}/{what} {:.3} s", time.as_secs_f64());
            }
        }
    });
}

async fn join(client: &Client, group: usize, node: usize) {
    let (group, node) = (format!("g{group}"), format!("n{node}"));
    client.join(&group, &node).await.expect("it joins");
}

/// From a node's death.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    /// Until the TIC has it in no group any more.
    out: Duration,
    /// Until every group has one agent that all members obey, and a tree over exactly these.
    trees: Duration,
    /// Until the switches hold trees without it.
    routed: Duration,
}

impl Times {
    fn max(self, other: &Self) -> Self {
        Self {
            out: self.out.max(other.out),
            trees: self.trees.max(other.trees),
            routed: self.routed.max(other.routed),
        }
    }
}

async fn dies(client: &Client, node: &str) -> Times {
    client.stop_node(node).await;
    let death = Instant::now();
    eventually("it is out of all groups", async || {
        let groups = client.groups().await;
        let is_in = |group: &v1::Group| {
            group.agent_node == node || group.members.iter().any(|member| member.node == node)
        };
        match groups.iter().filter(|group| is_in(group)).count() {
            0 => Ok(()),
            left => Err(format!("it is in {left} groups")),
        }
    })
    .await;
    let out = death.elapsed();
    eventually("all trees are whole", async || member_tables_agree(client).await).await;
    let trees = death.elapsed();
    eventually("all groups are routed", async || {
        let behind = |group: &v1::Group| {
            let route = group.route.as_ref();
            route.is_none_or(|route| route.routed_revision < group.members_revision)
        };
        match client.groups().await.iter().filter(|group| behind(group)).count() {
            0 => Ok(()),
            left => Err(format!("{left} groups are not")),
        }
    })
    .await;
    Times { out, trees, routed: death.elapsed() }
}
