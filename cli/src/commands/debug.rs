//! `fabricast debug`: what a control plane knows of itself, in files to be looked at elsewhere.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context;
use fabricast_proto::v1;
use fabricast_proto::v1::administration_service_client::AdministrationServiceClient;
use prost::Message;
use serde::Serialize;
use tonic::Status;

use crate::args::{BundleArgs, DebugCommand, Format};
use crate::failure::Failure;
use crate::output;
use crate::remote::{Remote, block_on};

/// Most groups, nodes and the like in one answer.
const PAGE: u32 = 10_000;

/// Runs one verb.
///
/// # Errors
///
/// See [`Failure`].
pub(crate) fn run(command: DebugCommand, format: Format) -> Result<(), Failure> {
    let DebugCommand::Bundle(args) = command;
    block_on(async {
        let remote = Remote::new(&args.server)?;
        let mut bundle = Bundle::begin(&args)?;
        bundle.collect(&remote, &args).await?;
        bundle.end(format)
    })
}

/// The files, in a folder beside their place until all of them are there.
struct Bundle {
    draft: tempfile::TempDir,
    place: PathBuf,
    summary: Summary,
}

/// What was collected, as it is printed.
#[derive(Default, Serialize)]
struct Summary {
    servers: usize,
    files: usize,
    problems: Vec<String>,
}

impl Bundle {
    fn begin(args: &BundleArgs) -> Result<Self, Failure> {
        let place = args.out.clone();
        if place.exists() {
            return Err(Failure::input(format!("--out: '{}' is there already", place.display())));
        }
        let beside = place.parent().filter(|folder| !folder.as_os_str().is_empty());
        let draft = tempfile::Builder::new()
            .prefix(".fabricast-debug-")
            .tempdir_in(beside.unwrap_or_else(|| Path::new(".")));
        let draft = draft.with_context(|| format!("write '{}'", place.display()))?;
        Ok(Self { draft, place, summary: Summary::default() })
    }

    /// Asks the servers named, and those that they name.
    async fn collect(&mut self, remote: &Remote, args: &BundleArgs) -> Result<(), Failure> {
        let mut open: Vec<String> =
            args.server.server.split(',').rev().map(str::to_owned).collect();
        let mut asked = BTreeSet::new();
        while let Some(address) = open.pop() {
            let address = address.trim().to_owned();
            if !asked.insert(address.clone()) {
                continue;
            }
            let Ok(server) = remote.elsewhere(&address) else {
                self.summary.problems.push(format!("{address}: no address"));
                continue;
            };
            let mut client = AdministrationServiceClient::new(server.peer().channel());
            let answer = client.get_server_info(v1::GetServerInfoRequest {}).await;
            let Some(info) = self.keep((&address, "server-info"), answer)? else { continue };
            self.summary.servers += 1;
            open.extend(info.peers.iter().map(|peer| peer.address.clone()));
            for role in &info.roles {
                match role.as_str() {
                    "tic" => open.extend(self.tic(&address, &server, args.nodes).await?),
                    "router" => self.router(&address, &server).await?,
                    "switch-agent" => self.switches(&address, &server, args.tables).await?,
                    "operating-agent" => self.agent(&address, &server).await?,
                    _ => {}
                }
            }
        }
        match self.summary.servers {
            0 => Err(Failure::input(self.summary.problems.join("; "))),
            _ => Ok(()),
        }
    }

    /// The records; gives the addresses of the nodes if they are to be asked, too.
    async fn tic(
        &mut self,
        address: &str,
        server: &Remote,
        with_nodes: bool,
    ) -> Result<Vec<String>, Failure> {
        let groups = server
            .groups(true)
            .await
            .map(|groups| v1::ListGroupsResponse { groups, ..Default::default() });
        self.keep_read((address, "groups"), groups)?;
        let nodes = server.nodes().await;
        let addresses =
            nodes.as_ref().map(|nodes| nodes.iter().map(|node| node.address.clone()).collect());
        let addresses: Vec<String> = addresses.unwrap_or_default();
        let nodes = nodes.map(|nodes| v1::ListNodesResponse { nodes, ..Default::default() });
        self.keep_read((address, "nodes"), nodes)?;
        let page_size = PAGE;
        let jobs = v1::ListJobsRequest { page_size, ..Default::default() };
        self.keep((address, "jobs"), server.jobs().list_jobs(jobs).await)?;
        let collectives = v1::ListCollectivesRequest { page_size, ..Default::default() };
        let collectives = server.collectives().list_collectives(collectives).await;
        self.keep((address, "collectives"), collectives)?;
        match server.topology().await {
            Ok(text) => self.write(address, "topology.ibnetdiscover", &text)?,
            Err(failure) => self.problem(address, "topology", &failure.message()),
        }
        Ok(if with_nodes { addresses } else { Vec::new() })
    }

