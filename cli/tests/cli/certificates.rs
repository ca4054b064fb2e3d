//! A cluster whose parts show each other certificates, and who may do what in it.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use fabricast_rpc::{CertificateFiles, Channel, Security};
use serde_json::Value;

use crate::support::{Run, Sandbox, data, free_address, own_host};

/// Timeout of a condition; a test that waits longer fails.
const LIMIT: Duration = Duration::from_secs(60);

/// All parts as processes; killed when dropped.
pub(crate) struct Parts {
    pub(crate) sandbox: Sandbox,
    children: Vec<Child>,
    pub(crate) tic: String,
    pub(crate) switches: String,
    pub(crate) agents: String,
    pub(crate) router: String,
    pub(crate) fabric: String,
}

/// Has the authority in `ca` name somebody.
pub(crate) fn issue(sandbox: &Sandbox, folder: &str, identities: &[&str], hosts: &[&str]) {
    let mut arguments = vec!["certs", "issue", "--authority", "ca", "--out", folder];
    for identity in identities {
        arguments.extend(["--identity", identity]);
    }
    for host in hosts {
        arguments.extend(["--host", host]);
    }
    sandbox.ok(&arguments);
}

impl Parts {
    pub(crate) fn start() -> Self {
        let sandbox = Sandbox::new();
        sandbox.ok(&["certs", "authority", "--out", "ca"]);
        let host = own_host().to_string();
        let here = [host.as_str()];
        for role in ["tic", "router", "fabric", "switch-agent"] {
            issue(&sandbox, role, &[&format!("{role}/a")], &here);
        }
        let nodes = ["operating-agent/node001", "operating-agent/gpu042"];
        issue(&sandbox, "operating-agent", &nodes, &here);
        issue(&sandbox, "admin", &["admin/ann"], &[]);
        issue(&sandbox, "reader", &["reader/rita"], &[]);
        issue(&sandbox, "tenant-admin", &["tenant-admin/acme"], &[]);
        issue(&sandbox, "tenant", &["tenant/acme"], &[]);

        let net = data("cluster-edr-96.ibnetdiscover");
        let [fabric, tic, switches, agents, router] = std::array::from_fn(|_| free_address());
        let text = format!(
            "[fabric]\nlisten = '{fabric}'\ntopology = '{net}'\nmanagement_key = 'k'\n\
             certificates = 'fabric'\n\
             [tic]\nlisten = '{tic}'\ntopology = '{net}'\nstore = 'memory'\ncertificates = 'tic'\n\
             [switch_agent]\nlisten = '{switches}'\nname = 'a'\nmanagement_key = 'k'\n\
             tic = '{tic}'\nfabric = '{fabric}'\ncertificates = 'switch-agent'\n\
             [router]\nlisten = '{router}'\ntic = '{tic}'\nswitch_agents = ['{switches}']\n\
             certificates = 'router'\n\
             [operating_agent]\nlisten = '{agents}'\ntic = '{tic}'\nfabric = '{fabric}'\n\
             certificates = 'operating-agent'\n\
             nodes = [{{ name = 'node001', endpoints = ['node001 HCA-1'] }},\n\
             {{ name = 'gpu042', endpoints = ['gpu042 HCA-1'] }}]\n"
        );
        sandbox.write("f.toml", text);
        let children = Vec::new();
        let mut parts = Self { sandbox, children, tic, switches, agents, router, fabric };
        for role in ["fabric", "tic", "switch-agent", "operating-agent", "router"] {
            parts.add(&[role, "--config", "f.toml"]);
        }
        parts
    }

    /// Starts a further part.
    pub(crate) fn add(&mut self, arguments: &[&str]) {
        let mut command = self.sandbox.command(arguments);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.children.push(command.spawn().expect("the binary starts"));
    }

