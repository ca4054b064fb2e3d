//! Routes: a header line, then one line per group with its own tree.
//!
//! `{"mgid": 17, "virtual_group": 3, "color": 5, "trees": [{"root": "S-...", "links": [["S-a", 3,
//! "S-b", 1]]}]}`. Links are those between switches, lower end first; with `"cut_off"` the members
//! that are left out, and `"unrouted"` with the reason instead of a tree. With fault tolerance the
//! header has `"fault_tolerant": true`, the second tree of a group `"tree": 1`, and `"color"` if
//! that is not the group's. The tree of a virtual group is the union of its groups' trees, of the
//! endpoint links of their members, and of `"joins"`: links between switches that connect trees of
//! its groups and that none of them needs by itself, listed with one of them.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_topology::{EndpointId, Graph, Mgid, Peer, PortId, SwitchId, TableEntry, TableKind};
use serde::Serialize;
use serde_json::Value;

use super::groups::read_endpoint;
use super::tables::{read_color, read_port, read_switch};
use super::{Fields, FormatError, FormatProblem, at, list, objects, text, write_lines};
use crate::group_tree::GroupTree;
use crate::plan::GroupPlan;
use crate::routing_engine::RoutingEngine;
use crate::spt::MAX_COLORS;
use crate::tables::{expand_ports, key};

/// The first line of a routes file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutesHeader {
    /// Name of the engine that computed the routes, like `c-mr4lms-fixed`.
    pub engine: String,
    /// Entries of a table.
    pub colors: u16,
    /// Kind of the switches' tables.
    pub tables: TableKind,
    /// Groups have two trees.
    pub fault_tolerant: bool,
    /// SHA-256 of the topology file, in hexadecimal.
    pub topology: String,
}

/// A routes file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutesFile {
    /// Its first line.
    pub header: RoutesHeader,
    /// Routes of all groups, in the order of the file.
    pub groups: Vec<RouteRecord>,
}

/// The route of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteRecord {
    /// MGID of the group.
    pub mgid: Mgid,
    /// The virtual group it is merged into.
    pub virtual_group: u32,
    /// The entry number its packets carry.
    pub color: u16,
    /// Its trees: one, two with fault tolerance, none for fewer than two members.
    pub trees: Vec<TreeRecord>,
    /// Members that no tree reaches.
    pub cut_off: Vec<EndpointId>,
    /// Reason why it has no tree at all, if it should.
    pub unrouted: Option<String>,
}

/// One tree of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeRecord {
    /// Number of the tree in its group: 0, or 1 for the second one with fault tolerance.
    pub tree: u8,
    /// The entry number of packets that take it.
    pub color: u16,
    /// The topmost switch.
    pub root: SwitchId,
    /// Links between switches, lower port first.
    pub links: Vec<(PortId, PortId)>,
    /// Links between switches that the tree of the virtual group has besides, and none of its
    /// groups by itself; listed with the first of them that has the tree.
    pub joins: Vec<(PortId, PortId)>,
}

impl RoutesFile {
    /// Takes the routes of all groups out of an engine, by MGID.
    #[must_use]
    pub fn of(engine: &dyn RoutingEngine, topology: &str) -> Self {
        let plan = engine.plan();
        let header = RoutesHeader {
            engine: engine.kind().name().to_owned(),
            colors: plan.colors(),
            tables: plan.tables(),
            fault_tolerant: plan.is_dual(),
            topology: topology.to_owned(),
        };
        let routed = plan.groups().map(|group| RouteRecord {
            mgid: group.mgid,
            virtual_group: group.virtual_group.0,
            color: group.color,
            trees: tree_records(engine, &group),
            cut_off: group.cut_off.iter().map(|cut| cut.endpoint).collect(),
            unrouted: None,
        });
        let unrouted = plan.unrouted().iter().map(|group| RouteRecord {
            mgid: group.mgid,
            virtual_group: group.mgid.0,
            color: plan.home_color(group.mgid),
            trees: Vec::new(),
            cut_off: Vec::new(),
            unrouted: Some(group.to_string()),
        });
        let mut groups: Vec<RouteRecord> = routed.chain(unrouted).collect();
        groups.sort_by_key(|group| group.mgid);
        let mut file = Self { header, groups };
        file.list_joins(engine);
        file
    }

