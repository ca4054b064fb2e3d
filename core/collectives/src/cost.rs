//! Cost model of collectives: the paper's equations (1) to (4).
//!
//! Times are in microseconds throughout this crate, as in the paper. A packet costs time per link
//! that it crosses; at a node it costs time for matching and per byte. A node handles its
//! children's packets one after the other, and each level of the tree waits for the one below.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::operation::{Operation, TreeKind};

/// The constants of one fabric and its adapters and switches.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostParameters {
    /// Links of the unicast path between two processes (δ).
    pub path_links: f64,
    /// Time per link, in microseconds (l).
    pub link_us: f64,
    /// Time to match one packet to its operation, in microseconds (θ).
    pub matching_us: f64,
    /// Time to store and forward one byte, in microseconds (β).
    pub store_us_per_byte: f64,
    /// Time to reduce one byte, in microseconds (γ).
    pub reduce_us_per_byte: f64,
    /// Time that every operation takes beside its tree, in microseconds.
    pub software_us: f64,
}

/// A parameter that measurements can determine: all but the length of the paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Term {
    /// [`CostParameters::link_us`].
    Link,
    /// [`CostParameters::matching_us`].
    Matching,
    /// [`CostParameters::store_us_per_byte`].
    Store,
    /// [`CostParameters::reduce_us_per_byte`].
    Reduce,
    /// [`CostParameters::software_us`].
    Software,
}

impl Term {
    /// All terms, in the order of fits.
    pub const ALL: [Self; 5] =
        [Self::Link, Self::Matching, Self::Store, Self::Reduce, Self::Software];

    /// Names the field.
    #[must_use]
    pub const fn field(self) -> &'static str {
        match self {
            Self::Link => "link_us",
            Self::Matching => "matching_us",
            Self::Store => "store_us_per_byte",
            Self::Reduce => "reduce_us_per_byte",
            Self::Software => "software_us",
        }
    }
}

impl fmt::Display for Term {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.field())
    }
}

/// Error in a file of parameters.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ParametersError {
    /// Not TOML of these fields; the message has line and field.
    #[error("{0}")]
    Syntax(String),
    /// A number that no fabric has.
    #[error("{field} is {value}, which must be a number of at least 0")]
    Range {
        /// Name of the field.
        field: &'static str,
        /// Its value, as text.
        value: String,
    },
    /// Bytes take no time, so that no size would change a tree.
    #[error("{field} is 0, which must be more than 0: else no size would change a tree")]
    NoTime {
        /// Name of the field.
        field: &'static str,
    },
}

/// Dimensions of a tree that determine its cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Kind of the nodes that reduce.
    pub kind: TreeKind,
    /// Levels that wait for one another.
    pub height: f64,
    /// Children of a node.
    pub children: f64,
    /// Links from the farthest process to the root along the tree.
    pub radius_links: f64,
    /// Links from the root to the farthest process by multicast.
    pub multicast_links: f64,
}

impl CostParameters {
    /// The published constants of the paper's machine (§3.1): δl = 1.12 us over the 4 links of its
    /// two-level fat tree, θ = 0.01 us. It publishes neither β and γ nor the software's part, which
    /// are 0 here.
    pub const PAPER: Self = Self {
        path_links: 4.0,
        link_us: 0.28,
        matching_us: 0.01,
        store_us_per_byte: 0.0,
        reduce_us_per_byte: 0.0,
        software_us: 0.0,
    };

    /// The paper's constants, and bytes as a memory of 10 GB/s stores them and combines them at
    /// half that: stated numbers that nobody has measured. For use where nothing was, since with
    /// bytes that cost nothing no size changes a tree.
    pub const DEFAULT: Self =
        Self { store_us_per_byte: 0.000_1, reduce_us_per_byte: 0.000_2, ..Self::PAPER };

