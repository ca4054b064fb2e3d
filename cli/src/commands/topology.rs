//! `fabricast topology`: fabrics in files.

mod draw;

pub(super) use draw::{print as print_drawing, scope};

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use clap::Subcommand;
use fabricast_config::{InfinibandConfig, Sources, SwitchAgentConfig, load};
use fabricast_placement::slurm::{self, SlurmTopology};
use fabricast_proto::v1;
use fabricast_switch::{Driver, InfinibandDriver};
use fabricast_topology::spec::PRESETS;
use fabricast_topology::{
    FatTree, FatTreeParams, Graph, GraphSummary, NotFatTree, Peer, ibnetdiscover,
};
use serde::Serialize;

use super::switch_agent::open_hardware;
use crate::args::{Format, ServerArgs};
use crate::command::{Globals, Run};
use crate::failure::Failure;
use crate::job_input::JobInput;
use crate::output::{self, Rows};
use crate::progress::Progress;
use crate::remote::{Remote, block_on, run_to_end};
use crate::serve::{init_log, security};
use crate::source::{CLUSTER, Topology, read_text};

/// Largest part of a topology in one message, in bytes.
const CHUNK: usize = 1 << 20;

/// Generate, read, check and show topologies.
#[derive(Debug, Subcommand)]
pub(crate) enum TopologyCommand {
    /// Generate a topology from a spec in TOML; write it in the format of `ibnetdiscover`.
    Generate {
        /// Spec in TOML, or a preset such as `paper`, `torus` or `dragonfly` (see `topology
        /// list`).
        #[arg(long, value_name = "FILE|PRESET")]
        spec: String,
        /// Output file; default: standard output.
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// List the presets, each with its spec.
    #[command(alias = "presets")]
    List,
    /// Read the output of `ibnetdiscover`, print a summary, and write it in normal form.
    Import {
        /// File as `ibnetdiscover` prints it.
        file: PathBuf,
        /// Output file; default: print the summary only.
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// Print a topology in the format of `ibnetdiscover`, or with `--format slurm` as topology.conf
    /// for Slurm.
    Export {
        /// File as `ibnetdiscover` prints it, spec in TOML, or preset.
        #[arg(value_name = "FILE|PRESET")]
        file: String,
    },
    /// Discover a fabric and print it in the format of `ibnetdiscover`: an InfiniBand subnet
    /// through a local port, or with `--config` the switches of a switch agent.
    Discover {
        /// Adapter, such as `mlx5_0`; default: the first with an active port.
        #[arg(long, conflicts_with = "config")]
        adapter: Option<String>,
        /// Port of the adapter; 0 for the first active one.
        #[arg(long, default_value_t = 0, conflicts_with = "config")]
        port: u8,
        /// Settings of a switch agent, in TOML. It may run meanwhile, unless it listens for
        /// switches of OpenFlow that connect.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Output file; default: standard output.
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// Print the topology of a running control plane.
    Download {
        /// Output file; default: standard output.
        #[arg(long)]
        out: Option<PathBuf>,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Replace the discovered topology of a control plane, so that it forgets parts that are gone
    /// for good.
    Replace {
        /// File as `ibnetdiscover` prints it, spec in TOML, or preset.
        #[arg(value_name = "FILE|PRESET")]
        file: String,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// List the switches and endpoints of a topology.
    Show {
        /// File as `ibnetdiscover` prints it, spec in TOML, or preset.
        #[arg(value_name = "FILE|PRESET")]
        file: String,
    },
    /// Draw a topology as SVG: levels from the leaf switches up, large ones by midplane.
    Draw(draw::DrawArgs),
    /// Check that a topology is a regular fat tree; exit 1 if not, or if it differs from a
    /// topology.conf.
    Check {
        /// File as `ibnetdiscover` prints it, spec in TOML, or preset.
        #[arg(value_name = "FILE|PRESET")]
        file: String,
        /// Slurm's topology.conf to compare with.
        #[arg(long, value_name = "FILE")]
        slurm: Option<PathBuf>,
    },
    /// Detect which fat tree a topology is; exit 1 if it is none.
    Detect {
        /// File as `ibnetdiscover` prints it, spec in TOML, or preset.
        #[arg(value_name = "FILE|PRESET")]
        file: String,
    },
}

impl Run for TopologyCommand {
    fn run(self, globals: &Globals) -> Result<(), Failure> {
        let format = globals.format;
        match self {
            Self::Generate { spec, out } => {
                let topology = Topology::read(&spec)?;
                whole(&topology.graph, &topology.text, out.as_deref(), format)
            }
            Self::List => output::print(format, &Presets::all(), Presets::text),
            Self::Import { file, out } => import(&file, out.as_deref(), format),
            Self::Export { file } if format == Format::Slurm => {
                output::print_text(&slurm_tree(&Topology::read(&file)?)?.write())
            }
            Self::Export { file } => {
                let topology = Topology::read(&file)?;
                whole(&topology.graph, &topology.text, None, format)
            }
            Self::Discover { adapter, port, config, out } => {
                let graph = match config {
                    Some(file) => discover_by_settings(file)?,
                    None => discover(adapter, port)?,
                };
                whole(&graph, &ibnetdiscover::write(&graph), out.as_deref(), format)
            }
            Self::Download { out, server } => {
                let text = block_on(async { Remote::new(&server)?.topology().await })?;
                let graph = ibnetdiscover::read(&text).context("topology of the TIC")?;
                whole(&graph, &text, out.as_deref(), format)
            }
            Self::Replace { file, server } => {
                let topology = Topology::read(&file)?;
                block_on(replace(&file, &topology.text, &server, format))
            }
            Self::Show { file } => {
                let listing = Listing::of(&Topology::read(&file)?.graph);
                output::print(format, &listing, Listing::text)
            }
            Self::Draw(args) => draw::run(&args, format),
            Self::Check { file, slurm } => check(&file, slurm.as_deref(), format),
            Self::Detect { file } => {
                found(&Topology::read(&file)?, None, format)?;
                Ok(())
            }
        }
    }

    fn calls_running_parts(&self) -> bool {
        true
    }

    fn has_format(&self, format: Format) -> bool {
        format == Format::Slurm && matches!(self, Self::Export { .. })
    }
}

/// Sends the TIC another topology, which was read from a file or is a preset.
async fn replace(
    file: &str,
    text: &str,
    server: &ServerArgs,
    format: Format,
) -> Result<(), Failure> {
    let remote = Remote::new(server)?;
    let pieces = text.as_bytes().chunks(CHUNK);
    let pieces: Vec<_> =
        pieces.map(|piece| v1::ReplaceTopologyRequest { chunk: piece.to_vec() }).collect();
    let answer =
        remote.answer(remote.topologies().replace_topology(tokio_stream::iter(pieces))).await?;
    output::done(format, "file", file, &answer, |answer| {
        let v1::TopologySummary { switch_count, endpoint_count, .. } =
            answer.topology.clone().unwrap_or_default();
        let done = if answer.changed { "replaced by" } else { "unchanged, it is that of" };
        format!("topology {done} {file}: {switch_count} switches, {endpoint_count} endpoints")
    })
}

/// Discovers the topology of the hardware that the settings of a switch agent name.
fn discover_by_settings(file: PathBuf) -> Result<Arc<Graph>, Failure> {
    let agent = load::<SwitchAgentConfig>(&Sources::of_this_process(Some(file)));
    let agent = agent.map_err(|errors| Failure::BadConfig(errors.into()))?;
    let security = security(agent.certificates.as_deref(), agent.limits)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // Switches that are not reached, or cannot be used, are told there.
    let _log = init_log("fabricast", "warn")?;
    let _progress = Progress::of_time("discovering");
    run_to_end(&runtime, async {
        let driver = open_hardware(&agent.hardware, &security)?;
        let graph = driver.discover().await.context("discover the switches")?;
        Ok::<_, Failure>(graph)
    })
}

/// Discovers an InfiniBand subnet through a local port.
fn discover(adapter: Option<String>, port: u8) -> Result<Arc<Graph>, Failure> {
    let config = InfinibandConfig { adapter, port, ..InfinibandConfig::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let _progress = Progress::of_time("discovering");
    let graph = run_to_end(&runtime, async {
        let driver = InfinibandDriver::open(config, None).context("open the InfiniBand port")?;
        anyhow::Ok(driver.discover().await?)
    })?;
    Ok(graph)
}

/// Prints a whole topology: in the format of `ibnetdiscover`, or as JSON what `topology show` has.
fn whole(graph: &Graph, text: &str, out: Option<&Path>, format: Format) -> Result<(), Failure> {
    output::document(format, out, text, || Listing::of(graph))
}

/// Prints a summary and the fat tree; without a fat tree the answer is no.
fn found(
    topology: &Topology,
    differences: Option<Vec<String>>,
    format: Format,
) -> Result<Summary, Failure> {
    let fat_tree = FatTree::detect(&topology.graph);
    let summary = Summary { differences, ..Summary::of(topology, fat_tree.as_ref()) };
    output::print(format, &summary, Summary::text)?;
    match fat_tree {
        Ok(_) => Ok(summary),
        Err(not) => Err(Failure::No(topology.no_fat_tree(not).message())),
    }
}

fn import(file: &Path, out: Option<&Path>, format: Format) -> Result<(), Failure> {
    let topology = Topology::read_file(file)?;
    if let Some(out) = out {
        output::files(&[(out, &topology.text)])?;
    }
    // Without a fat tree, what was read is a sound topology all the same.
    let fat_tree = FatTree::detect(&topology.graph);
    if let Err(not) = &fat_tree {
        output::notice(&format!("fabricast: '{}': {not}", topology.title));
    }
    let summary = Summary::of(&topology, fat_tree.as_ref());
    output::print(format, &summary, Summary::text)
}

fn check(file: &str, slurm: Option<&Path>, format: Format) -> Result<(), Failure> {
    let topology = Topology::read(file)?;
    let differences = slurm.map(|slurm| differences(&topology, slurm)).transpose()?;
    let summary = found(&topology, differences, format)?;
    if !summary.irregularities.is_empty() {
        let count = many(summary.irregularities.len(), "irregularity", "irregularities");
        return Err(Failure::No(format!("'{file}': {count}")));
    }
    match (slurm, summary.differences.map_or(0, |differences| differences.len())) {
        (Some(slurm), 1..) => {
            let slurm = slurm.display();
            Err(Failure::No(format!("'{slurm}' is not the tree of '{file}'")))
        }
        (Some(_) | None, _) => Ok(()),
    }
}

/// Lists the differences between a scheduler's file and the fabric.
fn differences(topology: &Topology, slurm: &Path) -> Result<Vec<String>, Failure> {
    let text = read_text(slurm)?;
    let theirs = slurm::read(&text).with_context(|| format!("'{}'", slurm.display()))?;
    let ours = JobInput::of_topology(topology, None)?;
    let differences = theirs.differences(&ours.positions, &ours.names.nodes);
    Ok(differences.iter().map(ToString::to_string).collect())
}

/// Makes a topology a tree of switches of Slurm; nodes that it cannot have are told on standard
/// error.
///
/// # Errors
///
/// The topology is no fat tree, or has names that Slurm does not take.
pub(crate) fn slurm_tree(topology: &Topology) -> Result<SlurmTopology, Failure> {
    let ours = JobInput::of_topology(topology, None)?;
    ours.check_names()?;
    let JobInput { positions, names, .. } = ours;
    let out = (0u32..).zip(&names.nodes).filter(|(node, _)| positions.leaf_of(*node).is_none());
    for (node, name) in out {
        let why = positions.left_out(node).map_or_else(String::new, |why| format!(": {why}"));
        output::notice(&format!("fabricast: node '{name}' is left out{why}"));
    }
    Ok(SlurmTopology::of(&positions, &names))
}

/// Describes a topology for the demo.
#[must_use]
pub(crate) fn summary_text(topology: &Topology, fat_tree: &FatTree) -> String {
    Summary::of(topology, Ok(fat_tree)).text()
}

#[derive(Debug, Serialize)]
struct Summary {
    topology: String,
    sha256: String,
    #[serde(flatten)]
    counts: GraphSummary,
    fat_tree: Option<FatTreeParams>,
    irregularities: Vec<String>,
    /// Contradictions to a fat tree, if it is none.
    contradictions: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    differences: Option<Vec<String>>,
}

impl Summary {
    fn of(topology: &Topology, fat_tree: Result<&FatTree, &NotFatTree>) -> Self {
        let irregularities = fat_tree.map(FatTree::irregularities).unwrap_or_default();
        let contradictions = fat_tree.err().map(|not| &*not.reasons).unwrap_or_default();
        Self {
            topology: topology.title.clone(),
            sha256: topology.digest(),
            counts: topology.graph.summary(),
            fat_tree: fat_tree.ok().map(|fat_tree| *fat_tree.params()),
            irregularities: irregularities.iter().map(ToString::to_string).collect(),
            contradictions: contradictions.iter().map(ToString::to_string).collect(),
            differences: None,
        }
    }

    fn text(&self) -> String {
        let mut text = format!("{}: {}", self.topology, counts_text(&self.counts));
        match &self.fat_tree {
            None => text.push_str("\nnot a fat tree"),
            Some(params) => text.push_str(&format!("\n{}", shape(params))),
        }
        if self.fat_tree.is_some() && self.irregularities.is_empty() {
            text.push_str("\nregular");
        }
        for irregularity in &self.irregularities {
            text.push_str(&format!("\nirregular: {irregularity}"));
        }
        match self.differences.as_deref() {
            None => {}
            Some([]) => text.push_str("\nthe scheduler's tree is the fabric's"),
            Some(differences) => {
                for difference in differences {
                    text.push_str(&format!("\ndiffers: {difference}"));
                }
            }
        }
        text
    }
}

fn counts_text(counts: &GraphSummary) -> String {
    let mut text = format!(
        "{} with {}, {} between switches, {}",
        many(counts.switches, "switch", "switches"),
        many(counts.switch_ports, "port", "ports"),
        many(counts.switch_links, "link", "links"),
        many(counts.endpoints, "endpoint", "endpoints"),
    );
    if counts.connected_endpoints < counts.endpoints {
        text.push_str(&format!(" ({} of them connected)", counts.connected_endpoints));
    }
    if counts.loopback_cables > 0 {
        let cables = many(counts.loopback_cables, "loopback cable", "loopback cables");
        text.push_str(&format!(", {cables}"));
    }
    text
}

/// Describes the parameters of a fat tree.
fn shape(params: &FatTreeParams) -> String {
    let p = params;
    let mut text = format!(
        "{}-level fat tree: {} a midplane, up to {} each",
        p.levels,
        many(p.leaves_per_cn, "leaf switch", "leaf switches"),
        many(p.endpoints_per_leaf, "endpoint", "endpoints")
    );
    if p.levels >= 2 {
        text.push_str(&format!(
            "; {} a midplane, {} to each leaf",
            many(p.spines, "level-1 switch", "level-1 switches"),
            many(p.lanes0, "link", "parallel links")
        ));
    }
    if p.levels >= 3 {
        text.push_str(&format!(
            "\n{} in blocks of {}; {} in groups of {}, {} to each",
            many(p.cns, "compute midplane", "compute midplanes"),
            p.cns_per_block,
            many(p.tns, "top midplane", "top midplanes"),
            p.tns_per_group,
            many(p.lanes1, "link", "parallel links")
        ));
    }
    if p.levels == 4 {
        text.push_str(&format!(
            "; each top midplane {} and {}, {} between them",
            many(p.blocks, "level-2 switch", "level-2 switches"),
            many(p.l3_per_tn, "level-3 switch", "level-3 switches"),
            many(p.lanes2, "link", "parallel links")
        ));
    }
    text
}

/// Formats a number with its noun.
fn many(count: impl Into<Count>, one: &str, more: &str) -> String {
    match count.into().0 {
        1 => format!("1 {one}"),
        count => format!("{count} {more}"),
    }
}

/// A count of either integer type.
struct Count(u64);

impl From<u32> for Count {
    fn from(count: u32) -> Self {
        Self(count.into())
    }
}

impl From<usize> for Count {
    fn from(count: usize) -> Self {
        Self(u64::try_from(count).unwrap_or(u64::MAX))
    }
}

#[derive(Debug, Serialize)]
struct Presets {
    presets: Vec<ListedPreset>,
}

#[derive(Debug, Serialize)]
struct ListedPreset {
    name: &'static str,
    what: &'static str,
    spec: Option<&'static str>,
}

impl Presets {
    fn all() -> Self {
        let (name, what) = CLUSTER;
        let real = ListedPreset { name, what, spec: None };
        let made = PRESETS.iter().map(|preset| ListedPreset {
            name: preset.name,
            what: preset.what,
            spec: Some(preset.toml),
        });
        Self { presets: std::iter::once(real).chain(made).collect() }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for preset in &self.presets {
            text.push_str(&format!("# {}: {}\n", preset.name, preset.what));
            text.push_str(preset.spec.unwrap_or_default());
            text.push('\n');
        }
        text.trim_end().to_owned()
    }
}

#[derive(Debug, Serialize)]
struct Listing {
    switches: Vec<ListedSwitch>,
    endpoints: Vec<ListedEndpoint>,
}

#[derive(Debug, Serialize)]
struct ListedSwitch {
    name: String,
    description: String,
    ports: usize,
    connected: usize,
    /// One for each port with a cable.
    links: Vec<ListedLink>,
}

#[derive(Debug, Serialize)]
struct ListedLink {
    port: u8,
    /// Name of the switch or endpoint at the other end.
    peer: String,
    /// Absent for an endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    peer_port: Option<u8>,
}

#[derive(Debug, Serialize)]
struct ListedEndpoint {
    name: String,
    switch: Option<String>,
    port: Option<u8>,
}

impl Listing {
    fn of(graph: &Graph) -> Self {
        let link = |port| {
            let (peer, peer_port) = match graph.peer(port) {
                Peer::None => return None,
                Peer::Endpoint(endpoint) => (graph.endpoint_name(endpoint), None),
                Peer::Switch(peer) => {
                    (graph.switch_name(graph.switch_of(peer)), Some(graph.port_number(peer)))
                }
            };
            Some(ListedLink { port: graph.port_number(port), peer: peer.to_owned(), peer_port })
        };
        let switches = graph.switches().map(|switch| {
            let links: Vec<ListedLink> = graph.ports(switch).filter_map(link).collect();
            ListedSwitch {
                name: graph.switch_name(switch).to_owned(),
                description: graph.switch_description(switch).to_owned(),
                ports: graph.ports(switch).len(),
                connected: links.len(),
                links,
            }
        });
        let endpoints = graph.endpoints().map(|endpoint| {
            let port = graph.attachment(endpoint);
            ListedEndpoint {
                name: graph.endpoint_name(endpoint).to_owned(),
                switch: port.map(|port| graph.switch_name(graph.switch_of(port)).to_owned()),
                port: port.map(|port| graph.port_number(port)),
            }
        });
        Self { switches: switches.collect(), endpoints: endpoints.collect() }
    }

    fn text(&self) -> String {
        let mut switches = Rows::new(&["SWITCH", "PORTS", "CONNECTED", "DESCRIPTION"]);
        for switch in &self.switches {
            switches.push(vec![
                switch.name.clone(),
                switch.ports.to_string(),
                switch.connected.to_string(),
                switch.description.clone(),
            ]);
        }
        let mut endpoints = Rows::new(&["ENDPOINT", "SWITCH", "PORT"]);
        for endpoint in &self.endpoints {
            endpoints.push(vec![
                endpoint.name.clone(),
                endpoint.switch.clone().unwrap_or_else(|| "-".to_owned()),
                endpoint.port.map_or_else(|| "-".to_owned(), |port| port.to_string()),
            ]);
        }
        format!("{switches}\n\n{endpoints}")
    }
}
