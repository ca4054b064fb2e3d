//! The driver over a kernel that the test makes.

mod model;

use std::time::Duration;

use fabricast_topology::spec::TopologySpec;
use tokio::time::timeout;

use super::*;
use model::{Kernel, Model};

/// Two leaves with ports 1 and 2 to endpoints and 3 to the spine, in this order. Their namespaces
/// are n0, n1 and n2.
const FABRIC: &str = "kind = 'leaf-spine'\nleaves = 2\nspines = 1\nendpoints_per_leaf = 2\n";
/// Colors of the agents, unless a test says others.
const COLORS: u16 = 16;
/// Ranges of addresses of these agents.
const RANGES: &str = "239.192.0.0/28,239.0.0.0/9,239.128.0.0/10,239.255.0.0/16";
/// Longer than any step of a test takes.
const PATIENCE: Duration = Duration::from_secs(20);

type Failures = DriverStream<Vec<v1::Element>>;

struct World {
    driver: BridgeDriver,
    kernel: Arc<Kernel>,
    /// Node ids of the leaves and the spine.
    names: Vec<String>,
    fabric: Arc<Graph>,
}

impl World {
    fn new() -> Self {
        Self::with("")
    }

    /// - `more`: further settings.
    fn with(more: &str) -> Self {
        let fabric = Arc::new(TopologySpec::parse(FABRIC).unwrap().generate().unwrap());
        let kernel = Arc::new(Kernel::default());
        for (number, switch) in (0..).zip(fabric.switches()) {
            let model = Model::new(fabric.ports(switch).len());
            kernel.replace(&format!("n{number}"), Some(model));
        }
        let names = fabric.switches().map(|one| fabric.switch_name(one).to_owned()).collect();
        let driver = start(&fabric, &kernel, more);
        Self { driver, kernel, names, fabric }
    }

    /// Puts another driver in the place of this one.
    fn restart(&mut self) {
        self.restart_with_colors(COLORS);
    }

    fn restart_with_colors(&mut self, colors: u16) {
        let options = with_colors(&self.fabric, colors, "");
        self.driver = start_with(&options, &self.fabric, &self.kernel);
    }

    async fn writes(&self, generation: u64, entries: &[(usize, u32, &[u32])]) -> Written {
        self.try_write(7, generation, entries).await.unwrap()
    }

    /// - `entries`: number of the switch, color and ports of each.
    async fn try_write(
        &self,
        term: u64,
        generation: u64,
        entries: &[(usize, u32, &[u32])],
    ) -> Result<Written, DriverError> {
        let mut writes = BTreeMap::<usize, Vec<v1::TableEntry>>::new();
        for (switch, color, out_ports) in entries {
            let (color, out_ports) = (*color, out_ports.to_vec());
            let entry = v1::TableEntry { in_port: 0, color, out_ports };
            writes.entry(*switch).or_default().push(entry);
        }
        let part = |(switch, entries): (usize, _)| v1::SwitchWrite {
            switch_name: self.names[switch].clone(),
            entries,
        };
        let writes = writes.into_iter().map(part).collect();
        self.driver.write_tables(v1::Fence { term, generation }, writes).await
    }

    /// Table of a switch as color and ports.
    async fn table(&self, switch: usize) -> Vec<(u32, Vec<u32>)> {
        let names = vec![self.names[switch].clone()];
        let mut tables = self.driver.read_tables(names).await.unwrap();
        let table = tables.next().await.unwrap().unwrap();
        table.entries.into_iter().map(|entry| (entry.color, entry.out_ports)).collect()
    }

    async fn carry(&self, programs: &[(&str, u16)]) {
        let pair = |(address, color): &(&str, u16)| (address.parse().unwrap(), *color);
        self.driver.carry_programs(programs.iter().map(pair).collect()).await;
    }

    async fn failures(&self) -> Failures {
        self.driver.watch_failed_elements().await.unwrap()
    }
}

fn start(fabric: &Arc<Graph>, kernel: &Arc<Kernel>, more: &str) -> BridgeDriver {
    start_with(&with_colors(fabric, COLORS, more), fabric, kernel)
}

/// Settings of an agent with all bridges.
fn with_colors(fabric: &Graph, colors: u16, more: &str) -> String {
    let bridge = |(number, switch)| {
        let name = fabric.switch_name(switch);
        format!("{{ switch = '{name}', namespace = 'n{number}', ports = ['p{{}}'] }}")
    };
    let bridges: Vec<String> = (0..).zip(fabric.switches()).map(bridge).collect();
    format!(
        "topology = 'in memory'\ncolors = {colors}\nsweep = '1h'\n{more}\nbridges = [{}]",
        bridges.join(", ")
    )
}

