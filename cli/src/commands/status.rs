//! `fabricast status`: the state of a whole control plane on one screen.

use std::collections::BTreeMap;

use clap::Args;
use fabricast_proto::v1;
use serde::Serialize;

use crate::args::{ServerArgs, WatchArgs};
use crate::color::{Color, painted, painted_state};
use crate::command::{Globals, Run};
use crate::commands::{events, link};
use crate::failure::Failure;
use crate::output;
use crate::remote::{Remote, Role, block_on};

/// Share of a table, in percent, from which it counts as nearly full.
const NEARLY_FULL: u64 = 90;

/// Show who leads, who stands by, and what is wrong; exit 1 if something is.
///
/// All parts are found through the address or the context that is given. Reported as wrong: parts
/// that do not answer, no leader, errors of the route service, groups without route or protection,
/// tables that differ or are nearly full, failed nodes, switches, links and endpoints. While no TIC
/// leads, nodes and groups are not known, and all other parts are asked.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    watch: WatchArgs,
    #[command(flatten)]
    server: ServerArgs,
}

/// Result of the command.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct ClusterStatus {
    parts: Vec<PartStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    routes: Option<Routes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    switches: Option<Switches>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<Nodes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    groups: Option<Groups>,
    /// Both ends of each, such as `S-1:3 - S-2:4`.
    #[serde(skip_serializing_if = "Option::is_none")]
    drained_links: Option<Vec<String>>,
    problems: Vec<String>,
}

