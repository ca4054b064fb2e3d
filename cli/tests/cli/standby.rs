//! `fabricast router` as two processes: one is at work, and when it is frozen the other takes over.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use fabricast_proto::v1;
use fabricast_proto::v1::administration_service_client::AdministrationServiceClient;
use fabricast_rpc::Peer;
use serde_json::Value;

use crate::support::{Sandbox, data, free_address};

/// Timeout of a condition; a test that waits longer fails.
const LIMIT: Duration = Duration::from_secs(60);

/// All parts as processes; killed when dropped.
struct Parts {
    sandbox: Sandbox,
    children: Vec<(String, Child)>,
    tic: String,
    routers: [String; 2],
    agents: String,
}

impl Parts {
    fn start() -> Self {
        let sandbox = Sandbox::new();
        let net = data("cluster-edr-96.ibnetdiscover");
        let [fabric, tic, switches, agents, one, two] = std::array::from_fn(|_| free_address());
        let text = format!(
            "[fabric]\nlisten = '{fabric}'\ntopology = '{net}'\nmanagement_key = 'k'\n\
             [tic]\nlisten = '{tic}'\ntopology = '{net}'\nstore = 'memory'\n\
             [switch_agent]\nlisten = '{switches}'\nname = 'a'\nmanagement_key = 'k'\n\
             tic = '{tic}'\nfabric = '{fabric}'\n\
             [router]\ntic = '{tic}'\nswitch_agents = ['{switches}']\n\
             [operating_agent]\nlisten = '{agents}'\ntic = '{tic}'\nfabric = '{fabric}'\n\
             nodes = [{{ name = 'node001', endpoints = ['node001 HCA-1'] }},\n\
             {{ name = 'gpu042', endpoints = ['gpu042 HCA-1'] }}]\n"
        );
        sandbox.write("f.toml", text);
        let mut parts = Self { sandbox, children: Vec::new(), tic, routers: [one, two], agents };
        for role in ["fabric", "tic", "switch-agent", "operating-agent"] {
            parts.launch(role, role, &[]);
        }
        for number in 0..2 {
            parts.launch_router(number);
        }
        parts
    }

    /// Launches a router that has a folder for recordings.
    fn launch_router(&mut self, number: usize) {
        let (listen, folder) = (self.routers[number].clone(), format!("recordings-{number}"));
        let settings = [
            ("FABRICAST_ROUTER__LISTEN", listen.as_str()),
            ("FABRICAST_ROUTER__RECORDING_FOLDER", folder.as_str()),
        ];
        self.launch(&format!("router-{number}"), "router", &settings);
    }

    fn kill(&mut self, name: &str) {
        let at = self.children.iter().position(|(known, _)| known == name);
        let (_, mut child) = self.children.remove(at.expect("it was started"));
        child.kill().and_then(|()| child.wait()).expect("it can be killed");
    }

    fn launch(&mut self, name: &str, role: &str, variables: &[(&str, &str)]) {
        let mut command = self.sandbox.command(&[role, "--config", "f.toml"]);
        command.envs(variables.iter().copied()).stdout(Stdio::null()).stderr(Stdio::null());
        self.children.push((name.to_owned(), command.spawn().expect("the binary starts")));
    }

    fn signal(&self, name: &str, signal: &str) {
        let child = self.children.iter().find(|(known, _)| known == name).expect("it was started");
        let line = format!("kill -{signal} {}", child.1.id());
        let sent = std::process::Command::new("sh").args(["-c", &line]).status();
        assert!(sent.expect("a shell").success(), "{line}");
    }

    /// Asks until an answer is as wanted; one that fails is asked for again.
    fn wait(&self, arguments: &[&str], wanted: impl Fn(&Value) -> bool) -> Value {
        let started = Instant::now();
        loop {
            let run = self.sandbox.run(&[arguments, &["--format", "json"]].concat());
            let answer = serde_json::from_str(&run.stdout).unwrap_or(Value::Null);
            if run.code == 0 && wanted(&answer) {
                return answer;
            }
            assert!(started.elapsed() < LIMIT, "{run:?}");
        }
    }

    fn join(&self, group: &str, node: &str) {
        let arguments = ["group", "join", group, "--node", node, "--server", &self.agents];
        self.wait(&arguments, |_| true);
    }

    fn routed(&self, group: &str) {
        self.wait(&["group", "show", group, "--server", &self.tic], |group| {
            group["route"]["state"] == "ROUTE_STATE_ROUTED"
        });
    }

