//! `fabricast fabric`: break, mend and probe a running emulated fabric.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::{ArgGroup, Args, Subcommand, value_parser};
use fabricast_config::FabricConfig;
use fabricast_proto::v1;
use fabricast_proto::v1::disturb_switch_request::Disturbance;
use fabricast_proto::v1::element::Kind;

use crate::args::{Format, ServerArgs, TraceArgs, value_or_option};
use crate::command::{Globals, Run};
use crate::dry_run;
use crate::failure::Failure;
use crate::output;
use crate::remote::{Remote, block_on};
use crate::serve::{Part, PartArgs, ReloadableSettings, block_on_threads, security, topology};

/// Run the emulated fabric alone, or break, repair and probe a running one.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub(crate) struct FabricArgs {
    /// Run the emulated fabric with these settings.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Check the settings and exit; 78 if they are wrong.
    #[arg(long, requires = "config")]
    check_config: bool,
    /// Address for GET /metrics, for Prometheus; default: none.
    #[arg(long, requires = "config", value_name = "IP:PORT")]
    metrics: Option<SocketAddr>,
    /// Command for a running fabric.
    #[command(subcommand)]
    command: Option<FabricCommand>,
}

impl Run for FabricArgs {
    fn run(self, globals: &Globals) -> Result<(), Failure> {
        match (self.config, self.command) {
            (_, Some(command)) => run_verb(command, globals.format),
            (Some(config), None) => {
                let (check_config, metrics) = (self.check_config, self.metrics);
                serve(&PartArgs { config, check_config, metrics }, &globals.trace)
            }
            (None, None) => Err(Failure::input("fabric: give --config or a verb")),
        }
    }

    fn calls_running_parts(&self) -> bool {
        self.command.is_some()
    }
}

/// Verbs of `fabric` on a running fabric.
#[derive(Debug, Subcommand)]
enum FabricCommand {
    /// Break a link, a switch or an endpoint.
    Fail(ElementArgs),
    /// Repair a link, a switch or an endpoint.
    Heal(ElementArgs),
    /// Delete all entries of a switch's table behind the control plane's back.
    Wipe(TableArgs),
    /// Corrupt entries of a switch's table behind the control plane's back.
    Corrupt {
        /// Number of entries, spread over the table.
        #[arg(long, default_value_t = 1, value_parser = value_parser!(u32).range(1..))]
        entries: u32,
        #[command(flatten)]
        table: TableArgs,
    },
    /// Make a switch slow or unable to take writes; without options, normal again.
    #[command(alias = "programming")]
    Disturb {
        /// Delay of each write in milliseconds; at most 60 000.
        #[arg(long, value_name = "MS", default_value_t = 0,
            value_parser = value_parser!(u64).range(..=60_000))]
        delay_ms: u64,
        /// Refuse all writes.
        #[arg(long)]
        fails: bool,
        #[command(flatten)]
        table: TableArgs,
    },
    /// Send one packet from an endpoint and print where it went.
    Send {
        /// Endpoint that sends the packet: name, or GUID of its port.
        #[arg(long)]
        endpoint: String,
        /// MGID of the packet.
        #[arg(long)]
        mgid: u32,
        /// Color of the packet.
        #[arg(long)]
        color: u32,
        /// Payload, as text.
        #[arg(long, default_value = "")]
        payload: String,
        #[command(flatten)]
        server: ServerArgs,
    },
}

value_or_option! {
    /// Name of a switch.
    struct SwitchNameArgs {
        /// Node id of the switch.
        "switch": "SWITCH"
    }
}

/// Multicast forwarding table of one switch.
#[derive(Debug, Args)]
struct TableArgs {
    #[command(flatten)]
    switch: SwitchNameArgs,
    #[command(flatten)]
    server: ServerArgs,
}

/// One part of the fabric.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("element").required(true).args(["link", "switch", "endpoint"])))]
struct ElementArgs {
    /// A link, named by a switch port: SWITCH:PORT.
    #[arg(long, value_name = "SWITCH:PORT")]
    link: Option<String>,
    /// A switch, by its node id.
    #[arg(long)]
    switch: Option<String>,
    /// An endpoint: name, or GUID of its port.
    #[arg(long)]
    endpoint: Option<String>,
    /// Only print which groups it would affect; change nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    server: ServerArgs,
}

fn serve(args: &PartArgs, trace: &TraceArgs) -> Result<(), Failure> {
    let reloadable = ReloadableSettings::<FabricConfig>::read(args, trace)?;
    let config = reloadable.part();
    let topology = topology("fabric", &config.topology)?;
    if args.check_config {
        return Ok(());
    }
    let security = security(config.certificates.as_deref(), config.limits)?;
    let telemetry = reloadable.telemetry("fabricast-fabric")?;
    block_on_threads(async {
        let app = fabricast_fabric::App::bind(&config, security.clone(), topology.graph)
            .context("start the emulated fabric")?;
        let following = reloadable.follow(&telemetry, &security, |_config| {});
        let part = Part { role: "fabric", address: app.address(), metrics: args.metrics };
        part.serve(following, |stop| app.run(stop)).await
    })
}

