//! The scenario that the demo tells, step by step; after each step the same checks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use fabricast_proto::v1;
use fabricast_proto::v1::element::Kind;
use fabricast_routing::EngineKind;
use fabricast_topology::FatTree;

use super::DemoArgs;
use super::audit;
use super::cluster_client::ClusterClient;
use super::report::Report;
use super::text::{figures_text, groups_text, per_second, round_text, share_of};
use super::traffic::{THOROUGH, Traffic, Waiting};
use crate::args::Format;
use crate::failure::Failure;
use crate::group_file::NamedGroup;
use crate::source::Topology;

mod messaging;

/// Process name of every member.
const PROCESS: &str = "p0";
/// Waiting times for packets that are resent until all arrive, after a link was cut.
const BRIEF: Waiting = Waiting { idle_timeout: Duration::from_millis(2), quiet: Duration::ZERO };
/// The same, where packets and calls travel between processes.
const BRIEF_ELSEWHERE: Waiting =
    Waiting { idle_timeout: Duration::from_millis(100), quiet: Duration::ZERO };
/// Time within which delivery must work again after a link was cut.
const CUT_LIMIT: Duration = Duration::from_secs(10);

/// State of the demo while its steps run.
struct DemoScenario<'a> {
    report: Report,
    cluster: ClusterClient,
    traffic: Traffic,
    topology: &'a Topology,
    senders: usize,
    colors: u16,
    engine: EngineKind,
    trees: u8, // of each group
    brief: Waiting,
}

/// Cluster, topology and groups of the demo.
pub(crate) struct DemoInput<'a> {
    pub(crate) topology: &'a Topology,
    pub(crate) fat_tree: &'a FatTree,
    pub(crate) cluster: ClusterClient,
    pub(crate) groups: Vec<NamedGroup>,
    /// Socket at which processes attach, if one is reachable.
    pub(crate) socket: Option<&'a Path>,
}

/// Runs all steps; exit 0 only if every check held.
pub(crate) async fn run(
    args: &DemoArgs,
    format: Format,
    input: DemoInput<'_>,
) -> Result<(), Failure> {
    let DemoInput { topology, fat_tree, cluster, groups, socket } = input;
    let mut report = Report::new(topology.title.clone(), format);
    let is_running = args.running.tic.is_some();
    report.step(if is_running {
        "the cluster is up, and its TIC says what the fabric is"
    } else {
        "the fabric is read, every part of the cluster plane starts"
    })?;
    report.fact(crate::commands::topology::summary_text(topology, fat_tree))?;
    let owners = cluster.owners.clone();
    let requests = crate::group_file::joins(&groups, &owners, PROCESS)?;
    let admitted = cluster.wait_until_admitted(cluster.agent_of_node.len()).await?;
    let what = format!(
        "{} nodes registered with the TIC by {} operating agents; {} switch agents",
        cluster.agent_of_node.len(),
        cluster.agents.len(),
        cluster.switch_agents.len()
    );
    report.check(what, admitted.is_some(), Vec::new())?;
    let traffic = Traffic::listen(&cluster.agents, cluster.agent_of_node.clone()).await?;
    let (senders, colors) = (args.senders, args.colors);
    let trees = if args.fault_tolerant { 2 } else { 1 };
    let engine = args.engine;
    let brief = if is_running { BRIEF_ELSEWHERE } else { BRIEF };
    let mut scenario =
        DemoScenario { report, cluster, traffic, topology, senders, colors, engine, trees, brief };
    scenario.form(requests).await?;
    let before = scenario.cluster.tables().await?;
    let victim = scenario.kill_a_node().await?;
    let link = scenario.cut_a_link().await?;
    let mine = crate::group_file::joins(&groups, &owners, PROCESS)?
        .into_iter()
        .filter(|request| request.node == victim.node)
        .collect();
    scenario.heal(&victim, link, mine, before).await?;
    if let Some(socket) = socket {
        scenario.messaging(socket).await?;
    }
    scenario.leave().await?;
    if is_running {
        scenario.depart().await?;
    }
    scenario.report.finish()
}

