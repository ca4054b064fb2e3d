//! The command line: reads arguments, calls what does the work, prints the results.
//!
//! Read [`args`] first, the one definition of all verbs and flags, then [`run`].

pub mod args;
pub mod cluster;
mod commands;
mod demo;
mod failure;
mod group_file;
mod live;
mod loads;
mod nodes;
pub mod output;
mod pattern;
mod progress;
mod remote;
mod scene;
mod source;
mod voice;

pub use failure::Failure;
pub use source::Topology;

use args::{Cli, Command, Format, JobCommand, ServeArgs, TopologyCommand};

/// The services make and drop a great many small values on all threads; with the allocator of the C library that is a
/// fifth of their work.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Does what the command line says.
///
/// # Errors
///
/// [`Failure`] with the exit code and the one message for standard error.
pub fn run(cli: Cli) -> Result<(), Failure> {
    let format = cli.format;
    check_format(format, &cli.command)?;
    let trace = cli.trace;
    let _traced = voice::trace(&trace, &cli.verb, &cli.command)?;
    match cli.command {
        Command::Demo(args) => demo::run(&args, format),
        Command::Up(args) => commands::serve::up(&args, &trace),
        Command::Run(args) => commands::run::run(&args),
        Command::RunKeeper => commands::run::keep(),
        Command::Tic(args) => commands::serve::tic(args, &trace),
        Command::Router(args) => commands::serve::router(args, &trace),
        Command::Fabric(args) => match (args.config, args.command) {
            (_, Some(command)) => commands::fabric::run(command, format),
            (Some(config), None) => {
                let (check_config, metrics) = (args.check_config, args.metrics);
                commands::serve::fabric(ServeArgs { config, check_config, metrics }, &trace)
            }
            (None, None) => Err(Failure::input("fabric: give --config or a verb")),
        },
        Command::OperatingAgent(args) => commands::serve::operating_agent(args, &trace),
        Command::SwitchAgent(args) => commands::serve::switch_agent(args, &trace),
        Command::Topology(command) => commands::topology::run(command, format),
        Command::Plan(command) => commands::plan::run(command, format),
        Command::Job(command) => commands::job::run(command, format),
        Command::Collective(command) => commands::collective::run(command, format),
        Command::Eval(args) => commands::eval::run(&args, format),
        Command::Route(command) => commands::route::run(command, format),
        Command::Group(command) => commands::group::run(command, format),
        Command::Node(command) => commands::node::run(command, format),
        Command::Switch(command) => commands::switch::run(command, format),
        Command::Health(args) => commands::health::run(&args, format),
        Command::Debug(command) => commands::debug::run(command, format),
        Command::Certs(command) => commands::certs::run(command, format),
        Command::Store(command) => commands::store::run(command, format),
    }
}

/// Refuses a form of output that a verb does not have.
fn check_format(format: Format, command: &Command) -> Result<(), Failure> {
    let has = match format {
        Format::Table | Format::Json => true,
        Format::Hostlist => matches!(
            command,
            Command::Job(JobCommand::Plan(_) | JobCommand::Allocate(_) | JobCommand::Show { .. })
        ),
        Format::Slurm => matches!(command, Command::Topology(TopologyCommand::Export { .. })),
    };
    let name = if format == Format::Slurm { "slurm" } else { "hostlist" };
    let hint = "table and json are for every verb, hostlist for `job`, slurm for `topology export`";
    if has {
        Ok(())
    } else {
        Err(Failure::input(format!("--format {name}: this verb does not have it")).hint(hint))
    }
}
