//! Jobs and tenants: who has which nodes, groups and aggregation entries, and where a job is.

use std::collections::BTreeMap;

use fabricast_drawing::{Scope, draw};
use fabricast_placement::hostlist;
use fabricast_proto::v1;
use maud::{Markup, html};

use super::Page;
use super::parts::{ENTRIES, fact, group_link, legend, name, node_link, pages, picture, rows_of};
use crate::details::{Answer, Details, JobsDetail};
use crate::http::{Query, encoded};
use crate::snapshot::Snapshot;

/// Most rows of a list without pages.
const LISTED: usize = 200;

/// All jobs, by account, and the room for more.
pub(crate) async fn jobs(details: &Details, query: &Query) -> Page {
    let (filter, page) = (query.get("filter"), query.number("page"));
    let answer = details.jobs().await;
    let body = html! {
        h1 { "Jobs" }
        @match &*answer {
            Err(problem) => p .problem role="status" { "Jobs are not known: " (problem) },
            Ok(detail) => {
                (room(&detail.report))
                (listed(detail, filter, page))
                (accounts(&detail.jobs))
                (entries(&detail.usage))
            }
        }
    };
    Page::new("/jobs", "Jobs", body)
}

fn room(report: &Answer<v1::GetJobReportResponse>) -> Markup {
    html! {
        @match &**report {
            // Other fabrics than fat trees have no placement by classes.
            Err(problem) => p .soft { "No room is computed: " (problem) },
            Ok(report) => {
                dl .facts {
                    (fact("Nodes for jobs", report.live_nodes))
                    (fact("Of these free", report.free_nodes))
                    @for room in &report.rooms {
                        (fact(&format!("Largest {} job now", class(room.job_class())), format!("{} of {}", room.fitting_nodes, room.most_nodes)))
                    }
                }
            }
        }
    }
}

fn listed(detail: &JobsDetail, filter: &str, page: usize) -> Markup {
    let share = |job: &v1::Job| job.share.clone().unwrap_or_default();
    let is_wanted = |job: &&v1::Job| {
        let share = share(job);
        [&job.name, &share.account, &share.user].iter().any(|text| text.contains(filter))
    };
    let found: Vec<&v1::Job> = detail.jobs.iter().filter(is_wanted).collect();
    html! {
        form method="get" action="/jobs" data-filter="" {
            label for="filter" { "Part of the name, account or user (press /)"
                input #filter type="search" name="filter" value=(filter) maxlength="256";
            }
            noscript { button { "Show" } }
        }
        p .soft { (found.len()) " of " (detail.jobs.len()) " jobs"
            @if detail.is_cut { ", and more that are not shown" } }
        div .scroll tabindex="0" role="group" aria-label="Jobs" {
            table {
                thead { tr { th { "Job" } th .number { "Nodes" } th { "Class" } th { "Account" } th { "User" }
                    th .number { "Groups" } th { "State" } th { "Where" } } }
                tbody {
                    @for job in rows_of(&found, page) {
                        @let share = share(job);
                        tr {
                            td { a href={ "/job?name=" (encoded(&job.name)) } { (name(&job.name)) } }
                            td .number { (job.nodes.len()) }
                            td { (class(job.job_class())) }
                            td { (or_dash(&share.account)) }
                            td { (or_dash(&share.user)) }
                            td .number { (groups(job)) }
                            td { (state(job)) }
                            td { (name(&nodes(job))) }
                        }
                    }
                }
            }
        }
        (pages(&format!("/jobs?filter={}&page=", encoded(filter)), page, found.len()))
    }
}