fn start_with(options: &str, fabric: &Arc<Graph>, kernel: &Arc<Kernel>) -> BridgeDriver {
    let options: Options = toml::from_str(options).unwrap();
    options.check().unwrap();
    let commands: Arc<dyn Commands> = kernel.clone();
    BridgeDriver::start(&options, Arc::clone(fabric), commands).unwrap()
}

/// The next list of failed parts that is as expected.
async fn fails(failures: &mut Failures, expected: &[Kind]) {
    let wait = async {
        loop {
            let failed = failures.next().await.unwrap().unwrap();
            let kinds: Vec<Kind> = failed.into_iter().filter_map(|one| one.kind).collect();
            if kinds == expected {
                return;
            }
        }
    };
    timeout(PATIENCE, wait).await.expect("the parts are told");
}

fn refusal(written: &Written) -> (&str, &str) {
    let [refused] = &written.refusals[..] else { panic!("{written:?}") };
    (&refused.reason, &refused.message)
}

#[tokio::test]
async fn entries_become_groups_and_are_read_back() {
    let world = World::new();
    let written = world.writes(1, &[(0, 0, &[1, 3]), (0, 15, &[2]), (2, 0, &[1])]).await;
    assert_eq!((written.entries, written.refusals), (3, vec![]));
    assert_eq!(world.kernel.written("n0"), ["239.192.0.0 p1 p3", "239.192.0.15 p2"]);
    assert_eq!(world.table(0).await, [(0, vec![1, 3]), (15, vec![2])]);
    world.writes(2, &[(0, 0, &[2, 3]), (0, 15, &[])]).await;
    assert_eq!(world.table(0).await, [(0, vec![2, 3])]);
    assert_eq!(world.table(2).await, [(0, vec![1])]);
    // The bridge looks at entries, and nothing goes without one.
    let bridges = world.kernel.bridges.lock();
    assert!(bridges.values().all(|one| one.is_querier && one.flooding.is_empty()));
    assert!(bridges.values().all(|one| one.intervals == [10, 86_400_000]));
}

#[tokio::test]
async fn switches_are_listed_with_their_room() {
    let world = World::new();
    world.kernel.change("n1", |bridge| bridge.most_groups = 20);
    world.kernel.replace("n2", None);
    world.writes(1, &[(0, 3, &[1])]).await;
    world.table(0).await;
    let listed = world.driver.list_switches().await.unwrap();
    let mut seen: Vec<_> = listed
        .iter()
        .map(|one| (one.name.clone(), one.live, one.colors, one.used_entries, one.port_count))
        .collect();
    assert!(seen.is_sorted());
    seen.sort_by_key(|(name, ..)| world.names.iter().position(|one| one == name));
    let [leaf, full, gone] = [0, 1, 2].map(|number| world.names[number].clone());
    let expected = [(leaf, true, 16, 1, 3), (full, true, 10, 0, 3), (gone, false, 16, 0, 2)];
    assert_eq!(seen, expected);
    assert!(listed.iter().all(|one| one.table_kind() == v1::TableKind::PerSwitch));
}

#[tokio::test]
async fn an_entry_stands_for_all_addresses_of_its_color() {
    let world = World::new();
    world.writes(1, &[(0, 4, &[1, 3])]).await;
    world.carry(&[("239.1.2.3", 4), ("239.1.2.4", 4), ("239.1.2.5", 9), ("10.0.0.1", 4)]).await;
    let led = ["239.1.2.3 p1 p3", "239.1.2.4 p1 p3", "239.192.0.4 p1 p3"];
    assert_eq!(world.kernel.written("n0"), led);
    // A tree that grows takes them with it, and an entry that ends, too.
    world.writes(2, &[(0, 4, &[1, 2, 3]), (0, 9, &[2])]).await;
    let led = [
        "239.1.2.3 p1 p2 p3",
        "239.1.2.4 p1 p2 p3",
        "239.1.2.5 p2",
        "239.192.0.4 p1 p2 p3",
        "239.192.0.9 p2",
    ];
    assert_eq!(world.kernel.written("n0"), led);
    world.writes(3, &[(0, 4, &[])]).await;
    assert_eq!(world.kernel.written("n0"), ["239.1.2.5 p2", "239.192.0.9 p2"]);
    world.carry(&[]).await;
    assert_eq!(world.kernel.written("n0"), ["239.192.0.9 p2"]);
}

