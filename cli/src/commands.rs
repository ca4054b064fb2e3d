//! The list of commands. To add one, write `commands/NAME.rs` and register it here.

use clap::Subcommand;

use crate::args::Format;
use crate::command::{Globals, Run};
use crate::failure::Failure;

mod capacity;
mod certs;
mod collective;
mod completions;
mod console;
mod context;
mod debug;
mod demo;
mod eval;
mod events;
mod fabric;
mod group;
mod health;
mod job;
mod link;
mod manual;
mod node;
mod operating_agent;
mod route;
mod router;
mod run;
mod slurm;
mod status;
mod store;
mod switch;
mod switch_agent;
mod tic;
mod topology;
mod up;
mod version;

/// Makes the enum that clap parses into, and passes each call on to the command that was chosen.
macro_rules! commands {
    ($($(#[$attribute:meta])* $name:ident($arguments:ty),)*) => {
        /// The command that was chosen, with its arguments.
        #[derive(Debug, Subcommand)]
        pub(crate) enum Command {
            $($(#[$attribute])* $name($arguments),)*
        }

        impl Run for Command {
            fn run(self, globals: &Globals) -> Result<(), Failure> {
                match self { $(Self::$name(command) => command.run(globals),)* }
            }

            fn has_format(&self, format: Format) -> bool {
                match self { $(Self::$name(command) => command.has_format(format),)* }
            }

            fn calls_running_parts(&self) -> bool {
                match self { $(Self::$name(command) => command.calls_running_parts(),)* }
            }
        }
    };
}

// In the order of the help. A command with verbs of its own is marked as `subcommand`.
commands! {
    Demo(demo::DemoArgs),
    Up(up::UpArgs),
    Run(run::RunArgs),
    #[command(hide = true)] RunKeeper(run::RunKeeperArgs),
    Tic(tic::TicArgs),
    Router(router::RouterArgs),
    Fabric(fabric::FabricArgs),
    OperatingAgent(operating_agent::OperatingAgentArgs),
    SwitchAgent(switch_agent::SwitchAgentArgs),
    #[command(subcommand)] Topology(topology::TopologyCommand),
    #[command(subcommand)] Route(route::RouteCommand),
    // Older name: `capacity plan`.
    #[command(subcommand, alias = "plan")] Capacity(capacity::CapacityCommand),
    #[command(subcommand)] Job(job::JobCommand),
    #[command(subcommand)] Slurm(slurm::SlurmCommand),
    #[command(subcommand)] Collective(collective::CollectiveCommand),
    Eval(eval::EvalArgs),
    #[command(subcommand)] Group(group::GroupCommand),
    #[command(subcommand)] Node(node::NodeCommand),
    #[command(subcommand)] Switch(switch::SwitchCommand),
    #[command(subcommand)] Link(link::LinkCommand),
    #[command(subcommand)] Store(store::StoreCommand),
    Status(status::StatusArgs),
    Events(events::EventsArgs),
    Health(health::HealthArgs),
    Console(console::ConsoleArgs),
    #[command(subcommand)] Context(context::ContextCommand),
    #[command(subcommand)] Debug(debug::DebugCommand),
    #[command(subcommand)] Certs(certs::CertsCommand),
    Version(version::VersionArgs),
    Completions(completions::CompletionsArgs),
    Manual(manual::ManualArgs),
}
