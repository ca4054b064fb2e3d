//! The driver over switches that the test makes, some of which behave badly.

mod discovery;
mod model;
mod tls;
mod ways;

use std::net::SocketAddr;
use std::time::Duration;

use fabricast_openflow::{Action, Field, FlowStats, Instruction};
use fabricast_proto::v1::element::Kind;
use fabricast_topology::Peer;
use fabricast_topology::spec::TopologySpec;
use tokio::task::AbortHandle;
use tokio::time::sleep;

use super::*;
use model::{Habits, Switch};

/// Two leaves with ports 1 and 2 to endpoints and 3 to the spine, in this order.
const FABRIC: &str = "kind = 'leaf-spine'\nleaves = 2\nspines = 1\nendpoints_per_leaf = 2\n";
/// Longer than any step of a test takes.
const PATIENCE: Duration = Duration::from_secs(20);
const V13: u32 = 1 << 4;

struct World {
    driver: OpenflowDriver,
    fabric: Arc<Graph>,
    switches: Vec<Switch>,
    connections: Vec<AbortHandle>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.connections.iter().for_each(AbortHandle::abort);
    }
}

fn options(more: &str) -> Options {
    let text = format!(
        "topology = 'in memory'\nlisten = '127.0.0.1:0'\ncolors = 16\ntimeout = '1s'\n\
         grace = '300ms'\n{more}"
    );
    toml::from_str(&text).unwrap()
}

fn start(fabric: &Arc<Graph>, more: &str) -> OpenflowDriver {
    let pair = |(number, switch)| format!("\"{}\" = \"{number:x}\"", fabric.switch_name(switch));
    let pairs: Vec<String> = (1..).zip(fabric.switches()).map(pair).collect();
    let datapaths = format!("datapaths = {{ {} }}\n{more}", pairs.join(", "));
    OpenflowDriver::start(&options(&datapaths), Some(Arc::clone(fabric))).unwrap()
}

impl World {
    /// The first switch behaves as told, the others well; all that can be used are connected.
    async fn start(habits: Habits) -> Self {
        Self::start_with(habits, "").await
    }

    async fn start_with(habits: Habits, more: &str) -> Self {
        Self::over(FABRIC, habits, more).await
    }

    async fn over(fabric: &str, habits: Habits, more: &str) -> Self {
        let fabric = Arc::new(TopologySpec::parse(fabric).unwrap().generate().unwrap());
        let driver = start(&fabric, more);
        let world = Self::connected(driver, fabric, &habits);
        for at in 1..world.switches.len() {
            world.is_live(at, true).await;
        }
        world
    }

    /// All switches connect to an agent, with the cables of a fabric between them.
    fn connected(driver: OpenflowDriver, fabric: Arc<Graph>, habits: &Habits) -> Self {
        let ports = |switch| u32::try_from(fabric.ports(switch).len()).unwrap();
        let switch = |(datapath, switch): (u64, _)| {
            let habits = if datapath == 1 { habits.clone() } else { Habits::default() };
            Switch::new(datapath, ports(switch), habits)
        };
        let switches: Vec<Switch> = (1..).zip(fabric.switches()).map(switch).collect();
        for port in fabric.switches().flat_map(|switch| fabric.ports(switch)) {
            if let Peer::Switch(far) = fabric.peer(port) {
                let [(near, number), (far, far_number)] = [port, far].map(|port| {
                    let switch = fabric.switch_of(port).index();
                    (&switches[switch], u32::from(fabric.port_number(port)))
                });
                near.plug(number, far, far_number);
            }
        }
        let address = driver.address.unwrap();
        let connections = switches.iter().map(|switch| switch.connect(address)).collect();
        Self { driver, fabric, switches, connections }
    }

    fn address(&self) -> SocketAddr {
        self.driver.address.unwrap()
    }

    fn name(&self, at: usize) -> String {
        let switch = self.fabric.switches().nth(at).unwrap();
        self.fabric.switch_name(switch).to_owned()
    }

    async fn is_live(&self, at: usize, live: bool) {
        let name = self.name(at);
        eventually(|| self.driver.switches.session(&name).is_ok() == live).await;
    }