    /// Lists the links of shared trees that none of the groups needs by itself.
    fn list_joins(&mut self, engine: &dyn RoutingEngine) {
        for shared in engine.plan().virtual_groups().filter(|shared| shared.groups.len() > 1) {
            let place = |mgid: &Mgid| {
                let at = self.groups.binary_search_by_key(mgid, |group| group.mgid).ok()?;
                let trees = &self.groups[at].trees;
                Some((at, trees.iter().position(|tree| tree.tree == shared.tree)?))
            };
            let places: Vec<(usize, usize)> = shared.groups.iter().filter_map(place).collect();
            let Some((group, tree)) = places.first().copied() else { continue };
            let links =
                |(group, tree): &(usize, usize)| self.groups[*group].trees[*tree].links.iter();
            let own: BTreeSet<PortId> =
                places.iter().flat_map(links).flat_map(|(a, b)| [*a, *b]).collect();
            let between = |port: &PortId| match engine.graph().peer(*port) {
                Peer::Switch(far) if *port < far => Some((*port, far)),
                Peer::Switch(_) | Peer::Endpoint(_) | Peer::None => None,
            };
            let all = shared.ports.iter().filter_map(between);
            self.groups[group].trees[tree].joins =
                all.filter(|(port, _)| !own.contains(port)).collect();
        }
    }

    /// Writes out the table rows that these routes need, given the members of the groups.
    /// Members of groups that are not in the file, or unrouted, are ignored.
    #[must_use]
    pub fn table_entries(
        &self,
        graph: &Graph,
        members: &BTreeMap<Mgid, Vec<EndpointId>>,
    ) -> Vec<TableEntry> {
        let routed = || self.groups.iter().filter(|group| !group.trees.is_empty());
        let mut ports: BTreeMap<(u32, u8, u16), BTreeSet<PortId>> = BTreeMap::new();
        for group in routed() {
            for tree in &group.trees {
                let ports = ports.entry((group.virtual_group, tree.tree, tree.color)).or_default();
                let links = tree.links.iter().chain(&tree.joins);
                ports.extend(links.flat_map(|(a, b)| [a, b]));
            }
        }
        for group in routed() {
            // A group on one leaf is on all trees of its virtual group.
            let on_leaf = group.trees.iter().all(|tree| tree.links.is_empty());
            let members = members.get(&group.mgid).map_or(&[][..], Vec::as_slice);
            let served = members.iter().filter(|member| !group.cut_off.contains(member));
            let served: Vec<PortId> =
                served.filter_map(|member| graph.attachment(*member)).collect();
            let own = (group.virtual_group, 0, 0)..=(group.virtual_group, u8::MAX, u16::MAX);
            for ((_, tree, _), ports) in ports.range_mut(own) {
                if on_leaf || group.trees.iter().any(|one| one.tree == *tree) {
                    ports.extend(&served);
                }
            }
        }
        // The trees of a virtual group share rows; if two virtual groups do, both are there to be
        // seen.
        let mut rows: BTreeMap<_, TableEntry> = BTreeMap::new();
        for ((virtual_group, _, color), ports) in ports {
            let ports: Vec<PortId> = ports.into_iter().collect();
            for entry in expand_ports(graph, self.header.tables, color, &ports) {
                let row = rows.entry((key(&entry), virtual_group)).or_insert(entry);
                row.out = row.out.union(entry.out);
            }
        }
        rows.into_values().collect()
    }
}

fn tree_records(engine: &dyn RoutingEngine, group: &GroupPlan<'_>) -> Vec<TreeRecord> {
    let color = |tree| {
        let mut shared = engine.plan().virtual_groups_on(group.part, tree);
        shared.next().map_or(group.color, |one| one.color)
    };
    let trees = engine.group_trees(group.mgid).into_iter();
    let record = |tree: GroupTree| TreeRecord {
        tree: tree.tree,
        color: color(tree.tree),
        root: tree.root,
        links: tree.links,
        joins: Vec::new(),
    };
    trees.map(record).collect()
}

