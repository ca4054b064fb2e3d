//! Real switches: Open vSwitch in user space. All switches are in one network namespace, and every
//! host is in one of its own, so nothing of the machine's network is touched.
//!
//! Namespaces and daemons live as long as processes that end with the test, also if it is killed.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

use crate::{INSTALL, SwitchPort};

const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
/// Time in which Open vSwitch takes a change of its configuration.
const PATIENCE_SECONDS: &str = "--timeout=20";

/// Name of the interface that is a port.
fn interface(port: SwitchPort<'_>) -> String {
    format!("{}-{}", port.switch, port.number)
}

/// A network namespace; it ends when it is dropped.
#[derive(Debug)]
struct Namespace(Child);

/// Switches, the cables between them, and hosts; all end when it is dropped.
#[derive(Debug)]
pub struct Ovs {
    daemon: Child,
    database: Child,
    network: Namespace,
    hosts: BTreeMap<String, Namespace>,
    folder: TempDir,
}

impl Ovs {
    /// Starts Open vSwitch without a switch.
    ///
    /// # Panics
    ///
    /// If it is not installed, or the caller may not make network namespaces.
    #[must_use]
    pub fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder for Open vSwitch");
        let file = folder.path().join("conf.db");
        done(Command::new("ovsdb-tool").arg("create").arg(&file).arg(SCHEMA));
        let socket = folder.path().join("db.sock");
        let mut database = ending_with_test("ovsdb-server");
        database.arg(&file).arg(format!("--remote=punix:{}", socket.display()));
        let database = spawn(&mut database, &folder);
        let network = Namespace::make();
        network.done("ip", &["link", "set", "lo", "up"]);
        let mut init = Command::new("ovs-vsctl");
        init.arg(format!("--db=unix:{}", socket.display()));
        // The database is there in a moment.
        done(init.args(["--retry", PATIENCE_SECONDS, "--no-wait", "init"]));
        let daemon = start_daemon(&network, &folder);
        Self { daemon, database, network, hosts: BTreeMap::new(), folder }
    }

    /// Adds a switch that drops what it has no flow for.
    ///
    /// - `name`: at most 8 letters, because names of ports are made of it.
    ///
    /// # Panics
    ///
    /// If Open vSwitch does not take it.
    pub fn add_switch(&self, name: &str, datapath: u64) {
        let id = format!("other-config:datapath-id={datapath:016x}");
        self.configure(&[
            "add-br",
            name,
            "--",
            "set",
            "bridge",
            name,
            "datapath_type=netdev",
            "fail_mode=secure",
            "protocols=OpenFlow13,OpenFlow14",
            &id,
        ]);
    }

    /// Connects two ports of switches by a cable.
    ///
    /// # Panics
    ///
    /// If Open vSwitch does not take it.
    pub fn connect(&self, one: SwitchPort<'_>, other: SwitchPort<'_>) {
        let [first, second] = [interface(one), interface(other)];
        self.network.done("ip", &["link", "add", &first, "type", "veth", "peer", "name", &second]);
        self.add_port(one);
        self.add_port(other);
    }

    /// Adds a host with an address, whose only adapter is connected to a port.
    ///
    /// # Panics
    ///
    /// If it cannot be made.
    pub fn add_host(&mut self, name: &str, address: Ipv4Addr, port: SwitchPort<'_>) {
        let host = Namespace::make();
        let (near, process) = (interface(port), host.0.id().to_string());
        let far = ["link", "add", &near, "type", "veth", "peer", "name", "eth0", "netns", &process];
        self.network.done("ip", &far);
        host.done("ip", &["address", "add", &format!("{address}/24"), "dev", "eth0"]);
        host.done("ip", &["link", "set", "eth0", "up"]);
        host.done("ip", &["route", "add", "224.0.0.0/4", "dev", "eth0"]);
        // Switches in user space want whole checksums.
        host.done("ethtool", &["--offload", "eth0", "tx", "off"]);
        self.add_port(port);
        self.hosts.insert(name.to_owned(), host);
    }

    /// Socket of a switch for OpenFlow.
    #[must_use]
    pub fn socket(&self, switch: &str) -> PathBuf {
        self.folder.path().join(format!("{switch}.mgmt"))
    }

    /// Takes the cable at a port out, or puts it in again.
    ///
    /// # Panics
    ///
    /// If there is no such port.
    pub fn set_link(&self, port: SwitchPort<'_>, is_up: bool) {
        let state = if is_up { "up" } else { "down" };
        self.network.done("ip", &["link", "set", &interface(port), state]);
    }

    /// Asks a switch in OpenFlow 1.3; returns what `ovs-ofctl` prints.
    ///
    /// # Panics
    ///
    /// If it refuses.
    #[must_use]
    pub fn ofctl(&self, verb: &str, switch: &str, more: &[&str]) -> String {
        let target = format!("unix:{}", self.socket(switch).display());
        let output =
            done(Command::new("ovs-ofctl").args(["-O", "OpenFlow13", verb, &target]).args(more));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Kills the switches and starts them again: they have lost all flows and groups.
    pub fn restart(&mut self) {
        end(&mut self.daemon);
        self.daemon = start_daemon(&self.network, &self.folder);
    }

    /// Prepares a command that runs on a host.
    ///
    /// # Panics
    ///
    /// If there is no such host.
    #[must_use]
    pub fn command(&self, host: &str, program: impl AsRef<OsStr>) -> Command {
        self.hosts[host].command(program)
    }

    fn add_port(&self, port: SwitchPort<'_>) {
        let (name, number) = (&*interface(port), format!("ofport_request={}", port.number));
        self.network.done("ip", &["link", "set", name, "up"]);
        self.configure(&["add-port", port.switch, name, "--", "set", "interface", name, &number]);
    }

    /// Prepares a command that runs in the network of the switches.
    #[must_use]
    pub fn command_beside(&self, program: impl AsRef<OsStr>) -> Command {
        self.network.command(program)
    }

    /// Changes the configuration, in the words of `ovs-vsctl`.
    ///
    /// # Panics
    ///
    /// If Open vSwitch does not take it.
    pub fn configure(&self, words: &[&str]) {
        let socket = self.folder.path().join("db.sock");
        let database = format!("--db=unix:{}", socket.display());
        done(Command::new("ovs-vsctl").args([&database, PATIENCE_SECONDS]).args(words));
    }
}

