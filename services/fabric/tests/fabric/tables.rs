//! Tables and ports, as switch agents see them.

use fabricast_proto::v1;
use fabricast_proto::v1::element::Kind;
use fabricast_topology::TableKind;
use tonic::{Code, Status};

use crate::{Fabric, KEY, refusal, soon, tree, why};

impl Fabric {
    async fn read(&self, names: &[&str]) -> Result<Vec<v1::SwitchTable>, Status> {
        let switch_names = names.iter().map(|name| (*name).to_owned()).collect();
        let request = v1::ReadSwitchTablesRequest { management_key: KEY.into(), switch_names };
        let mut stream = soon(self.client.clone().read_switch_tables(request)).await?.into_inner();
        let mut tables = Vec::new();
        while let Some(message) = soon(stream.message()).await? {
            tables.push(message.table.expect("every message has a table"));
        }
        Ok(tables)
    }

    async fn switches(&self) -> Vec<v1::Switch> {
        let request = v1::ListFabricSwitchesRequest { management_key: KEY.into() };
        let listed = soon(self.client.clone().list_fabric_switches(request)).await;
        listed.expect("the key is right").into_inner().switches
    }

    async fn ports(&self, name: &str) -> Result<Vec<v1::PortStatus>, Status> {
        let request =
            v1::ListSwitchPortsRequest { management_key: KEY.into(), switch_name: name.into() };
        Ok(soon(self.client.clone().list_switch_ports(request)).await?.into_inner().ports)
    }

    async fn cut_power(&self, name: &str, live: bool) {
        let element = Some(v1::Element { kind: Some(Kind::SwitchName(name.into())) });
        let mut client = self.client.clone();
        if live {
            soon(client.heal_element(v1::HealElementRequest { element })).await.expect("known");
        } else {
            soon(client.fail_element(v1::FailElementRequest { element })).await.expect("known");
        }
    }
}

fn part(switch: &str, entries: &[v1::TableEntry]) -> v1::SwitchWrite {
    v1::SwitchWrite { switch_name: switch.into(), entries: entries.to_vec() }
}

fn entry(in_port: u32, color: u32, out_ports: &[u32]) -> v1::TableEntry {
    v1::TableEntry { in_port, color, out_ports: out_ports.to_vec() }
}

#[tokio::test]
async fn written_tables_are_read_back_with_their_fence() {
    let fabric = Fabric::start();
    assert_eq!(fabric.read(&["S-0"]).await.unwrap()[0].fence, None);
    let entries = tree(TableKind::PerPort, 3, &[1, 2, 3]);
    let answer = fabric.write(2, 5, &[part("S-0", &entries), part("S-1", &[])]).await.unwrap();
    assert_eq!((answer.written_entries, answer.refusals.len()), (3, 0));
    let fence = Some(v1::Fence { term: 2, generation: 5 });
    let expected = v1::SwitchTable { switch_name: "S-0".into(), entries, fence };
    assert_eq!(fabric.read(&["S-0"]).await.unwrap(), [expected]);
    fabric.write(2, 6, &[part("S-0", &[entry(2, 3, &[]), entry(1, 3, &[4])])]).await.unwrap();
    let all = fabric.read(&[]).await.unwrap();
    assert_eq!(all.len(), 3);
    assert_eq!(all[0].entries, [entry(1, 3, &[4]), entry(3, 3, &[1, 2])]);
    fabric.stop().await;
}

