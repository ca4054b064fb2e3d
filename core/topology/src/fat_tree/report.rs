//! Messages about a fabric that is irregular, or not a fat tree.

use thiserror::Error;

/// An irregularity: a difference from the regular fat tree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
pub enum Irregularity {
    /// Two switches that should be connected are not.
    #[error("no link between {lower} and {upper}")]
    MissingLink {
        /// The lower switch.
        lower: String,
        /// The upper switch, or the top midplane if the switch is missing too.
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
    /// An endpoint is on a switch above the leaves, where groups cannot serve it.
    #[error("endpoint {endpoint} on {switch}, which is not a leaf switch")]
    EndpointAboveLeaves {
        /// Name of the endpoint.
        endpoint: String,
        /// Name of the switch.
        switch: String,
    },
    /// An endpoint is listed but not connected.
    #[error("endpoint {endpoint} is not connected")]
    UnconnectedEndpoint {
        /// Name of the endpoint.
        endpoint: String,
    },
    /// A leaf switch has no upward link left.
    #[error("leaf switch {switch} has no link upwards")]
    LeafCutOff {
        /// Name of the switch.
        switch: String,
    },
    /// A cable has both ends in one switch; it is ignored.
    #[error("loopback cable between {a} and {b}")]
    LoopbackCable {
        /// Name of the port at one end.
        a: String,
        /// Name of the port at the other end.
        b: String,
    },
    /// A link does not connect neighbouring levels, or not the right switches; it is ignored.
    #[error("stray link between {a} and {b}")]
    StrayLink {
        /// Name of the port at one end.
        a: String,
        /// Name of the port at the other end.
        b: String,
    },
    /// A switch leads to no leaf, or not to where a switch of its level should; it is ignored.
    #[error("switch {switch} is unused")]
    UnusedSwitch {
        /// Name of the switch.
        switch: String,
    },
}

/// Refusal of a fabric that is not a fat tree.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("not a fat tree: {}", list(.reasons))]
pub struct NotFatTree {
    /// All contradictions; `Display` writes out the first few.
    pub reasons: Vec<Reason>,
}

/// One contradiction to a fat tree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
pub enum Reason {
    /// No switch has an endpoint to start from.
    #[error("no endpoint is connected to a switch")]
    NoEndpoints,
    /// Two switches with endpoints are linked, and neither is clearly above the other.
    #[error(
        "{a} ({a_endpoints} endpoints) and {b} ({b_endpoints} endpoints) are linked directly, \
         neither is above the other"
    )]
    LeavesLinked {
        /// Name of one switch.
        a: String,
        /// Endpoints on it.
        a_endpoints: u32,
        /// Name of the other switch.
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
        /// Name of the switch.
        switch: String,
        /// Links to the nearest leaf switch.
        distance: u32,
    },
    /// A link joins two switches of one level.
    #[error("link between {a} and {b}, both on level {level}")]
    LinkWithinLevel {
        /// Name of the port at one end.
        a: String,
        /// Name of the port at the other end.
        b: String,
        /// Links from a leaf.
        level: u32,
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

/// Limit on contradictions that are written out.
const REASONS_SHOWN: usize = 8;

#[derive(Default)]
pub(super) struct Reasons(Vec<Reason>);

impl Reasons {
    /// Adds a contradiction.
    pub(super) fn push(&mut self, reason: Reason) {
        self.0.push(reason);
    }

    /// Returns the refusal if there is a contradiction.
    pub(super) fn check(self) -> Result<(), NotFatTree> {
        if self.0.is_empty() { Ok(()) } else { Err(NotFatTree { reasons: self.0 }) }
    }

    /// Creates the refusal for one contradiction.
    pub(super) fn only(reason: Reason) -> NotFatTree {
        NotFatTree { reasons: vec![reason] }
    }
}

fn list(reasons: &[Reason]) -> String {
    let shown = reasons.iter().take(REASONS_SHOWN).map(ToString::to_string);
    let mut text = shown.collect::<Vec<_>>().join("; ");
    let more = reasons.len().saturating_sub(REASONS_SHOWN);
    if more > 0 {
        text += &format!("; and {more} more");
    }
    text
}
