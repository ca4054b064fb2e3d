//! `fabricast group`: groups of a running control plane.

mod form;

use std::path::Path;

use fabricast_proto::v1;
use fabricast_rpc::request_id;

use crate::args::{Format, GroupCommand, MemberArgs, NewGroupArgs};
use crate::commands::dry_run;
use crate::failure::Failure;
use crate::group_file;
use crate::output::{self, Rows};
use crate::remote::{Remote, block_on};

/// Runs one verb.
///
/// # Errors
///
/// See [`Failure`].
pub(crate) fn run(command: GroupCommand, format: Format) -> Result<(), Failure> {
    block_on(async {
        match command {
            GroupCommand::Create { member, options } => create(member, options, format).await,
            GroupCommand::Join { member, options } => {
                let remote = Remote::new(&member.server)?;
                let membership = join(&remote, member, options).await?;
                output::message(format, &membership, membership_text)
            }
            GroupCommand::Leave { member } => leave(member, format).await,
            GroupCommand::Send { member, payload } => send(member, payload, format).await,
            GroupCommand::Delete { group, dry_run: true, server } => {
                dry_run::group(&Remote::new(&server)?, group, format).await
            }
            GroupCommand::Delete { group, dry_run: false, server } => {
                let remote = Remote::new(&server)?;
                let request = v1::DeleteGroupRequest { request_id: request_id(), group };
                let answer = remote.tic().delete_group(request).await;
                let answer = answer.map_err(|status| remote.failed(status))?.into_inner();
                output::message(format, &answer, |_| "deleted".to_owned())
            }
            GroupCommand::Show { group, server } => {
                let remote = Remote::new(&server)?;
                let group = show(&remote, group).await?;
                output::message(format, &group, group_text)
            }
            GroupCommand::List { server } => {
                let remote = Remote::new(&server)?;
                let groups = remote.groups(false).await?;
                let list = v1::ListGroupsResponse { groups, ..Default::default() };
                output::message(format, &list, |list| list_text(&list.groups))
            }
            GroupCommand::Plan { groups, server } => {
                plan(&Remote::new(&server)?, &groups, format).await
            }
            GroupCommand::Form(args) => form::form(args, format).await,
            GroupCommand::EndJob { job, dry_run, server } => {
                form::end_job(job, dry_run, &server, format).await
            }
        }
    })
}

async fn create(member: MemberArgs, options: NewGroupArgs, format: Format) -> Result<(), Failure> {
    let remote = Remote::new(&member.server)?;
    let request = v1::GetGroupRequest { group: member.group.clone(), gn: 0, ..Default::default() };
    match remote.tic().get_group(request).await {
        Ok(_) => return Err(Failure::No(format!("group '{}' exists already", member.group))),
        Err(status) if status.code() == tonic::Code::NotFound => {}
        Err(status) => return Err(remote.failed(status)),
    }
    let membership = join(&remote, member, options).await?;
    output::message(format, &membership, membership_text)
}

async fn join(
    remote: &Remote,
    member: MemberArgs,
    options: NewGroupArgs,
) -> Result<v1::Membership, Failure> {
    let request = v1::OperatingAgentServiceJoinGroupRequest {
        node: member.node,
        group: member.group,
        process: member.process,
        endpoint: options.endpoint.unwrap_or_default(),
        mgid: options.mgid,
        persistent: options.persistent,
        exclusive: options.exclusive,
        request_id: request_id(),
        hints: Some(v1::MgidHints {
            expected_endpoints: options.expect,
            layer: options.layer.unwrap_or_default(),
            ..Default::default()
        }),
        job: options.job.unwrap_or_default(),
        complete_at_member_count: options.complete_at.unwrap_or_default(),
    };
    let answer =
        remote.agent().join_group(request).await.map_err(|status| remote.failed(status))?;
    Ok(answer.into_inner().membership.unwrap_or_default())
}

async fn leave(member: MemberArgs, format: Format) -> Result<(), Failure> {
    let remote = Remote::new(&member.server)?;
    let request = v1::OperatingAgentServiceLeaveGroupRequest {
        node: member.node,
        group: member.group,
        process: member.process,
        request_id: request_id(),
    };
    let answer =
        remote.agent().leave_group(request).await.map_err(|status| remote.failed(status))?;
    output::message(format, &answer.into_inner(), |_| "left".to_owned())
}