    /// Address of the part that has a service.
    pub(crate) fn address_of(&self, service: &str) -> &str {
        match service {
            "RouteService" => &self.router,
            "SwitchAgentService" | "SwitchAggregationService" => &self.switches,
            "FabricService" | "FabricAggregationService" => &self.fabric,
            "GroupAgentService"
            | "OperatingAgentService"
            | "CollectiveAgentService"
            | "ProcessService" => &self.agents,
            _ => &self.tic,
        }
    }

    /// A channel that shows a certificate.
    pub(crate) fn channel(&self, who: &str, address: &str) -> Channel {
        let files = CertificateFiles::in_folder(&self.sandbox.path(who));
        let security = Security::mutual(files).expect("the files are good");
        security.peer(address).expect("an address").channel()
    }

    fn run(&self, who: &str, arguments: &[&str], server: &str) -> Run {
        let rest = ["--server", server, "--certificates", who, "--format", "json"];
        self.sandbox.run(&[arguments, &rest].concat())
    }

    /// Asks until an answer is as wanted; one that fails is asked for again.
    pub(crate) fn wait(
        &self,
        who: &str,
        arguments: &[&str],
        server: &str,
        wanted: impl Fn(&Value) -> bool,
    ) {
        let started = Instant::now();
        loop {
            let run = self.run(who, arguments, server);
            let answer = serde_json::from_str(&run.stdout).unwrap_or(Value::Null);
            if run.code == 0 && wanted(&answer) {
                return;
            }
            assert!(started.elapsed() < LIMIT, "{run:?}");
        }
    }

    /// Gives jobs, collectives, a quota and a reservation to the tenants `acme` and `other`, whose
    /// groups are `acme/1` and `rows/1`; returns the numbers of the reservations.
    pub(crate) fn give_to_tenants(&self) -> [u64; 2] {
        // It has the number 0, which is that of a request without one.
        self.reserve_entry("nobody");
        [("acme", "acme/1"), ("other", "rows/1")].map(|(tenant, group)| self.give_to(tenant, group))
    }

    /// Gives jobs, collectives of a group, a quota and a reservation to a tenant; returns the
    /// number of the reservation.
    pub(crate) fn give_to(&self, tenant: &str, group: &str) -> u64 {
        let give = |arguments: &[&str]| self.json("admin", arguments, &self.tic);
        for name in ["kept", "gone"] {
            give(&["job", "allocate", &format!("{tenant}/{name}"), "--nodes", "1"]);
            let collective = format!("{tenant}-{name}");
            let of = ["--group", group, "--tenant", tenant];
            give(&[&["collective", "create", &collective], &of[..]].concat());
        }
        give(&["collective", "limit", "--tenant", tenant, "--collectives", "9"]);
        let reserved = self.reserve_entry(tenant);
        reserved["reservation"]["id"].as_u64().expect("a number")
    }

    fn reserve_entry(&self, tenant: &str) -> Value {
        let entries = ["--entries", "1", "--endpoints", "node001 HCA-1"];
        let reserve = ["collective", "reserve", "--tenant", tenant];
        self.json("admin", &[&reserve[..], &entries].concat(), &self.tic)
    }

    /// The answer to a command that succeeds.
    pub(crate) fn json(&self, who: &str, arguments: &[&str], server: &str) -> Value {
        let run = self.run(who, arguments, server);
        assert_eq!(run.code, 0, "{run:?}");
        serde_json::from_str(&run.stdout).expect("JSON")
    }

