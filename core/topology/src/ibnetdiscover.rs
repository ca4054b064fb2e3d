//! Import and export of the text that `ibnetdiscover` prints and that ibsim and other tools read.
//!
//! Format: ibnetdiscover(8) and ibsim's `sim_net.c`. One paragraph per node: facts as `key=value`,
//! the node with its port count, one line per connected port. Other text (tool warnings, chassis
//! headings, comments) is ignored. Chassis and slot remarks, external port numbers, and the
//! discoverer and time are not part of the graph and are lost.
//!
//! Departures from `ibnetdiscover`: a cable may be listed from one side only (as in ibsim files),
//! the peer's port may be left out (it is 1 then, as for ibsim), and an adapter port without a
//! cable is written as the comment `#[1](guid)`, which ibsim skips.

mod lines;
mod resolve;
mod write;

pub use write::write;

use thiserror::Error;

use crate::graph::Graph;

/// Parses a topology. Cost: O(n log n) in the ports.
///
/// # Errors
///
/// [`ReadError`] with the line that is malformed, or that contradicts another one.
pub fn read(text: &str) -> Result<Graph, ReadError> {
    let mut reader = Reader::default();
    let graph = reader.push(text.as_bytes()).and_then(|()| reader.finish());
    graph.map_err(|error| {
        let line = (error.line as usize).checked_sub(1).and_then(|at| text.lines().nth(at));
        ReadError::new(error.line, line.unwrap_or_default(), error.problem)
    })
}

/// Parses a topology that comes part by part, so that the whole text is never in memory.
#[derive(Debug, Default)]
pub struct Reader {
    lines: lines::Lines,
    /// Begin of a line whose end has not come.
    begun: Vec<u8>,
}

impl Reader {
    /// Takes the next part of the text; a part may end within a line, or within a character.
    ///
    /// # Errors
    ///
    /// [`ReadError`] with a line that is malformed.
    pub fn push(&mut self, part: &[u8]) -> Result<(), ReadError> {
        let mut rest = part;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, after) = (&rest[..end], &rest[end + 1..]);
            if self.begun.is_empty() {
                take(&mut self.lines, line)?;
            } else {
                self.begun.extend(line);
                take(&mut self.lines, &std::mem::take(&mut self.begun))?;
            }
            rest = after;
        }
        self.begun.extend(rest);
        Ok(())
    }

    /// Builds the graph. Cost: O(n log n) in the ports.
    ///
    /// # Errors
    ///
    /// [`ReadError`] with the line that contradicts another one; its text is not known any more.
    pub fn finish(mut self) -> Result<Graph, ReadError> {
        if !self.begun.is_empty() {
            take(&mut self.lines, &self.begun)?;
        }
        if self.lines.nodes.is_empty() {
            return Err(ReadError::new(self.lines.count.max(1), "", ReadProblem::NoNodes));
        }
        resolve::resolve(self.lines)
    }
}

fn take(lines: &mut lines::Lines, line: &[u8]) -> Result<(), ReadError> {
    let text = str::from_utf8(line);
    lines.line(text.map_err(|_| ReadError::new(lines.count + 1, "", ReadProblem::NotText))?)
}

/// Error in a topology file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {problem}: {text:?}")]
pub struct ReadError {
    /// Line number, from 1.
    pub line: u32,
    /// Error in the line.
    pub problem: ReadProblem,
    /// The line, shortened if it is long; empty if it is not known.
    pub text: String,
}

/// Error in a line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReadProblem {
    /// The text has no node.
    #[error("no switch or adapter up to the end of the text")]
    NoNodes,
    /// The line is not UTF-8.
    #[error("the line is not UTF-8")]
    NotText,
    /// The text has more ports than can be numbered.
    #[error("too large a topology")]
    TooLarge,
    /// The line begins like a known one but continues differently.
    #[error("{expected} expected")]
    Malformed {
        /// The expected text.
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
        /// Name of the node.
        node: String,
        /// The port number.
        port: u32,
        /// Number of the node's ports.
        ports: u8,
    },
    /// A node appears twice.
    #[error("{node} was already listed in line {line}")]
    DuplicateNode {
        /// Name of the node.
        node: String,
        /// Line of its first entry.
        line: u32,
    },
    /// A cable leads to a node that is not listed.
    #[error("{node} is not listed in the text")]
    UnknownPeer {
        /// Name of the node.
        node: String,
    },
    /// Two lines contradict each other about one port.
    #[error("port {port} of {node} is connected to {here}, but to {there} by line {line}")]
    Contradiction {
        /// Name of the node.
        node: String,
        /// Number of the port.
        port: u8,
        /// Other end, by this line.
        here: String,
        /// Other end, by the other line.
        there: String,
        /// Number of the other line.
        line: u32,
    },
    /// A cable joins two adapters.
    #[error("{a} and {b} are both adapters: there is no switch between them")]
    AdapterToAdapter {
        /// Name of one adapter.
        a: String,
        /// Name of the other adapter.
        b: String,
    },
}

/// Limit on the characters of a line that an error repeats.
const SHOWN: usize = 120;

impl ReadError {
    fn new(line: u32, text: &str, problem: ReadProblem) -> Self {
        Self { line, problem, text: text.trim().chars().take(SHOWN).collect() }
    }
}