    /// Reads parameters: TOML with the names of the fields.
    ///
    /// # Errors
    ///
    /// [`ParametersError`] with the line or the field, the writer's mistake.
    pub fn parse(text: &str) -> Result<Self, ParametersError> {
        let parameters: Self = toml::from_str(text)
            .map_err(|error| ParametersError::Syntax(error.to_string().trim_end().to_owned()))?;
        let range = |field, value: f64| {
            let ok = value.is_finite() && value >= 0.0;
            let error = || ParametersError::Range { field, value: value.to_string() };
            if ok { Ok(()) } else { Err(error()) }
        };
        range("path_links", parameters.path_links)?;
        for term in Term::ALL {
            range(term.field(), parameters.get(term))?;
        }
        Ok(parameters)
    }

    /// Returns the parameters if bytes take time, to store and to reduce.
    ///
    /// # Errors
    ///
    /// [`ParametersError::NoTime`] with the first field that is 0.
    pub fn with_time_for_bytes(self) -> Result<Self, ParametersError> {
        let mut terms = [Term::Store, Term::Reduce].into_iter();
        let free = terms.find(|term| self.get(*term) <= 0.0);
        free.map_or(Ok(self), |term| Err(ParametersError::NoTime { field: term.field() }))
    }

    /// Makes the parameters of a fabric where nothing takes time.
    pub(crate) const fn free(path_links: f64) -> Self {
        Self {
            path_links,
            link_us: 0.0,
            matching_us: 0.0,
            store_us_per_byte: 0.0,
            reduce_us_per_byte: 0.0,
            software_us: 0.0,
        }
    }

    /// Returns the value of a term.
    #[must_use]
    pub const fn get(&self, term: Term) -> f64 {
        match term {
            Term::Link => self.link_us,
            Term::Matching => self.matching_us,
            Term::Store => self.store_us_per_byte,
            Term::Reduce => self.reduce_us_per_byte,
            Term::Software => self.software_us,
        }
    }

    /// Sets the value of a term.
    pub const fn set(&mut self, term: Term, value: f64) {
        match term {
            Term::Link => self.link_us = value,
            Term::Matching => self.matching_us = value,
            Term::Store => self.store_us_per_byte = value,
            Term::Reduce => self.reduce_us_per_byte = value,
            Term::Software => self.software_us = value,
        }
    }

    /// Returns the time a node takes for one child's packet, in microseconds: θ + S'β + S*γ, the b
    /// of equation (5).
    #[must_use]
    pub fn per_child_us(&self, operation: Operation, bytes: u32) -> f64 {
        let gathered = f64::from(operation.gathered_bytes(bytes));
        self.matching_us + gathered * (self.store_us_per_byte + self.reduce_us_per_byte)
    }

    /// Returns the time until everything has arrived and is reduced at the root, in microseconds:
    /// equation (2).
    #[must_use]
    pub fn aggregate_us(&self, shape: &Shape, operation: Operation, bytes: u32) -> f64 {
        let stages = shape.height * shape.children;
        shape.radius_links * self.link_us + stages * self.per_child_us(operation, bytes)
    }

    /// Returns the time from there until the result is everywhere, in microseconds. A multicast
    /// packet is cut through at every switch, so its bytes count once. (The paper's own form is
    /// lost.)
    #[must_use]
    pub fn distribute_us(&self, shape: &Shape, operation: Operation, bytes: u32) -> f64 {
        operation.returned_bytes(bytes, shape.kind).map_or(0.0, |bytes| {
            shape.multicast_links * self.link_us + f64::from(bytes) * self.store_us_per_byte
        })
    }

    /// Returns the time of the whole operation, in microseconds: equation (1).
    #[must_use]
    pub fn total_us(&self, shape: &Shape, operation: Operation, bytes: u32) -> f64 {
        self.software_us
            + self.aggregate_us(shape, operation, bytes)
            + self.distribute_us(shape, operation, bytes)
    }

    /// Returns the shape of a complete tree of `width` children over `processes`: what equations
    /// (3) and (4) assume. Both are taken as at least 2 and 1; a tree is no wider than its
    /// processes allow.
    #[must_use]
    pub fn complete(&self, kind: TreeKind, processes: u32, width: u32) -> Shape {
        let children = f64::from(width.clamp(2, processes.max(2)));
        let height = f64::from(processes.max(1)).ln() / children.ln();
        let (radius_links, multicast_links) = match kind {
            TreeKind::Adapter => (self.path_links * height, self.path_links),
            TreeKind::Switch => (0.5 * self.path_links, 0.5 * self.path_links),
        };
        Shape { kind, height, children, radius_links, multicast_links }
    }
}

