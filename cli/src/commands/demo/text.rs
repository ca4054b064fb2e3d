//! Texts of the demo about groups, packets and figures.

use std::time::Duration;

use fabricast_proto::v1;

use super::traffic::Round;
use crate::output::Rows;

/// Groups that are listed; a line counts the others.
const LISTED_GROUPS: usize = 12;

/// Percentile of a sorted list of latencies.
pub(super) fn share_of(latencies: &[Duration], percent: usize) -> Duration {
    let at = (latencies.len() * percent).div_ceil(100).saturating_sub(1);
    latencies.get(at).copied().unwrap_or_default()
}

pub(super) fn per_second(count: usize, elapsed: Duration) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / elapsed.as_secs_f64()
}

pub(super) fn round_text(round: &Round, groups: usize) -> String {
    format!(
        "{} packets to {groups} groups: {} of {} copies delivered, {} wrong ({:.0?})",
        round.packets, round.delivered, round.expected, round.wrong, round.elapsed
    )
}

pub(super) fn groups_text(groups: &[v1::Group]) -> String {
    let mut rows = Rows::new(&["GROUP", "MEMBERS", "MGID", "COLOR", "TREE SHARED AS", "AGENT"]);
    for group in groups.iter().take(LISTED_GROUPS) {
        let route = group.route.clone().unwrap_or_default();
        let color = super::cluster_client::routed_color(group.route.as_ref());
        rows.push(vec![
            group.name.clone(),
            group.member_count.to_string(),
            group.mgid.to_string(),
            color.map_or(route.reason, |color| color.to_string()),
            format!("virtual group {}", route.virtual_group),
            group.agent_node.clone(),
        ]);
    }
    let more = groups.len().saturating_sub(LISTED_GROUPS);
    if more > 0 { format!("{rows}\n... and {more} more groups") } else { rows.to_string() }
}

pub(super) fn figures_text(status: &v1::GetRouteStatusResponse) -> String {
    let fence = status.fence.unwrap_or_default();
    format!(
        "{}: {} groups in {} virtual groups; entries used {} of {}; EFI max {} mean {:.2}; TFI max \
         {} mean {:.2}; {} entries programmed; term {}, generation {}",
        status.engine,
        status.routed_groups,
        status.virtual_groups,
        status.used_entries,
        status.colors,
        status.max_efi,
        status.mean_efi,
        status.max_tfi,
        status.mean_tfi,
        status.programmed_entries,
        fence.term,
        fence.generation,
    )
}
