//! Cables and endpoints that the driver finds by frames.

use std::collections::BTreeSet;

use super::*;

const KEY: &str = "lldp_key = 'a key that agents share'";
/// Cables by their ends: node id and port, or the name of an endpoint.
type Cables = BTreeSet<[String; 2]>;

/// Settings of an agent that finds the fabric.
fn finding(more: &str) -> OpenflowDriver {
    let text = format!(
        "listen = '127.0.0.1:0'\ncolors = 16\ntimeout = '1s'\ngrace = '50ms'\n\
         lldp_interval = '100ms'\n{more}"
    );
    OpenflowDriver::start(&toml::from_str(&text).unwrap(), None).unwrap()
}

fn fabric() -> Arc<Graph> {
    Arc::new(TopologySpec::parse(FABRIC).unwrap().generate().unwrap())
}

/// Node id of a switch that was found, by its place.
fn node(at: usize) -> String {
    format!("S-{:016x}", at + 1)
}

/// Cables of a fabric whose switches have the node ids of their datapath ids.
fn expected(fabric: &Graph) -> Cables {
    let renamed = |end: String| match end.rsplit_once(':') {
        Some((name, port)) => {
            format!("{}:{port}", node(fabric.find_switch(name).unwrap().index()))
        }
        None => end,
    };
    fabric.cables().into_iter().map(|ends| ends.map(renamed)).collect()
}

impl World {
    /// All switches connect to an agent that finds the fabric.
    fn found_by(driver: OpenflowDriver) -> Self {
        Self::connected(driver, fabric(), &Habits::default())
    }

    /// All hosts say once which endpoints they are.
    fn announce(&self) {
        for endpoint in self.fabric.endpoints() {
            let port = self.fabric.attachment(endpoint).unwrap();
            let switch = &self.switches[self.fabric.switch_of(port).index()];
            let number = u32::from(self.fabric.port_number(port));
            switch.announce(number, self.fabric.endpoint_name(endpoint));
        }
    }