    fn names(&self, who: &str) -> Vec<String> {
        let list = self.json(who, &["group", "list"], &self.tic);
        let groups = list["groups"].as_array().expect("a list");
        groups.iter().map(|group| group["name"].as_str().expect("a name").to_owned()).collect()
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        for child in &mut self.children {
            // One that has ended already is as good.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn parts_know_each_other_and_users_do_what_their_certificates_allow() {
    let parts = Parts::start();
    for node in ["node001", "gpu042"] {
        for (who, group) in [("admin", "rows/1"), ("tenant", "acme/1")] {
            let join = ["group", "join", group, "--node", node];
            parts.wait(who, &join, &parts.agents, |_| true);
        }
    }
    for (who, group) in [("admin", "rows/1"), ("tenant", "acme/1")] {
        parts.wait(who, &["group", "show", group], &parts.tic, |group| {
            group["route"]["state"] == "ROUTE_STATE_ROUTED"
        });
    }
    assert_eq!(parts.names("admin"), ["rows/1", "acme/1"]);
    assert_eq!(parts.names("tenant"), ["acme/1"]);

    let refused = |who: &str, arguments: &[&str], server: &str, why: &str| {
        let run = parts.run(who, arguments, server);
        run.refused(2, why);
        run.silent();
    };
    let rows = "rows/1";
    refused("tenant", &["group", "show", rows], &parts.tic, "no group 'rows/1'");
    refused("tenant", &["group", "delete", rows], &parts.tic, "not 'rows/1'");
    let join = ["group", "join", rows, "--node", "node001"];
    refused("tenant", &join, &parts.agents, "tenant/acme may use groups");
    let list = ["switch", "list"];
    refused("tenant", &list, &parts.switches, "tenant/acme may not call SwitchAgentService");
    refused("router", &["group", "delete", rows], &parts.tic, "router/a may not call TicService");

    let health = ["health", "--service", "fabricast.v1.TicService"];
    parts.wait("tenant", &health, &parts.tic, |answer| answer["serving"] == true);
    refused("admin", &health, &parts.agents, "");

    let stranger = parts.sandbox.run(&["group", "list", "--server", &parts.tic]);
    stranger.refused(2, "it ended the unencrypted connection");
    stranger.refused(2, "hint: if it uses TLS, give --certificates");
    parts.sandbox.ok(&["certs", "authority", "--out", "other"]);
    let arguments = ["certs", "issue", "--authority", "other", "--identity", "admin/eve"];
    parts.sandbox.ok(&[&arguments[..], &["--out", "eve"]].concat());
    let eve = parts.run("eve", &["group", "list"], &parts.tic);
    eve.refused(2, "its certificate is not accepted");
}

/// Texts at a field of the items of a list.
fn texts(list: &Value, field: &str) -> Vec<String> {
    let items = list.as_array().expect("a list");
    items.iter().map(|item| item[field].as_str().expect("a text").to_owned()).collect()
}

#[test]
fn a_tenant_administrator_has_what_is_its_tenants_and_a_reader_changes_nothing() {
    let parts = Parts::start();
    for (who, group) in [("admin", "rows/1"), ("tenant-admin", "acme/1")] {
        for node in ["node001", "gpu042"] {
            let join = ["group", "join", group, "--node", node];
            parts.wait(who, &join, &parts.agents, |_| true);
        }
    }
    parts.give_to_tenants();
    let ask = |who: &str, arguments: &[&str]| parts.json(who, arguments, &parts.tic);
    let refused = |who: &str, arguments: &[&str], why: &str| {
        let run = parts.run(who, arguments, &parts.tic);
        assert!(run.code != 0, "{run:?}");
        assert!(run.stderr.contains(why), "{run:?}");
    };
    let both = ["acme/gone", "acme/kept", "other/gone", "other/kept"];
    for (who, jobs) in [("admin", &both[..]), ("reader", &both), ("tenant-admin", &both[..2])] {
        assert_eq!(texts(&ask(who, &["job", "list"])["jobs"], "name"), jobs, "{who}");
        let collectives = ask(who, &["collective", "list"]);
        assert_eq!(texts(&collectives["collectives"], "name").len(), jobs.len(), "{who}");
        let usage = ask(who, &["collective", "usage"]);
        let tenants: std::collections::BTreeSet<String> = ["quotas", "reservations", "usages"]
            .into_iter()
            .flat_map(|kind| usage[kind].as_array().expect("a list"))
            .map(|one| one["holder"]["tenant"].as_str().expect("a name").to_owned())
            .collect();
        // `nobody` has a reservation, too.
        let wanted = if jobs.len() == 2 { 1 } else { 3 };
        assert_eq!(tenants.len(), wanted, "{who}: {tenants:?}");
    }
    assert_eq!(parts.names("tenant-admin"), ["acme/1"]);

    let reserve = |who: &str, job: &str, account: &str, hosts: &str| {
        let asked = ["job", "reserve", job, "--account", account, "--hosts", hosts];
        parts.run(who, &[&asked[..], &["--groups", "1"]].concat(), &parts.tic)
    };
    let admins = reserve("admin", "7", "other", "node001");
    assert_eq!(admins.code, 0, "{admins:?}");
    let taken = reserve("tenant-admin", "7", "acme", "node001");
    assert!(taken.stderr.contains("JOB_EXISTS"), "{taken:?}");
    let own = reserve("tenant-admin", "8", "acme", "gpu042");
    assert_eq!(own.code, 0, "{own:?}");
    refused("tenant-admin", &["job", "release", "7"], "UNKNOWN_JOB");
    refused("tenant-admin", &["job", "release", "other/kept"], "UNKNOWN_JOB");
    let quota = ["collective", "limit", "--tenant", "acme", "--collectives", "99"];
    refused("tenant-admin", &quota, "without it the tenant itself is limited");
    ask("tenant-admin", &[&quota[..], &["--job", "j"]].concat());
    ask("tenant-admin", &["job", "release", "8"]);
    ask("tenant-admin", &["collective", "release", "acme-gone"]);
    refused("tenant-admin", &["collective", "release", "other-gone"], "no collective");

    refused("reader", &["job", "release", "acme/kept"], "reader/rita may not call");
    refused("reader", &["group", "delete", "rows/1"], "reader/rita may not call");
    assert_eq!(parts.names("reader"), ["rows/1", "acme/1"]);
    assert_eq!(ask("reader", &["node", "list"])["nodes"].as_array().map(Vec::len), Some(2));
    // A second role of a certificate widens no call that it may not make.
    issue(&parts.sandbox, "both", &["reader/rita", "tenant/acme"], &[]);
    refused("both", &["group", "delete", "rows/1"], "tenant/acme may use groups");
    ask("both", &["group", "delete", "acme/1"]);
}

#[test]
fn a_new_certificate_is_taken_up_by_a_running_part() {
    let parts = Parts::start();
    let show = ["group", "list"];
    parts.wait("admin", &show, &parts.tic, |_| true);
    let before = parts.sandbox.read("tic/tls.crt");
    issue(&parts.sandbox, "tic", &["tic/a"], &["10.0.0.1"]);
    assert_ne!(parts.sandbox.read("tic/tls.crt"), before);
    let started = Instant::now();
    while parts.run("admin", &show, &parts.tic).code == 0 {
        assert!(started.elapsed() < LIMIT, "still served under the old certificate");
    }
    issue(&parts.sandbox, "tic", &["tic/a"], &[&own_host().to_string()]);
    parts.wait("admin", &show, &parts.tic, |_| true);
    let join = ["group", "join", "after", "--node", "node001"];
    parts.wait("admin", &join, &parts.agents, |_| true);
}

#[test]
fn certificates_that_cannot_be_made_or_used_are_refused() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["certs", "authority", "--out", "ca"]);
    sandbox.run(&["certs", "authority", "--out", "ca"]).refused(2, "ca.crt is there already");
    let issue = ["certs", "issue", "--authority", "ca", "--out", "x", "--identity"];
    let with = |more: &[&str]| sandbox.run(&[&issue[..], more].concat());
    with(&["king/a"]).refused(2, "'king/a' is not of the form ROLE/NAME");
    with(&["tic/"]).refused(2, "'tic/' is not of the form ROLE/NAME");
    with(&["tic/a"]).refused(2, "tic/a serves, but no --host says where");
    with(&["tic/a", "--host", "ä"]).refused(2, "--host");
    assert!(!sandbox.path("x").exists(), "nothing was written");
    let lost = ["certs", "issue", "--authority", "no", "--out", "x", "--identity", "admin/a"];
    sandbox.run(&lost).refused(2, "no/ca.crt");
    sandbox.run(&["group", "list", "--certificates", "x"]).refused(2, "x/ca.crt: no such file");

