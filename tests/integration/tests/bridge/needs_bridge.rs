//! Tables, packets, cut cables and bridges that somebody changes, with those of the kernel.

mod lab;

use std::collections::BTreeMap;

use fabricast_integration::{Cluster, Layout, Part, eventually};
use fabricast_proto::v1;
use fabricast_proto::v1::element::Kind;
use fabricast_topology::TableKind;
use tokio_stream::StreamExt;

use crate::labs::{
    COUNT, NO_TIC, address_of_color, conforms, entries, goes_round, nothing_has_failed,
};
use lab::Lab;

/// Two leaves with two hosts each, and two spines.
fn layout() -> Layout {
    Layout::of("kind = 'leaf-spine'\nleaves = 2\nspines = 2\nendpoints_per_leaf = 2\n")
        .with_tables(TableKind::PerSwitch)
}

/// The same suite that the other drivers pass.
#[tokio::test(flavor = "multi_thread")]
async fn the_driver_of_bridges_conforms() {
    let layout = layout();
    let lab = Lab::of(&layout);
    let agent = lab.agent(&layout, NO_TIC.parse().unwrap()).await;
    conforms(&agent, |switch, port, is_up| lab.set_link(switch, port, is_up)).await;
}

/// Every entry that a bridge offers in one write, twice: 2 048 groups, then other ports for all. An
/// agent with fewer colors takes the others away.
#[tokio::test(flavor = "multi_thread")]
async fn a_whole_table_is_written_at_once() {
    let layout = layout().with_colors(2048);
    let lab = Lab::of(&layout);
    let driver = lab.driver(&layout);
    let switch_name = layout.graph.switch_name(layout.graph.switches().next().unwrap()).to_owned();
    let ours = || {
        let shown = lab.bridges.bridge_of("s0", &["mdb", "show"]);
        shown.lines().filter(|line| line.contains("grp 239.192.")).count()
    };
    for (generation, out_ports) in [(1, vec![1, 2, 3]), (2, vec![4])] {
        let entry = |color| {
            let out_ports = out_ports.clone();
            v1::TableEntry { in_port: 0, color, out_ports }
        };
        let entries: Vec<_> = (0..2048).map(entry).collect();
        let part = v1::SwitchWrite { switch_name: switch_name.clone(), entries: entries.clone() };
        let fence = v1::Fence { term: 1, generation };
        let written = driver.write_tables(fence, vec![part]).await.unwrap();
        assert_eq!((written.entries, written.refusals), (2048, vec![]));
        assert_eq!(ours(), 2048 * out_ports.len());
    }
    drop(driver);
    let others = ["mdb", "add", "dev", "br0", "port", "p1", "grp", "239.200.0.1", "permanent"];
    lab.bridges.bridge_of("s0", &others);
    let driver = lab.driver(&layout.with_colors(64));
    let mut tables = driver.read_tables(vec![switch_name]).await.unwrap();
    let table = tables.next().await.unwrap().unwrap();
    assert_eq!((table.entries.len(), ours()), (64, 64));
    let shown = lab.bridges.bridge_of("s0", &["mdb", "show"]);
    assert!(shown.contains("grp 239.200.0.1"), "{shown}");
}

/// A cluster over bridges.
struct World {
    cluster: Cluster,
    agent: Part,
    lab: Lab,
}

impl World {
    async fn start(layout: Layout) -> Self {
        let lab = Lab::of(&layout);
        let mut agent = None;
        let cluster = Cluster::start_over(layout.clone(), async |tic| {
            let started = lab.agent(&layout, tic).await;
            let address = started.address();
            agent = Some(started);
            vec![address]
        })
        .await;
        Self { cluster, agent: agent.expect("started above"), lab }
    }

    /// Waits until a program on a member's host reaches the programs of the other members, each
    /// datagram once.
    ///
    /// Programs of all hosts have joined the address. A bridge hears that, so those that are no
    /// members get the datagrams, too, where their switch is in the tree.
    async fn carries(&self, group: &str, from: &str, members: &[&str]) {
        let client = &self.cluster.client;
        eventually("the group is routed", async || client.is_settled().await).await;
        let explained = client.explain(group).await.unwrap();
        let color = explained.color.expect("a hardware route");
        let (received, twice) = self.lab.carry(from, color);
        let received: BTreeMap<_, _> = received.into_iter().collect();
        for member in members {
            assert_eq!(received[*member], COUNT as usize, "{member}: {received:?}");
        }
        assert_eq!(twice, 0);
    }

