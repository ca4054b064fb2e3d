//! `fabricast route explain --topology`: why a group would be routed as it would be, with no
//! control plane.

use clap::{ArgGroup, Args};
use fabricast_routing::{
    ExplainedRoute, ExplainedTree, Explanation, MAX_COLORS, OtherSize, Routed, SharedPart,
    at_other_size, explain,
};
use fabricast_topology::{Graph, Mgid, Peer, PortId};
use serde::Serialize;

use super::GroupNameArgs;
use crate::args::{
    CompareArgs, Format, GroupArgs, OfflineEngineArgs, ServerArgs, WatchArgs, colors,
};
use crate::failure::Failure;
use crate::output::{self, Rows};
use crate::plan_input::PlanInput;
use crate::progress::Progress;

/// Explanation of one group.
#[derive(Debug, Serialize)]
struct Answer {
    group: String,
    mgid: u32,
    engine: &'static str,
    /// Cost of this engine and of others, if it was chosen by cost.
    engine_reasons: Vec<String>,
    entries: u16,
    /// Spanning tree that the MGID maps to; null for engines without such a map.
    home_spanning_tree: Option<u32>,
    moved: Option<String>,
    unrouted: Option<String>,
    unprotected: Option<String>,
    members: usize,
    cut_off: Vec<String>,
    route: Option<Route>,
    /// Change with one more entry; null for the largest tables.
    with_one_entry_more: Option<OneMore>,
}

/// Route of the group's packets.
#[derive(Debug, Serialize)]
struct Route {
    /// Null for engines that do not number their trees.
    spanning_tree: Option<u32>,
    virtual_group: u32,
    /// Trees of the route: one, or two with fault tolerance.
    trees: Vec<Tree>,
    shares_with: Vec<Sharer>,
}

/// One of the trees of a route.
#[derive(Debug, Serialize)]
struct Tree {
    color: u16,
    level: Option<u8>,
    top_midplane: Option<u32>,
    tn_group: Option<u32>,
    root: String,
    /// Links that the group itself needs.
    links: Vec<Link>,
    /// Links that its packets cross, those of groups on the same tree included.
    links_crossed: usize,
}

/// A link, from its lower end.
#[derive(Debug, Serialize)]
struct Link {
    switch: String,
    port: u8,
    peer: String,
    peer_port: u8,
}

/// Another group on the same tree.
#[derive(Debug, Serialize)]
struct Sharer {
    group: String,
    mgid: u32,
    /// Steps of the chain of groups that meet; null if it was merged because no entry was left.
    steps: Option<u32>,
    /// The group before it on that chain.
    through: Option<String>,
    /// The first that the two have in common.
    at: Option<String>,
}

/// Route of the same group with tables of one more entry.
#[derive(Debug, Serialize)]
struct OneMore {
    entries: u16,
    mgid: u32,
    /// True if the file gives the MGID, so that only its mapping can change.
    mgid_given: bool,
    mapping: Option<String>,
    home_spanning_tree: Option<u32>,
    spanning_tree: Option<u32>,
    color: Option<u16>,
    root: Option<String>,
    unrouted: Option<String>,
    still_shares_with: Vec<String>,
    no_longer_with: Vec<String>,
    newly_with: Vec<String>,
}

/// Options of `route explain`.
#[derive(Debug, Args)]
#[command(group(
    ArgGroup::new("comparing").args(["compare", "within"]).multiple(true).requires("best_engine")
))]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    pub(super) group: GroupNameArgs,
    /// Plan on this topology instead of asking a control plane: file as `ibnetdiscover` prints it,
    /// spec in TOML, or preset.
    #[arg(long, value_name = "FILE|PRESET", requires = "what", conflicts_with = "watch")]
    pub(super) topology: Option<String>,
    #[command(flatten)]
    pub(super) groups: GroupArgs,
    #[command(flatten)]
    pub(super) engine: OfflineEngineArgs,
    /// Plan with the engine of least cost, as `capacity advise` names it, and say why.
    #[arg(long, conflicts_with = "engine", requires = "topology")]
    pub(super) best_engine: bool,
    #[command(flatten)]
    pub(super) compare: CompareArgs,
    /// Entries of each multicast table (C).
    #[arg(long, default_value_t = 32, value_parser = colors(), requires = "topology")]
    pub(super) colors: u16,
    #[command(flatten)]
    pub(super) watch: WatchArgs,
    #[command(flatten)]
    pub(super) server: ServerArgs,
}

