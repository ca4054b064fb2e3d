//! Tables: `{"switch": "S-...", "in_port": 3, "color": 5, "out_ports": [1, 7]}`; per-switch without
//! `in_port`.

use fabricast_topology::{Graph, PortSet, SwitchId, TableEntry, TableKind};
use serde::Serialize;

use super::{Fields, FormatError, FormatProblem, at, number, objects, write_lines};
use crate::tables::key;

/// Reads table rows and sorts them as [`crate::table_entries`] does.
///
/// # Errors
///
/// [`FormatError`] names the first line and field that is wrong, with entry numbers from `colors`
/// on among it.
pub fn read_tables(
    text: &str,
    graph: &Graph,
    tables: TableKind,
    colors: u16,
) -> Result<Vec<TableEntry>, FormatError> {
    let mut entries = Vec::new();
    for object in objects(text) {
        let (line, fields) = object?;
        entries.push((read_row(fields, graph, tables, colors).map_err(at(line))?, line));
    }
    entries.sort_by_key(|(entry, _)| key(entry));
    if let Some(pair) = entries.windows(2).find(|pair| key(&pair[0].0) == key(&pair[1].0)) {
        let (TableEntry { switch, in_port, color, .. }, line) = pair[1];
        let switch = graph.switch_name(switch).to_owned();
        return Err(at(line)(FormatProblem::DuplicateRow { switch, in_port, color }));
    }
    Ok(entries.into_iter().map(|(entry, _)| entry).collect())
}

fn read_row(
    mut fields: Fields,
    graph: &Graph,
    tables: TableKind,
    colors: u16,
) -> Result<TableEntry, FormatProblem> {
    let switch = read_switch("switch", fields.text("switch")?, graph)?;
    let in_port = match tables {
        TableKind::PerPort => {
            let value = fields.required("in_port")?;
            read_port("in_port", &value, switch, graph)?
        }
        TableKind::PerSwitch => 0, // finish() refuses the field if it is there
    };
    let color = read_color(&mut fields, colors)?;
    let mut out = PortSet::EMPTY;
    for value in fields.list("out_ports")? {
        out.insert(read_port("out_ports", &value, switch, graph)?);
    }
    fields.finish()?;
    Ok(TableEntry { switch, in_port, color, out })
}

pub(super) fn read_color(fields: &mut Fields, colors: u16) -> Result<u16, FormatProblem> {
    let color = fields.number("color", u32::MAX)?;
    let fits = u16::try_from(color).ok().filter(|color| *color < colors);
    fits.ok_or(FormatProblem::ColorOutOfRange { color, colors: u32::from(colors) })
}

pub(super) fn read_switch(
    field: &str,
    name: String,
    graph: &Graph,
) -> Result<SwitchId, FormatProblem> {
    graph.find_switch(&name).ok_or_else(|| FormatProblem::UnknownName {
        field: field.to_owned(),
        what: "switch",
        name,
    })
}

pub(super) fn read_port(
    field: &str,
    value: &serde_json::Value,
    switch: SwitchId,
    graph: &Graph,
) -> Result<u8, FormatProblem> {
    let port = number(field, value, u32::from(u8::MAX)).ok().and_then(|port| {
        u8::try_from(port).ok().filter(|port| graph.port(switch, *port).is_some())
    });
    port.ok_or_else(|| {
        let must_be =
            format!("a port of {}, 1 to {}", graph.switch_name(switch), graph.ports(switch).len());
        super::bad(field, must_be, value)
    })
}

#[derive(Serialize)]
struct Line<'a> {
    switch: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_port: Option<u8>,
    color: u16,
    out_ports: Vec<u8>,
}

/// Writes table rows.
#[must_use]
pub fn write_tables(entries: &[TableEntry], graph: &Graph, tables: TableKind) -> String {
    write_lines(entries.iter().map(|entry| Line {
        switch: graph.switch_name(entry.switch),
        in_port: (tables == TableKind::PerPort).then_some(entry.in_port),
        color: entry.color,
        out_ports: entry.out.iter().collect(),
    }))
}