/// Reads a routes file.
///
/// # Errors
///
/// [`FormatError`] names the first line and field that is wrong.
pub fn read_routes(text: &str, graph: &Graph) -> Result<RoutesFile, FormatError> {
    let mut lines = objects(text);
    let Some(first) = lines.next() else {
        return Err(FormatError { line: 1, problem: FormatProblem::NoHeader });
    };
    let (line, fields) = first?;
    let header = read_header(fields).map_err(at(line))?;
    let mut groups = Vec::new();
    let mut seen = BTreeMap::new();
    for object in lines {
        let (line, fields) = object?;
        let record = read_record(fields, graph, &header).map_err(at(line))?;
        if let Some(first) = seen.insert(record.mgid, line) {
            let mgid = record.mgid.0;
            return Err(at(line)(FormatProblem::DuplicateMgid { mgid, first }));
        }
        groups.push(record);
    }
    Ok(RoutesFile { header, groups })
}

fn read_header(mut fields: Fields) -> Result<RoutesHeader, FormatProblem> {
    let version = fields.optional("fabricast_routes").ok_or(FormatProblem::NoHeader)?;
    match version.as_u64() {
        Some(1) => {}
        Some(version) => return Err(FormatProblem::Version { version }),
        None => return Err(super::bad("fabricast_routes", "1", &version)),
    }
    let engine = fields.text("engine")?;
    let value = fields.required("colors")?;
    let colors = super::number("colors", &value, u32::from(MAX_COLORS)).ok();
    let colors = colors.and_then(|colors| u16::try_from(colors).ok()).filter(|colors| *colors > 0);
    let colors = colors.ok_or_else(|| {
        super::bad("colors", format!("a whole number from 1 to {MAX_COLORS}"), &value)
    })?;
    let tables = fields.required("tables")?;
    let tables = match tables.as_str() {
        Some("per-port") => TableKind::PerPort,
        Some("per-switch") => TableKind::PerSwitch,
        _ => return Err(super::bad("tables", "\"per-port\" or \"per-switch\"", &tables)),
    };
    let fault_tolerant = match fields.optional("fault_tolerant") {
        Some(value) => {
            let given = value.as_bool();
            given.ok_or_else(|| super::bad("fault_tolerant", "true or false", &value))?
        }
        None => false,
    };
    let topology = fields.text("topology")?;
    fields.finish()?;
    Ok(RoutesHeader { engine, colors, tables, fault_tolerant, topology })
}

fn read_record(
    mut fields: Fields,
    graph: &Graph,
    header: &RoutesHeader,
) -> Result<RouteRecord, FormatProblem> {
    let mgid = Mgid(fields.number("mgid", u32::MAX)?);
    let virtual_group = fields.number("virtual_group", u32::MAX)?;
    let color = read_color(&mut fields, header.colors)?;
    let unrouted = fields.optional("unrouted").map(|value| text("unrouted", value)).transpose()?;
    let mut trees = Vec::new();
    for value in fields.list("trees")? {
        trees.push(read_tree(value, graph, color, header)?);
    }
    let mut numbers: Vec<u8> = trees.iter().map(|tree: &TreeRecord| tree.tree).collect();
    numbers.sort_unstable();
    if let Some(pair) = numbers.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(FormatProblem::DuplicateTree { tree: pair[0] });
    }
    let cut_off = match fields.optional("cut_off") {
        Some(value) => list("cut_off", value)?,
        None => Vec::new(),
    };
    let cut_off = cut_off.into_iter().map(|value| read_endpoint("cut_off", value, graph));
    let cut_off = cut_off.collect::<Result<_, _>>()?;
    fields.finish()?;
    Ok(RouteRecord { mgid, virtual_group, color, trees, cut_off, unrouted })
}

