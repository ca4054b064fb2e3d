//! Routing by LID, with and without LIDs that work.

use super::*;

const PORT_INFO: u16 = 0x15;
const TABLE: u16 = 0x1b;

/// A subnet where every switch has a LID, from 1 on, and a driver that uses the LIDs.
async fn addressed() -> (Fake, InfinibandDriver, Vec<String>) {
    let fake = Fake::new();
    let lids: BTreeMap<u16, SwitchId> = (1..).zip(fake.graph.switches()).collect();
    fake.hardware().addressed.clone_from(&lids);
    fake.hardware().led = lids;
    let config = InfinibandConfig { routing: RoutingName::Lid, ..<_>::default() };
    let driver = fake.driver(config);
    let switches = driver.list_switches().await.unwrap();
    (fake, driver, switches.into_iter().map(|switch| switch.name).collect())
}

impl Fake {
    fn lid(&self, name: &str) -> u16 {
        let switch = self.graph.find_switch(name).unwrap();
        let hardware = self.hardware();
        let mut lids = hardware.addressed.iter();
        *lids.find(|(_, at)| **at == switch).unwrap().0
    }

    /// Number of requests for an attribute since the last call: by LID, and along directed routes.
    fn requests_for(&self, attribute: u16) -> (usize, usize) {
        let requested = std::mem::take(&mut self.hardware().requested);
        let count = |wanted: fn(To) -> bool| {
            requested.iter().filter(|(to, of)| *of == attribute && wanted(*to)).count()
        };
        (count(|to| to != To::Route), count(|to| to == To::Route))
    }

    fn used(&self, name: &str) -> usize {
        let switch = self.graph.find_switch(name).unwrap();
        self.hardware().tables[&switch].used().count()
    }
}

async fn write(driver: &InfinibandDriver, name: &str) {
    let part = vec![part(name, vec![entry(3, &[1]), entry(40, &[2])])];
    let written = driver.write_tables(fence(1, 1), part).await.unwrap();
    assert_eq!((written.entries, written.refusals), (2, vec![]));
    assert_eq!(table(driver, name).await.entries, [entry(3, &[1]), entry(40, &[2])]);
}

#[tokio::test]
async fn switches_are_read_and_written_by_lid_but_discovered_by_directed_routes() {
    let (fake, driver, names) = addressed().await;
    assert_eq!(fake.requests_for(TABLE), (names.len() * 2, 0), "two blocks per switch");
    write(&driver, &names[0]).await;
    assert_eq!(fake.requests_for(TABLE), (6, 0), "read and write two blocks, read them again");
    driver.list_ports(&names[1]).await.unwrap();
    assert_eq!(fake.requests_for(PORT_INFO), (4, 0));
    driver.discover().await.unwrap();
    let ports: usize = fake.graph.switches().map(|switch| 1 + fake.graph.ports(switch).len()).sum();
    assert_eq!(fake.requests_for(PORT_INFO), (0, ports));
}

#[tokio::test]
async fn a_switch_that_does_not_answer_by_lid_is_reached_by_its_directed_route() {
    let (fake, driver, names) = addressed().await;
    let lid = fake.lid(&names[0]);
    fake.hardware().led.remove(&lid);
    fake.requests_for(TABLE);
    write(&driver, &names[0]).await;
    assert_eq!(fake.requests_for(TABLE), (0, 6), "its LID does not work");
    // After a discovery without the LID, it is not tried.
    driver.discover().await.unwrap();
    fake.hardware().requested.clear();
    write(&driver, &names[0]).await;
    let requested = fake.hardware().requested.clone();
    assert!(requested.iter().all(|(to, _)| *to == To::Route), "{requested:?}");
}

/// A subnet manager gave the LID to another switch after the discovery.
#[tokio::test]
async fn a_lid_is_not_used_if_another_switch_is_behind_it() {
    let (fake, driver, names) = addressed().await;
    let lid = fake.lid(&names[0]);
    let other = fake.graph.find_switch(&names[1]).unwrap();
    fake.hardware().led.insert(lid, other);
    write(&driver, &names[0]).await;
    assert_eq!((fake.used(&names[0]), fake.used(&names[1])), (2, 0));
    driver.discover().await.unwrap();
    fake.hardware().requested.clear();
    driver.list_ports(&names[0]).await.unwrap();
    assert_eq!(fake.requests_for(PORT_INFO), (0, 4), "nor after the next discovery");
}

#[tokio::test]
async fn requests_lost_by_lid_are_repeated_by_the_directed_route() {
    let (fake, driver, names) = addressed().await;
    let lid = fake.lid(&names[0]);
    let subnet = driver.last_subnet().await.unwrap();
    let node = subnet.switch(&names[0]).unwrap();
    let mut reach = driver.reach(&subnet, node).await;
    fake.hardware().led.remove(&lid);
    fake.hardware().requested.clear();
    let requests = [1, 2].map(|port| Request::get(Attribute::PortInfo, port));
    for expected in [(2, 2), (0, 2)] {
        let answers = reach.request(&requests).await;
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        assert_eq!(fake.requests_for(PORT_INFO), expected);
    }
}

#[tokio::test]
async fn without_a_subnet_manager_everything_goes_along_directed_routes() {
    let fake = Fake::new();
    let driver = fake.driver(InfinibandConfig { routing: RoutingName::Lid, ..<_>::default() });
    let switches = driver.list_switches().await.unwrap();
    write(&driver, &switches[0].name).await;
    let requested = fake.hardware().requested.clone();
    assert!(requested.iter().all(|(to, _)| *to == To::Route), "{requested:?}");
}
