//! Collectives of a running control plane.

use fabricast_proto::v1;
use fabricast_rpc::reason_of;
use tonic::Status;

use crate::args::{
    CollectiveArgs, CreateCollectiveArgs, Format, HolderArgs, QuotaArgs, ReserveArgs, ServerArgs,
};
use crate::failure::Failure;
use crate::output::{self, Rows};
use crate::remote::Remote;

/// Collectives asked for at once when a list is read.
const PAGE: u32 = 1000;

/// Runs `collective create`.
pub(super) async fn create(args: CreateCollectiveArgs, format: Format) -> Result<(), Failure> {
    let remote = Remote::new(&args.server)?;
    let operations =
        args.operations.iter().map(|operation| super::wire_operation(*operation).into());
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
    let answer = remote.collectives().create_collective(request).await;
    let answer = answer.map_err(|status| refused(&remote, status))?.into_inner();
    print(&answer.collective.unwrap_or_default(), format)
}

/// That there is no tree or no more room is an answer; everything else is a fault.
fn refused(remote: &Remote, status: Status) -> Failure {
    match reason_of(&status).as_deref() {
        Some("NO_SWITCH_TREE" | "QUOTA_REACHED" | "MEMBER_CUT_OFF" | "NO_ROOM") => {
            Failure::No(status.message().to_owned())
        }
        Some(_) | None => remote.failed(status),
    }
}

/// Runs `collective release`.
pub(super) async fn release(args: CollectiveArgs, format: Format) -> Result<(), Failure> {
    let remote = Remote::new(&args.server)?;
    let name = args.collective.clone();
    let request = v1::ReleaseCollectiveRequest { name: args.collective };
    let answer = remote.collectives().release_collective(request).await;
    let answer = answer.map_err(|status| remote.failed(status))?.into_inner();
    if !answer.released {
        return Err(Failure::No(format!("no collective '{name}'")));
    }
    output::message(format, &answer, |_| "released".to_owned())
}

/// Asks for one collective.
pub(super) async fn find(remote: &Remote, name: String) -> Result<v1::Collective, Failure> {
    let answer = remote.collectives().get_collective(v1::GetCollectiveRequest { name }).await;
    let answer = answer.map_err(|status| remote.failed(status))?.into_inner();
    Ok(answer.collective.unwrap_or_default())
}

/// Runs `collective show`.
pub(super) async fn show(args: CollectiveArgs, format: Format) -> Result<(), Failure> {
    let remote = Remote::new(&args.server)?;
    print(&find(&remote, args.collective).await?, format)
}

/// Runs `collective list`.
pub(super) async fn list(server: &ServerArgs, format: Format) -> Result<(), Failure> {
    let remote = Remote::new(server)?;
    let mut collectives = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = v1::ListCollectivesRequest { page_size: PAGE, page_token };
        let page = remote.collectives().list_collectives(request).await;
        let page = page.map_err(|status| remote.failed(status))?.into_inner();
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
pub(super) async fn usage(server: &ServerArgs, format: Format) -> Result<(), Failure> {
    let remote = Remote::new(server)?;
    let answer = remote.collectives().get_entry_usage(v1::GetEntryUsageRequest {}).await;
    let answer = answer.map_err(|status| remote.failed(status))?.into_inner();
    output::message(format, &answer, usage_text)
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
    let answer = remote.collectives().reserve_entries(request).await;
    let answer = answer.map_err(|status| refused(&remote, status))?.into_inner();
    output::message(format, &answer, |answer| {
        let id = answer.reservation.as_ref().map_or(0, |reservation| reservation.id);
        format!("reservation {id}")
    })
}

/// Runs `collective cancel`.
pub(super) async fn cancel(id: u32, server: &ServerArgs, format: Format) -> Result<(), Failure> {
    let remote = Remote::new(server)?;
    let answer = remote.collectives().cancel_reservation(v1::CancelReservationRequest { id }).await;
    let answer = answer.map_err(|status| remote.failed(status))?.into_inner();
    if !answer.cancelled {
        return Err(Failure::No(format!("no reservation {id}")));
    }
    output::message(format, &answer, |_| "cancelled".to_owned())
}

/// Runs `collective quota`.
pub(super) async fn quota(args: QuotaArgs, format: Format) -> Result<(), Failure> {
    let remote = Remote::new(&args.server)?;
    let quota = v1::CollectiveQuota {
        holder: Some(holder(args.holder)),
        collectives: args.collectives,
        entries: args.entries,
        entries_per_switch: args.entries_per_switch.map(u32::from),
    };
    let request = v1::SetCollectiveQuotaRequest { quota: Some(quota) };
    let answer = remote.collectives().set_collective_quota(request).await;
    let answer = answer.map_err(|status| remote.failed(status))?.into_inner();
    output::message(format, &answer, |_| "set".to_owned())
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
            format!("{kind} tree {}: {}", tree.tree, holders.join(", "))
        });
        let trees: Vec<String> = trees.collect();
        format!("{}\n{}\n{rows}", table(std::slice::from_ref(one)), trees.join("\n"))
    })
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
    let titles =
        ["COLLECTIVE", "GROUP", "TENANT", "JOB", "RUNS ON", "ENTRIES", "PROGRAMMED", "WHY"];
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
            one.reason.clone(),
        ]);
    }
    rows.to_string()
}

fn holder_text(holder: Option<&v1::CollectiveHolder>) -> (String, String) {
    let holder = holder.cloned().unwrap_or_default();
    (holder.tenant, holder.job.unwrap_or_else(|| "(all)".to_owned()))
}

fn usage_text(usage: &v1::GetEntryUsageResponse) -> String {
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
    for one in &usage.usages {
        let (tenant, job) = holder_text(one.holder.as_ref());
        holders.push(vec![tenant, job, one.collectives.to_string(), one.entries.to_string()]);
    }
    let mut text = format!("{switches}\n\n{holders}");
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
