//! `fabricast health`: asks whether the parts at an address serve.

use clap::Args;
use fabricast_proto::v1;
use fabricast_proto::v1::administration_service_client::AdministrationServiceClient;
use serde::Serialize;

use crate::args::{ServerArgs, WatchArgs};
use crate::color::painted_state;
use crate::command::{Globals, Run};
use crate::failure::Failure;
use crate::output;
use crate::remote::{Remote, block_on};

/// Result of the command.
#[derive(Serialize)]
struct Health {
    address: String,
    serving: bool,
    services: Vec<ServiceHealth>,
}

/// Health of one service.
#[derive(Serialize)]
struct ServiceHealth {
    service: String,
    serving: bool,
}

/// Ask whether the parts at an address serve, also whether a TIC can do its work; exit 1 if one
/// does not. For people and container probes.
#[derive(Debug, Args)]
pub(crate) struct HealthArgs {
    /// Only ask for this service, such as fabricast.v1.TicService; default: those of all parts at
    /// the address.
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
    /// Only ask whether the process answers, as probes do that restart it: a TIC whose store does
    /// not answer is alive.
    #[arg(long, conflicts_with = "service")]
    alive: bool,
    #[command(flatten)]
    watch: WatchArgs,
    #[command(flatten)]
    server: ServerArgs,
}

impl Run for HealthArgs {
    fn run(self, globals: &Globals) -> Result<(), Failure> {
        let (args, format) = (&self, globals.format);
        block_on(async {
            let remote = Remote::new(&args.server)?;
            let names = match &args.service {
                Some(name) => vec![name.clone()],
                None if args.alive => vec![String::new()],
                None => services(&remote).await?,
            };
            let is_once = !args.watch.watch;
            output::watched(args.watch, format, async || {
                let health = Health::ask(&remote, &names).await?;
                output::print(format, &health, text)?;
                if is_once && !health.serving {
                    return Err(Failure::No(format!("{} does not serve", health.address)));
                }
                Ok(())
            })
            .await
        })
    }
}

impl Health {
    /// Asks for services by their names; an empty one is the whole server.
    async fn ask(remote: &Remote, names: &[String]) -> Result<Self, Failure> {
        let mut services = Vec::new();
        for service in names {
            let serving = remote.is_serving(service).await?;
            services.push(ServiceHealth { service: service.clone(), serving });
        }
        let serving = services.iter().all(|one| one.serving);
        Ok(Self { address: remote.peer().address().to_string(), serving, services })
    }
}

/// The service of each part at the address; its health is that of the part.
async fn services(remote: &Remote) -> Result<Vec<String>, Failure> {
    let mut client = AdministrationServiceClient::new(remote.peer().channel());
    let info = remote.answer(client.get_server_info(v1::GetServerInfoRequest {})).await?;
    let name = |role: &String| match role.as_str() {
        "tic" => "fabricast.v1.TicService",
        "router" => "fabricast.v1.RouteService",
        "fabric" => "fabricast.v1.FabricService",
        "operating-agent" => "fabricast.v1.OperatingAgentService",
        "switch-agent" => "fabricast.v1.SwitchAgentService",
        _ => "", // of a newer version: the server as a whole
    };
    Ok(info.roles.iter().map(name).map(str::to_owned).collect())
}

fn text(health: &Health) -> String {
    let address = &health.address;
    if health.serving {
        return format!("{address}: {}", painted_state("serving"));
    }
    let not = health.services.iter().filter(|one| !one.serving && !one.service.is_empty());
    let not: Vec<&str> = not.map(|one| one.service.as_str()).collect();
    if not.is_empty() {
        return format!("{address}: {}", painted_state("not serving"));
    }
    format!("{address}: {}: {}", painted_state("not serving"), not.join(", "))
}
