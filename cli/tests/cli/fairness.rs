//! Joins of one client, while each role makes each of its calls as large and as often as it can.
//!
//! The attacker has certificates of its own, and is one client at each part. Its threads have the
//! lowest priority, as if they ran on another machine. The other client is a tenant, whose joins
//! go through an operating agent to the TIC.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]
#![expect(clippy::print_stdout, reason = "figures are told as they come")]

#[path = "fairness/load.rs"]
mod load;
#[path = "fairness/messages.rs"]
mod messages;

use std::fmt::Write;
use std::time::Duration;

use fabricast_proto::FILE_DESCRIPTOR_SET;
use fabricast_rpc::{Access, Bound, Role, access_table};
use prost_reflect::{DescriptorPool, MethodDescriptor};

use crate::calls::{Objects, Place, request};
use crate::certificates::{Parts, issue};
use crate::support::{free_address, own_host};

use self::load::{Attack, Attacked, Victim};

/// Time for which each call is made.
const LOAD: Duration = Duration::from_secs(2);
/// Groups that there are.
const GROUPS: usize = 2_000;
/// Bound of the 99th percentile of a join.
const BOUND: Duration = Duration::from_millis(100);
/// Calls that leave so much behind that the next ones get a new cluster.
const ADDING: [&str; 12] = [
    "FormGroups",
    "JoinMany",
    "JoinGroup",
    "RegisterNode",
    "RegisterMembers",
    "ReserveEntries",
    "CreateCollective",
    "CreateJob",
    "ReserveJob",
    "ReplaceTopology",
    "ReportTopology",
    "ReportFailedElements",
];

/// A cluster, with an operating agent for the joins that are measured.
struct Cluster {
    parts: Parts,
    victim: Victim,
    /// Term of the route service.
    term: u64,
    /// A reservation of the tenant `acme`.
    reservation: u64,
}

/// Certificate of the attacker in a role.
fn certificate(role: Role) -> String {
    format!("{}-attacker", role.word())
}

impl Cluster {
    fn start() -> Self {
        let mut parts = Parts::start();
        let host = own_host().to_string();
        let here = [host.as_str()];
        for role in Role::ALL {
            let name = match role {
                Role::OperatingAgent => "node003",
                Role::Tenant | Role::TenantAdministrator => "acme",
                _ => "attacker",
            };
            let identity = format!("{}/{name}", role.word());
            issue(&parts.sandbox, &certificate(role), &[&identity], &here);
        }
        issue(&parts.sandbox, "agent-v", &["operating-agent/node002"], &here);
        issue(&parts.sandbox, "victim", &["tenant/victim"], &here);
        let address = free_address();
        parts.sandbox.write(
            "v.toml",
            format!(
                "[operating_agent]\nlisten = '{address}'\ntic = '{}'\nfabric = '{}'\n\
                 certificates = 'agent-v'\n\
                 nodes = [{{ name = 'node002', endpoints = ['node002 HCA-1'] }}]\n",
                parts.tic, parts.fabric
            ),
        );
        parts.add(&["operating-agent", "--config", "v.toml"]);
        for (who, group, node) in [
            ("tenant", "acme/1", "node001"),
            ("admin", "rows/1", "node001"),
            ("admin", "rows/1", "gpu042"),
        ] {
            parts.wait(who, &["group", "join", group, "--node", node], &parts.agents, |_| true);
        }
        // So answers that list them are long.
        let group = |i| {
            let members = "\"node001 HCA-1\", \"gpu042 HCA-1\"";
            format!("{{\"name\": \"rows/f{i}\", \"members\": [{members}]}}\n")
        };
        parts.sandbox.write("groups.jsonl", (0..GROUPS).map(group).collect::<String>());
        let form = ["group", "form", "--groups", "groups.jsonl"];
        parts.wait("admin", &form, &parts.tic, |_| true);
        let join = ["group", "join", "victim/0", "--node", "node002"];
        parts.wait("victim", &join, &address, |_| true);
        let term = std::cell::Cell::new(0);
        parts.wait("admin", &["route", "status"], &parts.router, |status| {
            let found = status["fence"]["term"].as_str().and_then(|term| term.parse().ok());
            term.set(found.unwrap_or(0));
            status["settled"] == true && term.get() > 0
        });
        let [reservation, _] = parts.give_to_tenants();
        let victim = Victim::connect(address.clone(), parts.channel("victim", &address));
        Self { parts, victim, term: term.get(), reservation }
    }

    /// Measures joins while a role makes a call.
    async fn attacked(
        &mut self,
        role: Role,
        access: &Access,
        method: &MethodDescriptor,
    ) -> Attacked {
        let objects = Objects {
            node: if role == Role::OperatingAgent { "node003" } else { "node001" },
            group: "acme/1",
            reporter: "attacker",
            endpoint: "node003 HCA-1",
            tenant: "acme",
            reservation: self.reservation,
            term: self.term,
            probe_first: true,
            place: Place { gn: 1, epoch: 1, pn: 0 },
        };
        let base = match access.bound {
            Bound::Nothing => serde_json::json!({}),
            _ => request(access, &objects),
        };
        // The route service itself holds its term.
        let who =
            if access.bound == Bound::Term { role.word().to_owned() } else { certificate(role) };
        // Agents are attacked where the joins are measured.
        let address = match self.parts.address_of(access.service) {
            address if address == self.parts.agents => self.victim.address.clone(),
            address => address.to_owned(),
        };
        let attack = Attack::begin(|| self.parts.channel(&who, &address), method, &base).await;
        let joins = self.victim.join_for(LOAD).await;
        attack.end(joins)
    }
}

#[test]
#[ignore = "takes 20 minutes: cargo xtask fairness"]
fn joins_are_quick_beside_every_call_of_every_role() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.unwrap().block_on(measure());
}

/// True if a call and role have one of some texts, separated by commas, in their names.
fn is_wanted(name: &str, filter: &str) -> bool {
    filter.split(',').any(|part| name.contains(part))
}

async fn measure() {
    let filter = std::env::var("FABRICAST_FAIRNESS").unwrap_or_default();
    let pool = DescriptorPool::decode(FILE_DESCRIPTOR_SET).unwrap();
    let mut rows = String::new();
    let mut slow = Vec::new();
    let mut cluster = None;
    for access in access_table() {
        let name = format!("{}/{}", access.service, access.call);
        let service =
            pool.get_service_by_name(&format!("fabricast.v1.{}", access.service)).unwrap();
        let method = service.methods().find(|method| method.name() == access.call).unwrap();
        for role in access.roles.iter().filter(|role| is_wanted(&format!("{name} {role}"), &filter))
        {
            let mut current = match cluster.take() {
                Some(current) => current,
                None => Cluster::start(),
            };
            let is_quick = current.victim.recovers().await;
            assert!(is_quick, "joins take long without any load, before {name} by {role}");
            let attacked = current.attacked(*role, &access, &method).await;
            println!("{name} by {role}: {attacked}");
            writeln!(rows, "| {name} | {role} | {} |", attacked.cells()).unwrap();
            if attacked.p99() > BOUND {
                slow.push(format!("{name} by {role}: {attacked}"));
            }
            let is_new = ADDING.contains(&access.call) || !current.victim.recovers().await;
            cluster = (!is_new).then_some(current);
        }
    }
    if let Some(path) = std::env::var_os("FABRICAST_FAIRNESS_TABLE") {
        std::fs::write(path, messages::TABLE_HEAD.to_owned() + &rows).unwrap();
    }
    assert_eq!(slow, Vec::<String>::new(), "99 % of joins took more than {BOUND:?}");
}
