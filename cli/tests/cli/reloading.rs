//! Settings that change while a part runs, each a process of its own.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::metrics::get;
use crate::support::{Sandbox, data, free_address};

/// A bound for whatever must come about.
const SOON: Duration = Duration::from_secs(60);

/// A TIC with its settings in `f.toml`; killed when the test is over.
struct Tic {
    sandbox: Sandbox,
    child: Child,
    address: String,
    metrics: String,
}

impl Drop for Tic {
    fn drop(&mut self) {
        // One that has ended already is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Tic {
    /// - `more`: settings of the TIC; the log is written to `tic.log`.
    async fn start(more: &str) -> Self {
        let (sandbox, address, metrics) = (Sandbox::new(), free_address(), free_address());
        sandbox.write("f.toml", text(&address, more));
        let mut command = sandbox.command(&["tic", "--config", "f.toml", "--metrics", &metrics]);
        let log = std::fs::File::create(sandbox.path("tic.log")).unwrap();
        let child = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let tic = Self { sandbox, child, address, metrics };
        tic.shows("\nfabricast_settings_generation 1\n").await;
        tic
    }

    /// Replaces the settings, in one step as an editor does.
    fn write(&self, more: &str) {
        self.sandbox.write("new.toml", text(&self.address, more));
        std::fs::rename(self.sandbox.path("new.toml"), self.sandbox.path("f.toml")).unwrap();
    }

    fn hang_up(&self) {
        let line = format!("kill -HUP {}", self.child.id());
        assert!(std::process::Command::new("sh").args(["-c", &line]).status().unwrap().success());
    }

    /// Waits until the metrics have a line.
    async fn shows(&self, line: &str) {
        until(|| get(&self.metrics).unwrap_or_default().contains(line), line).await;
    }

    /// Waits until the log has something.
    async fn says(&self, words: &str) {
        until(|| self.sandbox.read("tic.log").contains(words), words).await;
    }
}

fn text(address: &str, more: &str) -> String {
    let net = data("cluster-edr-96.ibnetdiscover");
    format!("[tic]\nlisten = '{address}'\ntopology = '{net}'\nstore = 'memory'\n{more}")
}

async fn until(mut is_so: impl FnMut() -> bool, what: &str) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < SOON, "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn settings_are_taken_over_whole_or_not_at_all() {
    let tic = Tic::start("[telemetry]\nlog = 'error'\n").await;
    tic.write("probe_attempts = 3\n[telemetry]\nlog = 'info'\n");
    tic.hang_up();
    tic.shows("\nfabricast_settings_generation 2\n").await;
    tic.says("settings read again generation=2").await;
    let log = tic.sandbox.read("tic.log");
    assert!(log.contains("probe_timeout or probe_attempts, telemetry.log"), "{log}");
    assert!(!log.contains("tic serves"), "that was before the log had such lines: {log}");

    tic.write("colors = 8\nprobe_attempts = 4\n[telemetry]\nlog = 'debug'\n");
    tic.hang_up();
    tic.shows("\nfabricast_settings_refused_total 1\n").await;
    tic.says("before the part is started again generation=2 settings=\"tic.colors\"").await;

    tic.write("probe_attempts = 0\nreport_timeout = '0s'\n[telemetry]\nlog = 'tic=loud'\n");
    tic.hang_up();
    tic.shows("\nfabricast_settings_refused_total 2\n").await;
    for line in [
        "f.toml:6: tic.report_timeout: must be longer than 0s",
        "f.toml:5: tic.probe_attempts: must be at least 1",
        "f.toml:8: telemetry.log: cannot read log filter 'tic=loud'",
    ] {
        tic.says(line).await;
    }
    tic.write("[[[\n");
    tic.hang_up();
    tic.shows("\nfabricast_settings_refused_total 3\n").await;
    tic.says("f.toml:5: ").await;
    std::fs::remove_file(tic.sandbox.path("f.toml")).unwrap();
    tic.hang_up();
    tic.shows("\nfabricast_settings_refused_total 4\n").await;
    tic.shows("\nfabricast_settings_generation 2\n").await;
    tic.sandbox.ok(&["group", "list", "--server", &tic.address]);
}

#[tokio::test]
async fn a_file_that_has_changed_needs_no_signal() {
    let tic = Tic::start("").await;
    tic.write("report_timeout = '3s'\n");
    tic.shows("\nfabricast_settings_generation 2\n").await;
    tic.write("report_timeout = '3s'\ncolors = 8\n");
    tic.shows("\nfabricast_settings_refused_total 1\n").await;
}

#[tokio::test]
async fn a_shorter_timeout_finds_who_died_before_it() {
    let tic =
        Tic::start("report_timeout = '1h'\nprobe_timeout = '100ms'\nmax_silent_percent = 100\n")
            .await;
    let agent = free_address();
    let nobody = free_address();
    tic.sandbox.write(
        "a.toml",
        format!(
            "[operating_agent]\nlisten = '{agent}'\ntic = '{}'\nfabric = '{nobody}'\n\
             nodes = [{{ name = 'node001', endpoints = ['node001 HCA-1'] }}]\n",
            tic.address
        ),
    );
    let mut command = tic.sandbox.command(&["operating-agent", "--config", "a.toml"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let join = ["group", "join", "g", "--node", "node001", "--server", &agent];
    until(|| tic.sandbox.run(&join).code == 0, "a member").await;
    child.kill().unwrap();
    child.wait().unwrap();
    let expelled = "\nfabricast_tic_expelled_nodes_total";
    tic.shows(&format!("{expelled} 0\n")).await;
    tic.write("report_timeout = '1s'\nprobe_timeout = '100ms'\nmax_silent_percent = 100\n");
    tic.hang_up();
    tic.shows("\nfabricast_settings_generation 2\n").await;
    tic.shows(&format!("{expelled} 1\n")).await;
}