fn run_verb(command: FabricCommand, format: Format) -> Result<(), Failure> {
    block_on(async {
        match command {
            FabricCommand::Fail(args) if args.dry_run => {
                let (remote, element) = (Remote::new(&args.server)?, element(args)?);
                let what = format!("fail {}", part_name(&element));
                let faults = v1::PlanFaultsRequest { failed: vec![element], ..Default::default() };
                dry_run::faults(&remote, faults, what, format).await
            }
            FabricCommand::Heal(args) if args.dry_run => {
                let (remote, element) = (Remote::new(&args.server)?, element(args)?);
                let what = format!("heal {}", part_name(&element));
                let faults = v1::PlanFaultsRequest { healed: vec![element], ..Default::default() };
                dry_run::faults(&remote, faults, what, format).await
            }
            FabricCommand::Fail(args) => {
                let (remote, element) = (Remote::new(&args.server)?, element(args)?);
                let part = part_name(&element);
                let request = v1::FailElementRequest { element: Some(element) };
                let answer = remote.answer(remote.fabric().await?.fail_element(request)).await?;
                output::done(format, "element", &part, &answer, |answer| {
                    let is = if answer.changed { "is down now" } else { "was down already" };
                    format!("{part} {is}")
                })
            }
            FabricCommand::Heal(args) => {
                let (remote, element) = (Remote::new(&args.server)?, element(args)?);
                let part = part_name(&element);
                let request = v1::HealElementRequest { element: Some(element) };
                let answer = remote.answer(remote.fabric().await?.heal_element(request)).await?;
                output::done(format, "element", &part, &answer, |answer| {
                    let is = if answer.changed { "is up again" } else { "was up already" };
                    format!("{part} {is}")
                })
            }
            FabricCommand::Wipe(table) => {
                disturb(table, Disturbance::Wipe(v1::WipeTable {}), "wiped", format).await
            }
            FabricCommand::Corrupt { entries, table } => {
                let corrupt = v1::CorruptTable { entries };
                disturb(table, Disturbance::Corrupt(corrupt), "corrupted", format).await
            }
            FabricCommand::Disturb { delay_ms, fails, table } => {
                let delay = prost_types::Duration::try_from(Duration::from_millis(delay_ms)).ok();
                let manner = v1::Programming { delay, fails };
                let done = match (fails, delay_ms) {
                    (true, _) => "takes no writes now".to_owned(),
                    (false, 0) => "takes writes as usual".to_owned(),
                    (false, delay) => format!("takes {delay} ms for each write now"),
                };
                disturb(table, Disturbance::Programming(manner), &done, format).await
            }
            FabricCommand::Send { endpoint, mgid, color, payload, server } => {
                let remote = Remote::new(&server)?;
                let packet =
                    v1::Packet { mgid, color, payload: payload.into_bytes(), ..Default::default() };
                let request =
                    v1::InjectPacketRequest { endpoint: endpoint.clone(), packet: Some(packet) };
                let answer = remote.answer(remote.fabric().await?.inject_packet(request)).await?;
                output::done(format, "endpoint", &endpoint, &answer, |answer| {
                    format!("packet of endpoint {endpoint}: {}", injected_text(answer))
                })
            }
        }
    })
}

async fn disturb(
    table: TableArgs,
    disturbance: Disturbance,
    done: &str,
    format: Format,
) -> Result<(), Failure> {
    let remote = Remote::new(&table.server)?;
    let switch = table.switch.get().to_owned();
    let disturbance = Some(disturbance);
    let request = v1::DisturbSwitchRequest { switch_name: switch.clone(), disturbance };
    let answer = remote.answer(remote.fabric().await?.disturb_switch(request)).await?;
    output::done(format, "switch", &switch, &answer, |answer| match answer.changed_entries {
        0 => format!("switch {switch} {done}"),
        changed => format!("switch {switch} {done}, {changed} entries changed"),
    })
}

fn element(args: ElementArgs) -> Result<v1::Element, Failure> {
    let kind = match (args.link, args.switch, args.endpoint) {
        (Some(link), None, None) => Kind::Link(port_name(&link)?),
        (None, Some(switch), None) => Kind::SwitchName(switch),
        (None, None, Some(endpoint)) => Kind::Endpoint(endpoint),
        _ => return Err(Failure::input("give one of --link, --switch, --endpoint")),
    };
    Ok(v1::Element { kind: Some(kind) })
}

/// The part as people name it.
fn part_name(element: &v1::Element) -> String {
    match &element.kind {
        Some(Kind::Link(end)) => format!("link {}:{}", end.switch_name, end.port),
        Some(Kind::SwitchName(switch)) => format!("switch {switch}"),
        Some(Kind::Endpoint(endpoint)) => format!("endpoint {endpoint}"),
        None => "nothing".to_owned(),
    }
}

/// Reads `SWITCH:PORT`; the name may itself contain colons.
fn port_name(text: &str) -> Result<v1::PortName, Failure> {
    let wrong = || Failure::input(format!("--link: '{text}' is not SWITCH:PORT"));
    let (switch, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let port = port.parse().map_err(|_| wrong())?;
    Ok(v1::PortName { switch_name: switch.to_owned(), port })
}

fn injected_text(answer: &v1::InjectPacketResponse) -> String {
    let mut text = format!(
        "{} hops, {} copies delivered, {} without entry, {} at dead ports{}",
        answer.hops,
        answer.delivered.len(),
        answer.dropped_no_entry,
        answer.dropped_dead_port,
        if answer.looped { ", LOOP" } else { "" }
    );
    for endpoint in &answer.delivered {
        text.push('\n');
        text.push_str(endpoint);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_named_by_switch_and_port() {
        let name = port_name("MF0;switch:SX6012/U1:12").unwrap();
        assert_eq!((name.switch_name.as_str(), name.port), ("MF0;switch:SX6012/U1", 12));
        assert!(port_name("S-1").is_err());
        assert!(port_name("S-1:x").is_err());
    }
}