/// Runs the offline form of `route explain`.
///
/// # Errors
///
/// See [`Failure`]; exit 1 if there is no such group.
pub(super) fn run(topology: &str, args: &ExplainArgs, format: Format) -> Result<(), Failure> {
    let progress = Progress::of_time("planning");
    let (input, engine_reasons) = read(topology, args)?;
    let scenario = input.scenario();
    let now = scenario.route(args.colors).map_err(|error| input.failure(error))?;
    let names = input.names(&now)?;
    let group = find(&names, &now.mgids, args.group.get())?;
    let known = Known { input: &input, names: &names, now: &now };
    let explanation = explain(&*now.engine, scenario.fat_tree.map(|one| &**one), now.mgids[group]);
    let explanation = explanation.expect("the engine has all groups of the scenario");
    let more = match args.colors {
        MAX_COLORS => None,
        colors => {
            let other = at_other_size(&scenario, colors + 1, &now, group);
            Some(known.one_more(&other.map_err(|error| input.failure(error))?, group))
        }
    };
    let answer = Answer {
        group: names[group].clone(),
        mgid: explanation.mgid.0,
        engine: now.engine.kind().name(),
        engine_reasons,
        entries: args.colors,
        home_spanning_tree: explanation.home,
        moved: explanation.moved.map(|moved| moved.why.to_string()),
        unrouted: explanation.unrouted.map(|unrouted| unrouted.to_string()),
        unprotected: explanation.unprotected.map(|one| one.link.to_string()),
        members: explanation.members.len(),
        cut_off: known.cut_off(&explanation),
        route: explanation.route.as_ref().map(|route| known.route(&explanation, route)),
        with_one_entry_more: more,
    };
    progress.finish();
    output::print(format, &answer, text)
}

/// Reads the input; with the reasons for the engine, if it is chosen by cost.
fn read(topology: &str, args: &ExplainArgs) -> Result<(PlanInput, Vec<String>), Failure> {
    if !args.best_engine {
        return Ok((PlanInput::read(topology, &args.groups, &args.engine)?, Vec::new()));
    }
    let mut input = PlanInput::read_for_choice(topology, &args.groups, &args.engine)?;
    let advice = input.choose_engine(args.colors, args.compare.budget())?;
    Ok((input, advice.iter().map(ToString::to_string).collect()))
}

/// Finds a group by its name, or by its MGID if no group has that name.
fn find(names: &[String], mgids: &[Mgid], wanted: &str) -> Result<usize, Failure> {
    let by_name = names.iter().position(|name| name == wanted);
    let number = || wanted.parse().ok().map(Mgid);
    let found = by_name.or_else(|| {
        let wanted = number()?;
        mgids.iter().position(|mgid| *mgid == wanted)
    });
    found.ok_or_else(|| {
        let some: Vec<&str> = names.iter().take(3).map(String::as_str).collect();
        let failure = Failure::No(format!("no group has the name or MGID '{wanted}'"));
        failure.hint(format!("there are {} groups, such as {}", names.len(), some.join(", ")))
    })
}

/// Names for the numbers of an explanation.
struct Known<'a> {
    input: &'a PlanInput,
    names: &'a [String],
    now: &'a Routed,
}

