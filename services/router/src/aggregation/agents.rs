//! What the switch agents' places hold of the trees of collectives, and writes to them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_proto::v1;
use fabricast_proto::v1::switch_agent_service_client::SwitchAgentServiceClient;
use fabricast_proto::v1::switch_aggregation_service_client::SwitchAggregationServiceClient;
use fabricast_proto::v1::{aggregation_node, aggregation_place};
use fabricast_rpc::{Peer, Reason, reason_of};
use fabricast_topology::Graph;
use prost::Message;
use tonic::Status;

use super::{Entries, Key, MESSAGE_LIMIT};

/// Places in one call.
const PLACES_PER_CALL: usize = 2_000;

/// Where entries lie.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// A switch.
    Switch(String),
    /// The adapter of an endpoint.
    Adapter(String),
}

/// How a round of writes went.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Something was not written; try again.
    pub(super) incomplete: Option<String>,
    /// A newer route service has written: stand down.
    pub(super) deposed: bool,
}

/// The switch agents and what their places are known to hold.
#[derive(Debug)]
pub(super) struct Agents {
    graph: Arc<Graph>,
    agents: Vec<Agent>,
    /// By switch: its agent's number.
    owner: BTreeMap<String, usize>,
    held: Entries,
    generation: u64,
}

#[derive(Debug)]
struct Agent {
    peer: Peer,
    /// Whether `held` is what its places hold.
    known: bool,
}

impl Agents {
    pub(super) fn new(graph: Arc<Graph>, peers: Vec<Peer>) -> Self {
        let agents = peers.into_iter().map(|peer| Agent { peer, known: false }).collect();
        Self { graph, agents, owner: BTreeMap::new(), held: Entries::new(), generation: 0 }
    }

    /// Doubts everything: every agent is read back before the next write.
    pub(super) fn doubt_all(&mut self) {
        self.agents.iter_mut().for_each(|agent| agent.known = false);
    }

    /// Whether all is known, and nothing is held.
    pub(super) fn are_idle(&self) -> bool {
        self.held.is_empty() && self.agents.iter().all(|agent| agent.known)
    }

    /// Whether an entry is held where it belongs.
    pub(super) fn holds(&self, entry: &v1::AggregationEntry) -> bool {
        let place = place_of(entry.holder.as_ref());
        let held = place.and_then(|place| self.held.get(&place));
        held.is_some_and(|held| held.get(&key(entry)) == Some(entry))
    }

    /// Reads back what is in doubt, and writes what differs from what is desired.
    pub(super) async fn write(&mut self, term: u64, desired: &Entries) -> Outcome {
        let mut outcome = Outcome::default();
        for index in 0..self.agents.len() {
            if !self.agents[index].known {
                match self.read_agent(index).await {
                    Ok(()) => self.agents[index].known = true,
                    Err(status) => outcome.incomplete = Some(self.complaint(index, &status)),
                }
            }
        }
        let mut by_agent: BTreeMap<usize, Vec<v1::AggregationWrite>> = BTreeMap::new();
        for (place, write) in differences(&self.held, desired) {
            match self.agent_of(&place) {
                // An agent in doubt has said so already.
                Some(index) if !self.agents[index].known => {}
                Some(index) => by_agent.entry(index).or_default().push(write),
                None => {
                    outcome.incomplete = Some(format!("no switch agent has {}", text(&place)));
                }
            }
        }
        for (index, writes) in by_agent {
            for part in writes.chunks(PLACES_PER_CALL) {
                self.generation += 1;
                let fence = v1::Fence { term, generation: self.generation };
                if let Err(status) = self.write_part(index, fence, part, &mut outcome).await {
                    // The write may or may not have happened.
                    self.agents[index].known = false;
                    outcome.incomplete = Some(self.complaint(index, &status));
                    outcome.deposed |= is_stale(reason_of(&status).as_deref());
                    break;
                }
            }
        }
        outcome
    }