#[tokio::test]
async fn all_bridges_forget_an_address_before_one_leads_it_by_a_new_tree() {
    let world = World::new();
    let trees: &[(usize, u32, &[u32])] =
        &[(0, 1, &[1, 3]), (1, 1, &[1, 3]), (2, 1, &[1, 2]), (0, 2, &[1, 2]), (1, 3, &[1, 2])];
    world.writes(1, trees).await;
    world.carry(&[("239.1.1.1", 1), ("239.1.1.2", 3)]).await;
    world.kernel.changes.lock().clear();
    world.carry(&[("239.1.1.1", 2), ("239.1.1.2", 3)]).await;
    let changes = std::mem::take(&mut *world.kernel.changes.lock());
    let added = changes.iter().position(|line| line.contains("mdb add")).unwrap();
    let (leaving, coming) = changes.split_at(added);
    assert_eq!(leaving.len(), 6, "{changes:?}");
    assert!(leaving.iter().all(|line| line.contains("mdb del") && line.contains("239.1.1.1")));
    let line = |port| format!("n0: mdb add dev br0 port {port} grp 239.1.1.1 permanent");
    assert_eq!(coming, ["p1", "p2"].map(line));
    // Entries that an earlier agent left behind move in the same way.
    let mut world = world;
    world.restart();
    world.kernel.changes.lock().clear();
    world.carry(&[("239.1.1.1", 1), ("239.1.1.2", 3)]).await;
    let changes = std::mem::take(&mut *world.kernel.changes.lock());
    let added = changes.iter().position(|line| line.contains("mdb add")).unwrap();
    assert!(changes[..added].iter().any(|line| line.contains("port p2 grp 239.1.1.1")));
    assert!(changes[added..].iter().all(|line| line.contains("mdb add")), "{changes:?}");
    assert_eq!(world.kernel.written("n2"), ["239.1.1.1 p1 p2", "239.192.0.1 p1 p2"]);
}

#[tokio::test]
async fn with_bridges_of_other_agents_a_tree_that_moves_is_left_first_in_any_case() {
    for (more, leaves) in [("", false), ("move_pause = '1ms'", true)] {
        let world = World::with(more);
        world.writes(1, &[(0, 1, &[1]), (0, 2, &[1, 2])]).await;
        world.carry(&[("239.1.1.1", 1)]).await;
        world.kernel.changes.lock().clear();
        world.carry(&[("239.1.1.1", 2)]).await;
        let changes = std::mem::take(&mut *world.kernel.changes.lock());
        let is_left = changes[0] == "n0: mdb del dev br0 port p1 grp 239.1.1.1";
        assert_eq!((is_left, changes.len()), (leaves, if leaves { 3 } else { 1 }), "{changes:?}");
        assert_eq!(world.kernel.written("n0")[0], "239.1.1.1 p1 p2");
    }
}

#[tokio::test]
async fn a_tree_moves_nowhere_while_a_bridge_still_leads_by_the_old_one() {
    let world = World::new();
    let trees: &[(usize, u32, &[u32])] = &[(0, 1, &[1, 3]), (1, 2, &[1, 2]), (1, 1, &[1, 3])];
    world.writes(1, trees).await;
    world.carry(&[("239.1.1.1", 1)]).await;
    world.kernel.habits.lock().is_silent = true;
    world.carry(&[("239.1.1.1", 2)]).await;
    world.kernel.habits.lock().is_silent = false;
    assert_eq!(world.kernel.written("n1")[0], "239.1.1.1 p1 p3");
    world.carry(&[("239.1.1.1", 2)]).await;
    assert_eq!(world.kernel.written("n1")[0], "239.1.1.1 p1 p2");
    assert_eq!(world.kernel.written("n0"), ["239.192.0.1 p1 p3"]);
}