impl Drop for Ovs {
    fn drop(&mut self) {
        end(&mut self.daemon);
        end(&mut self.database);
    }
}

impl Namespace {
    fn make() -> Self {
        let mut process = ending_with_test("unshare")
            .args(["--net", "sh", "-c", "echo made; exec sleep infinity"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("start unshare: {error}; {INSTALL}"));
        let mut line = String::new();
        let said = process.stdout.take().expect("piped above");
        BufReader::new(said).read_line(&mut line).expect("text");
        assert_eq!(line, "made\n", "a network namespace cannot be made");
        Self(process)
    }

    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = ending_with_test("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.0.id())).arg("--").arg(program);
        command
    }

    fn done(&self, program: &str, words: &[&str]) {
        done(self.command(program).args(words));
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        end(&mut self.0);
    }
}

/// Prepares a command that is killed if this process ends without a word.
fn ending_with_test(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", program]);
    command
}

fn start_daemon(network: &Namespace, folder: &TempDir) -> Child {
    let database = format!("unix:{}", folder.path().join("db.sock").display());
    spawn(network.command("ovs-vswitchd").arg(database), folder)
}

/// Starts a daemon of Open vSwitch that keeps everything in the folder.
fn spawn(command: &mut Command, folder: &TempDir) -> Child {
    for variable in ["OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR"] {
        command.env(variable, folder.path());
    }
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("start {command:?}: {error}; {INSTALL}"))
}

fn done(command: &mut Command) -> Output {
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("start {command:?}: {error}; {INSTALL}"));
    assert!(output.status.success(), "{command:?}: {output:?}");
    output
}

fn end(process: &mut Child) {
    // An error means that it has ended already.
    let _ = process.kill();
    let _ = process.wait();
}
