//! Jobs of a real Slurm (`deploy/slurm`): they get their share and give it back, whatever ends
//! them.

#[path = "needs_slurm/in_the_lab.rs"]
mod in_the_lab;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Longest time for what Slurm does by itself.
const LIMIT: Duration = Duration::from_secs(90);

/// A Slurm with a control plane, in a folder of its own; it ends when it is dropped.
struct Slurm {
    folder: TempDir,
    server: String,
    /// Folder of the lab (`deploy/lab`) whose hosts are the nodes.
    lab: Option<PathBuf>,
}

impl Slurm {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let port = free_ports();
        let slurm = Self { folder, server: format!("127.0.0.1:{port}"), lab: None };
        let mut command = slurm.command(Path::new(&script("slurm/start")));
        command.arg(slurm.run_folder()).env("FABRICAST_SLURM_PORT", port.to_string());
        succeeds(&mut command);
        slurm
    }

    fn run_folder(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    /// A command beside the control plane.
    fn command(&self, program: &Path) -> Command {
        let mut command = match &self.lab {
            None => Command::new(program),
            Some(_) => Command::new(script("lab/exec")),
        };
        self.set_up(&mut command);
        if let Some(lab) = &self.lab {
            command.arg("--").arg(program);
            command.env("FABRICAST_CERTIFICATES", lab.join("certificates/admin"));
        }
        command
    }

    /// Gives a command the environment of users, and none of ours.
    fn set_up(&self, command: &mut Command) {
        for (name, _) in std::env::vars_os() {
            if ["FABRICAST_", "SLURM", "SPANK_", "OMPI_", "PMIX_"]
                .iter()
                .any(|it| name.to_string_lossy().starts_with(it))
            {
                command.env_remove(name);
            }
        }
        command.env("FABRICAST", env!("CARGO_BIN_EXE_fabricast"));
        command.env("FABRICAST_SERVER", &self.server).current_dir(self.folder.path());
        command.env("SLURM_CONF", self.run_folder().join("slurm.conf"));
        if let Some(lab) = &self.lab {
            command.env("FABRICAST_LAB", lab);
        }
    }

    /// Runs a line of shell, as a user would.
    fn shell(&self, line: &str) -> Output {
        let mut command = self.command(Path::new("sh"));
        command.args(["-c", line]).output().expect("a shell")
    }

    /// Runs a line of shell that succeeds; returns what it prints.
    fn ok(&self, line: &str) -> String {
        let output = self.shell(line);
        assert!(output.status.success(), "{line}: {output:?}\n{}", self.read("hooks.log"));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.run_folder().join(file)).unwrap_or_default()
    }

    fn jobs(&self) -> Vec<Value> {
        let list = self.ok("$FABRICAST job list --format json");
        let list: Value = serde_json::from_str(&list).expect("JSON");
        list["jobs"].as_array().cloned().unwrap_or_default()
    }

    /// The jobs that aggregation entries are reserved for.
    fn aggregating(&self) -> Vec<Value> {
        let usage = self.ok("$FABRICAST collective usage --format json");
        let usage: Value = serde_json::from_str(&usage).expect("JSON");
        let reservations = usage["reservations"].as_array().cloned().unwrap_or_default();
        reservations.iter().map(|one| one["holder"]["job"].clone()).collect()
    }

    /// Waits until so many jobs have shares, and so many groups exist, and until nothing is
    /// reserved for a job that has no share.
    fn has(&self, jobs: usize, groups: usize) {
        let started = Instant::now();
        loop {
            let list = self.ok("$FABRICAST group list --format json");
            let list: Value = serde_json::from_str(&list).expect("JSON");
            let known: Vec<Value> = self.jobs().iter().map(|job| job["name"].clone()).collect();
            let leaked = self.aggregating().into_iter().filter(|job| !known.contains(job));
            let found = (known.len(), list["groups"].as_array().map_or(0, Vec::len));
            let leaked: Vec<Value> = leaked.collect();
            if found == (jobs, groups) && leaked.is_empty() {
                return;
            }
            let log = self.read("hooks.log");
            let wanted = (jobs, groups);
            assert!(started.elapsed() < LIMIT, "{found:?}, not {wanted:?}, {leaked:?}\n{log}");
        }
    }

    fn kill(&self, file: &str) {
        self.ok(&format!("kill -9 $(cat {}/{file})", self.run_folder().display()));
    }

    /// Submits a job that forms a group and waits to be ended; returns its number.
    fn submit(&self, options: &str) -> String {
        let script = self.folder.path().join("job.sh");
        let text = "#!/bin/sh\n$FABRICAST group join job/$FABRICAST_JOB/a --node $FABRICAST_NODE\n\
                    exec sleep 600\n";
        std::fs::write(&script, text).expect("the folder can be written");
        let line = format!("sbatch --parsable --output=out.%j {options} {}", script.display());
        self.ok(&line).trim().to_owned()
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        let mut stop = Command::new(script("slurm/stop"));
        self.set_up(&mut stop);
        let _ = stop.arg(self.run_folder()).output();
        if self.lab.is_some() {
            let mut stop = Command::new(script("lab/stop"));
            self.set_up(&mut stop);
            let _ = stop.output();
        }
    }
}

