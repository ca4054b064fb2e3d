//! R3: tables are a function of topology, faults and groups. Planned from scratch in any order,
//! they equal those that developed step by step. Checked once everything is healed.

use fabricast_groups::Gn;
use fabricast_groups::directory::Directory;
use fabricast_routing::Change;
use fabricast_topology::SplitMix;

use crate::routing::witness::{Witness, endpoints, engine, rows_of};

/// Plans from scratch in a random order and compares the result with the tables of the switches.
pub(crate) fn holds(witness: &Witness, directory: &Directory, chance: &mut SplitMix) {
    let mut groups: Vec<_> = directory.groups_from(Gn(0)).collect();
    chance.shuffle(&mut groups);
    let mut fresh = engine(&witness.graph, witness.options);
    fresh.set_faults(witness.engine.faults().clone());
    for group in groups {
        let members = endpoints(&witness.graph, directory.members(group.gn));
        let put = Change::Put { mgid: group.home(), members: members.into_iter().collect() };
        fresh.apply(&[put]).expect("R3: a group that is there can be planned");
    }
    let planned = rows_of(&witness.graph, &*fresh);
    assert_eq!(planned, witness.desired, "R3: the plan depends on the past");
    assert_eq!(witness.rows, planned, "R3: the switches hold something else than the plan");
}
