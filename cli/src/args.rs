//! The command line: every verb, flag and default, in one definition.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum, value_parser};
use fabricast_routing::MAX_COLORS;

/// Control plane for hardware multicast on fat-tree fabrics.
#[derive(Debug, Parser)]
#[command(name = "fabricast", version, max_term_width = 100, arg_required_else_help = true)]
pub struct Cli {
    /// How results are printed.
    #[arg(long, global = true, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// How results are printed on standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables for people.
    Table,
    /// JSON for programs.
    Json,
}

/// Numbers of colors that a fabric can have.
fn colors() -> clap::builder::RangedI64ValueParser<u16> {
    value_parser!(u16).range(1..=i64::from(MAX_COLORS))
}

/// Reads how many members of a group send: a check in which nobody sends checks nothing.
fn senders(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("with no sender nothing is checked, give 1 or more".to_owned()),
        Ok(senders) => Ok(senders),
        Err(error) => Err(format!("{error}")),
    }
}

/// The nouns.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the main job on the emulated fabric, start to finish; exit 0 only if every check held.
    Demo(DemoArgs),
    /// Run every part in one process and serve until interrupted.
    Up(UpArgs),
    /// Run the topology information center alone.
    Tic(ServeArgs),
    /// Run the route service alone.
    Router(ServeArgs),
    /// Run the emulated fabric alone, or break, mend and probe a running one.
    Fabric(FabricArgs),
    /// Run operating agents (with the group agents they host) alone.
    OperatingAgent(ServeArgs),
    /// Run a switch agent alone.
    SwitchAgent(ServeArgs),
    /// Generate, read, check and show topologies.
    #[command(subcommand)]
    Topology(TopologyCommand),
    /// Plan, verify and explain routes.
    #[command(subcommand)]
    Route(RouteCommand),
    /// Create, join, leave and show groups of a running control plane.
    #[command(subcommand)]
    Group(GroupCommand),
    /// Show, expel, stop and start nodes of a running control plane.
    #[command(subcommand)]
    Node(NodeCommand),
    /// Show switches, their tables and ports through the switch agent.
    #[command(subcommand)]
    Switch(SwitchCommand),
}

/// Options of `demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// File as `ibnetdiscover` prints it, a topology spec in TOML, or `paper`; left out, a real
    /// cluster of 96 hosts.
    #[arg(long, value_name = "FILE|paper")]
    pub topology: Option<String>,
    /// Groups in JSON lines; left out, rows and columns of a 2-D grid and one global group.
    #[arg(long, value_name = "FILE")]
    pub groups: Option<PathBuf>,
    /// Entries of a multicast table (C).
    #[arg(long, default_value_t = 32, value_parser = colors())]
    pub colors: u16,
    /// File for the records; left out, a new one in a temporary folder.
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
    /// Members of every group that send in each check.
    #[arg(long, default_value_t = 3, value_parser = senders)]
    pub senders: usize,
}

/// Options of `up`.
#[derive(Debug, Args)]
pub struct UpArgs {
    /// File as `ibnetdiscover` prints it, a topology spec in TOML, or `paper`; left out, a real
    /// cluster of 96 hosts.
    #[arg(long, value_name = "FILE|paper")]
    pub topology: Option<String>,
    /// File for the records, or `memory`.
    #[arg(long, value_name = "FILE|memory", default_value = "memory")]
    pub store: String,
    /// Address at which all services answer.
    #[arg(long, default_value = "127.0.0.1:7400")]
    pub listen: std::net::SocketAddr,
    /// Entries of a multicast table (C).
    #[arg(long, default_value_t = 32, value_parser = colors())]
    pub colors: u16,
}

/// Options of a part that runs alone.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Settings of the part, in TOML.
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Check the settings and exit.
    #[arg(long)]
    pub check_config: bool,
}

/// `fabric`: run it, or break and mend a running one.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub struct FabricArgs {
    /// Run the emulated fabric with these settings.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Check the settings and exit.
    #[arg(long, requires = "config")]
    pub check_config: bool,
    /// What to do to a running fabric.
    #[command(subcommand)]
    pub command: Option<FabricCommand>,
}

/// Where a running control plane answers.
#[derive(Debug, Args)]
pub struct ServerArgs {
    /// Address of the running control plane.
    #[arg(
        long,
        env = "FABRICAST_SERVER",
        default_value = "127.0.0.1:7400",
        value_name = "HOST:PORT"
    )]
    pub server: String,
}