#[tokio::test]
async fn a_refused_write_leaves_the_entries_of_before() {
    let world = World::new();
    world.writes(1, &[(0, 1, &[1]), (0, 2, &[1, 2])]).await;
    let before = world.kernel.written("n0");
    world.kernel.habits.lock().refused = Some("p3".to_owned());
    let written = world.writes(2, &[(0, 1, &[2, 3]), (0, 2, &[]), (1, 1, &[1])]).await;
    assert_eq!(written.entries, 1, "other bridges take their part");
    let (reason, message) = refusal(&written);
    assert_eq!(reason, "WRITE_FAILED");
    for word in ["bridge br0 in namespace n0", "port p3", "239.192.0.1", "refused by the test"] {
        assert!(message.contains(word), "{message}");
    }
    assert_eq!(world.kernel.written("n0"), before);
    // One that is confirmed and not kept is found by reading back.
    let forgotten = world.kernel.habits.lock().refused.take();
    world.kernel.habits.lock().forgotten = forgotten;
    let written = world.writes(3, &[(0, 1, &[2, 3])]).await;
    assert!(refusal(&written).1.contains("did not keep what it confirmed"), "{written:?}");
    assert_eq!(world.kernel.written("n0"), before);
}

#[tokio::test]
async fn a_bridge_that_cannot_be_set_back_says_so() {
    let world = World::new();
    world.writes(1, &[(0, 1, &[2])]).await;
    world.kernel.change("n0", |bridge| {
        bridge.ports.remove("p2");
    });
    world.kernel.habits.lock().refused = Some("p3".to_owned());
    let written = world.writes(2, &[(0, 1, &[3])]).await;
    assert!(refusal(&written).1.contains("its entries are unknown"), "{written:?}");
}

#[tokio::test]
async fn a_host_that_joins_meanwhile_is_not_in_the_way() {
    let world = World::new();
    let join = |group: &str| Some((group.to_owned(), "p1".to_owned()));
    world.carry(&[("239.1.1.1", 1)]).await;
    world.kernel.habits.lock().joins = join("239.1.1.1");
    let written = world.writes(1, &[(0, 1, &[1, 3])]).await;
    assert_eq!(written.refusals, []);
    assert_eq!(world.kernel.written("n0"), ["239.1.1.1 p1 p3", "239.192.0.1 p1 p3"]);
}

#[tokio::test]
async fn a_bridge_without_room_refuses_before_the_kernel_gives_up_its_entries() {
    let world = World::new();
    world.kernel.change("n0", |bridge| {
        bridge.most_groups = 4;
        for group in ["224.0.1.1", "ff02::6a"] {
            bridge.entries.insert((group.to_owned(), "p1".to_owned()), false);
        }
    });
    world.table(0).await;
    world.writes(1, &[(0, 1, &[1])]).await;
    // Addresses of programs that do not fit wait.
    world.carry(&[("239.1.1.1", 1), ("239.1.1.2", 1)]).await;
    assert_eq!(world.kernel.written("n0"), ["239.1.1.1 p1", "239.192.0.1 p1"]);
    let written = world.writes(2, &[(0, 0, &[1]), (0, 1, &[2])]).await;
    let (reason, message) = refusal(&written);
    assert_eq!(reason, "WRITE_FAILED");
    assert!(message.contains("br0 in namespace n0 cannot hold"), "{message}");
    assert!(message.contains("mcast_hash_max is 4"), "{message}");
    let written = world.writes(3, &[(0, 2, &[1])]).await;
    assert_eq!(refusal(&written).0, "BAD_ENTRY", "no more than half are colors");
    let bridges = world.kernel.bridges.lock();
    assert!(bridges["n0"].is_snooping);
    assert_eq!(bridges["n0"].written(), ["239.1.1.1 p1", "239.192.0.1 p1"]);
}

#[tokio::test]
async fn older_writers_are_refused_also_by_the_next_agent() {
    let mut world = World::new();
    world.writes(2, &[(0, 1, &[1])]).await;
    for (term, generation) in [(7, 1), (6, 9)] {
        let refused = world.try_write(term, generation, &[(0, 1, &[2])]).await;
        assert!(matches!(refused, Err(DriverError::StaleFence { .. })), "{refused:?}");
    }
    assert_eq!(world.kernel.bridges.lock()["n0"].alias, format!("fabricast-term-7-of-{RANGES}"));
    world.restart();
    let refused = world.try_write(6, 9, &[(0, 1, &[2])]).await;
    assert!(matches!(refused, Err(DriverError::StaleFence { .. })), "{refused:?}");
    let names = vec![world.names[0].clone()];
    let mut tables = world.driver.read_tables(names).await.unwrap();
    let fence = tables.next().await.unwrap().unwrap().fence;
    assert_eq!(fence, Some(v1::Fence { term: 7, generation: 0 }));
    assert_eq!(world.table(0).await, [(1, vec![1])]);
}

