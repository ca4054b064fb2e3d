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
#[path = "fairness/requests.rs"]
mod requests;

use std::fmt::{self, Write};
use std::time::Duration;

use fabricast_proto::FILE_DESCRIPTOR_SET;
use fabricast_proto::v1::administration_service_client::AdministrationServiceClient;
use fabricast_proto::v1::group_batch_service_client::GroupBatchServiceClient;
use fabricast_proto::v1::operating_agent_service_client::OperatingAgentServiceClient;
use fabricast_proto::v1::tic_service_client::TicServiceClient;
use fabricast_proto::v1::{
    GetMetricsRequest, JoinGroupRequest, JoinManyRequest, Node,
    OperatingAgentServiceJoinGroupRequest, OperatingAgentServiceJoinManyRequest,
    RegisterNodeRequest, ReportFailedElementsRequest, ReportNodeFailureRequest,
};
use fabricast_rpc::{Access, Bound, Channel, Role, access_table};
use prost_reflect::{DescriptorPool, MethodDescriptor};
use serde_json::{Value, json};
use tonic::Status;

use crate::calls::{Objects, Place};
use crate::certificates::{Parts, issue};
use crate::support::{free_address, own_host};
use crate::unbound_calls::AllObjects;

use self::load::{Attack, Attacked, Target, Threads, Victim};
use self::requests::{COUNT, NODE, OWN_NODE, SECOND_NODE};

/// Least time for which each call is made.
const LOAD: Duration = Duration::from_secs(2);
/// Joins for which each call is made on: of fewer than 100 the 99th percentile is the longest.
const JOINS: usize = 200;
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
/// Calls that leave so much behind, or change so much, that the next ones get a new cluster.
const ADDING: [&str; 19] = [
    "FormGroups",
    "JoinMany",
    "JoinGroup",
    "LeaveGroup",
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
    "AcquireRouteTerm",
    "ReleaseRouteTerm",
    "ReportRoutes",
    "StopNode",
    "StartNode",
];
/// Calls by which an operating agent needs a node of its own at the TIC.
const OF_NODES: [&str; 7] = [
    "JoinGroup",
    "LeaveGroup",
    "JoinMany",
    "LeaveMany",
    "ReportGroupAgents",
    "ReportNodeFailure",
    "RequestSwitchTree",
];
/// Certificate of those that set up what calls need: its calls do not count as the attacker's.
const SETUP: &str = "setup";

