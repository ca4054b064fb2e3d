//! `fabricast up`, driven from the command line as an administrator would.

#[path = "running/batches.rs"]
mod batches;
#[path = "running/constants.rs"]
mod constants;
#[path = "running/copies.rs"]
mod copies;
#[path = "running/drift.rs"]
mod drift;
#[path = "running/endpoint_names.rs"]
mod endpoint_names;
#[path = "running/full_disk.rs"]
mod full_disk;
#[path = "running/guest.rs"]
mod guest;
#[path = "running/idle.rs"]
mod idle;
#[path = "running/maintenance.rs"]
mod maintenance;
#[path = "running/older_records.rs"]
mod older_records;
#[path = "running/ready.rs"]
mod ready;
#[path = "running/recording.rs"]
mod recording;
#[path = "running/replies.rs"]
mod replies;
#[path = "running/shares.rs"]
mod shares;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Run, Sandbox};

/// Timeout of a condition; a test that waits longer fails.
const LIMIT: Duration = Duration::from_secs(30);

/// A running control plane. Killed when dropped.
struct Up {
    sandbox: Sandbox,
    address: String,
    child: Child,
    log: Option<JoinHandle<String>>,
}

impl Up {
    fn start() -> Self {
        Self::over(Sandbox::new(), "records.redb")
    }

    /// As [`Up::start`], in a sandbox, over a store that may have records.
    fn over(sandbox: Sandbox, store: &str) -> Self {
        let mut child = sandbox
            .command(&["up", "--listen", "127.0.0.1:0", "--store", store])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let mut log = String::new();
        let address = loop {
            let line = lines.next().unwrap_or_else(|| panic!("it ended: {log}")).expect("text");
            log = log + &line + "\n";
            if let Some(rest) = line.strip_prefix("fabricast: all services at ") {
                break rest.split(' ').next().unwrap_or_default().to_owned();
            }
        };
        // Somebody has to read on, or the process would block on a full pipe.
        let rest = move || lines.map_while(Result::ok).fold(log, |log, line| log + &line + "\n");
        Self { sandbox, address, child, log: Some(std::thread::spawn(rest)) }
    }

