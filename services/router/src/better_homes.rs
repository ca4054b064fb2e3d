//! Plans moves of groups to better homes, and encodes them.

use std::collections::BTreeMap;

use fabricast_proto::v1;
use fabricast_routing::{BetterHomes, HomeError, HomeMove, HomeSearch, Metrics, better_homes};
use fabricast_topology::Mgid;

/// The groups as they are planned, and their names in the same order.
#[derive(Debug)]
pub(crate) struct HomeQuery {
    pub(crate) search: HomeSearch,
    pub(crate) names: Vec<String>,
}

impl HomeQuery {
    /// Finds at most `most` moves; takes up to some seconds.
    pub(crate) fn answer(self, most: usize) -> Result<v1::PlanRebalanceResponse, HomeError> {
        let found = better_homes(&self.search, most)?;
        let homes = self.search.groups.iter().map(|group| group.home);
        let names: BTreeMap<Mgid, String> = homes.zip(self.names).collect();
        Ok(encode(&found, &names))
    }
}

fn encode(found: &BetterHomes, names: &BTreeMap<Mgid, String>) -> v1::PlanRebalanceResponse {
    let encode_move = |one: &HomeMove| v1::PlannedMove {
        r#move: Some(v1::GroupMove {
            group: names.get(&one.from).cloned().unwrap_or_default(),
            from_mgid: one.from.0,
            to_mgid: one.to.0,
        }),
        spanning_tree: one.tree,
        newly_routed_groups: one.newly_routed,
        saved_links: one.saved_links,
    };
    let figures = |metrics: &Metrics, crossed_links| v1::RebalanceFigures {
        routed_groups: metrics.groups,
        crossed_links,
        max_efi: metrics.switch_links.max_efi,
        mean_efi: metrics.switch_links.mean_efi,
        max_tfi: metrics.max_tfi,
        mean_tfi: metrics.mean_tfi,
    };
    let [before, after] = &found.metrics;
    v1::PlanRebalanceResponse {
        moves: found.moves.iter().map(encode_move).collect(),
        before: Some(figures(before, found.links[0])),
        after: Some(figures(after, found.links[1])),
        partial: found.is_partial,
    }
}
