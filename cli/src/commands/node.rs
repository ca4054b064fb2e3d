//! `fabricast node`: compute nodes of a running control plane.

use std::time::SystemTime;

use clap::{Args, Subcommand};
use fabricast_proto::v1;

use crate::args::{Format, ServerArgs, WatchArgs};
use crate::command::{Globals, Run};
use crate::dry_run;
use crate::failure::Failure;
use crate::output::{self, Rows};
use crate::remote::{Remote, block_on};

/// Show, drain, expel, stop, start and delete nodes of a running control plane.
#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// List all nodes with state, last contact, address and endpoints.
    List {
        #[command(flatten)]
        watch: WatchArgs,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Show one node with its last contact, its job and its memberships.
    Show {
        /// Show its memberships as its operating agent has them, with their places in the trees.
        #[arg(long)]
        memberships: bool,
        #[command(flatten)]
        watch: WatchArgs,
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Report that a node has failed; it is expelled from all groups.
    Fail(NodeEndArgs),
    /// Stop a hosted node as if it had lost power.
    Stop(NodeEndArgs),
    /// Start a stopped node again.
    Start(NodeArgs),
    /// End the suppression of a node that has flapped.
    Readmit(NodeArgs),
    /// Let no new job have a node. Its job and its memberships stay until their owners end them,
    /// and the node stays drained when it restarts.
    Drain(NodeArgs),
    /// Let jobs have a drained node again.
    Resume(NodeArgs),
    /// Delete the record of a node that has failed and is gone for good, or has another name now.
    /// One that still runs registers again.
    #[command(alias = "remove")]
    Delete(NodeArgs),
    /// Older name of `node show --memberships`.
    #[command(hide = true)]
    Memberships(NodeArgs),
}

/// Name of a node, and the server that knows it.
#[derive(Debug, Args)]
pub(crate) struct NodeArgs {
    /// Name of the node, or GUID of one of its endpoints.
    node: String,
    #[command(flatten)]
    server: ServerArgs,
}

/// Node to take out of service.
#[derive(Debug, Args)]
pub(crate) struct NodeEndArgs {
    #[command(flatten)]
    node: NodeArgs,
    /// Only print which memberships would end; change nothing.
    #[arg(long)]
    dry_run: bool,
}

impl Run for NodeCommand {
    fn run(self, globals: &Globals) -> Result<(), Failure> {
        let format = globals.format;
        block_on(async {
            match self {
                Self::List { watch, server } => {
                    let remote = Remote::new(&server)?;
                    output::watched(watch, format, async || list(&remote, format).await).await
                }
                Self::Fail(args) if args.dry_run => {
                    let (remote, node) = named(args.node).await?;
                    dry_run::node(&remote, node, "fail", format).await
                }
                Self::Stop(args) if args.dry_run => {
                    let (remote, node) = named(args.node).await?;
                    dry_run::node(&remote, node, "stop", format).await
                }
                Self::Fail(args) => fail(args.node, format).await,
                Self::Stop(NodeEndArgs { node: args, .. }) => {
                    let (remote, node) = named(args).await?;
                    let host = remote.host_of(&node).await?;
                    let request = v1::StopNodeRequest { node: node.clone() };
                    let answer = host.answer(host.agent().stop_node(request)).await?;
                    output::done(format, "node", &node, &answer, |_| format!("node {node} stopped"))
                }
                Self::Start(args) => {
                    let (remote, node) = named(args).await?;
                    let host = remote.host_of(&node).await?;
                    let request = v1::StartNodeRequest { node: node.clone() };
                    let answer = host.answer(host.agent().start_node(request)).await?;
                    // The incarnation in the answer may still be the one that was stopped.
                    output::done(format, "node", &node, &answer, |_| format!("node {node} started"))
                }
                Self::Readmit(args) => {
                    let (remote, node) = named(args).await?;
                    let request = v1::ReadmitNodeRequest { node: node.clone() };
                    let answer = remote.answer(remote.tic().readmit_node(request)).await?;
                    let text = format!("node {node} not suppressed");
                    output::done(format, "node", &node, &answer, |_| text)
                }
                Self::Drain(args) => {
                    let (remote, node) = named(args).await?;
                    let request = v1::DrainNodeRequest { node: node.clone() };
                    let answer = remote.answer(remote.tic().drain_node(request)).await?;
                    output::done(format, "node", &node, &answer, |answer| {
                        drained_text(&node, answer)
                    })
                }
                Self::Resume(args) => {
                    let (remote, node) = named(args).await?;
                    let request = v1::ResumeNodeRequest { node: node.clone() };
                    let answer = remote.answer(remote.tic().resume_node(request)).await?;
                    let text = format!("node {node} not drained");
                    output::done(format, "node", &node, &answer, |_| text)
                }
                Self::Show { memberships, watch, node } => {
                    show(node, memberships, watch, format).await
                }
                Self::Memberships(node) => {
                    show(node, true, WatchArgs { watch: false }, format).await
                }
                Self::Delete(args) => {
                    let (remote, node) = named(args).await?;
                    let request = v1::RemoveNodeRequest { node: node.clone() };
                    let answer = remote.answer(remote.tic().remove_node(request)).await?;
                    output::done(format, "node", &node, &answer, |_| format!("node {node} deleted"))
                }
            }
        })
    }

    fn calls_running_parts(&self) -> bool {
        true
    }
}

/// Connects, and finds the name of the node.
async fn named(args: NodeArgs) -> Result<(Remote, String), Failure> {
    let remote = Remote::new(&args.server)?;
    let node = remote.node_name(args.node).await?;
    Ok((remote, node))
}

async fn fail(args: NodeArgs, format: Format) -> Result<(), Failure> {
    let (remote, node) = named(args).await?;
    let request = v1::ReportNodeFailureRequest {
        node: node.clone(),
        incarnation: 0,
        reporter: "command line".to_owned(),
        probe_first: false,
    };
    let answer = remote.answer(remote.tic().report_node_failure(request)).await?;
    output::done(format, "node", &node, &answer, |answer| match answer.ended_memberships {
        1 => format!("node {node} expelled, 1 membership ended"),
        ended => format!("node {node} expelled, {ended} memberships ended"),
    })
}

async fn memberships(remote: &Remote, node: &str, format: Format) -> Result<(), Failure> {
    let host = remote.host_of(node).await?;
    let request = v1::ListMembershipsRequest { node: node.to_owned() };
    let answer = host.answer(host.agent().list_memberships(request)).await?;
    output::message(format, &answer, |answer| {
        let titles = ["GROUP", "PN", "PROCESS", "ENDPOINT", "PARENT", "CHILDREN", "MULTICAST"];
        let mut rows = Rows::new(&titles);
        for membership in &answer.memberships {
            let position = membership.position.clone().unwrap_or_default();
            let children: Vec<String> =
                position.children.iter().map(|child| child.pn.to_string()).collect();
            rows.push(vec![
                membership.group.clone(),
                membership.pn.to_string(),
                membership.process.clone(),
                membership.endpoint.clone(),
                position.parent.map_or("-".to_owned(), |parent| parent.pn.to_string()),
                children.join(","),
                if membership.multicast_open { "open" } else { "closed" }.to_owned(),
            ]);
        }
        rows.to_string()
    })
}

async fn list(remote: &Remote, format: Format) -> Result<(), Failure> {
    let mut list = remote.node_list().await?;
    list.revision = 0; // of the last page only
    output::message(format, &list, |list| list_text(list, SystemTime::now()))
}

async fn show(
    args: NodeArgs,
    with_memberships: bool,
    watch: WatchArgs,
    format: Format,
) -> Result<(), Failure> {
    let (remote, node) = named(args).await?;
    output::watched(watch, format, async || {
        if with_memberships {
            return memberships(&remote, &node, format).await;
        }
        let request = v1::GetNodeRequest { node: node.clone() };
        let answer = remote.answer(remote.tic().get_node(request)).await?;
        let now = SystemTime::now();
        output::message(format, &answer, |answer| node_text(answer, now))
    })
    .await
}

fn node_text(answer: &v1::GetNodeResponse, now: SystemTime) -> String {
    let node = answer.node.clone().unwrap_or_default();
    let facts = [
        ("node", node.name.clone()),
        ("state", state(&node)),
        ("last contact", last_contact(&node, now)),
        ("incarnation", node.incarnation.to_string()),
        ("address", node.address.clone()),
        ("endpoints", node.endpoints.join(",")),
        ("suppressed", suppressed(&node)),
        ("job", answer.job.clone()),
        ("group agents", answer.hosted_group_count.to_string()),
        ("memberships", answer.membership_count.to_string()),
    ];
    let facts = facts.map(|(name, fact)| {
        let shown = if fact.is_empty() { "-" } else { &fact };
        format!("{name:<13} {shown}")
    });
    let mut rows = Rows::new(&["GROUP", "PN", "PROCESS", "ENDPOINT"]);
    for membership in &answer.memberships {
        let v1::NodeMembership { group, pn, process, endpoint } = membership.clone();
        rows.push(vec![group, pn.to_string(), process, endpoint]);
    }
    let left_out = answer.membership_count as usize - answer.memberships.len();
    match (answer.memberships.len(), left_out) {
        (0, _) => facts.join("\n"),
        (_, 0) => format!("{}\n{rows}", facts.join("\n")),
        (_, left_out) => format!("{}\n{rows}\n{left_out} more", facts.join("\n")),
    }
}

fn state(node: &v1::Node) -> String {
    let state = match node.state() {
        v1::NodeState::Up => "up",
        v1::NodeState::Failed => "failed",
        v1::NodeState::Silent => "silent",
        v1::NodeState::Unspecified => "?",
    };
    if node.drained { format!("{state}, drained") } else { state.to_owned() }
}

/// Says what is still on a drained node.
fn drained_text(node: &str, answer: &v1::DrainNodeResponse) -> String {
    let count = |count: u32, one: &str| match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        more => Some(format!("{more} {one}s")),
    };
    let job = (!answer.job.is_empty()).then(|| format!("job {}", answer.job));
    let left = [
        job,
        count(answer.membership_count, "membership"),
        count(answer.hosted_group_count, "group agent"),
    ];
    let left: Vec<String> = left.into_iter().flatten().collect();
    match left.is_empty() {
        true => format!("node {node} drained, nothing is on it"),
        false => {
            let left = left.join(", ");
            format!("node {node} drained; until their owners end them it keeps {left}")
        }
    }
}