    /// Number of the router that is at work.
    fn active(&self) -> usize {
        let started = Instant::now();
        loop {
            for (number, router) in self.routers.iter().enumerate() {
                if leads(router) {
                    return number;
                }
            }
            assert!(started.elapsed() < LIMIT, "no router is at work");
        }
    }
}

/// True if a router reports that it is active.
fn leads(router: &str) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let asked = runtime.expect("a runtime").block_on(async {
        let channel = Peer::new(router).expect("an address").channel();
        let mut client = AdministrationServiceClient::new(channel);
        let asking = client.get_server_info(v1::GetServerInfoRequest {});
        tokio::time::timeout(Duration::from_secs(1), asking)
            .await
            .ok()?
            .ok()?
            .into_inner()
            .leadership
    });
    asked.is_some_and(|known| known.leads)
}

impl Drop for Parts {
    fn drop(&mut self) {
        for (_, child) in &mut self.children {
            // One that has ended already is as good.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn a_router_that_is_frozen_is_replaced_and_waits_when_it_wakes_up() {
    let parts = Parts::start();
    for node in ["node001", "gpu042"] {
        parts.join("before", node);
    }
    parts.routed("before");
    let first = parts.active();
    let (asleep, awake) = (format!("router-{first}"), 1 - first);
    parts.signal(&asleep, "STOP");
    for node in ["node001", "gpu042"] {
        parts.join("after", node);
    }
    parts.routed("after");
    parts.signal(&asleep, "CONT");
    let started = Instant::now();
    while leads(&parts.routers[first]) {
        assert!(started.elapsed() < LIMIT, "it does not step back");
    }
    // It knows who is at work, and its callers are led there.
    let one = ["--server", parts.routers[first].as_str()];
    let status = parts.wait(&[&["route", "status"], &one[..]].concat(), |status| {
        status["active"] == true && status["settled"] == true
    });
    let term = status["fence"]["term"].clone();
    let explained =
        parts.wait(&[&["route", "explain", "--group", "after"], &one[..]].concat(), |_| true);
    assert_eq!(explained["group"], "after");
    let both = parts.routers.join(",");
    let status =
        parts.wait(&["route", "status", "--server", &both], |status| status["settled"] == true);
    assert_eq!((&status["active"], &status["fence"]["term"]), (&Value::Bool(true), &term));
    assert_eq!(parts.active(), awake);
}

#[test]
fn the_tables_are_audited_by_the_router_that_is_at_work_whichever_is_named() {
    let parts = Parts::start();
    for node in ["node001", "gpu042"] {
        parts.join("group", node);
    }
    parts.routed("group");
    let works = parts.active();
    let [works, waits] = [works, 1 - works].map(|number| parts.routers[number].clone());
    for servers in [waits.clone(), format!("{waits},{works}"), format!("{works},{waits}")] {
        let audit = parts.wait(&["switch", "audit", "--server", &servers], |_| true);
        let compared = audit["comparedTables"].as_str().unwrap_or("0");
        assert_ne!(compared, "0", "{servers}: {audit}");
    }
    parts.sandbox.ok(&["debug", "bundle", "--out", "bundle", "--server", &waits]);
    let drifts = |router: &str| {
        let folder = router.replace(':', "_");
        parts.sandbox.path(&format!("bundle/{folder}/table-drifts.json")).exists()
    };
    // A busy machine may have made the other one the active one meanwhile.
    assert_ne!(drifts(&works), drifts(&waits), "only the active one compares");
    let summary: Value = serde_json::from_str(&parts.sandbox.read("bundle/summary.json")).unwrap();
    assert_eq!(summary["problems"], serde_json::json!([]), "{summary}");
}

#[test]
fn a_bundle_of_a_route_service_that_waits_for_its_term_is_no_all_clear() {
    let (sandbox, router, nobody) = (Sandbox::new(), free_address(), free_address());
    let text =
        format!("[router]\nlisten = '{router}'\ntic = '{nobody}'\nswitch_agents = ['{nobody}']\n");
    sandbox.write("f.toml", text);
    let (children, agents) = (Vec::new(), nobody.clone());
    let routers = [router.clone(), router];
    let mut parts = Parts { sandbox, children, tic: nobody, routers, agents };
    parts.launch("router", "router", &[]);
    let collect = ["debug", "bundle", "--out", "bundle", "--server", &parts.routers[0]];
    let started = Instant::now();
    let mut run = parts.sandbox.run(&collect);
    while run.code == 3 && started.elapsed() < LIMIT {
        run = parts.sandbox.run(&collect);
    }
    run.refused(1, "no active route service has compared the tables");
    assert!(run.stdout.contains("no active one was found"), "{run:?}");
    assert!(parts.sandbox.path("bundle/summary.json").exists(), "what there is was kept");
}

#[test]
fn the_inputs_of_a_killed_router_are_played_from_its_files() {
    let mut parts = Parts::start();
    for node in ["node001", "gpu042"] {
        parts.join("recorded", node);
    }
    parts.routed("recorded");
    let first = parts.active();
    let live = format!("recordings-{first}");
    let played = |parts: &Parts, folder: &str| {
        parts.sandbox.run(&["debug", "replay", folder, "--group", "recorded"])
    };
    // The disk is written a little later.
    let started = Instant::now();
    loop {
        let run = played(&parts, &live);
        if run.code == 0 {
            break;
        }
        assert!(started.elapsed() < LIMIT, "{run:?}");
    }
    parts.kill(&format!("router-{first}"));
    parts.launch_router(first);
    let restarted = parts.routers[first].clone();
    parts.wait(&["route", "status", "--server", &restarted], |status| status["settled"] == true);
    parts.sandbox.ok(&["debug", "bundle", "--out", "without", "--server", &restarted]);
    let of_it = restarted.replace(':', "_");
    assert!(!parts.sandbox.path(&format!("without/{of_it}/recordings")).exists());
    let collect = ["debug", "bundle", "--recordings", "--out", "bundle", "--server", &restarted];
    parts.sandbox.ok(&collect);
    let folder = format!("bundle/{of_it}/recordings");
    let run = played(&parts, &folder);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.stdout.ends_with(" written entries: all as recorded\n"), "{run:?}");

    let all = |parts: &Parts| parts.sandbox.run(&["debug", "replay", &folder]);
    let entries = std::fs::read_dir(parts.sandbox.path(&folder)).expect("the folder is there");
    let names = entries.map(|entry| entry.expect("it can be listed").file_name());
    let names = names.map(|name| name.into_string().expect("text"));
    let name = names.filter(|name| name.ends_with(".segment")).min().expect("a segment");
    let file = format!("{folder}/{name}");
    let lines = parts.sandbox.ok(&["debug", "replay", &file]);
    assert!(lines.contains("section 0 begins at 20") && lines.contains(&name), "{lines}");
    let whole = std::fs::read(parts.sandbox.path(&file)).expect("it can be read");
    let length = whole.len();
    parts.sandbox.write(&file, &whole[..length - 3]);
    let run = all(&parts);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(
        run.stderr.contains(&format!("{name}' ends within a write of the route service")),
        "{run:?}"
    );
    let mut damaged = whole;
    damaged[length - 1] ^= 1;
    parts.sandbox.write(&file, damaged);
    let run = all(&parts);
    run.refused(2, "the recording is damaged");
    assert!(run.stdout.contains("section 0 begins at 20"), "what is before it is played: {run:?}");
}

#[test]
fn the_address_of_the_tic_is_enough_for_calls_of_every_part() {
    let parts = Parts::start();
    let tic = ["--server", parts.tic.as_str()];
    let with_tic = |arguments: &[&str]| parts.wait(&[arguments, &tic[..]].concat(), |_| true);
    for node in ["node001", "gpu042"] {
        with_tic(&["group", "join", "group", "--node", node]);
    }
    parts.routed("group");
    assert_eq!(with_tic(&["route", "explain", "--group", "group"])["group"], "group");
    let switches = with_tic(&["switch", "list"]);
    assert_eq!(switches["switches"].as_array().map(Vec::len), Some(6), "{switches}");
    let switch = switches["switches"][0]["name"].as_str().expect("a name");
    assert_eq!(with_tic(&["switch", "show", switch, "--entries"])["switchName"], switch);
    with_tic(&["node", "show", "node001", "--memberships"]);
    let two = format!("127.0.0.1:1,{}", parts.tic);
    parts.wait(&["node", "show", "node001", "--memberships", "--server", &two], |_| true);
    with_tic(&["group", "send", "group", "--node", "node001"]);
    let versions = with_tic(&["version"]);
    let told = versions["parts"].as_array().expect("a list");
    for role in ["tic", "router", "switch-agent", "fabric", "operating-agent"] {
        let of_role: Vec<&Value> = told.iter().filter(|part| part["roles"][0] == role).collect();
        assert!(!of_role.is_empty(), "{role}: {versions}");
        for part in of_role {
            assert_eq!(part["version"], env!("CARGO_PKG_VERSION"), "{versions}");
        }
    }
    with_tic(&["fabric", "fail", "--endpoint", "node002 HCA-1"]);

    // A failed part of the fabric is an event, and a problem.
    let started = Instant::now();
    let events = loop {
        let events = parts.sandbox.ok(&[&["events"], &tic[..]].concat());
        if !events.is_empty() {
            break events;
        }
        assert!(started.elapsed() < LIMIT, "no event");
    };
    assert!(events.ends_with("fabric endpoint node002 HCA-1: failed\n"), "{events}");
    let only = parts.sandbox.ok(&[&["events", "--only", "node,route"], &tic[..]].concat());
    assert_eq!(only, "");
    let status = parts.sandbox.run(&[&["status", "--format", "json"], &tic[..]].concat());
    status.refused(1, "1 thing is wrong");
    let status: Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!((&status["nodes"]["count"], &status["groups"]["members"]), (&2.into(), &2.into()));
    let problem = status["problems"][0].as_str().unwrap_or_default();
    assert!(problem.starts_with("switch agent a reports 1 failed part"), "{status}");
    with_tic(&["fabric", "heal", "--endpoint", "node002 HCA-1"]);
    parts.wait(&[&["status"], &tic[..]].concat(), |status| status["routes"]["settled"] == true);
}

#[test]
fn events_are_followed_over_a_restart_of_the_tic() {
    let mut parts = Parts::start();
    parts.join("one", "node001");
    let mut follow = parts.sandbox.command(&["events", "--follow", "--server", &parts.tic]);
    let mut follow = follow.stdout(Stdio::piped()).spawn().expect("the binary starts");
    let lines = BufReader::new(follow.stdout.take().expect("piped")).lines();
    parts.children.push(("events".to_owned(), follow));
    let (sender, events) = mpsc::channel();
    std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
    // The stream may begin after a group was created.
    let sees_new_group = |parts: &Parts, name: &str| {
        let started = Instant::now();
        for number in 0.. {
            let group = format!("{name}/{number}");
            parts.join(&group, "node001");
            let event = format!("{group}: created");
            if sees(&events, &event, Duration::from_secs(1)) {
                return group;
            }
            assert!(started.elapsed() < LIMIT, "no event of a new group");
        }
        unreachable!("there are numbers enough")
    };
    let before = sees_new_group(&parts, "before");
    parts.kill("tic");
    // Its records were in memory.
    parts.launch("tic", "tic", &[]);
    assert!(sees(&events, &format!("{before}: deleted"), LIMIT));
    sees_new_group(&parts, "after");
}

/// Waits for a line with a text.
fn sees(lines: &mpsc::Receiver<String>, text: &str, time: Duration) -> bool {
    let end = Instant::now() + time;
    loop {
        match lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(line) if line.contains(text) => return true,
            Ok(_) => {}
            Err(_) => return false,
        }
    }
}