async fn send(member: MemberArgs, payload: String, format: Format) -> Result<(), Failure> {
    let remote = Remote::new(&member.server)?;
    let request = v1::SendPacketRequest {
        node: member.node,
        group: member.group,
        process: member.process,
        payload: payload.into_bytes(),
    };
    let answer = remote.agent().send_packet(request).await;
    let answer = answer.map_err(|status| remote.failed(status))?.into_inner();
    output::message(format, &answer, |_| "sent".to_owned())
}

async fn show(remote: &Remote, group: String) -> Result<v1::Group, Failure> {
    let request = v1::GetGroupRequest { group, gn: 0, ..Default::default() };
    let answer = remote.tic().get_group(request).await.map_err(|status| remote.failed(status))?;
    Ok(answer.into_inner().group.unwrap_or_default())
}

/// Asks which MGIDs the groups of a file would get; those that have one are left out.
async fn plan(remote: &Remote, file: &Path, format: Format) -> Result<(), Failure> {
    let groups = group_file::read_named(file, &remote.graph().await?)?;
    let open = groups.into_iter().filter(|group| group.mgid.is_none());
    let planned =
        open.map(|group| v1::PlannedGroup { group: group.name, endpoints: group.members });
    let request = v1::PlanMgidsRequest { groups: planned.collect() };
    let answer = remote.tic().plan_mgids(request).await.map_err(|status| remote.failed(status))?;
    output::message(format, &answer.into_inner(), |answer| {
        let titles = ["GROUP", "MGID", "COLOR", "TREE", "CONFLICTING", "MERGING"];
        let mut rows = Rows::new(&titles);
        for one in &answer.mgids {
            let numbers = [
                one.mgid,
                one.color,
                one.spanning_tree,
                one.conflicting_members,
                one.merging_members,
            ];
            let numbers = numbers.iter().map(ToString::to_string);
            rows.push(std::iter::once(one.group.clone()).chain(numbers).collect());
        }
        rows.to_string()
    })
}

fn membership_text(membership: &v1::Membership) -> String {
    format!(
        "joined '{}': gn {}, mgid {}, pn {}, group agent on {}",
        membership.group, membership.gn, membership.mgid, membership.pn, membership.agent_node
    )
}

/// Route state, color and what is special, in few words.
fn route_text(group: &v1::Group) -> (String, String) {
    match &group.route {
        _ if group.incomplete => {
            let (there, all) = (group.member_count, group.complete_at_member_count);
            (format!("waiting for members: {there} of {all}"), "-".to_owned())
        }
        None => ("waiting".to_owned(), "-".to_owned()),
        Some(route) if route.state() == v1::RouteState::Routed => {
            let state =
                if route.routed_revision >= group.members_revision { "routed" } else { "waiting" };
            (state.to_owned(), route.color.to_string())
        }
        // What kept it from having one may not be so any more.
        Some(route) if route.routed_revision < group.members_revision => {
            ("waiting".to_owned(), "-".to_owned())
        }
        Some(route) => (format!("unicast only: {}", route.reason), "-".to_owned()),
    }
}

fn list_text(groups: &[v1::Group]) -> String {
    let mut rows = Rows::new(&["GN", "GROUP", "MGID", "MEMBERS", "ROUTE", "COLOR", "AGENT"]);
    for group in groups {
        let (state, color) = route_text(group);
        rows.push(vec![
            group.gn.to_string(),
            group.name.clone(),
            group.mgid.to_string(),
            group.member_count.to_string(),
            state,
            color,
            group.agent_node.clone(),
        ]);
    }
    rows.to_string()
}

fn group_text(group: &v1::Group) -> String {
    let mut rows = Rows::new(&["PN", "NODE", "ENDPOINT", "PROCESS", "AGENT ADDRESS"]);
    for member in &group.members {
        rows.push(vec![
            member.pn.to_string(),
            member.node.clone(),
            member.endpoint.clone(),
            member.process.clone(),
            member.address.clone(),
        ]);
    }
    let mut text = list_text(std::slice::from_ref(group));
    if !group.job.is_empty() {
        text += &format!("\nof job '{}'", group.job);
    }
    if group.complete_at_member_count > 0 && !group.incomplete {
        text += &format!("\ncomplete, it waited for {} members", group.complete_at_member_count);
    }
    format!("{text}\n\n{rows}")
}
