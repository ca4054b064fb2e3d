//! R2: a packet never loops, is never delivered twice to an endpoint, and reaches only endpoints of
//! groups on its spanning tree. Checked at every step, for every route that a sender was told or
//! may be told now. During a change, earlier plans count as well; once it is complete,
//! [`r4`](super::r4) is stricter.

use fabricast_groups::Gn;
use fabricast_topology::EndpointId;

use crate::routing::witness::{Walk, Witness};

/// Checks the walk of one packet.
pub(crate) fn holds(witness: &Witness, gn: Gn, from: EndpointId, walk: &Walk) {
    assert!(!walk.looped, "R2: a packet of group {gn} from {from:?} loops, {:?}", walk.rows);
    let mut reached = walk.reached.clone();
    reached.sort_unstable();
    for pair in reached.windows(2) {
        let rows = &walk.rows;
        assert!(pair[0] != pair[1], "R2: group {gn}: {:?} gets it twice by {rows:?}", pair[0]);
    }
    assert!(!reached.contains(&from), "R2: group {gn}: {from:?} gets its own packet");
    for endpoint in reached {
        let belongs = witness.may_reach(gn, endpoint);
        assert!(
            belongs,
            "R2: a packet of group {gn} reaches {endpoint:?}, which has no part in it, by {:?}",
            walk.rows
        );
    }
}
