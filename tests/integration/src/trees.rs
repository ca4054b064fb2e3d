//! Rule G2: the member tables of the group agents together are the TIC's, and every group's
//! positions make one tree over exactly its members, as the agents say and as the members hold.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_proto::v1;

use crate::client::Client;

/// Checks rule G2 for all groups.
///
/// # Errors
///
/// A text with what does not fit.
pub async fn member_tables_agree(client: &Client) -> Result<(), String> {
    let (groups, _) = client.records().await.map_err(|status| status.message().to_owned())?;
    let held = held_positions(client).await?;
    let mut seen = 0;
    for group in groups.iter().filter(|group| group.member_count > 0) {
        let request = v1::QueryGroupRequest { agent_node: group.agent_node.clone(), gn: group.gn };
        let answer = client.group_agents(&group.agent_address).query_group(request).await;
        let answer = answer.map_err(|status| format!("{}: {}", group.name, status.message()))?;
        let v1::QueryGroupResponse { group: known, positions } = answer.into_inner();
        let known = known.unwrap_or_default();
        let complain = |what: &str| Err(format!("{}: {what}: {known:?}", group.name));
        if known.epoch != group.epoch {
            return complain("the agent has another epoch");
        }
        if members(&known) != members(group) {
            return complain("the agent has other members");
        }
        let tree: BTreeMap<u32, &v1::Position> =
            positions.iter().map(|position| (position.pn, position)).collect();
        if tree.keys().ne(known.members.iter().map(|member| &member.pn).collect::<BTreeSet<_>>()) {
            return complain("the positions are of others than the members");
        }
        one_tree(&tree).map_err(|what| format!("{}: {what}", group.name))?;
        for (pn, position) in tree {
            if held.get(&(group.gn, pn)) != Some(&neighbors(position)) {
                return Err(format!("{}: member {pn} holds another position", group.name));
            }
            seen += 1;
        }
    }
    if seen == held.len() { Ok(()) } else { Err("positions are held in groups that ended".into()) }
}

/// Parent and children by PN.
type Neighbors = (Option<u32>, Vec<u32>);

fn neighbors(position: &v1::Position) -> Neighbors {
    let children = position.children.iter().map(|child| child.pn).collect();
    (position.parent.as_ref().map(|parent| parent.pn), children)
}

async fn held_positions(client: &Client) -> Result<BTreeMap<(u64, u32), Neighbors>, String> {
    let mut held = BTreeMap::new();
    for mut host in client.hosts() {
        let answer = host.list_memberships(v1::ListMembershipsRequest::default()).await;
        let answer = answer.map_err(|status| status.message().to_owned())?.into_inner();
        for membership in answer.memberships {
            let position = membership.position.as_ref().map(neighbors).unwrap_or_default();
            held.insert((membership.gn, membership.pn), position);
        }
    }
    Ok(held)
}

fn members(group: &v1::Group) -> BTreeSet<(u32, &str, u64, &str, &str)> {
    group
        .members
        .iter()
        .map(|one| (one.pn, &*one.node, one.incarnation, &*one.endpoint, &*one.process))
        .collect()
}

/// Checks that all positions form one tree, and that parents and children agree.
fn one_tree(tree: &BTreeMap<u32, &v1::Position>) -> Result<(), String> {
    let mut open: Vec<u32> =
        tree.values().filter(|position| position.parent.is_none()).map(|one| one.pn).collect();
    if open.len() != 1 {
        return Err(format!("{} roots", open.len()));
    }
    let mut reached = 0;
    while let Some(pn) = open.pop() {
        reached += 1;
        for child in neighbors(tree[&pn]).1 {
            let parent = tree.get(&child).map(|position| neighbors(position).0);
            if parent != Some(Some(pn)) {
                return Err(format!("{child} has another parent than {pn}"));
            }
            open.push(child);
        }
        if reached > tree.len() {
            return Err("a cycle".to_owned());
        }
    }
    if reached == tree.len() {
        Ok(())
    } else {
        Err(format!("{reached} of {} hang in it", tree.len()))
    }
}
