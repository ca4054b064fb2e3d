//! Joins of one client, while each role makes each of its calls as large and as often as it can,
//! and a process each of those at the socket of an operating agent.
//!
//! The attacker has certificates of its own, and is one client at each part. Its threads have the
//! lowest priority, as if they ran on another machine. The other client is a tenant, whose joins
//! go through an operating agent to the TIC. The TIC counts the decisions that others wait for.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]
#![expect(clippy::print_stdout, reason = "figures are told as they come")]

#[path = "fairness/load.rs"]
mod load;
#[path = "fairness/messages.rs"]
mod messages;
#[path = "fairness/processes.rs"]
mod processes;

use std::fmt::{self, Write};
use std::time::Duration;

use fabricast_proto::FILE_DESCRIPTOR_SET;
use fabricast_proto::v1::GetMetricsRequest;
use fabricast_proto::v1::administration_service_client::AdministrationServiceClient;
use fabricast_rpc::{Access, Bound, Role, access_table};
use prost_reflect::{DescriptorPool, MethodDescriptor};
use serde_json::json;
use tonic::Status;

use crate::calls::{Objects, Place, request};
use crate::certificates::{Parts, issue};
use crate::support::{free_address, own_host};

use self::load::{Attack, Attacked, Target, Threads, Victim};

/// Time for which each call is made.
const LOAD: Duration = Duration::from_secs(2);
/// Groups that there are.
const GROUPS: usize = 2_000;
/// Bound of the 99th percentile of a join.
const BOUND: Duration = Duration::from_millis(100);
/// Processor time of the longest decision that the writer of the TIC may make, as a bound of the
/// buckets of [`DECISIONS`], in seconds.
const LONGEST_DECISION: &str = "0.05";
/// Histogram of the processor times of the writer's decisions.
const DECISIONS: &str = "fabricast_tic_decision_seconds";
/// Socket of the operating agent for the joins that are measured.
const SOCKET: &str = "v.sock";
/// Calls that leave so much behind that the next ones get a new cluster.
const ADDING: [&str; 13] = [
    "FormGroups",
    "JoinMany",
    "JoinGroup",
    "ReserveMembers",
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
    /// Number of attacks of processes so far.
    process_attacks: u32,
}

/// The caller of an attack.
#[derive(Clone, Copy, Debug)]
enum Attacker {
    /// The holder of a certificate.
    Role(Role),
    /// A process at the socket of an operating agent.
    Process,
}

impl fmt::Display for Attacker {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Role(role) => write!(formatter, "{role}"),
            Self::Process => formatter.write_str("process"),
        }
    }
}

impl Attacker {
    /// All that may make a call.
    fn of(access: &Access) -> Vec<Self> {
        match access.service {
            "ProcessService" => vec![Self::Process],
            _ => access.roles.iter().map(|role| Self::Role(*role)).collect(),
        }
    }
}

/// Certificate of the attacker in a role.
fn certificate(role: Role) -> String {
    format!("{}-attacker", role.word())
}

/// Writes the settings of the operating agent for the joins that are measured. Processes of the
/// user that runs this may use groups of the tenant `acme` there.
fn write_settings(parts: &Parts, address: &str) {
    let Parts { sandbox, tic, fabric, .. } = parts;
    let (socket, user) = (sandbox.path(SOCKET), rustix::process::getuid().as_raw());
    let text = format!(
        "[operating_agent]\nlisten = '{address}'\ntic = '{tic}'\nfabric = '{fabric}'\n\
         certificates = 'agent-v'\nsocket = '{}'\n\
         process_rules = [{{ user = {user}, tenant = 'acme' }}]\n\
         nodes = [{{ name = 'node002', endpoints = ['node002 HCA-1'] }}]\n",
        socket.display()
    );
    sandbox.write("v.toml", text);
}