#[test]
fn a_context_names_parts_that_others_do_not_and_status_shows_who_stands_by() {
    let parts = Parts::start();
    let routers = parts.routers.join(",");
    let add = ["context", "add", "lab", "--server", &parts.tic, "--router", &routers];
    parts.sandbox.ok(&add);
    parts.sandbox.ok(&["context", "add", "other", "--server", "127.0.0.1:9"]);
    // One that has just become active may have been asked before.
    parts.wait(&["status"], |status| {
        let all = status["parts"].as_array().expect("parts").iter();
        let routers = all.filter(|part| part["role"] == "router");
        let states: Vec<&str> = routers.filter_map(|part| part["state"].as_str()).collect();
        let has = |state| states.contains(&state);
        status["routes"]["settled"] == true && has("active") && has("standby")
    });
    // The flag counts more than the current context, and a named context more than that.
    let other = parts.sandbox.run(&["status", "--context", "other"]);
    assert_eq!(other.code, 3, "{other:?}");
    parts.sandbox.ok(&["context", "use", "other"]);
    assert_eq!(parts.sandbox.run(&["node", "list"]).code, 3);
    parts.wait(&["node", "list", "--server", &parts.tic], |_| true);
    parts.wait(&["node", "list", "--context", "lab"], |_| true);
    let waiting = format!("router-{}", 1 - parts.active());
    parts.signal(&waiting, "STOP");
    let status = parts.sandbox.run(&["status", "--context", "lab"]);
    assert!(status.code == 1 && status.stdout.contains("route service "), "{status:?}");
    assert!(status.stdout.contains("no answer"), "{status:?}");
}
