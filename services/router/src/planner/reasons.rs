//! Why a group is routed as it is, with the names of the fabric.

use fabricast_routing::{BrokenLink, Displacement, Mgid};

use crate::mirror::MirrorGroup;
use crate::planner::Planner;

impl Planner {
    /// What is special about the route of a group.
    pub(super) fn reason(&self, mgid: Mgid) -> String {
        let exposed = self.engine.plan().unprotected_of(mgid).first().map(|one| {
            let link = self.displacement(&Displacement::TreeBroken { link: one.link });
            format!("has no second tree now, {link}")
        });
        let moved = Some(self.moved_reason(mgid)).filter(|reason| !reason.is_empty());
        let both: Vec<String> = moved.into_iter().chain(exposed).collect();
        both.join("; ")
    }

    pub(super) fn moved_reason(&self, mgid: Mgid) -> String {
        let moved = self.engine.plan().moved();
        let found = moved.binary_search_by_key(&mgid, |moved| moved.mgid);
        found.map_or_else(
            |_| String::new(),
            |at| {
                let moved = &moved[at];
                let why = self.displacement(&moved.why);
                format!("moved from spanning tree {} to {}: {why}", moved.from, moved.to)
            },
        )
    }

    /// Why a group is not at home, with the names of this fabric.
    pub(super) fn displacement(&self, why: &Displacement) -> String {
        match why {
            Displacement::TreeBroken { link: BrokenLink::Dead { port } } => {
                format!("its tree needs the dead link at {}", self.graph.port_label(*port))
            }
            Displacement::ColorHeld { endpoint, by } => {
                let name = self.graph.endpoint_name(*endpoint);
                format!("member {name} uses this color on spanning tree {by}")
            }
            Displacement::TreeBroken { link: BrokenLink::Missing { .. } }
            | Displacement::Stayed
            | Displacement::NoSharedRoot => why.to_string(),
        }
    }

    pub(super) fn refusal(&self, gn: u64, group: &MirrorGroup) -> String {
        let unrouted = self.engine.plan().unrouted();
        let found = unrouted.binary_search_by_key(&group.mgid, |one| one.mgid.0);
        match (self.refused.get(&gn), found.ok().map(|at| &unrouted[at])) {
            (Some(reason), _) => reason.clone(),
            (None, Some(unrouted)) => format!(
                "{}; of all spanning trees {} lack a link and {} have a color in use by a member",
                self.displacement(&unrouted.why),
                unrouted.broken,
                unrouted.held
            ),
            (None, None) => "not planned".to_owned(),
        }
    }
}