fn suppressed(node: &v1::Node) -> String {
    match &node.suppressed_until {
        Some(until) => format!("until {until}: {}", node.suppressed_reason),
        None => "-".to_owned(),
    }
}

/// Time since the last contact by the clock of this machine.
fn last_contact(node: &v1::Node, now: SystemTime) -> String {
    let Some(at) = &node.last_contact_time else { return "-".to_owned() };
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let seconds = since.saturating_sub(u64::try_from(at.seconds).unwrap_or(0));
    format!("{seconds} s ago")
}

fn list_text(list: &v1::ListNodesResponse, now: SystemTime) -> String {
    let titles =
        ["NODE", "STATE", "LAST CONTACT", "INCARNATION", "ADDRESS", "ENDPOINTS", "SUPPRESSED"];
    let mut rows = Rows::new(&titles);
    for node in &list.nodes {
        rows.push(vec![
            node.name.clone(),
            state(node),
            last_contact(node, now),
            node.incarnation.to_string(),
            node.address.clone(),
            node.endpoints.join(","),
            suppressed(node),
        ]);
    }
    match list.held_node_count {
        0 => rows.to_string(),
        held => format!("{rows}\n{held} do not answer and are kept: too many are silent at once"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_node_is_shown_with_its_last_contact_and_what_is_left_out() {
        let node = v1::Node {
            name: "n0".to_owned(),
            state: v1::NodeState::Silent.into(),
            last_contact_time: Some(prost_types::Timestamp { seconds: 100, nanos: 0 }),
            ..Default::default()
        };
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(107);
        let mut answer = v1::GetNodeResponse { node: Some(node), ..Default::default() };
        let text = node_text(&answer, now);
        assert!(text.contains("state         silent\nlast contact  7 s ago"), "{text}");
        assert!(text.contains("address       -\nendpoints     -\n"), "{text}");
        assert!(text.ends_with("memberships   0"), "{text}");
        answer.memberships.push(v1::NodeMembership { group: "g".to_owned(), ..Default::default() });
        answer.membership_count = 3;
        assert!(node_text(&answer, now).ends_with("2 more"), "the rest is counted");
    }

    #[test]
    fn a_suppressed_node_is_listed_with_time_and_reason() {
        let node = v1::Node {
            name: "n0".to_owned(),
            suppressed_until: Some(Default::default()),
            suppressed_reason: "recent flaps count 3.9".to_owned(),
            ..Default::default()
        };
        let list = v1::ListNodesResponse {
            nodes: vec![node, v1::Node::default()],
            held_node_count: 2,
            ..Default::default()
        };
        let text = list_text(&list, SystemTime::UNIX_EPOCH);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].ends_with("until 1970-01-01T00:00:00Z: recent flaps count 3.9"), "{text}");
        assert!(lines[2].ends_with('-'), "{text}");
        let held = "2 do not answer and are kept: too many are silent at once";
        assert_eq!(lines.last(), Some(&held));
    }
}
