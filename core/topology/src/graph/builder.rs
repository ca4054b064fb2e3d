//! Builds a graph part by part, directly in its columns.

use std::collections::BTreeMap;

use thiserror::Error;

use super::endpoint_lookup::LazyLookup;
use super::names::{NameIndex, Names};
use super::{AdapterFacts, ENDPOINT, EndpointFacts, Graph, NONE, SwitchFacts};
use crate::ids::{AdapterId, EndpointId, PortId, SwitchId, dense};

/// A graph under construction.
#[derive(Clone, Debug, Default)]
pub struct GraphBuilder {
    first_port: Vec<u32>,
    switch_names: Names,
    switch_descriptions: Names,
    switch_facts: Vec<SwitchFacts>,
    port_switch: Vec<u32>,
    peers: Vec<u32>,
    port_speeds: Vec<u32>,
    first_endpoint: Vec<u32>,
    adapter_names: Names,
    adapter_descriptions: Names,
    adapter_facts: Vec<AdapterFacts>,
    endpoint_adapter: Vec<u32>,
    endpoint_facts: Vec<EndpointFacts>,
    attachments: Vec<u32>,
    endpoint_speeds: Vec<u32>,
    speeds: BTreeMap<String, u32>,
}

/// Reason why the parts do not make a graph.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BuildError {
    /// A second cable for one switch port.
    #[error("port {number} of {switch} is already connected")]
    PortTaken {
        /// Node id of the switch.
        switch: String,
        /// Physical number of the port.
        number: u8,
    },
    /// A second cable for one endpoint.
    #[error("port {number} of {adapter} is already connected")]
    EndpointTaken {
        /// Node id of the adapter.
        adapter: String,
        /// Number of the port on its adapter.
        number: u8,
    },
    /// Two nodes with one id.
    #[error("two nodes are called {name}")]
    DuplicateName {
        /// The duplicate node id.
        name: String,
    },
}

impl GraphBuilder {
    /// Creates a builder without parts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of switches added so far.
    #[must_use]
    pub fn switch_count(&self) -> u32 {
        dense(self.switch_facts.len())
    }

    /// Adds a switch with ports 1 to `ports`.
    pub fn add_switch(
        &mut self,
        name: &str,
        description: &str,
        ports: u8,
        facts: SwitchFacts,
    ) -> SwitchId {
        let id = dense(self.switch_facts.len());
        self.first_port.push(dense(self.peers.len()));
        self.switch_names.push(name);
        self.switch_descriptions.push(description);
        self.switch_facts.push(facts);
        let ports = self.peers.len() + usize::from(ports);
        assert!(ports < ENDPOINT as usize, "a graph has fewer than 2^31 switch ports");
        self.port_switch.resize(ports, id);
        self.peers.resize(ports, NONE);
        SwitchId(id)
    }

    /// Adds an adapter; endpoints added afterwards belong to it.
    pub fn add_adapter(&mut self, name: &str, description: &str, facts: AdapterFacts) -> AdapterId {
        let id = dense(self.adapter_facts.len());
        self.first_endpoint.push(dense(self.attachments.len()));
        self.adapter_names.push(name);
        self.adapter_descriptions.push(description);
        self.adapter_facts.push(facts);
        AdapterId(id)
    }

    /// Adds an endpoint to the latest adapter, in ascending order of port numbers.
    ///
    /// # Panics
    ///
    /// If no adapter was added before: the caller's mistake.
    pub fn add_endpoint(&mut self, facts: EndpointFacts) -> EndpointId {
        let adapter = self.adapter_facts.len().checked_sub(1).expect("an adapter comes first");
        let id = dense(self.attachments.len());
        assert!(id < !ENDPOINT, "a graph has fewer than 2^31 endpoints");
        self.endpoint_adapter.push(dense(adapter));
        self.endpoint_facts.push(facts);
        self.attachments.push(NONE);
        EndpointId(id)
    }

    /// Returns the port of a switch with a physical number, if it has one.
    #[must_use]
    pub fn port(&self, switch: SwitchId, number: u8) -> Option<PortId> {
        let port = self.first_port[switch.index()] + u32::from(number.checked_sub(1)?);
        (self.port_switch.get(port as usize) == Some(&switch.0)).then_some(PortId(port))
    }

    /// Connects two switch ports, which may belong to one switch or even be one port.
    ///
    /// # Errors
    ///
    /// [`BuildError::PortTaken`] if one of them has a cable; nothing is changed.
    pub fn link(&mut self, a: PortId, b: PortId) -> Result<(), BuildError> {
        self.check_free(a)?;
        self.check_free(b)?;
        self.peers[a.index()] = b.0;
        self.peers[b.index()] = a.0;
        Ok(())
    }

