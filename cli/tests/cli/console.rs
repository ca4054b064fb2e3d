//! The console of a cluster with certificates: a reader's for what it shows, an administrator's for
//! what it changes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::certificates::Parts;

/// Timeout of a page; a test that waits longer fails.
const LIMIT: Duration = Duration::from_secs(30);
/// Token of the administrator.
const TOKEN: &str = "the-token-of-ann-0123";

/// A console; killed when dropped.
struct Console {
    child: Child,
    address: String,
    /// Token to look, as it was printed.
    viewer: String,
}

impl Drop for Console {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Console {
    fn start(parts: &Parts) -> Self {
        parts.sandbox.write("tokens", format!("ann {TOKEN}\n"));
        let server = format!("{},{},{}", parts.tic, parts.router, parts.switches);
        let arguments = ["console", "--server", &server, "--certificates", "reader"];
        let changes = ["--admin-certificates", "admin", "--admin-token-file", "tokens"];
        let mut child = parts
            .sandbox
            .command(&[&arguments[..], &changes, &["--listen", "127.0.0.1:0"]].concat())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let mut told = |begin: &str| loop {
            let line = lines.next().expect("it says so").expect("text");
            if let Some((_, rest)) = line.split_once(begin) {
                break rest.to_owned();
            }
        };
        let viewer = told("token of the console to look: ");
        let address = told("console at http://");
        // Somebody has to read on, or the process would block on a full pipe.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Self { child, address, viewer }
    }

    fn send(&self, method: &str, path: &str, cookie: &str, form: &str) -> String {
        let (host, length) = (&self.address, form.len());
        let head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
        let mut stream = TcpStream::connect(host).expect("it listens");
        let request = format!("{head}Cookie: {cookie}\r\nContent-Length: {length}\r\n\r\n{form}");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("text");
        answer
    }

    /// Signs in; returns the cookie.
    fn sign_in(&self, token: &str) -> String {
        let answer = self.send("POST", "/sign-in", "", &format!("token={token}"));
        let cookie = answer.lines().find_map(|line| line.strip_prefix("set-cookie: "));
        let cookie = cookie.unwrap_or_else(|| panic!("no session: {answer}"));
        cookie.split(';').next().expect("a pair").to_owned()
    }

    /// Asks for a page until it has a text.
    fn page(&self, path: &str, cookie: &str, wanted: &str) -> String {
        let started = Instant::now();
        loop {
            let page = self.send("GET", path, cookie, "");
            if page.contains(wanted) {
                return page;
            }
            assert!(started.elapsed() < LIMIT, "{path} has no '{wanted}': {page}");
        }
    }
}

#[test]
fn a_reader_sees_all_pages_and_an_administrator_changes_something() {
    let parts = Parts::start();
    for node in ["node001", "gpu042"] {
        let join = ["group", "join", "rows/1", "--node", node];
        parts.wait("admin", &join, &parts.agents, |_| true);
    }
    let status = ["route", "status"];
    parts.wait("admin", &status, &parts.router, |status| status["settled"] == true);
    parts.json("admin", &["job", "allocate", "acme/kept", "--nodes", "1"], &parts.tic);
    let console = Console::start(&parts);
    let reader = console.sign_in(&console.viewer);
    for (path, wanted) in [
        ("/fabric", "Nodes up</dt><dd>2 of 2"),
        ("/group?name=rows%2F1", "gpu042"),
        ("/tables", "entries used"),
        ("/nodes", "node001"),
        ("/jobs", "acme/kept"),
        ("/job?name=acme%2Fkept", "Placement"),
        ("/capacity", "id=\"capacity\""),
        ("/health", "switch-agent"),
    ] {
        console.page(path, &reader, wanted);
    }
    let list = parts.json("admin", &["switch", "list"], &parts.switches);
    let switch = list["switches"][0]["name"].as_str().expect("a name").to_owned();
    let act = format!("/act?do=fail&switch={}", switch.replace(':', "%3A"));
    assert!(console.send("GET", &act, &reader, "").starts_with("HTTP/1.1 403"));

    let ann = console.sign_in(TOKEN);
    let page = console.page(&act, &ann, "name=\"proof\"");
    let (_, rest) = page.split_once("name=\"proof\" value=\"").expect("a proof");
    let proof = rest.split('"').next().expect("a value");
    let form = |again: &str| format!("do=fail&switch={switch}&proof={proof}&again={again}");
    let wrong = console.send("POST", "/act", &ann, &form("another-token-entirely"));
    assert!(wrong.starts_with("HTTP/1.1 401") && wrong.contains("not your token"), "{wrong}");
    let theirs = console.send("POST", "/act", &reader, &form(TOKEN));
    assert!(theirs.starts_with("HTTP/1.1 403"), "{theirs}");
    let live = |list: &Value| list["switches"][0]["live"].clone();
    assert_eq!(live(&parts.json("reader", &["switch", "list"], &parts.switches)), true);
    let done = console.send("POST", "/act", &ann, &form(TOKEN));
    assert!(done.contains("is down now"), "{done}");
    parts.wait("reader", &["switch", "list"], &parts.switches, |list| live(list) == false);
}
