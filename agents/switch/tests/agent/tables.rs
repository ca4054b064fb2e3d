//! Listing, reading and writing.

use fabricast_config::RawSwitchAgentConfig;
use fabricast_proto::v1;
use tokio_stream::StreamExt;
use tonic::{Code, Status};

use crate::fake_tic::FakeTic;
use crate::hardware::Hardware;
use crate::{Agent, LOOPBACK, reason, settings, soon};

fn entry(in_port: u32, color: u32, out_ports: &[u32]) -> v1::TableEntry {
    v1::TableEntry { in_port, color, out_ports: out_ports.to_vec() }
}

fn part(switch: &str, entries: &[v1::TableEntry]) -> v1::SwitchWrite {
    v1::SwitchWrite { switch_name: switch.into(), entries: entries.to_vec() }
}

fn write(term: u64, generation: u64, writes: &[v1::SwitchWrite]) -> v1::WriteTablesRequest {
    v1::WriteTablesRequest { fence: Some(v1::Fence { term, generation }), writes: writes.to_vec() }
}

impl Agent {
    async fn write(
        &self,
        request: v1::WriteTablesRequest,
    ) -> Result<v1::WriteTablesResponse, Status> {
        soon(self.client.clone().write_tables(request)).await.map(tonic::Response::into_inner)
    }

    async fn read(&self, names: &[&str]) -> Result<Vec<v1::SwitchTable>, Status> {
        let switch_names = names.iter().map(|name| (*name).to_owned()).collect();
        let request = v1::ReadTablesRequest { switch_names };
        let mut stream = soon(self.client.clone().read_tables(request)).await?.into_inner();
        let mut tables = Vec::new();
        while let Some(message) = soon(stream.next()).await {
            tables.push(message?.table.expect("every message has a table"));
        }
        Ok(tables)
    }

    async fn names(&self) -> Result<Vec<String>, Status> {
        let listed = soon(self.client.clone().list_switches(v1::ListSwitchesRequest {})).await?;
        Ok(listed.into_inner().switches.into_iter().map(|switch| switch.name).collect())
    }

    async fn ports(&self, switch: &str) -> Result<Vec<v1::PortStatus>, Status> {
        let request = v1::ListPortsRequest { switch_name: switch.into() };
        Ok(soon(self.client.clone().list_ports(request)).await?.into_inner().ports)
    }
}

#[tokio::test]
async fn written_entries_are_read_back_with_their_fence() {
    let agent = Agent::start(&Hardware::new());
    let entries = [entry(1, 7, &[2]), entry(2, 7, &[1])];
    let answer = agent.write(write(3, 1, &[part("S-1", &entries), part("S-2", &[])])).await;
    assert_eq!(answer.unwrap(), v1::WriteTablesResponse { written_entries: 2, refusals: vec![] });
    let expected = v1::SwitchTable {
        switch_name: "S-1".into(),
        entries: entries.to_vec(),
        fence: Some(v1::Fence { term: 3, generation: 1 }),
    };
    assert_eq!(agent.read(&["S-1"]).await.unwrap(), std::slice::from_ref(&expected));
    let all = agent.read(&[]).await.unwrap();
    assert_eq!(
        all.iter().map(|table| &*table.switch_name).collect::<Vec<_>>(),
        ["S-1", "S-2", "S-3"]
    );
    assert_eq!(all[0], expected);
    agent.stop().await;
}

#[tokio::test]
async fn bad_parts_are_refused_and_change_nothing() {
    let hardware = Hardware::new();
    let agent = Agent::start(&hardware);
    let good = entry(1, 1, &[2]);
    let parts = [
        part("S-1", &[good.clone(), entry(1, 8, &[2])]),
        part("S-2", std::slice::from_ref(&good)),
        part("", &[good]),
    ];
    let answer = agent.write(write(1, 1, &parts)).await.unwrap();
    assert_eq!(answer.written_entries, 1);
    let refused: Vec<_> = answer
        .refusals
        .iter()
        .map(|refusal| (&*refusal.switch_name, &*refusal.reason, &*refusal.message))
        .collect();
    let expected = [
        ("S-1", "BAD_ENTRY", "entries.color 8 is not below 8"),
        ("", "UNKNOWN_SWITCH", "no such switch at this agent"),
    ];
    assert_eq!(refused, expected);
    assert_eq!((hardware.table("S-1").entries.len(), hardware.table("S-2").entries.len()), (0, 1));
    agent.stop().await;
}