    async fn router(&mut self, address: &str, server: &Remote) -> Result<(), Failure> {
        let status = server.router().get_route_status(v1::GetRouteStatusRequest {}).await;
        self.keep((address, "route-status"), status)?;
        let drifts = server.router().list_table_drifts(v1::ListTableDriftsRequest {}).await;
        self.keep((address, "table-drifts"), drifts)?;
        Ok(())
    }

    async fn switches(
        &mut self,
        address: &str,
        server: &Remote,
        with_tables: bool,
    ) -> Result<(), Failure> {
        let mut client = server.switches();
        let switches = client.list_switches(v1::ListSwitchesRequest {}).await;
        self.keep((address, "switches"), switches)?;
        if !with_tables {
            return Ok(());
        }
        let mut lines = String::new();
        let read = async {
            let mut tables =
                client.read_tables(v1::ReadTablesRequest::default()).await?.into_inner();
            while let Some(part) = tables.message().await? {
                if let Some(table) = part.table {
                    lines += &output::json_line(&table)
                        .map_err(|failure| Status::internal(failure.message()))?;
                    lines.push('\n');
                }
            }
            Ok::<(), Status>(())
        };
        match read.await {
            Ok(()) => self.write(address, "tables.jsonl", &lines),
            Err(status) => {
                self.problem(address, "tables", status.message());
                Ok(())
            }
        }
    }

    async fn agent(&mut self, address: &str, server: &Remote) -> Result<(), Failure> {
        let hosted = server.agent().list_hosted_nodes(v1::ListHostedNodesRequest {}).await;
        self.keep((address, "hosted-nodes"), hosted)?;
        let memberships = v1::ListMembershipsRequest::default();
        let memberships = server.agent().list_memberships(memberships).await;
        self.keep((address, "memberships"), memberships)?;
        Ok(())
    }

    /// Writes an answer, or notes why there is none.
    fn keep<T: Message>(
        &mut self,
        (address, what): (&str, &str),
        answer: Result<tonic::Response<T>, Status>,
    ) -> Result<Option<T>, Failure> {
        match answer {
            Ok(answer) => {
                let answer = answer.into_inner();
                self.write(address, &format!("{what}.json"), &output::json_text(&answer)?)?;
                Ok(Some(answer))
            }
            Err(status) => {
                self.problem(address, what, &format!("{:?}: {}", status.code(), status.message()));
                Ok(None)
            }
        }
    }

    fn keep_read<T: Message>(
        &mut self,
        (address, what): (&str, &str),
        answer: Result<T, Failure>,
    ) -> Result<(), Failure> {
        match answer {
            Ok(answer) => {
                self.write(address, &format!("{what}.json"), &output::json_text(&answer)?)
            }
            Err(failure) => {
                self.problem(address, what, &failure.message());
                Ok(())
            }
        }
    }

    fn problem(&mut self, address: &str, what: &str, why: &str) {
        self.summary.problems.push(format!("{address}: {what}: {why}"));
    }

    fn write(&mut self, address: &str, name: &str, text: &str) -> Result<(), Failure> {
        let folder = self.draft.path().join(address.replace([':', '[', ']', '/'], "_"));
        let file = folder.join(name);
        std::fs::create_dir_all(&folder)
            .and_then(|()| std::fs::write(&file, text))
            .with_context(|| format!("write '{}'", self.place.display()))?;
        self.summary.files += 1;
        Ok(())
    }

    /// Puts the files in their place.
    fn end(self, format: Format) -> Result<(), Failure> {
        let Self { draft, place, summary } = self;
        let named = || format!("write '{}'", place.display());
        let about = serde_json::to_string_pretty(&summary)?;
        std::fs::write(draft.path().join("summary.json"), about).with_context(named)?;
        std::fs::rename(draft.path(), &place).with_context(named)?;
        let _moved = draft.keep();
        output::print(format, &summary, |summary| {
            let Summary { servers, files, problems } = summary;
            let lines: Vec<String> =
                problems.iter().map(|problem| format!("\n{problem}")).collect();
            let place = place.display();
            format!("{place}: {files} files of {servers} servers{}", lines.concat())
        })
    }
}
