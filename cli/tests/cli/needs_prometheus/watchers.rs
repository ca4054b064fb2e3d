//! A Prometheus and an Alertmanager with the rules of `deploy/prometheus`, made quicker.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Sandbox, free_address};

/// Timeout of a condition; a test that waits longer fails.
const LIMIT: Duration = Duration::from_secs(90);

/// Address of the documents that this installation says.
const DOCUMENTS: &str = "https://docs.example.com/fabricast";

/// An alert: its name, and the cluster that it is about.
pub(crate) type Alert = (String, String);

/// The two programs; ended when dropped.
pub(crate) struct Watchers {
    prometheus: String,
    alertmanager: String,
    children: [Child; 2],
    expected: BTreeSet<Alert>,
}

/// Lets some time pass between two looks at something that has its own pace.
#[expect(clippy::disallowed_methods, reason = "there is no runtime to hold up")]
pub(crate) fn pause() {
    std::thread::sleep(Duration::from_millis(100));
}

/// Targets of one file: an address and its cluster.
pub(crate) fn write_targets(sandbox: &Sandbox, name: &str, addresses: &[&str], cluster: &str) {
    let text = format!("- targets: {addresses:?}\n  labels: {{ cluster: {cluster} }}\n");
    // Prometheus looks when the folder changes, and must not find half a file.
    sandbox.write("targets.new", text);
    let path = sandbox.path("targets").join(format!("{name}.yaml"));
    std::fs::rename(sandbox.path("targets.new"), path).expect("the folder is there");
}

fn deployed(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/prometheus");
    std::fs::read_to_string(folder.join(name)).expect("the file is there")
}

