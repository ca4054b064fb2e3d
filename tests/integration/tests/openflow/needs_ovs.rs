//! Tables, packets, cut cables and wiped switches, with switches that others wrote.

mod lab;
mod writes;

use std::process::Command;

use fabricast_integration::{Cluster, Layout, Part, eventually};
use fabricast_openflow::{
    Body, CODE_BYTES, EntryKey, Fence, Found, LldpFrame, Mapping, Message, Request, Role,
    RoleMessage, SwitchPort, Version,
};
use fabricast_proto::v1;
use fabricast_proto::v1::element::Kind;
use fabricast_proto::v1::switch_agent_service_client::SwitchAgentServiceClient;
use fabricast_rpc::Peer;
use fabricast_topology::{PortSet, TableKind};

use crate::labs::{COUNT, NO_TIC, conforms, entries, goes_round, nothing_has_failed};
use lab::Lab;

/// Two leaves with two hosts each, and two spines.
fn layout() -> Layout {
    Layout::of("kind = 'leaf-spine'\nleaves = 2\nspines = 2\nendpoints_per_leaf = 2\n")
}

/// Waits until the agent serves all switches.
async fn serves_all(agent: &Part, layout: &Layout) {
    let peer = Peer::new(&agent.address().to_string()).unwrap();
    eventually("all switches are connected", async || {
        let mut calls = SwitchAgentServiceClient::new(peer.channel());
        let listed = calls.list_switches(v1::ListSwitchesRequest {}).await;
        let switches = listed.map_err(|status| status.message().to_owned())?.into_inner().switches;
        let live = switches.iter().filter(|switch| switch.live).count();
        if live == layout.graph.switch_count() { Ok(()) } else { Err(format!("{live} live")) }
    })
    .await;
}

/// The same suite that the other drivers pass.
#[tokio::test(flavor = "multi_thread")]
async fn the_driver_of_openflow_switches_conforms() {
    for tables in [TableKind::PerPort, TableKind::PerSwitch] {
        let layout = layout().with_tables(tables);
        let lab = Lab::start(&layout);
        let agent = lab.agent(&layout, NO_TIC.parse().unwrap()).await;
        serves_all(&agent, &layout).await;
        conforms(&agent, |switch, port, is_up| lab.set_link(switch, port, is_up)).await;
    }
}

/// A cluster over real switches.
struct World {
    cluster: Cluster,
    agent: Part,
    lab: Lab,
}

impl World {
    async fn start(layout: Layout) -> Self {
        let lab = Lab::start(&layout);
        let mut agent = None;
        let cluster = Cluster::start_over(layout.clone(), async |tic| {
            let started = lab.agent(&layout, tic).await;
            serves_all(&started, &layout).await;
            let address = started.address();
            agent = Some(started);
            vec![address]
        })
        .await;
        Self { cluster, agent: agent.expect("started above"), lab }
    }

    /// Waits until a program on a member's host reaches the programs of the other members of
    /// `every`, each datagram once, and nobody else.
    async fn carries(&self, group: &str, from: &str, members: &[&str]) {
        let client = &self.cluster.client;
        eventually("the group is routed", async || client.is_settled().await).await;
        let explained = client.explain(group).await.unwrap();
        let color = explained.color.expect("a hardware route");
        let (received, twice) = self.lab.carry(from, color);
        let expected = |name: &str| if members.contains(&name) { COUNT as usize } else { 0 };
        let wanted: Vec<_> =
            received.iter().map(|(name, _)| (name.clone(), expected(name))).collect();
        assert_eq!((received, twice), (wanted, 0));
    }

    /// Waits until the switches hold these entries again.
    async fn is_repaired(&self, before: &[v1::SwitchTable]) {
        let client = &self.cluster.client;
        eventually("the tables are repaired", async || {
            let now = client.read_tables().await?;
            if entries(&now) == entries(before) { Ok(()) } else { Err(format!("{now:?}")) }
        })
        .await;
        self.agrees().await;
    }

