//! Histories of groups and faults on small fabrics, for the tests of all engines.

use std::collections::BTreeSet;
use std::ops::Range;

use fabricast_routing::{Change, RoutingEngine};
use fabricast_topology::{EndpointId, Faults, Graph, Mgid, PortId, SwitchId};
use proptest::prelude::*;

/// Random numbers that name parts of a fabric.
pub(crate) type Picks = Vec<(u8, u32)>;

/// One step of a history; numbers are taken modulo what the fabric has.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Put(u32, Vec<u32>),
    Join(u32, u32),
    Leave(u32, usize),
    Delete(u32),
    Faults(Picks),
}

impl Step {
    /// Any step, with weights in the order of the variants.
    pub(crate) fn any(mgid: Range<u32>, weights: [u32; 5]) -> impl Strategy<Value = Self> {
        prop_oneof![
            weights[0] => (mgid.clone(), members())
                .prop_map(|(mgid, members)| Self::Put(mgid, members)),
            weights[1] => (mgid.clone(), any::<u32>()).prop_map(|(mgid, at)| Self::Join(mgid, at)),
            weights[2] => (mgid.clone(), any::<usize>())
                .prop_map(|(mgid, at)| Self::Leave(mgid, at)),
            weights[3] => mgid.prop_map(Self::Delete),
            weights[4] => faults().prop_map(Self::Faults),
        ]
    }

    /// Gives the change of groups; none for faults, and if it makes no sense as the groups are now.
    pub(crate) fn change(&self, engine: &dyn RoutingEngine) -> Option<Change> {
        let graph = engine.graph();
        let endpoint = |at: u32| EndpointId(below(at, graph.endpoint_count()));
        match self {
            Self::Faults(_) => None,
            Self::Put(mgid, members) => {
                let members = endpoints_of(graph, members).into_iter().collect();
                Some(Change::Put { mgid: Mgid(*mgid), members })
            }
            Self::Join(mgid, at) => {
                let (mgid, endpoint) = (Mgid(*mgid), endpoint(*at));
                let members = engine.members(mgid)?;
                (!members.contains(&endpoint)).then_some(Change::Join { mgid, endpoint })
            }
            Self::Leave(mgid, at) => {
                let mgid = Mgid(*mgid);
                let members = engine.members(mgid).filter(|members| !members.is_empty())?;
                Some(Change::Leave { mgid, endpoint: members[at % members.len()] })
            }
            Self::Delete(mgid) => {
                let mgid = Mgid(*mgid);
                engine.members(mgid).map(|_| Change::Delete { mgid })
            }
        }
    }
}

pub(crate) fn members() -> impl Strategy<Value = Vec<u32>> {
    proptest::collection::vec(any::<u32>(), 0..6)
}

pub(crate) fn faults() -> impl Strategy<Value = Picks> {
    proptest::collection::vec((0u8..8, any::<u32>()), 0..5)
}

fn below(at: u32, count: usize) -> u32 {
    at % u32::try_from(count).expect("a small fabric")
}

/// Turns random numbers into endpoints of a fabric.
pub(crate) fn endpoints_of(graph: &Graph, picks: &[u32]) -> BTreeSet<EndpointId> {
    picks.iter().map(|at| EndpointId(below(*at, graph.endpoint_count()))).collect()
}

/// Turns random numbers into faults of a fabric, links most often.
pub(crate) fn faults_of(graph: &Graph, picks: &[(u8, u32)]) -> Faults {
    let mut faults = Faults::new();
    for (kind, at) in picks {
        match kind {
            0 => drop(faults.fail_switch(SwitchId(below(*at, graph.switch_count())))),
            1 => drop(faults.fail_endpoint(EndpointId(below(*at, graph.endpoint_count())))),
            _ => drop(faults.fail_link(graph, PortId(below(*at, graph.port_count())))),
        }
    }
    faults
}
