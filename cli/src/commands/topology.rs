//! `fabricast topology`: fabrics in files.

use std::path::{Path, PathBuf};

use anyhow::Context;
use fabricast_topology::{FatTree, FatTreeParams, Graph};
use serde::Serialize;

use crate::args::{Format, TopologyCommand};
use crate::failure::Failure;
use crate::output::{self, Rows};
use crate::source::Topology;

/// Runs one verb.
///
/// # Errors
///
/// See [`Failure`].
pub(crate) fn run(command: TopologyCommand, format: Format) -> Result<(), Failure> {
    match command {
        TopologyCommand::Generate { spec, out } => {
            let topology = Topology::read(&spec)?;
            write_out(out.as_deref(), &topology.text)
        }
        TopologyCommand::Import { file, out } => import(&file, out, format),
        TopologyCommand::Export { file } => output::raw(&Topology::read(&file)?.text),
        TopologyCommand::Show { file } => {
            let listing = Listing::of(&Topology::read(&file)?.graph);
            output::print(format, &listing, Listing::text)
        }
        TopologyCommand::Check { file } => check(&file, format),
        TopologyCommand::Detect { file } => {
            let topology = Topology::read(&file)?;
            let summary = Summary::of(&topology, &topology.fat_tree()?);
            output::print(format, &summary, Summary::text)
        }
    }
}

fn import(file: &Path, out: Option<PathBuf>, format: Format) -> Result<(), Failure> {
    let topology = Topology::read(&file.display().to_string())?;
    if let Some(out) = out {
        write_out(Some(&out), &topology.text)?;
    }
    match topology.fat_tree() {
        Ok(fat_tree) => output::print(format, &Summary::of(&topology, &fat_tree), Summary::text),
        // What was read is a sound topology all the same.
        Err(not) => {
            output::say(&format!("fabricast: {}", not.message()));
            output::print(format, &Counts::of(&topology.graph), Counts::text)
        }
    }
}

fn check(file: &str, format: Format) -> Result<(), Failure> {
    let topology = Topology::read(file)?;
    let fat_tree = topology.fat_tree().map_err(|not| Failure::No(not.message()))?;
    let summary = Summary::of(&topology, &fat_tree);
    output::print(format, &summary, Summary::text)?;
    match summary.irregularities.len() {
        0 => Ok(()),
        count => Err(Failure::No(format!("'{file}': {count} irregularities"))),
    }
}

/// Writes to a file, or to standard output.
///
/// # Errors
///
/// Names the file.
pub(crate) fn write_out(out: Option<&Path>, text: &str) -> Result<(), Failure> {
    match out {
        None => output::raw(text),
        Some(path) => {
            Ok(std::fs::write(path, text).with_context(|| format!("write '{}'", path.display()))?)
        }
    }
}

/// What the demo prints about its topology.
#[must_use]
pub(crate) fn summary_text(topology: &Topology, fat_tree: &FatTree) -> String {
    Summary::of(topology, fat_tree).text()
}

#[derive(Debug, Serialize)]
struct Counts {
    switches: usize,
    endpoints: usize,
    ports: usize,
}

impl Counts {
    fn of(graph: &Graph) -> Self {
        Self {
            switches: graph.switch_count(),
            endpoints: graph.endpoint_count(),
            ports: graph.port_count(),
        }
    }

    fn text(&self) -> String {
        format!(
            "{} switches, {} endpoints, {} switch ports",
            self.switches, self.endpoints, self.ports
        )
    }
}

#[derive(Debug, Serialize)]
struct Summary {
    topology: String,
    sha256: String,
    #[serde(flatten)]
    counts: Counts,
    fat_tree: FatTreeParams,
    irregularities: Vec<String>,
}

impl Summary {
    fn of(topology: &Topology, fat_tree: &FatTree) -> Self {
        Self {
            topology: topology.title.clone(),
            sha256: topology.digest(),
            counts: Counts::of(&topology.graph),
            fat_tree: *fat_tree.params(),
            irregularities: fat_tree.irregularities().iter().map(ToString::to_string).collect(),
        }
    }

    fn text(&self) -> String {
        let mut text =
            format!("{}: {}\n{}", self.topology, self.counts.text(), shape(&self.fat_tree));
        if self.irregularities.is_empty() {
            text.push_str("\nregular");
        }
        for irregularity in &self.irregularities {
            text.push_str(&format!("\nirregular: {irregularity}"));
        }
        text
    }
}

/// The parameters of a fat tree in words.
fn shape(params: &FatTreeParams) -> String {
    let p = params;
    let mut text = format!(
        "{}-level fat tree: {} leaf switches a midplane, up to {} endpoints each",
        p.levels, p.leaves_per_cn, p.endpoints_per_leaf
    );
    if p.levels >= 2 {
        text.push_str(&format!(
            "; {} level-1 switches a midplane, {} parallel links to each leaf",
            p.spines, p.lanes0
        ));
    }
    if p.levels >= 3 {
        text.push_str(&format!(
            "\n{} compute midplanes in blocks of {}; {} top midplanes in groups of {}, {} parallel \
             links to each",
            p.cns, p.cns_per_block, p.tns, p.tns_per_group, p.lanes1
        ));
    }
    if p.levels == 4 {
        text.push_str(&format!(
            "; each top midplane {} level-2 and {} level-3 switches",
            p.blocks, p.l3_per_tn
        ));
    }
    text
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
}

#[derive(Debug, Serialize)]
struct ListedEndpoint {
    name: String,
    switch: Option<String>,
    port: Option<u8>,
}

impl Listing {
    fn of(graph: &Graph) -> Self {
        let connected = |switch| {
            let ports = graph.ports(switch);
            ports.filter(|port| graph.peer(*port) != fabricast_topology::Peer::None).count()
        };
        let switches = graph.switches().map(|switch| ListedSwitch {
            name: graph.switch_name(switch).to_owned(),
            description: graph.switch_description(switch).to_owned(),
            ports: graph.ports(switch).len(),
            connected: connected(switch),
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