#[tokio::test]
async fn switches_are_listed_with_what_they_offer_and_use() {
    for (kind, in_port) in [(TableKind::PerPort, 3), (TableKind::PerSwitch, 0)] {
        let fabric = Fabric::start_with(kind);
        let entries = [entry(in_port, 0, &[1]), entry(in_port, 2, &[1])];
        fabric.write(1, 1, &[part("S-1", &entries)]).await.unwrap();
        fabric.cut_power("S-2", false).await;
        let switches = fabric.switches().await;
        let seen: Vec<_> = switches
            .iter()
            .map(|switch| (&*switch.name, &*switch.description, switch.live, switch.used_entries))
            .collect();
        let expected =
            [("S-0", "left", true, 0), ("S-1", "right", true, 2), ("S-2", "top", false, 0)];
        assert_eq!(seen, expected);
        let kind = match kind {
            TableKind::PerPort => v1::TableKind::PerPort,
            TableKind::PerSwitch => v1::TableKind::PerSwitch,
        };
        let offered = (switches[0].port_count, switches[0].colors, switches[0].table_kind());
        assert_eq!(offered, (4, 4, kind));
        fabric.stop().await;
    }
}

#[tokio::test]
async fn a_stale_writer_changes_nothing_anywhere() {
    let fabric = Fabric::start();
    let good = [entry(1, 1, &[2])];
    fabric.write(2, 5, &[part("S-1", &good)]).await.unwrap();
    for (term, generation) in [(2, 4), (1, 9)] {
        let writes = [part("S-0", &good), part("S-1", &[])];
        let refused = fabric.write(term, generation, &writes).await;
        assert_eq!(why(refused), refusal(Code::Aborted, "STALE_FENCE"));
    }
    assert_eq!(fabric.read(&["S-0"]).await.unwrap()[0].entries, []);
    // The same fence again is no older; another switch has seen none.
    fabric.write(2, 5, &[part("S-1", &[])]).await.unwrap();
    fabric.write(1, 9, &[part("S-0", &[])]).await.unwrap();
    fabric.stop().await;
}

#[tokio::test]
async fn a_switch_refuses_its_part_and_the_others_take_theirs() {
    let fabric = Fabric::start();
    fabric.cut_power("S-2", false).await;
    let good = entry(1, 1, &[2]);
    let mut writes =
        vec![part("S-9", &[]), part("S-2", &[]), part("S-1", std::slice::from_ref(&good))];
    let bad = [
        entry(0, 1, &[2]),
        entry(5, 1, &[2]),
        entry(300, 1, &[2]),
        entry(1, 4, &[2]),
        entry(1, 70_000, &[2]),
        entry(1, 1, &[0]),
        entry(1, 1, &[5]),
        entry(1, 1, &[300]),
    ];
    writes.extend(bad.iter().map(|bad| part("S-0", &[good.clone(), bad.clone()])));
    let answer = fabric.write(1, 1, &writes).await.unwrap();
    assert_eq!(answer.written_entries, 1);
    let refused: Vec<_> =
        answer.refusals.iter().map(|refusal| (&*refusal.switch_name, &*refusal.reason)).collect();
    let mut expected = vec![("S-9", "UNKNOWN_SWITCH"), ("S-2", "SWITCH_DOWN")];
    expected.extend(bad.iter().map(|_| ("S-0", "BAD_ENTRY")));
    assert_eq!(refused, expected);
    assert_eq!(fabric.read(&["S-0"]).await.unwrap()[0].entries, []);
    fabric.stop().await;
}

#[tokio::test]
async fn a_switch_without_power_is_left_out_and_comes_back_empty() {
    let fabric = Fabric::programmed().await;
    fabric.cut_power("S-0", false).await;
    let names = async |names: &[&str]| -> Vec<String> {
        let tables = fabric.read(names).await.unwrap();
        tables.into_iter().map(|table| table.switch_name).collect()
    };
    assert_eq!(names(&[]).await, ["S-1", "S-2"]);
    assert_eq!(names(&["S-0", "S-1"]).await, ["S-1"]);
    fabric.cut_power("S-0", true).await;
    let table = fabric.read(&["S-0"]).await.unwrap().remove(0);
    assert_eq!((table.entries, table.fence), (vec![], None));
    fabric.stop().await;
}