    sandbox.write("net", std::fs::read(data("cluster-edr-96.ibnetdiscover")).expect("data"));
    let section = "[tic]\nlisten = '0.0.0.0:0'\nstore = 'memory'\ntopology = 'net'\n";
    let tic = |more: &str| {
        sandbox.write("f.toml", format!("{section}{more}"));
        sandbox.run(&["tic", "--config", "f.toml"])
    };
    tic("").refused(78, "give certificates, or set allow_plaintext");
    tic("certificates = 'nowhere'\n").refused(78, "nowhere/ca.crt: no such file");
    tic("certificates = 'ca'\nallow_plaintext = true\n").refused(78, "contradicts certificates");
}

#[test]
fn plain_text_leaves_this_machine_only_where_that_was_asked_for() {
    let sandbox = Sandbox::new();
    // An address that nobody has: refused before anything is sent, or not reached.
    let far = ["group", "list", "--server", "192.0.2.1:1"];
    let refused = sandbox.run(&far);
    assert!(refused.stderr.contains("--plaintext"), "{refused:?}");
    refused.refused(
        2,
        "'192.0.2.1:1' is on another machine, and the connection would not be encrypted",
    );
    sandbox.run(&["up", "--listen", "0.0.0.0:0"]).refused(2, "can be reached from other machines");
    let store = ["store", "export", "--out", "x", "--store"];
    let run = |url: &str| sandbox.run(&[&store[..], &[url]].concat());
    run("etcd://192.0.2.1:1/x")
        .refused(2, "add ?certificates=FOLDER, or ?plaintext to accept that");
    run("etcd://192.0.2.1:1/x?certificates=no").refused(2, "no/ca.crt: no such file");
    let both = ["group", "list", "--plaintext", "--certificates", "x"];
    sandbox.run(&both).refused(2, "cannot be used with");
}