    /// Waits until every switch holds what `ovs-ofctl` says, and the route service is content.
    async fn agrees(&self) {
        let client = &self.cluster.client;
        eventually("ovs-ofctl agrees", async || {
            client.is_settled().await?;
            for table in client.read_tables().await? {
                let bridge = self.lab.bridge(&table.switch_name);
                let groups = self.lab.ovs.ofctl("dump-groups", &bridge, &[]);
                let flows = self.lab.ovs.ofctl("dump-flows", &bridge, &[]);
                let endpoint_ports = self.lab.endpoint_ports(&table.switch_name);
                compare(&table, endpoint_ports, &groups, &flows)?;
            }
            Ok(())
        })
        .await;
    }
}

/// Compares a table with the groups and flows that `ovs-ofctl` prints.
///
/// - `endpoint_ports`: ports of the switch where packets have no mark yet.
fn compare(
    table: &v1::SwitchTable,
    endpoint_ports: PortSet,
    groups: &str,
    flows: &str,
) -> Result<(), String> {
    let (mut choices, is_near) =
        (0, |port: u32| endpoint_ports.contains(u8::try_from(port).unwrap()));
    for entry in &table.entries {
        let id = entry.in_port << 16 | (entry.color + 1);
        let bucket = |port: &u32| format!("bucket=actions=output:{port}");
        let mut buckets: Vec<String> = entry.out_ports.iter().map(bucket).collect();
        // Of two ways up from an endpoint, packets take one.
        if is_near(entry.in_port)
            && entry.out_ports.iter().filter(|port| !is_near(**port)).count() == 2
        {
            choices += 1;
            let near = entry.out_ports.iter().filter(|port| is_near(**port));
            let choice = format!("bucket=actions=group:{}", id | 1 << 24);
            buckets = near.map(bucket).chain([choice]).collect();
        }
        let buckets = buckets.join(",");
        let group = format!("group_id={id},type=all,{buckets}");
        if !groups.lines().any(|line| line.trim() == group) {
            return Err(format!("{}: no {group} in\n{groups}", table.switch_name));
        }
        let v1::TableEntry { in_port, color, .. } = entry;
        let mark = format!("02:fa:b0:00:00:{color:02x}");
        let flow = if is_near(*in_port) {
            let marking = format!("set_field:{mark}->eth_src");
            format!("ip,in_port={in_port},nw_dst=239.192.0.{color} actions={marking},group:{id}")
        } else {
            format!("in_port={in_port},dl_src={mark} actions=group:{id}")
        };
        if !flows.lines().any(|line| line.trim().ends_with(&flow)) {
            return Err(format!("{}: no {flow} in\n{flows}", table.switch_name));
        }
    }
    let count = groups.matches("group_id=").count();
    let entries = table.entries.len() + choices;
    if count == entries { Ok(()) } else { Err(format!("{entries} entries, groups:\n{groups}")) }
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_reach_the_members_of_their_group_and_nobody_else() {
    let mut world = World::start(layout()).await;
    let client = world.cluster.client.clone();
    client.join_all("most", &["n0", "n1", "n2"]).await;
    client.join_all("pair", &["n1", "n3"]).await;
    world.agrees().await;
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
    world.agrees().await;
    world.carries("most", "h0", &["h1", "h2"]).await;

    // An agent that starts again finds its entries and the fence in the switches.
    world.agent.kill();
    client.leave("most", "n1").await.unwrap();
    world.agent.restart().await;
    world.agrees().await;
    world.carries("most", "h0", &["h2"]).await;
}

/// Has a program send by the trees of a group, and expects each datagram once at the members.
fn is_carried_once(lab: &Lab, color: u32, case: &str) {
    let count = COUNT as usize;
    let wanted =
        [("h1", count), ("h2", count), ("h3", 0)].map(|(name, got)| (name.to_owned(), got));
    assert_eq!(lab.carry("h0", color), (wanted.to_vec(), 0), "{case}");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_two_trees_each_packet_comes_once_whichever_of_them_breaks() {
    let mut world = World::start(layout().with_fault_tolerance()).await;
    let client = world.cluster.client.clone();
    client.join_all("most", &["n0", "n1", "n2"]).await;
    eventually("the group is routed", async || client.is_settled().await).await;
    let color = client.explain("most").await.unwrap().color.expect("a hardware route");
    is_carried_once(&world.lab, color, "nothing is broken");

    // Nobody but the switch is there when the cable of a tree is cut, or mended.
    let (near, far) = (world.lab.leaf("h0"), world.lab.leaf("h2"));
    let ways = world.lab.ways(&far);
    let [first, second] = ways.concat()[..] else { panic!("{ways:?}") };
    world.agent.kill();
    for (cut, case) in [(first, "the first tree is cut"), (second, "the second tree is cut")] {
        world.lab.set_link(&near, cut, false);
        is_carried_once(&world.lab, color, case);
        world.lab.set_link(&near, cut, true);
    }
    is_carried_once(&world.lab, color, "all is mended");

    // The sender's switch cannot see the far end of its tree; the agent can.
    world.agent.restart().await;
    serves_all(&world.agent, &world.cluster.layout).await;
    let (spine, down) = world.lab.far_end(&far, first);
    world.lab.set_link(&spine, down, false);
    eventually("packets take the other tree", async || {
        let ways = [world.lab.ways(&near), world.lab.ways(&far)].concat();
        let moved = ways.iter().all(|ways| ways[..] == [second, first]);
        if moved { Ok(()) } else { Err(format!("{ways:?}")) }
    })
    .await;
    is_carried_once(&world.lab, color, "a cable of the far leaf is cut");
    world.lab.set_link(&spine, down, true);
    world.agrees().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn switches_that_lost_or_changed_their_tables_are_repaired() {
    let mut world = World::start(layout()).await;
    let client = world.cluster.client.clone();
    client.join_all("most", &["n0", "n1", "n2"]).await;
    world.agrees().await;
    let before = client.tables().await;
    let Kind::Link(cable) = client.tree_link("most").await else { panic!("a tree has links") };
    let bridge = world.lab.bridge(&cable.switch_name);

    // Somebody clears the switch, and somebody changes and adds.
    let _ = world.lab.ovs.ofctl("del-groups", &bridge, &[]);
    let _ = world.lab.ovs.ofctl("del-flows", &bridge, &[]);
    world.is_repaired(&before).await;
    world.carries("most", "h0", &["h1", "h2"]).await;
    let groups = world.lab.ovs.ofctl("dump-groups", &bridge, &[]);
    let id = groups.split("group_id=").nth(1).and_then(|rest| rest.split(',').next()).unwrap();
    let altered = format!("group_id={id},type=all,bucket=output:1,bucket=output:1");
    let _ = world.lab.ovs.ofctl("mod-group", &bridge, &[&altered]);
    let stray = "priority=50000,ip,nw_dst=239.192.0.0,actions=drop";
    let _ = world.lab.ovs.ofctl("add-flow", &bridge, &[stray]);
    let _ = world.lab.ovs.ofctl("add-group", &bridge, &["group_id=9,type=all,bucket=output:1"]);
    eventually("the stray flow is gone", async || {
        let flows = world.lab.ovs.ofctl("dump-flows", &bridge, &[]);
        if flows.contains("priority=50000") { Err(flows) } else { Ok(()) }
    })
    .await;
    world.is_repaired(&before).await;
    world.carries("most", "h1", &["h0", "h2"]).await;

    // The switches lose power.
    world.lab.ovs.restart();
    serves_all(&world.agent, &world.cluster.layout).await;
    world.is_repaired(&before).await;
    world.carries("most", "h2", &["h0", "h1"]).await;
}

/// Prints a message of ours by `ovs-ofctl`.
fn printed(version: Version, body: Body) -> String {
    let bytes = Message { xid: 7, body }.encode(version);
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let output = Command::new("ovs-ofctl").args(["ofp-print", &hex]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn ovs_ofctl_prints_what_was_meant() {
    let mapping = Mapping {
        table: 3,
        priority: 1000,
        addresses: "239.192.0.0".parse().unwrap(),
        colors: 64,
        first_group: 1,
        tables: TableKind::PerPort,
        endpoint_ports: PortSet::single(2),
        fault_tolerant: true,
    };
    let key = EntryKey { in_port: 2, color: 5 };
    let writes = [(key, [1, 12].into_iter().collect())];
    let [failover, group, flow] = mapping.changes(&Found::default(), writes, 9).try_into().unwrap();
    let ways = "bucket=watch_port:1,actions=output:1,bucket=watch_port:12,actions=output:12";
    let to_ways = "bucket=actions=group:16908294";
    let flow_text = "ADD table:3 priority=1000,ip,in_port=2,nw_dst=239.192.0.5 cookie:0x9 \
                     actions=set_field:02:fa:b0:00:00:05->eth_src,group:131078";
    for (version, name) in [(Version::V13, "OF1.3"), (Version::V14, "OF1.4")] {
        assert_eq!(
            printed(version, group.clone()),
            format!("OFPT_GROUP_MOD ({name}) (xid=0x7):\n ADD group_id=131078,type=all,{to_ways}")
        );
        let told =
            format!("OFPT_GROUP_MOD ({name}) (xid=0x7):\n ADD group_id=16908294,type=ff,{ways}");
        assert_eq!(printed(version, failover.clone()), told);
        let told = format!("OFPT_FLOW_MOD ({name}) (xid=0x7): {flow_text}");
        assert_eq!(printed(version, flow.clone()), told);
        let master = Body::RoleRequest(RoleMessage { role: Role::Master, generation: 9 });
        let told = format!("OFPT_ROLE_REQUEST ({name}) (xid=0x7): role=primary generation_id=9");
        assert_eq!(printed(version, master), told);
        let asked = Body::MultipartRequest(Request::GroupStats(131_078).into());
        let told = format!("OFPST_GROUP request ({name}) (xid=0x7): group_id=131078");
        assert_eq!(printed(version, asked), told);
    }
    let [generation, term] = mapping.fence_changes(Fence { term: 1, generation: 4 });
    let told = "OFPT_FLOW_MOD (OF1.3) (xid=0x7): ADD table:3 \
                priority=998,dl_src=02:fa:b0:00:00:00/ff:ff:ff:ff:ff:c0 cookie:0x4 actions=drop";
    assert_eq!(printed(Version::V13, generation), told);
    let told = "OFPT_FLOW_MOD (OF1.3) (xid=0x7): ADD table:3 \
                priority=999,ip,nw_dst=239.192.0.0/26 cookie:0x1 actions=drop";
    assert_eq!(printed(Version::V13, term), told);
    let conditions = ["dl_type=0x88cc", "ip,nw_dst=224.0.0.254"];
    for (flow, conditions) in mapping.controller_flows().into_iter().zip(conditions) {
        let told = format!(
            "OFPT_FLOW_MOD (OF1.3) (xid=0x7): ADD table:3 priority=1001,{conditions} \
             actions=CONTROLLER:65535"
        );
        assert_eq!(printed(Version::V13, flow), told);
    }
    let port = SwitchPort { datapath: 7, number: 3 };
    let sending = LldpFrame { port, seconds: 6, code: [0; CODE_BYTES] }.sending();
    let told = "OFPT_PACKET_OUT (OF1.3) (xid=0x7): in_port=CONTROLLER actions=output:3 data_len=90";
    assert!(printed(Version::V13, sending).starts_with(told));
}