#[tokio::test]
async fn ports_show_peer_state_and_counters() {
    let fabric = Fabric::programmed().await;
    fabric.inject("h0", 1).await.unwrap();
    fabric.cut_power("S-2", false).await;
    let ports = fabric.ports("S-0").await.unwrap();
    let wiring: Vec<_> =
        ports.iter().map(|port| (port.port, &*port.peer, port.peer_port, port.live)).collect();
    let expected =
        [(1, "h0", 0, true), (2, "h1", 0, true), (3, "S-2", 1, false), (4, "", 0, false)];
    assert_eq!(wiring, expected);
    let counted: Vec<_> =
        ports.iter().map(|port| (port.received_packets, port.sent_packets)).collect();
    assert_eq!(counted, [(1, 0), (0, 1), (0, 1), (0, 0)]);
    let request = v1::ReadSwitchCountersRequest {
        management_key: KEY.into(),
        switch_names: vec!["S-0".into(), "S-2".into()],
    };
    let answer = soon(fabric.client.clone().read_switch_counters(request)).await.unwrap();
    let mut answers = answer.into_inner();
    let read = soon(answers.message()).await.unwrap().unwrap().counters.unwrap();
    assert_eq!(read.switch_name, "S-0");
    assert_eq!(soon(answers.message()).await.unwrap(), None, "S-2 has no power");
    let bytes: Vec<_> =
        read.ports.iter().map(|port| (port.received_bytes, port.sent_bytes)).collect();
    let packet = fabricast_emulator::HEADER_BYTES + 1;
    assert_eq!(bytes, [(packet, 0), (0, packet), (0, packet), (0, 0)]);
    fabric.stop().await;
}

#[tokio::test]
async fn unknown_switches_and_missing_fences_are_refused() {
    let fabric = Fabric::start();
    let unknown = refusal(Code::NotFound, "UNKNOWN_SWITCH");
    assert_eq!(why(fabric.read(&["S-0", "S-9"]).await), unknown);
    assert_eq!(why(fabric.ports("S-9").await), unknown);
    let request =
        v1::WriteSwitchTablesRequest { management_key: KEY.into(), fence: None, writes: vec![] };
    let unfenced = soon(fabric.client.clone().write_switch_tables(request)).await;
    assert_eq!(why(unfenced), refusal(Code::InvalidArgument, "FIELD_MISSING"));
    fabric.stop().await;
}

#[tokio::test]
async fn without_the_key_nothing_is_shown_or_written() {
    let fabric = Fabric::start();
    let denied = refusal(Code::PermissionDenied, "MANAGEMENT_KEY_WRONG");
    for wrong in ["", "sesam", "Sesame", "sesame "] {
        let management_key = || wrong.to_owned();
        let mut client = fabric.client.clone();
        let list = v1::ListFabricSwitchesRequest { management_key: management_key() };
        assert_eq!(why(soon(client.list_fabric_switches(list)).await), denied);
        let read =
            v1::ReadSwitchTablesRequest { management_key: management_key(), switch_names: vec![] };
        assert_eq!(why(soon(client.read_switch_tables(read)).await), denied);
        let write = v1::WriteSwitchTablesRequest {
            management_key: management_key(),
            fence: Some(v1::Fence { term: 9, generation: 9 }),
            writes: vec![part("S-0", &[])],
        };
        assert_eq!(why(soon(client.write_switch_tables(write)).await), denied);
        let ports = v1::ListSwitchPortsRequest {
            management_key: management_key(),
            switch_name: "S-0".into(),
        };
        assert_eq!(why(soon(client.list_switch_ports(ports)).await), denied);
        let counters = v1::ReadSwitchCountersRequest {
            management_key: management_key(),
            switch_names: vec![],
        };
        assert_eq!(why(soon(client.read_switch_counters(counters)).await), denied);
        let watch = v1::WatchFailedElementsRequest { management_key: management_key() };
        assert_eq!(why(soon(client.watch_failed_elements(watch)).await), denied);
    }
    assert_eq!(fabric.read(&["S-0"]).await.unwrap()[0].fence, None);
    fabric.stop().await;
}
