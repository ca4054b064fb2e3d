//! R5: members that a change does not concern lose no packets. Checked at every step, for every
//! route that a sender was told or may be told now and every member that the route serves. Groups
//! of which a packet has met a failure (a dead part, or a switch that has lost its table) are
//! exempt until they are served again.

use std::collections::BTreeSet;

use fabricast_groups::Gn;
use fabricast_topology::EndpointId;

use crate::routing::witness::{Walk, Witness};

/// Checks the endpoints that one packet has reached; returns whether all expected ones were.
///
/// - `expected`: members that the sender's route serves, except the sender.
pub(crate) fn holds(
    witness: &Witness,
    gn: Gn,
    from: EndpointId,
    expected: &BTreeSet<EndpointId>,
    walks: &[Walk],
) -> bool {
    let got: BTreeSet<EndpointId> = walks.iter().flat_map(|walk| walk.reached.clone()).collect();
    let missing: Vec<EndpointId> = expected.difference(&got).copied().collect();
    let hit = walks.iter().any(|walk| walk.hit);
    if missing.is_empty() {
        return !hit;
    }
    let hurt = witness.hurt.contains(&gn);
    let rows: Vec<_> = walks.iter().map(|walk| &walk.rows).collect();
    assert!(
        hurt,
        "R5: a packet of group {gn} from {from:?} does not reach {missing:?} by {rows:?}"
    );
    false
}