/// A TIC, route service or switch agent.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PartStatus {
    role: &'static str,
    address: String,
    state: PartState,
    version: String,
    uptime_seconds: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum PartState {
    Active,
    Standby,
    NoAnswer,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Routes {
    engine: String,
    term: u64,
    settled: bool,
    routed_groups: u32,
    unrouted_groups: u32,
    programmed_entries: u64,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Switches {
    count: usize,
    live: usize,
    /// The largest of all tables.
    used_entries: u32,
    entries: u32,
    fullest: String,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Nodes {
    count: usize,
    up: usize,
    failed: usize,
    silent: usize,
    drained: usize,
    /// Nodes that do not answer and are not expelled, as too many are silent at once.
    held: u32,
    /// Leaf switches of which so many nodes are silent that they are kept.
    held_blocks: u32,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Groups {
    count: usize,
    members: u64,
}

impl Run for StatusArgs {
    fn run(self, globals: &Globals) -> Result<(), Failure> {
        let (format, args) = (globals.format, &self);
        block_on(async {
            let remote = Remote::new(&args.server)?;
            let is_once = !args.watch.watch;
            output::watched(args.watch, format, async || {
                let status = ClusterStatus::collect(&remote).await?;
                output::print(format, &status, text)?;
                if is_once { verdict(&status) } else { Ok(()) }
            })
            .await
        })
    }

    fn calls_running_parts(&self) -> bool {
        true
    }
}

fn verdict(status: &ClusterStatus) -> Result<(), Failure> {
    match status.problems.len() {
        0 => Ok(()),
        1 => Err(Failure::No("1 thing is wrong".to_owned())),
        count => Err(Failure::No(format!("{count} things are wrong"))),
    }
}

impl ClusterStatus {
    /// Asks all parts. One that does not answer is a problem, not a failure.
    ///
    /// # Errors
    ///
    /// No TIC answers.
    async fn collect(remote: &Remote) -> Result<Self, Failure> {
        let mut status = Self::default();
        let tics = remote.parts(Role::Tic).await?;
        let mut leads = false;
        for address in &tics {
            leads |= status.part(remote, Role::Tic, address).await == PartState::Active;
        }
        if leads {
            let tic = remote.elsewhere(&tics.join(","))?;
            status.records(&tic).await;
            status.links(&tic).await;
        } else {
            status.problems.push("no TIC leads".to_owned());
        }
        let routers = remote.parts(Role::Router).await;
        if let Some(routers) = status.noted("route service", routers) {
            status.routers(remote, &routers).await;
        }
        let agents = remote.parts(Role::SwitchAgent).await;
        if let Some(agents) = status.noted("switch agents", agents) {
            status.switches(remote, &agents).await;
        }
        Ok(status)
    }

    /// Notes a failure as a problem.
    fn noted<T>(&mut self, what: &str, answer: Result<T, Failure>) -> Option<T> {
        answer.map_err(|failure| self.problem(what, &failure)).ok()
    }

    fn problem(&mut self, what: &str, failure: &Failure) {
        let message = failure.message();
        let first = message.lines().next().unwrap_or_default();
        self.problems.push(format!("{what}: {first}"));
    }

    /// Asks a part what it is, and notes the answer.
    async fn part(&mut self, remote: &Remote, role: Role, address: &str) -> PartState {
        let mut part = PartStatus {
            role: role.name(),
            address: address.to_owned(),
            state: PartState::NoAnswer,
            version: String::new(),
            uptime_seconds: 0,
        };
        match remote.info(address).await {
            Ok(info) => {
                // One that has no others beside it knows no leader.
                let leads = info.leadership.is_none_or(|leadership| leadership.leads);
                part.state = if leads { PartState::Active } else { PartState::Standby };
                part.version = info.version;
                part.uptime_seconds = info.uptime.map_or(0, |uptime| uptime.seconds);
            }
            Err(failure) => self.problem(&format!("{} {address}", role.in_words()), &failure),
        }
        let state = part.state;
        self.parts.push(part);
        state
    }

    /// Nodes, groups and failed parts of the fabric.
    async fn records(&mut self, tic: &Remote) {
        let list = tic.node_list().await;
        if let Some(list) = self.noted("nodes", list) {
            let of = |state| list.nodes.iter().filter(move |node| node.state() == state);
            for (state, word) in
                [(v1::NodeState::Failed, "failed"), (v1::NodeState::Silent, "silent")]
            {
                let names: Vec<&str> = of(state).map(|node| node.name.as_str()).collect();
                self.problems.extend(several("node", &names, word));
            }
            let suppressed = list.nodes.iter().filter(|node| node.suppressed_until.is_some());
            let names: Vec<&str> = suppressed.map(|node| node.name.as_str()).collect();
            self.problems.extend(several("node", &names, "suppressed, as it came and went often"));
            self.nodes = Some(Nodes {
                count: list.nodes.len(),
                up: of(v1::NodeState::Up).count(),
                failed: of(v1::NodeState::Failed).count(),
                silent: of(v1::NodeState::Silent).count(),
                drained: list.nodes.iter().filter(|node| node.drained).count(),
                held: list.held_node_count,
                held_blocks: list.held_block_count,
            });
            self.problems.extend(held_problem(list.held_node_count, list.held_block_count));
        }
        let groups = tic.groups(false).await;
        if let Some(groups) = self.noted("groups", groups) {
            let members = groups.iter().map(|group| u64::from(group.member_count)).sum();
            // One that waits for members or entries needs none yet.
            let has_none = |group: &&v1::Group| {
                group.route.as_ref().is_some_and(|route| {
                    route.state() != v1::RouteState::Routed && !events::waits(route)
                })
            };
            let names: Vec<&str> =
                groups.iter().filter(has_none).map(|group| group.name.as_str()).collect();
            self.problems.extend(several("group", &names, "no hardware route"));
            self.groups = Some(Groups { count: groups.len(), members });
        }
        let reporters = tic.answer(tic.tic().list_reporters(v1::ListReportersRequest {})).await;
        if let Some(answer) = self.noted("failed parts of the fabric", reporters) {
            let failed = answer.reporters.iter().filter(|reporter| reporter.failed_count > 0);
            for v1::FailureReporter { name, failed_count } in failed {
                let parts = if *failed_count == 1 { "part" } else { "parts" };
                self.problems.push(format!(
                    "switch agent {name} reports {failed_count} failed {parts} of the fabric, \
                     which `fabricast events` lists"
                ));
            }
        }
    }

    /// Links that an administrator has taken out of service.
    async fn links(&mut self, tic: &Remote) {
        let request = v1::ListDrainedLinksRequest {};
        let drained = tic.answer(tic.topologies().list_drained_links(request)).await;
        if let Some(answer) = self.noted("drained links", drained) {
            self.drained_links = Some(answer.links.iter().map(link::name).collect());
        }
    }

    async fn routers(&mut self, remote: &Remote, routers: &[String]) {
        let mut answering = Vec::new();
        for address in routers {
            if self.part(remote, Role::Router, address).await != PartState::NoAnswer {
                answering.push(address.clone());
            }
        }
        if answering.is_empty() {
            return;
        }
        let status = match remote.elsewhere(&answering.join(",")) {
            Ok(routers) => routers.route_status().await.map(|status| (routers, status)),
            Err(failure) => Err(failure),
        };
        let Some((remote, status)) = self.noted("route service", status) else { return };
        if !status.active {
            self.problems.push("no route service is active".to_owned());
            return;
        }
        let mut problem = |is_wrong: bool, what: String| {
            if is_wrong {
                self.problems.push(what);
            }
        };
        problem(!status.last_error.is_empty(), format!("route service: {}", status.last_error));
        problem(!status.load_problem.is_empty(), format!("port loads: {}", status.load_problem));
        for (count, what) in [
            (status.missing_groups, "have trees that miss a member"),
            (status.unprotected_groups, "have only one of their two trees"),
        ] {
            problem(count > 0, format!("groups that {what}: {count}"));
        }
        self.routes = Some(Routes {
            engine: status.engine,
            term: status.fence.unwrap_or_default().term,
            settled: status.settled,
            routed_groups: status.routed_groups,
            unrouted_groups: status.unicast_only_groups,
            programmed_entries: status.programmed_entries,
        });
        let drifts = match remote.router().await {
            Ok(mut router) => {
                remote.answer(router.list_table_drifts(v1::ListTableDriftsRequest {})).await
            }
            Err(failure) => Err(failure),
        };
        if let Some(answer) = self.noted("drifts", drifts) {
            let open = answer.drifts.iter().filter(|drift| drift.repaired_ago.is_none());
            let names: Vec<&str> = open.map(|drift| drift.switch_name.as_str()).collect();
            self.problems.extend(several("switch", &names, "holds another table than confirmed"));
        }
    }

    async fn switches(&mut self, remote: &Remote, addresses: &[String]) {
        let mut all: BTreeMap<String, v1::Switch> = BTreeMap::new();
        for address in addresses {
            if self.part(remote, Role::SwitchAgent, address).await == PartState::NoAnswer {
                continue;
            }
            let listed = match remote.switch_agents_at(std::slice::from_ref(address)) {
                Ok(mut agents) => {
                    let (agent, mut client) = agents.remove(0);
                    agent.answer(client.list_switches(v1::ListSwitchesRequest {})).await
                }
                Err(failure) => Err(failure),
            };
            if let Some(listed) = self.noted(&format!("switch agent {address}"), listed) {
                all.extend(listed.switches.into_iter().map(|one| (one.name.clone(), one)));
            }
        }
        let down: Vec<&str> =
            all.values().filter(|one| !one.live).map(|one| one.name.as_str()).collect();
        self.problems.extend(several("switch", &down, "down"));
        let is_nearly_full = |one: &&v1::Switch| {
            one.colors > 0
                && u64::from(one.used_entries) * 100 >= u64::from(one.colors) * NEARLY_FULL
        };
        let full: Vec<&str> =
            all.values().filter(is_nearly_full).map(|one| one.name.as_str()).collect();
        self.problems.extend(several("switch", &full, "nearly full"));
        let fullest = all.values().max_by_key(|one| one.used_entries);
        let fullest = fullest.cloned().unwrap_or_default();
        self.switches = Some(Switches {
            count: all.len(),
            live: all.len() - down.len(),
            used_entries: fullest.used_entries,
            entries: fullest.colors,
            fullest: fullest.name,
        });
    }
}

/// - `nodes`: those that are kept for the share of all nodes that is silent, and those of `blocks`.
fn held_problem(nodes: u32, blocks: u32) -> Option<String> {
    let of = match blocks {
        0 => "of all nodes".to_owned(),
        1 => "at 1 leaf switch, or of all nodes,".to_owned(),
        blocks => format!("at {blocks} leaf switches, or of all nodes,"),
    };
    let kept = "silent nodes are kept, not expelled, as too many";
    (nodes > 0).then(|| format!("{nodes} {kept} {of} are silent at once"))
}

/// A problem of one or several things of a kind; none if there are none.
fn several(kind: &str, names: &[&str], what: &str) -> Option<String> {
    match names {
        [] => None,
        [only] => Some(format!("{kind} {only}: {what}")),
        [first, rest @ ..] => Some(format!("{kind} {first} and {} more: {what}", rest.len())),
    }
}

fn text(status: &ClusterStatus) -> String {
    let mut lines = Vec::new();
    for part in &status.parts {
        let state = match part.state {
            PartState::Active => "active",
            PartState::Standby => "stands by",
            PartState::NoAnswer => "no answer",
        };
        let uptime = match part.state {
            PartState::NoAnswer => String::new(),
            _ => format!("  up {}", uptime(part.uptime_seconds)),
        };
        let state = match part.state {
            PartState::NoAnswer => painted(state, Color::Bad),
            _ => painted_state(state),
        };
        lines.push(format!("{:<13} {:<21} {state}{uptime}", part.role, part.address));
    }
    if let Some(routes) = &status.routes {
        let settled = painted_state(if routes.settled { "settled" } else { "at work" });
        lines.push(format!(
            "{:<13} {settled}, {} of {} groups routed, {} entries, engine {}, term {}",
            "routes",
            routes.routed_groups,
            routes.routed_groups + routes.unrouted_groups,
            routes.programmed_entries,
            routes.engine,
            routes.term
        ));
    }
    if let Some(switches) = &status.switches {
        let Switches { count, live, used_entries, entries, fullest } = switches;
        let fullest = match *used_entries {
            0 => String::new(),
            used => format!(", fullest table {used} of {entries} entries ({fullest})"),
        };
        lines.push(format!("{:<13} {live} of {count} up{fullest}", "switches"));
    }
    if let Some(nodes) = &status.nodes {
        let counts = [
            (nodes.failed, "failed"),
            (nodes.silent, "silent"),
            (nodes.held as usize, "kept though silent"),
            (nodes.drained, "drained"),
        ];
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        let counts: Vec<String> = counts.map(|(count, word)| format!(", {count} {word}")).collect();
        let Nodes { up, count, .. } = nodes;
        lines.push(format!("{:<13} {up} of {count} up{}", "nodes", counts.concat()));
    }
    if let Some(Groups { count, members }) = &status.groups {
        lines.push(format!("{:<13} {count} with {members} members", "groups"));
    }
    if let Some([first, rest @ ..]) = status.drained_links.as_deref() {
        let others = match rest.len() {
            0 => String::new(),
            count => format!(" and {count} more, which `fabricast link list` has"),
        };
        lines.push(format!("{:<13} {} drained: {first}{others}", "links", rest.len() + 1));
    }
    lines.push(match status.problems.len() {
        0 => format!("{:<13} none", "problems"),
        _ => {
            let title = painted("problems", Color::Bad);
            status.problems.iter().fold(title, |text, one| text + "\n  " + one)
        }
    });
    lines.join("\n")
}

fn uptime(seconds: i64) -> String {
    match seconds {
        ..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_of_many_things_are_one_line() {
        assert_eq!(several("node", &[], "failed"), None);
        assert_eq!(several("node", &["a"], "failed").unwrap(), "node a: failed");
        assert_eq!(several("node", &["a", "b", "c"], "down").unwrap(), "node a and 2 more: down");
    }

    #[test]
    fn nodes_that_are_kept_are_a_problem_with_the_reason() {
        let kept = "silent nodes are kept, not expelled, as too many";
        for (nodes, blocks, of) in [
            (9, 0, "of all nodes"),
            (4, 1, "at 1 leaf switch, or of all nodes,"),
            (12, 2, "at 2 leaf switches, or of all nodes,"),
        ] {
            let told = held_problem(nodes, blocks).unwrap();
            assert_eq!(told, format!("{nodes} {kept} {of} are silent at once"));
        }
        assert_eq!(held_problem(0, 0), None);
    }

    #[test]
    fn drained_links_are_listed_and_no_problem() {
        let mut status = ClusterStatus::default();
        for (links, line) in [
            (&["S-1:3 - S-2:4"][..], "1 drained: S-1:3 - S-2:4"),
            (&["a", "b", "c"], "3 drained: a and 2 more, which `fabricast link list` has"),
        ] {
            status.drained_links = Some(links.iter().map(|link| (*link).to_owned()).collect());
            assert_eq!(text(&status), format!("links         {line}\nproblems      none"));
            assert!(verdict(&status).is_ok());
        }
    }

    #[test]
    fn a_healthy_cluster_has_no_problems_line_by_line() {
        let mut status = ClusterStatus::default();
        assert_eq!(text(&status), "problems      none");
        status.drained_links = Some(Vec::new());
        assert_eq!(text(&status), "problems      none");
        assert!(verdict(&status).is_ok());
        status.problems = vec!["no TIC leads".to_owned()];
        assert!(text(&status).ends_with("problems\n  no TIC leads"));
        assert_eq!(verdict(&status).unwrap_err().exit_code(), 1);
    }
}
