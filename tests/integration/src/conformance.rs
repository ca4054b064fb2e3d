//! Tests that every driver of a switch agent must pass, whatever the hardware.
//!
//! The suite talks to a switch agent over gRPC, as the route service does. The caller cuts links.
//! There must be no other writer meanwhile.

use fabricast_proto::v1;
use fabricast_proto::v1::switch_agent_service_client::SwitchAgentServiceClient;
use fabricast_rpc::{Channel, Reason};
use tonic::Status;

use crate::wait::{eventually, soon};

/// A switch agent under test.
#[derive(Clone, Debug)]
pub struct Conformance {
    agent: SwitchAgentServiceClient<Channel>,
    term: u64,
}

impl Conformance {
    /// Prepares the suite for an agent.
    ///
    /// - `term`: newer than that of anybody who has written to the switches.
    #[must_use]
    pub fn new(agent: SwitchAgentServiceClient<Channel>, term: u64) -> Self {
        Self { agent, term }
    }

    /// Runs all checks that need no hands on the hardware; gives a link between switches, by one
    /// end.
    ///
    /// # Panics
    ///
    /// If the driver does not conform.
    pub async fn check(&self) -> (String, u32) {
        let switches = self.discovered().await;
        let [first, second] = [&switches[0], &switches[1]];
        self.entries_are_kept(first).await;
        self.a_batch_holds_or_is_refused_switch_by_switch(first, second).await;
        self.older_writers_change_nothing(first).await;
        self.counters_are_complete_or_refused(&switches).await;
        self.wired_both_ways(&switches).await
    }

    /// Waits until a port is down or up, as its state and as a port of its peer.
    ///
    /// # Panics
    ///
    /// If that does not come about.
    pub async fn link_is(&self, (switch, port): &(String, u32), live: bool) {
        eventually("the ports tell of the link", async || {
            let own = self.ports(switch).await.map_err(|status| status.message().to_owned())?;
            let own = own.iter().find(|one| one.port == *port).ok_or("no such port")?.clone();
            if own.live == live { Ok(()) } else { Err(format!("{own:?}")) }
        })
        .await;
    }

    async fn discovered(&self) -> Vec<v1::Switch> {
        let listed = soon(self.agent.clone().list_switches(v1::ListSwitchesRequest {})).await;
        let switches = listed.expect("the agent answers").into_inner().switches;
        assert!(switches.len() > 1, "the suite needs two switches");
        assert!(switches.is_sorted_by(|a, b| a.name < b.name), "ordered by node id");
        for switch in &switches {
            assert!(switch.live && switch.port_count > 0 && switch.colors > 0, "{switch:?}");
            assert_ne!(switch.table_kind(), v1::TableKind::Unspecified, "{switch:?}");
        }
        switches
    }

    async fn entries_are_kept(&self, switch: &v1::Switch) {
        let written = [entry(switch, 0, &[2]), entry(switch, switch.colors - 1, &[1, 2])];
        self.writes(1, switch, &written).await;
        assert_eq!(self.table(switch).await.entries, written, "what was written is read back");
        let now = [entry(switch, 0, &[3]), entry(switch, switch.colors - 1, &[])];
        self.writes(2, switch, &now).await;
        assert_eq!(self.table(switch).await.entries, now[..1], "an empty entry is removed");
        self.writes(3, switch, &now).await;
        let table = self.table(switch).await;
        assert_eq!(table.entries, now[..1], "to write again changes nothing");
        assert_eq!(table.fence.unwrap_or_default().term, self.term);
    }

    /// A switch takes all of its part or nothing, and the answer says which.
    async fn a_batch_holds_or_is_refused_switch_by_switch(
        &self,
        good: &v1::Switch,
        bad: &v1::Switch,
    ) {
        let before = self.table(bad).await.entries;
        let (fits, beyond) = (entry(good, 1, &[2]), entry(bad, bad.colors, &[1]));
        let writes = vec![
            part(&bad.name, vec![entry(bad, 1, &[1]), beyond]),
            part(&good.name, vec![fits.clone()]),
            part("nowhere", vec![]),
        ];
        let answer = self.write(4, writes).await.expect("the agent answers");
        assert_eq!(answer.written_entries, 1);
        let mut refused: Vec<_> =
            answer.refusals.iter().map(|one| (&*one.switch_name, &*one.reason)).collect();
        refused.sort_unstable();
        let mut expected = [(&*bad.name, "BAD_ENTRY"), ("nowhere", "UNKNOWN_SWITCH")];
        expected.sort_unstable();
        assert_eq!(refused, expected);
        assert_eq!(self.table(bad).await.entries, before, "nothing of a refused part is held");
        assert!(self.table(good).await.entries.contains(&fits));
    }

