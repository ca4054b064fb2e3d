//! Jobs as Slurm starts and ends them, at a fixed rate: measures the prolog, and looks for leaks.
//!
//! For each job it calls `fabricast slurm prolog` and `fabricast slurm epilog` as slurmctld does,
//! each in a process of its own, and in between forms the job's groups on all of its nodes. Of
//! sixteen jobs eleven have their nodes to themselves, and five share those of another, more than
//! its leaf switches have entries for. One in sixty-four has no epilog: `slurm sweep` finds it.
//! `cargo xtask slurm-load` runs it. Exit 1 if anything leaked, failed or was over its budget.
#![expect(clippy::print_stdout, reason = "the figures are its output")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use fabricast_placement::hostlist;
use fabricast_proto::v1;
use fabricast_proto::v1::group_batch_service_client::GroupBatchServiceClient;
use fabricast_proto::v1::job_service_client::JobServiceClient;
use fabricast_proto::v1::tic_service_client::TicServiceClient;
use fabricast_rpc::{Channel, Security, request_id};
use parking_lot::Mutex;
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

/// Token of all jobs.
const TOKEN: &str = "0123456789abcdef0123456789abcdef";
/// Table entries of a switch, and so of a leaf switch for jobs.
const ENTRIES: u32 = 32;
/// Longest time until everything has ended, after the last job.
const REST: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, Parser)]
struct Options {
    /// The binary `fabricast`.
    #[arg(long)]
    program: PathBuf,
    #[arg(long, default_value = "demo")]
    topology: String,
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    #[arg(long, default_value_t = 1000)]
    per_minute: u64,
    #[arg(long, default_value_t = 32)]
    nodes: usize,
    #[arg(long, default_value_t = 8)]
    groups: u32,
    /// Only reserve the groups, and form none.
    #[arg(long)]
    reserve_only: bool,
}

/// A control plane, which ends with this value.
struct ControlPlane {
    options: Options,
    address: String,
    channel: Channel,
    /// The TIC forms so many batches of a client at once.
    forming: Semaphore,
    /// Has `squeue`, which lists `known`.
    folder: TempDir,
    /// Numbers of the jobs that the scheduler has.
    known: Mutex<BTreeSet<u64>>,
    _child: Child,
}

/// Times and counts of the whole load.
#[derive(Default)]
struct Measured {
    prologs: Vec<Duration>,
    epilogs: Vec<Duration>,
    formed: Vec<Duration>,
    refused: u64,
    failures: Vec<String>,
    most_jobs: usize,
    most_reserved: u64,
    most_used: u64,
    /// Longest wait of a job for its nodes.
    latest: Duration,
    swept: usize,
}

impl Measured {
    fn note_start(&mut self, late: Duration) {
        self.latest = self.latest.max(late);
    }

    fn note(&mut self, jobs: usize, reserved: Option<u64>, used: Option<u64>, swept: usize) {
        self.most_jobs = self.most_jobs.max(jobs);
        self.most_reserved = self.most_reserved.max(reserved.unwrap_or(0));
        self.most_used = self.most_used.max(used.unwrap_or(0));
        self.swept += swept;
    }
}

type Shared = Arc<Mutex<Measured>>;

/// Nodes of one job or several, which are free again when the last of them has ended.
struct Placed {
    nodes: Vec<String>,
    returned: UnboundedSender<Vec<String>>,
}

impl Drop for Placed {
    fn drop(&mut self) {
        // Nobody receives them after the last job.
        let _ = self.returned.send(std::mem::take(&mut self.nodes));
    }
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    let runtime = tokio::runtime::Runtime::new().context("start the runtime")?;
    runtime.block_on(run(options))
}

