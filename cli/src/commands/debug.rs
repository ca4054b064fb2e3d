//! `fabricast debug`: what a control plane knows of itself, in files to be looked at elsewhere.

mod replay;

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Subcommand};
use fabricast_proto::v1;
use fabricast_proto::v1::administration_service_client::AdministrationServiceClient;
use fabricast_proto::v1::route_service_client::RouteServiceClient;
use fabricast_proto::v1::switch_agent_service_client::SwitchAgentServiceClient;
use fabricast_reconciler::SegmentName;
use fabricast_rpc::{Reason, RpcError};
use prost::Message;
use serde::Serialize;

use crate::args::{Format, ServerArgs};
use crate::command::{Globals, Run};
use crate::failure::Failure;
use crate::output;
use crate::progress::Progress;
use crate::remote::{self, Remote, block_on};
use replay::ReplayArgs;

/// Folder of a server in a bundle with the files of its recordings.
const RECORDINGS: &str = "recordings";
/// Largest page of a list.
const PAGE: u32 = 10_000;

/// Collect the state of a control plane for the analysis of a problem.
#[derive(Debug, Subcommand)]
pub(crate) enum DebugCommand {
    /// Collect the state of the servers named, and of those that they name, into a folder. It holds
    /// names of groups, nodes and processes, but no keys and no payloads. Exit 1 if route services
    /// answer and none of them is active: then nobody has compared the tables.
    Bundle(BundleArgs),
    /// Run a route service's recording again, offline, and print each input with what followed.
    ///
    /// `debug bundle` saves recordings. The replay makes the same decisions as the recorded run; a
    /// section, or a file of a folder, ends at the first one that differs, and the exit code is 1.
    /// Of a route service that was killed, the last bytes of a file may be missing; that is said,
    /// and all before is played.
    Replay(ReplayArgs),
}

/// Flags of `debug bundle`.
#[derive(Debug, Args)]
pub(crate) struct BundleArgs {
    /// Folder to create; it must not exist.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Also ask the operating agents of all nodes.
    #[arg(long)]
    nodes: bool,
    /// Also read the tables of all switches.
    #[arg(long)]
    tables: bool,
    /// Also copy the recordings that route services have in files (`recording_folder`), up to 1 GiB
    /// of each unless their settings say otherwise.
    #[arg(long)]
    recordings: bool,
    #[command(flatten)]
    server: ServerArgs,
}

impl Run for DebugCommand {
    fn run(self, globals: &Globals) -> Result<(), Failure> {
        let format = globals.format;
        let args = match self {
            Self::Bundle(args) => args,
            Self::Replay(args) => return args.replay(format),
        };
        block_on(async {
            let remote = Remote::new(&args.server)?;
            let mut bundle = Bundle::begin(&args)?;
            bundle.collect(&remote, &args).await?;
            bundle.end(format)
        })
    }
}

/// The files of a bundle, in a temporary folder next to the final one until they are complete.
struct Bundle {
    draft: tempfile::TempDir,
    place: PathBuf,
    summary: Summary,
    route_services: RouteServices,
}

/// The route services that were asked, together.
#[derive(PartialEq, Eq)]
enum RouteServices {
    /// None has answered.
    Silent,
    /// Some have answered, and none has listed its drifts.
    Inactive,
    /// One has listed its drifts.
    Compared,
}

