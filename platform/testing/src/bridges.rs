//! Switches of the kernel: a Linux bridge in a network namespace for each switch, and a namespace
//! for each host.
//!
//! The namespaces have names, because `ip` and `bridge` enter them by name. They are deleted when
//! the switches are dropped; those of a test that was killed, when the next one starts.

use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{self, Command};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::{INSTALL, SwitchPort};

/// Names of our namespaces begin with it; the number of the test's process follows.
const PREFIX: &str = "fabricast-test-";

/// Name of the interface that is a port.
fn interface(port: SwitchPort<'_>) -> String {
    format!("p{}", port.number)
}

/// Bridges, the cables between them, and hosts; all end when it is dropped.
#[derive(Debug)]
pub struct Bridges {
    prefix: String,
    namespaces: Vec<String>,
}

impl Bridges {
    /// Interfaces of the ports of each bridge, in the settings of a switch agent.
    pub const PORTS: &str = "p{}";

    /// Starts without a switch.
    ///
    /// # Panics
    ///
    /// If iproute2 is not installed.
    #[must_use]
    pub fn start() -> Self {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        for name in ip(&["netns", "list"]).split_whitespace() {
            let rest = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
            if rest.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
                // Another test may delete it at the same time.
                let _ = Command::new("ip").args(["netns", "delete", name]).output();
            }
        }
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        Self { prefix: format!("{PREFIX}{}-{number}-", process::id()), namespaces: Vec::new() }
    }

    /// Adds a bridge, br0, that sends nothing to all of its ports.
    ///
    /// # Panics
    ///
    /// If it cannot be made.
    pub fn add_switch(&mut self, name: &str) {
        self.add_namespace(name);
        self.ip_of(name, &["link", "add", "br0", "type", "bridge"]);
        self.ip_of(name, &["link", "set", "br0", "up"]);
    }

    /// Connects two ports by a cable.
    ///
    /// # Panics
    ///
    /// If it cannot be made.
    pub fn connect(&self, one: SwitchPort<'_>, other: SwitchPort<'_>) {
        let (near, far) = (self.namespace(one.switch), self.namespace(other.switch));
        let names = [interface(one), interface(other)];
        let words = ["link", "add", &names[0], "netns", &near, "type", "veth"];
        ip(&[&words[..], &["peer", "name", &names[1], "netns", &far]].concat());
        self.add_port(one);
        self.add_port(other);
    }

    /// Adds a host with an address, whose only adapter is connected to a port.
    ///
    /// # Panics
    ///
    /// If it cannot be made.
    pub fn add_host(&mut self, name: &str, address: Ipv4Addr, port: SwitchPort<'_>) {
        self.add_namespace(name);
        let (near, far) = (self.namespace(port.switch), self.namespace(name));
        let words = ["link", "add", &interface(port), "netns", &near, "type", "veth"];
        ip(&[&words[..], &["peer", "name", "eth0", "netns", &far]].concat());
        self.ip_of(name, &["address", "add", &format!("{address}/24"), "dev", "eth0"]);
        self.ip_of(name, &["link", "set", "eth0", "up"]);
        self.ip_of(name, &["route", "add", "224.0.0.0/4", "dev", "eth0"]);
        self.add_port(port);
    }

    /// Name of the network namespace of a switch or host.
    #[must_use]
    pub fn namespace(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Takes the cable at a port out, or puts it in again.
    ///
    /// # Panics
    ///
    /// If there is no such port.
    pub fn set_link(&self, port: SwitchPort<'_>, is_up: bool) {
        let state = if is_up { "up" } else { "down" };
        self.ip_of(port.switch, &["link", "set", &interface(port), state]);
    }

    /// Runs `ip` in the namespace of a switch or host; returns what it prints.
    ///
    /// # Panics
    ///
    /// If it refuses.
    pub fn ip_of(&self, name: &str, words: &[&str]) -> String {
        ip(&[&["-netns", &*self.namespace(name)][..], words].concat())
    }

    /// Runs `bridge` in the namespace of a switch; returns what it prints.
    ///
    /// # Panics
    ///
    /// If it refuses.
    pub fn bridge_of(&self, name: &str, words: &[&str]) -> String {
        done(Command::new("bridge").args(["-netns", &self.namespace(name)]).args(words))
    }

    /// Prepares a command that runs on a host.
    #[must_use]
    pub fn command(&self, host: &str, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(host)]).arg(program);
        command
    }

    fn add_namespace(&mut self, name: &str) {
        let namespace = self.namespace(name);
        ip(&["netns", "add", &namespace]);
        self.namespaces.push(namespace);
        self.ip_of(name, &["link", "set", "lo", "up"]);
    }

    /// Puts an interface into the bridge, which neither learns there nor sends what it does not
    /// know: cables of a fabric are circles.
    fn add_port(&self, port: SwitchPort<'_>) {
        let name = &*interface(port);
        let ip_of = |words: &[&str]| self.ip_of(port.switch, words);
        ip_of(&["link", "set", name, "master", "br0"]);
        let quiet = ["learning", "off", "flood", "off", "bcast_flood", "off", "mcast_flood", "off"];
        ip_of(&[&["link", "set", name, "type", "bridge_slave"][..], &quiet].concat());
        ip_of(&["link", "set", name, "up"]);
    }
}

impl Drop for Bridges {
    fn drop(&mut self) {
        for namespace in &self.namespaces {
            let _ = Command::new("ip").args(["netns", "delete", namespace]).output();
        }
    }
}

fn ip(words: &[&str]) -> String {
    done(Command::new("ip").args(words))
}

fn done(command: &mut Command) -> String {
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("start {command:?}: {error}; {INSTALL}"));
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