    /// Connects an endpoint to a switch port.
    ///
    /// # Errors
    ///
    /// [`BuildError::PortTaken`] or [`BuildError::EndpointTaken`] if one of
    /// them has a cable; nothing is changed.
    pub fn attach(&mut self, endpoint: EndpointId, port: PortId) -> Result<(), BuildError> {
        self.check_free(port)?;
        if self.attachments[endpoint.index()] != NONE {
            let adapter = self.endpoint_adapter[endpoint.index()] as usize;
            return Err(BuildError::EndpointTaken {
                adapter: self.adapter_names.get(adapter).to_owned(),
                number: self.endpoint_facts[endpoint.index()].number,
            });
        }
        self.peers[port.index()] = endpoint.0 | ENDPOINT;
        self.attachments[endpoint.index()] = port.0;
        Ok(())
    }

    /// Sets width and speed as the switch reports them.
    pub fn set_port_speed(&mut self, port: PortId, speed: &str) {
        let speed = self.intern(speed);
        if self.port_speeds.len() <= port.index() {
            self.port_speeds.resize(self.peers.len(), 0);
        }
        self.port_speeds[port.index()] = speed;
    }

    /// Sets width and speed as the adapter reports them.
    pub fn set_endpoint_speed(&mut self, endpoint: EndpointId, speed: &str) {
        let speed = self.intern(speed);
        if self.endpoint_speeds.len() <= endpoint.index() {
            self.endpoint_speeds.resize(self.attachments.len(), 0);
        }
        self.endpoint_speeds[endpoint.index()] = speed;
    }

    /// Finishes the graph.
    ///
    /// # Errors
    ///
    /// [`BuildError::DuplicateName`] if two switches or two adapters have one id.
    pub fn build(mut self) -> Result<Graph, BuildError> {
        self.first_port.push(dense(self.peers.len()));
        self.first_endpoint.push(dense(self.attachments.len()));
        let find_switch = NameIndex::new(&self.switch_names);
        check_unique(&find_switch, &self.switch_names)?;
        check_unique(&NameIndex::new(&self.adapter_names), &self.adapter_names)?;
        let find_description = NameIndex::new(&self.switch_descriptions);
        let (endpoint_names, find_endpoint) = self.name_endpoints();
        let speeds = self.order_speeds();
        for names in [
            &mut self.switch_names,
            &mut self.switch_descriptions,
            &mut self.adapter_names,
            &mut self.adapter_descriptions,
        ] {
            names.shrink();
        }
        Ok(Graph {
            first_port: self.first_port,
            switch_names: self.switch_names,
            switch_descriptions: self.switch_descriptions,
            switch_facts: self.switch_facts,
            port_switch: self.port_switch,
            peers: self.peers,
            port_speeds: self.port_speeds,
            first_endpoint: self.first_endpoint,
            adapter_names: self.adapter_names,
            adapter_descriptions: self.adapter_descriptions,
            adapter_facts: self.adapter_facts,
            endpoint_names,
            endpoint_adapter: self.endpoint_adapter,
            endpoint_facts: self.endpoint_facts,
            attachments: self.attachments,
            endpoint_speeds: self.endpoint_speeds,
            speeds,
            find_switch,
            find_description,
            find_endpoint,
            endpoint_lookup: LazyLookup::default(),
        })
    }

    fn check_free(&self, port: PortId) -> Result<(), BuildError> {
        if self.peers[port.index()] == NONE {
            return Ok(());
        }
        let switch = self.port_switch[port.index()] as usize;
        Err(BuildError::PortTaken {
            switch: self.switch_names.get(switch).to_owned(),
            number: u8::try_from(port.0 - self.first_port[switch] + 1)
                .expect("a switch has at most 255 ports"),
        })
    }

    /// Returns the number of a speed text; 0 is the unknown one.
    fn intern(&mut self, speed: &str) -> u32 {
        if speed.is_empty() {
            return 0;
        }
        if let Some(number) = self.speeds.get(speed) {
            return *number;
        }
        let number = dense(self.speeds.len() + 1);
        self.speeds.insert(speed.to_owned(), number);
        number
    }

