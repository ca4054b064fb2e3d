//! Collectives of a running control plane.

use clap::{Args, value_parser};
use fabricast_collectives::Operation;
use fabricast_proto::v1;
use fabricast_rpc::RpcError;

use super::model::{operation, wire_operation};
use crate::args::{Format, ServerArgs, WatchArgs};
use crate::failure::Failure;
use crate::output::{self, Rows};
use crate::remote::{self, Remote};

/// Collectives per page of a list.
const PAGE: u32 = 1000;
/// Names of rows of holders, for [`output::left_out`].
const HOLDERS: [&str; 2] = ["holder", "holders"];

/// Options of `collective create`.
#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// Name of the collective.
    collective: String,
    /// Name of the group whose members take part.
    #[arg(long)]
    group: String,
    /// Tenant it belongs to.
    #[arg(long, default_value = "")]
    tenant: String,
    /// Job of the tenant it belongs to.
    #[arg(long, default_value = "")]
    job: String,
    /// Operations that the collective will run.
    #[arg(long, value_delimiter = ',', value_parser = operation(),
        default_value = "barrier,broadcast,reduce,all-reduce")]
    operations: Vec<Operation>,
    /// Smallest message size in bytes.
    #[arg(long, default_value_t = 0)]
    min_bytes: u32,
    /// Largest message size in bytes.
    #[arg(long, default_value_t = 4096)]
    max_bytes: u32,
    /// Exit 1 if there is no switch tree, instead of using an adapter tree.
    #[arg(long)]
    require_switch_tree: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// Name of a collective, and the server that has it.
#[derive(Debug, Args)]
pub(crate) struct CollectiveArgs {
    /// Name of the collective.
    pub(super) collective: String,
    #[command(flatten)]
    pub(super) server: ServerArgs,
}

/// Options of `collective reserve`.
#[derive(Debug, Args)]
pub(crate) struct ReserveArgs {
    #[command(flatten)]
    holder: HolderArgs,
    /// Entries to reserve in each switch.
    #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..))]
    entries: u16,
    /// Endpoints; entries are reserved in their leaf switches and the switches above.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', required = true)]
    endpoints: Vec<String>,
    #[command(flatten)]
    server: ServerArgs,
}

/// Options of `collective limit`.
#[derive(Debug, Args)]
pub(crate) struct QuotaArgs {
    #[command(flatten)]
    holder: HolderArgs,
    /// Largest number of collectives; more are refused.
    #[arg(long, value_name = "N")]
    collectives: Option<u32>,
    /// Largest number of entries in all switches together, in use or reserved; collectives beyond
    /// it use adapter trees.
    #[arg(long, value_name = "N")]
    entries: Option<u32>,
    /// Largest number of entries in any one switch, in use or reserved.
    #[arg(long, value_name = "N")]
    entries_per_switch: Option<u16>,
    #[command(flatten)]
    server: ServerArgs,
}

/// Options of `collective usage`.
#[derive(Debug, Args)]
pub(crate) struct UsageArgs {
    /// Also list tenants and jobs whose collectives hold no entry; JSON has all of them.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    watch: WatchArgs,
    #[command(flatten)]
    server: ServerArgs,
}

/// A tenant, or one job of it.
#[derive(Debug, Args)]
pub(crate) struct HolderArgs {
    /// Name of the tenant.
    #[arg(long)]
    tenant: String,
    /// One job of the tenant; default: the tenant with all its jobs.
    #[arg(long)]
    job: Option<String>,
}

/// Runs `collective create`.
pub(super) async fn create(args: CreateArgs, format: Format) -> Result<(), Failure> {
    let remote = Remote::new(&args.server)?;
    let operations = args.operations.iter().map(|operation| wire_operation(*operation).into());
    let request = v1::CreateCollectiveRequest {
        name: args.collective,
        group: args.group,
        tenant: args.tenant,
        job: args.job,
        operations: operations.collect(),
        min_bytes: args.min_bytes,
        max_bytes: args.max_bytes,
        switch_tree_required: args.require_switch_tree,
    };
    let answer = remote::answer(remote.collectives().create_collective(request)).await;
    let answer = answer.map_err(|error| refused(&remote, error))?;
    print(&answer.collective.unwrap_or_default(), format)
}