#[tokio::test]
async fn an_older_write_whose_turn_comes_after_a_newer_writer_changes_nothing() {
    let mut world = World::new();
    let part = |out_ports: &[u32]| {
        let entry = v1::TableEntry { in_port: 0, color: 1, out_ports: out_ports.to_vec() };
        v1::SwitchWrite { switch_name: world.names[0].clone(), entries: vec![entry] }
    };
    let (late, newer) = (part(&[2]), part(&[1, 3]));
    let fences = [(6, 9), (7, 1)].map(|(term, generation)| v1::Fence { term, generation });
    world.driver.raise_fence(fences[0], std::slice::from_ref(&late)).unwrap();
    world.driver.raise_fence(fences[1], std::slice::from_ref(&newer)).unwrap();
    assert_eq!(world.driver.write(fences[1], newer).await, Ok(()));
    let refused = world.driver.write(fences[0], late.clone()).await.unwrap_err();
    assert_eq!(refused.reason, "STALE_FENCE");
    assert!(refused.message.contains("term 6, generation 9"), "{refused:?}");
    // Nor one that an agent has let pass before it could see the alias.
    world.restart();
    let refused = world.driver.write(fences[0], late).await.unwrap_err();
    assert_eq!(refused.reason, "STALE_FENCE");
    assert_eq!(world.kernel.written("n0"), ["239.192.0.1 p1 p3"]);
}

#[tokio::test]
async fn ports_and_bridges_that_fail_are_told_and_their_return_too() {
    let world = World::new();
    let mut failures = world.failures().await;
    fails(&mut failures, &[]).await;
    world.kernel.change("n0", |bridge| {
        bridge.ports.insert("p1".to_owned(), false);
    });
    let port = world.fabric.port(world.fabric.find_switch(&world.names[0]).unwrap(), 1).unwrap();
    let endpoint = Kind::Endpoint(far_end(&world.fabric, port).0);
    fails(&mut failures, std::slice::from_ref(&endpoint)).await;
    // An interface that somebody takes out of the bridge is a cable that carries nothing.
    world.kernel.change("n0", |bridge| {
        bridge.ports.remove("p3");
    });
    let cable = Kind::Link(v1::PortName { switch_name: world.names[0].clone(), port: 3 });
    fails(&mut failures, &[endpoint, cable]).await;
    let ports = world.driver.list_ports(&world.names[0]).await.unwrap();
    assert_eq!(ports.iter().map(|port| port.live).collect::<Vec<_>>(), [false, true, false]);
    assert_eq!((&ports[2].peer, ports[2].peer_port), (&world.names[2], 1));
    let written = world.writes(1, &[(0, 1, &[3])]).await;
    assert!(refusal(&written).1.contains("not a bridge port"), "{written:?}");

    world.kernel.replace("n0", None);
    fails(&mut failures, &[Kind::SwitchName(world.names[0].clone())]).await;
    let written = world.writes(2, &[(0, 1, &[2]), (1, 1, &[2])]).await;
    let (reason, message) = refusal(&written);
    assert_eq!((written.entries, reason), (1, "SWITCH_DOWN"));
    assert!(message.contains("bridge br0 in namespace n0: Cannot find device"), "{message}");
    let mut tables = world.driver.read_tables(world.names.clone()).await.unwrap();
    let mut read = Vec::new();
    while let Some(table) = tables.next().await {
        read.push(table.unwrap().switch_name);
    }
    assert_eq!(read, world.names[1..], "a bridge that cannot be read is left out");
    world.kernel.replace("n0", Some(Model::new(3)));
    fails(&mut failures, &[]).await;
}

#[tokio::test]
async fn a_bridge_that_comes_back_leads_programs_as_it_is_told_now() {
    let world = World::new();
    let mut failures = world.failures().await;
    world.writes(1, &[(0, 1, &[1, 3]), (0, 2, &[2])]).await;
    world.carry(&[("239.1.1.1", 1)]).await;
    world.kernel.change("n0", |bridge| bridge.is_up = false);
    fails(&mut failures, &[Kind::SwitchName(world.names[0].clone())]).await;
    world.carry(&[("239.1.1.1", 2)]).await;
    assert_eq!(world.kernel.written("n0")[0], "239.1.1.1 p1 p3", "nobody can change it");
    world.kernel.change("n0", |bridge| bridge.is_up = true);
    fails(&mut failures, &[]).await;
    world.table(0).await;
    assert_eq!(world.kernel.written("n0")[0], "239.1.1.1 p2");
}

