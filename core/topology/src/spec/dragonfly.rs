//! The dragonfly of Kim, Dally, Scott and Abts (ISCA 2008): groups of fully linked routers, every
//! two groups linked once.
//!
//! A full one has a * h + 1 groups. Global links are wired in the usual *absolute* order: a group
//! numbers its global ports router by router, and its port n leads to group n, or n + 1 from its
//! own number on. On each router, endpoints come first, then the other routers of the group in
//! order, then global ports.
//!
//! MR4LMS §4.2 measures a = 18, p = h = 9: 163 groups and 26 406 endpoints.

use serde::Deserialize;

use super::cables::{Cables, PortPosition};
use super::ranges::{Level, at_most, port_counts, positive};
use super::{FaultSpec, Kind, SpecError};
use crate::graph::Graph;
use crate::ids::SwitchId;

/// Groups of routers; in brackets the usual letters, which may be used in the TOML as well.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DragonflySpec {
    #[serde(rename = "kind")]
    pub(super) _kind: Kind,
    /// Routers (switches) of a group (a).
    #[serde(alias = "a")]
    pub routers_per_group: u32,
    /// Endpoints of a router (p).
    #[serde(alias = "p")]
    pub endpoints_per_router: u32,
    /// Links of a router to other groups (h).
    #[serde(alias = "h")]
    pub global_links_per_router: u32,
    /// Number of groups (g), the first ones; by default all a * h + 1.
    #[serde(alias = "g")]
    pub groups: Option<u32>,
    /// Ports of every router; by default as many as it needs.
    pub switch_ports: Option<u8>,
    /// Faults of the generated fabric.
    #[serde(default)]
    pub faults: FaultSpec,
}

impl DragonflySpec {
    pub(super) fn wire(&self) -> Result<Graph, SpecError> {
        let (a, p, h) =
            (self.routers_per_group, self.endpoints_per_router, self.global_links_per_router);
        let most_groups = u64::from(a) * u64::from(h) + 1;
        let all = u32::try_from(most_groups).unwrap_or(u32::MAX);
        positive(&[
            ("routers_per_group", a),
            ("endpoints_per_router", p),
            ("groups", self.groups.unwrap_or(1)),
        ])?;
        let groups = at_most("groups", self.groups.unwrap_or(all), most_groups)?;
        let needs = u64::from(p) + u64::from(a - 1) + u64::from(h);
        let switches = u64::from(groups) * u64::from(a);
        let level = Level { name: "dragonfly", switches, needs };
        let ports = port_counts(&[level], self.switch_ports)?[0];

        let mut cables = Cables::new();
        for (group, router) in (0..groups).flat_map(|group| (0..a).map(move |one| (group, one))) {
            let switch = cables.add_switch(&format!("g{group}-r{router}"), ports);
            cables.add_endpoints(switch, p);
        }
        let local = |group, router, to: u32| {
            let port = if to < router { to } else { to - 1 };
            PortPosition(SwitchId(group * a + router), p + port)
        };
        let global = |group, to: u32| {
            let port = if to < group { to } else { to - 1 };
            PortPosition(SwitchId(group * a + port / h), p + a - 1 + port % h)
        };
        for group in 0..groups {
            for (one, other) in (0..a).flat_map(|one| (one + 1..a).map(move |other| (one, other))) {
                cables.link(local(group, one, other), local(group, other, one));
            }
            for other in group + 1..groups {
                cables.link(global(group, other), global(other, group));
            }
        }
        Ok(cables.build())
    }
}