/// Interprets a refusal: a lack of trees or room is the answer no, all else is an error.
fn refused(remote: &Remote, error: RpcError) -> Failure {
    match error.reason_text().as_deref() {
        Some("NO_SWITCH_TREE" | "QUOTA_REACHED" | "MEMBER_CUT_OFF" | "NO_ROOM") => {
            Failure::No(error.message().to_owned())
        }
        Some(_) | None => remote.failed(error),
    }
}

/// Runs `collective delete`.
pub(super) async fn delete(args: CollectiveArgs, format: Format) -> Result<(), Failure> {
    let remote = Remote::new(&args.server)?;
    let name = args.collective.clone();
    let request = v1::ReleaseCollectiveRequest { name: args.collective };
    let answer = remote.answer(remote.collectives().release_collective(request)).await?;
    if !answer.released {
        return Err(Failure::input(format!("no collective '{name}'")));
    }
    let text = format!("collective {name} deleted, its entries are released");
    output::done(format, "collective", &name, &answer, |_| text)
}

/// Fetches one collective.
pub(super) async fn find(remote: &Remote, name: String) -> Result<v1::Collective, Failure> {
    let answer = remote
        .answer(remote.collectives().get_collective(v1::GetCollectiveRequest { name }))
        .await?;
    Ok(answer.collective.unwrap_or_default())
}

/// Runs `collective show`.
pub(super) async fn show(
    args: CollectiveArgs,
    watch: WatchArgs,
    format: Format,
) -> Result<(), Failure> {
    let remote = Remote::new(&args.server)?;
    output::watched(watch, format, async || {
        print(&find(&remote, args.collective.clone()).await?, format)
    })
    .await
}