/// A cluster, with an operating agent for the joins that are measured.
struct Cluster {
    parts: Parts,
    victim: Victim,
    /// The term of the route service, and objects of `third` and of the group `victim/0`.
    objects: AllObjects,
    /// A reservation of the tenant `acme`.
    reservation: u64,
    /// Number of starts of nodes without an operating agent so far.
    starts: u64,
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
         nodes = [{{ name = '{NODE}', endpoints = ['{NODE} HCA-1'] }},\n\
         {{ name = '{SECOND_NODE}', endpoints = ['{SECOND_NODE} HCA-1'] }}]\n",
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

/// Issues the certificates of the attacker in each role, of the operating agent for the joins that
/// are measured, of their tenant, and of those that set up what calls need.
fn issue_all(parts: &Parts) {
    let host = own_host().to_string();
    let give = |folder: &str, identities: &[String]| {
        let identities: Vec<&str> = identities.iter().map(String::as_str).collect();
        issue(&parts.sandbox, folder, &identities, &[&host]);
    };
    let agent = |node: &str| format!("{}/{node}", Role::OperatingAgent.word());
    for role in Role::ALL {
        let identities = match role {
            // At the agent for the joins it acts for the second node of that one.
            Role::OperatingAgent => vec![agent(OWN_NODE), agent(SECOND_NODE)],
            Role::Tenant | Role::TenantAdministrator => vec![format!("{}/acme", role.word())],
            _ => vec![format!("{}/attacker", role.word())],
        };
        give(&certificate(role), &identities);
    }
    give("agent-v", &[agent(NODE), agent(SECOND_NODE)]);
    give("victim", &["tenant/victim".to_owned()]);
    let reporter = |name: String| format!("{}/{name}", Role::SwitchAgent.word());
    let mut setup = vec![agent(OWN_NODE)];
    setup.extend(requests::spares().map(|node| agent(&node)));
    setup.extend(requests::spares().map(reporter));
    give(SETUP, &setup);
}

/// The term of the route service once it has settled.
fn term_when_settled(parts: &Parts) -> u64 {
    let term = std::cell::Cell::new(0);
    parts.wait("admin", &["route", "status"], &parts.router, |status| {
        let found = status["fence"]["term"].as_str().and_then(|term| term.parse().ok());
        term.set(found.unwrap_or(0));
        status["settled"] == true && term.get() > 0
    });
    term.get()
}

/// A number of 64 bits, which JSON has as a text.
fn number(value: &Value) -> u64 {
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
    number.unwrap_or_else(|| panic!("{value} is no number"))
}

impl Cluster {
    fn start() -> Self {
        let mut parts = Parts::start();
        issue_all(&parts);
        let address = free_address();
        write_settings(&parts, &address);
        parts.add(&["operating-agent", "--config", "v.toml"]);
        for (who, group, node) in [
            ("tenant", "acme/1", "node001"),
            // Its tenant deletes it.
            ("tenant", "acme/10", "node001"),
            ("admin", "rows/1", "node001"),
            ("admin", "rows/1", "gpu042"),
        ] {
            parts.wait(who, &["group", "join", group, "--node", node], &parts.agents, |_| true);
        }
        // Packets are sent from there.
        parts.wait("admin", &["group", "join", "rows/1", "--node", NODE], &address, |_| true);
        // So answers that list them are long.
        let group = |i| {
            let members = "\"node001 HCA-1\", \"gpu042 HCA-1\"";
            format!("{{\"name\": \"rows/f{i}\", \"members\": [{members}]}}\n")
        };
        parts.sandbox.write("groups.jsonl", (0..GROUPS).map(group).collect::<String>());
        let form = ["group", "form", "--groups", "groups.jsonl"];
        parts.wait("admin", &form, &parts.tic, |_| true);
        let join = ["group", "join", "victim/0", "--node", NODE];
        parts.wait("victim", &join, &address, |_| true);
        let term = term_when_settled(&parts);
        let [reservation, _] = parts.give_to_tenants();
        let third = parts.give_to("third", "rows/1");
        let group = parts.json("admin", &["group", "show", "victim/0"], &parts.tic);
        let place = Place { gn: number(&group["gn"]), epoch: number(&group["epoch"]), pn: 0 };
        let agent_node = group["agentNode"].as_str().unwrap().to_owned();
        let objects = AllObjects { term, reservation: third, place, agent_node };
        let victim = Victim::connect(address.clone(), parts.channel("victim", &address));
        Self { parts, victim, objects, reservation, starts: 0, process_attacks: 0 }
    }

    fn tic(&self, who: &str) -> TicServiceClient<Channel> {
        TicServiceClient::new(self.parts.channel(who, &self.parts.tic))
    }

    /// Registers a node without an operating agent; returns its incarnation.
    async fn register(&mut self, node: &str) -> u64 {
        self.starts += 1;
        let recorded = Node {
            name: node.to_owned(),
            address: "127.0.0.1:1".to_owned(),
            endpoints: vec![format!("{node} HCA-1")],
            ..Default::default()
        };
        let register = RegisterNodeRequest {
            node: Some(recorded),
            start_id: self.starts,
            ..Default::default()
        };
        let registered = self.tic(SETUP).register_node(register).await.unwrap().into_inner();
        registered.node.unwrap().incarnation
    }

