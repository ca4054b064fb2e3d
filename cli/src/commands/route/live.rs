//! `fabricast route verify --live`: packets through what the switches really hold.

use std::time::{Duration, Instant};

use anyhow::Context;
use fabricast_proto::v1;
use fabricast_proto::v1::directory_change::Kind;
use fabricast_routing::verify::{self, Senders};
use fabricast_topology::TableKind;

use super::deadlock::Deadlock;
use super::verify::{Verdict, VerifyArgs, in_words, listed, say};
use crate::args::Format;
use crate::failure::Failure;
use crate::output;
use crate::progress::Progress;
use crate::remote::Remote;
use crate::verify_input;

/// Most attempts to read records and tables without a change in between.
const ATTEMPTS: u32 = 25;
const PAUSE: Duration = Duration::from_millis(200);
/// Largest message of a switch agent, in bytes.
const MESSAGE_LIMIT: usize = 64 * 1024 * 1024;

/// Records and tables read together.
#[derive(Default)]
struct Moment {
    revision: u64,
    groups: Vec<v1::Group>,
    failed: Vec<v1::Element>,
    switches: Vec<v1::Switch>,
    tables: Vec<v1::SwitchTable>,
    trees: u8,
    settled: bool,
}

/// Reads records and tables until nothing changes in between, and walks packets of all members.
///
/// # Errors
///
/// [`Failure::No`] if a rule is broken; what does not answer.
pub(super) async fn run(args: &VerifyArgs, format: Format) -> Result<(), Failure> {
    let remote = Remote::new(&args.server)?;
    let router = match &args.router {
        Some(router) => remote.elsewhere(router)?,
        None => remote.clone(),
    };
    let graph = remote.graph().await?;
    let started = Instant::now();
    let progress = Progress::of_time("reading");
    let moment = settled(&remote, &router, &args.switch_agents).await?;
    progress.finish();
    if !moment.settled {
        output::notice("fabricast: the route service is at work; what differs may be on its way");
    }
    let entries = verify_input::entries(&graph, &moment.tables)?;
    let groups = verify_input::delivery_groups(&graph, &moment.groups, moment.trees)?;
    let first = moment.switches.first().cloned().unwrap_or_default();
    let tables = match first.table_kind() {
        v1::TableKind::PerSwitch => TableKind::PerSwitch,
        v1::TableKind::PerPort | v1::TableKind::Unspecified => TableKind::PerPort,
    };
    let senders = if args.all_senders { Senders::All } else { Senders::OnePerSwitch };
    let colors = u16::try_from(first.colors).context("colors of the switches")?;
    let options = verify::Options { colors, tables, senders, list: listed(format) };
    let faults = verify_input::faults(&graph, &moment.failed);
    let progress = Progress::of_time("verifying");
    let report = verify::verify(&graph, &faults, &groups, &entries, options);
    progress.finish();
    let mut violations: Vec<String> =
        report.violations.iter().map(|violation| in_words(&graph, violation)).collect();
    let mut violation_count = report.violation_count;
    // Packets of one sender for each switch say nothing of the entries of the others.
    if args.all_senders && report.unused_entries > 0 {
        violations.push(format!("R4: {} entries that no packet meets", report.unused_entries));
        violation_count += 1;
    }
    let is_lossless = args.lossless.unwrap_or(false);
    let deadlock = report.cycle.as_ref().map(|cycle| Deadlock::new(&graph, cycle, is_lossless));
    violation_count += u64::from(deadlock.as_ref().is_some_and(Deadlock::is_violation));
    let cut_off = moment.groups.iter().filter_map(|group| group.route.as_ref());
    let verdict = Verdict {
        groups: report.groups,
        unrouted: moment.groups.len() - report.groups,
        cut_off: cut_off.map(|route| route.cut_off_endpoints.len()).sum(),
        packets: report.packets,
        delivered: report.delivered,
        hops: report.hops,
        entries: report.entries,
        unused_entries: report.unused_entries,
        violations,
        violation_count,
        deadlock,
        elapsed_ms: started.elapsed().as_secs_f64() * 1e3,
    };
    say(&verdict, format)
}

async fn settled(remote: &Remote, router: &Remote, agents: &[String]) -> Result<Moment, Failure> {
    let mut attempt = 1;
    loop {
        let status = router.route_status().await?;
        let mut moment = directory(remote).await?;
        tables(remote, agents, &mut moment).await?;
        let (after, again) = (directory(remote).await?, router.route_status().await?);
        moment.trees = if again.fault_tolerant { 2 } else { 1 };
        moment.settled = status.settled
            && again.settled
            && again.seen_revision >= moment.revision
            && after.revision == moment.revision;
        if moment.settled || attempt == ATTEMPTS {
            return Ok(moment);
        }
        attempt += 1;
        tokio::time::sleep(PAUSE).await;
    }
}

/// Reads groups, members and failed parts of one revision.
async fn directory(remote: &Remote) -> Result<Moment, Failure> {
    let mut stream =
        remote.answer(remote.tic().watch_directory(v1::WatchDirectoryRequest {})).await?;
    let mut moment = Moment::default();
    let mut groups = std::collections::BTreeMap::new();
    while let Some(message) = stream.message().await.map_err(|status| remote.failed(status))? {
        for change in message.changes.into_iter().filter_map(|change| change.kind) {
            match change {
                Kind::Group(group) => drop(groups.insert(group.gn, group)),
                Kind::Joined(v1::MemberChange { gn, member: Some(member) }) => {
                    groups.entry(gn).or_insert_with(v1::Group::default).members.push(member);
                }
                Kind::FailedElements(list) => moment.failed = list.elements,
                Kind::Joined(_)
                | Kind::Left(_)
                | Kind::DeletedGn(_)
                | Kind::Node(_)
                | Kind::RemovedNode(_) => {}
            }
        }
        moment.revision = moment.revision.max(message.revision);
        if message.snapshot_end {
            break;
        }
    }
    moment.groups = groups.into_values().collect();
    Ok(moment)
}

/// Reads the tables of all switches through their agents.
async fn tables(remote: &Remote, agents: &[String], moment: &mut Moment) -> Result<(), Failure> {
    let agents = match agents {
        [] => remote.switch_agents().await?,
        given => remote.switch_agents_at(given)?,
    };
    for (agent, client) in agents {
        let mut client = client.max_decoding_message_size(MESSAGE_LIMIT);
        let listed = agent.answer(client.list_switches(v1::ListSwitchesRequest {})).await?;
        moment.switches.extend(listed.switches);
        let mut stream = agent.answer(client.read_tables(v1::ReadTablesRequest::default())).await?;
        while let Some(part) = stream.message().await.map_err(|status| agent.failed(status))? {
            moment.tables.extend(part.table);
        }
    }
    Ok(())
}
