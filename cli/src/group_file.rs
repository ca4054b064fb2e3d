//! Groups as the command line handles them: read from a file, named, turned into join requests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use fabricast_groups::names::GroupName;
use fabricast_proto::v1;
use fabricast_routing::formats::{GroupRecord, read_groups};
use fabricast_rpc::request_id;
use fabricast_topology::{Graph, Mgid};

use crate::failure::Failure;
use crate::source::read_text;

/// A group with the names of its endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedGroup {
    /// Name of the group.
    pub name: String,
    /// MGID of the group; chosen by the TIC if missing.
    pub mgid: Option<Mgid>,
    /// Names of the member endpoints.
    pub members: Vec<String>,
}

/// Reads a groups file.
///
/// # Errors
///
/// Names the file, the line and the field.
pub(crate) fn read(file: &Path, graph: &Graph) -> Result<Vec<GroupRecord>, Failure> {
    let named = || format!("'{}'", file.display());
    let text = read_text(file)?;
    Ok(read_groups(&text, graph).with_context(named)?)
}

/// Reads a groups file and gives a name to every group that has none.
///
/// # Errors
///
/// As [`read`] and [`check`].
pub(crate) fn read_named(file: &Path, graph: &Graph) -> Result<Vec<NamedGroup>, Failure> {
    let records = read(file, graph)?;
    let groups: Vec<NamedGroup> =
        (1..).zip(&records).map(|(number, record)| named(number, record, graph)).collect();
    check(&groups, &[]).with_context(|| format!("'{}'", file.display()))?;
    Ok(groups)
}

fn named(number: usize, record: &GroupRecord, graph: &Graph) -> NamedGroup {
    let name = name(number, record);
    let members = record.members.iter().map(|member| graph.endpoint_name(*member).to_owned());
    NamedGroup { name, mgid: record.mgid, members: members.collect() }
}

/// Name of a group of a file, by its position from 1; generated if the file gives none.
pub(crate) fn name(number: usize, record: &GroupRecord) -> String {
    match (&record.name, record.mgid) {
        (Some(name), _) => name.clone(),
        (None, Some(mgid)) => format!("mgid/{}", mgid.0),
        (None, None) => format!("group/{number}"),
    }
}

/// Checks the groups of a file against the live ones, so that either all are formed or none.
///
/// # Errors
///
/// Names the group and what is wrong with it.
pub(crate) fn check(groups: &[NamedGroup], live: &[v1::Group]) -> anyhow::Result<()> {
    let by_name: BTreeMap<&str, &v1::Group> =
        live.iter().map(|group| (group.name.as_str(), group)).collect();
    let by_mgid: BTreeMap<u32, &v1::Group> = live.iter().map(|group| (group.mgid, group)).collect();
    let mut names = BTreeSet::new();
    for NamedGroup { name, mgid, .. } in groups {
        GroupName::new(name).with_context(|| format!("group {name:?}: name"))?;
        if !names.insert(name) {
            // A group without a name is given one, which another may have.
            bail!("group '{name}': name: two groups have it");
        }
        let Some(mgid) = mgid.map(|mgid| mgid.0) else { continue };
        if let Some(live) = by_name.get(name.as_str())
            && live.mgid != mgid
        {
            bail!("group '{name}': mgid: {mgid}, but the live group has {}", live.mgid);
        }
        if let Some(live) = by_mgid.get(&mgid)
            && live.name != *name
        {
            bail!("group '{name}': mgid: {mgid} is that of the live group '{}'", live.name);
        }
    }
    Ok(())
}

/// Makes one join request for each member of every group, group by group.
///
/// - `owners`: the node of each endpoint.
///
/// # Errors
///
/// A member whose endpoint belongs to no node.
pub(crate) fn joins(
    groups: &[NamedGroup],
    owners: &BTreeMap<String, String>,
    process: &str,
) -> Result<Vec<v1::OperatingAgentServiceJoinGroupRequest>, Failure> {
    let mut requests = Vec::new();
    for group in groups {
        for endpoint in &group.members {
            let node = owners.get(endpoint).ok_or_else(|| {
                anyhow!("group '{}': endpoint '{endpoint}' belongs to no node", group.name)
            })?;
            requests.push(v1::OperatingAgentServiceJoinGroupRequest {
                node: node.clone(),
                group: group.name.clone(),
                process: process.to_owned(),
                endpoint: endpoint.clone(),
                mgid: group.mgid.map(|mgid| mgid.0),
                request_id: request_id(),
                ..Default::default()
            });
        }
    }
    Ok(requests)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group() -> NamedGroup {
        let members = vec!["a".to_owned(), "b".to_owned()];
        NamedGroup { name: "g".to_owned(), mgid: Some(Mgid(7)), members }
    }

    #[test]
    fn every_member_joins_through_its_own_node() {
        let owners = [("a", "n0"), ("b", "n1")];
        let owners = owners.map(|(endpoint, node)| (endpoint.to_owned(), node.to_owned())).into();
        let requests = joins(&[group()], &owners, "p0").unwrap();
        let nodes: Vec<&str> = requests.iter().map(|request| request.node.as_str()).collect();
        assert_eq!(nodes, ["n0", "n1"]);
        assert!(requests.iter().all(|request| request.mgid == Some(7)));
    }

    #[test]
    fn a_file_that_contradicts_the_live_groups_or_itself_is_refused_whole() {
        let live =
            |name: &str, mgid| v1::Group { name: name.to_owned(), mgid, ..v1::Group::default() };
        let check = |groups: &[NamedGroup], live: &[v1::Group]| {
            check(groups, live).map_err(|error| error.to_string())
        };
        assert_eq!(check(&[group()], &[live("g", 7), live("other", 8)]), Ok(()));
        assert!(check(&[group()], &[live("g", 8)]).unwrap_err().contains("the live group has 8"));
        assert!(check(&[group()], &[live("h", 7)]).unwrap_err().contains("live group 'h'"));
        assert!(check(&[group(), group()], &[]).unwrap_err().contains("two groups"));
        let nameless = NamedGroup { name: String::new(), ..group() };
        assert_eq!(check(&[nameless], &[]), Err("group \"\": name".to_owned()));
    }

    #[test]
    fn an_endpoint_without_a_node_is_named() {
        let failure = joins(&[group()], &BTreeMap::new(), "p0").unwrap_err();
        assert_eq!(failure.message(), "group 'g': endpoint 'a' belongs to no node");
    }
}