    /// Sets up what a call of a role needs; returns the incarnation of the attacker's node.
    async fn set_up(&mut self, role: Role, access: &Access, objects: &Objects) -> u64 {
        match (access.service, access.call) {
            ("TicService", "RemoveNode") => {
                for node in requests::spares() {
                    self.register(&node).await;
                    let reporter = "setup".to_owned();
                    let failure = ReportNodeFailureRequest { node, reporter, ..Default::default() };
                    self.tic("admin").report_node_failure(failure).await.unwrap();
                }
            }
            ("TicService", "RemoveReporter") => {
                for reporter in requests::spares() {
                    let report = ReportFailedElementsRequest { reporter, elements: Vec::new() };
                    self.tic(SETUP).report_failed_elements(report).await.unwrap();
                }
            }
            ("TicService" | "GroupBatchService" | "CollectiveService", call)
                if role == Role::OperatingAgent && OF_NODES.contains(&call) =>
            {
                let incarnation = self.register(OWN_NODE).await;
                self.join_at_tic(objects, incarnation).await;
                return incarnation;
            }
            ("OperatingAgentService", "LeaveGroup" | "LeaveMany") => {
                self.join_at_agent(objects).await;
            }
            _ => {}
        }
        1
    }

    /// Has processes of the attacker's node join a group, to leave it.
    async fn join_at_tic(&self, objects: &Objects, incarnation: u64) {
        // One more has the name of the process that asks for a tree.
        let processes = (0..COUNT).map(requests::process).chain(["matrix".to_owned()]);
        let join = |process: String| JoinGroupRequest {
            request_id: format!("set up {incarnation} {process}"),
            group: objects.group.to_owned(),
            node: OWN_NODE.to_owned(),
            incarnation,
            endpoint: format!("{OWN_NODE} HCA-1"),
            process,
            ..Default::default()
        };
        let joins = JoinManyRequest { joins: processes.map(join).collect() };
        let channel = self.parts.channel(SETUP, &self.parts.tic);
        GroupBatchServiceClient::new(channel).join_many(joins).await.unwrap();
    }

    /// Has processes of a node of the attacked agent join a group, to leave it.
    async fn join_at_agent(&self, objects: &Objects) {
        let join = |process: String| OperatingAgentServiceJoinGroupRequest {
            node: objects.node.to_owned(),
            group: objects.group.to_owned(),
            process,
            ..Default::default()
        };
        let joins = (0..COUNT).map(requests::process).map(join).collect();
        let joins = OperatingAgentServiceJoinManyRequest { joins };
        let channel = self.parts.channel("admin", &self.victim.address);
        OperatingAgentServiceClient::new(channel).join_many(joins).await.unwrap();
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
        let joins = self.victim.join_for(LOAD, JOINS).await;
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
                Role::OperatingAgent if is_of_agents => SECOND_NODE,
                Role::OperatingAgent => OWN_NODE,
                _ if is_of_agents => NODE,
                _ => "node001",
            },
            group: "acme/1",
            reporter: "attacker",
            endpoint: "node003 HCA-1",
            tenant: "acme",
            reservation: self.reservation,
            term: self.objects.term,
            probe_first: true,
            place: self.objects.place,
        };
        // The futures of its calls are long.
        let incarnation = Box::pin(self.set_up(role, access, &objects)).await;
        // The route service itself holds its term.
        let who =
            if access.bound == Bound::Term { role.word().to_owned() } else { certificate(role) };
        let address = match is_of_agents {
            true => self.victim.address.clone(),
            false => self.parts.address_of(access.service).to_owned(),
        };
        let target = Target {
            method: method.clone(),
            requests: requests::requests(access, &objects, &self.objects, incarnation),
            of_connections: Vec::new(),
            gives_up_streams: false,
        };
        let channel = || self.parts.channel(&who, &address);
        let attack = Attack::begin(Threads::start(), channel, &target).await;
        let joins = self.victim.join_for(LOAD, JOINS).await;
        attack.end(joins)
    }
}

#[test]
#[ignore = "takes 40 minutes: cargo xtask fairness"]
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