#[tokio::test]
async fn bad_calls_say_what_is_wrong() {
    let agent = Agent::start(&Hardware::new());
    let unfenced = agent.write(v1::WriteTablesRequest::default()).await.unwrap_err();
    assert_eq!((unfenced.code(), &*reason(&unfenced)), (Code::InvalidArgument, "FIELD_MISSING"));
    let nameless = agent.ports("").await.unwrap_err();
    assert_eq!((nameless.code(), &*reason(&nameless)), (Code::InvalidArgument, "FIELD_MISSING"));
    for unknown in [agent.ports("S-9").await.unwrap_err(), agent.read(&["S-9"]).await.unwrap_err()]
    {
        assert_eq!((unknown.code(), &*reason(&unknown)), (Code::NotFound, "UNKNOWN_SWITCH"));
        assert!(unknown.message().contains("'S-9'"), "{}", unknown.message());
    }
    agent.stop().await;
}

#[tokio::test]
async fn hardware_that_does_not_count_says_so() {
    let agent = Agent::start(&Hardware::new());
    let read = |switch_names: Vec<String>| {
        let mut client = agent.client.clone();
        async move { soon(client.read_counters(v1::ReadCountersRequest { switch_names })).await }
    };
    let refused = read(vec!["S-1".into()]).await.unwrap_err();
    assert_eq!((refused.code(), &*reason(&refused)), (Code::FailedPrecondition, "NO_COUNTERS"));
    let unknown = read(vec!["S-9".into()]).await.unwrap_err();
    assert_eq!((unknown.code(), &*reason(&unknown)), (Code::NotFound, "UNKNOWN_SWITCH"));
    agent.stop().await;
}

#[tokio::test]
async fn an_older_writer_is_refused_even_by_a_restarted_agent() {
    let hardware = Hardware::new();
    let agent = Agent::start(&hardware);
    let of = |switch| [part(switch, &[entry(1, 1, &[2])])];
    agent.write(write(5, 2, &of("S-1"))).await.unwrap();
    let older_generation = agent.write(write(5, 1, &of("S-1"))).await.unwrap_err();
    assert_eq!(
        (older_generation.code(), &*reason(&older_generation)),
        (Code::Aborted, "STALE_FENCE")
    );
    let older_term = agent.write(write(4, 9, &of("S-2"))).await.unwrap_err();
    assert_eq!((older_term.code(), &*reason(&older_term)), (Code::Aborted, "STALE_FENCE"));
    agent.stop().await;

    let successor = Agent::start(&hardware);
    for switch in ["S-1", "S-2"] {
        let refused = successor.write(write(4, 9, &of(switch))).await.unwrap_err();
        assert_eq!((refused.code(), &*reason(&refused)), (Code::Aborted, "STALE_FENCE"));
    }
    assert_eq!((hardware.table("S-1").entries.len(), hardware.table("S-2").entries.len()), (1, 0));
    successor.write(write(5, 2, &of("S-2"))).await.unwrap();
    successor.stop().await;
}

#[tokio::test]
async fn an_agent_that_starts_before_its_switches_refuses_an_older_writer_later() {
    let hardware = Hardware::new();
    let agent = Agent::start(&hardware);
    agent.write(write(5, 2, &[part("S-1", &[entry(1, 1, &[2])])])).await.unwrap();
    agent.stop().await;
    hardware.set_empty(true);
    let successor = Agent::start(&hardware);
    let older = write(4, 9, &[part("S-2", &[entry(1, 1, &[2])])]);
    let answer = successor.write(older.clone()).await.unwrap();
    assert_eq!(answer.refusals[0].reason, "UNKNOWN_SWITCH");
    hardware.set_empty(false);
    let refused = successor.write(older).await.unwrap_err();
    assert_eq!((refused.code(), &*reason(&refused)), (Code::Aborted, "STALE_FENCE"));
    assert!(hardware.table("S-2").entries.is_empty());
    successor.stop().await;
}

