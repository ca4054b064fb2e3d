//! Groups: `{"mgid": 17, "name": "rows/17", "members": ["h0", "h1"]}`; mgid or name may be left
//! out.

use std::collections::BTreeMap;

use fabricast_topology::{EndpointId, EndpointNameError, Graph, Mgid};
use serde::Serialize;
use serde_json::Value;

use super::{Fields, FormatError, FormatProblem, at, objects, text, write_lines};
use crate::allocator::{BatchGroup, BatchMgid, MgidAllocator};
use crate::spt::MgidSpace;

/// One group of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupRecord {
    /// Its MGID, if it has one yet.
    pub mgid: Option<Mgid>,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Its members, as listed.
    pub members: Vec<EndpointId>,
}

/// Reads groups.
///
/// # Errors
///
/// [`FormatError`] names the first line and field that is wrong.
pub fn read_groups(text: &str, graph: &Graph) -> Result<Vec<GroupRecord>, FormatError> {
    let mut records = Vec::new();
    let (mut mgids, mut names) = (BTreeMap::new(), BTreeMap::new());
    let mut listed = vec![0usize; graph.endpoint_count()]; // the last line that lists an endpoint
    for object in objects(text) {
        let (line, fields) = object?;
        let record = read_record(fields, line, graph, &mut listed).map_err(at(line))?;
        if let Some(mgid) = record.mgid
            && let Some(first) = mgids.insert(mgid, line)
        {
            return Err(at(line)(FormatProblem::DuplicateMgid { mgid: mgid.0, first }));
        }
        if let Some(name) = &record.name
            && let Some(first) = names.insert(name.clone(), line)
        {
            return Err(at(line)(FormatProblem::DuplicateName { name: name.clone(), first }));
        }
        records.push(record);
    }
    Ok(records)
}

fn read_record(
    mut fields: Fields,
    line: usize,
    graph: &Graph,
    listed: &mut [usize],
) -> Result<GroupRecord, FormatProblem> {
    let mgid = match fields.optional("mgid") {
        Some(value) => Some(Mgid(super::number("mgid", &value, u32::MAX)?)),
        None => None,
    };
    let name = fields.optional("name").map(|value| text("name", value)).transpose()?;
    let names = fields.list("members")?;
    fields.finish()?;
    if names.len() > graph.endpoint_count() {
        let endpoints = graph.endpoint_count();
        return Err(FormatProblem::TooManyMembers { members: names.len(), endpoints });
    }
    let mut members = Vec::with_capacity(names.len());
    for value in names {
        let endpoint = read_endpoint("members", value, graph)?;
        if std::mem::replace(&mut listed[endpoint.index()], line) == line {
            let name = graph.endpoint_name(endpoint).to_owned();
            return Err(FormatProblem::DuplicateMember { name });
        }
        members.push(endpoint);
    }
    Ok(GroupRecord { mgid, name, members })
}

pub(super) fn read_endpoint(
    field: &str,
    value: Value,
    graph: &Graph,
) -> Result<EndpointId, FormatProblem> {
    let field = field.to_owned();
    graph.resolve_endpoint(&text(&field, value)?).map_err(|error| match error {
        EndpointNameError::Unknown { name } => {
            FormatProblem::UnknownName { field, what: "endpoint", name }
        }
        EndpointNameError::Ambiguous { .. } => FormatProblem::AmbiguousName { field, error },
    })
}

/// Gives an MGID to every group that has none, whatever their order, and lists all of them.
///
/// The choice is that of [`choose_all`](crate::MgidPlanner::choose_all): it keeps endpoints from
/// using a color on two spanning trees.
#[must_use]
pub fn allot_mgids(records: &[GroupRecord], space: MgidSpace) -> Vec<Mgid> {
    let numbers = |record: &GroupRecord| -> Vec<u32> {
        record.members.iter().map(|member| member.0).collect()
    };
    let members: Vec<Vec<u32>> = records.iter().map(numbers).collect();
    let groups: Vec<BatchGroup<'_>> = records
        .iter()
        .zip(&members)
        .map(|(record, members)| BatchGroup {
            name: record.name.as_deref().unwrap_or_default(),
            mgid: record.mgid.map_or(BatchMgid::Open, BatchMgid::Given),
            ..BatchGroup::of(members)
        })
        .collect();
    let chosen = MgidAllocator::new(space).planner().choose_all(&groups);
    let chosen = chosen.expect("MGIDs and members are named once, groups are fewer than MGIDs");
    chosen.into_iter().map(|choice| choice.mgid).collect()
}

#[derive(Serialize)]
struct Line<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    mgid: Option<Mgid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    members: Vec<&'a str>,
}

/// Writes groups, one JSON object a line, as [`read_groups`] reads them.
#[must_use]
pub fn write_groups(records: &[GroupRecord], graph: &Graph) -> String {
    write_lines(records.iter().map(|record| Line {
        mgid: record.mgid,
        name: record.name.as_deref(),
        members: record.members.iter().map(|member| graph.endpoint_name(*member)).collect(),
    }))
}
