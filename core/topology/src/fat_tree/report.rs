//! What is said about a fabric that is not quite, or not at all, a fat tree.

use thiserror::Error;

/// One way in which a fabric differs from the regular fat tree it was found to be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
pub enum Irregularity {
    /// Two switches that should be connected are not.
    #[error("no link between {lower} and {upper}")]
    MissingLink {
        /// The lower switch.
        lower: String,
        /// The upper switch, or the top midplane if it has lost the switch too.
        upper: String,
    },
    /// Two switches have fewer parallel links than the others of their levels.
    #[error("{has} instead of {of} links between {lower} and {upper}")]
    FewerLinks {
        /// The lower switch.
        lower: String,
        /// The upper switch.
        upper: String,
        /// Links there are.
        has: u32,
        /// Links there are elsewhere.
        of: u32,
    },
    /// A midplane has fewer leaf switches than others.
    #[error("midplane {cn} (of {with}) has {has} instead of {of} leaf switches")]
    MissingLeaves {
        /// The compute midplane.
        cn: u32,
        /// One of its switches.
        with: String,
        /// Leaves there are.
        has: u32,
        /// Leaves there are elsewhere.
        of: u32,
    },
    /// A position above the leaves has no switch.
    #[error("level {level} switch missing: {place}")]
    MissingSwitch {
        /// Level of the switch, 1 to 3.
        level: u32,
        /// Midplane and number, and a switch nearby.
        place: String,
    },
    /// An endpoint hangs on a switch above the leaves, where groups cannot serve it.
    #[error("endpoint {endpoint} on {switch}, which is not a leaf switch")]
    EndpointAboveLeaves {
        /// Name of the endpoint.
        endpoint: String,
        /// The switch.
        switch: String,
    },
    /// An endpoint is listed but connected to nothing.
    #[error("endpoint {endpoint} is not connected")]
    UnconnectedEndpoint {
        /// Name of the endpoint.
        endpoint: String,
    },
    /// A leaf switch has lost every link upwards.
    #[error("leaf switch {switch} has no link upwards")]
    LeafCutOff {
        /// The switch.
        switch: String,
    },
    /// A cable has both ends in one switch; it is ignored.
    #[error("loopback cable between {a} and {b}")]
    LoopbackCable {
        /// One end.
        a: String,
        /// The other end.
        b: String,
    },
    /// A link does not go one level up or down, or not to where it should; it is ignored.
    #[error("stray link between {a} and {b}")]
    StrayLink {
        /// One end.
        a: String,
        /// The other end.
        b: String,
    },
    /// A switch leads to no leaf, or not to where one of its level should; it is ignored.
    #[error("switch {switch} is unused")]
    UnusedSwitch {
        /// The switch.
        switch: String,
    },
}

/// A fabric in which no fat tree was found.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("not a fat tree: {}{}", list(.reasons), rest(*.more))]
pub struct NotFatTree {
    /// The first few contradictions.
    pub reasons: Vec<Reason>,
    /// How many more there are.
    pub more: usize,
}

/// One contradiction to a fat tree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
pub enum Reason {
    /// There is no endpoint on any switch to start from.
    #[error("no endpoint is connected to a switch")]
    NoEndpoints,
    /// Two switches with endpoints are linked and neither can be told to be above the other.
    #[error(
        "{a} ({a_endpoints} endpoints) and {b} ({b_endpoints} endpoints) are linked directly, \
         neither is above the other"
    )]
    LeavesLinked {
        /// One switch.
        a: String,
        /// Endpoints on it.
        a_endpoints: u32,
        /// The other switch.
        b: String,
        /// Endpoints on it.
        b_endpoints: u32,
    },
    /// Two parts with endpoints have no link between them.
    #[error("{a} and {b} have endpoints but no path between them")]
    NotConnected {
        /// A switch of one part.
        a: String,
        /// A switch of the other part.
        b: String,
    },
    /// A switch is too far from the leaves.
    #[error("{switch} is {distance} links above the nearest leaf switch, more than 3")]
    TooManyLevels {
        /// The switch.
        switch: String,
        /// Links to the nearest leaf switch.
        distance: u32,
    },
    /// A link joins two switches of one level.
    #[error("link between {a} and {b}, both on level {level}")]
    LinkWithinLevel {
        /// One end.
        a: String,
        /// The other end.
        b: String,
        /// Links from a leaf.
        level: u32,
    },
    /// Two switches of one midplane compete for one position.
    #[error("{a} and {b} of one midplane lead to the same top midplane")]
    SamePosition {
        /// One switch.
        a: String,
        /// The other switch.
        b: String,
    },
    /// A switch fits into no TN group.
    #[error("{switch} fits into no group of top midplanes")]
    NoGroup {
        /// The switch.
        switch: String,
    },
    /// Most links of a regular tree would be missing.
    #[error("only {links} of the {positions} links of a regular tree of these sizes are there")]
    TooSparse {
        /// Links there are.
        links: u64,
        /// Links a regular tree has.
        positions: u64,
    },
}

/// How many contradictions are written out.
const REASONS_SHOWN: usize = 8;

/// Collects contradictions, the first few in words.
#[derive(Default)]
pub(super) struct Reasons {
    reasons: Vec<Reason>,
    more: usize,
}

impl Reasons {
    /// Adds one.
    pub(super) fn push(&mut self, reason: impl FnOnce() -> Reason) {
        if self.reasons.len() < REASONS_SHOWN {
            self.reasons.push(reason());
        } else {
            self.more += 1;
        }
    }

    /// Refuses the fabric if there is one.
    pub(super) fn check(self) -> Result<(), NotFatTree> {
        if self.reasons.is_empty() {
            return Ok(());
        }
        Err(NotFatTree { reasons: self.reasons, more: self.more })
    }

    /// Makes the refusal for one contradiction.
    pub(super) fn only(reason: Reason) -> NotFatTree {
        NotFatTree { reasons: vec![reason], more: 0 }
    }
}

fn list(reasons: &[Reason]) -> String {
    reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn rest(more: usize) -> String {
    if more == 0 { String::new() } else { format!("; and {more} more") }
}