#[test]
fn a_server_of_another_program_needs_no_identity() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["certs", "authority", "--out", "ca"]);
    let issue = ["certs", "issue", "--authority", "ca", "--out", "etcd-0"];
    sandbox.run(&issue).refused(2, "--identity");
    let made = sandbox.ok(&[&issue[..], &["--host", "etcd-0", "--host", "127.0.0.1"]].concat());
    assert!(made.contains("certificate of etcd-0, 127.0.0.1 in etcd-0"), "{made}");
    // It is nobody to the parts.
    let asked = sandbox.run(&["group", "list", "--certificates", "etcd-0"]);
    asked.refused(2, "no name of the form spiffe://fabricast/");
}

#[test]
fn a_list_of_revoked_certificates_grows_and_goes_to_new_folders() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["certs", "authority", "--out", "ca"]);
    let lengths: Vec<u64> = ["one", "two"]
        .into_iter()
        .map(|name| {
            issue(&sandbox, name, &[&format!("admin/{name}")], &[]);
            sandbox.ok(&["certs", "revoke", "--authority", "ca", &format!("{name}/tls.crt")]);
            sandbox.path("ca/ca.crl").metadata().expect("it was written").len()
        })
        .collect();
    assert!(lengths[0] < lengths[1], "{lengths:?}");
    issue(&sandbox, "three", &["admin/three"], &[]);
    let read = |path| std::fs::read(sandbox.path(path)).expect("it was written");
    assert_eq!(read("three/ca.crl"), read("ca/ca.crl"));
}
