//! Prints a graph as `ibnetdiscover` does.

use std::fmt::Write as _;

use crate::graph::{AdapterKind, Graph};
use crate::ids::{AdapterId, EndpointId, Peer, SwitchId};

/// Writes a topology; [`super::read`] gives an equal graph back.
#[must_use]
pub fn write(graph: &Graph) -> String {
    let mut text = String::from("#\n# Topology file: written by fabricast\n#\n");
    let result =
        graph.switches().try_for_each(|switch| write_switch(&mut text, graph, switch)).and_then(
            |()| graph.adapters().try_for_each(|adapter| write_adapter(&mut text, graph, adapter)),
        );
    result.expect("a string takes all that is written to it");
    text
}

type Result = std::fmt::Result;

fn write_switch(text: &mut String, graph: &Graph, switch: SwitchId) -> Result {
    let facts = graph.switch_facts(switch);
    write_ids(text, facts.vendor, facts.device, facts.system_guid)?;
    if facts.guid != 0 || facts.port_guid != 0 {
        write!(text, "switchguid={:#x}", facts.guid)?;
        write_guid(text, facts.port_guid)?;
        text.push('\n');
    }
    writeln!(
        text,
        "Switch\t{} \"{}\"\t\t# \"{}\" {} port 0 lid {} lmc {}",
        graph.ports(switch).len(),
        graph.switch_name(switch),
        graph.switch_description(switch),
        if facts.enhanced_port0 { "enhanced" } else { "base" },
        facts.lid,
        facts.lmc,
    )?;
    for port in graph.ports(switch) {
        let number = graph.port_number(port);
        let (description, lid) = match graph.peer(port) {
            Peer::None => continue,
            Peer::Endpoint(endpoint) => {
                let adapter = graph.adapter_of(endpoint);
                let facts = graph.endpoint_facts(endpoint);
                write!(text, "[{number}]\t\"{}\"[{}]", graph.adapter_name(adapter), facts.number)?;
                if facts.port_guid != 0 {
                    write_guid(text, facts.port_guid)?;
                    text.push(' ');
                }
                (graph.adapter_description(adapter), facts.lid)
            }
            Peer::Switch(other) => {
                let there = graph.switch_of(other);
                let name = graph.switch_name(there);
                write!(text, "[{number}]\t\"{name}\"[{}]", graph.port_number(other))?;
                (graph.switch_description(there), graph.switch_facts(there).lid)
            }
        };
        write!(text, "\t\t# \"{description}\" lid {lid}")?;
        write_speed(text, graph.port_speed(port));
    }
    Ok(())
}

fn write_adapter(text: &mut String, graph: &Graph, adapter: AdapterId) -> Result {
    let facts = graph.adapter_facts(adapter);
    let (key, kind) = match facts.kind {
        AdapterKind::Channel => ("caguid", "Ca"),
        AdapterKind::Router => ("rtguid", "Rt"),
    };
    write_ids(text, facts.vendor, facts.device, facts.system_guid)?;
    if facts.guid != 0 {
        writeln!(text, "{key}={:#x}", facts.guid)?;
    }
    writeln!(
        text,
        "{kind}\t{} \"{}\"\t\t# \"{}\"",
        facts.ports,
        graph.adapter_name(adapter),
        graph.adapter_description(adapter),
    )?;
    graph.adapter_endpoints(adapter).try_for_each(|endpoint| write_endpoint(text, graph, endpoint))
}

fn write_endpoint(text: &mut String, graph: &Graph, endpoint: EndpointId) -> Result {
    let facts = graph.endpoint_facts(endpoint);
    let Some(port) = graph.attachment(endpoint) else {
        // A comment, for ibsim takes no port without a cable.
        let (number, guid, lid, lmc) = (facts.number, facts.port_guid, facts.lid, facts.lmc);
        return writeln!(text, "#[{number}]({guid:x})\t\t# lid {lid} lmc {lmc}");
    };
    write!(text, "[{}]", facts.number)?;
    if facts.port_guid != 0 {
        write_guid(text, facts.port_guid)?;
        text.push(' ');
    }
    let switch = graph.switch_of(port);
    write!(
        text,
        "\t\"{}\"[{}]\t\t# lid {} lmc {} \"{}\" lid {}",
        graph.switch_name(switch),
        graph.port_number(port),
        facts.lid,
        facts.lmc,
        graph.switch_description(switch),
        graph.switch_facts(switch).lid,
    )?;
    write_speed(text, graph.endpoint_speed(endpoint));
    Ok(())
}

fn write_ids(text: &mut String, vendor: u32, device: u32, system_guid: u64) -> Result {
    writeln!(text, "\nvendid={vendor:#x}\ndevid={device:#x}")?;
    if system_guid != 0 {
        writeln!(text, "sysimgguid={system_guid:#x}")?;
    }
    Ok(())
}

fn write_guid(text: &mut String, guid: u64) -> Result {
    if guid == 0 { Ok(()) } else { write!(text, "({guid:x})") }
}

fn write_speed(text: &mut String, speed: &str) {
    if !speed.is_empty() {
        text.push(' ');
        text.push_str(speed);
    }
    text.push('\n');
}
