//! A control plane for the tests of the console.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::browser::{Browser, pause};
use crate::support::{Sandbox, free_address};

/// Timeout of the registration of all nodes.
const NODES_LIMIT: Duration = Duration::from_secs(120);
/// Results that the console shows.
const EVALUATION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/evaluation");
/// The demo's kind of fabric, with fewer of everything.
const SMALL: &str = "kind = 'leaf-spine'\nleaves = 4\nspines = 2\nendpoints_per_leaf = 4\n";

/// A control plane in one process, with its console; killed when dropped.
pub(super) struct Up {
    pub(super) sandbox: Sandbox,
    pub(super) child: Child,
    pub(super) address: String,
    pub(super) console: String,
    /// Token for changes, as it was printed.
    pub(super) token: String,
    /// Its log since then.
    pub(super) log: Arc<Mutex<String>>,
}

impl Drop for Up {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Up {
    pub(super) fn start(topology: &str) -> Self {
        let sandbox = Sandbox::new();
        sandbox.write("t.toml", SMALL);
        let (address, console) = (free_address(), free_address());
        let mut child = sandbox
            .command(&["up", "--topology", topology, "--listen", &address, "--console", &console])
            .args(["--evaluation", EVALUATION])
            .env("USER", "ann")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let token = loop {
            let line = lines.next().expect("it prints its token").expect("text");
            if let Some((_, token)) = line.split_once("token of the console for changes: ") {
                break token.to_owned();
            }
        };
        let log = Arc::new(Mutex::new(String::new()));
        let kept = Arc::clone(&log);
        // Somebody has to read on, or the process would block on a full pipe.
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                kept.lock().expect("nobody panics here").push_str(&format!("{line}\n"));
            }
        });
        Self { sandbox, child, address, console: format!("http://{console}"), token, log }
    }

    pub(super) fn ok(&self, arguments: &[&str]) -> String {
        self.sandbox.ok(&[arguments, &["--server", &self.address]].concat())
    }

    /// Opens a view and waits until it knows the fabric and its nodes.
    pub(super) fn open(&self, browser: &Browser, path: &str, heading: &str) {
        browser.open(&format!("{}{path}", self.console));
        browser.wait(&format!("document.querySelector('h1').textContent.startsWith('{heading}')"));
    }

    /// Waits for the console to listen and for the nodes to be there.
    pub(super) fn settle(&self, browser: &Browser, nodes: u32) {
        let address = self.console.trim_start_matches("http://");
        while std::net::TcpStream::connect(address).is_err() {
            pause();
        }
        browser.open(&format!("{}/fabric", self.console));
        let are_there = format!("document.body.innerText.includes('{nodes} of {nodes}')");
        browser.wait_for(&are_there, NODES_LIMIT);
    }

    /// Node id of the root switch of a group, once it has one.
    pub(super) fn root_of(&self, group: &str) -> String {
        loop {
            let route = self.ok(&["route", "explain", "--group", group, "--format", "json"]);
            let route: serde_json::Value = serde_json::from_str(&route).expect("it is JSON");
            if let Some(root) = route["root"].as_str().filter(|root| !root.is_empty()) {
                return root.to_owned();
            }
            pause();
        }
    }
}