/// Sums over the jobs of each account.
fn accounts(jobs: &[v1::Job]) -> Markup {
    #[derive(Default)]
    struct Sum {
        jobs: usize,
        nodes: usize,
        groups: u64,
        used: u64,
    }
    let mut sums: BTreeMap<&str, Sum> = BTreeMap::new();
    for job in jobs {
        let Some(share) = &job.share else { continue };
        let sum = sums.entry(&share.account).or_default();
        sum.jobs += 1;
        sum.nodes += job.nodes.len();
        sum.groups += u64::from(share.group_count);
        sum.used += u64::from(share.used_group_count);
    }
    html! {
        h2 { "Accounts" }
        @if sums.is_empty() { p .soft { "No job has groups reserved for it." } }
        @else {
            div .scroll tabindex="0" role="group" aria-label="Accounts" {
                table #accounts {
                    thead { tr { th { "Account" } th .number { "Jobs" } th .number { "Nodes" }
                        th .number { "Groups reserved" } th .number { "Groups in use" } } }
                    tbody { @for (account, sum) in sums.iter().take(LISTED) {
                        tr { td { (or_dash(account)) } td .number { (sum.jobs) } td .number { (sum.nodes) }
                            td .number { (sum.groups) } td .number { (sum.used) } }
                    } }
                }
            }
        }
    }
}

/// Aggregation entries: what tenants and their jobs hold, may hold, and have reserved.
fn entries(usage: &Answer<v1::GetEntryUsageResponse>) -> Markup {
    let usage = match &**usage {
        Ok(usage) => usage,
        Err(problem) => {
            return html! { h2 { "Tenants" } p .problem role="status" { (problem) } };
        }
    };
    let mut holders: BTreeMap<(String, Option<String>), Holding<'_>> = BTreeMap::new();
    let key = |holder: &Option<v1::CollectiveHolder>| {
        let holder = holder.clone().unwrap_or_default();
        (holder.tenant, holder.job)
    };
    for one in &usage.usages {
        holders.entry(key(&one.holder)).or_default().usage = Some(one);
    }
    for one in &usage.quotas {
        holders.entry(key(&one.holder)).or_default().quota = Some(one);
    }
    for one in &usage.reservations {
        holders.entry(key(&one.holder)).or_default().reservations.push(one);
    }
    html! {
        h2 { "Tenants: collectives and aggregation entries" }
        @if holders.is_empty() { p .soft { "No tenant holds, may hold or has reserved any." } }
        @else {
            div .scroll tabindex="0" role="group" aria-label="Tenants" {
                table #tenants {
                    thead { tr { th { "Tenant" } th { "Job" } th .number { "Collectives" } th .number { "Entries" }
                        th { "Quota" } th { "Reserved" } } }
                    tbody { @for ((tenant, job), holding) in holders.iter().take(LISTED) {
                        tr {
                            td { (or_dash(tenant)) }
                            td { @match job { None => "all", Some(job) => (or_dash(job)) } }
                            td .number { (holding.usage.map_or(0, |usage| usage.collectives)) }
                            td .number { (holding.usage.map_or(0, |usage| usage.entries)) }
                            td { (holding.quota.map_or_else(|| "–".to_owned(), quota)) }
                            td { (reserved(&holding.reservations)) }
                        }
                    } }
                }
            }
        }
        p .soft { (usage.switches.len()) " switches hold or keep aggregation entries." }
    }
}

/// Usage, quota and reservations of one holder.
#[derive(Default)]
struct Holding<'a> {
    usage: Option<&'a v1::CollectiveUsage>,
    quota: Option<&'a v1::CollectiveQuota>,
    reservations: Vec<&'a v1::CollectiveReservation>,
}

fn quota(quota: &v1::CollectiveQuota) -> String {
    let limits = [
        ("collectives", quota.collectives),
        ("entries", quota.entries),
        ("a switch", quota.entries_per_switch),
    ];
    let limits = limits.into_iter().filter_map(|(what, most)| Some(format!("{} {what}", most?)));
    let limits: Vec<String> = limits.collect();
    if limits.is_empty() { "–".to_owned() } else { limits.join(", ") }
}

fn reserved(reservations: &[&v1::CollectiveReservation]) -> String {
    let texts = reservations.iter().map(|one| {
        format!("{} above {} endpoints (number {})", one.entries, one.endpoints.len(), one.id)
    });
    let texts: Vec<String> = texts.collect();
    if texts.is_empty() { "–".to_owned() } else { texts.join(", ") }
}