    /// Waits until the tables are these again, and the route service is content.
    async fn is_repaired(&self, before: &[v1::SwitchTable]) {
        let client = &self.cluster.client;
        eventually("the tables are repaired", async || {
            client.is_settled().await?;
            let now = client.read_tables().await?;
            if entries(&now) == entries(before) { Ok(()) } else { Err(format!("{now:?}")) }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_reach_the_members_of_their_group() {
    let mut world = World::start(layout()).await;
    let client = world.cluster.client.clone();
    client.join_all("most", &["n0", "n1", "n2"]).await;
    client.join_all("pair", &["n1", "n3"]).await;
    world.carries("most", "h0", &["h1", "h2"]).await;
    world.carries("most", "h2", &["h0", "h1"]).await;
    world.carries("pair", "h3", &["h1"]).await;

    // A cut cable: the tree goes round it, and back.
    let Kind::Link(cable) = client.tree_link("most").await else { panic!("a tree has links") };
    world.lab.set_link(&cable.switch_name, cable.port, false);
    goes_round(&client, "most", &cable).await;
    world.carries("most", "h0", &["h1", "h2"]).await;
    world.lab.set_link(&cable.switch_name, cable.port, true);
    nothing_has_failed(&client).await;
    world.carries("most", "h0", &["h1", "h2"]).await;

    // An agent that starts again finds its entries and the term in the bridges.
    world.agent.kill();
    client.leave("most", "n1").await.unwrap();
    world.agent.restart().await;
    world.carries("most", "h0", &["h2"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bridges_that_lost_or_changed_their_entries_are_repaired() {
    let world = World::start(layout()).await;
    let client = world.cluster.client.clone();
    client.join_all("most", &["n0", "n1", "n2"]).await;
    eventually("the group is routed", async || client.is_settled().await).await;
    let before = client.tables().await;
    let color = client.explain("most").await.unwrap().color.expect("a hardware route");
    let group = address_of_color(color).to_string();
    let Kind::Link(cable) = client.tree_link("most").await else { panic!("a tree has links") };
    let (name, port) = (world.lab.name(&cable.switch_name), format!("p{}", cable.port));
    let (bridges, members) = (&world.lab.bridges, ["h1", "h2"]);

    // Somebody takes an entry away, adds one, and has the bridge use none.
    bridges.bridge_of(&name, &["mdb", "del", "dev", "br0", "port", &port, "grp", &group]);
    let stray = ["mdb", "add", "dev", "br0", "port", &port, "grp", "239.192.0.9", "permanent"];
    bridges.bridge_of(&name, &stray);
    bridges.ip_of(&name, &["link", "set", "br0", "type", "bridge", "mcast_querier", "0"]);
    world.is_repaired(&before).await;
    world.carries("most", "h0", &members).await;

    // Interfaces that leave a bridge take their entries with them.
    bridges.ip_of(&name, &["link", "set", &port, "nomaster"]);
    eventually("the cable has failed", async || {
        let failed = client.failed_elements().await?;
        if failed.is_empty() { Err("not yet".to_owned()) } else { Ok(()) }
    })
    .await;
    world.carries("most", "h0", &members).await;
    bridges.ip_of(&name, &["link", "set", &port, "master", "br0"]);
    nothing_has_failed(&client).await;
    world.carries("most", "h0", &members).await;
}

/// Reason and message of the only refusal of a write of one entry to the first switch.
async fn refused(
    lab: &Lab,
    layout: &Layout,
    generation: u64,
    entries: Vec<v1::TableEntry>,
) -> (String, String) {
    let switch_name = layout.graph.switch_name(layout.graph.switches().next().unwrap()).to_owned();
    let driver = lab.driver(layout);
    let fence = v1::Fence { term: 1, generation };
    let part = v1::SwitchWrite { switch_name, entries };
    let mut written = driver.write_tables(fence, vec![part]).await.unwrap();
    let refusal = written.refusals.pop().expect("a refusal");
    (refusal.reason, refusal.message)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bridge_that_does_not_do_says_why() {
    let layout = layout().with_colors(64);
    let lab = Lab::of(&layout);
    let entry = |color: u32, out_ports: &[u32]| v1::TableEntry {
        in_port: 0,
        color,
        out_ports: out_ports.to_vec(),
    };
    let named = |message: &str, words: &[&str]| {
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
    };

    // An interface that is no port of the bridge, beside one that is.
    lab.bridges.ip_of("s0", &["link", "set", "p2", "nomaster"]);
    let (reason, message) = refused(&lab, &layout, 1, vec![entry(5, &[1, 2])]).await;
    assert_eq!(reason, "WRITE_FAILED");
    named(&message, &["bridge br0 in namespace", "p2", "239.192.0.5", "not a bridge port"]);
    let shown = lab.bridges.bridge_of("s0", &["mdb", "show"]);
    assert!(!shown.contains("239.192.0.5"), "nothing of it is kept: {shown}");

    // More groups than fit; the kernel would leave all entries aside.
    let small = ["link", "set", "br0", "type", "bridge", "mcast_hash_max", "64"];
    lab.bridges.ip_of("s0", &small);
    for number in 0..52 {
        let group = format!("224.1.0.{number}");
        let other = ["mdb", "add", "dev", "br0", "port", "p1", "grp", &group, "permanent"];
        lab.bridges.bridge_of("s0", &other);
    }
    let many = (0..16).map(|color| entry(color, &[1])).collect();
    let (reason, message) = refused(&lab, &layout, 2, many).await;
    assert_eq!(reason, "WRITE_FAILED");
    named(&message, &["bridge br0 in namespace", "mcast_hash_max is 64"]);
    let settings = lab.bridges.ip_of("s0", &["-details", "link", "show", "br0"]);
    assert!(settings.contains("mcast_snooping 1"), "{settings}");
    let (reason, _) = refused(&lab, &layout, 3, vec![entry(32, &[1])]).await;
    assert_eq!(reason, "BAD_ENTRY");

    // A bridge that is down, and none at all.
    lab.bridges.ip_of("s0", &["link", "set", "br0", "down"]);
    let (reason, message) = refused(&lab, &layout, 4, vec![entry(5, &[1])]).await;
    assert_eq!(reason, "SWITCH_DOWN");
    named(&message, &["bridge br0 in namespace", "is not up"]);
    lab.bridges.ip_of("s0", &["link", "delete", "br0"]);
    let (reason, message) = refused(&lab, &layout, 5, vec![entry(5, &[1])]).await;
    assert_eq!(reason, "SWITCH_DOWN");
    named(&message, &["bridge br0 in namespace", "does not exist"]);
}
