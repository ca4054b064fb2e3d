//! Leaf switches with failover groups, and trees that break.

use fabricast_openflow::GroupType;

use super::*;

/// Two leaves with ports 1 and 2 to endpoints, 3 and 4 to the spines, in this order.
const TWO_SPINES: &str = "kind = 'leaf-spine'\nleaves = 2\nspines = 2\nendpoints_per_leaf = 2\n";
/// Ports of the group of an endpoint at port 1 of both leaves, by input port.
const LEAF: [(u32, &[u32]); 3] = [(1, &[3, 4]), (3, &[1]), (4, &[1])];
const SPINE: [(u32, &[u32]); 2] = [(1, &[2]), (2, &[1])];

fn all_parts(world: &World) -> Vec<v1::SwitchWrite> {
    let part = |at: usize| {
        let ports = if at < 2 { &LEAF[..] } else { &SPINE[..] };
        let entry = |(in_port, out): &(u32, &[u32])| v1::TableEntry {
            in_port: *in_port,
            color: 0,
            out_ports: out.to_vec(),
        };
        let entries = ports.iter().map(entry).collect();
        v1::SwitchWrite { switch_name: world.name(at), entries }
    };
    (0..4).map(part).collect()
}

/// Ports that the failover group of port 1 watches, in their order.
fn ways(switch: &Switch) -> Vec<u32> {
    let model = switch.model.lock();
    let found = model.groups.values().find(|group| group.kind == GroupType::FastFailover);
    found.map_or_else(Vec::new, |group| group.buckets.iter().map(|one| one.watch_port).collect())
}

#[tokio::test]
async fn a_leaf_leaves_the_tree_that_breaks_beyond_its_own_cables() {
    for habits in all_ways(|_| {}) {
        let mut world = World::over(TWO_SPINES, habits, "fault_tolerant = true").await;
        world.is_live(0, true).await;
        let written = World::write_by(&world.driver, (5, 1), all_parts(&world)).await.unwrap();
        assert_eq!(written, Written { entries: 10, refusals: vec![] });
        let read = |table: Option<v1::SwitchTable>| table.unwrap().entries;
        assert_eq!(read(world.table(0).await), all_parts(&world)[0].entries);
        assert_eq!(ways(&world.switches[0]), [3, 4]);
        // The first spine loses its cable to the other leaf, which this one cannot see.
        world.switches[2].set_link(2, false);
        eventually(|| ways(&world.switches[0]) == [4, 3]).await;
        eventually(|| ways(&world.switches[1]) == [4, 3]).await;
        assert_eq!(read(world.table(0).await), all_parts(&world)[0].entries);
        // Nothing moves back, not by another agent either, until the second tree breaks.
        world.switches[2].set_link(2, true);
        let agent = start(&world.fabric, "fault_tolerant = true");
        world.connections.iter().for_each(AbortHandle::abort);
        let address = agent.address.unwrap();
        world.connections = world.switches.iter().map(|switch| switch.connect(address)).collect();
        world.driver = agent;
        for at in 0..4 {
            world.is_live(at, true).await;
        }
        sleep(Duration::from_millis(1_200)).await; // longer than trees take to be complete
        assert_eq!(ways(&world.switches[0]), [4, 3]);
        world.switches[3].set_link(1, false);
        eventually(|| ways(&world.switches[0]) == [3, 4]).await;
        // Both are broken: none is better.
        world.switches[2].set_link(1, false);
        sleep(Duration::from_millis(50)).await;
        assert_eq!(ways(&world.switches[0]), [3, 4]);
        // An entry with one way up needs no choice.
        let mut parts = all_parts(&world);
        parts[0].entries[0].out_ports = vec![4];
        let written = World::write_by(&world.driver, (5, 2), vec![parts.remove(0)]).await.unwrap();
        assert_eq!((written.refusals, ways(&world.switches[0])), (vec![], vec![]));
    }
}

#[tokio::test]
async fn a_failover_group_that_is_not_kept_is_found() {
    let habits = Habits { most_buckets: 1, ..Habits::default() };
    let world = World::over(TWO_SPINES, habits, "fault_tolerant = true").await;
    world.is_live(0, true).await;
    let (reason, message) = world.write(1, 0, &[(0, &[3, 4])]).await.unwrap_err();
    assert_eq!(reason, "WRITE_FAILED");
    assert_eq!(message, "the switch keeps 0 of 2 ports of in_port 1, color 0");
    assert!(world.switches[0].model.lock().groups.is_empty());
}
