//! `fabricast switch`: switches as their agent reads them back from the hardware.

use std::slice;

use clap::{Args, Subcommand};
use fabricast_proto::v1;
use fabricast_proto::v1::switch_agent_service_client::SwitchAgentServiceClient;
use fabricast_rpc::Channel;

use crate::args::{Format, ServerArgs, WatchArgs};
use crate::command::{Globals, Run};
use crate::failure::Failure;
use crate::output::{self, Rows};
use crate::remote::{Remote, block_on};

/// Names of rows of ports, for [`output::left_out`].
const PORTS: [&str; 2] = ["port", "ports"];
/// Names of rows of switch agents.
const AGENTS: [&str; 2] = ["switch agent", "switch agents"];

/// Show switches, their tables and ports through the switch agents.
#[derive(Debug, Subcommand)]
pub(crate) enum SwitchCommand {
    /// List all switches with state and entries used.
    List {
        /// Instead, list the switch agents whose reports of failed elements count, also those that
        /// are silent.
        #[arg(long)]
        reporters: bool,
        /// With --reporters, also list those that report no failure; JSON has all of them.
        #[arg(long, requires = "reporters")]
        all: bool,
        #[command(flatten)]
        watch: WatchArgs,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Show a switch with state and entries used, or its table, its ports or its counters.
    Show(ShowArgs),
    /// Show present and past drifts: switches whose table differs from what they had confirmed;
    /// exit 1 if there is one now, 2 if no table has been compared yet. The active route service
    /// answers, whichever was named.
    Audit {
        #[command(flatten)]
        watch: WatchArgs,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Forget the failures that a switch agent has reported, as it is gone for good or has another
    /// name now. One that still runs reports again.
    Forget {
        /// Name of the switch agent, as `switch list --reporters` shows it.
        reporter: String,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Older name of `switch show --entries`.
    #[command(hide = true)]
    Table(ShowArgs),
    /// Older name of `switch show --ports`.
    #[command(hide = true)]
    Ports(ShowArgs),
    /// Older name of `switch show --counters`.
    #[command(hide = true)]
    Counters(ShowArgs),
    /// Older name of `switch list --reporters`.
    #[command(hide = true)]
    Reporters {
        #[command(flatten)]
        server: ServerArgs,
    },
}

/// Options of `switch show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// Node id of the switch, such as S-ec0d9a0300ec8240; may be left out with --counters, which
    /// then shows all switches.
    switch: Option<String>,
    /// Show the entries of its multicast table, read back from the hardware.
    #[arg(long, group = "part")]
    entries: bool,
    /// Show its ports with state, peer and packets.
    #[arg(long, group = "part")]
    ports: bool,
    /// Show packets and bytes at its ports; exit 2 if the hardware has no counters.
    #[arg(long, group = "part")]
    counters: bool,
    /// Also list ports without a packet, and those without a cable; JSON has all of them.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    watch: WatchArgs,
    #[command(flatten)]
    server: ServerArgs,
}

impl Run for SwitchCommand {
    fn run(self, globals: &Globals) -> Result<(), Failure> {
        let format = globals.format;
        block_on(async {
            match self {
                Self::List { reporters: true, all, watch, server } => {
                    let remote = Remote::new(&server)?;
                    let show = async || reporters(&remote, all, format).await;
                    output::watched(watch, format, show).await
                }
                Self::Reporters { server } => {
                    reporters(&Remote::new(&server)?, false, format).await
                }
                Self::List { reporters: false, watch, server, .. } => {
                    let remote = Remote::new(&server)?;
                    output::watched(watch, format, async || list(&remote, format).await).await
                }
                Self::Show(args) => show(args, format).await,
                Self::Table(args) => show(ShowArgs { entries: true, ..args }, format).await,
                Self::Ports(args) => show(ShowArgs { ports: true, ..args }, format).await,
                Self::Counters(args) => show(ShowArgs { counters: true, ..args }, format).await,
                Self::Audit { watch, server } => {
                    let remote = Remote::new(&server)?;
                    let is_once = !watch.watch;
                    output::watched(watch, format, async || {
                        let answer = audit(&remote, format).await?;
                        if is_once { audit_verdict(&remote, &answer) } else { Ok(()) }
                    })
                    .await
                }
                Self::Forget { reporter, server } => {
                    let remote = Remote::new(&server)?;
                    let request = v1::RemoveReporterRequest { reporter: reporter.clone() };
                    let answer = remote.answer(remote.tic().remove_reporter(request)).await?;
                    output::done(format, "reporter", &reporter, &answer, |answer| {
                        let failed = answer.failed_count;
                        format!("switch agent {reporter} forgotten, {failed} elements are failed")
                    })
                }
            }
        })
    }

    fn calls_running_parts(&self) -> bool {
        true
    }
}

async fn reporters(remote: &Remote, all: bool, format: Format) -> Result<(), Failure> {
    let answer = remote.answer(remote.tic().list_reporters(v1::ListReportersRequest {})).await?;
    output::message(format, &answer, |list| reporters_text(&list.reporters, all))
}

fn reporters_text(reporters: &[v1::FailureReporter], all: bool) -> String {
    let mut rows = Rows::new(&["SWITCH AGENT", "FAILED"]);
    let mut healthy = 0;
    for v1::FailureReporter { name, failed_count } in reporters {
        if *failed_count == 0 && !all {
            healthy += 1;
            continue;
        }
        rows.push(vec![name.clone(), failed_count.to_string()]);
    }
    format!("{rows}{}", output::left_out(healthy, AGENTS, "a failure"))
}

/// Shows a switch, or the part of it that was asked for.
async fn show(args: ShowArgs, format: Format) -> Result<(), Failure> {
    let ShowArgs { switch, entries, ports, counters, all, watch, server } = args;
    let Some(switch) = switch else {
        if !counters {
            let failure = Failure::input("switch show: give the name of a switch");
            return Err(failure.hint("`fabricast switch list`"));
        }
        let agents = Remote::new(&server)?.switch_agents().await?;
        return output::watched(watch, format, async || {
            for (agent, client) in &agents {
                show_counters(agent, client.clone(), &[], all, format).await?;
            }
            Ok(())
        })
        .await;
    };
    let (agent, client) = agent_of(server, &switch).await?;
    output::watched(watch, format, async || {
        let mut client = client.clone();
        if entries {
            show_entries(&agent, client, &switch, format).await
        } else if ports {
            let request = v1::ListPortsRequest { switch_name: switch.clone() };
            let answer = agent.answer(client.list_ports(request)).await?;
            output::message(format, &answer, |answer| ports_text(answer, all))
        } else if counters {
            show_counters(&agent, client, slice::from_ref(&switch), all, format).await
        } else {
            let listed = agent.answer(client.list_switches(v1::ListSwitchesRequest {})).await?;
            match listed.switches.iter().find(|one| one.name == switch) {
                Some(one) => output::message(format, one, |one| list_text(slice::from_ref(one))),
                None => {
                    Err(Failure::input(format!("no switch '{switch}'"))
                        .hint("`fabricast switch list`"))
                }
            }
        }
    })
    .await
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

async fn show_entries(
    agent: &Remote,
    mut client: SwitchAgentServiceClient<Channel>,
    switch: &str,
    format: Format,
) -> Result<(), Failure> {
    let request = v1::ReadTablesRequest { switch_names: vec![switch.to_owned()] };
    let mut stream = agent.answer(client.read_tables(request)).await?;
    while let Some(part) = stream.message().await.map_err(|status| agent.failed(status))? {
        output::message(format, &part.table.unwrap_or_default(), table_text)?;
    }
    Ok(())
}

/// Shows the counters of these switches of an agent; of all, if none is named.
async fn show_counters(
    agent: &Remote,
    mut client: SwitchAgentServiceClient<Channel>,
    switches: &[String],
    all: bool,
    format: Format,
) -> Result<(), Failure> {
    let request = v1::ReadCountersRequest { switch_names: switches.to_vec() };
    let mut stream = agent.answer(client.read_counters(request)).await?;
    while let Some(part) = stream.message().await.map_err(|status| agent.failed(status))? {
        let counters = part.counters.unwrap_or_default();
        output::message(format, &counters, |one| counters_text(one, all))?;
    }
    Ok(())
}

async fn list(remote: &Remote, format: Format) -> Result<(), Failure> {
    let mut answer = v1::ListSwitchesResponse::default();
    for (agent, mut client) in remote.switch_agents().await? {
        let listed = agent.answer(client.list_switches(v1::ListSwitchesRequest {})).await?;
        answer.switches.extend(listed.switches);
    }
    output::message(format, &answer, |answer| list_text(&answer.switches))
}

fn ports_text(answer: &v1::ListPortsResponse, all: bool) -> String {
    let titles = ["PORT", "STATE", "PEER", "PEER PORT", "RECEIVED", "SENT", "DROPPED"];
    let mut rows = Rows::new(&titles);
    let is_shown = |port: &&v1::PortStatus| {
        let packets = port.received_packets + port.sent_packets + port.dropped_packets;
        all || !port.peer.is_empty() || packets > 0
    };
    let ports: Vec<&v1::PortStatus> = answer.ports.iter().filter(is_shown).collect();
    for port in &ports {
        rows.push(vec![
            port.port.to_string(),
            if port.live { "up" } else { "down" }.to_owned(),
            port.peer.clone(),
            output::port(port.peer_port),
            port.received_packets.to_string(),
            port.sent_packets.to_string(),
            port.dropped_packets.to_string(),
        ]);
    }
    let left_out = output::left_out(answer.ports.len() - ports.len(), PORTS, "a cable");
    format!("{rows}{left_out}")
}

/// Shows the drifts that the active route service has found.
async fn audit(remote: &Remote, format: Format) -> Result<v1::ListTableDriftsResponse, Failure> {
    let answer = remote
        .answer(remote.router().await?.list_table_drifts(v1::ListTableDriftsRequest {}))
        .await?;
    output::message(format, &answer, drifts_text)?;
    Ok(answer)
}

fn audit_verdict(remote: &Remote, answer: &v1::ListTableDriftsResponse) -> Result<(), Failure> {
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

fn counters_text(counters: &v1::SwitchCounters, all: bool) -> String {
    let titles =
        ["PORT", "PACKETS RECEIVED", "PACKETS SENT", "BYTES RECEIVED", "BYTES SENT", "DROPPED"];
    let mut rows = Rows::new(&titles);
    let mut idle = 0;
    for port in &counters.ports {
        let packets = port.received_packets + port.sent_packets + port.dropped_packets;
        if packets == 0 && !all {
            idle += 1;
            continue;
        }
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
    format!("{}\n{rows}{}", counters.switch_name, output::left_out(idle, PORTS, "a packet"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switch_agents_without_a_failure_are_counted_and_listed_if_asked_for() {
        let reporter =
            |name: &str, failed_count| v1::FailureReporter { name: name.to_owned(), failed_count };
        let reporters = [reporter("a", 0), reporter("b", 2), reporter("c", 0)];
        let text = reporters_text(&reporters, false);
        let lines: Vec<&str> = text.lines().collect();
        let left_out = "2 switch agents without a failure, which --all lists";
        assert_eq!(lines, ["SWITCH AGENT  FAILED", "b             2", left_out]);
        assert_eq!(reporters_text(&reporters, true).lines().count(), 4);
    }
}
