//! Reason why a group has no route, or another one than its MGID asks for.
//!
//! A reason is data; [`RouteReason::display`] makes the text that users read, with the names of
//! one fabric. Code that acts on a reason matches on the enum and never reads the text back.

use std::fmt;

use fabricast_topology::{EndpointId, Graph};

use crate::change::ChangeError;
use crate::plan::{BrokenLink, Displacement, Moved, PartCounts, Unprotected, Unrouted};

/// Most members that the text of a reason names.
const NAMED_MEMBERS: usize = 8;

/// Reason for the state of one group's route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteReason {
    /// The group waits for members that were announced; until then it has none for the engine.
    WaitsForMembers,
    /// There is nobody to connect: fewer than two endpoints are live.
    FewerThanTwoEndpoints,
    /// Other groups still hold the table entries that the new route needs.
    WaitsForEntries,
    /// The group must not share a tree, and would have to.
    ExclusiveTreeShared {
        /// Groups that it would share the tree with.
        others: usize,
        /// Spanning trees there are, and those with other groups.
        trees: PartCounts,
    },
    /// The engine refused the group.
    Refused(ChangeError),
    /// No spanning tree serves the group.
    Unrouted(Unrouted),
    /// The group is on another spanning tree than its home.
    Moved(Moved),
    /// One of the group's two trees lacks a link.
    Unprotected(Unprotected),
    /// The planned trees do not reach these members, though links to them are live.
    MembersMissed(Vec<EndpointId>),
    /// The engine has not been given the group yet.
    NotPlanned,
}

impl RouteReason {
    /// Tells whether the group may get a route once other groups have changed, though it has not
    /// changed itself.
    #[must_use]
    pub const fn depends_on_other_groups(&self) -> bool {
        matches!(self, Self::WaitsForEntries | Self::ExclusiveTreeShared { .. })
    }

    /// Returns the text for users, with the names of ports and endpoints of `graph`.
    #[must_use]
    pub const fn display<'a>(&'a self, graph: &'a Graph) -> impl fmt::Display + 'a {
        Named { reason: self, graph }
    }
}

struct Named<'a> {
    reason: &'a RouteReason,
    graph: &'a Graph,
}

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let graph = self.graph;
        match self.reason {
            RouteReason::WaitsForMembers => f.write_str("waits for its members"),
            RouteReason::FewerThanTwoEndpoints => {
                f.write_str("fewer than two endpoints to connect")
            }
            RouteReason::WaitsForEntries => {
                f.write_str("waits until other groups have left its entries")
            }
            RouteReason::ExclusiveTreeShared { others, trees: PartCounts { all, used } } => {
                write!(
                    f,
                    "exclusive, and its tree would be shared with {others} groups; {used} of {all} spanning trees have other groups"
                )
            }
            RouteReason::Refused(error) => fmt::Display::fmt(error, f),
            RouteReason::Unrouted(Unrouted { why, broken, held, .. }) => {
                write_displacement(f, why, graph)?;
                write!(
                    f,
                    "; of all spanning trees {broken} lack a link and {held} have a color in use by a member"
                )
            }
            RouteReason::Moved(Moved { from, to, why, .. }) => {
                write!(f, "moved from spanning tree {from} to {to}: ")?;
                write_displacement(f, why, graph)
            }
            RouteReason::Unprotected(Unprotected { link, .. }) => {
                f.write_str("has no second tree now, ")?;
                write_displacement(f, &Displacement::TreeBroken { link: *link }, graph)
            }
            RouteReason::MembersMissed(missed) => {
                let names = missed.iter().map(|endpoint| graph.endpoint_name(*endpoint));
                let names: Vec<&str> = names.take(NAMED_MEMBERS).collect();
                write!(f, "its planned trees do not reach {}", names.join(", "))?;
                match missed.len().saturating_sub(names.len()) {
                    0 => Ok(()),
                    more => write!(f, " and {more} more"),
                }
            }
            RouteReason::NotPlanned => f.write_str("not planned"),
        }
    }
}

fn write_displacement(
    f: &mut fmt::Formatter<'_>,
    why: &Displacement,
    graph: &Graph,
) -> fmt::Result {
    match why {
        Displacement::TreeBroken { link: BrokenLink::Dead { port } } => {
            write!(f, "its tree needs the dead link at {}", graph.port_label(*port))
        }
        Displacement::ColorHeld { endpoint, by } => {
            let name = graph.endpoint_name(*endpoint);
            write!(f, "member {name} uses this color on spanning tree {by}")
        }
        Displacement::TreeBroken { link: BrokenLink::Missing { .. } }
        | Displacement::Stayed
        | Displacement::NoSharedRoot
        | Displacement::WouldMerge => fmt::Display::fmt(why, f),
    }
}

#[cfg(test)]
mod tests {
    use fabricast_topology::Mgid;
    use fabricast_topology::spec::TopologySpec;

    use super::*;

    #[test]
    fn reasons_name_endpoints_of_the_fabric() {
        let graph =
            TopologySpec::parse("kind = 'k-ary-3-level'\nk = 4\n").unwrap().generate().unwrap();
        let endpoint = EndpointId(3);
        let why = Displacement::ColorHeld { endpoint, by: 7 };
        let moved = RouteReason::Moved(Moved { mgid: Mgid(1), from: 1, to: 2, why });
        let text = moved.display(&graph).to_string();
        let name = graph.endpoint_name(endpoint);
        assert_eq!(
            text,
            format!(
                "moved from spanning tree 1 to 2: member {name} uses this color on spanning tree 7"
            )
        );
    }

    #[test]
    fn only_reasons_that_lie_in_other_groups_are_retried_when_those_change() {
        let trees = PartCounts { all: 8, used: 3 };
        assert!(RouteReason::ExclusiveTreeShared { others: 2, trees }.depends_on_other_groups());
        assert!(!RouteReason::FewerThanTwoEndpoints.depends_on_other_groups());
    }
}