/// One job: its share, its groups, and where its nodes are.
pub(crate) async fn job(now: &Snapshot, details: &Details, query: &Query) -> Page {
    let wanted = query.get("name");
    if wanted.is_empty() {
        return Page::not_found("A job has a name.");
    }
    let answer = details.job(wanted).await;
    let job = match &*answer {
        Ok(job) => job,
        Err(problem) => return Page { is_found: false, ..Page::missing("/jobs", "Job", problem) },
    };
    let groups: Vec<&str> =
        now.groups.values().filter(|group| group.job == job.name).map(|one| &*one.name).collect();
    let body = html! {
        h1 { "Job " (name(&job.name)) }
        dl .facts {
            (fact("Nodes", job.nodes.len()))
            (fact("Class", class(job.job_class())))
            (fact("State", state(job)))
            @if let Some(share) = &job.share {
                (fact("Account", or_dash(&share.account)))
                (fact("User", or_dash(&share.user)))
                (fact("Groups in use", format!("{} of {}", share.used_group_count, share.group_count)))
                (fact("Groups of a step", share.groups_per_step))
                (fact("Aggregation entries", share.aggregation_entries))
            }
        }
        (placement(now, job))
        h2 { "Nodes" }
        p { @for (at, node) in job.nodes.iter().take(LISTED).enumerate() {
            @if at > 0 { ", " } (node_link(&node.node))
        } @if job.nodes.len() > LISTED { " and " (job.nodes.len() - LISTED) " more" } }
        h2 { "Groups" }
        @if groups.is_empty() { p .soft { "None." } }
        @else { ul { @for group in groups.iter().take(LISTED) { li { (group_link(group)) } }
            @if groups.len() > LISTED { li { "and " (groups.len() - LISTED) " more" } } } }
    };
    Page::new("/jobs", wanted, body)
}

/// The fabric with the leaf switches of a job's nodes marked.
fn placement(now: &Snapshot, job: &v1::Job) -> Markup {
    let Some(fabric) = &now.fabric else { return html! {} };
    let mut overlay = now.overlay();
    let endpoints = job.nodes.iter().flat_map(|node| &node.endpoints);
    overlay.members.extend(endpoints.filter_map(|name| fabric.graph().find_endpoint(name)));
    let drawing = draw(fabric, Scope::Whole, &overlay);
    html! {
        h2 { "Placement" }
        (picture(fabric, &drawing, ""))
        (legend(true, Some(ENTRIES)))
    }
}

fn class(class: v1::JobClass) -> &'static str {
    match class {
        v1::JobClass::Unspecified => "–", // its scheduler chose the nodes
        v1::JobClass::T0 => "T0",
        v1::JobClass::T1 => "T1",
        v1::JobClass::T2 => "T2",
        v1::JobClass::T3 => "T3",
    }
}

fn groups(job: &v1::Job) -> String {
    let share = job.share.as_ref();
    share.map_or_else(
        || "–".to_owned(),
        |share| format!("{} of {}", share.used_group_count, share.group_count),
    )
}

fn state(job: &v1::Job) -> Markup {
    html! {
        @match &job.share {
            None => "runs",
            Some(share) if share.ending => span .warn { "ends" },
            Some(share) => {
                "runs"
                @if let Some(time) = &share.expire_time { ", released at " (time) }
            }
        }
    }
}

fn or_dash(text: &str) -> Markup {
    html! { @if text.is_empty() { "–" } @else { (name(text)) } }
}

/// Nodes as a hostlist, or as a list if a name does not fit into one.
fn nodes(job: &v1::Job) -> String {
    let names = job.nodes.iter().map(|node| node.node.as_str());
    let all = names.clone().all(hostlist::is_node_name);
    let text = if all { hostlist::compress(names) } else { names.collect::<Vec<_>>().join(", ") };
    match text.char_indices().nth(LISTED) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
