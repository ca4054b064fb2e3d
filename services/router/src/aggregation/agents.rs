//! Reads and writes the aggregation entries of switches and adapters through the switch agents.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use fabricast_proto::v1;
use fabricast_proto::v1::switch_agent_service_client::SwitchAgentServiceClient;
use fabricast_proto::v1::switch_aggregation_service_client::SwitchAggregationServiceClient;
use fabricast_proto::v1::{aggregation_node, aggregation_place};
use fabricast_reconciler::{Outcome, ProgramError};
use fabricast_rpc::{Peer, Reason, RpcError};
use fabricast_topology::Graph;
use prost::Message;

use super::{Entries, Key, MESSAGE_LIMIT};
use crate::wire::{call_error, error_kind};

/// Most places in one call.
const PLACES_PER_CALL: usize = 2_000;

/// Holder of aggregation entries.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// A switch, by its node id.
    Switch(String),
    /// An adapter, by its endpoint.
    Adapter(String),
}

/// The switch agents, and what their places are known to hold.
#[derive(Debug)]
pub(super) struct Agents {
    graph: Arc<Graph>,
    agents: Vec<Agent>,
    /// Index of the agent of each switch, by node id.
    owner: BTreeMap<String, usize>,
    held: Entries,
    generation: u64,
}

#[derive(Debug)]
struct Agent {
    peer: Peer,
    /// True if `held` is what its places hold.
    is_known: bool,
}

impl Agents {
    pub(super) fn new(graph: Arc<Graph>, peers: Vec<Peer>) -> Self {
        let agents = peers.into_iter().map(|peer| Agent { peer, is_known: false }).collect();
        Self { graph, agents, owner: BTreeMap::new(), held: Entries::new(), generation: 0 }
    }

    /// Puts every agent in doubt: it is read back before the next write.
    pub(super) fn doubt_all(&mut self) {
        self.agents.iter_mut().for_each(|agent| agent.is_known = false);
    }

    /// True if all agents are known, and no place holds an entry.
    pub(super) fn are_idle(&self) -> bool {
        self.held.is_empty() && self.agents.iter().all(|agent| agent.is_known)
    }

    /// True if the place of an entry holds it.
    pub(super) fn holds(&self, entry: &v1::AggregationEntry) -> bool {
        let place = place_of(entry.holder.as_ref());
        let held = place.and_then(|place| self.held.get(&place));
        held.is_some_and(|held| held.get(&key(entry)) == Some(entry))
    }

    /// Reads agents in doubt back, and writes the difference to the desired entries.
    pub(super) async fn write(&mut self, term: u64, desired: &Entries) -> Outcome {
        let mut outcome = Outcome::default();
        for index in 0..self.agents.len() {
            if !self.agents[index].is_known {
                match self.read_agent(index).await {
                    Ok(()) => self.agents[index].is_known = true,
                    Err(error) => {
                        outcome.call_failed(self.agents[index].peer.address(), &call_error(error));
                    }
                }
            }
        }
        let mut by_agent: BTreeMap<usize, Vec<v1::AggregationWrite>> = BTreeMap::new();
        for (place, write) in differences(&self.held, desired) {
            match self.agent_of(&place) {
                // The reading of this agent failed, which is an error already.
                Some(index) if !self.agents[index].is_known => {}
                Some(index) => by_agent.entry(index).or_default().push(write),
                None => {
                    outcome.incomplete = Some(ProgramError::NoAgent { place: place.to_string() });
                }
            }
        }
        for (index, writes) in by_agent {
            for part in writes.chunks(PLACES_PER_CALL) {
                self.generation += 1;
                let fence = v1::Fence { term, generation: self.generation };
                if let Err(error) = self.write_part(index, fence, part, &mut outcome).await {
                    // The places may or may not have taken the write.
                    self.agents[index].is_known = false;
                    outcome.call_failed(self.agents[index].peer.address(), &call_error(error));
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
    ) -> Result<(), RpcError> {
        let request = v1::WriteAggregationRequest { fence: Some(fence), writes: writes.to_vec() };
        let answer = self.client(index).write_aggregation(request).await?.into_inner();
        let mut refused = BTreeSet::new();
        for refusal in answer.refusals {
            let Some(place) = read_place(refusal.place.as_ref()) else { continue };
            outcome.note_kind(error_kind(Some(&refusal.reason)));
            let is_down = refusal.reason == Reason::SwitchDown.text();
            if is_down {
                // It has lost its entries, and comes back empty.
                self.held.remove(&place);
            } else {
                self.agents[index].is_known = false;
            }
            let only_removes = |write: &v1::AggregationWrite| {
                write.added.is_empty() && read_place(write.place.as_ref()).as_ref() == Some(&place)
            };
            if !(is_down && writes.iter().any(only_removes)) {
                let (place, message) = (place.to_string(), refusal.message);
                outcome.incomplete = Some(ProgramError::Refused { place, message });
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

    /// Applies a confirmed write to what is held.
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

    async fn read_agent(&mut self, index: usize) -> Result<(), RpcError> {
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
        // A place that is missing in the answer is down or empty.
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
}

/// Writes that make the held entries the desired ones, by place.
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
            let on_wire = Some(place_to_wire(place));
            let write = v1::AggregationWrite { place: on_wire, removed, added };
            writes.push((place.clone(), write));
        }
    }
    writes
}

/// Place of a node of a tree.
pub(super) fn place_of(node: Option<&v1::AggregationNode>) -> Option<Place> {
    match node?.kind.as_ref()? {
        aggregation_node::Kind::SwitchName(name) => Some(Place::Switch(name.clone())),
        aggregation_node::Kind::Process(process) => Some(Place::Adapter(process.endpoint.clone())),
    }
}

/// Key of an entry at its place.
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

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch(name) => write!(formatter, "switch {name}"),
            Self::Adapter(name) => write!(formatter, "adapter {name}"),
        }
    }
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
    fn only_differences_are_written_and_removals_come_first() {
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
    fn a_confirmed_write_changes_what_is_held() {
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
