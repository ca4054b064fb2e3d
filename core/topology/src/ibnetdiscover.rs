//! The text that `ibnetdiscover` prints and that ibsim and other tools read.
//!
//! Format: ibnetdiscover(8) and ibsim's `sim_net.c`. One paragraph per node: facts as
//! `key=value`, the node with its port count, one line per connected port. Text around it (tool
//! warnings, chassis headings, comments) is passed over; what follows is not part of the graph and
//! is lost: chassis and slot remarks, external port numbers, who discovered it and when.
//!
//! Where this departs from `ibnetdiscover`: a cable may be listed from one side only
//! (ibsim files do that), the peer's port may be left out (it is 1 then, as for ibsim), and an
//! adapter port without a cable is written as the comment `#[1](guid)`, which ibsim skips.

mod lines;
mod resolve;
mod write;

pub use write::write;

use thiserror::Error;

use crate::graph::Graph;

/// Reads a topology.
///
/// # Errors
///
/// [`ReadError`] with the line that is malformed, or that contradicts another one.
pub fn read(text: &str) -> Result<Graph, ReadError> {
    resolve::resolve(lines::split(text)?)
}

/// Why a text is no topology.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {problem}: {text:?}")]
pub struct ReadError {
    /// Line number, from 1.
    pub line: u32,
    /// What is wrong.
    pub problem: ReadProblem,
    /// The line, shortened if it is long.
    pub text: String,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReadProblem {
    /// There is no node in the whole text.
    #[error("no switch or adapter up to the end of the text")]
    NoNodes,
    /// There is more than can be numbered.
    #[error("too large a topology")]
    TooLarge,
    /// The line starts like a known one but goes on differently.
    #[error("{expected} expected")]
    Malformed {
        /// What should have been there.
        expected: &'static str,
    },
    /// A node is neither switch nor adapter nor router.
    #[error("unknown kind of node {kind:?}")]
    UnknownKind {
        /// The first word of the line.
        kind: String,
    },
    /// A port line stands before any node.
    #[error("port of no node")]
    PortWithoutNode,
    /// A port number is beyond the node's ports.
    #[error("port {port} of {node}, which has ports 1 to {ports}")]
    NoSuchPort {
        /// The node.
        node: String,
        /// The port number.
        port: u32,
        /// How many ports the node has.
        ports: u8,
    },
    /// A node appears twice.
    #[error("{node} was already listed in line {line}")]
    DuplicateNode {
        /// The node.
        node: String,
        /// Where it was listed first.
        line: u32,
    },
    /// A cable leads to a node that is not in the text.
    #[error("{node} is not listed in the text")]
    UnknownPeer {
        /// The node.
        node: String,
    },
    /// Two lines say different things about one port.
    #[error("port {port} of {node} is connected to {here}, but to {there} by line {line}")]
    Contradiction {
        /// The node.
        node: String,
        /// Its port.
        port: u8,
        /// The other end by this line.
        here: String,
        /// The other end by the other line.
        there: String,
        /// The other line.
        line: u32,
    },
    /// A cable joins two adapters.
    #[error("{a} and {b} are both adapters: there is no switch between them")]
    AdapterToAdapter {
        /// One adapter.
        a: String,
        /// The other adapter.
        b: String,
    },
}

/// Most characters of a line that an error repeats.
const SHOWN: usize = 120;

impl ReadError {
    fn new(line: u32, text: &str, problem: ReadProblem) -> Self {
        Self { line, problem, text: text.trim().chars().take(SHOWN).collect() }
    }
}