/// Verbs of `fabric` on a running fabric.
#[derive(Debug, Subcommand)]
pub enum FabricCommand {
    /// Break a link, a switch or an endpoint.
    Fail(ElementArgs),
    /// Mend a link, a switch or an endpoint.
    Heal(ElementArgs),
    /// Send one packet from an endpoint and say where it went.
    Send {
        /// Sending endpoint.
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
        /// The server.
        #[command(flatten)]
        server: ServerArgs,
    },
}

/// One part of the fabric.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("element").required(true).args(["link", "switch", "endpoint"])))]
pub struct ElementArgs {
    /// A link, named by a switch port: SWITCH:PORT.
    #[arg(long, value_name = "SWITCH:PORT")]
    pub link: Option<String>,
    /// A switch, by its node id.
    #[arg(long)]
    pub switch: Option<String>,
    /// An endpoint.
    #[arg(long)]
    pub endpoint: Option<String>,
    /// Only say which groups it would touch; nothing changes.
    #[arg(long)]
    pub dry_run: bool,
    /// The server.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Verbs of `topology`.
#[derive(Debug, Subcommand)]
pub enum TopologyCommand {
    /// Make a topology from a spec in TOML and write it as `ibnetdiscover` would print it.
    Generate {
        /// The spec; or a preset: `paper`, `demo`.
        #[arg(long, value_name = "FILE|PRESET")]
        spec: String,
        /// Output file; left out, standard output.
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// Read what `ibnetdiscover` printed, say what was found, and write it back in normal form.
    Import {
        /// The file.
        file: PathBuf,
        /// Output file; left out, only the summary is printed.
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// Write a topology (file, spec or preset) as `ibnetdiscover` prints it, on standard output.
    Export {
        /// The file, spec or preset.
        file: String,
    },
    /// List switches and endpoints.
    Show {
        /// The file, spec or preset.
        file: String,
    },
    /// Exit 1 if anything breaks the regularity of the fat tree.
    Check {
        /// The file, spec or preset.
        file: String,
    },
    /// Find out which fat tree a topology is.
    Detect {
        /// The file, spec or preset.
        file: String,
    },
}

/// Verbs of `route`.
#[derive(Debug, Subcommand)]
pub enum RouteCommand {
    /// Compute trees for groups without a running control plane.
    Plan(PlanArgs),
    /// Walk packets through tables and check that every member is reached exactly once.
    Verify(VerifyArgs),
    /// Explain the route of a group of a running control plane.
    Explain {
        /// Name of the group.
        #[arg(long)]
        group: String,
        /// The server.
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Show how far the running route service has come.
    Status {
        /// The server.
        #[command(flatten)]
        server: ServerArgs,
    },
}

/// How tables are organised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Tables {
    /// Every input port has a table of its own.
    PerPort,
    /// One table serves the whole switch.
    PerSwitch,
}

/// The engines that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EngineName {
    /// C-MR4LMS with the fixed root.
    #[value(name = "c-mr4lms-fixed")]
    CMr4lmsFixed,
}

/// Options of `route plan`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("what").required(true).args(["groups", "pattern"])))]
pub struct PlanArgs {
    /// The topology: file, spec or preset.
    #[arg(long)]
    pub topology: String,
    /// Groups in JSON lines.
    #[arg(long, value_name = "FILE")]
    pub groups: Option<PathBuf>,
    /// Groups of a process grid instead: `64x32x16` (one group per line and dimension), or
    /// `random:N:SEED`.
    #[arg(long, value_name = "XxY|XxYxZ|random:N:SEED", allow_hyphen_values = true)]
    pub pattern: Option<String>,
    /// Processes per endpoint of a pattern.
    #[arg(long, default_value_t = 1, conflicts_with = "groups",
        value_parser = value_parser!(u32).range(1..))]
    pub processes: u32,
    /// MGID layers of a pattern.
    #[arg(long, value_enum, default_value_t = Layers::Compact, conflicts_with = "groups")]
    pub layers: Layers,
    /// The engine.
    #[arg(long, value_enum, default_value_t = EngineName::CMr4lmsFixed)]
    pub engine: EngineName,
    /// Entries of a multicast table (C).
    #[arg(long, default_value_t = 32, value_parser = colors())]
    pub colors: u16,
    /// How tables are organised.
    #[arg(long, value_enum, default_value_t = Tables::PerPort)]
    pub tables: Tables,
    /// Output file for the routes.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Output file for the tables.
    #[arg(long, value_name = "FILE")]
    pub tables_out: Option<PathBuf>,
    /// Output file for the groups with their MGIDs.
    #[arg(long, value_name = "FILE")]
    pub groups_out: Option<PathBuf>,
}

/// MGID layers of a process grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Layers {
    /// Few and even layers.
    Compact,
    /// The construction of the paper's proof.
    Wide,
}

