//! `fabricast switch`: switches as their agent reads them back from the hardware.

use fabricast_proto::v1;

use crate::args::{Format, SwitchArgs, SwitchCommand};
use crate::failure::Failure;
use crate::output::{self, Rows};
use crate::remote::{Remote, block_on};

/// Runs one verb.
///
/// # Errors
///
/// See [`Failure`].
pub(crate) fn run(command: SwitchCommand, format: Format) -> Result<(), Failure> {
    block_on(async {
        match command {
            SwitchCommand::List { server } => {
                let remote = Remote::new(&server)?;
                let answer = remote.switches().list_switches(v1::ListSwitchesRequest {}).await;
                let answer = answer.map_err(|status| remote.failed(status))?.into_inner();
                output::message(format, &answer, |answer| list_text(&answer.switches))
            }
            SwitchCommand::Table(args) => table(args, format).await,
            SwitchCommand::Ports(args) => ports(args, format).await,
        }
    })
}

async fn table(args: SwitchArgs, format: Format) -> Result<(), Failure> {
    let remote = Remote::new(&args.server)?;
    let request = v1::ReadTablesRequest { switch_names: vec![args.switch] };
    let answer = remote.switches().read_tables(request).await;
    let mut stream = answer.map_err(|status| remote.failed(status))?.into_inner();
    while let Some(part) = stream.message().await.map_err(|status| remote.failed(status))? {
        let table = part.table.unwrap_or_default();
        output::message(format, &table, table_text)?;
    }
    Ok(())
}

async fn ports(args: SwitchArgs, format: Format) -> Result<(), Failure> {
    let remote = Remote::new(&args.server)?;
    let request = v1::ListPortsRequest { switch_name: args.switch };
    let answer = remote.switches().list_ports(request).await;
    let answer = answer.map_err(|status| remote.failed(status))?.into_inner();
    output::message(format, &answer, |answer| {
        let titles = ["PORT", "STATE", "PEER", "PEER PORT", "RECEIVED", "SENT", "DROPPED"];
        let mut rows = Rows::new(&titles);
        for port in &answer.ports {
            rows.push(vec![
                port.port.to_string(),
                if port.live { "up" } else { "down" }.to_owned(),
                if port.peer.is_empty() { "-".to_owned() } else { port.peer.clone() },
                output::port(port.peer_port),
                port.received_packets.to_string(),
                port.sent_packets.to_string(),
                port.dropped_packets.to_string(),
            ]);
        }
        rows.to_string()
    })
}

fn list_text(switches: &[v1::Switch]) -> String {
    let titles = ["SWITCH", "STATE", "PORTS", "TABLES", "ENTRIES USED", "DESCRIPTION"];
    let mut rows = Rows::new(&titles);
    for switch in switches {
        let tables = match switch.table_kind() {
            v1::TableKind::PerPort => "per port",
            v1::TableKind::PerSwitch => "per switch",
            v1::TableKind::Unspecified => "?",
        };
        rows.push(vec![
            switch.name.clone(),
            if switch.live { "up" } else { "down" }.to_owned(),
            switch.port_count.to_string(),
            tables.to_owned(),
            format!("{} of {}", switch.used_entries, switch.colors),
            switch.description.clone(),
        ]);
    }
    rows.to_string()
}

fn table_text(table: &v1::SwitchTable) -> String {
    let mut rows = Rows::new(&["IN PORT", "COLOR", "OUT PORTS"]);
    for entry in &table.entries {
        let out: Vec<String> = entry.out_ports.iter().map(u32::to_string).collect();
        let in_port = if entry.in_port == 0 { "any".to_owned() } else { entry.in_port.to_string() };
        rows.push(vec![in_port, entry.color.to_string(), out.join(",")]);
    }
    let fence = table.fence.unwrap_or_default();
    format!("{}: term {}, generation {}\n{rows}", table.switch_name, fence.term, fence.generation)
}
