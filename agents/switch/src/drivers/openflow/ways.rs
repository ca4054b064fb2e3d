//! The trees that packets take, of the two that a group has with fault tolerance.
//!
//! A leaf switch sees the states of its own ports: its failover groups leave a tree whose first
//! cable is cut without asking anybody. It does not see what breaks further on. The agent does, by
//! the ports of the other switches: it walks both trees through the tables as they were confirmed,
//! and has the leaf take the tree that reaches more endpoints. Nothing moves back when a cable is
//! mended, because a whole tree is as good as the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fabricast_openflow::{EntryKey, Found};
use fabricast_topology::{EndpointId, Graph, Peer, PortId, SwitchId};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::session::Session;
use super::switches::Switches;

/// Pause after a write, for those that come with it.
const BRIEF: Duration = Duration::from_millis(20);
/// Time without a change until trees count as complete.
const QUIET: Duration = Duration::from_secs(1);

/// Tables and cables of all switches at one moment.
pub(super) struct Trees {
    pub(super) fabric: Arc<Graph>,
    /// By switch; `None` where the table is not known.
    pub(super) tables: Vec<Option<Arc<Found>>>,
    /// Ports that are down.
    pub(super) down: BTreeSet<PortId>,
}

/// Endpoints at the other side of a port.
#[derive(Debug, Default, PartialEq, Eq)]
struct Reach {
    endpoints: BTreeSet<EndpointId>,
    is_cut: bool,
    /// A part of the tree is not known.
    has_unknown: bool,
}

impl Trees {
    /// Entries of a switch that are to take other ways than they do: the port to take first, or
    /// `None` for both.
    ///
    /// - `is_complete`: true if no write is under way. Only then may an entry lead up both trees,
    ///   where neither reaches all that the other reaches.
    pub(super) fn changes(
        &self,
        session: &Session,
        is_complete: bool,
    ) -> BTreeMap<EntryKey, Option<u8>> {
        let Some(switch) = self.fabric.find_switch(&session.name) else { return BTreeMap::new() };
        let Some(held) = &self.tables[switch.index()] else { return BTreeMap::new() };
        let (mut changes, mut known) = (BTreeMap::new(), BTreeMap::new());
        for (key, out) in &held.entries {
            let Some(ways) = session.mapping().ways(*key, *out) else { continue };
            let first = held.first_ways.get(key).copied();
            // The ports of a tree are the same whichever endpoint sends.
            let next = *known.entry((ways, key.color, first)).or_insert_with(|| {
                let reach = ways.map(|number| self.reach(switch, number, key.color));
                choose(first, ways, &reach, is_complete)
            });
            if next != first {
                changes.insert(*key, next);
            }
        }
        changes
    }

    /// Walks a tree from a port of a leaf switch.
    fn reach(&self, switch: SwitchId, number: u8, color: u16) -> Reach {
        let mut reach = Reach::default();
        let mut next: Vec<PortId> = self.fabric.port(switch, number).into_iter().collect();
        let mut met = BTreeSet::new();
        while let Some(port) = next.pop() {
            let far = match self.fabric.peer(port) {
                Peer::Switch(far) => far,
                Peer::Endpoint(endpoint) => {
                    reach.endpoints.insert(endpoint);
                    continue;
                }
                Peer::None => continue,
            };
            if self.down.contains(&port) || self.down.contains(&far) {
                reach.is_cut = true;
                continue;
            }
            let switch = self.fabric.switch_of(far);
            let Some(held) = &self.tables[switch.index()] else {
                reach.has_unknown = true;
                continue;
            };
            let key = EntryKey { in_port: self.fabric.port_number(far), color };
            if let Some(out) = held.entries.get(&key).filter(|_| met.insert(far)) {
                next.extend(out.iter().filter_map(|number| self.fabric.port(switch, number)));
            }
        }
        reach
    }
}

/// Way to take first of two, `None` for both.
fn choose(
    first: Option<u8>,
    [low, high]: [u8; 2],
    [by_low, by_high]: &[Reach; 2],
    is_complete: bool,
) -> Option<u8> {
    let present = first.or(Some(low));
    if by_low.has_unknown || by_high.has_unknown {
        return match (by_low.is_cut, by_high.is_cut) {
            (true, false) => Some(high),
            (false, true) => Some(low),
            (true, true) | (false, false) => present,
        };
    }
    let low_is_enough = by_low.endpoints.is_superset(&by_high.endpoints);
    let high_is_enough = by_high.endpoints.is_superset(&by_low.endpoints);
    match (low_is_enough, high_is_enough) {
        (true, true) => present,
        (true, false) => Some(low),
        (false, true) => Some(high),
        (false, false) if is_complete => None,
        (false, false) => first,
    }
}

/// Has all leaf switches take the better trees, whenever ports, connections or entries change.
pub(super) async fn follow(switches: Arc<Switches>, stop: CancellationToken) {
    let (mut changes, mut writes) = (switches.changes(), switches.writes());
    let (mut soon, mut quiet) = (None::<Instant>, Some(Instant::now() + QUIET));
    let until = async |time: Option<Instant>| match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    };
    loop {
        let is_complete = tokio::select! {
            () = stop.cancelled() => return,
            Ok(()) = changes.changed() => false,
            Ok(()) = writes.changed() => {
                let now = Instant::now();
                (soon, quiet) = (soon.or(Some(now + BRIEF)), Some(now + QUIET));
                continue;
            }
            () = until(soon) => false,
            () = until(quiet) => true,
        };
        soon = None;
        quiet = if is_complete { None } else { Some(Instant::now() + QUIET) };
        let trees = switches.trees();
        for session in switches.sessions() {
            if !trees.changes(&session, is_complete).is_empty() {
                let switches = Arc::clone(&switches);
                tokio::spawn(async move {
                    // Asked once more when nobody else writes to the switch.
                    let wanted = || switches.trees().changes(&session, is_complete);
                    session.follow_ways(wanted).await;
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(endpoints: &[u32], is_cut: bool, has_unknown: bool) -> Reach {
        let endpoints = endpoints.iter().copied().map(EndpointId).collect();
        Reach { endpoints, is_cut, has_unknown }
    }

    #[test]
    fn the_tree_that_reaches_more_is_taken_and_kept_while_it_is_as_good() {
        let (all, few, others) =
            (reach(&[1, 2], false, false), reach(&[1], true, false), reach(&[2], true, false));
        let choose = |first, low: &Reach, high: &Reach, is_complete| {
            let copy = |one: &Reach| Reach { endpoints: one.endpoints.clone(), ..*one };
            choose(first, [3, 4], &[copy(low), copy(high)], is_complete)
        };
        for first in [Some(3), Some(4)] {
            assert_eq!(choose(first, &all, &all, true), first);
            assert_eq!(choose(first, &all, &few, false), Some(3));
            assert_eq!(choose(first, &few, &all, false), Some(4));
            // Neither is enough: both once it is sure.
            assert_eq!(choose(first, &few, &others, false), first);
            assert_eq!(choose(first, &few, &others, true), None);
        }
        assert_eq!(choose(None, &all, &all, true), Some(3));
        // A table that is not known: the tree with no cut cable.
        let (unknown, cut) = (reach(&[1], false, true), reach(&[], true, true));
        assert_eq!(choose(Some(3), &cut, &unknown, true), Some(4));
        assert_eq!(choose(Some(4), &unknown, &cut, true), Some(3));
        assert_eq!(choose(Some(4), &cut, &cut, true), Some(4));
        assert_eq!(choose(Some(4), &unknown, &all, true), Some(4));
    }
}