fn script(name: &str) -> String {
    format!("{}/../deploy/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn succeeds(command: &mut Command) {
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{command:?}: {output:?}");
}

/// The first of ten ports that are free now. None of them is given to connections that ask for any
/// port (32,768 and above on Linux): the controller is killed and takes its port again.
fn free_ports() -> u16 {
    let is_free = |port| std::net::TcpListener::bind(("127.0.0.1", port)).is_ok();
    // Tests in other processes begin elsewhere.
    let start = u16::try_from(std::process::id() % 700).unwrap_or(0);
    (0..700)
        .map(|step| 10_000 + (start + step) % 700 * 10)
        .find(|first| (*first..first + 10).all(is_free))
        .expect("ten free ports")
}

#[test]
fn a_job_gets_its_share_and_gives_it_back_whatever_ends_it() {
    let slurm = Slurm::start();
    a_job_forms_groups_with_its_token(&slurm);
    a_job_over_its_quota_is_warned_or_does_not_run(&slurm);
    jobs_end_in_many_ways(&slurm);
    crashes_leak_nothing_after_a_sweep(&slurm);
    let folder = slurm.run_folder();
    drop(slurm);
    assert!(!folder.exists());
    assert_eq!(processes_in(&folder), Vec::<PathBuf>::new());
}

/// Processes that work in a folder, which may be gone.
fn processes_in(folder: &Path) -> Vec<PathBuf> {
    let all = std::fs::read_dir("/proc").expect("it is Linux").flatten().map(|entry| entry.path());
    let is_in = |process: &PathBuf| {
        let place = std::fs::read_link(process.join("cwd")).unwrap_or_default();
        place.starts_with(folder)
            || place.display().to_string().starts_with(&*folder.to_string_lossy())
    };
    all.filter(is_in).collect()
}

fn a_job_forms_groups_with_its_token(slurm: &Slurm) {
    let printed = slurm.ok("srun -N2 -n2 --account=physics --fabricast --fabricast-groups=1 sh -c '\
         unset FABRICAST_PROCESS; $FABRICAST run --socket $FABRICAST_SOCKET -n 2 \
         --group job/$FABRICAST_JOB/$FABRICAST_NODE -- sh -c \"echo rank \\$FABRICAST_RANK\" || true; \
         $FABRICAST job list'");
    // One group is reserved: one of the two tasks forms it.
    assert!(printed.contains("rank 0\n") && printed.contains("rank 1\n"), "{printed}");
    assert!(printed.contains("physics") && printed.contains("of 1"), "{printed}");
    slurm.has(0, 0);
    let token = slurm.ok("srun -n1 sh -c 'echo \"<$FABRICAST_TOKEN$FABRICAST_JOB>\"'");
    assert_eq!(token, "<>\n", "a job that did not ask gets nothing");
    // A step of an allocation, and a batch job that leaves the environment behind.
    let said = slurm.ok("salloc --quiet -n1 --fabricast \
         srun sh -c 'echo $FABRICAST_JOB ${#FABRICAST_TOKEN}'");
    assert!(said.starts_with("slurm-") && said.ends_with(" 32\n"), "{said}");
    let script = slurm.folder.path().join("left.sh");
    let text = "#!/bin/sh\necho $FABRICAST_JOB ${#FABRICAST_TOKEN}\n";
    std::fs::write(&script, text).expect("the folder can be written");
    slurm.ok("sbatch --wait --export=NONE --fabricast --output=left.out left.sh");
    assert_eq!(slurm.ok("cut -d' ' -f2 left.out"), "32\n");
    // Steps of that job leave it behind as well: Slurm gives them no PATH.
    let text = "#!/bin/sh\nsrun /bin/sh -c 'echo $FABRICAST_JOB ${#FABRICAST_TOKEN}'\n";
    std::fs::write(&script, text).expect("the folder can be written");
    slurm.ok("sbatch --wait --export=NONE --fabricast --output=left.out left.sh");
    let said = slurm.ok("cat left.out");
    assert!(said.starts_with("slurm-") && said.ends_with(" 32\n"), "{said}");
    // The job of another user of the node.
    let refused = slurm.ok("srun -n1 --fabricast sh -c '\
         $FABRICAST group join job/$FABRICAST_JOB/a --node $FABRICAST_NODE --process p \
         --job-token 0123456789abcdef 2>&1 || true'");
    assert!(refused.contains("TOKEN_REFUSED"), "{refused}");
}

fn a_job_over_its_quota_is_warned_or_does_not_run(slurm: &Slurm) {
    let warned = slurm.ok("srun -n1 --fabricast --fabricast-groups=999 echo ran");
    assert_eq!(warned, "ran\n");
    assert!(slurm.read("hooks.log").contains("warning: job slurm-"), "{}", slurm.read("hooks.log"));
    for many in ["--fabricast-groups=999", "--fabricast-aggregation=999"] {
        let refused = slurm.shell(&format!("srun -n1 --fabricast=require {many} echo ran"));
        assert!(!refused.status.success() && refused.stdout.is_empty(), "{refused:?}");
    }
    let entries = "srun -n1 --fabricast=require --fabricast-aggregation=2 sh -c '\
         $FABRICAST job show $FABRICAST_JOB --format json'";
    assert!(slurm.ok(entries).contains("\"aggregationEntries\": 2"), "{}", slurm.ok(entries));
    for option in [
        "--fabricast=maybe",
        "--fabricast-groups=0",
        "--fabricast-groups=99999999999",
        "--fabricast-aggregation=0",
        "--fabricast-aggregation=many",
    ] {
        assert!(!slurm.shell(&format!("srun -n1 {option} true")).status.success(), "{option}");
    }
    slurm.has(0, 0);
}

fn jobs_end_in_many_ways(slurm: &Slurm) {
    let array = slurm
        .submit("-n1 --array=1-3 --account=physics --fabricast-groups=1 --fabricast-aggregation=1");
    let single = slurm.submit("-N2 -n2 --account=chemistry --fabricast=require");
    slurm.has(4, 4);
    assert_eq!(slurm.aggregating().len(), 3);
    let mut accounts: Vec<Value> =
        slurm.jobs().iter().map(|job| job["share"]["account"].clone()).collect();
    accounts.sort_by_key(ToString::to_string);
    assert_eq!(accounts, ["chemistry", "physics", "physics", "physics"]);
    slurm.ok(&format!("scontrol requeue {single}"));
    slurm.has(3, 3);
    slurm.ok(&format!("scancel {array}_2"));
    slurm.has(2, 2);
    slurm.ok("scancel --user=root");
    slurm.has(0, 0);
}

fn crashes_leak_nothing_after_a_sweep(slurm: &Slurm) {
    for _ in 0..2 {
        slurm.submit("-N1 -n1 --fabricast-groups=1 --fabricast-aggregation=1");
    }
    slurm.has(2, 2);
    assert_eq!(slurm.aggregating().len(), 2);
    for node in 0..8 {
        slurm.kill(&format!("slurmd.h{node}.pid"));
    }
    slurm.kill("slurmctld.pid");
    // The controller does not know the jobs any more.
    slurm.ok(&format!("rm -rf {0}/state && mkdir {0}/state", slurm.run_folder().display()));
    assert!(!slurm.shell("$FABRICAST slurm sweep").status.success(), "nobody lists the jobs");
    slurm.has(2, 2);
    slurm.ok("slurmctld -i");
    let started = Instant::now();
    while !slurm.shell("squeue").status.success() {
        let log = slurm.read("slurmctld.log");
        assert!(started.elapsed() < LIMIT, "the controller does not answer\n{log}");
    }
    let swept = slurm.ok("$FABRICAST slurm sweep");
    assert!(swept.starts_with("released slurm-"), "{swept}");
    slurm.has(0, 0);
}
