//! `fabricast group`: groups of a running control plane.

mod form;
mod send;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, value_parser};
use fabricast_proto::v1;
use fabricast_rpc::request_id;

use crate::args::{Format, JobTokenArgs, ServerArgs, WatchArgs};
use crate::command::{Globals, Run};
use crate::dry_run;
use crate::failure::Failure;
use crate::output::{self, Rows};
use crate::progress::Progress;
use crate::remote::{Remote, block_on};

/// Create, join, leave and show groups of a running control plane.
#[derive(Debug, Subcommand)]
pub(crate) enum GroupCommand {
    /// Create a group with its first member; exit 1 if the group exists.
    Create {
        #[command(flatten)]
        member: MemberArgs,
        #[command(flatten)]
        options: NewGroupArgs,
    },
    /// Join a process to a group, which is created if it does not exist.
    Join {
        #[command(flatten)]
        member: MemberArgs,
        #[command(flatten)]
        options: NewGroupArgs,
    },
    /// Take a process out of a group.
    Leave {
        #[command(flatten)]
        member: MemberArgs,
    },
    /// Send one packet from a member to the others, and count those that get it (at most 64 are
    /// asked); exit 1 if one of them does not.
    Send {
        #[command(flatten)]
        member: MemberArgs,
        /// Payload, as text.
        #[arg(long, default_value = "")]
        payload: String,
    },
    /// Delete a group with all its memberships, or all groups of a job.
    Delete {
        /// Name of the group.
        #[arg(required_unless_present = "job")]
        group: Option<String>,
        /// Delete all groups of this job instead, by its name as they have it.
        #[arg(long, conflicts_with = "group")]
        job: Option<String>,
        /// Only print what it would affect; change nothing.
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Show a group with its members.
    Show {
        /// Name of the group.
        group: String,
        #[command(flatten)]
        watch: WatchArgs,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// List all groups with MGID, members and route.
    List {
        #[command(flatten)]
        watch: WatchArgs,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Print the MGIDs that the groups of a file would get if they were formed now, whatever the
    /// order of its lines; change nothing.
    Plan {
        /// Groups in JSON lines; members are endpoints, by name or GUID of the port.
        #[arg(long, value_name = "FILE")]
        groups: PathBuf,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Form all groups of a file with one call, with one process per endpoint and line; refused as
    /// a whole if anything is wrong.
    Form(form::FormArgs),
    /// Delete all groups of a job with all their memberships: `group delete --job`.
    #[command(hide = true)]
    EndJob {
        /// Name of the job, as its groups have it.
        job: String,
        /// Only print what it would affect; change nothing.
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        server: ServerArgs,
    },
}

/// One process of a group.
#[derive(Debug, Args)]
pub(crate) struct MemberArgs {
    /// Name of the group.
    group: String,
    /// Node of the process.
    #[arg(long)]
    node: String,
    /// Name of the process.
    #[arg(long, default_value = "p0")]
    process: String,
    #[command(flatten)]
    server: ServerArgs,
}

/// Options that a new group takes.
#[derive(Debug, Args)]
pub(crate) struct NewGroupArgs {
    /// Endpoint to join with, name or GUID of its port; default: the first of the node.
    #[arg(long)]
    endpoint: Option<String>,
    /// MGID of a new group; default: chosen by the TIC.
    #[arg(long)]
    mgid: Option<u32>,
    /// Keep the group when its last member leaves.
    #[arg(long)]
    persistent: bool,
    /// Never merge the group with others.
    #[arg(long)]
    exclusive: bool,
    #[command(flatten)]
    token: JobTokenArgs,
    /// Endpoints that are expected to join; helps to choose the MGID.
    #[arg(long, value_name = "ENDPOINT,...", value_delimiter = ',')]
    expect: Vec<String>,
    /// Layer of a new group, such as `job7/rows`: no endpoint is in two groups of a layer, and
    /// layers of one grid share the name up to the last `/`. Helps to choose the MGID.
    #[arg(long)]
    layer: Option<String>,
    /// Job that a new group belongs to; `group delete --job` ends them together.
    #[arg(long)]
    job: Option<String>,
    /// Route a new group only once N members have joined.
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    complete_at: Option<u32>,
}

impl Run for GroupCommand {
    fn run(self, globals: &Globals) -> Result<(), Failure> {
        let format = globals.format;
        block_on(async {
            match self {
                Self::Create { member, options } => create(member, options, format).await,
                Self::Join { member, options } => {
                    let remote = Remote::new(&member.server)?;
                    let membership = join(&remote, member, options).await?;
                    output::message(format, &membership, membership_text)
                }
                Self::Leave { member } => leave(member, format).await,
                Self::Send { member, payload } => send::run(member, payload, format).await,
                Self::Delete { job: Some(job), dry_run, server, .. }
                | Self::EndJob { job, dry_run, server } => {
                    form::end_job(job, dry_run, &server, format).await
                }
                Self::Delete { group, job: None, dry_run, server } => {
                    let (remote, group) = (Remote::new(&server)?, group.unwrap_or_default());
                    match dry_run {
                        true => dry_run::group(&remote, group, format).await,
                        false => delete(&remote, group, format).await,
                    }
                }
                Self::Show { group, watch, server } => {
                    let remote = Remote::new(&server)?;
                    output::watched(watch, format, async || {
                        let group = show(&remote, group.clone()).await?;
                        output::message(format, &group, group_text)
                    })
                    .await
                }
                Self::List { watch, server } => {
                    let remote = Remote::new(&server)?;
                    output::watched(watch, format, async || {
                        let groups = remote.groups(false).await?;
                        let list = v1::ListGroupsResponse { groups, ..Default::default() };
                        output::message(format, &list, |list| list_text(&list.groups))
                    })
                    .await
                }
                Self::Plan { groups, server } => {
                    plan(&Remote::new(&server)?, &groups, format).await
                }
                Self::Form(args) => form::form(args, format).await,
            }
        })
    }

    fn calls_running_parts(&self) -> bool {
        true
    }
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
    output::message(format, &membership, |membership| {
        format!("group '{}' created: {}", membership.group, membership_text(membership))
    })
}

async fn join(
    remote: &Remote,
    member: MemberArgs,
    options: NewGroupArgs,
) -> Result<v1::Membership, Failure> {
    let endpoint = match &options.endpoint {
        Some(text) => remote.endpoint_name(text).await?,
        None => String::new(),
    };
    let host = remote.host_of(&member.node).await?;
    let request = v1::OperatingAgentServiceJoinGroupRequest {
        node: member.node,
        group: member.group,
        process: member.process,
        endpoint,
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
        job_token: options.token.text(),
    };
    let answer = host.answer(host.agent().join_group(request)).await?;
    Ok(answer.membership.unwrap_or_default())
}

async fn delete(remote: &Remote, group: String, format: Format) -> Result<(), Failure> {
    let request = v1::DeleteGroupRequest { request_id: request_id(), group: group.clone() };
    let answer = remote.answer(remote.tic().delete_group(request)).await?;
    output::done(format, "group", &group, &answer, |_| format!("group {group} deleted"))
}

async fn leave(member: MemberArgs, format: Format) -> Result<(), Failure> {
    let host = Remote::new(&member.server)?.host_of(&member.node).await?;
    let left = format!("{} on node {} left group {}", member.process, member.node, member.group);
    let group = member.group.clone();
    let request = v1::OperatingAgentServiceLeaveGroupRequest {
        node: member.node,
        group: member.group,
        process: member.process,
        request_id: request_id(),
    };
    let answer = host.answer(host.agent().leave_group(request)).await?;
    output::done(format, "group", &group, &answer, |_| left)
}

async fn show(remote: &Remote, group: String) -> Result<v1::Group, Failure> {
    let request = v1::GetGroupRequest { group, gn: 0, ..Default::default() };
    let answer = remote.answer(remote.tic().get_group(request)).await?;
    Ok(answer.group.unwrap_or_default())
}

/// Prints the MGIDs that the groups of a file would get, and those that they have; groups without
/// members are left out, as `form` does.
async fn plan(remote: &Remote, file: &Path, format: Format) -> Result<(), Failure> {
    let groups = form::read(remote, file).await?;
    let planned = groups.into_iter().map(|group| v1::PlannedGroup {
        group: group.name,
        endpoints: group.members,
        mgid: group.mgid.map(|mgid| mgid.0),
        ..v1::PlannedGroup::default()
    });
    let request = v1::PlanMgidsRequest { groups: planned.collect() };
    let progress = Progress::of_time("planning");
    let answer = remote.answer(remote.tic().plan_mgids(request)).await?;
    progress.finish();
    output::message(format, &answer, |answer| {
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

/// Formats route state and color for a table.
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
        // The cause that kept it from having one may be gone.
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
            format!("{}{}", member.process, if member.sends_only { " (only sends)" } else { "" }),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_only_send_are_marked() {
        let member = |process: &str, sends_only| {
            let process = process.to_owned();
            v1::Member { process, sends_only, ..Default::default() }
        };
        let members = vec![member("programs@eth0", false), member("senders@eth0", true)];
        let text = group_text(&v1::Group { members, ..Default::default() });
        assert!(text.contains("senders@eth0 (only sends)"), "{text}");
        assert!(!text.contains("programs@eth0 (only sends)"), "{text}");
    }
}