    fn arguments<'a>(&'a self, text: &'a [&'a str]) -> Vec<&'a str> {
        [text, &["--server", &self.address]].concat()
    }

    fn run(&self, arguments: &[&str]) -> Run {
        self.sandbox.run(&self.arguments(arguments))
    }

    fn ok(&self, arguments: &[&str]) -> String {
        self.sandbox.ok(&self.arguments(arguments))
    }

    fn json(&self, arguments: &[&str]) -> Value {
        self.sandbox.json(&self.arguments(arguments))
    }

    /// Asks until the answer is as wanted.
    fn wait(&self, arguments: &[&str], wanted: impl Fn(&Value) -> bool) -> Value {
        let started = Instant::now();
        loop {
            let answer = self.json(arguments);
            if wanted(&answer) {
                return answer;
            }
            assert!(started.elapsed() < LIMIT, "{arguments:?} stays {answer}");
        }
    }

    /// Waits until a group is routed for the members it has, so many of them.
    fn routed(&self, group: &str, members: usize) -> Value {
        self.wait(&["group", "show", group], |group| {
            let route = &group["route"];
            group["memberCount"] == members
                && route["state"] == "ROUTE_STATE_ROUTED"
                && number(&route["routedRevision"]) >= number(&group["membersRevision"])
        })
    }

    fn settled(&self) {
        self.wait(&["route", "status"], |status| {
            status["settled"] == true && status["routedRevision"] == status["seenRevision"]
        });
    }

    /// Sends a packet of a group from an endpoint; who got it, sorted.
    fn reached(&self, group: &Value, from: &str) -> Vec<String> {
        let (mgid, color) = (group["mgid"].to_string(), group["route"]["color"].to_string());
        let send = ["fabric", "send", "--endpoint", from, "--mgid", &mgid, "--color", &color];
        let answer = self.json(&send);
        assert_eq!(answer["looped"], false, "{answer}");
        let reached = answer["delivered"].as_array().expect("a list");
        let name = |value: &Value| value.as_str().expect("a name").to_owned();
        let mut reached: Vec<String> = reached.iter().map(name).collect();
        reached.sort();
        reached
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Numbers of 64 bits are texts in the JSON of protobuf.
fn number(value: &Value) -> u64 {
    value.as_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{value}"))
}

fn names(list: &Value, field: &str) -> Vec<String> {
    let items = list.as_array().expect("a list").iter();
    items.map(|item| item[field].as_str().expect("a text").to_owned()).collect()
}

#[test]
fn everything_is_driven_from_the_command_line() {
    let mut up = Up::start();
    let nodes = up.wait(&["node", "list"], |list| {
        let nodes = list["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
        nodes.len() == 96 && nodes.iter().all(|node| node["state"] == "NODE_STATE_UP")
    });
    assert!(names(&nodes["nodes"], "name").contains(&"node001".to_owned()));
    assert_eq!(up.ok(&["node", "list"]).lines().count(), 97);

    groups_come_and_grow(&up);
    routes_and_tables_are_shown(&up);
    the_fabric_breaks_and_heals(&up);
    maintenance::nodes_are_drained_and_resumed(&up);
    maintenance::links_are_drained_and_resumed(&up, "jobs/1");
    maintenance::groups_are_rebalanced(&up);
    constants::constants_are_measured_and_forgotten(&up);
    nodes_die_and_return(&up);
    a_node_that_comes_and_goes_is_suppressed(&up);
    files_of_groups_are_formed_or_refused_whole(&up);
    drift::tables_drift_and_are_repaired(&up);
    recording::the_run_is_recorded_and_played_again(&up);
    batches::a_job_comes_and_goes_with_all_its_groups(&up);
    copies::records_are_copied_while_everything_runs(&up);
    shares::a_job_gets_its_share_by_hand(&up);
    shares::a_job_of_slurm_gets_its_share_and_gives_it_back(&up);
    shares::jobs_that_slurm_does_not_know_are_swept(&up);
    endpoint_names::endpoints_are_named_by_guid(&up);
    unknown_names_are_refused(&up);
    groups_end(&up);
    neither_port_nor_store_is_shared(&up);

    let line = format!("kill -TERM {}", up.child.id());
    assert!(Command::new("sh").args(["-c", &line]).status().expect("a shell").success());
    assert_eq!(up.child.wait().expect("it ends").code(), Some(0), "a drained service ends with 0");
    let log = up.log.take().expect("taken once").join().expect("the reader ends");
    assert!(!log.contains("panicked") && !log.contains(" ERROR "), "{log}");
}

fn groups_come_and_grow(up: &Up) {
    let made = up.json(&["group", "create", "jobs/1", "--node", "node001"]);
    assert_eq!((&made["gn"], &made["pn"]), (&"1".into(), &0.into()));
    up.run(&["group", "create", "jobs/1", "--node", "node002"]).refused(1, "exists already");
    for (pn, node) in [(1, "node002"), (2, "gpu036")] {
        let joined = up.json(&["group", "join", "jobs/1", "--node", node]);
        assert_eq!((&joined["gn"], &joined["pn"]), (&"1".into(), &pn.into()));
    }
    let again = up.ok(&["group", "join", "jobs/1", "--node", "gpu036"]);
    assert!(again.starts_with("joined 'jobs/1': gn 1, mgid "), "{again}");
    let options = ["--mgid", "4000000", "--exclusive", "--persistent", "--process", "p7"];
    up.ok(&[&["group", "join", "jobs/2", "--node", "node001"], &options[..]].concat());
    up.ok(&["group", "join", "jobs/2", "--node", "node003"]);

    let group = up.routed("jobs/1", 3);
    assert_eq!(names(&group["members"], "node"), ["node001", "node002", "gpu036"]);
    let other = up.routed("jobs/2", 2);
    assert_eq!((&other["mgid"], &other["exclusive"]), (&4_000_000.into(), &true.into()));
    assert_eq!(other["members"][0]["process"], "p7");
    let table = up.ok(&["group", "show", "jobs/1"]);
    assert!(table.contains("PN  NODE     ENDPOINT       PROCESS"), "{table}");
    assert!(table.lines().all(|line| line == line.trim_end()), "{table}");
    let list = up.json(&["group", "list"]);
    assert_eq!(names(&list["groups"], "name"), ["jobs/1", "jobs/2"]);
    assert!(up.ok(&["group", "list"]).contains("routed"));
}

fn routes_and_tables_are_shown(up: &Up) {
    up.settled();
    let group = up.routed("jobs/1", 3);
    assert_eq!(up.reached(&group, "node001 HCA-1"), ["gpu036 HCA-1", "node002 HCA-1"]);
    assert_eq!(
        up.ok(&["group", "send", "jobs/1", "--node", "node001", "--payload", "hi"]),
        "group jobs/1: sent; reached 2 of 2 members\n"
    );
    let status = up.json(&["route", "status"]);
    assert_eq!((&status["routedGroups"], &status["colors"]), (&2.into(), &32.into()));
    assert!(up.ok(&["route", "status"]).contains(": settled\n2 groups in 2 virtual groups"));

    let route = up.json(&["route", "explain", "--group", "jobs/1"]);
    assert_eq!(route["spanningTree"], route["homeSpanningTree"]);
    let link = &route["links"][0];
    let switch = link["switchName"].as_str().expect("a name");
    assert!(up.ok(&["route", "explain", "--group", "jobs/1"]).contains("SWITCH"));
    let switches = up.json(&["switch", "list"]);
    assert!(names(&switches["switches"], "name").contains(&switch.to_owned()));
    assert_eq!(up.ok(&["switch", "list"]).lines().count(), 7);
    let table = up.json(&["switch", "show", switch, "--entries"]);
    let entries = table["entries"].as_array().expect("a list");
    let color = &group["route"]["color"];
    assert!(entries.iter().any(|entry| entry["color"] == *color), "{table}");
    assert!(up.ok(&["switch", "show", switch, "--entries"]).contains("IN PORT  COLOR  OUT PORTS"));
    let ports = up.json(&["switch", "show", switch, "--ports"]);
    assert_eq!(ports["ports"].as_array().map(Vec::len), Some(36));
    assert!(up.ok(&["switch", "show", switch, "--ports"]).starts_with("PORT  STATE  PEER"));
}

fn the_fabric_breaks_and_heals(up: &Up) {
    let explain = ["route", "explain", "--group", "jobs/1"];
    let before = up.json(&explain);
    let links = before["links"].as_array().expect("a list");
    let between = links.iter().find(|link| link["peerPort"] != 0).expect("two switches");
    let name = between["switchName"].as_str().expect("a name");
    let link = format!("{name}:{}", between["port"]);

    let plan = up.json(&["fabric", "fail", "--link", &link, "--dry-run"]);
    let effect_on = |plan: &Value| {
        let groups = plan["groups"].as_array().expect("a list");
        let hit = groups.iter().find(|group| group["group"] == "jobs/1");
        hit.and_then(|group| group["effect"].as_str()).expect("a group that is hit").to_owned()
    };
    let effect = effect_on(&plan);
    let text = up.ok(&["fabric", "fail", "--endpoint", "node002 HCA-1", "--dry-run"]);
    assert!(
        text.contains("nothing has changed\n") && text.contains("node002 HCA-1 cut off"),
        "{text}"
    );
    assert_eq!(up.json(&explain), before, "a dry run changes nothing");

    let down = up.ok(&["fabric", "fail", "--link", &link]);
    assert_eq!(down, format!("link {link} is down now\n"));
    assert_eq!(
        up.ok(&["fabric", "fail", "--link", &link]),
        format!("link {link} was down already\n")
    );
    let moved = up.wait(&explain, |route| route["spanningTree"] != before["spanningTree"]);
    assert_eq!(effect, format!("it moves to spanning tree {}", moved["spanningTree"]));
    let plan = up.json(&["fabric", "heal", "--link", &link, "--dry-run"]);
    let back = format!("it moves to spanning tree {}", before["spanningTree"]);
    assert_eq!(effect_on(&plan), back, "{moved}");
    up.settled();
    let group = up.routed("jobs/1", 3);
    assert_eq!(up.reached(&group, "gpu036 HCA-1"), ["node001 HCA-1", "node002 HCA-1"]);

    assert_eq!(up.json(&["fabric", "heal", "--link", &link])["changed"], true);
    assert_eq!(
        up.ok(&["fabric", "heal", "--link", &link]),
        format!("link {link} was up already\n")
    );
    up.wait(&explain, |route| route["spanningTree"] == before["spanningTree"]);
    up.settled();
}

fn nodes_die_and_return(up: &Up) {
    let memberships = up.json(&["node", "show", "node002", "--memberships"]);
    assert_eq!(names(&memberships["memberships"], "group"), ["jobs/1"]);
    assert!(
        up.ok(&["node", "show", "node002", "--memberships"]).starts_with("GROUP   PN  PROCESS")
    );
    let plan = up.json(&["node", "stop", "node002", "--dry-run"]);
    assert_eq!(names(&plan["groups"], "group"), ["jobs/1"]);
    assert_eq!(plan["groups"][0]["effect"], "ends pn 1 (p0)");
    let plan = up.ok(&["node", "fail", "node001", "--dry-run"]);
    assert!(plan.contains("another node hosts the group agent"), "{plan}");
    assert_eq!(up.routed("jobs/1", 3)["memberCount"], 3, "a dry run changes nothing");

    // A node that falls silent is noticed and expelled.
    assert_eq!(up.ok(&["node", "stop", "node002"]), "node node002 stopped\n");
    up.run(&["group", "join", "jobs/1", "--node", "node002"]).refused(2, "NODE_STOPPED");
    assert_eq!(names(&up.routed("jobs/1", 2)["members"], "node"), ["node001", "gpu036"]);
    assert_eq!(up.ok(&["node", "start", "node002"]), "node node002 started\n");
    up.wait(&["node", "list"], |list| {
        let nodes = list["nodes"].as_array().expect("a list");
        nodes.iter().any(|node| node["name"] == "node002" && node["state"] == "NODE_STATE_UP")
    });
    assert_eq!(up.json(&["group", "join", "jobs/1", "--node", "node002"])["pn"], 1);
    up.routed("jobs/1", 3);

    // A node that is reported is expelled at once.
    assert_eq!(up.ok(&["node", "fail", "gpu036"]), "node gpu036 expelled, 1 membership ended\n");
    assert_eq!(names(&up.routed("jobs/1", 2)["members"], "node"), ["node001", "node002"]);
}

fn a_node_that_comes_and_goes_is_suppressed(up: &Up) {
    let ours = |list: &Value, test: &dyn Fn(&Value) -> bool| {
        let nodes = list["nodes"].as_array().expect("a list");
        nodes.iter().any(|node| node["name"] == "gpu036" && test(node))
    };
    for _ in 0..3 {
        up.wait(&["node", "list"], |list| ours(list, &|node| node["state"] == "NODE_STATE_UP"));
        assert_eq!(
            up.ok(&["node", "fail", "gpu036"]),
            "node gpu036 expelled, 0 memberships ended\n"
        );
    }
    up.wait(&["node", "list"], |list| ours(list, &|node| node["suppressedUntil"].is_string()));
    assert!(up.ok(&["node", "list"]).contains("Z: recent flaps count 3."));
    assert_eq!(up.ok(&["node", "readmit", "gpu036"]), "node gpu036 not suppressed\n");
    assert!(!up.ok(&["node", "list"]).contains("recent flaps"));
}

fn files_of_groups_are_formed_or_refused_whole(up: &Up) {
    let form = ["group", "form", "--groups", "g"];
    let good = "{\"name\":\"f/1\",\"members\":[\"node004 HCA-1\",\"node005 HCA-1\"]}\n";
    let before = up.json(&["group", "list"]);
    for (bad, needle) in [
        ("{\"name\":\"\",\"members\":[\"node004 HCA-1\"]}", "group name is empty"),
        ("{\"name\":\"a\\u0000\",\"members\":[\"node004 HCA-1\"]}", "control character"),
        ("{\"name\":\"b\",\"members\":[\"nobody\"]}", "line 2: members: the topology has no"),
        ("{\"name\":\"jobs/2\",\"mgid\":5,\"members\":[]}", "mgid: 5, but the live group has"),
        ("{\"name\":\"b\",\"mgid\":4000000,\"members\":[]}", "is that of the live group 'jobs/2'"),
        ("{\"members\":[]}\n{\"name\":\"group/2\",\"members\":[]}", "two groups have it"),
    ] {
        up.sandbox.write("g", format!("{good}{bad}\n"));
        let run = up.run(&form);
        run.refused(2, needle);
        run.silent();
    }
    let after = up.json(&["group", "list"]);
    assert_eq!(names(&after["groups"], "name"), names(&before["groups"], "name"));
    up.sandbox.write("g", good);
    assert_eq!(up.json(&form)["joined"], 2);
    assert_eq!(up.ok(&form), "g: 2 memberships joined in 1 groups\n", "once more is harmless");
    up.routed("f/1", 2);
}

fn unknown_names_are_refused(up: &Up) {
    let cases: [(&[&str], &str); 16] = [
        (&["group", "show", "x"], "hint: `fabricast group list`"),
        (&["group", "delete", "x"], "UNKNOWN_GROUP"),
        (&["group", "delete", "x", "--dry-run"], "UNKNOWN_GROUP"),
        (&["group", "leave", "jobs/1", "--node", "node009"], "NOT_A_MEMBER"),
        (&["group", "send", "jobs/1", "--node", "node009"], "NOT_A_MEMBER"),
        (&["group", "join", "x", "--node", "y"], "hint: `fabricast node list`"),
        (&["group", "join", "x", "--node", "node001", "--endpoint", "y"], "UNKNOWN_ENDPOINT"),
        (&["group", "join", "x", "--node", "node001", "--mgid", "4000000"], "MGID_IN_USE"),
        (&["group", "join", "a\nb", "--node", "node001"], "NAME_INVALID"),
        (&["node", "readmit", "x"], "hint: `fabricast node list`"),
        (&["node", "stop", "x", "--dry-run"], "node 'x' is not registered"),
        (&["switch", "show", "x", "--entries"], "hint: `fabricast switch list`"),
        (&["fabric", "fail", "--link", "x:1"], "UNKNOWN_ELEMENT"),
        (&["fabric", "fail", "--switch", "x", "--dry-run"], "the fabric has no switch 'x'"),
        (&["fabric", "heal", "--link", "x:1", "--dry-run"], "the fabric has no link at x:1"),
        (&["route", "explain", "--group", "x"], "UNKNOWN_GROUP"),
    ];
    for (arguments, needle) in cases {
        let run = up.run(arguments);
        run.refused(2, needle);
        run.silent();
    }
    let send = ["fabric", "send", "--endpoint", "node001 HCA-1", "--mgid", "1", "--color", "32"];
    up.run(&send).refused(2, "COLOR_OUT_OF_RANGE");
    let odd = "ü/\"quoted\" *";
    up.ok(&["group", "join", odd, "--node", "node001"]);
    assert_eq!(up.json(&["group", "show", odd])["name"], odd);
    up.ok(&["group", "leave", odd, "--node", "node001"]);
}

fn groups_end(up: &Up) {
    let plan = up.ok(&["group", "delete", "jobs/1", "--dry-run"]);
    assert!(plan.contains("ends 2 memberships on 2 nodes"), "{plan}");
    let left = up.ok(&["group", "leave", "jobs/1", "--node", "node002"]);
    assert_eq!(left, "p0 on node node002 left group jobs/1\n");
    up.run(&["group", "leave", "jobs/1", "--node", "node002"]).refused(2, "NOT_A_MEMBER");
    for group in ["jobs/1", "jobs/2", "f/1"] {
        let deleted = up.ok(&["group", "delete", group]);
        assert_eq!(deleted, format!("group {group} deleted\n"));
    }
    up.run(&["group", "delete", "jobs/1"]).refused(2, "UNKNOWN_GROUP");
    assert_eq!(up.json(&["group", "list"])["groups"].as_array().map(Vec::len), Some(0));
    let status = up.wait(&["route", "status"], |status| status["programmedEntries"] == "0");
    assert_eq!(status["usedEntries"], 0, "nothing stale is left");
}

fn neither_port_nor_store_is_shared(up: &Up) {
    let run = up.sandbox.run(&["up", "--listen", &up.address]);
    run.refused(2, &format!("cannot listen on {}: Address already in use", up.address));
    let run = up.sandbox.run(&["up", "--listen", "127.0.0.1:0", "--store", "records.redb"]);
    run.refused(2, "records.redb is in use by another process");
}

#[test]
fn jobs_get_nodes_and_give_them_back() {
    let up = Up::start();
    up.wait(&["node", "list"], |list| list["nodes"].as_array().map_or(0, Vec::len) == 96);
    let thought = up.json(&["job", "allocate", "j1", "--nodes", "30", "--dry-run"]);
    assert_eq!((&thought["jobClass"], &thought["revision"]), (&"JOB_CLASS_T1".into(), &"0".into()));
    let hosts = up.ok(&["job", "allocate", "j1", "--nodes", "30", "--format", "hostlist"]);
    assert_eq!(up.ok(&["job", "show", "j1", "--format", "hostlist"]), hosts);
    let again = up.run(&["job", "allocate", "j2", "--hosts", hosts.trim()]);
    again.refused(1, "serves job j1 (rule 1)");
    up.run(&["job", "allocate", "j2", "--nodes", "90"]).refused(1, "no room: node_count: 90 nodes");
    up.run(&["job", "allocate", "j1", "--nodes", "2"]).refused(2, "(JOB_EXISTS)");
    up.run(&["job", "show", "j9"]).refused(2, "hint: `fabricast job list` shows what there is");
    let report = up.ok(&["job", "report", "--nodes", "2"]);
    assert!(report.starts_with("66 of 96 nodes are free\n"), "{report}");
    assert!(report.ends_with("2 nodes find room as it is\n"), "{report}");
    assert!(up.ok(&["job", "release", "j1", "--dry-run"]).contains(hosts.trim()));
    assert_eq!(up.json(&["job", "list"])["jobs"].as_array().unwrap().len(), 1);
    up.ok(&["job", "release", "j1"]);
    assert_eq!(up.json(&["job", "list"])["jobs"].as_array().unwrap().len(), 0);

    // A group that says whom it expects, and one that would be formed beside it.
    let create = ["group", "create", "g", "--node", "node001", "--layer", "j/rows"];
    up.ok(&[&create[..], &["--expect", "node002 HCA-1"]].concat());
    assert_eq!(up.json(&["group", "show", "g"])["layer"], "j/rows");
    up.sandbox
        .write("groups", "{\"name\":\"k\",\"members\":[\"node001 HCA-1\",\"node002 HCA-1\"]}\n");
    let planned = &up.json(&["group", "plan", "--groups", "groups"])["mgids"][0];
    assert_eq!((&planned["group"], &planned["conflictingMembers"]), (&"k".into(), &0.into()));
}