impl DemoScenario<'_> {
    async fn form(
        &mut self,
        requests: Vec<v1::OperatingAgentServiceJoinGroupRequest>,
    ) -> Result<(), Failure> {
        self.report.step("every endpoint joins its groups through its operating agent")?;
        let (count, started) = (requests.len(), Instant::now());
        let mut latencies = self.cluster.join(requests).await?;
        let elapsed = started.elapsed();
        latencies.sort_unstable();
        self.report.fact(format!(
            "{count} memberships in {elapsed:.1?}: {:.0} joins/s, each durable before it was \
             acknowledged; half within {:.1?}, 99 % within {:.1?}",
            per_second(count, elapsed),
            share_of(&latencies, 50),
            share_of(&latencies, 99),
        ))?;
        self.routed("all groups routed").await?;
        let groups = self.cluster.groups().await?;
        self.report.fact(groups_text(&groups))?;
        let status = self.cluster.route_status().await?;
        self.report.fact(figures_text(&status))?;
        self.all_checks().await
    }

    async fn kill_a_node(&mut self) -> Result<Victim, Failure> {
        let groups = self.cluster.groups().await?;
        let mut hosted: BTreeMap<&str, usize> = BTreeMap::new();
        for group in &groups {
            *hosted.entry(&group.agent_node).or_default() += 1;
        }
        let most = hosted.iter().max_by_key(|(_, count)| **count);
        let (node, agents) = most.ok_or_else(|| Failure::input("there are no groups"))?;
        let memberships = groups
            .iter()
            .flat_map(|group| group.members.iter().map(move |member| (group, member)))
            .filter(|(_, member)| member.node == **node)
            .map(|(group, member)| (group.name.clone(), member.endpoint.clone(), member.pn))
            .collect();
        let victim = Victim { node: (*node).to_owned(), memberships };
        self.report.step(&format!(
            "node {} dies: it hosts {agents} of {} group agents",
            victim.node,
            groups.len()
        ))?;
        self.cluster.stop_node(&victim.node).await?;
        let expelled = self.cluster.wait_until_expelled(&victim.node).await?;
        let what = expelled.map_or("the node is expelled".to_owned(), |elapsed| {
            format!("expelled from all groups {elapsed:.0?} after its death, agents handed over")
        });
        self.report.check(what, expelled.is_some(), Vec::new())?;
        self.routed("trees are whole again").await?;
        self.all_checks().await?;
        Ok(victim)
    }

    async fn cut_a_link(&mut self) -> Result<Option<v1::Element>, Failure> {
        let groups = self.cluster.groups().await?;
        let Some((link, used_by)) = self.busiest_link(&groups).await? else {
            self.report.step("a link between switches is cut")?;
            let none = groups.iter().all(|group| self.is_on_one_switch(group));
            let what = "no tree uses any: every group is on one switch".to_owned();
            self.report.check(what, none, Vec::new())?;
            return Ok(None);
        };
        let (name, port) = (link.switch_name.clone(), link.port);
        self.report.step(&format!(
            "the link from {name} port {port} to {} port {} is cut: {} groups use it",
            link.peer,
            link.peer_port,
            used_by.len()
        ))?;
        let kind = Kind::Link(v1::PortName { switch_name: name, port });
        let element = v1::Element { kind: Some(kind) };
        let hit: Vec<v1::Group> =
            groups.into_iter().filter(|group| used_by.contains(&group.name)).collect();
        // Where nothing may be lost, nobody is hurried: a late packet is not a lost one.
        let waiting = if self.trees > 1 { THOROUGH } else { self.brief };
        let cut = Instant::now();
        self.cluster.fail(element.clone()).await?;
        let mut tries = 0;
        let back = loop {
            tries += 1;
            let round = self.traffic.round(&hit, 1, waiting).await;
            let elapsed = cut.elapsed();
            if round.held() || elapsed > CUT_LIMIT {
                break round.held().then_some(elapsed);
            }
        };
        let what = back.map_or("delivered again after the cut".to_owned(), |elapsed| {
            format!("every member of the {} groups reached again {elapsed:.0?} after the cut ({tries} rounds of packets)", hit.len())
        });
        self.report.check(what, back.is_some(), Vec::new())?;
        if self.trees > 1 {
            let what = "no packet was lost: every group has a second tree".to_owned();
            self.report.check(what, tries == 1, Vec::new())?;
        }
        self.routed("new trees programmed").await?;
        self.all_checks().await?;
        Ok(Some(element))
    }

    async fn heal(
        &mut self,
        victim: &Victim,
        link: Option<v1::Element>,
        joins: Vec<v1::OperatingAgentServiceJoinGroupRequest>,
        before: Vec<v1::SwitchTable>,
    ) -> Result<(), Failure> {
        self.report.step(&format!("the link is mended, node {} comes back", victim.node))?;
        if let Some(element) = link {
            self.cluster.heal(element).await?;
        }
        self.cluster.start_node(&victim.node).await?;
        self.cluster.join(joins).await?;
        self.routed("routes are back").await?;
        let ranks = self.ranks_of(victim).await?;
        let same = ranks == victim.memberships;
        self.report.check("it got its vacant ranks back".to_owned(), same, Vec::new())?;
        let after = self.cluster.tables().await?;
        let same = audit::same_entries(&before, &after);
        // Other engines plan as the past has it, and moving back would only disturb.
        if !self.engine.plan_depends_on_history() {
            let what = "the tables are byte for byte those from before".to_owned();
            self.report.check(what, same, Vec::new())?;
        }
        self.all_checks().await
    }

    async fn ranks_of(&self, victim: &Victim) -> Result<Vec<(String, String, u32)>, Failure> {
        let groups = self.cluster.groups().await?;
        let mut ranks: Vec<_> = groups
            .iter()
            .flat_map(|group| group.members.iter().map(move |member| (group, member)))
            .filter(|(_, member)| member.node == victim.node)
            .map(|(group, member)| (group.name.clone(), member.endpoint.clone(), member.pn))
            .collect();
        // A group whose only member died was formed anew, with a new number.
        ranks.sort_by_key(|rank| victim.memberships.iter().position(|before| before.0 == rank.0));
        Ok(ranks)
    }

    async fn leave(&mut self) -> Result<(), Failure> {
        let groups = self.cluster.groups().await?;
        let Some(group) = groups.last() else { return Ok(()) };
        self.report
            .step(&format!("all {} members leave group {}", group.member_count, group.name))?;
        self.cluster.leave_all(group).await?;
        self.routed("the others stay routed").await?;
        let gone = self.cluster.groups().await?.iter().all(|other| other.gn != group.gn);
        self.report.check("the group is gone".to_owned(), gone, Vec::new())?;
        self.stray_packet(group).await?;
        self.all_checks().await
    }

    /// Makes all members leave, so that the cluster is as before.
    async fn depart(&mut self) -> Result<(), Failure> {
        self.report.step("all members of all groups leave")?;
        for group in self.cluster.groups().await? {
            self.cluster.leave_all(&group).await?;
        }
        self.routed("nothing is left to do").await?;
        let left: Vec<String> =
            self.cluster.groups().await?.into_iter().map(|group| group.name).collect();
        self.report.check("no group is left".to_owned(), left.is_empty(), left)?;
        let tables = self.cluster.tables().await?;
        let filled: Vec<String> = tables
            .into_iter()
            .filter(|table| !table.entries.is_empty())
            .map(|table| format!("{}: {} entries", table.switch_name, table.entries.len()))
            .collect();
        let what = "no switch holds an entry".to_owned();
        self.report.check(what, filled.is_empty(), filled)
    }

    /// Checks that a packet to a deleted group reaches none of its former members.
    async fn stray_packet(&mut self, group: &v1::Group) -> Result<(), Failure> {
        let (Some(sender), Some(color)) =
            (group.members.first(), super::cluster_client::routed_color(group.route.as_ref()))
        else {
            return Ok(());
        };
        let answer = self.cluster.inject(&sender.endpoint, group.mgid, color).await?;
        let shared: Vec<String> = self
            .cluster
            .groups()
            .await?
            .iter()
            .filter(|other| {
                super::cluster_client::routed_color(other.route.as_ref()) == Some(color)
            })
            .flat_map(|other| other.members.iter().map(|member| member.endpoint.clone()))
            .collect();
        let stray: Vec<String> =
            answer.delivered.into_iter().filter(|endpoint| !shared.contains(endpoint)).collect();
        let what = format!("a late packet to {} goes nowhere of its own", group.name);
        self.report.check(what, stray.is_empty() && !answer.looped, stray)
    }

    /// Waits until the hardware is up to date; reports the time.
    async fn routed(&mut self, what: &str) -> Result<(), Failure> {
        let waited = self.cluster.wait_until_routed().await?;
        let text = match waited {
            Some(elapsed) => format!("{what} ({elapsed:.0?})"),
            None => format!("{what} (gave up waiting)"),
        };
        let details = if waited.is_some() {
            Vec::new()
        } else {
            vec![self.cluster.route_status().await?.last_error]
        };
        self.report.check(text, waited.is_some(), details)
    }

    /// Runs the checks that hold after every step: packets, and tables read back from the switches.
    async fn all_checks(&mut self) -> Result<(), Failure> {
        let groups = self.cluster.groups().await?;
        let routed: Vec<v1::Group> = groups
            .iter()
            .filter(|group| super::cluster_client::routed_color(group.route.as_ref()).is_some())
            .cloned()
            .collect();
        let unrouted: Vec<String> = groups
            .iter()
            .filter(|group| super::cluster_client::routed_color(group.route.as_ref()).is_none())
            .filter(|group| live_members(group) >= 2)
            .map(|group| {
                format!("{}: {}", group.name, group.route.clone().unwrap_or_default().reason)
            })
            .collect();
        let what = "every group with two or more members has a route".to_owned();
        self.report.check(what, unrouted.is_empty(), unrouted)?;
        let round = self.traffic.round(&routed, self.senders, THOROUGH).await;
        self.report.check(round_text(&round, routed.len()), round.held(), round.complaints)?;
        let tables = self.cluster.tables().await?;
        let findings =
            audit::audit(&self.topology.graph, self.colors, self.trees, &groups, &tables)?;
        let what = format!(
            "{} table entries read back: every walk ends at exactly the members, no entry is stale",
            findings.entries
        );
        self.report.check(what, findings.complaints.is_empty(), findings.complaints)
    }

    /// True if all members of a group are connected to one switch.
    fn is_on_one_switch(&self, group: &v1::Group) -> bool {
        let graph = &self.topology.graph;
        let switches: BTreeSet<_> = group
            .members
            .iter()
            .filter_map(|member| graph.attachment(graph.find_endpoint(&member.endpoint)?))
            .map(|port| graph.switch_of(port))
            .collect();
        switches.len() <= 1
    }

    /// Finds the link between switches that most groups use, and those groups.
    async fn busiest_link(
        &self,
        groups: &[v1::Group],
    ) -> Result<Option<(v1::TreeLink, Vec<String>)>, Failure> {
        let mut users: BTreeMap<(String, u32), (v1::TreeLink, Vec<String>)> = BTreeMap::new();
        for group in groups {
            let explanation = self.cluster.explain(&group.name).await?;
            for link in explanation.links.into_iter().filter(|link| link.peer_port > 0) {
                let key = (link.switch_name.clone(), link.port);
                let entry = users.entry(key).or_insert_with(|| (link, Vec::new()));
                entry.1.push(group.name.clone());
            }
        }
        Ok(users.into_values().max_by_key(|(_, names)| names.len()))
    }
}

/// Counts the members that the fabric reaches.
fn live_members(group: &v1::Group) -> usize {
    let cut_off = group.route.clone().unwrap_or_default().cut_off_endpoints;
    group.members.iter().filter(|member| !cut_off.contains(&member.endpoint)).count()
}

/// The node that is stopped, and its memberships: group, endpoint, rank.
struct Victim {
    node: String,
    memberships: Vec<(String, String, u32)>,
}