    async fn write_by(
        driver: &OpenflowDriver,
        fence: (u64, u64),
        writes: Vec<v1::SwitchWrite>,
    ) -> Result<Written, DriverError> {
        let (term, generation) = fence;
        driver.write_tables(v1::Fence { term, generation }, writes).await
    }

    /// Writes entries of input port 1 to one switch. Gives reason and details of a refusal.
    async fn write(
        &self,
        generation: u64,
        at: usize,
        entries: &[(u32, &[u32])],
    ) -> Result<(), (String, String)> {
        let part = part(&self.name(at), entries);
        let written = Self::write_by(&self.driver, (5, generation), vec![part]).await.unwrap();
        match written.refusals.into_iter().next() {
            Some(refusal) => Err((refusal.reason, refusal.message)),
            None => Ok(()),
        }
    }

    async fn table(&self, at: usize) -> Option<v1::SwitchTable> {
        table(&self.driver, self.name(at)).await
    }

    async fn entries(&self, at: usize) -> Vec<(u32, Vec<u32>)> {
        let table = self.table(at).await.expect("the switch answers");
        table.entries.into_iter().map(|entry| (entry.color, entry.out_ports)).collect()
    }

    /// The second switch works, whatever the first one does.
    async fn others_are_unharmed(&self) {
        self.write(90, 1, &[(7, &[2])]).await.unwrap();
        assert_eq!(self.entries(1).await, [(7, vec![2])]);
    }
}

async fn table(driver: &OpenflowDriver, name: String) -> Option<v1::SwitchTable> {
    let mut tables = driver.read_tables(vec![name]).await.unwrap();
    tables.next().await.map(|table| table.unwrap())
}

fn part(switch: &str, entries: &[(u32, &[u32])]) -> v1::SwitchWrite {
    let entry = |(color, out): &(u32, &[u32])| v1::TableEntry {
        in_port: 1,
        color: *color,
        out_ports: out.to_vec(),
    };
    let entries = entries.iter().map(entry).collect();
    v1::SwitchWrite { switch_name: switch.to_owned(), entries }
}