/// Runs `collective list`.
pub(super) async fn list(remote: &Remote, format: Format) -> Result<(), Failure> {
    let mut collectives = Vec::new();
    let mut page_token = String::new();
    loop {
        let request =
            v1::ListCollectivesRequest { page_size: PAGE, page_token, ..Default::default() };
        let page = remote.answer(remote.collectives().list_collectives(request)).await?;
        collectives.extend(page.collectives);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    let list = v1::ListCollectivesResponse { collectives, ..Default::default() };
    output::message(format, &list, |list| table(&list.collectives))
}

/// Runs `collective usage`.
pub(super) async fn usage(args: UsageArgs, format: Format) -> Result<(), Failure> {
    let remote = Remote::new(&args.server)?;
    output::watched(args.watch, format, async || {
        let request = v1::GetEntryUsageRequest {};
        let answer = remote.answer(remote.collectives().get_entry_usage(request)).await?;
        output::message(format, &answer, |answer| usage_text(answer, args.all))
    })
    .await
}

fn holder(args: HolderArgs) -> v1::CollectiveHolder {
    v1::CollectiveHolder { tenant: args.tenant, job: args.job }
}

/// Runs `collective reserve`.
pub(super) async fn reserve(args: ReserveArgs, format: Format) -> Result<(), Failure> {
    let remote = Remote::new(&args.server)?;
    let reservation = v1::CollectiveReservation {
        id: 0,
        holder: Some(holder(args.holder)),
        entries: args.entries.into(),
        endpoints: args.endpoints,
    };
    let request = v1::ReserveEntriesRequest { reservation: Some(reservation) };
    let answer = remote::answer(remote.collectives().reserve_entries(request)).await;
    let answer = answer.map_err(|error| refused(&remote, error))?;
    output::message(format, &answer, |answer| {
        let reserved = answer.reservation.clone().unwrap_or_default();
        let (tenant, job) = holder_text(reserved.holder.as_ref());
        format!(
            "reservation {}: {} entries for tenant {tenant}, job {job}",
            reserved.id, reserved.entries
        )
    })
}

/// Runs `collective release`.
///
/// Before reservations were released so, this deleted a collective: any other name still does, and
/// a number is refused while a collective has it for its name.
pub(super) async fn release(
    name: String,
    server: ServerArgs,
    format: Format,
) -> Result<(), Failure> {
    let Ok(id) = name.parse() else {
        return delete(CollectiveArgs { collective: name, server }, format).await;
    };
    let remote = Remote::new(&server)?;
    let request = v1::GetCollectiveRequest { name: name.clone() };
    match remote::answer(remote.collectives().get_collective(request)).await {
        Ok(_) => {
            let failure = Failure::input(format!("'{name}' may be a collective or a reservation"));
            Err(failure.hint(format!(
                "`fabricast collective delete {name}` deletes the collective, `fabricast \
                 collective cancel {name}` releases the reservation"
            )))
        }
        Err(error) if error.reason_text().as_deref() == Some("UNKNOWN_COLLECTIVE") => {
            cancel(&remote, id, format).await
        }
        Err(error) => Err(remote.failed(error)),
    }
}

/// Releases a reservation.
pub(super) async fn cancel(remote: &Remote, id: u32, format: Format) -> Result<(), Failure> {
    let answer = remote
        .answer(remote.collectives().cancel_reservation(v1::CancelReservationRequest { id }))
        .await?;
    if !answer.cancelled {
        return Err(Failure::input(format!("no reservation {id}")));
    }
    let text = format!("reservation {id} released");
    output::done(format, "reservation", &id.to_string(), &answer, |_| text)
}

/// Runs `collective limit`.
pub(super) async fn quota(args: QuotaArgs, format: Format) -> Result<(), Failure> {
    let remote = Remote::new(&args.server)?;
    let whose = match &args.holder.job {
        Some(job) => format!("job {job} of tenant {}", args.holder.tenant),
        None => format!("tenant {}", args.holder.tenant),
    };
    let quota = v1::CollectiveQuota {
        holder: Some(holder(args.holder)),
        collectives: args.collectives,
        entries: args.entries,
        entries_per_switch: args.entries_per_switch.map(u32::from),
    };
    let request = v1::SetCollectiveQuotaRequest { quota: Some(quota) };
    let answer = remote.answer(remote.collectives().set_collective_quota(request)).await?;
    output::done(format, "holder", &whose, &answer, |_| format!("quota of {whose} set"))
}

fn print(collective: &v1::Collective, format: Format) -> Result<(), Failure> {
    output::message(format, collective, |one| {
        let mut rows = Rows::new(&["PROCESS", "NODE", "NAME", "ENDPOINT"]);
        for (number, process) in one.processes.iter().enumerate() {
            let v1::CollectiveProcess { node, process, endpoint } = process.clone();
            rows.push(vec![number.to_string(), node, process, endpoint]);
        }
        let trees = [("switch", &one.switch_tree), ("adapter", &one.adapter_tree)];
        let trees = trees.into_iter().filter_map(|(kind, tree)| Some((kind, tree.as_ref()?)));
        let trees = trees.map(|(kind, tree)| {
            let holders = tree.entries.iter().map(|entry| {
                let holder = entry.holder.as_ref().map_or_else(String::new, node_text);
                format!("{holder} ({} children)", entry.children.len())
            });
            let holders: Vec<String> = holders.collect();
            let choice = one.adapter_tree_choice.filter(|_| kind == "adapter");
            let choice = choice.map(|choice| choice_text(&choice)).unwrap_or_default();
            format!("{kind} tree {}{choice}: {}", tree.tree, holders.join(", "))
        });
        let trees: Vec<String> = trees.collect();
        format!("{}\n{}\n{rows}", table(std::slice::from_ref(one)), trees.join("\n"))
    })
}

/// Says which adapter tree was chosen, and by which constants.
fn choice_text(choice: &v1::AdapterTreeChoice) -> String {
    let family = choice.family().as_str_name().trim_start_matches("TREE_FAMILY_");
    let family = family.to_lowercase().replace('_', "-");
    let by = match choice.constants() {
        v1::ConstantsOrigin::Unspecified => "by an earlier version",
        v1::ConstantsOrigin::Measured => "by measured constants",
        v1::ConstantsOrigin::Configured => "by constants of the settings",
        v1::ConstantsOrigin::Default => "by default constants",
    };
    format!(" ({family} of width {}, chosen {by})", choice.width)
}

fn node_text(node: &v1::AggregationNode) -> String {
    use v1::aggregation_node::Kind;
    match &node.kind {
        Some(Kind::SwitchName(name)) => name.clone(),
        Some(Kind::Process(process)) => process.endpoint.clone(),
        None => String::new(),
    }
}

fn table(collectives: &[v1::Collective]) -> String {
    let titles = [
        "COLLECTIVE",
        "GROUP",
        "TENANT",
        "JOB",
        "RUNS ON",
        "ENTRIES",
        "PROGRAMMED",
        "ENDS WITH",
        "REASON",
    ];
    let mut rows = Rows::new(&titles);
    for one in collectives {
        let state = one.state().as_str_name().trim_start_matches("COLLECTIVE_STATE_");
        rows.push(vec![
            one.name.clone(),
            one.group.clone(),
            one.tenant.clone(),
            one.job.clone(),
            state.to_lowercase().replace('_', "-"),
            one.switch_entries.to_string(),
            if one.programmed { "yes" } else { "no" }.to_owned(),
            if one.requested_by_member { "a change of members" } else { "its group" }.to_owned(),
            one.reason.clone(),
        ]);
    }
    rows.to_string()
}

fn holder_text(holder: Option<&v1::CollectiveHolder>) -> (String, String) {
    let holder = holder.cloned().unwrap_or_default();
    (holder.tenant, holder.job.unwrap_or_else(|| "(all)".to_owned()))
}

fn usage_text(usage: &v1::GetEntryUsageResponse, all: bool) -> String {
    let mut switches = Rows::new(&["SWITCH", "ENTRIES", "USED", "RESERVED", "COLLECTIVES"]);
    for one in &usage.switches {
        switches.push(vec![
            one.switch_name.clone(),
            one.entries.to_string(),
            one.collectives.len().to_string(),
            one.reserved_entries.to_string(),
            one.collectives.join(", "),
        ]);
    }
    let mut holders = Rows::new(&["TENANT", "JOB", "COLLECTIVES", "ENTRIES"]);
    let is_shown = |one: &&v1::CollectiveUsage| all || one.entries > 0;
    let shown: Vec<&v1::CollectiveUsage> = usage.usages.iter().filter(is_shown).collect();
    for one in &shown {
        let (tenant, job) = holder_text(one.holder.as_ref());
        holders.push(vec![tenant, job, one.collectives.to_string(), one.entries.to_string()]);
    }
    let left_out = output::left_out(usage.usages.len() - shown.len(), HOLDERS, "an entry");
    let mut text = format!("{switches}\n\n{holders}{left_out}");
    let most = |limit: Option<u32>| limit.map_or_else(|| "-".to_owned(), |most| most.to_string());
    for one in &usage.quotas {
        let (tenant, job) = holder_text(one.holder.as_ref());
        text.push_str(&format!(
            "\nquota of tenant '{tenant}', job {job}: collectives {}, entries {}, per switch {}",
            most(one.collectives),
            most(one.entries),
            most(one.entries_per_switch)
        ));
    }
    for one in &usage.reservations {
        let (tenant, job) = holder_text(one.holder.as_ref());
        text.push_str(&format!(
            "\nreservation {} of tenant '{tenant}', job {job}: {} entries above {} endpoints",
            one.id,
            one.entries,
            one.endpoints.len()
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adapter_tree_is_shown_with_the_constants_that_chose_it() {
        let choice = v1::AdapterTreeChoice {
            family: v1::TreeFamily::KNomial.into(),
            width: 4,
            constants: v1::ConstantsOrigin::Measured.into(),
        };
        assert_eq!(choice_text(&choice), " (k-nomial of width 4, chosen by measured constants)");
    }

    #[test]
    fn holders_without_an_entry_are_counted_and_listed_if_asked_for() {
        let usage = |tenant: &str, entries| v1::CollectiveUsage {
            holder: Some(v1::CollectiveHolder { tenant: tenant.to_owned(), job: None }),
            collectives: 1,
            entries,
        };
        let answer = v1::GetEntryUsageResponse {
            usages: vec![usage("adapters", 0), usage("physics", 3)],
            ..Default::default()
        };
        let text = usage_text(&answer, false);
        assert!(text.contains("physics") && !text.contains("adapters"), "{text}");
        assert!(text.ends_with("\n1 holder without an entry, which --all lists"), "{text}");
        let text = usage_text(&answer, true);
        assert!(text.contains("adapters") && !text.contains("--all"), "{text}");
    }
}