    async fn older_writers_change_nothing(&self, switch: &v1::Switch) {
        let before = self.table(switch).await;
        let writes = vec![part(&switch.name, vec![entry(switch, 2, &[1])])];
        let older = v1::Fence { term: self.term - 1, generation: 99 };
        let request = v1::WriteTablesRequest { fence: Some(older), writes };
        let refused = soon(self.agent.clone().write_tables(request)).await;
        let refused = refused.expect_err("an older term");
        assert!(Reason::StaleFence.is_of(&refused), "{refused}");
        assert_eq!(self.table(switch).await, before);
    }

    async fn counters_are_complete_or_refused(&self, switches: &[v1::Switch]) {
        let all = v1::ReadCountersRequest::default();
        let mut stream = match soon(self.agent.clone().read_counters(all)).await {
            Ok(answer) => answer.into_inner(),
            Err(refused) => {
                assert!(Reason::NoCounters.is_of(&refused), "{refused}");
                return;
            }
        };
        let mut counted = Vec::new();
        while let Some(message) = soon(stream.message()).await.expect("the agent answers") {
            let counters = message.counters.expect("every message has counters");
            assert!(counters.ports.is_sorted_by_key(|port| port.port), "{counters:?}");
            counted.push((counters.switch_name, counters.ports.len()));
        }
        let all = switches.iter().map(|one| (one.name.clone(), one.port_count as usize));
        assert_eq!(counted, all.collect::<Vec<_>>());
    }

    async fn wired_both_ways(&self, switches: &[v1::Switch]) -> (String, u32) {
        let mut link = None;
        for switch in switches {
            let ports = self.ports(&switch.name).await.expect("the agent answers");
            assert!(ports.iter().map(|port| port.port).eq(1..=switch.port_count));
            for port in ports.iter().filter(|port| port.peer_port != 0) {
                let there = self.ports(&port.peer).await.expect("the agent answers");
                let there = there.iter().find(|one| one.port == port.peer_port).expect("a port");
                assert_eq!((&there.peer, there.peer_port), (&switch.name, port.port));
                assert!(there.live && port.live, "{port:?}");
                link = Some((switch.name.clone(), port.port));
            }
        }
        link.expect("some switches are connected")
    }

    async fn write(
        &self,
        generation: u64,
        writes: Vec<v1::SwitchWrite>,
    ) -> Result<v1::WriteTablesResponse, Status> {
        let fence = Some(v1::Fence { term: self.term, generation });
        let request = v1::WriteTablesRequest { fence, writes };
        soon(self.agent.clone().write_tables(request)).await.map(tonic::Response::into_inner)
    }

    /// Writes a part that has to be taken.
    async fn writes(&self, generation: u64, switch: &v1::Switch, entries: &[v1::TableEntry]) {
        let writes = vec![part(&switch.name, entries.to_vec())];
        let answer = self.write(generation, writes).await.expect("the agent answers");
        assert_eq!(answer.refusals, [], "{switch:?}");
        assert_eq!(answer.written_entries, entries.len() as u64);
    }

    async fn table(&self, switch: &v1::Switch) -> v1::SwitchTable {
        let request = v1::ReadTablesRequest { switch_names: vec![switch.name.clone()] };
        let mut stream = soon(self.agent.clone().read_tables(request))
            .await
            .expect("the agent answers")
            .into_inner();
        soon(stream.message())
            .await
            .expect("the stream goes on")
            .expect("a table")
            .table
            .expect("every message has a table")
    }

    async fn ports(&self, switch: &str) -> Result<Vec<v1::PortStatus>, Status> {
        let request = v1::ListPortsRequest { switch_name: switch.to_owned() };
        Ok(soon(self.agent.clone().list_ports(request)).await?.into_inner().ports)
    }
}

/// An entry of the kind that the switch has; of port 1 if every port has a table.
fn entry(switch: &v1::Switch, color: u32, out_ports: &[u32]) -> v1::TableEntry {
    let in_port = u32::from(switch.table_kind() == v1::TableKind::PerPort);
    v1::TableEntry { in_port, color, out_ports: out_ports.to_vec() }
}

fn part(switch: &str, entries: Vec<v1::TableEntry>) -> v1::SwitchWrite {
    v1::SwitchWrite { switch_name: switch.to_owned(), entries }
}
