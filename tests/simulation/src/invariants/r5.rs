//! R5: whoever is not concerned by a change loses nothing. At every step, for every route that a sender was told
//! or may be told now, and every member that the route serves; but for groups of which a packet has met a failure (a
//! dead part, or a switch that has lost its table), until they are served again.

use std::collections::BTreeSet;

use fabricast_groups::Gn;
use fabricast_topology::EndpointId;

use crate::routing::witness::{Walk, Witness};

/// Looks at what one packet has reached; whether everybody was.
///
/// - `expected`: members that the sender's route serves, but itself.
pub(crate) fn holds(
    witness: &Witness,
    (gn, from): (Gn, EndpointId),
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