impl Known<'_> {
    fn graph(&self) -> &Graph {
        &self.input.topology.graph
    }

    fn name(&self, mgid: Mgid) -> String {
        let at = self.now.mgids.iter().position(|other| *other == mgid);
        at.map_or_else(|| mgid.0.to_string(), |at| self.names[at].clone())
    }

    fn all(&self, groups: &[usize]) -> Vec<String> {
        groups.iter().map(|at| self.names[*at].clone()).collect()
    }

    fn cut_off(&self, explanation: &Explanation) -> Vec<String> {
        let cut_off = explanation.cut_off.iter();
        cut_off
            .map(|cut| format!("{}: {}", self.graph().endpoint_name(cut.endpoint), cut.why))
            .collect()
    }

    fn route(&self, explanation: &Explanation, route: &ExplainedRoute) -> Route {
        let shares_with = route.sharers.iter().map(|one| Sharer {
            group: self.name(one.mgid),
            mgid: one.mgid.0,
            steps: one.why.map(|why| why.steps),
            through: one.why.map(|why| self.name(why.through)),
            at: one.why.map(|why| shared_part(self.graph(), why.at)),
        });
        Route {
            spanning_tree: explanation.home.map(|_| route.part),
            virtual_group: route.virtual_group.0,
            trees: route.trees.iter().map(|tree| self.tree(tree)).collect(),
            shares_with: shares_with.collect(),
        }
    }

    fn tree(&self, tree: &ExplainedTree) -> Tree {
        let graph = self.graph();
        let mut lowers: Vec<PortId> = tree.own.links.iter().map(|(lower, _)| *lower).collect();
        lowers.extend(&tree.own.member_ports);
        let between = |port: &&PortId| matches!(graph.peer(**port), Peer::Switch(_));
        Tree {
            color: tree.color,
            level: tree.level,
            top_midplane: tree.top_midplane,
            tn_group: tree.tn_group,
            root: graph.switch_name(tree.own.root).to_owned(),
            links: lowers.iter().map(|port| link(graph, *port)).collect(),
            links_crossed: tree.ports.len() - tree.ports.iter().filter(between).count() / 2,
        }
    }

    fn one_more(&self, other: &OtherSize, group: usize) -> OneMore {
        let OtherSize { colors, spanning_trees, explanation, stay, part, come } = other;
        let route = explanation.route.as_ref();
        let tree = route.and_then(|route| route.trees.first());
        let mgid = explanation.mgid.0;
        OneMore {
            entries: *colors,
            mgid,
            mgid_given: self.input.gives_mgid(group),
            mapping: explanation
                .home
                .map(|home| format!("{mgid} mod {spanning_trees} is spanning tree {home}")),
            home_spanning_tree: explanation.home,
            spanning_tree: explanation.home.and_then(|_| Some(route?.part)),
            color: tree.map(|tree| tree.color),
            root: tree.map(|tree| self.graph().switch_name(tree.own.root).to_owned()),
            unrouted: explanation.unrouted.map(|unrouted| unrouted.to_string()),
            still_shares_with: self.all(stay),
            no_longer_with: self.all(part),
            newly_with: self.all(come),
        }
    }
}

fn link(graph: &Graph, port: PortId) -> Link {
    let (peer, peer_port) = match graph.peer(port) {
        Peer::Switch(other) => {
            (graph.switch_name(graph.switch_of(other)), graph.port_number(other))
        }
        Peer::Endpoint(endpoint) => (graph.endpoint_name(endpoint), 0),
        Peer::None => ("", 0),
    };
    let switch = graph.switch_name(graph.switch_of(port)).to_owned();
    Link { switch, port: graph.port_number(port), peer: peer.to_owned(), peer_port }
}

fn shared_part(graph: &Graph, part: SharedPart) -> String {
    match part {
        SharedPart::Switch(switch) => format!("switch {}", graph.switch_name(switch)),
        SharedPart::Link(port) => {
            let Link { switch, port, peer, peer_port } = link(graph, port);
            match peer_port {
                0 => format!("{switch}:{port} to {peer}"),
                peer_port => format!("{switch}:{port} to {peer}:{peer_port}"),
            }
        }
    }
}