    /// Renumbers the speeds by their text and drops those of ports without a cable, so that equal
    /// graphs have equal columns.
    fn order_speeds(&mut self) -> Names {
        self.port_speeds.resize(self.peers.len(), 0);
        self.endpoint_speeds.resize(self.attachments.len(), 0);
        let mut used = vec![false; self.speeds.len() + 1];
        let ports = self.port_speeds.iter_mut().zip(&self.peers);
        let endpoints = self.endpoint_speeds.iter_mut().zip(&self.attachments);
        for (speed, cable) in ports.chain(endpoints) {
            if *cable == NONE {
                *speed = 0;
            }
            used[*speed as usize] = true;
        }
        let mut names = Names::default();
        names.push("");
        let mut renumbered = vec![0; used.len()];
        for (text, number) in self.speeds.iter().filter(|(_, number)| used[**number as usize]) {
            renumbered[*number as usize] = dense(names.len());
            names.push(text);
        }
        for speed in self.port_speeds.iter_mut().chain(&mut self.endpoint_speeds) {
            *speed = renumbered[*speed as usize];
        }
        names
    }

    fn name_endpoints(&self) -> (Names, NameIndex) {
        let by_text = NameIndex::new(&self.adapter_descriptions);
        let mut by_id = vec![false; self.adapter_facts.len()];
        for adapter in by_text.duplicates(&self.adapter_descriptions) {
            by_id[adapter as usize] = true;
        }
        let names = self.endpoint_names(&by_id);
        let index = NameIndex::new(&names);
        // A description may imitate a node id or end in "/P1".
        let clashes: Vec<u32> = index.duplicates(&names).collect();
        if clashes.is_empty() {
            return (names, index);
        }
        for endpoint in clashes {
            by_id[self.endpoint_adapter[endpoint as usize] as usize] = true;
        }
        let names = self.endpoint_names(&by_id);
        let index = NameIndex::new(&names);
        (names, index)
    }

    fn endpoint_names(&self, by_id: &[bool]) -> Names {
        let mut names = Names::default();
        for (adapter, by_id) in by_id.iter().enumerate() {
            let text = self.adapter_descriptions.get(adapter);
            let name =
                if *by_id || text.is_empty() { self.adapter_names.get(adapter) } else { text };
            let endpoints = self.first_endpoint[adapter]..self.first_endpoint[adapter + 1];
            let several = endpoints.len() > 1;
            for endpoint in endpoints {
                if several {
                    let number = self.endpoint_facts[endpoint as usize].number;
                    names.push(&format!("{name}/P{number}"));
                } else {
                    names.push(name);
                }
            }
        }
        names.shrink();
        names
    }
}

fn check_unique(index: &NameIndex, names: &Names) -> Result<(), BuildError> {
    match index.duplicates(names).next() {
        Some(double) => {
            Err(BuildError::DuplicateName { name: names.get(double as usize).to_owned() })
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adapters(cards: &[(&str, &str, u8)]) -> Vec<String> {
        let mut builder = GraphBuilder::new();
        for (id, text, ports) in cards {
            builder.add_adapter(id, text, AdapterFacts::default());
            for number in 1..=*ports {
                builder.add_endpoint(EndpointFacts { number, ..EndpointFacts::default() });
            }
        }
        let graph = builder.build().unwrap();
        graph.endpoints().map(|endpoint| graph.endpoint_name(endpoint).to_owned()).collect()
    }

    #[test]
    fn endpoints_are_called_after_a_unique_description_else_the_node_id() {
        let names = adapters(&[("H-1", "a", 1), ("H-2", "twin", 1), ("H-3", "twin", 1)]);
        assert_eq!(names, ["a", "H-2", "H-3"]);
    }

    #[test]
    fn endpoints_of_one_adapter_are_told_apart_by_port() {
        assert_eq!(adapters(&[("H-1", "a", 2), ("H-2", "", 1)]), ["a/P1", "a/P2", "H-2"]);
    }

    #[test]
    fn a_description_that_imitates_another_name_is_not_used() {
        let names = adapters(&[("H-1", "a", 2), ("H-2", "a/P1", 1)]);
        assert_eq!(names, ["H-1/P1", "H-1/P2", "H-2"]);
    }

    #[test]
    fn a_second_cable_is_refused_and_changes_nothing() {
        let mut builder = GraphBuilder::new();
        let switch = builder.add_switch("S-1", "", 3, SwitchFacts::default());
        let [a, b, c] = [1, 2, 3].map(|number| builder.port(switch, number).unwrap());
        builder.link(a, b).unwrap();
        assert_eq!(
            builder.link(c, b),
            Err(BuildError::PortTaken { switch: "S-1".into(), number: 2 })
        );
        builder.link(c, c).unwrap();
    }

    #[test]
    fn two_nodes_with_one_id_are_refused() {
        let mut builder = GraphBuilder::new();
        builder.add_switch("S-1", "", 3, SwitchFacts::default());
        builder.add_switch("S-1", "", 3, SwitchFacts::default());
        assert_eq!(builder.build(), Err(BuildError::DuplicateName { name: "S-1".into() }));
    }
}
