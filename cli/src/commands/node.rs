//! `fabricast node`: compute nodes of a running control plane.

use fabricast_proto::v1;

use crate::args::{Format, NodeArgs, NodeCommand, NodeEndArgs};
use crate::commands::dry_run;
use crate::failure::Failure;
use crate::output::{self, Rows};
use crate::remote::{Remote, block_on};

/// Runs one verb.
///
/// # Errors
///
/// See [`Failure`].
pub(crate) fn run(command: NodeCommand, format: Format) -> Result<(), Failure> {
    block_on(async {
        match command {
            NodeCommand::List { server } => {
                let nodes = Remote::new(&server)?.nodes().await?;
                let list = v1::ListNodesResponse { nodes, ..Default::default() };
                output::message(format, &list, |list| list_text(&list.nodes))
            }
            NodeCommand::Fail(args) if args.dry_run => {
                dry_run::node(&Remote::new(&args.node.server)?, args.node.node, "fail", format)
                    .await
            }
            NodeCommand::Stop(args) if args.dry_run => {
                dry_run::node(&Remote::new(&args.node.server)?, args.node.node, "stop", format)
                    .await
            }
            NodeCommand::Fail(args) => fail(args.node, format).await,
            NodeCommand::Stop(NodeEndArgs { node: args, .. }) => {
                let remote = Remote::new(&args.server)?;
                let request = v1::StopNodeRequest { node: args.node };
                let answer = remote.agent().stop_node(request).await;
                let answer = answer.map_err(|status| remote.failed(status))?.into_inner();
                output::message(format, &answer, |_| "stopped".to_owned())
            }
            NodeCommand::Start(args) => {
                let remote = Remote::new(&args.server)?;
                let request = v1::StartNodeRequest { node: args.node };
                let answer = remote.agent().start_node(request).await;
                let answer = answer.map_err(|status| remote.failed(status))?.into_inner();
                // The incarnation in the answer may still be the one that was stopped.
                output::message(format, &answer, |_| "started".to_owned())
            }
            NodeCommand::Readmit(args) => {
                let remote = Remote::new(&args.server)?;
                let request = v1::ReadmitNodeRequest { node: args.node };
                let answer = remote.tic().readmit_node(request).await;
                let answer = answer.map_err(|status| remote.failed(status))?.into_inner();
                output::message(format, &answer, |_| "not suppressed".to_owned())
            }
            NodeCommand::Memberships(args) => memberships(args, format).await,
        }
    })
}

async fn fail(args: NodeArgs, format: Format) -> Result<(), Failure> {
    let remote = Remote::new(&args.server)?;
    let request = v1::ReportNodeFailureRequest {
        node: args.node,
        incarnation: 0,
        reporter: "command line".to_owned(),
        probe_first: false,
    };
    let answer = remote.tic().report_node_failure(request).await;
    let answer = answer.map_err(|status| remote.failed(status))?.into_inner();
    output::message(format, &answer, |answer| match answer.ended_memberships {
        1 => "expelled, 1 membership ended".to_owned(),
        ended => format!("expelled, {ended} memberships ended"),
    })
}

async fn memberships(args: NodeArgs, format: Format) -> Result<(), Failure> {
    let remote = Remote::new(&args.server)?;
    let request = v1::ListMembershipsRequest { node: args.node };
    let answer = remote.agent().list_memberships(request).await;
    let answer = answer.map_err(|status| remote.failed(status))?.into_inner();
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

fn list_text(nodes: &[v1::Node]) -> String {
    let titles = ["NODE", "STATE", "INCARNATION", "ADDRESS", "ENDPOINTS", "SUPPRESSED"];
    let mut rows = Rows::new(&titles);
    for node in nodes {
        let state = match node.state() {
            v1::NodeState::Up => "up",
            v1::NodeState::Failed => "failed",
            v1::NodeState::Unspecified => "?",
        };
        rows.push(vec![
            node.name.clone(),
            state.to_owned(),
            node.incarnation.to_string(),
            node.address.clone(),
            node.endpoints.join(","),
            match &node.suppressed_until {
                Some(until) => format!("until {until}: {}", node.suppressed_reason),
                None => "-".to_owned(),
            },
        ]);
    }
    rows.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suppressed_node_is_listed_with_time_and_reason() {
        let node = v1::Node {
            name: "n0".to_owned(),
            suppressed_until: Some(Default::default()),
            suppressed_reason: "lives that ended of late count 3.9".to_owned(),
            ..Default::default()
        };
        let text = list_text(&[node, v1::Node::default()]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[1].ends_with("until 1970-01-01T00:00:00Z: lives that ended of late count 3.9"),
            "{text}"
        );
        assert!(lines[2].ends_with('-'), "{text}");
    }
}