fn text(answer: &Answer) -> String {
    let mut lines = head_lines(answer);
    lines.extend(answer.moved.iter().map(|why| format!("not on the tree of its MGID: {why}")));
    lines.extend(answer.unrouted.iter().map(|why| format!("has no tree: {why}")));
    lines
        .extend(answer.unprotected.iter().map(|link| format!("has one tree only, without {link}")));
    lines.extend(answer.cut_off.iter().map(|cut| format!("cut off: {cut}")));
    lines.extend(answer.route.iter().map(sharers_text));
    lines.extend(answer.with_one_entry_more.iter().flat_map(more_lines));
    lines
        .extend(answer.engine_reasons.iter().map(|why| format!("engine {}: {why}", answer.engine)));
    for tree in answer.route.iter().flat_map(|route| &route.trees) {
        let mut rows = Rows::new(&["SWITCH", "PORT", "PEER", "PEER PORT"]);
        for Link { switch, port, peer, peer_port } in &tree.links {
            let peer_port = output::port((*peer_port).into());
            rows.push(vec![switch.clone(), port.to_string(), peer.clone(), peer_port]);
        }
        lines.push(rows.to_string());
    }
    lines.join("\n")
}

fn head_lines(answer: &Answer) -> Vec<String> {
    let number = |value: Option<u32>| value.map_or("-".to_owned(), |value| value.to_string());
    let Answer { group, mgid, members, entries, .. } = answer;
    let home = number(answer.home_spanning_tree);
    let Some(route) = &answer.route else {
        return vec![format!(
            "group {group}: mgid {mgid}, {members} members, no tree (home spanning tree {home})"
        )];
    };
    let (tree, virtual_group) = (number(route.spanning_tree), route.virtual_group);
    let first = format!(
        "group {group}: mgid {mgid}, {members} members, spanning tree {tree} (home {home}), virtual \
         group {virtual_group}"
    );
    let rest = route.trees.iter().map(|tree| {
        format!(
            "color {} of {entries}, root {} of level {}, top midplane {} of TN group {}, {} links of its \
             own, {} that its packets cross",
            tree.color,
            tree.root,
            number(tree.level.map(u32::from)),
            number(tree.top_midplane),
            number(tree.tn_group),
            tree.links.len(),
            tree.links_crossed
        )
    });
    std::iter::once(first).chain(rest).collect()
}

fn sharers_text(route: &Route) -> String {
    if route.shares_with.is_empty() {
        return "has the tree for itself".to_owned();
    }
    let mut rows = Rows::new(&["SHARES WITH", "MGID", "STEPS", "BECAUSE OF", "BOTH CROSS"]);
    for one in &route.shares_with {
        let cell = |text: &Option<String>, none: &str| text.clone().unwrap_or_else(|| none.into());
        rows.push(vec![
            one.group.clone(),
            one.mgid.to_string(),
            one.steps.map_or("-".to_owned(), |steps| steps.to_string()),
            match one.steps {
                Some(1) => "itself".to_owned(),
                _ => cell(&one.through, "no entry left"),
            },
            cell(&one.at, "-"),
        ]);
    }
    rows.to_string()
}

fn more_lines(more: &OneMore) -> Vec<String> {
    let mgid = match more.mgid_given {
        true => format!("mgid {} as given", more.mgid),
        false => format!("mgid {}, chosen anew", more.mgid),
    };
    let mut parts = vec![mgid];
    parts.extend(more.mapping.clone());
    match (more.color, &more.root, &more.unrouted) {
        (Some(color), Some(root), _) => parts.push(format!("color {color}, root {root}")),
        (_, _, Some(why)) => parts.push(format!("no tree: {why}")),
        _ => parts.push("no tree".to_owned()),
    }
    if let Some(tree) = more.spanning_tree.filter(|tree| Some(*tree) != more.home_spanning_tree) {
        parts.push(format!("on spanning tree {tree} instead"));
    }
    let lists = [
        ("still shares with", &more.still_shares_with),
        ("no longer with", &more.no_longer_with),
        ("newly with", &more.newly_with),
    ];
    let lists = lists.into_iter().filter(|(_, groups)| !groups.is_empty());
    let mut lists: Vec<String> =
        lists.map(|(what, groups)| format!("{what} {}", groups.join(", "))).collect();
    if lists.is_empty() {
        lists.push("shares with nobody, as now".to_owned());
    } else if more.still_shares_with.is_empty() && more.newly_with.is_empty() {
        lists.push("has the tree for itself".to_owned());
    }
    vec![format!("with {} entries: {}; {}", more.entries, parts.join(", "), lists.join("; "))]
}