/// Result of the command: counts and problems.
#[derive(Default, Serialize)]
struct Summary {
    folder: String,
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
        let summary = Summary { folder: place.display().to_string(), ..Summary::default() };
        Ok(Self { draft, place, summary, route_services: RouteServices::Silent })
    }

    /// Queries the servers named, and those that they name.
    async fn collect(&mut self, remote: &Remote, args: &BundleArgs) -> Result<(), Failure> {
        let mut open: Vec<String> = remote.addresses().iter().rev().cloned().collect();
        let mut asked = BTreeSet::new();
        let mut routers = Vec::new();
        let progress = Progress::new("asking", open.len());
        while let Some(address) = open.pop() {
            progress.set_steps(asked.len() + open.len() + 1);
            progress.at(asked.len(), "asking");
            if !asked.insert(address.clone()) {
                continue;
            }
            let Ok(server) = remote.elsewhere(&address) else {
                self.summary.problems.push(format!("{address}: no address"));
                continue;
            };
            let mut client = AdministrationServiceClient::new(server.peer().channel());
            let answer = client.get_server_info(v1::GetServerInfoRequest {}).await;
            let Some(info) = self.keep("server-info", &address, answer)? else { continue };
            self.summary.servers += 1;
            open.extend(info.peers.iter().map(|peer| peer.address.clone()));
            if info.roles.iter().any(|role| role == "router") {
                routers.push(address.clone());
            }
            for role in &info.roles {
                match role.as_str() {
                    "tic" => open.extend(self.tic(&address, &server, args.nodes).await?),
                    "router" => {
                        open.extend(self.router(&address, &server, args.recordings).await?);
                    }
                    "switch-agent" => self.switches(&address, &server, args.tables).await?,
                    "operating-agent" => self.agent(&address, &server).await?,
                    _ => {}
                }
            }
        }
        progress.finish();
        if self.summary.servers == 0 {
            return Err(Failure::unreachable(self.summary.problems.join("; ")));
        }
        if routers.is_empty() {
            let why = "none answers, so the tables were compared by none";
            self.problem(&remote.addresses().join(","), "route services", why);
        } else if self.route_services != RouteServices::Compared {
            self.route_services = RouteServices::Inactive;
            let why = "no active one was found, so the tables were compared by none";
            self.problem(&routers.join(","), "route services", why);
        }
        Ok(())
    }

    /// Writes the records of a TIC; returns the addresses of the nodes if `with_nodes`.
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
        self.keep_read("groups", address, groups)?;
        let nodes = server.nodes().await;
        let addresses =
            nodes.as_ref().map(|nodes| nodes.iter().map(|node| node.address.clone()).collect());
        let addresses: Vec<String> = addresses.unwrap_or_default();
        let nodes = nodes.map(|nodes| v1::ListNodesResponse { nodes, ..Default::default() });
        self.keep_read("nodes", address, nodes)?;
        let page_size = PAGE;
        let jobs = v1::ListJobsRequest { page_size, ..Default::default() };
        self.keep("jobs", address, server.jobs().list_jobs(jobs).await)?;
        let collectives = v1::ListCollectivesRequest { page_size, ..Default::default() };
        let collectives = server.collectives().list_collectives(collectives).await;
        self.keep("collectives", address, collectives)?;
        match server.topology().await {
            Ok(text) => self.write(address, "topology.ibnetdiscover", &text)?,
            Err(failure) => self.problem(address, "topology", &failure.message()),
        }
        Ok(if with_nodes { addresses } else { Vec::new() })
    }

    /// Writes the status of a route service, its files of recordings if `with_recordings`, and its
    /// drifts if it is the active one; returns the address of the active one if it is another.
    async fn router(
        &mut self,
        address: &str,
        server: &Remote,
        with_recordings: bool,
    ) -> Result<Option<String>, Failure> {
        // The route service at this address, not the one that it would lead to.
        let mut client = RouteServiceClient::new(server.peer().channel());
        let status = client.get_route_status(v1::GetRouteStatusRequest {}).await;
        let Some(status) = self.keep("route-status", address, status)? else { return Ok(None) };
        if with_recordings {
            self.recordings(address, client.clone()).await?;
        }
        if !status.active {
            return Ok(Some(status.active_address).filter(|active| !active.is_empty()));
        }
        let drifts = client.list_table_drifts(v1::ListTableDriftsRequest {}).await;
        if self.keep("table-drifts", address, drifts)?.is_some() {
            self.route_services = RouteServices::Compared;
        }
        match recording(client).await {
            Ok(file) => self.write(address, "route-service.recording", &file)?,
            Err(error) => self.problem(address, "recording", error.message()),
        }
        Ok(None)
    }

    /// Writes the files of a route service's recordings, if its settings name a folder for them.
    async fn recordings(
        &mut self,
        address: &str,
        mut client: RouteServiceClient<fabricast_rpc::Channel>,
    ) -> Result<(), Failure> {
        let request = v1::DownloadRecordingRequest { files: true };
        let mut stream = match remote::answer(client.download_recording(request)).await {
            Ok(stream) => stream,
            Err(error) => {
                // An earlier version has no files, and takes the request for one of its recording.
                let refusals = [Reason::NotLeader, Reason::NothingRecorded];
                let is_earlier = error.reason().is_some_and(|reason| refusals.contains(&reason));
                if !is_earlier {
                    self.problem(address, RECORDINGS, error.message());
                }
                return Ok(());
            }
        };
        loop {
            match stream.message().await.map_err(RpcError::from) {
                Ok(Some(response)) => self.extend(address, &response)?,
                Ok(None) => return Ok(()),
                Err(error) => {
                    self.problem(address, RECORDINGS, error.message());
                    return Ok(());
                }
            }
        }
    }

    async fn switches(
        &mut self,
        address: &str,
        server: &Remote,
        with_tables: bool,
    ) -> Result<(), Failure> {
        let mut client = SwitchAgentServiceClient::new(server.peer().channel());
        let switches = client.list_switches(v1::ListSwitchesRequest {}).await;
        self.keep("switches", address, switches)?;
        if !with_tables {
            return Ok(());
        }
        let read = async {
            let mut tables = Vec::new();
            let request = v1::ReadTablesRequest::default();
            let mut stream = remote::answer(client.read_tables(request)).await?;
            while let Some(part) = stream.message().await? {
                tables.extend(part.table);
            }
            Ok::<_, RpcError>(tables)
        };
        match read.await {
            Ok(tables) => {
                let mut lines = String::new();
                for table in tables {
                    lines += &output::json_line(&table)?;
                    lines.push('\n');
                }
                self.write(address, "tables.jsonl", &lines)
            }
            Err(error) => {
                self.problem(address, "tables", error.message());
                Ok(())
            }
        }
    }

    async fn agent(&mut self, address: &str, server: &Remote) -> Result<(), Failure> {
        let hosted = server.agent().list_hosted_nodes(v1::ListHostedNodesRequest {}).await;
        self.keep("hosted-nodes", address, hosted)?;
        let memberships = v1::ListMembershipsRequest::default();
        let memberships = server.agent().list_memberships(memberships).await;
        self.keep("memberships", address, memberships)?;
        Ok(())
    }

    /// Writes an answer, or records why there is none.
    fn keep<T: Message, E: Into<RpcError>>(
        &mut self,
        what: &str,
        address: &str,
        answer: Result<tonic::Response<T>, E>,
    ) -> Result<Option<T>, Failure> {
        match answer {
            Ok(answer) => {
                let answer = answer.into_inner();
                self.write(address, &format!("{what}.json"), &output::json_text(&answer)?)?;
                Ok(Some(answer))
            }
            Err(error) => {
                let error = error.into();
                self.problem(address, what, &format!("{:?}: {}", error.code(), error.message()));
                Ok(None)
            }
        }
    }

    fn keep_read<T: Message>(
        &mut self,
        what: &str,
        address: &str,
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

    fn write(&mut self, address: &str, name: &str, text: impl AsRef<[u8]>) -> Result<(), Failure> {
        let folder = self.folder_of(address);
        let file = folder.join(name);
        fs::create_dir_all(&folder)
            .and_then(|()| fs::write(&file, text))
            .with_context(|| format!("write '{}'", self.place.display()))?;
        self.summary.files += 1;
        Ok(())
    }

    /// Appends a part to its file of recordings. A name that no such file has, as one with a path,
    /// is not trusted.
    fn extend(
        &mut self,
        address: &str,
        response: &v1::DownloadRecordingResponse,
    ) -> Result<(), Failure> {
        let v1::DownloadRecordingResponse { part, file } = response;
        if !SegmentName::is_of_recording(file) {
            return Ok(());
        }
        let folder = self.folder_of(address).join(RECORDINGS);
        let place = folder.join(file);
        self.summary.files += usize::from(!place.exists());
        fs::create_dir_all(&folder)
            .and_then(|()| OpenOptions::new().create(true).append(true).open(&place))
            .and_then(|mut file| file.write_all(part))
            .with_context(|| format!("write '{}'", self.place.display()))?;
        Ok(())
    }

    fn folder_of(&self, address: &str) -> PathBuf {
        self.draft.path().join(address.replace([':', '[', ']', '/'], "_"))
    }

    /// Moves the files to their final folder and prints the summary.
    ///
    /// # Errors
    ///
    /// Files that cannot be written, or [`Failure::No`] if only standbys of the route service
    /// answered: that there are no drifts in the bundle says nothing then.
    fn end(self, format: Format) -> Result<(), Failure> {
        let Self { draft, place, summary, route_services } = self;
        let named = || format!("write '{}'", place.display());
        let about = serde_json::to_string_pretty(&summary)?;
        fs::write(draft.path().join("summary.json"), about).with_context(named)?;
        fs::rename(draft.path(), &place).with_context(named)?;
        let _moved = draft.keep();
        output::print(format, &summary, |summary| {
            let Summary { folder, servers, files, problems } = summary;
            let lines: Vec<String> =
                problems.iter().map(|problem| format!("\n{problem}")).collect();
            format!("{folder}: {files} files of {servers} servers{}", lines.concat())
        })?;
        if route_services == RouteServices::Inactive {
            return Err(Failure::No("no active route service has compared the tables".to_owned()));
        }
        Ok(())
    }
}

/// Fetches the recording of the active route service.
async fn recording(
    mut client: RouteServiceClient<fabricast_rpc::Channel>,
) -> Result<Vec<u8>, RpcError> {
    let request = v1::DownloadRecordingRequest { files: false };
    let mut stream = remote::answer(client.download_recording(request)).await?;
    let mut file = Vec::new();
    while let Some(response) = stream.message().await? {
        file.extend(response.part);
    }
    Ok(file)
}