    async fn write_part(
        &mut self,
        index: usize,
        fence: v1::Fence,
        writes: &[v1::AggregationWrite],
        outcome: &mut Outcome,
    ) -> Result<(), Status> {
        let request = v1::WriteAggregationRequest { fence: Some(fence), writes: writes.to_vec() };
        let answer = self.client(index).write_aggregation(request).await?.into_inner();
        let mut refused = BTreeSet::new();
        for refusal in answer.refusals {
            let Some(place) = read_place(refusal.place.as_ref()) else { continue };
            outcome.deposed |= is_stale(Some(&refusal.reason));
            if refusal.reason == Reason::SwitchDown.text() {
                // It has lost what it held, and comes back empty.
                self.held.remove(&place);
            } else {
                self.agents[index].known = false;
            }
            let only_takes_away = |write: &&v1::AggregationWrite| {
                write.added.is_empty() && read_place(write.place.as_ref()).as_ref() == Some(&place)
            };
            let is_down = refusal.reason == Reason::SwitchDown.text();
            if !(is_down && writes.iter().any(|write| only_takes_away(&write))) {
                outcome.incomplete = Some(format!("{}: {}", text(&place), refusal.message));
            }
            refused.insert(place);
        }
        for write in writes {
            let Some(place) = read_place(write.place.as_ref()) else { continue };
            if !refused.contains(&place) {
                self.record(place, write);
            }
        }
        Ok(())
    }

    /// Notes a write that was confirmed.
    fn record(&mut self, place: Place, write: &v1::AggregationWrite) {
        let held = self.held.entry(place.clone()).or_default();
        for gone in &write.removed {
            held.remove(&(gone.tree, node_key(gone.holder.as_ref())));
        }
        for entry in &write.added {
            held.insert(key(entry), entry.clone());
        }
        if held.is_empty() {
            self.held.remove(&place);
        }
    }

    async fn read_agent(&mut self, index: usize) -> Result<(), Status> {
        let mut agent = SwitchAgentServiceClient::new(self.agents[index].peer.channel())
            .max_decoding_message_size(MESSAGE_LIMIT);
        let listed = agent.list_switches(v1::ListSwitchesRequest {}).await?.into_inner();
        for switch in listed.switches {
            self.owner.insert(switch.name, index);
        }
        let mut tables =
            self.client(index).read_aggregation(v1::ReadAggregationRequest {}).await?.into_inner();
        let mut read = Entries::new();
        while let Some(part) = tables.message().await? {
            let table = part.table.unwrap_or_default();
            let Some(place) = read_place(table.place.as_ref()) else { continue };
            if !table.entries.is_empty() {
                let entries = table.entries.into_iter().map(|entry| (key(&entry), entry));
                read.insert(place, entries.collect());
            }
        }
        // What says nothing is down or empty.
        let all = std::mem::take(&mut self.held);
        self.held =
            all.into_iter().filter(|(place, _)| self.agent_of(place) != Some(index)).collect();
        self.held.extend(read);
        Ok(())
    }

    fn agent_of(&self, place: &Place) -> Option<usize> {
        let switch = match place {
            Place::Switch(name) => name.as_str(),
            Place::Adapter(name) => {
                let port = self.graph.attachment(self.graph.find_endpoint(name)?)?;
                self.graph.switch_name(self.graph.switch_of(port))
            }
        };
        self.owner.get(switch).copied()
    }

    fn client(&self, index: usize) -> SwitchAggregationServiceClient<fabricast_rpc::Channel> {
        SwitchAggregationServiceClient::new(self.agents[index].peer.channel())
            .max_decoding_message_size(MESSAGE_LIMIT)
            .max_encoding_message_size(MESSAGE_LIMIT)
    }

    fn complaint(&self, index: usize, status: &Status) -> String {
        format!("switch agent {}: {}", self.agents[index].peer.address(), status.message())
    }
}

/// What has to be written where.
fn differences(held: &Entries, desired: &Entries) -> Vec<(Place, v1::AggregationWrite)> {
    let places: BTreeSet<&Place> = held.keys().chain(desired.keys()).collect();
    let nothing = BTreeMap::<Key, v1::AggregationEntry>::new();
    let mut writes = Vec::new();
    for place in places {
        let has = held.get(place).unwrap_or(&nothing);
        let ought = desired.get(place).unwrap_or(&nothing);
        let removed: Vec<v1::AggregationKey> = has
            .iter()
            .filter(|(key, entry)| ought.get(*key) != Some(*entry))
            .map(|((tree, _), entry)| v1::AggregationKey {
                tree: *tree,
                holder: entry.holder.clone(),
            })
            .collect();
        let added: Vec<v1::AggregationEntry> = ought
            .iter()
            .filter(|(key, entry)| has.get(*key) != Some(*entry))
            .map(|(_, entry)| entry.clone())
            .collect();
        if !(removed.is_empty() && added.is_empty()) {
            let place_wire = Some(place_to_wire(place));
            writes
                .push((place.clone(), v1::AggregationWrite { place: place_wire, removed, added }));
        }
    }
    writes
}

