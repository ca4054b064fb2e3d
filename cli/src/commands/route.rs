//! `fabricast route`: plan, verify and explain offline, explain what is running.

pub(super) mod advice;
mod audit;
mod deadlock;
mod draw;
mod explain;
mod live;
mod plan;
mod rebalance;
mod verify;

use clap::Subcommand;
use fabricast_proto::v1;

use crate::args::{Format, ServerArgs, WatchArgs, value_or_option};
use crate::color::painted_state;
use crate::command::{Globals, Run};
use crate::failure::Failure;
use crate::output::{self, Rows};
use crate::remote::{Remote, block_on};

value_or_option! {
    /// Name of a group.
    struct GroupNameArgs {
        /// Name of the group; of a plan, also its MGID.
        "group": "GROUP"
    }
}

/// Plan, verify and explain routes.
#[derive(Debug, Subcommand)]
pub(crate) enum RouteCommand {
    /// Compute trees for groups without a running control plane.
    Plan(plan::PlanArgs),
    /// Walk packets through the tables in files, or with `--live` in the running switches, and
    /// check that every member is reached exactly once; exit 1 if not.
    Verify(Box<verify::VerifyArgs>),
    /// Explain the route of a group of a running control plane, or with `--topology` as it would be
    /// planned.
    Explain(explain::ExplainArgs),
    /// Move groups to spanning trees on which their packets cross fewer links, without losing any.
    Rebalance(rebalance::RebalanceArgs),
    /// Draw the trees of a group of a running control plane as SVG, on the fabric.
    Draw(draw::DrawArgs),
    /// Show the state of the running route service.
    Status {
        #[command(flatten)]
        watch: WatchArgs,
        #[command(flatten)]
        server: ServerArgs,
    },
}

impl Run for RouteCommand {
    fn run(self, globals: &Globals) -> Result<(), Failure> {
        let format = globals.format;
        match self {
            Self::Plan(args) => plan::run(&args, format),
            Self::Verify(args) if args.live => block_on(live::run(&args, format)),
            Self::Verify(args) => verify::run(&args, format),
            Self::Explain(args) => match &args.topology {
                Some(topology) => explain::run(topology, &args, format),
                None => block_on(explain_running(&args, format)),
            },
            Self::Draw(args) => block_on(draw::run(&args, format)),
            Self::Rebalance(args) => block_on(rebalance::run(&args, format)),
            Self::Status { watch, server } => block_on(async {
                let remote = Remote::new(&server)?;
                output::watched(watch, format, async || {
                    let answer = remote.route_status().await?;
                    output::message(format, &answer, status_text)
                })
                .await
            }),
        }
    }

    fn calls_running_parts(&self) -> bool {
        true
    }
}

async fn explain_running(args: &explain::ExplainArgs, format: Format) -> Result<(), Failure> {
    let remote = Remote::new(&args.server)?;
    output::watched(args.watch, format, async || {
        let request = v1::ExplainRouteRequest { group: args.group.get().to_owned() };
        let answer = remote.answer(remote.router().await?.explain_route(request)).await?;
        output::message(format, &answer.explanation.unwrap_or_default(), explanation_text)
    })
    .await
}

fn explanation_text(explanation: &v1::RouteExplanation) -> String {
    let number = |value: Option<u32>| value.map_or("-".to_owned(), |value| value.to_string());
    // A route without a spanning tree is of an engine whose trees do not follow from MGIDs.
    let has_home = explanation.spanning_tree.is_some() || explanation.color.is_none();
    let mut text = format!(
        "group {}: mgid {}, color {}, spanning tree {} (home {}), virtual group {}, root {}",
        explanation.group,
        explanation.mgid,
        number(explanation.color),
        number(explanation.spanning_tree),
        number(has_home.then_some(explanation.home_spanning_tree)),
        number(explanation.virtual_group),
        if explanation.root.is_empty() { "-" } else { &explanation.root },
    );
    if !explanation.reason.is_empty() {
        text.push_str(&format!("\n{}", explanation.reason));
    }
    if !explanation.shares_with.is_empty() {
        text.push_str(&format!("\nshares its tree with {}", explanation.shares_with.join(", ")));
    }
    if !explanation.cut_off_endpoints.is_empty() {
        text.push_str(&format!("\ncut off: {}", explanation.cut_off_endpoints.join(", ")));
    }
    let mut rows = Rows::new(&["SWITCH", "PORT", "PEER", "PEER PORT"]);
    for link in &explanation.links {
        rows.push(vec![
            link.switch_name.clone(),
            link.port.to_string(),
            link.peer.clone(),
            output::port(link.peer_port),
        ]);
    }
    format!("{text}\n{rows}")
}

fn status_text(status: &v1::GetRouteStatusResponse) -> String {
    if !status.active {
        return "no route service is known to be at work; this one waits for its turn".to_owned();
    }
    let fence = status.fence.unwrap_or_default();
    let mut text = format!(
        "{}, term {}, generation {}: {}\n{} groups in {} virtual groups, {} on unicast only\n\
         entries used {} of {}, {} programmed in all\nEFI max {} mean {:.2}, TFI max {} mean {:.2}\n\
         last round: {} us to compute, {} us to program",
        status.engine,
        fence.term,
        fence.generation,
        painted_state(if status.settled { "settled" } else { "at work" }),
        status.routed_groups,
        status.virtual_groups,
        status.unicast_only_groups,
        status.used_entries,
        status.colors,
        status.programmed_entries,
        status.max_efi,
        status.mean_efi,
        status.max_tfi,
        status.mean_tfi,
        status.last_compute_us,
        status.last_program_us,
    );
    if status.missing_groups > 0 {
        let groups = status.missing_groups;
        text.push_str(&format!("\n{groups} groups without a route: their trees miss members"));
    }
    if status.newest_revision == 0 {
        text.push_str("\nthe TIC does not answer: there may be newer records");
    } else if status.seen_revision < status.newest_revision {
        let (seen, newest) = (status.seen_revision, status.newest_revision);
        text.push_str(&format!("\nplanned up to revision {seen} of {newest}"));
    }
    if !status.root_policy.is_empty() {
        text.push_str(&format!("\nroots by {}", status.root_policy));
    }
    if !status.load_problem.is_empty() {
        text.push_str(&format!("\nloads missing or old: {}", status.load_problem));
    }
    if !status.last_error.is_empty() {
        text.push_str(&format!("\nlast error: {}", status.last_error));
    }
    for irregularity in &status.irregularities {
        text.push_str(&format!("\nirregular: {irregularity}"));
    }
    text
}
