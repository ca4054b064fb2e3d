//! Random joins and leaves.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_integration::Client;
use fabricast_proto::v1;
use fabricast_rpc::reason_of;

const GROUPS: u64 = 8;

/// Numbers that look random and are the same in every run (xorshift).
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Members of each group, as (node, process).
pub(crate) type Model = BTreeMap<String, BTreeSet<(String, String)>>;

/// One random join or leave; refusals that may happen leave the model as it is.
///
/// - `mgid`: for a new group; without one the TIC chooses.
pub(crate) async fn step(
    client: &Client,
    chance: &mut Chance,
    model: &mut Model,
    mgid: impl FnOnce(&mut Chance) -> Option<u32>,
) {
    let group = format!("g{}", chance.below(GROUPS));
    let who = (format!("n{}", chance.below(16)), format!("p{}", chance.below(2)));
    let members = model.entry(group.clone()).or_default();
    if members.contains(&who) && chance.below(3) > 0 {
        client.leave_as(&group, &who.0, &who.1).await.unwrap();
        members.remove(&who);
        return;
    }
    let new = members.is_empty();
    let request = v1::OperatingAgentServiceJoinGroupRequest {
        node: who.0.clone(),
        process: who.1.clone(),
        mgid: if new { mgid(chance) } else { None },
        exclusive: group == "g0",
        group,
        ..Default::default()
    };
    match client.join_with(request).await {
        Ok(_) => drop(members.insert(who)),
        Err(status) => {
            let reason = reason_of(&status).unwrap_or_else(|| status.to_string());
            assert_eq!(reason, "MGID_IN_USE");
        }
    }
}

/// The same as the TIC has it.
pub(crate) fn recorded(groups: &[v1::Group]) -> Model {
    let members = |group: &v1::Group| {
        let names = group.members.iter().map(|one| (one.node.clone(), one.process.clone()));
        (group.name.clone(), names.collect())
    };
    groups.iter().map(members).collect()
}