/// Constants as agents on one machine measure them: a path and a child take much longer than a
/// byte.
#[cfg(test)]
pub(crate) const AGENTS: CostParameters = CostParameters {
    path_links: 4.0,
    link_us: 15.0,
    matching_us: 10.0,
    store_us_per_byte: 0.001,
    reduce_us_per_byte: 0.002,
    software_us: 20.0,
};

#[cfg(test)]
mod tests {
    use super::*;

    const WITH_BYTES: CostParameters = CostParameters {
        store_us_per_byte: 0.0005,
        reduce_us_per_byte: 0.001,
        software_us: 0.9,
        ..CostParameters::PAPER
    };

    #[test]
    fn all_terms_of_an_all_reduce_add_up() {
        // Equation (3) by hand: 64 processes, 8 children: two levels of 4 links and 8 packets.
        let shape = WITH_BYTES.complete(TreeKind::Adapter, 64, 8);
        let per_packet = 0.01 + 100.0 * 0.0015;
        let gathered = 2.0 * (1.12 + 8.0 * per_packet);
        let aggregate = WITH_BYTES.aggregate_us(&shape, Operation::AllReduce, 100);
        assert!((aggregate - gathered).abs() < 1e-12, "{aggregate}");
        let total = WITH_BYTES.total_us(&shape, Operation::AllReduce, 100);
        assert!((total - (0.9 + gathered + 1.12 + 0.05)).abs() < 1e-12, "{total}");
    }

    #[test]
    fn a_switch_tree_is_half_as_far_and_as_high() {
        // Equation (4) by hand.
        let shape = WITH_BYTES.complete(TreeKind::Switch, 64, 8);
        let aggregate = WITH_BYTES.aggregate_us(&shape, Operation::Barrier, 100);
        assert!((aggregate - (0.56 + 16.0 * 0.01)).abs() < 1e-12, "{aggregate}");
    }

    #[test]
    fn only_a_switch_tree_sends_the_result_of_a_reduce() {
        let cost = |kind| {
            let shape = WITH_BYTES.complete(kind, 64, 8);
            WITH_BYTES.distribute_us(&shape, Operation::Reduce, 100)
        };
        assert!(cost(TreeKind::Adapter).abs() < 1e-12);
        assert!((cost(TreeKind::Switch) - (0.56 + 0.05)).abs() < 1e-12);
    }

    #[test]
    fn one_process_needs_no_tree() {
        let shape = WITH_BYTES.complete(TreeKind::Adapter, 1, 8);
        assert!(WITH_BYTES.aggregate_us(&shape, Operation::AllReduce, 8).abs() < 1e-12);
    }

    #[test]
    fn bytes_that_take_no_time_are_named() {
        let refused =
            |parameters: CostParameters| parameters.with_time_for_bytes().unwrap_err().to_string();
        let free = CostParameters { reduce_us_per_byte: 0.0, ..WITH_BYTES };
        assert_eq!(
            refused(free),
            "reduce_us_per_byte is 0, which must be more than 0: else no size would change a tree"
        );
        assert!(refused(CostParameters::PAPER).starts_with("store_us_per_byte"));
        for parameters in [WITH_BYTES, CostParameters::DEFAULT] {
            assert_eq!(parameters.with_time_for_bytes(), Ok(parameters));
        }
    }

    #[test]
    fn parameters_are_read_and_written_as_toml() {
        let text = toml::to_string(&WITH_BYTES).unwrap();
        assert_eq!(CostParameters::parse(&text), Ok(WITH_BYTES));
        let missing = CostParameters::parse("path_links = 4.0").unwrap_err().to_string();
        assert!(missing.contains("link_us"), "{missing}");
        let wrong = text.replace("0.28", "-1.0");
        assert_eq!(
            CostParameters::parse(&wrong).unwrap_err().to_string(),
            "link_us is -1, which must be a number of at least 0"
        );
        let line = CostParameters::parse(&text.replace("0.28", "fast")).unwrap_err().to_string();
        assert!(line.contains("line 2"), "{line}");
    }
}