fn read_tree(
    value: Value,
    graph: &Graph,
    color: u16,
    header: &RoutesHeader,
) -> Result<TreeRecord, FormatProblem> {
    let mut fields = match value {
        Value::Object(fields) => Fields(fields),
        other @ (Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)) => return Err(super::bad("trees", "a list of objects", &other)),
    };
    let most = u32::from(header.fault_tolerant);
    let tree = fields.optional("tree").map(|value| super::number("tree", &value, most));
    let tree = u8::try_from(tree.transpose()?.unwrap_or(0)).expect("0 or 1");
    let color = match fields.0.contains_key("color") {
        true => read_color(&mut fields, header.colors)?,
        false => color,
    };
    let root = read_switch("root", fields.text("root")?, graph)?;
    let read = |field: &'static str, links: Vec<Value>| -> Result<Vec<_>, FormatProblem> {
        links.into_iter().map(|link| read_link(field, link, graph)).collect()
    };
    let links = read("links", fields.list("links")?)?;
    let joins = match fields.optional("joins") {
        Some(value) => read("joins", list("joins", value)?)?,
        None => Vec::new(),
    };
    fields.finish()?;
    Ok(TreeRecord { tree, color, root, links, joins })
}

fn read_link(
    field: &'static str,
    value: Value,
    graph: &Graph,
) -> Result<(PortId, PortId), FormatProblem> {
    let written = value.to_string();
    let ends = list(field, value)?;
    let [lower, lower_port, upper, upper_port] = <[Value; 4]>::try_from(ends).map_err(|ends| {
        super::bad(field, "a list of [switch, port, switch, port]", &Value::Array(ends))
    })?;
    let port = |switch: Value, port: &Value| {
        let switch = read_switch(field, text(field, switch)?, graph)?;
        let number = read_port(field, port, switch, graph)?;
        Ok(graph.port(switch, number).expect("checked when it was read"))
    };
    let (lower, upper) = (port(lower, &lower_port)?, port(upper, &upper_port)?);
    if graph.peer(lower) == Peer::Switch(upper) {
        Ok((lower, upper))
    } else {
        Err(FormatProblem::UnknownLink { field: field.to_owned(), link: written })
    }
}

#[derive(Serialize)]
struct HeaderLine<'a> {
    fabricast_routes: u8,
    engine: &'a str,
    colors: u16,
    tables: TableKind,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    fault_tolerant: bool,
    topology: &'a str,
}

#[derive(Serialize)]
struct GroupLine<'a> {
    mgid: Mgid,
    virtual_group: u32,
    color: u16,
    trees: Vec<TreeLine<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cut_off: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unrouted: Option<&'a str>,
}

#[derive(Serialize)]
struct TreeLine<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    tree: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    color: Option<u16>,
    root: &'a str,
    links: Vec<(&'a str, u8, &'a str, u8)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    joins: Vec<(&'a str, u8, &'a str, u8)>,
}

/// Writes a routes file.
#[must_use]
pub fn write_routes(file: &RoutesFile, graph: &Graph) -> String {
    let RoutesHeader { engine, colors, tables, fault_tolerant, topology } = &file.header;
    let (colors, tables, fault_tolerant) = (*colors, *tables, *fault_tolerant);
    let header =
        HeaderLine { fabricast_routes: 1, engine, colors, tables, fault_tolerant, topology };
    let end = |port: PortId| (graph.switch_name(graph.switch_of(port)), graph.port_number(port));
    let link = |(lower, upper): &(PortId, PortId)| {
        let ((lower, lower_port), (upper, upper_port)) = (end(*lower), end(*upper));
        (lower, lower_port, upper, upper_port)
    };
    let tree = |group: &RouteRecord, tree: &TreeRecord| TreeLine {
        tree: (tree.tree > 0).then_some(tree.tree),
        color: (tree.color != group.color).then_some(tree.color),
        root: graph.switch_name(tree.root),
        links: tree.links.iter().map(link).collect(),
        joins: tree.joins.iter().map(link).collect(),
    };
    let groups = file.groups.iter().map(|group| GroupLine {
        mgid: group.mgid,
        virtual_group: group.virtual_group,
        color: group.color,
        trees: group.trees.iter().map(|one| tree(group, one)).collect(),
        cut_off: group.cut_off.iter().map(|member| graph.endpoint_name(*member)).collect(),
        unrouted: group.unrouted.as_deref(),
    });
    write_lines(std::iter::once(header)) + &write_lines(groups)
}
