//! `fabricast switch`: switches as their agent reads them back from the hardware.

use clap::{Args, Subcommand};
use fabricast_proto::v1;
use fabricast_proto::v1::switch_agent_service_client::SwitchAgentServiceClient;
use fabricast_rpc::Channel;

use crate::args::{Format, ServerArgs};
use crate::command::{Globals, Run};
use crate::failure::Failure;
use crate::output::{self, Rows};
use crate::remote::{Remote, block_on};

/// Show switches, their tables and ports through the switch agents.
#[derive(Debug, Subcommand)]
pub(crate) enum SwitchCommand {
    /// List all switches with state and entries used.
    List {
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Show the multicast table of a switch, read back from the hardware.
    Table(SwitchArgs),
    /// Show ports and counters of a switch.
    Ports(SwitchArgs),
    /// Show present and past drifts: switches whose table differs from what they had confirmed;
    /// exit 1 if there is one now, 2 if no table has been compared yet. The active route service
    /// answers, whichever was named.
    Audit {
        #[command(flatten)]
        server: ServerArgs,
    },
    /// List the switch agents whose reports of failed elements count, also those that are silent.
    Reporters {
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Forget the failures that a switch agent has reported, as it is gone for good or has another
    /// name now. One that still runs reports again.
    Forget {
        /// Name of the switch agent, as `switch reporters` shows it.
        reporter: String,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Show packets and bytes at the ports of one or all switches; exit 2 if the hardware has no
    /// counters.
    Counters {
        /// Node id of the switch; default: all switches.
        switch: Option<String>,
        #[command(flatten)]
        server: ServerArgs,
    },
}

/// Name of a switch, and the agent that has it.
#[derive(Debug, Args)]
pub(crate) struct SwitchArgs {
    /// Node id of the switch, such as S-ec0d9a0300ec8240.
    switch: String,
    #[command(flatten)]
    server: ServerArgs,
}

impl Run for SwitchCommand {
    fn run(self, globals: &Globals) -> Result<(), Failure> {
        let format = globals.format;
        block_on(async {
            match self {
                Self::List { server } => {
                    let mut answer = v1::ListSwitchesResponse::default();
                    for (agent, mut client) in Remote::new(&server)?.switch_agents().await? {
                        let request = v1::ListSwitchesRequest {};
                        let listed = agent.answer(client.list_switches(request)).await?;
                        answer.switches.extend(listed.switches);
                    }
                    output::message(format, &answer, |answer| list_text(&answer.switches))
                }
                Self::Table(args) => table(args, format).await,
                Self::Ports(args) => ports(args, format).await,
                Self::Audit { server } => audit(&Remote::new(&server)?, format).await,
                Self::Reporters { server } => {
                    let remote = Remote::new(&server)?;
                    let request = v1::ListReportersRequest {};
                    let answer = remote.answer(remote.tic().list_reporters(request)).await?;
                    output::message(format, &answer, reporters_text)
                }
                Self::Forget { reporter, server } => {
                    let remote = Remote::new(&server)?;
                    let request = v1::RemoveReporterRequest { reporter };
                    let answer = remote.answer(remote.tic().remove_reporter(request)).await?;
                    output::message(format, &answer, |answer| {
                        format!("forgotten, {} elements are failed", answer.failed_count)
                    })
                }
                Self::Counters { switch: Some(switch), server } => {
                    let (agent, client) = agent_of(server, &switch).await?;
                    counters(vec![switch], &agent, client, format).await
                }
                Self::Counters { switch: None, server } => {
                    for (agent, client) in Remote::new(&server)?.switch_agents().await? {
                        counters(Vec::new(), &agent, client, format).await?;
                    }
                    Ok(())
                }
            }
        })
    }

    fn calls_running_parts(&self) -> bool {
        true
    }
}

fn reporters_text(list: &v1::ListReportersResponse) -> String {
    let mut rows = Rows::new(&["SWITCH AGENT", "FAILED"]);
    for reporter in &list.reporters {
        rows.push(vec![reporter.name.clone(), reporter.failed_count.to_string()]);
    }
    rows.to_string()
}

/// The agent of a switch. An unknown switch is left for the only or first agent to refuse.
async fn agent_of(
    server: ServerArgs,
    switch: &str,
) -> Result<(Remote, SwitchAgentServiceClient<Channel>), Failure> {
    let mut agents = Remote::new(&server)?.switch_agents().await?;
    if agents.len() > 1 {
        for (at, (agent, client)) in agents.iter_mut().enumerate() {
            let listed = agent.answer(client.list_switches(v1::ListSwitchesRequest {})).await?;
            if listed.switches.iter().any(|one| one.name == switch) {
                return Ok(agents.swap_remove(at));
            }
        }
    }
    Ok(agents.swap_remove(0))
}

async fn table(args: SwitchArgs, format: Format) -> Result<(), Failure> {
    let (agent, mut client) = agent_of(args.server, &args.switch).await?;
    let request = v1::ReadTablesRequest { switch_names: vec![args.switch] };
    let mut stream = agent.answer(client.read_tables(request)).await?;
    while let Some(part) = stream.message().await.map_err(|status| agent.failed(status))? {
        let table = part.table.unwrap_or_default();
        output::message(format, &table, table_text)?;
    }
    Ok(())
}

async fn ports(args: SwitchArgs, format: Format) -> Result<(), Failure> {
    let (agent, mut client) = agent_of(args.server, &args.switch).await?;
    let request = v1::ListPortsRequest { switch_name: args.switch };
    let answer = agent.answer(client.list_ports(request)).await?;
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

async fn audit(remote: &Remote, format: Format) -> Result<(), Failure> {
    let answer = remote
        .answer(remote.router().await?.list_table_drifts(v1::ListTableDriftsRequest {}))
        .await?;
    output::message(format, &answer, drifts_text)?;
    if answer.compared_tables == 0 {
        let unknown = "no table has been compared yet, so it is not known what switches hold";
        let failure = Failure::input(format!("server {}: {unknown}", remote.peer().address()));
        return Err(failure.hint("ask again: tables are compared in turn (`[router] read_back`)"));
    }
    match answer.drifts.iter().filter(|drift| drift.repaired_ago.is_none()).count() {
        0 => Ok(()),
        1 => Err(Failure::No("1 table is not what it ought to be".to_owned())),
        count => Err(Failure::No(format!("{count} tables are not what they ought to be"))),
    }
}

fn drifts_text(answer: &v1::ListTableDriftsResponse) -> String {
    let mut rows = Rows::new(&["SWITCH", "SEEN", "REPAIRED", "MISSING", "EXTRA", "ALTERED"]);
    for drift in &answer.drifts {
        rows.push(vec![
            drift.switch_name.clone(),
            ago(drift.seen_ago),
            ago(drift.repaired_ago),
            drift.missing_entries.to_string(),
            drift.extra_entries.to_string(),
            drift.altered_entries.to_string(),
        ]);
    }
    let figures = format!(
        "{} drifts, {} tables compared, the last {}",
        answer.drift_count,
        answer.compared_tables,
        ago(answer.compared_ago)
    );
    if answer.drifts.is_empty() { figures } else { format!("{figures}\n{rows}") }
}

fn ago(time: Option<prost_types::Duration>) -> String {
    time.map_or_else(|| "never".to_owned(), |time| format!("{} s ago", time.seconds))
}

async fn counters(
    switch_names: Vec<String>,
    agent: &Remote,
    mut client: SwitchAgentServiceClient<Channel>,
    format: Format,
) -> Result<(), Failure> {
    let request = v1::ReadCountersRequest { switch_names };
    let mut stream = agent.answer(client.read_counters(request)).await?;
    while let Some(part) = stream.message().await.map_err(|status| agent.failed(status))? {
        let counters = part.counters.unwrap_or_default();
        output::message(format, &counters, counters_text)?;
    }
    Ok(())
}

fn counters_text(counters: &v1::SwitchCounters) -> String {
    let titles =
        ["PORT", "PACKETS RECEIVED", "PACKETS SENT", "BYTES RECEIVED", "BYTES SENT", "DROPPED"];
    let mut rows = Rows::new(&titles);
    for port in &counters.ports {
        let cells = [
            u64::from(port.port),
            port.received_packets,
            port.sent_packets,
            port.received_bytes,
            port.sent_bytes,
            port.dropped_packets,
        ];
        rows.push(cells.iter().map(u64::to_string).collect());
    }
    format!("{}\n{rows}", counters.switch_name)
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
