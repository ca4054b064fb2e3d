//! Switches that connect to the agent with certificates, or to which it connects, as `ovs-pki`
//! makes them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fabricast_testing::Ovs;

use crate::support::Sandbox;

const PATIENCE: Duration = Duration::from_secs(30);
const SETTINGS: &str = r#"
[switch_agent]
name = "lab"
listen = "127.0.0.1:7405"
tic = "127.0.0.1:1"
driver = "openflow"

[switch_agent.driver_options]
topology = "fabric.toml"
certificates = "agent"
"#;
const FABRIC: &str = "kind = 'leaf-spine'\nleaves = 2\nspines = 1\nendpoints_per_leaf = 1\n";

/// An agent in the network of the switches. Killed when dropped.
struct Agent<'a> {
    sandbox: &'a Sandbox,
    child: Child,
}

impl<'a> Agent<'a> {
    fn start(sandbox: &'a Sandbox, ovs: &Ovs) -> Self {
        let log = fs::File::create(sandbox.path("log")).expect("a file");
        let child = ovs
            .command_beside(env!("CARGO_BIN_EXE_fabricast"))
            .args(["switch-agent", "--config", "settings.toml"])
            .current_dir(sandbox.path(""))
            .env("NO_COLOR", "1")
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("it starts");
        Self { sandbox, child }
    }

    /// Waits for a line of the log with all of these texts.
    #[expect(clippy::disallowed_methods, reason = "no runtime waits in this thread")]
    fn says(&self, texts: &[&str]) {
        let began = Instant::now();
        loop {
            let log = self.sandbox.read("log");
            if log.lines().any(|line| texts.iter().all(|text| line.contains(text))) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "no {texts:?} in {log}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Agent<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Refusal of a certificate of another authority. Those that were made in the same second have
/// the same name; then the signature is wrong, else the issuer is unknown.
const FOREIGN: &str = "invalid peer certificate";

/// Makes authorities of switches and controllers in a folder, and a certificate of each.
fn make_certificates(folder: &Path) {
    fs::create_dir(folder).expect("a folder");
    for words in [&["init"][..], &["req+sign", "agent", "controller"], &["req+sign", "s", "switch"]]
    {
        let authorities = format!("--dir={}", folder.join("pki").display());
        let log = format!("--log={}", folder.join("log").display());
        let mut command = Command::new("ovs-pki");
        command.args([authorities, log]).args(words).current_dir(folder);
        let made = command.output().expect("ovs-pki is there");
        assert!(made.status.success(), "{made:?}");
    }
}

/// Certificates of an authority, and of one that the agent does not know.
struct Folders {
    known: PathBuf,
    foreign: PathBuf,
}

impl Folders {
    /// Makes them, and the settings of an agent that believes the first.
    ///
    /// - `reach`: a setting by which it reaches switches.
    fn make(sandbox: &Sandbox, reach: &str) -> Self {
        let (known, foreign) = (sandbox.path("known"), sandbox.path("foreign"));
        make_certificates(&known);
        make_certificates(&foreign);
        fs::create_dir(sandbox.path("agent")).expect("a folder");
        for (from, to) in [
            ("pki/switchca/cacert.pem", "ca.crt"),
            ("agent-cert.pem", "tls.crt"),
            ("agent-privkey.pem", "tls.key"),
        ] {
            fs::copy(known.join(from), sandbox.path("agent").join(to)).expect("it was made");
        }
        sandbox.write("settings.toml", format!("{SETTINGS}{reach}\n"));
        sandbox.write("fabric.toml", FABRIC);
        Self { known, foreign }
    }

    /// Has all switches show the certificate of a folder, and believe the agent.
    fn show(&self, ovs: &Ovs, folder: &Path) {
        let path = |folder: &Path, file: &str| folder.join(file).display().to_string();
        let (key, own) = (path(folder, "s-privkey.pem"), path(folder, "s-cert.pem"));
        let authority = path(&self.known, "pki/controllerca/cacert.pem");
        ovs.configure(&["set-ssl", &key, &own, &authority]);
    }
}

fn add_switches(ovs: &Ovs) {
    for (number, switch) in (0..).zip(["leaf0", "leaf1", "spine0"]) {
        ovs.add_switch(switch, 0x02fa_b000_0000_0000 + number);
    }
}

#[test]
fn switches_connect_with_certificates_of_their_authority_only() {
    let sandbox = Sandbox::new();
    let folders = Folders::make(&sandbox, "listen = '127.0.0.1:6653'");
    let ovs = Ovs::start();
    let agent = Agent::start(&sandbox, &ovs);
    add_switches(&ovs);
    folders.show(&ovs, &folders.foreign);
    ovs.configure(&["set-controller", "leaf0", "ssl:127.0.0.1:6653"]);
    agent.says(&["switch cannot be used", "no TLS", FOREIGN]);
    ovs.configure(&["set-controller", "leaf1", "tcp:127.0.0.1:6653"]);
    agent.says(&["switch cannot be used", "no TLS", "InvalidContentType"]);
    folders.show(&ovs, &folders.known);
    ovs.configure(&["set-controller", "spine0", "ssl:127.0.0.1:6653"]);
    agent.says(&["switch connected", "S-02fab00000000002"]);
    agent.says(&["switch connected", "S-02fab00000000000"]);
    assert!(!sandbox.read("log").contains("connected switch=\"S-02fab00000000001"));
}

#[test]
fn an_agent_connects_to_switches_with_certificates_of_their_authority_only() {
    let sandbox = Sandbox::new();
    let reach = "connect = ['ssl:127.0.0.1:6640', 'ssl:127.0.0.1:6641']\ntimeout = '20s'";
    let folders = Folders::make(&sandbox, reach);
    let ovs = Ovs::start();
    add_switches(&ovs);
    folders.show(&ovs, &folders.foreign);
    ovs.configure(&["set-controller", "leaf0", "pssl:6640:127.0.0.1"]);
    ovs.configure(&["set-controller", "leaf1", "ptcp:6641:127.0.0.1"]);
    let agent = Agent::start(&sandbox, &ovs);
    agent.says(&["switch not reached", "ssl:127.0.0.1:6640", FOREIGN]);
    agent.says(&["switch not reached", "ssl:127.0.0.1:6641", "InvalidContentType"]);
    folders.show(&ovs, &folders.known);
    agent.says(&["switch connected", "S-02fab00000000000"]);
    assert!(!sandbox.read("log").contains("connected switch=\"S-02fab00000000001"));
}
