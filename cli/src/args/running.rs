//! Verbs that talk to a running control plane.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};

/// Where a running control plane answers.
#[derive(Debug, Args)]
pub struct ServerArgs {
    /// Address of the running control plane; of several TICs or route services that stand in for each
    /// other, all of them with commas in between.
    #[arg(
        long,
        env = "FABRICAST_SERVER",
        default_value = "127.0.0.1:7400",
        value_name = "HOST:PORT,..."
    )]
    pub server: String,
    /// Folder with ca.crt, tls.crt and tls.key, if the control plane wants to know who calls.
    #[arg(long, env = "FABRICAST_CERTIFICATES", value_name = "DIR")]
    pub certificates: Option<PathBuf>,
    /// Accept that nothing is encrypted on the way to other machines.
    #[arg(long, env = "FABRICAST_PLAINTEXT", conflicts_with = "certificates")]
    pub plaintext: bool,
}

/// Flags of `health`.
#[derive(Debug, Args)]
pub struct HealthArgs {
    /// A service that must be served there, such as fabricast.v1.TicService. Left out: whatever there is.
    #[arg(long, value_name = "NAME", default_value = "")]
    pub service: String,
    /// Where.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Verbs of `fabric` on a running fabric.
#[derive(Debug, Subcommand)]
pub enum FabricCommand {
    /// Break a link, a switch or an endpoint.
    Fail(ElementArgs),
    /// Mend a link, a switch or an endpoint.
    Heal(ElementArgs),
    /// Let all entries of a switch's table vanish.
    Wipe(TableArgs),
    /// Let entries of a switch's table lead elsewhere.
    Corrupt {
        /// How many, spread over the table.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
        entries: u32,
        /// The table.
        #[command(flatten)]
        table: TableArgs,
    },
    /// Let a switch take writes slowly, or not at all; without options as it should.
    Programming {
        /// How long a write takes, in milliseconds; at most a minute.
        #[arg(long, value_name = "MS", default_value_t = 0,
            value_parser = clap::value_parser!(u64).range(..=60_000))]
        delay_ms: u64,
        /// Refuse all writes.
        #[arg(long)]
        fails: bool,
        /// The table.
        #[command(flatten)]
        table: TableArgs,
    },
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

/// The table of one switch.
#[derive(Debug, Args)]
pub struct TableArgs {
    /// Node id of the switch.
    #[arg(long)]
    pub switch: String,
    /// The server.
    #[command(flatten)]
    pub server: ServerArgs,
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
    /// Endpoints that will join too, as far as known; helps to choose the MGID.
    #[arg(long, value_name = "ENDPOINT,...", value_delimiter = ',')]
    pub expect: Vec<String>,
    /// Layer of the group: no endpoint is in two groups of one; those of one grid have a name in common
    /// up to the last `/`, as `job7/rows`. Helps to choose the MGID.
    #[arg(long)]
    pub layer: Option<String>,
    /// Job that a new group belongs to; `group end-job` ends them together.
    #[arg(long)]
    pub job: Option<String>,
    /// Route a new group only once it has had so many members.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub complete_at: Option<u32>,
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
    /// Say which MGIDs the groups of a file would get if they were formed now; nothing changes.
    Plan {
        /// Groups in JSON lines; members are endpoints.
        #[arg(long, value_name = "FILE")]
        groups: PathBuf,
        /// The server.
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Form all groups of a file with one call, one process per endpoint and group file line; refused
    /// whole if anything is wrong.
    Form(FormArgs),
    /// End all groups of a job, with all their members.
    EndJob {
        /// Name of the job, as its groups have it.
        job: String,
        /// Only say whom it would touch; nothing changes.
        #[arg(long)]
        dry_run: bool,
        /// The server.
        #[command(flatten)]
        server: ServerArgs,
    },
}

/// Options of `group form`.
#[derive(Debug, Args)]
pub struct FormArgs {
    /// Groups in JSON lines; members are endpoints.
    #[arg(long, value_name = "FILE")]
    pub groups: PathBuf,
    /// Name of the processes.
    #[arg(long, default_value = "p0")]
    pub process: String,
    /// Job that new groups belong to; `group end-job` ends them together.
    #[arg(long)]
    pub job: Option<String>,
    /// Name of the request: repeated with the same file, it gets the same answer and brings nobody back
    /// who has left since. Left out, one is made up.
    #[arg(long, value_name = "ID")]
    pub request_id: Option<String>,
    /// The server.
    #[command(flatten)]
    pub server: ServerArgs,
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
    /// Forget that a node has come and gone: it is not suppressed any more.
    Readmit(NodeArgs),
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
    /// Show which switches were found to hold something else than they had confirmed, now and before; exit 1
    /// if one does now.
    Audit {
        /// The server.
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Show packets and bytes that passed the ports of all switches or of one; exit 2 if the hardware
    /// does not count.
    Counters {
        /// Node id of the switch; left out, all that an agent has.
        switch: Option<String>,
        /// The server.
        #[command(flatten)]
        server: ServerArgs,
    },
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

/// Options of `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Processes to start.
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub processes: u32,
    /// Socket of the operating agent to attach to; left out, a whole system of its own is brought up,
    /// with the emulated fabric, and taken down again at the end.
    #[arg(long, value_name = "PATH", conflicts_with = "topology")]
    pub socket: Option<PathBuf>,
    /// Topology of the system of its own, as for `up`.
    #[arg(long, value_name = "FILE|PRESET")]
    pub topology: Option<String>,
    /// Group that the processes are put into; left out, a new one.
    #[arg(long)]
    pub group: Option<String>,
    /// Begin every line that a process prints with its rank.
    #[arg(long)]
    pub label: bool,
    /// The program and its arguments. It finds FABRICAST_SOCKET, FABRICAST_NODE, FABRICAST_PROCESS,
    /// FABRICAST_GROUP, FABRICAST_RANK and FABRICAST_SIZE in its environment; its standard input is empty.
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}
