//! `fabricast fabric`: break, mend and probe a running emulated fabric.

use std::time::Duration;

use fabricast_proto::v1;
use fabricast_proto::v1::disturb_switch_request::Disturbance;
use fabricast_proto::v1::element::Kind;

use crate::args::{ElementArgs, FabricCommand, Format, TableArgs};
use crate::commands::dry_run;
use crate::failure::Failure;
use crate::output;
use crate::remote::{Remote, block_on};

/// Runs one verb.
///
/// # Errors
///
/// See [`Failure`].
pub(crate) fn run(command: FabricCommand, format: Format) -> Result<(), Failure> {
    block_on(async {
        match command {
            FabricCommand::Fail(args) if args.dry_run => {
                dry_run::element(&Remote::new(&args.server)?, element(args)?, "fail", format).await
            }
            FabricCommand::Heal(args) if args.dry_run => {
                dry_run::element(&Remote::new(&args.server)?, element(args)?, "heal", format).await
            }
            FabricCommand::Fail(args) => {
                let (remote, element) = (Remote::new(&args.server)?, element(args)?);
                let request = v1::FailElementRequest { element: Some(element) };
                let answer = remote.fabric().fail_element(request).await;
                let answer = answer.map_err(|status| remote.failed(status))?.into_inner();
                output::message(format, &answer, |answer| {
                    if answer.changed { "is down now" } else { "was down already" }.to_owned()
                })
            }
            FabricCommand::Heal(args) => {
                let (remote, element) = (Remote::new(&args.server)?, element(args)?);
                let request = v1::HealElementRequest { element: Some(element) };
                let answer = remote.fabric().heal_element(request).await;
                let answer = answer.map_err(|status| remote.failed(status))?.into_inner();
                output::message(format, &answer, |answer| {
                    if answer.changed { "is up again" } else { "was up already" }.to_owned()
                })
            }
            FabricCommand::Wipe(table) => {
                disturb(table, Disturbance::Wipe(v1::WipeTable {}), format).await
            }
            FabricCommand::Corrupt { entries, table } => {
                disturb(table, Disturbance::Corrupt(v1::CorruptTable { entries }), format).await
            }
            FabricCommand::Programming { delay_ms, fails, table } => {
                let delay = prost_types::Duration::try_from(Duration::from_millis(delay_ms)).ok();
                let manner = v1::Programming { delay, fails };
                disturb(table, Disturbance::Programming(manner), format).await
            }
            FabricCommand::Send { endpoint, mgid, color, payload, server } => {
                let remote = Remote::new(&server)?;
                let packet =
                    v1::Packet { mgid, color, payload: payload.into_bytes(), ..Default::default() };
                let request = v1::InjectPacketRequest { endpoint, packet: Some(packet) };
                let answer = remote.fabric().inject_packet(request).await;
                let answer = answer.map_err(|status| remote.failed(status))?.into_inner();
                output::message(format, &answer, injected_text)
            }
        }
    })
}

async fn disturb(
    table: TableArgs,
    disturbance: Disturbance,
    format: Format,
) -> Result<(), Failure> {
    let remote = Remote::new(&table.server)?;
    let disturbance = Some(disturbance);
    let request = v1::DisturbSwitchRequest { switch_name: table.switch, disturbance };
    let answer = remote.fabric().disturb_switch(request).await;
    let answer = answer.map_err(|status| remote.failed(status))?.into_inner();
    output::message(format, &answer, |answer| format!("{} entries changed", answer.changed_entries))
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