#[tokio::test]
async fn bridges_that_cannot_be_used_say_why() {
    let world = World::new();
    world.kernel.change("n0", |bridge| bridge.has_vlans = true);
    world.kernel.change("n1", |bridge| bridge.is_up = false);
    world.kernel.change("n2", |bridge| bridge.most_groups = 1);
    let written = world.writes(1, &[(0, 1, &[1]), (1, 1, &[1]), (2, 1, &[1])]).await;
    let said: Vec<&str> = written.refusals.iter().map(|one| one.message.as_str()).collect();
    for (said, word) in said.iter().zip(["filters VLANs", "is not up", "mcast_hash_max is 1"]) {
        assert!(said.contains(word), "{said}");
    }
    assert_eq!(said.len(), 3);
}

#[tokio::test]
async fn a_machine_that_is_busy_makes_no_switch_fail() {
    let world = World::new();
    let mut failures = world.failures().await;
    fails(&mut failures, &[]).await;
    for (is_silent, why) in [(true, "did not end within"), (false, "cannot start `")] {
        {
            let mut habits = world.kernel.habits.lock();
            (habits.is_silent, habits.has_no_process) = (is_silent, !is_silent);
        }
        let written = world.writes(1, &[(0, 1, &[1])]).await;
        let (reason, message) = refusal(&written);
        assert_eq!(reason, "SWITCH_DOWN");
        assert!(message.contains(why), "{message}");
        assert_eq!(world.driver.failed(), []);
        let listed = world.driver.list_switches().await.unwrap();
        assert!(listed.iter().all(|switch| switch.live), "{listed:?}");
        let ports = world.driver.list_ports(&world.names[0]).await.unwrap();
        assert!(ports.iter().all(|port| port.live), "{ports:?}");
    }
    *world.kernel.habits.lock() = <_>::default();
    assert_eq!(world.writes(2, &[(0, 1, &[1])]).await.refusals, []);
}

#[tokio::test]
async fn a_few_commands_run_at_once_for_many_bridges() {
    let spec = "kind = 'leaf-spine'\nleaves = 20\nspines = 1\nendpoints_per_leaf = 1\n";
    let fabric = Arc::new(TopologySpec::parse(spec).unwrap().generate().unwrap());
    let kernel = Arc::new(Kernel::default());
    for (number, switch) in (0..).zip(fabric.switches()) {
        kernel.replace(&format!("n{number}"), Some(Model::new(fabric.ports(switch).len())));
    }
    kernel.habits.lock().is_slow = true;
    let driver = start(&fabric, &kernel, "");
    let listed = driver.list_switches().await.unwrap();
    assert_eq!(listed.iter().filter(|switch| switch.live).count(), 21);
    assert_eq!(kernel.running.lock().1, COMMANDS_AT_ONCE);
}

#[tokio::test]
async fn a_bridge_that_was_made_again_is_not_taken_for_the_old_one() {
    let world = World::new();
    world.writes(1, &[(0, 1, &[1]), (1, 1, &[1])]).await;
    let used = async || {
        let listed = world.driver.list_switches().await.unwrap();
        let used =
            |name: &String| listed.iter().find(|one| one.name == *name).unwrap().used_entries;
        [&world.names[0], &world.names[1]].map(used)
    };
    assert_eq!(used().await, [1, 1]);
    world.kernel.replace("n0", Some(Model::new(3)));
    assert_eq!(used().await, [0, 1]);
    assert_eq!(world.writes(2, &[(0, 1, &[2])]).await.refusals, []);
    assert_eq!(world.table(0).await, [(1, vec![2])]);
}

