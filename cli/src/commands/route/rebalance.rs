//! `fabricast route rebalance`: groups move to better homes.

use std::fmt;

use clap::Args;
use fabricast_proto::v1;
use serde::Serialize;

use crate::args::{Format, ServerArgs};
use crate::failure::Failure;
use crate::output::{self, Rows};
use crate::progress::Progress;
use crate::remote::Remote;

/// Arguments of `route rebalance`.
#[derive(Debug, Args)]
pub(crate) struct RebalanceArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Show the moves and what they gain, and move nothing.
    #[arg(long)]
    dry_run: bool,
    /// Move at most so many groups.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    most: u32,
}

/// The plan, and the moves that were made.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Rebalanced {
    dry_run: bool,
    moves: Vec<Move>,
    before: Figures,
    after: Figures,
    /// Groups that move; fewer than planned if some have changed meanwhile.
    moved_groups: Vec<String>,
    /// There may be more to move.
    partial: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Move {
    group: String,
    from_mgid: u32,
    spanning_tree: u32,
    saved_links: i64,
    newly_routed_groups: u32,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Figures {
    routed_groups: u32,
    crossed_links: u64,
    max_tfi: u32,
    mean_tfi: f64,
    max_efi: u32,
    mean_efi: f64,
}

impl From<v1::PlannedMove> for Move {
    fn from(planned: v1::PlannedMove) -> Self {
        let v1::PlannedMove { r#move, spanning_tree, newly_routed_groups, saved_links } = planned;
        let v1::GroupMove { group, from_mgid, .. } = r#move.unwrap_or_default();
        Self { group, from_mgid, spanning_tree, saved_links, newly_routed_groups }
    }
}

impl From<Option<v1::RebalanceFigures>> for Figures {
    fn from(figures: Option<v1::RebalanceFigures>) -> Self {
        let figures = figures.unwrap_or_default();
        Self {
            routed_groups: figures.routed_groups,
            crossed_links: figures.crossed_links,
            max_tfi: figures.max_tfi,
            mean_tfi: figures.mean_tfi,
            max_efi: figures.max_efi,
            mean_efi: figures.mean_efi,
        }
    }
}

pub(crate) async fn run(args: &RebalanceArgs, format: Format) -> Result<(), Failure> {
    let remote = Remote::new(&args.server)?;
    let request = v1::PlanRebalanceRequest { most_moves: args.most };
    let progress = Progress::of_time("planning");
    let plan = remote.answer(remote.router().await?.plan_rebalance(request)).await?;
    progress.finish();
    let moves: Vec<v1::GroupMove> =
        plan.moves.iter().filter_map(|planned| planned.r#move.clone()).collect();
    let mut moved_groups = Vec::new();
    if !args.dry_run && !moves.is_empty() {
        let request = v1::MoveGroupsRequest { moves };
        moved_groups = remote.answer(remote.tic().move_groups(request)).await?.moved_groups;
    }
    let answer = Rebalanced {
        dry_run: args.dry_run,
        moves: plan.moves.into_iter().map(Move::from).collect(),
        before: plan.before.into(),
        after: plan.after.into(),
        moved_groups,
        partial: plan.partial,
    };
    output::print(format, &answer, ToString::to_string)
}

impl fmt::Display for Rebalanced {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.moves.is_empty() {
            return out.write_str("no group would be better off on another spanning tree");
        }
        let mut rows = Rows::new(&["GROUP", "FROM MGID", "TO TREE", "LINKS SAVED", "NEWLY ROUTED"]);
        for one in &self.moves {
            rows.push(vec![
                one.group.clone(),
                one.from_mgid.to_string(),
                one.spanning_tree.to_string(),
                one.saved_links.to_string(),
                one.newly_routed_groups.to_string(),
            ]);
        }
        let (before, after) = (&self.before, &self.after);
        writeln!(
            out,
            "{rows}\nlinks crossed if each group sends a packet: {} -> {}\n\
             TFI max {} -> {}, mean {:.2} -> {:.2}; EFI max {} -> {}, mean {:.2} -> {:.2}\n\
             groups with a tree: {} -> {}",
            before.crossed_links,
            after.crossed_links,
            before.max_tfi,
            after.max_tfi,
            before.mean_tfi,
            after.mean_tfi,
            before.max_efi,
            after.max_efi,
            before.mean_efi,
            after.mean_efi,
            before.routed_groups,
            after.routed_groups,
        )?;
        let planned = self.moves.len();
        match self.moved_groups.len() {
            _ if self.dry_run => write!(out, "{planned} groups would move")?,
            moved if moved == planned => write!(out, "{moved} groups move")?,
            moved => {
                let why = "the others have changed meanwhile";
                write!(out, "{moved} of {planned} groups move; {why}")?;
            }
        }
        if self.partial {
            out.write_str("\nthere may be more: run it again, or with a larger --most")?;
        }
        Ok(())
    }
}