/// Value of a sample in the text of metrics.
fn sample(metrics: &str, name: &str) -> u64 {
    let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let value = value.and_then(|value| value.parse().ok());
    value.unwrap_or_else(|| panic!("{name} is not in {metrics}"))
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
        write_settings(&parts, &address);
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
        Self { parts, victim, term: term.get(), reservation, process_attacks: 0 }
    }

    /// Number of decisions of the TIC's writer so far that took longer than they may.
    async fn long_decisions(&self) -> u64 {
        let channel = self.parts.channel("admin", &self.parts.tic);
        let mut client = AdministrationServiceClient::new(channel);
        let metrics = client.get_metrics(GetMetricsRequest {}).await.unwrap().into_inner().text;
        let short = format!("{DECISIONS}_bucket{{le=\"{LONGEST_DECISION}\"}}");
        sample(&metrics, &format!("{DECISIONS}_count")) - sample(&metrics, &short)
    }

    /// Measures joins while a process makes a call at the socket of the agent that they go through.
    async fn attacked_by_process(
        &mut self,
        access: &Access,
        method: &MethodDescriptor,
    ) -> Attacked {
        self.process_attacks += 1;
        let name = format!("a{}", self.process_attacks);
        let (threads, socket) = (Threads::start(), self.parts.sandbox.path(SOCKET));
        let sessions = processes::attach(&threads, &socket, &name, access.call).await;
        let target = Target {
            method: method.clone(),
            requests: processes::requests(access.call),
            of_connections: sessions.iter().map(|one| json!({ "session": one })).collect(),
            gives_up_streams: true,
        };
        let attack = Attack::begin(threads, || processes::channel(&socket), &target).await;
        let joins = self.victim.join_for(LOAD).await;
        attack.end(joins)
    }

    /// Measures joins while a role makes a call.
    async fn attacked_by_role(
        &mut self,
        role: Role,
        access: &Access,
        method: &MethodDescriptor,
    ) -> Attacked {
        // Agents are attacked where the joins are measured, with the node of that one.
        let is_of_agents = self.parts.address_of(access.service) == self.parts.agents;
        let objects = Objects {
            node: match role {
                Role::OperatingAgent => "node003",
                _ if is_of_agents => "node002",
                _ => "node001",
            },
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
            Bound::Nothing => json!({}),
            _ => request(access, &objects),
        };
        // The route service itself holds its term.
        let who =
            if access.bound == Bound::Term { role.word().to_owned() } else { certificate(role) };
        let address = match is_of_agents {
            true => self.victim.address.clone(),
            false => self.parts.address_of(access.service).to_owned(),
        };
        let target = Target {
            method: method.clone(),
            requests: vec![base],
            of_connections: Vec::new(),
            gives_up_streams: false,
        };
        let channel = || self.parts.channel(&who, &address);
        let attack = Attack::begin(Threads::start(), channel, &target).await;
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

/// True if the text of a call and its caller has one of some texts, separated by commas.
fn is_wanted(name: &str, filter: &str) -> bool {
    filter.split(',').any(|part| name.contains(part))
}

async fn measure() {
    let filter = std::env::var("FABRICAST_FAIRNESS").unwrap_or_default();
    let pool = DescriptorPool::decode(FILE_DESCRIPTOR_SET).unwrap();
    let mut rows = String::new();
    let mut failed = Vec::new();
    let mut cluster = None;
    for access in access_table() {
        let name = format!("{}/{}", access.service, access.call);
        let service =
            pool.get_service_by_name(&format!("fabricast.v1.{}", access.service)).unwrap();
        let method = service.methods().find(|method| method.name() == access.call).unwrap();
        for attacker in Attacker::of(&access) {
            if !is_wanted(&format!("{name} {attacker}"), &filter) {
                continue;
            }
            let mut current = match cluster.take() {
                Some(current) => current,
                None => Cluster::start(),
            };
            let is_quick = current.victim.recovers().await;
            assert!(is_quick, "joins take long without any load, before {name} by {attacker}");
            let before = current.long_decisions().await;
            let attacked = match attacker {
                Attacker::Role(role) => current.attacked_by_role(role, &access, &method).await,
                Attacker::Process => current.attacked_by_process(&access, &method).await,
            };
            // A decision that was under way is counted when it has ended.
            let is_quick = current.victim.recovers().await;
            let long = current.long_decisions().await - before;
            let cells = format!("{} | {long}", attacked.cells());
            println!("{name} by {attacker}: {cells}");
            writeln!(rows, "| {name} | {attacker} | {cells} |").unwrap();
            let refused = attacked.refused();
            if attacked.p99() > BOUND || !refused.is_empty() || long > 0 {
                let (count, last) = (refused.len(), refused.last().map(Status::message));
                let refused = format!("{count} joins refused, the last: {last:?}");
                failed.push(format!("{name} by {attacker}: {cells}; {refused}"));
            }
            let is_new = ADDING.contains(&access.call) || !is_quick;
            cluster = (!is_new).then_some(current);
        }
    }
    if let Some(path) = std::env::var_os("FABRICAST_FAIRNESS_TABLE") {
        std::fs::write(path, messages::TABLE_HEAD.to_owned() + &rows).unwrap();
    }
    let bounds =
        format!("99 % of joins in {BOUND:?}, none refused, decisions {LONGEST_DECISION} s");
    assert_eq!(failed, Vec::<String>::new(), "not within the bounds: {bounds}");
}
