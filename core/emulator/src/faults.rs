//! Failing and healing parts of the fabric.

use fabricast_topology::{EndpointId, Faults, Peer, PortId, SwitchId};
use thiserror::Error;

use crate::aggregation::AggregationPlace;
use crate::emulator::Emulator;
use crate::events::{Event, EventPage, EventsLost};
use crate::packet::PortCounters;

/// A part that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    /// A switch, with everything it holds.
    Switch(SwitchId),
    /// The link at a switch port, both ways.
    Link(PortId),
    /// An endpoint, by name.
    Endpoint(EndpointId),
}

/// The graph has no such part; the caller is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the fabric has no {component:?}")]
pub struct UnknownComponent {
    /// The part that was named.
    pub component: Component,
}

impl Emulator {
    /// Fails a part; `false` if it had failed already.
    ///
    /// A switch that fails loses its tables, fences and counters, as in a power cycle: after
    /// healing it is empty and accepts any fence. Operations of which the switch or endpoint held
    /// state fail.
    ///
    /// # Errors
    ///
    /// [`UnknownComponent`]; nothing is changed.
    pub fn fail(&mut self, component: Component) -> Result<bool, UnknownComponent> {
        self.check(component)?;
        let changed = match component {
            Component::Switch(switch) => self.faults.fail_switch(switch),
            Component::Link(port) => self.faults.fail_link(&self.graph, port),
            Component::Endpoint(endpoint) => self.faults.fail_endpoint(endpoint),
        };
        if let (Component::Switch(switch), true) = (component, changed) {
            self.tables[switch.index()].clear();
            for port in self.graph.ports(switch) {
                self.counters[port.index()] = PortCounters::default();
            }
            self.events.push(Event::Switch { switch, up: false });
        }
        self.update_ports(component);
        match component {
            Component::Switch(switch) if changed => {
                self.aggregation.lose_place(AggregationPlace::Switch(switch));
            }
            Component::Endpoint(endpoint) if changed => {
                self.aggregation.lose_place(AggregationPlace::Adapter(endpoint));
            }
            Component::Switch(_) | Component::Endpoint(_) | Component::Link(_) => {}
        }
        Ok(changed)
    }

    /// Heals a part; `false` if it had not failed. Links and endpoints that failed by themselves
    /// stay failed when a switch heals.
    ///
    /// # Errors
    ///
    /// [`UnknownComponent`]; nothing is changed.
    pub fn heal(&mut self, component: Component) -> Result<bool, UnknownComponent> {
        self.check(component)?;
        let changed = match component {
            Component::Switch(switch) => self.faults.heal_switch(switch),
            Component::Link(port) => self.faults.heal_link(&self.graph, port),
            Component::Endpoint(endpoint) => self.faults.heal_endpoint(endpoint),
        };
        if let (Component::Switch(switch), true) = (component, changed) {
            self.events.push(Event::Switch { switch, up: true });
        }
        self.update_ports(component);
        Ok(changed)
    }

    /// Returns the failed parts.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// True if packets pass a switch port: its switch, its link and the part at the other end are
    /// alive.
    #[must_use]
    pub fn port_is_up(&self, port: PortId) -> bool {
        self.live.get(port.index()).copied().unwrap_or(false)
    }

    /// Returns the events after `cursor` (0 at first); the last 65 536 are kept.
    ///
    /// # Errors
    ///
    /// [`EventsLost`] if the caller fell behind: read [`Emulator::port_is_up`] of every port, then
    /// go on from the cursor in the error.
    pub fn events_since(&self, cursor: u64) -> Result<EventPage, EventsLost> {
        self.events.since(cursor)
    }

    fn check(&self, component: Component) -> Result<(), UnknownComponent> {
        let known = match component {
            Component::Switch(switch) => switch.index() < self.graph.switch_count(),
            Component::Link(port) => port.index() < self.graph.port_count(),
            Component::Endpoint(endpoint) => endpoint.index() < self.graph.endpoint_count(),
        };
        if known { Ok(()) } else { Err(UnknownComponent { component }) }
    }

    /// Updates the state of the ports that depend on a part.
    fn update_ports(&mut self, component: Component) {
        match component {
            Component::Switch(switch) => {
                for port in self.graph.ports(switch) {
                    self.update_link(port);
                }
            }
            Component::Link(port) => self.update_link(port),
            Component::Endpoint(endpoint) => {
                if let Some(port) = self.graph.attachment(endpoint) {
                    self.update_link(port);
                }
            }
        }
    }

    fn update_link(&mut self, port: PortId) {
        self.update_port(port);
        if let Peer::Switch(other) = self.graph.peer(port) {
            self.update_port(other);
        }
    }

    fn update_port(&mut self, port: PortId) {
        let up = self.faults.port_is_live(&self.graph, port);
        if std::mem::replace(&mut self.live[port.index()], up) != up {
            self.aggregation.forget_routes();
            self.events.push(Event::Port { port, up });
        }
    }
}