/// The rules with short times: minutes become seconds, and seconds one. So what usually ends
/// within seconds, as writing of tables, fires here no more than it does elsewhere.
fn quick_rules() -> String {
    // As docs/metrics.md says.
    let rules = deployed("alerts.yaml").replace("https://fabricast.example", DOCUMENTS);
    let lines = rules.lines().map(|line| {
        if let Some(time) = line.trim_start().strip_prefix("for: ") {
            let time = time.strip_suffix('m').unwrap_or("1");
            return format!("        for: {time}s");
        }
        line.replace("[10m]", "[15s]").replace("[5m]", "[15s]")
    });
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

impl Watchers {
    /// Starts both in a sandbox, whose `targets` say what to read.
    ///
    /// - `node_exporter`: a target that is no part of a cluster.
    pub(crate) fn start(sandbox: &Sandbox, node_exporter: &str) -> Self {
        let (prometheus, alertmanager) = (free_address(), free_address());
        let settings = deployed("prometheus.yaml")
            .replace("15s", "1s")
            .replace("127.0.0.1:9093", &alertmanager)
            .replace("scrape_configs:\n", &format!("scrape_configs:\n  - job_name: node\n    static_configs: [{{ targets: ['{node_exporter}'], labels: {{ cluster: east }} }}]\n"));
        sandbox.write("prometheus.yaml", settings);
        sandbox.write("alerts.yaml", quick_rules());
        sandbox.write(
            "alertmanager.yaml",
            "route: { receiver: nobody }\nreceivers: [{ name: nobody }]\n",
        );
        let start = |mut command: Command, log: &str| {
            let log = std::fs::File::create(sandbox.path(log)).expect("room");
            command.current_dir(sandbox.path(""));
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
            command.spawn().expect("it is installed: cargo xtask setup")
        };
        let mut command = Command::new("prometheus-alertmanager");
        command.args(["--config.file=alertmanager.yaml", "--storage.path=silences"]);
        command
            .args(["--cluster.listen-address=", &format!("--web.listen-address={alertmanager}")]);
        let second = start(command, "alertmanager.log");
        let mut command = Command::new("prometheus");
        command.args(["--config.file=prometheus.yaml", "--storage.tsdb.path=series"]);
        command.arg(format!("--web.listen-address={prometheus}"));
        let first = start(command, "prometheus.log");
        let watchers =
            Self { prometheus, alertmanager, children: [first, second], expected: BTreeSet::new() };
        watchers.wait("both answer", || {
            let found = watchers.query("up").is_some_and(|found| !found.is_empty());
            found && watchers.firing().is_some()
        });
        watchers
    }

    fn wait(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let started = Instant::now();
        while !is_so() {
            let firing = self.firing();
            assert!(started.elapsed() < LIMIT, "not in time: {what}; firing: {firing:?}");
            pause();
        }
    }

    /// Waits until these alerts have been fired. Panics if others have been, besides those expected
    /// since all was clear.
    pub(crate) fn wait_until_fired(&mut self, expected: &[(&str, &str)]) {
        let named =
            |(name, cluster): &(&str, &str)| (format!("Fabricast{name}"), (*cluster).to_owned());
        let mut missing: BTreeSet<Alert> = expected.iter().map(named).collect();
        self.expected.extend(missing.iter().cloned());
        let started = Instant::now();
        while !missing.is_empty() {
            let firing = self.firing().unwrap_or_default();
            missing = &missing - &firing;
            let others = &firing - &self.expected;
            assert!(others.is_empty(), "{others:?}");
            assert!(started.elapsed() < LIMIT, "{missing:?} do not fire");
            pause();
        }
    }

    /// Waits until no alert fires or is about to.
    pub(crate) fn wait_until_clear(&mut self) {
        self.wait("nothing fires", || {
            let pending = self.query("ALERTS").is_some_and(|found| !found.is_empty());
            !pending && self.firing().is_some_and(|firing| firing.is_empty())
        });
        self.expected.clear();
    }

    /// Alerts that Alertmanager has; `None` if it does not answer.
    fn firing(&self) -> Option<BTreeSet<Alert>> {
        let answer = get(&self.alertmanager, "/api/v2/alerts?active=true")?;
        let alerts = answer.as_array()?.iter().map(|alert| {
            let label = |name: &str| alert["labels"][name].as_str().unwrap_or_default().to_owned();
            let url = alert["annotations"]["runbook_url"].as_str().unwrap_or_default();
            assert!(url.starts_with(&format!("{DOCUMENTS}/docs/alerts.html#")), "{alert}");
            (label("alertname"), label("cluster"))
        });
        Some(alerts.collect())
    }

    /// Samples that a query finds; `None` if it is refused.
    pub(crate) fn query(&self, query: &str) -> Option<Vec<Value>> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let answer = get(&self.prometheus, &format!("/api/v1/query?query={encoded}"))?;
        answer["data"]["result"].as_array().cloned()
    }

    /// Rules that Prometheus could not evaluate, with its reason.
    pub(crate) fn bad_rules(&self) -> Vec<String> {
        let answer = get(&self.prometheus, "/api/v1/rules").expect("it answers");
        let groups = answer["data"]["groups"].as_array().expect("a list");
        let rules = groups.iter().flat_map(|group| group["rules"].as_array().expect("a list"));
        let bad = rules.filter(|rule| rule["health"] != "ok");
        bad.map(|rule| format!("{}: {}", rule["name"], rule["lastError"])).collect()
    }
}

impl Drop for Watchers {
    fn drop(&mut self) {
        for child in &mut self.children {
            // It may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// JSON that a server answers with; `None` if there is no good answer.
fn get(address: &str, path: &str) -> Option<Value> {
    let mut stream = TcpStream::connect(address).ok()?;
    // The old version of HTTP, so that the answer comes in one piece and ends with the connection.
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    if head.starts_with("HTTP/1.0 200 ") { serde_json::from_str(body).ok() } else { None }
}

/// Serves a file as a node exporter does with what lies in its folder. Returns its address.
pub(crate) fn serve_file(file: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    // It ends with the process.
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (mut reader, mut writer) = (&stream, &stream);
            let _request = reader.read(&mut [0; 4096]);
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            let head = "HTTP/1.0 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n\r\n";
            // A reader that is gone gets nothing.
            let _ = writer.write_all(format!("{head}{text}").as_bytes());
        }
    });
    address
}