    /// Waits until an agent has found these cables.
    async fn finds(&self, driver: &OpenflowDriver, expected: &Cables) -> Arc<Graph> {
        let waiting = async {
            loop {
                self.announce();
                if let Ok(graph) = driver.discover().await
                    && graph.cables() == *expected
                {
                    return graph;
                }
                sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.expect("it is found")
    }
}

/// The next list of failed parts.
async fn next_failed(lists: &mut DriverStream<Vec<v1::Element>>) -> Vec<Kind> {
    let list = tokio::time::timeout(PATIENCE, lists.next()).await.unwrap().unwrap().unwrap();
    list.into_iter().map(|element| element.kind.unwrap()).collect()
}

fn link(switch_name: &str, port: u32) -> Kind {
    Kind::Link(v1::PortName { switch_name: switch_name.to_owned(), port })
}

#[tokio::test]
async fn a_fabric_that_no_file_has_is_found_and_expected_from_then_on() {
    let world = World::found_by(finding("datapaths = { leaf0 = '1' }"));
    assert_eq!(world.driver.discovery_interval(), Some(Duration::from_millis(100)));
    let whole = expected(&world.fabric);
    let graph = world.finds(&world.driver, &whole).await;
    let leaf = graph.find_switch("leaf0").unwrap();
    assert_eq!((graph.switch_name(leaf), graph.switch_count()), (&*node(0), 3));
    let unknown = world.driver.list_ports(&node(0)).await;
    assert!(matches!(unknown, Err(DriverError::UnknownSwitch { .. })), "nobody expects it yet");
    let listed = world.driver.list_switches().await.unwrap();
    let counts: Vec<_> = listed.iter().map(|one| (one.live, one.port_count as usize)).collect();
    let ports = |switch| (true, world.fabric.ports(switch).len());
    assert_eq!(counts, world.fabric.switches().map(ports).collect::<Vec<_>>());

    world.driver.expect(graph);
    assert_eq!(world.driver.list_ports(&node(0)).await.unwrap().len(), counts[0].1);
    let mut lists = world.driver.watch_failed_elements().await.unwrap();
    assert_eq!(next_failed(&mut lists).await, []);

    // A cut cable is no longer found, and has failed.
    world.switches[0].set_link(3, false);
    assert_eq!(next_failed(&mut lists).await, [link(&node(0), 3)]);
    let mut rest = whole.clone();
    rest.retain(|[end, _]| *end != format!("{}:3", node(0)));
    assert_eq!(rest.len() + 1, whole.len());
    world.finds(&world.driver, &rest).await;
    world.switches[0].set_link(3, true);
    assert_eq!(next_failed(&mut lists).await, []);
    world.finds(&world.driver, &whole).await;

    // So has a switch that is gone.
    world.connections[2].abort();
    assert_eq!(next_failed(&mut lists).await, [Kind::SwitchName(node(2))]);
}

#[tokio::test]
async fn packets_begin_at_the_ports_where_endpoints_are_found() {
    let world = World::found_by(finding(""));
    let whole = expected(&world.fabric);
    world.finds(&world.driver, &whole).await;
    let session = world.driver.switches.session(&node(0)).unwrap();
    let ports: PortSet = [1, 2].into_iter().collect();
    eventually(|| session.mapping().endpoint_ports == ports).await;
    let parts = vec![part(&node(0), &[(4, &[2, 3])])];
    let written = World::write_by(&world.driver, (5, 1), parts).await.unwrap();
    assert_eq!(written, Written { entries: 1, refusals: vec![] });
    assert_eq!(led(&world.switches[0], [239, 192, 0, 4]), [(1, 0x0001_0005)]);
    let held = table(&world.driver, node(0)).await.unwrap();
    assert_eq!(held.entries, part("", &[(4, &[2, 3])]).entries);

    // A switch that has lost its tables hands frames over again after an interval.
    world.switches[0].wipe();
    eventually(|| !world.switches[0].model.lock().flows.is_empty()).await;
    world.finds(&world.driver, &whole).await;
}

#[tokio::test]
async fn a_cable_that_leads_elsewhere_than_the_file_has_it_has_failed() {
    let fabric = fabric();
    let driver = start(&fabric, "lldp_interval = '100ms'");
    assert_eq!(driver.discovery_interval(), None);
    let world = World::connected(driver, fabric, &Habits::default());
    for at in 0..3 {
        world.is_live(at, true).await;
    }
    let whole = world.fabric.cables();
    world.finds(&world.driver, &whole).await;
    // Without ports that are down, only cables elsewhere have failed.
    let failed = || {
        let all_live = world.driver.switches.sessions().iter().all(|session| {
            let watched = session.watched();
            watched.live_ports().len() == usize::from(watched.last_port())
        });
        let (failed, _) = world.driver.switches.failed(Instant::now());
        let kinds: Vec<_> = failed.into_iter().map(|element| element.kind.unwrap()).collect();
        all_live.then_some(kinds)
    };
    assert_eq!(failed(), Some(vec![]));

    // The cables of both leaves are in each other's ports of the spine, and are put back.
    let [near, far, spine] = [0, 1, 2].map(|at| &world.switches[at]);
    let rewire = |ends: [(&Switch, u32); 2]| {
        for (leaf, number) in ends {
            spine.set_link(number, false);
            leaf.set_link(3, false);
            spine.plug(number, leaf, 3);
        }
    };
    rewire([(near, 2), (far, 1)]);
    let wrong = [0, 1].map(|at| link(&world.name(at), 3)).to_vec();
    eventually(|| failed().as_ref() == Some(&wrong)).await;
    rewire([(near, 1), (far, 2)]);
    eventually(|| failed() == Some(vec![])).await;
    world.finds(&world.driver, &whole).await;

    // A host says that it is another endpoint than the one that belongs there.
    world.switches[1].set_link(1, false);
    world.switches[1].set_link(1, true);
    let wrong = vec![link(&world.name(1), 1)];
    eventually(|| {
        world.switches[1].announce(1, "nobody");
        failed().as_ref() == Some(&wrong)
    })
    .await;
}

/// Two agents: the leaves are connected with one, the spine with the other.
#[tokio::test]
async fn agents_believe_the_frames_of_those_that_have_their_key() {
    for (key, between) in [("", 0), (KEY, 2)] {
        let (world, other) = (World::found_by(finding(key)), finding(key));
        world.connections[2].abort();
        let spine = world.switches[2].connect(other.address.unwrap());
        eventually(|| other.switches.session(&node(2)).is_ok()).await;
        let whole = expected(&world.fabric);
        let is_between =
            |[near, far]: &&[String; 2]| [near, far].iter().any(|end| end.starts_with(&node(2)));
        let cables: Cables = whole.iter().filter(is_between).cloned().collect();
        assert_eq!(cables.len(), 2);
        let ends: Cables = whole.difference(&cables).cloned().collect();
        let [ours, theirs] = match between {
            0 => [ends, Cables::new()],
            _ => [whole.clone(), cables],
        };
        world.finds(&world.driver, &ours).await;
        world.finds(&other, &theirs).await;
        spine.abort();
    }
}

#[tokio::test]
async fn an_agent_without_switches_or_without_lldp_finds_nothing() {
    let driver = finding("");
    let message = driver.discover().await.unwrap_err().to_string();
    assert!(message.contains("no switch is connected"), "{message}");
    let world = World::start(Habits::default()).await;
    assert!(matches!(world.driver.discover().await, Err(DriverError::NoDiscovery)));
}
