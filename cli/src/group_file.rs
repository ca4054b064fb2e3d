//! Groups as the command line handles them: read from a file, named, turned into join requests.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, anyhow};
use fabricast_proto::v1;
use fabricast_routing::Mgid;
use fabricast_routing::formats::{GroupRecord, read_groups};
use fabricast_rpc::request_id;
use fabricast_topology::Graph;

use crate::failure::Failure;
use crate::source::read_text;

/// A group with the names of its endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedGroup {
    /// Its name.
    pub name: String,
    /// Its MGID; the TIC chooses if there is none.
    pub mgid: Option<Mgid>,
    /// Its members.
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
/// As [`read`].
pub(crate) fn read_named(file: &Path, graph: &Graph) -> Result<Vec<NamedGroup>, Failure> {
    let records = read(file, graph)?;
    Ok((1..).zip(&records).map(|(number, record)| named(number, record, graph)).collect())
}

fn named(number: usize, record: &GroupRecord, graph: &Graph) -> NamedGroup {
    let name = match (&record.name, record.mgid) {
        (Some(name), _) => name.clone(),
        (None, Some(mgid)) => format!("mgid/{}", mgid.0),
        (None, None) => format!("group/{number}"),
    };
    let members = record.members.iter().map(|member| graph.endpoint_name(*member).to_owned());
    NamedGroup { name, mgid: record.mgid, members: members.collect() }
}

/// Makes one join request per member of every group, group by group.
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
    fn an_endpoint_without_a_node_is_named() {
        let failure = joins(&[group()], &BTreeMap::new(), "p0").unwrap_err();
        assert_eq!(failure.message(), "group 'g': endpoint 'a' belongs to no node");
    }
}