async fn eventually(mut holds: impl FnMut() -> bool) {
    let waiting = async {
        while !holds() {
            sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("it comes about");
}

fn plain() -> Habits {
    Habits { versions: V13, has_bundles: false, ..Habits::default() }
}

/// With bundles in 1.4, with those of the extension in 1.3, and without.
fn all_ways(change: fn(&mut Habits)) -> [Habits; 3] {
    let extension = Habits { versions: V13, ..Habits::default() };
    [Habits::default(), extension, plain()].map(|mut habits| {
        change(&mut habits);
        habits
    })
}

#[tokio::test]
async fn entries_are_written_read_back_changed_and_removed() {
    for habits in all_ways(|_| {}) {
        let world = World::start(habits.clone()).await;
        world.is_live(0, true).await;
        world.write(1, 0, &[(0, &[2, 3]), (15, &[2])]).await.unwrap();
        assert_eq!(world.entries(0).await, [(0, vec![2, 3]), (15, vec![2])], "{habits:?}");
        world.write(2, 0, &[(0, &[3]), (15, &[])]).await.unwrap();
        let table = world.table(0).await.unwrap();
        assert_eq!(table.entries, part("", &[(0, &[3])]).entries);
        assert_eq!(table.fence, Some(v1::Fence { term: 5, generation: 2 }));
        assert_eq!(world.switches[0].model.lock().groups.len(), 1);
        let listed = world.driver.list_switches().await.unwrap();
        let used: Vec<_> = listed.iter().map(|one| (one.live, one.used_entries)).collect();
        assert_eq!(used, [(true, 1), (true, 0), (true, 0)]);
    }
}

/// Flows of a switch for one address: input port, and the group that they lead to.
fn led(switch: &Switch, address: [u8; 4]) -> Vec<(u32, u32)> {
    let model = switch.model.lock();
    let lead = |flow: &FlowStats| match (&flow.conditions.fields[..], &flow.instructions[..]) {
        (
            [Field::InPort(port), _, Field::Ipv4Dst { address: to, .. }],
            [Instruction::Apply(actions)],
        ) if to.octets() == address => match actions[..] {
            [Action::SetField(_), Action::Group(group)] => Some((*port, group)),
            _ => None,
        },
        _ => None,
    };
    model.flows.iter().filter_map(lead).collect()
}

#[tokio::test]
async fn packets_of_programs_are_led_to_the_color_of_their_address() {
    const ADDRESS: [u8; 4] = [239, 1, 2, 3];
    for habits in all_ways(|_| {}) {
        let mut world = World::start(habits).await;
        world.is_live(0, true).await;
        let carry = |color| Programs::from([(ADDRESS.into(), color)]);
        world.write(1, 0, &[(4, &[2, 3])]).await.unwrap();
        world.driver.carry_programs(carry(4)).await;
        assert_eq!(led(&world.switches[0], ADDRESS), [(1, 0x0001_0005)]);
        // A color whose entry comes later, and one that goes away.
        world.driver.carry_programs(carry(7)).await;
        assert_eq!(led(&world.switches[0], ADDRESS), []);
        world.write(2, 0, &[(7, &[2])]).await.unwrap();
        assert_eq!(led(&world.switches[0], ADDRESS), [(1, 0x0001_0008)]);
        // Another agent finds them, and takes none away before it knows better.
        world.connections[0].abort();
        let agent = start(&world.fabric, "");
        world.connections[0] = world.switches[0].connect(agent.address.unwrap());
        eventually(|| agent.switches.session(&world.name(0)).is_ok()).await;
        world.driver = agent;
        assert_eq!(led(&world.switches[0], ADDRESS), [(1, 0x0001_0008)]);
        world.driver.carry_programs(Programs::new()).await;
        assert_eq!(led(&world.switches[0], ADDRESS), []);
        assert_eq!(world.entries(0).await, [(4, vec![2, 3]), (7, vec![2])]);
    }
}

#[tokio::test]
async fn many_entries_are_written_at_once() {
    for habits in all_ways(|_| {}) {
        let world = World::start_with(habits, "tables = 'per-switch'").await;
        world.is_live(0, true).await;
        let entries = |out_port| {
            let entry = |color| v1::TableEntry { in_port: 0, color, out_ports: vec![out_port] };
            (0..16).map(entry).collect::<Vec<_>>()
        };
        for (generation, out_port) in [(1, 2), (2, 3)] {
            let switch_name = world.name(0);
            let writes = vec![v1::SwitchWrite { switch_name, entries: entries(out_port) }];
            let written = World::write_by(&world.driver, (5, generation), writes).await.unwrap();
            assert_eq!(written, Written { entries: 16, refusals: vec![] });
            assert_eq!(world.table(0).await.unwrap().entries, entries(out_port));
        }
        assert_eq!(world.driver.list_switches().await.unwrap()[0].used_entries, 16);
    }
}

#[tokio::test]
async fn a_refused_write_names_the_error_of_the_switch_and_changes_nothing() {
    for habits in all_ways(|habits| habits.most_groups = 3) {
        let world = World::start(habits).await;
        world.is_live(0, true).await;
        world.write(1, 0, &[(0, &[2]), (1, &[2])]).await.unwrap();
        let refused = world.write(2, 0, &[(0, &[3]), (2, &[2]), (3, &[2]), (1, &[])]).await;
        let (reason, message) = refused.unwrap_err();
        assert_eq!(reason, "WRITE_FAILED");
        assert_eq!(message, "the switch refuses: GROUP_MOD_FAILED: OUT_OF_GROUPS");
        assert_eq!(world.entries(0).await, [(0, vec![2]), (1, vec![2])]);
        world.write(3, 0, &[(2, &[3])]).await.unwrap();
        world.others_are_unharmed().await;
    }
}

#[tokio::test]
async fn a_switch_that_refuses_every_second_write_holds_no_half_of_one() {
    for habits in all_ways(|habits| habits.refuses_half = true) {
        let world = World::start(habits).await;
        world.is_live(0, true).await;
        let mut held = Vec::new();
        for generation in 1..12 {
            let color = u32::try_from(generation).unwrap();
            // A switch that refuses to undo a write loses its connection, and makes a new one.
            world.is_live(0, true).await;
            match world.write(generation, 0, &[(color, &[2])]).await {
                Ok(()) => held.push((color, vec![2])),
                Err((reason, _)) => assert!(reason == "WRITE_FAILED" || reason == "SWITCH_DOWN"),
            }
            world.is_live(0, true).await;
            assert_eq!(world.entries(0).await, held);
        }
        assert!(!held.is_empty());
        world.others_are_unharmed().await;
    }
}

#[tokio::test]
async fn buckets_that_are_silently_cut_off_are_found() {
    for habits in all_ways(|habits| habits.most_buckets = 1) {
        let world = World::start(habits).await;
        world.is_live(0, true).await;
        world.write(1, 0, &[(0, &[2])]).await.unwrap();
        let (reason, message) = world.write(2, 0, &[(0, &[2, 3])]).await.unwrap_err();
        assert_eq!(reason, "WRITE_FAILED");
        assert_eq!(message, "the switch keeps 1 of 2 ports of in_port 1, color 0");
        assert_eq!(world.entries(0).await, [(0, vec![2])]);
    }
}

/// Something that makes a switch useless, and what is said of it.
type Case = (fn(&mut Habits), &'static str);

#[tokio::test]
async fn a_switch_that_cannot_be_used_says_why_and_harms_no_other() {
    let cases: [Case; 5] = [
        (|habits| habits.has_failover = false, "it has no groups of type FAST_FAILOVER"),
        (|habits| habits.has_groups = false, "it has no groups of type ALL"),
        (|habits| habits.versions = 1 << 1, "it speaks neither OpenFlow 1.3 nor 1.4"),
        (|habits| habits.tables = 0, "it has no flow table 0"),
        (|habits| habits.hides_table = true, "it refused to tell its groups and flows"),
    ];
    for (change, why) in cases {
        let mut habits = Habits::default();
        change(&mut habits);
        let world = World::start_with(habits.clone(), "fault_tolerant = true").await;
        let name = world.name(0);
        let is_version = habits.versions == 1 << 1;
        if !is_version {
            // Without a common version, it is not known which switch it is.
            eventually(|| {
                let state = world.driver.switches.session(&name).unwrap_err();
                state.to_string() == format!("the switch cannot be used: {why}")
            })
            .await;
        }
        let (reason, _) = world.write(1, 0, &[(0, &[2])]).await.unwrap_err();
        assert_eq!(reason, "SWITCH_DOWN");
        assert_eq!(world.table(0).await, None);
        assert!(!world.driver.list_switches().await.unwrap()[0].live);
        world.others_are_unharmed().await;
    }
}

#[tokio::test]
async fn a_switch_of_no_topology_and_a_second_one_of_the_same_id_are_kept_out() {
    let world = World::start(Habits::default()).await;
    world.is_live(0, true).await;
    world.write(1, 0, &[(0, &[2])]).await.unwrap();
    let foreign = [Switch::new(99, 4, Habits::default()), Switch::new(1, 4, Habits::default())];
    let tasks = foreign.each_ref().map(|switch| switch.connect(world.address()));
    sleep(Duration::from_millis(100)).await;
    world.write(2, 0, &[(1, &[2])]).await.unwrap();
    assert_eq!(world.entries(0).await, [(0, vec![2]), (1, vec![2])]);
    assert!(foreign.iter().all(|switch| switch.model.lock().flows.is_empty()));
    tasks.iter().for_each(AbortHandle::abort);
    world.others_are_unharmed().await;
}

#[tokio::test]
async fn bytes_that_are_no_openflow_end_a_connection() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let world = World::start(Habits::default()).await;
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[5, 0, 0, 3, 0, 0, 0, 0], &[0; 64]] {
        let mut stream = tokio::net::TcpStream::connect(world.address()).await.unwrap();
        stream.write_all(garbage).await.unwrap();
        let mut rest = Vec::new();
        // Closed or reset: either way it ends.
        let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await.unwrap();
    }
    world.others_are_unharmed().await;
}

#[tokio::test]
async fn a_switch_that_closes_amid_a_write_is_read_again() {
    for habits in all_ways(|_| {}) {
        let world = World::start(habits).await;
        world.is_live(0, true).await;
        world.switches[0].model.lock().habits.closes = true;
        let (reason, message) = world.write(1, 0, &[(0, &[2])]).await.unwrap_err();
        assert_eq!(reason, "SWITCH_DOWN");
        assert!(message.contains("connection"), "{message}");
        world.is_live(0, true).await;
        world.write(2, 0, &[(0, &[3])]).await.unwrap();
        assert_eq!(world.entries(0).await, [(0, vec![3])]);
        world.others_are_unharmed().await;
    }
}

#[tokio::test]
async fn a_switch_that_answers_late_is_given_up_for_this_write() {
    let world = World::start(plain()).await;
    world.is_live(0, true).await;
    world.switches[0].model.lock().habits.delay = Duration::from_secs(30);
    let late = world.write(1, 0, &[(0, &[2])]);
    let (late, ()) = tokio::join!(late, world.others_are_unharmed());
    let expected = "the switch did not answer within 1s".to_owned();
    assert_eq!(late, Err(("SWITCH_DOWN".to_owned(), expected)));
}

#[tokio::test]
async fn a_newer_writer_is_remembered_by_the_switch() {
    for habits in all_ways(|_| {}) {
        let world = World::start(habits).await;
        world.is_live(0, true).await;
        world.write(7, 0, &[(0, &[2])]).await.unwrap();
        // Another agent, as after a restart.
        let other = start(&world.fabric, "");
        let tasks: Vec<_> =
            world.switches.iter().map(|one| one.connect(other.address.unwrap())).collect();
        let name = world.name(0);
        eventually(|| other.switches.session(&name).is_ok()).await;
        let found = table(&other, name.clone()).await.unwrap();
        assert_eq!(found.fence, Some(v1::Fence { term: 5, generation: 7 }));
        assert_eq!(found.entries, part("", &[(0, &[2])]).entries);
        for older in [(4, 9), (5, 6)] {
            let stale = World::write_by(&other, older, vec![part(&name, &[(0, &[3])])]).await;
            assert!(matches!(stale, Err(DriverError::StaleFence { .. })), "{stale:?}");
        }
        // Two agents of one term take turns; a newer term shuts the older one out.
        for (driver, generation) in [(&other, 8), (&world.driver, 8), (&other, 9)] {
            let writes = vec![part(&name, &[(1, &[2])])];
            let written = World::write_by(driver, (5, generation), writes).await.unwrap();
            assert_eq!(written.refusals, []);
        }
        let writes = vec![part(&name, &[(1, &[3])])];
        let newer = World::write_by(&other, (6, 1), writes.clone()).await.unwrap();
        assert_eq!(newer.refusals, []);
        let older = World::write_by(&world.driver, (5, 99), writes).await.unwrap();
        assert_eq!(older.refusals[0].reason, "STALE_FENCE");
        assert_eq!(table(&other, name).await.unwrap().fence.unwrap().term, 6);
        tasks.iter().for_each(AbortHandle::abort);
    }
}

#[tokio::test]
async fn a_foreign_controller_with_larger_numbers_harms_only_its_own_switch() {
    for habits in all_ways(|_| {}) {
        let world = World::start(habits).await;
        world.is_live(0, true).await;
        world.switches[0].model.lock().generation = Some(1 << 40);
        let parts = [0, 1].map(|at| part(&world.name(at), &[(3, &[2])]));
        let written = World::write_by(&world.driver, (5, 1), parts.to_vec()).await.unwrap();
        let refused: Vec<_> =
            written.refusals.iter().map(|one| (&*one.reason, &*one.message)).collect();
        let why = "the switch refuses: ROLE_REQUEST_FAILED: STALE";
        assert_eq!((written.entries, refused), (1, vec![("WRITE_FAILED", why)]));
        assert_eq!((world.entries(0).await, world.entries(1).await), (vec![], vec![(3, vec![2])]));
    }
}

#[tokio::test]
async fn a_wiped_switch_is_read_as_empty_and_takes_the_next_write() {
    for habits in all_ways(|_| {}) {
        let world = World::start(habits).await;
        world.is_live(0, true).await;
        world.write(1, 0, &[(0, &[2]), (1, &[2])]).await.unwrap();
        // With and without a reading in between.
        for (generation, reads) in [(2, false), (3, true)] {
            world.switches[0].wipe();
            if reads {
                assert_eq!(world.entries(0).await, []);
            }
            world.write(generation, 0, &[(0, &[2]), (1, &[3])]).await.unwrap();
            assert_eq!(world.entries(0).await, [(0, vec![2]), (1, vec![3])]);
            let fence = world.table(0).await.unwrap().fence.unwrap();
            assert_eq!((fence.term, fence.generation), (5, generation));
        }
    }
}

#[tokio::test]
async fn groups_and_flows_of_no_entry_are_removed() {
    let world = World::start(Habits::default()).await;
    world.is_live(0, true).await;
    world.write(1, 0, &[(0, &[2]), (1, &[2])]).await.unwrap();
    {
        let mut model = world.switches[0].model.lock();
        model.flows.retain(|flow| flow.priority < 40_000 || flow.conditions.fields.len() < 3);
        let mut stray = model.flows[0].clone();
        stray.priority = 50_000;
        model.flows.push(stray);
    }
    assert_eq!(world.entries(0).await, []);
    let model = world.switches[0].model.lock();
    assert_eq!((model.groups.len(), model.flows.len()), (0, 2), "only the fence is left");
}

#[tokio::test]
async fn what_is_down_counts_as_failed_and_comes_back() {
    let world = World::start(Habits::default()).await;
    world.is_live(0, true).await;
    let mut lists = world.driver.watch_failed_elements().await.unwrap();
    let mut next = async || {
        let list = tokio::time::timeout(PATIENCE, lists.next()).await.unwrap().unwrap().unwrap();
        list.into_iter().map(|element| element.kind.unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(next().await, []);
    let ports = world.driver.list_ports(&world.name(0)).await.unwrap();
    let link = ports.iter().find(|port| port.peer_port > 0).unwrap();
    let endpoint = ports.iter().find(|port| port.peer_port == 0).unwrap();
    assert!(link.live && endpoint.live);
    assert_eq!((link.received_packets, link.dropped_packets), (u64::from(link.port) * 10, 3));
    let cable = Kind::Link(v1::PortName { switch_name: world.name(0), port: link.port });
    world.switches[0].set_link(link.port, false);
    assert_eq!(next().await, [cable]);
    world.switches[0].set_link(link.port, true);
    assert_eq!(next().await, []);
    world.switches[0].set_link(endpoint.port, false);
    assert_eq!(next().await, [Kind::Endpoint(endpoint.peer.clone())]);
    let ports = world.driver.list_ports(&world.name(0)).await.unwrap();
    assert!(!ports.iter().find(|port| port.port == endpoint.port).unwrap().live);
    world.switches[0].set_link(endpoint.port, true);
    assert_eq!(next().await, []);
    world.connections[0].abort();
    assert_eq!(next().await, [Kind::SwitchName(world.name(0))]);
    world.switches[0].connect(world.address());
    assert_eq!(next().await, []);
}

#[tokio::test]
async fn counters_and_ports_are_those_of_the_topology() {
    let world = World::start(Habits::default()).await;
    world.is_live(0, true).await;
    let names: Vec<String> = (0..3).map(|at| world.name(at)).collect();
    let counted: Vec<_> = world.driver.read_counters(names.clone()).await.unwrap().collect().await;
    for (counters, name) in counted.into_iter().zip(names) {
        let counters = counters.unwrap();
        let ports: Vec<u32> = counters.ports.iter().map(|port| port.port).collect();
        let expected: Vec<u32> = (1..=u32::from(world.driver.switches.ports(&name))).collect();
        assert_eq!((counters.switch_name, ports), (name, expected));
        assert_eq!(counters.ports[1].received_packets, 20);
        assert_eq!(counters.ports[1].dropped_packets, 3, "all ones are no count");
    }
    let unknown = world.driver.read_tables(vec!["nowhere".to_owned()]).await;
    assert!(matches!(unknown.err(), Some(DriverError::UnknownSwitch { .. })));
}

#[test]
fn an_address_that_is_taken_is_an_error_of_the_start() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _inside = runtime.enter();
    let error = listen(address).unwrap_err();
    let told = OpenflowError::Listen { address, source: error }.to_string();
    assert_eq!(told, format!("{address} cannot be listened on for switches"));
}