async fn run(options: Options) -> Result<ExitCode> {
    let plane = Arc::new(ControlPlane::start(options).await?);
    let measured = Shared::default();
    let watcher = tokio::spawn(watch(Arc::clone(&plane), Arc::clone(&measured)));
    let began = Instant::now();
    submit(&plane, &measured).await?;
    let took = began.elapsed();
    watcher.abort();
    let watched = watcher.await;
    let swept = plane.sweep().await?;
    let left = plane.left().await?;
    let mut measured = measured.lock();
    measured.swept += swept;
    match watched {
        Err(error) if error.is_cancelled() => {}
        Err(error) => measured.failures.push(format!("watcher: {error}")),
        Ok(ended) => measured.failures.push(format!("watcher ended early: {ended:?}")),
    }
    print(&plane.options, &mut measured, took);
    let over = measured.most_reserved.max(measured.most_used) > u64::from(ENTRIES);
    println!("left after the sweep: {left:?}");
    println!("failures: {}", measured.failures.len());
    measured.failures.iter().take(5).for_each(|failure| println!("failed: {failure}"));
    let is_fine = left == Left::default() && measured.failures.is_empty() && !over;
    Ok(if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Starts jobs at the rate, and waits for the last.
async fn submit(plane: &Arc<ControlPlane>, measured: &Shared) -> Result<()> {
    let options = &plane.options;
    let mut free: VecDeque<String> = hostlist::expand(&plane.lists().await?.join(","))?.into();
    ensure!(free.len() >= 2 * options.nodes, "the topology has {} nodes", free.len());
    let gap = Duration::from_secs(60) / u32::try_from(options.per_minute.max(1))?;
    let count = options.seconds * options.per_minute / 60;
    let (returned, mut returns) = unbounded_channel();
    let began = tokio::time::Instant::now();
    let mut last: Option<Arc<Placed>> = None;
    let mut running = JoinSet::new();
    for job in 0..count {
        tokio::time::sleep_until(began + gap * u32::try_from(job)?).await;
        let is_alone = job % 16 < 11;
        let placed = match last.take().filter(|_| !is_alone) {
            Some(placed) => placed,
            None => {
                // A job waits for its nodes, as in a queue. It takes them from the front, and they
                // come back together at the end, so that a job is on few leaf switches.
                while free.len() < options.nodes || !returns.is_empty() {
                    let nodes: Vec<String> = returns.recv().await.context("no job has nodes")?;
                    free.extend(nodes);
                }
                let nodes = free.drain(..options.nodes).collect();
                Arc::new(Placed { nodes, returned: returned.clone() })
            }
        };
        last = Some(Arc::clone(&placed));
        let late = began.elapsed() - gap * u32::try_from(job)?;
        measured.lock().note_start(late);
        let (plane, measured) = (Arc::clone(plane), Arc::clone(measured));
        running.spawn(async move {
            if let Err(error) = live(&plane, &measured, job, &placed.nodes).await {
                measured.lock().failures.push(format!("job {job}: {error:#}"));
            }
        });
        while running.try_join_next().is_some() {}
    }
    running.join_all().await;
    Ok(())
}

/// The life of a job.
async fn live(plane: &ControlPlane, measured: &Shared, job: u64, nodes: &[String]) -> Result<()> {
    plane.note(job, true)?;
    let began = Instant::now();
    let refused = plane.hook("prolog", job, nodes).await?;
    measured.lock().prologs.push(began.elapsed());
    if refused {
        measured.lock().refused += 1;
        ensure!(job % 16 > 9, "refused, on nodes of its own");
    } else if !plane.options.reserve_only {
        let forming = Instant::now();
        plane.form(job, nodes).await?;
        measured.lock().formed.push(forming.elapsed());
    }
    // From 2 to 4 seconds.
    let runs = Duration::from_millis(2000 + job * 7919 % 2000);
    tokio::time::sleep(runs.saturating_sub(began.elapsed())).await;
    if job % 64 != 5 {
        let began = Instant::now();
        plane.hook("epilog", job, nodes).await?;
        measured.lock().epilogs.push(began.elapsed());
    }
    plane.note(job, false)
}

impl ControlPlane {
    async fn start(options: Options) -> Result<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").context("find a port")?;
        let address = listener.local_addr()?.to_string();
        drop(listener);
        let mut up = Command::new(&options.program);
        up.args(["up", "--topology", &options.topology, "--listen", &address]);
        up.args(["--colors", &ENTRIES.to_string()]).kill_on_drop(true);
        let child = up.stdout(Stdio::null()).stderr(Stdio::null()).spawn().context("start up")?;
        let channel = Security::local().peer(&address)?.channel();
        let folder = tempfile::tempdir()?;
        let squeue = folder.path().join("squeue");
        std::fs::write(&squeue, "#!/bin/sh\ncat \"$0.list\"\n")?;
        std::fs::set_permissions(&squeue, PermissionsExt::from_mode(0o755))?;
        let (known, forming) = (Mutex::default(), Semaphore::new(2));
        let plane = Self { options, address, channel, forming, folder, known, _child: child };
        let began = Instant::now();
        // Until the last node of the topology is up.
        while !plane.is_ready().await.unwrap_or(false) {
            ensure!(began.elapsed() < REST, "the control plane does not serve");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Ok(plane)
    }

    async fn is_ready(&self) -> Result<bool> {
        let (is_healthy, ..) = self.call(&["health"]).await?;
        let (_, text, _) = self.call(&["node", "list", "--format", "json"]).await?;
        let list: Value = serde_json::from_str(&text)?;
        let is_up = |node: &&Value| node["state"] == "NODE_STATE_UP";
        let up = list["nodes"].as_array().map_or(0, |nodes| nodes.iter().filter(is_up).count());
        Ok(is_healthy && up >= hostlist::expand(&self.lists().await?.join(","))?.len())
    }

    /// Runs the command line; returns if it succeeded, and its output and errors.
    async fn call(&self, arguments: &[&str]) -> Result<(bool, String, String)> {
        self.run(Command::new(&self.options.program).args(arguments)).await
    }

    async fn run(&self, command: &mut Command) -> Result<(bool, String, String)> {
        command.env("FABRICAST_SERVER", &self.address).stdin(Stdio::null());
        let output = command.output().await.context("start fabricast")?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok((output.status.success(), text(output.stdout), text(output.stderr)))
    }

    /// Calls prolog or epilog as slurmctld does; returns true if the share is refused.
    async fn hook(&self, verb: &str, job: u64, nodes: &[String]) -> Result<bool> {
        let mut command = Command::new(&self.options.program);
        command.args(["slurm", verb]).env("SPANK_FABRICAST", "yes");
        command.env("SPANK_FABRICAST_TOKEN", TOKEN).env("SLURM_JOB_ID", (job + 1).to_string());
        command.env("SPANK_FABRICAST_GROUPS", self.options.groups.to_string());
        command.env("SLURM_JOB_NODELIST", nodes.join(",")).env("SLURM_JOB_UID", "1000");
        command.env("SLURM_JOB_ACCOUNT", format!("account-{}", job % 20));
        let (success, _, errors) = self.run(&mut command).await?;
        ensure!(success, "{verb}: {errors}");
        match errors.as_str() {
            "" => Ok(false),
            refused if refused.contains("NO_ROOM") => Ok(true),
            other => bail!("{verb}: {other}"),
        }
    }

    /// Forms the groups of a job.
    async fn form(&self, job: u64, nodes: &[String]) -> Result<()> {
        let name = format!("slurm-{}", job + 1);
        let member = |node: &String| v1::FormedMember {
            endpoint: node.clone(),
            process: "rank".to_owned(),
            ..v1::FormedMember::default()
        };
        let group = |number| v1::FormedGroupSpec {
            group: format!("job/{name}/{number}"),
            members: nodes.iter().map(member).collect(),
            ..v1::FormedGroupSpec::default()
        };
        let request = v1::FormGroupsRequest {
            request_id: request_id(),
            job: name.clone(),
            groups: (0..self.options.groups).map(group).collect(),
            job_token: TOKEN.to_owned(),
        };
        let _permit = self.forming.acquire().await?;
        let mut client = GroupBatchServiceClient::new(self.channel.clone());
        let mut answers = client.form_groups(tokio_stream::iter([request])).await?.into_inner();
        let mut formed = 0;
        while let Some(answer) = answers.message().await? {
            formed = answer.formed_count;
        }
        ensure!(formed == self.options.groups, "{formed} groups are formed");
        Ok(())
    }

    /// The lists of nodes of the leaf switches.
    async fn lists(&self) -> Result<Vec<String>> {
        let (success, conf, errors) = self.call(&["slurm", "topology"]).await?;
        ensure!(success, "topology: {errors}");
        let lists = conf.lines().filter_map(|line| line.split_once(" Nodes="));
        Ok(lists.map(|(_, list)| list.to_owned()).collect())
    }

    /// The leaf switch of each node.
    async fn leaves(&self) -> Result<BTreeMap<String, usize>> {
        let mut leaves = BTreeMap::new();
        for (leaf, list) in self.lists().await?.iter().enumerate() {
            let nodes = hostlist::expand(list)?;
            leaves.extend(nodes.into_iter().map(|node| (node, leaf)));
        }
        Ok(leaves)
    }

    /// Every job with a share.
    async fn jobs(&self) -> Result<Vec<v1::Job>> {
        let mut client = JobServiceClient::new(self.channel.clone());
        let request = v1::ListJobsRequest { page_size: 10_000, ..Default::default() };
        Ok(client.list_jobs(request).await?.into_inner().jobs)
    }

    /// Notes for `squeue` that a job begins or has ended.
    fn note(&self, job: u64, is_known: bool) -> Result<()> {
        let mut known = self.known.lock();
        if is_known {
            known.insert(job + 1)
        } else {
            known.remove(&(job + 1))
        };
        let list: String = known.iter().map(|id| format!("{id}\n")).collect();
        let [new, path] = ["new", "squeue.list"].map(|name| self.folder.path().join(name));
        std::fs::write(&new, list)?;
        Ok(std::fs::rename(new, path)?)
    }

    /// Releases jobs that the scheduler does not have; returns how many.
    async fn sweep(&self) -> Result<usize> {
        let squeue = self.folder.path().join("squeue").display().to_string();
        let sweep = ["slurm", "sweep", "--squeue", &squeue, "--format", "json"];
        let (success, text, errors) = self.call(&sweep).await?;
        ensure!(success, "sweep: {errors}");
        let swept: Value = serde_json::from_str(&text)?;
        Ok(swept["released"].as_array().map_or(0, Vec::len))
    }

    /// Remains of jobs, once the tables of the switches have followed.
    async fn left(&self) -> Result<Left> {
        let began = Instant::now();
        loop {
            let mut groups = TicServiceClient::new(self.channel.clone());
            let groups = groups.list_groups(v1::ListGroupsRequest::default()).await?.into_inner();
            let entries = self.entries().await?.into_iter().sum();
            let left =
                Left { jobs: self.jobs().await?.len(), groups: groups.groups.len(), entries };
            if left == Left::default() || began.elapsed() > REST {
                return Ok(left);
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// Entries that each switch has.
    async fn entries(&self) -> Result<Vec<u64>> {
        let (success, text, errors) = self.call(&["switch", "list", "--format", "json"]).await?;
        ensure!(success, "switch list: {errors}");
        let list: Value = serde_json::from_str(&text)?;
        let switches = list["switches"].as_array().into_iter().flatten();
        Ok(switches.map(|switch| switch["usedEntries"].as_u64().unwrap_or(0)).collect())
    }
}

/// Remains of all jobs.
#[derive(Debug, Default, PartialEq, Eq)]
struct Left {
    jobs: usize,
    groups: usize,
    entries: u64,
}

/// Notes every second how many groups the jobs of each leaf switch have reserved, and now and then
/// how many entries switches have. Sweeps every ten seconds.
async fn watch(plane: Arc<ControlPlane>, measured: Shared) -> Result<()> {
    let leaves = plane.leaves().await?;
    for second in 0u64.. {
        let jobs = plane.jobs().await?;
        let mut reserved: BTreeMap<usize, u64> = BTreeMap::new();
        for job in &jobs {
            let on: BTreeSet<usize> =
                job.nodes.iter().filter_map(|node| leaves.get(&node.node).copied()).collect();
            let groups = job.share.as_ref().map_or(0, |share| u64::from(share.group_count));
            on.into_iter().for_each(|leaf| *reserved.entry(leaf).or_default() += groups);
        }
        let swept = if second % 10 == 9 { plane.sweep().await? } else { 0 };
        let used = if second % 5 == 0 { plane.entries().await? } else { Vec::new() };
        measured.lock().note(
            jobs.len(),
            reserved.into_values().max(),
            used.into_iter().max(),
            swept,
        );
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    Ok(())
}

fn print(options: &Options, measured: &mut Measured, took: Duration) {
    let Measured {
        prologs,
        epilogs,
        formed,
        refused,
        latest,
        most_jobs,
        most_reserved,
        most_used,
        swept,
        ..
    } = measured;
    let (nodes, groups) = (options.nodes, options.groups);
    println!(
        "{} jobs of {nodes} nodes with {groups} groups each in {:.0} s, up to {most_jobs} at a time; \
         {refused} were refused",
        prologs.len(),
        took.as_secs_f64(),
    );
    for (what, times) in [("prolog", prologs), ("forming", formed), ("epilog", epilogs)] {
        times.sort_unstable();
        let at = |permille: usize| {
            let at = (times.len() * permille / 1000).min(times.len().saturating_sub(1));
            times.get(at).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
        };
        println!(
            "{what:8} p50 {:6.1} ms   p90 {:6.1} ms   p99 {:6.1} ms   most {:6.1} ms",
            at(500),
            at(900),
            at(990),
            at(1000)
        );
    }
    println!("longest wait of a job for nodes: {:.1} s", latest.as_secs_f64());
    println!("groups reserved on a leaf switch: at most {most_reserved} of {ENTRIES}");
    println!("entries of a switch in use: at most {most_used} of {ENTRIES}");
    println!("jobs without an epilog that the sweep released: {swept}");
}