/// Options of `route verify`.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// The topology: file, spec or preset.
    #[arg(long)]
    pub topology: String,
    /// Groups in JSON lines.
    #[arg(long, value_name = "FILE")]
    pub groups: PathBuf,
    /// Routes in JSON lines.
    #[arg(long, value_name = "FILE")]
    pub routes: PathBuf,
    /// Tables in JSON lines; left out, they are made from the routes.
    #[arg(long, value_name = "FILE")]
    pub tables: Option<PathBuf>,
    /// Send from every member, not only from one member per leaf switch and group.
    #[arg(long)]
    pub all_senders: bool,
}

/// One process of a group.
#[derive(Debug, Args)]
pub struct MemberArgs {
    /// Name of the group.
    pub group: String,
    /// Node of the process.
    #[arg(long)]
    pub node: String,
    /// Name of the process.
    #[arg(long, default_value = "p0")]
    pub process: String,
    /// The server.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Options that a new group takes.
#[derive(Debug, Args)]
pub struct NewGroupArgs {
    /// Endpoint to join with; left out, the first of the node.
    #[arg(long)]
    pub endpoint: Option<String>,
    /// MGID; left out, the TIC chooses.
    #[arg(long)]
    pub mgid: Option<u32>,
    /// Keep the group when its last member leaves.
    #[arg(long)]
    pub persistent: bool,
    /// Never merge the group with others.
    #[arg(long)]
    pub exclusive: bool,
}

/// Verbs of `group`.
#[derive(Debug, Subcommand)]
pub enum GroupCommand {
    /// Create a group with its first member; exit 1 if it exists.
    Create {
        /// The first member.
        #[command(flatten)]
        member: MemberArgs,
        /// What the group is like.
        #[command(flatten)]
        options: NewGroupArgs,
    },
    /// Join a process to a group; an unknown group is created.
    Join {
        /// The member.
        #[command(flatten)]
        member: MemberArgs,
        /// What a new group is like.
        #[command(flatten)]
        options: NewGroupArgs,
    },
    /// Take a process out of a group.
    Leave {
        /// The member.
        #[command(flatten)]
        member: MemberArgs,
    },
    /// Send one packet from a member to the others.
    Send {
        /// The sender.
        #[command(flatten)]
        member: MemberArgs,
        /// Payload, as text.
        #[arg(long, default_value = "")]
        payload: String,
    },
    /// Remove a group with all its members.
    Delete {
        /// Name of the group.
        group: String,
        /// Only say whom it would touch; nothing changes.
        #[arg(long)]
        dry_run: bool,
        /// The server.
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Show a group with its members.
    Show {
        /// Name of the group.
        group: String,
        /// The server.
        #[command(flatten)]
        server: ServerArgs,
    },
    /// List groups.
    List {
        /// The server.
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Join every member of every group of a file, one process per endpoint and group file line.
    Form {
        /// Groups in JSON lines; members are endpoints.
        #[arg(long, value_name = "FILE")]
        groups: PathBuf,
        /// Name of the processes.
        #[arg(long, default_value = "p0")]
        process: String,
        /// The server.
        #[command(flatten)]
        server: ServerArgs,
    },
}

/// Verbs of `node`.
#[derive(Debug, Subcommand)]
pub enum NodeCommand {
    /// List nodes.
    List {
        /// The server.
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Report that a node has failed: it is expelled from all groups.
    Fail(NodeEndArgs),
    /// Stop a hosted node as if it had lost power.
    Stop(NodeEndArgs),
    /// Start a stopped node again.
    Start(NodeArgs),
    /// List the memberships of a node.
    Memberships(NodeArgs),
}

/// One node.
#[derive(Debug, Args)]
pub struct NodeArgs {
    /// Name of the node.
    pub node: String,
    /// The server.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// One node that is to be taken out.
#[derive(Debug, Args)]
pub struct NodeEndArgs {
    /// The node.
    #[command(flatten)]
    pub node: NodeArgs,
    /// Only say which memberships would end; nothing changes.
    #[arg(long)]
    pub dry_run: bool,
}

/// Verbs of `switch`.
#[derive(Debug, Subcommand)]
pub enum SwitchCommand {
    /// List switches.
    List {
        /// The server.
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Show the multicast table of a switch, read back from the hardware.
    Table(SwitchArgs),
    /// Show ports and counters of a switch.
    Ports(SwitchArgs),
}

/// One switch.
#[derive(Debug, Args)]
pub struct SwitchArgs {
    /// Node id of the switch, such as S-ec0d9a0300ec8240.
    pub switch: String,
    /// The server.
    #[command(flatten)]
    pub server: ServerArgs,
}