#[tokio::test]
async fn settings_and_entries_that_others_change_are_mended() {
    let world = World::new();
    world.writes(1, &[(0, 1, &[1, 3])]).await;
    world.carry(&[("239.1.1.1", 1)]).await;
    world.kernel.change("n0", |bridge| {
        bridge.is_snooping = false;
        bridge.flooding.insert("p2".to_owned());
        let entry = |group: &str, port: &str| (group.to_owned(), port.to_owned());
        bridge.ports.insert("other".to_owned(), true);
        bridge.entries.remove(&entry("239.1.1.1", "p3"));
        for (group, port) in [
            ("239.1.1.1", "other"),
            ("239.1.1.9", "p1"),
            ("239.192.0.31", "p2"),
            ("224.0.1.1", "p1"),
        ] {
            bridge.entries.insert(entry(group, port), true);
        }
    });
    assert_eq!(world.table(0).await, [(1, vec![1, 3])]);
    let kept = ["224.0.1.1 p1", "239.1.1.1 p1 p3", "239.192.0.1 p1 p3", "239.192.0.31 p2"];
    assert_eq!(world.kernel.written("n0"), kept, "other addresses are left alone");
    {
        let bridges = world.kernel.bridges.lock();
        assert!(bridges["n0"].is_snooping && bridges["n0"].flooding.is_empty());
    }
    // An entry that is not the route service's is told to it as it is.
    let stray = ("239.192.0.5".to_owned(), "p2".to_owned());
    world.kernel.change("n0", |bridge| {
        bridge.entries.insert(stray, true);
    });
    assert_eq!(world.table(0).await, [(1, vec![1, 3]), (5, vec![2])]);
    let names = vec![world.names[0].clone(), "nowhere".to_owned()];
    let refused = world.driver.read_counters(names).await.map(drop);
    assert!(matches!(refused, Err(DriverError::UnknownSwitch { .. })), "{refused:?}");
}

#[tokio::test]
async fn entries_of_addresses_that_are_ours_no_more_are_removed_and_others_are_left_alone() {
    let mut world = World::new();
    world.writes(1, &[(0, 1, &[1]), (0, 9, &[1, 3]), (1, 12, &[2])]).await;
    let heard = ("239.192.0.9".to_owned(), "p2".to_owned());
    world.kernel.change("n0", |bridge| {
        bridge.entries.insert(("239.192.0.31".to_owned(), "p2".to_owned()), true);
        bridge.entries.insert(heard.clone(), false);
    });
    world.restart_with_colors(4);
    assert_eq!(world.table(0).await, [(1, vec![1])]);
    assert_eq!(world.kernel.written("n0"), ["239.192.0.1 p1", "239.192.0.31 p2"]);
    assert!(world.kernel.bridges.lock()["n0"].entries.contains_key(&heard));
    // A look is enough.
    world.driver.list_switches().await.unwrap();
    assert!(world.kernel.written("n1").is_empty());
    let fewer = format!("fabricast-term-7-of-{}", RANGES.replace("/28", "/30"));
    assert!(world.kernel.bridges.lock().values().take(2).all(|bridge| bridge.alias == fewer));
    // Without ranges in the alias, nothing says that an entry was ours.
    world.kernel.change("n0", |bridge| {
        bridge.entries.insert(("239.192.0.9".to_owned(), "p1".to_owned()), true);
        "fabricast-term-7".clone_into(&mut bridge.alias);
    });
    world.restart_with_colors(4);
    world.table(0).await;
    let kept = ["239.192.0.1 p1", "239.192.0.31 p2", "239.192.0.9 p1"];
    assert_eq!(world.kernel.written("n0"), kept);
    assert_eq!(world.kernel.bridges.lock()["n0"].alias, fewer);
}

#[tokio::test]
async fn bridges_of_a_namespace_share_a_monitor() {
    let world = World::new();
    world.driver.list_switches().await.unwrap();
    assert_eq!(world.kernel.monitored(), ["n0", "n1", "n2"]);
    let kernel = Arc::new(Kernel::default());
    let options = (0..3).fold(with_colors(&world.fabric, COLORS, ""), |options, number| {
        let namespace = format!("namespace = 'n{number}'");
        options.replacen(&namespace, &format!("namespace = 'n', bridge = 'br{number}'"), 1)
    });
    let driver = start_with(&options, &world.fabric, &kernel);
    driver.list_switches().await.unwrap();
    assert_eq!(kernel.monitored(), ["n"]);
}

#[tokio::test(start_paused = true)]
async fn what_a_monitor_that_ended_did_not_tell_is_seen_when_another_one_runs() {
    let world = World::new();
    let mut failures = world.failures().await;
    fails(&mut failures, &[]).await;
    world.kernel.end_monitors();
    world.kernel.bridges.lock().get_mut("n1").unwrap().is_up = false;
    fails(&mut failures, &[Kind::SwitchName(world.names[1].clone())]).await;
    assert_eq!(world.kernel.monitored().len(), 3);
}
