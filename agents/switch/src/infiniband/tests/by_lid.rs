//! Switches that are asked by LID, where one has one and where not.

use super::*;

const PORT_INFO: u16 = 0x15;
const TABLE: u16 = 0x1b;

/// A subnet where a subnet manager has given every switch a LID, from 1 on, and a driver that uses them.
async fn addressed() -> (Fake, InfinibandDriver, Vec<String>) {
    let fake = Fake::new();
    let lids: BTreeMap<u16, SwitchId> = (1..).zip(fake.graph.switches()).collect();
    fake.hardware().addressed.clone_from(&lids);
    fake.hardware().led = lids;
    let options = InfinibandOptions { routing: Routing::Lid, ..<_>::default() };
    let driver = fake.driver(options);
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

    /// How often an attribute was asked for since the last time, by LID and along directed routes.
    fn asked_for(&self, attribute: u16) -> (usize, usize) {
        let asked = std::mem::take(&mut self.hardware().asked);
        let count = |wanted: fn(To) -> bool| {
            asked.iter().filter(|(to, of)| *of == attribute && wanted(*to)).count()
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
async fn switches_with_lids_are_asked_by_them_and_found_without() {
    let (fake, driver, names) = addressed().await;
    assert_eq!(fake.asked_for(TABLE), (names.len() * 2, 0), "two blocks a switch");
    write(&driver, &names[0]).await;
    assert_eq!(fake.asked_for(TABLE), (6, 0), "read and write two blocks, read them again");
    driver.list_ports(&names[1]).await.unwrap();
    assert_eq!(fake.asked_for(PORT_INFO), (4, 0));
    driver.discover().await.unwrap();
    let ports: usize = fake.graph.switches().map(|switch| 1 + fake.graph.ports(switch).len()).sum();
    assert_eq!(fake.asked_for(PORT_INFO), (0, ports));
}

#[tokio::test]
async fn a_switch_that_does_not_answer_by_lid_is_asked_along_the_directed_route() {
    let (fake, driver, names) = addressed().await;
    let lid = fake.lid(&names[0]);
    fake.hardware().led.remove(&lid);
    fake.asked_for(TABLE);
    write(&driver, &names[0]).await;
    assert_eq!(fake.asked_for(TABLE), (0, 6), "it does not say by LID who it is");
    // Found without it, none is tried.
    driver.discover().await.unwrap();
    fake.hardware().asked.clear();
    write(&driver, &names[0]).await;
    let asked = fake.hardware().asked.clone();
    assert!(asked.iter().all(|(to, _)| *to == To::Route), "{asked:?}");
}

/// A subnet manager gave the LID away after the switch was found.
#[tokio::test]
async fn what_is_behind_a_lid_must_be_the_switch_that_is_meant() {
    let (fake, driver, names) = addressed().await;
    let lid = fake.lid(&names[0]);
    let other = fake.graph.find_switch(&names[1]).unwrap();
    fake.hardware().led.insert(lid, other);
    write(&driver, &names[0]).await;
    assert_eq!((fake.used(&names[0]), fake.used(&names[1])), (2, 0));
    driver.discover().await.unwrap();
    fake.hardware().asked.clear();
    driver.list_ports(&names[0]).await.unwrap();
    assert_eq!(fake.asked_for(PORT_INFO), (0, 4), "nor is it believed when it is found");
}

#[tokio::test]
async fn what_is_lost_by_lid_in_the_middle_is_asked_again() {
    let (fake, driver, names) = addressed().await;
    let lid = fake.lid(&names[0]);
    let fabric = driver.known().await.unwrap();
    let node = fabric.switch(&names[0]).unwrap();
    let mut reach = driver.reach(&fabric, node).await;
    fake.hardware().led.remove(&lid);
    fake.hardware().asked.clear();
    let requests = [1, 2].map(|port| Request::get(Attribute::PortInfo, port));
    for expected in [(2, 2), (0, 2)] {
        let answers = reach.ask(&requests).await;
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        assert_eq!(fake.asked_for(PORT_INFO), expected);
    }
}

#[tokio::test]
async fn without_a_subnet_manager_everything_goes_along_directed_routes() {
    let fake = Fake::new();
    let driver = fake.driver(InfinibandOptions { routing: Routing::Lid, ..<_>::default() });
    let switches = driver.list_switches().await.unwrap();
    write(&driver, &switches[0].name).await;
    let asked = fake.hardware().asked.clone();
    assert!(asked.iter().all(|(to, _)| *to == To::Route), "{asked:?}");
}