/// Where a node is.
pub(super) fn place_of(node: Option<&v1::AggregationNode>) -> Option<Place> {
    match node?.kind.as_ref()? {
        aggregation_node::Kind::SwitchName(name) => Some(Place::Switch(name.clone())),
        aggregation_node::Kind::Process(process) => Some(Place::Adapter(process.endpoint.clone())),
    }
}

/// The key of an entry at its place.
pub(super) fn key(entry: &v1::AggregationEntry) -> Key {
    (entry.tree, node_key(entry.holder.as_ref()))
}

fn node_key(node: Option<&v1::AggregationNode>) -> Vec<u8> {
    node.map(Message::encode_to_vec).unwrap_or_default()
}

fn read_place(place: Option<&v1::AggregationPlace>) -> Option<Place> {
    match place?.kind.as_ref()? {
        aggregation_place::Kind::SwitchName(name) => Some(Place::Switch(name.clone())),
        aggregation_place::Kind::Endpoint(name) => Some(Place::Adapter(name.clone())),
    }
}

fn place_to_wire(place: &Place) -> v1::AggregationPlace {
    let kind = match place.clone() {
        Place::Switch(name) => aggregation_place::Kind::SwitchName(name),
        Place::Adapter(name) => aggregation_place::Kind::Endpoint(name),
    };
    v1::AggregationPlace { kind: Some(kind) }
}

fn text(place: &Place) -> String {
    match place {
        Place::Switch(name) => format!("switch {name}"),
        Place::Adapter(name) => format!("adapter {name}"),
    }
}

fn is_stale(reason: Option<&str>) -> bool {
    reason.is_some_and(|reason| reason == Reason::StaleFence.text())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch(name: &str) -> Option<v1::AggregationNode> {
        let kind = Some(aggregation_node::Kind::SwitchName(name.to_owned()));
        Some(v1::AggregationNode { kind })
    }

    fn entry(tree: u32, at: &str, child: &str) -> v1::AggregationEntry {
        let children = switch(child).into_iter().collect();
        v1::AggregationEntry { tree, holder: switch(at), parent: None, children }
    }

    fn entries(all: &[v1::AggregationEntry]) -> Entries {
        let mut entries = Entries::new();
        for one in all {
            let place = place_of(one.holder.as_ref()).expect("it has a holder");
            entries.entry(place).or_default().insert(key(one), one.clone());
        }
        entries
    }

    #[test]
    fn only_what_differs_is_written_and_what_goes_goes_first() {
        let held = entries(&[entry(1, "a", "x"), entry(2, "a", "x"), entry(1, "b", "x")]);
        let desired = entries(&[entry(1, "a", "x"), entry(3, "a", "x"), entry(1, "b", "y")]);
        let writes = differences(&held, &desired);
        let numbers: Vec<(Vec<u32>, Vec<u32>)> = writes
            .iter()
            .map(|(_, write)| {
                let removed = write.removed.iter().map(|key| key.tree).collect();
                (removed, write.added.iter().map(|entry| entry.tree).collect())
            })
            .collect();
        // Another entry of the same tree takes the place of the old one.
        assert_eq!(numbers, [(vec![2], vec![3]), (vec![1], vec![1])]);
        assert_eq!(differences(&desired, &desired), []);
    }

    #[test]
    fn what_was_confirmed_is_known() {
        let graph = fabricast_topology::spec::TopologySpec::parse(
            "kind = 'leaf-spine'\nleaves = 1\nspines = 1\nendpoints_per_leaf = 1\n",
        );
        let graph = graph.and_then(|spec| spec.generate()).expect("a correct description");
        let mut agents = Agents::new(Arc::new(graph), Vec::new());
        let desired = entries(&[entry(1, "a", "x")]);
        assert!(agents.are_idle());
        for (place, write) in differences(&Entries::new(), &desired) {
            agents.record(place, &write);
        }
        assert!(agents.holds(&entry(1, "a", "x")) && !agents.holds(&entry(1, "a", "y")));
        for (place, write) in differences(&desired, &Entries::new()) {
            agents.record(place, &write);
        }
        assert!(agents.are_idle());
    }
}