#[tokio::test]
async fn while_the_hardware_is_away_callers_hear_so() {
    let hardware = Hardware::new();
    hardware.set_reachable(false);
    let agent = Agent::start(&hardware);
    let refusals = [
        agent.names().await.unwrap_err(),
        agent.read(&[]).await.unwrap_err(),
        agent.ports("S-1").await.unwrap_err(),
        agent.write(write(1, 1, &[part("S-1", &[])])).await.unwrap_err(),
    ];
    for refusal in refusals {
        assert_eq!((refusal.code(), &*reason(&refusal)), (Code::Unavailable, "FABRIC_UNAVAILABLE"));
    }
    hardware.set_reachable(true);
    agent.write(write(1, 1, &[part("S-1", &[])])).await.unwrap();
    agent.stop().await;
}

#[tokio::test]
async fn a_limited_agent_has_only_its_switches() {
    let hardware = Hardware::new();
    let settings = RawSwitchAgentConfig { switches: Some(vec!["S-2".into()]), ..settings() };
    let agent = Agent::start_with(&hardware, settings);
    assert_eq!(agent.names().await.unwrap(), ["S-2"]);
    assert_eq!(agent.read(&[]).await.unwrap().len(), 1);
    assert_eq!(agent.ports("S-2").await.unwrap()[1].peer, "S-3");
    let answer = agent.write(write(1, 1, &[part("S-1", &[])])).await.unwrap();
    assert_eq!(answer.refusals[0].reason, "UNKNOWN_SWITCH");
    agent.stop().await;
}

const WRONG_TERMS: [u64; 3] = [9, 1 << 63, u64::MAX];

#[tokio::test]
async fn a_term_that_the_tic_has_not_granted_is_refused_and_shuts_out_nobody() {
    let (hardware, tic) = (Hardware::new(), FakeTic::start(LOOPBACK));
    tic.grant(7);
    let settings =
        || RawSwitchAgentConfig { tic: [tic.address].into_iter().collect(), ..settings() };
    let agent = Agent::start_with(&hardware, settings());
    let parts = [part("S-1", &[entry(1, 1, &[2])])];
    for term in WRONG_TERMS {
        let refused = agent.write(write(term, u64::MAX, &parts)).await.unwrap_err();
        assert_eq!(reason(&refused), "TERM_NOT_GRANTED", "{term}");
    }
    agent.write(write(7, 1, &parts)).await.unwrap();
    tic.grant(8);
    agent.write(write(8, 1, &parts)).await.unwrap();
    let late = agent.write(write(7, 2, &parts)).await.unwrap_err();
    assert_eq!(reason(&late), "STALE_FENCE");
    agent.stop().await;
    let restarted = Agent::start_with(&hardware, settings());
    restarted.write(write(8, 2, &parts)).await.unwrap();
    restarted.stop().await;
    tic.stop().await;
}

#[tokio::test]
async fn while_the_tic_does_not_answer_few_terms_are_taken() {
    let agent = Agent::start(&Hardware::new());
    let parts = [part("S-1", &[entry(1, 1, &[2])])];
    for term in [1 << 63, u64::MAX] {
        let refused = agent.write(write(term, 1, &parts)).await.unwrap_err();
        assert_eq!(reason(&refused), "TERM_NOT_GRANTED", "{term}");
    }
    for term in [1, 2] {
        agent.write(write(term, 1, &parts)).await.unwrap();
    }
    agent.stop().await;
}

/// An earlier version has taken a term that was never granted; the hardware remembers it.
#[tokio::test]
async fn a_term_that_was_never_granted_counts_at_other_switches_no_more() {
    let (hardware, tic) = (Hardware::new(), FakeTic::start(LOOPBACK));
    tic.grant(7);
    let wrong = v1::Fence { term: u64::MAX, generation: 1 };
    let driver: &dyn fabricast_switch::Driver = &hardware;
    driver.write_tables(wrong, vec![part("S-3", &[])]).await.unwrap();
    let settings = RawSwitchAgentConfig { tic: [tic.address].into_iter().collect(), ..settings() };
    let agent = Agent::start_with(&hardware, settings);
    agent.write(write(7, 1, &[part("S-1", &[entry(1, 1, &[2])])])).await.unwrap();
    let older = agent.write(write(6, 9, &[part("S-1", &[])])).await.unwrap_err();
    assert_eq!(reason(&older), "STALE_FENCE");
    agent.stop().await;
    tic.stop().await;
}
