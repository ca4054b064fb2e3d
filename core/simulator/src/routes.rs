//! Multicast trees as switches walk them: at every hop the outputs, and where each of them leads.
//!
//! Trees come in two forms, and a packet cannot tell which one it is on.
//! - *Both ways* ([`Routes::add_tree`]): all ports of a plan's tree; a packet that comes in by one
//!   port of a switch leaves by all others, which is what per-port tables say.
//! - *By way of a root* ([`Routes::add_rooted`]): up from one source to the root without a copy on
//!   the way, then down to every member (Dawning §4.2).
//!
//! A tree takes 8 bytes for each of its ports, and a hop needs no look-up.

use fabricast_topology::{EndpointId, Graph, Peer, PortId};
use thiserror::Error;

use crate::slab::NONE;

/// The multicast trees that packets can be sent on.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    hops: Vec<Hop>,
    outs: Vec<Out>,
    entries: Vec<(EndpointId, u32)>, // tree by tree, rising: sender and its first hop
    trees: Vec<Ends>,
}

/// Ends of the entries and outputs of a tree; they start where those of the one before end.
#[derive(Clone, Copy, Debug)]
struct Ends {
    entries: u32,
    outs: u32,
}

/// Names a tree of [`Routes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TreeId(pub u32);

/// Outputs of a packet in one switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hop {
    first: u32,
    count: u16,
    skip: u16,
}

/// One output of a hop, and the hop at its other end if that is a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Out {
    pub(crate) port: u32,
    pub(crate) next: u32,
}

/// Nothing is skipped.
const ALL: u16 = u16::MAX;

/// Reason why ports do not form a tree.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TreeError {
    /// A port has a cable whose other end is not part of the tree, or no cable.
    #[error("port {} belongs to the tree, the other end of its link does not", .port.0)]
    LooseEnd {
        /// Port that does not fit.
        port: PortId,
    },
    /// A port is named twice, or the list does not rise.
    #[error("port {} is out of order", .port.0)]
    Order {
        /// Port that does not fit.
        port: PortId,
    },
    /// The links form a circle: packets would run round it for ever.
    #[error("the links of the tree form a circle through port {}", .port.0)]
    Circle {
        /// A port on it.
        port: PortId,
    },
    /// There are too many ports to number.
    #[error("the trees have 2^31 ports or more")]
    TooLarge,
}

impl Routes {
    /// Makes an empty list of trees.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of trees.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.trees.len()
    }

    /// True if there is no tree.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.trees.is_empty()
    }

    /// Adds a tree given by its switch ports, rising, as a plan's virtual group names them: both
    /// ends of every link between switches and the ports of its endpoints. All its endpoints can
    /// send on it.
    ///
    /// # Errors
    ///
    /// [`TreeError`] if the ports are no tree; then nothing is added.
    pub fn add_tree(&mut self, graph: &Graph, ports: &[PortId]) -> Result<TreeId, TreeError> {
        if let Some(pair) = ports.windows(2).find(|pair| pair[0] >= pair[1]) {
            return Err(TreeError::Order { port: pair[1] });
        }
        let base = self.next_out(ports.len())?;
        let mut next = Vec::with_capacity(ports.len());
        for port in ports {
            next.push(match graph.peer(*port) {
                Peer::Switch(far) => match ports.binary_search(&far) {
                    Ok(at) => base + dense(at),
                    Err(_) => return Err(TreeError::LooseEnd { port: *port }),
                },
                Peer::Endpoint(_) => NONE,
                Peer::None => return Err(TreeError::LooseEnd { port: *port }),
            });
        }
        check_no_circle(graph, ports)?;
        let hop_base = dense(self.hops.len());
        let mut entries = Vec::new();
        for run in ports.chunk_by(|a, b| graph.switch_of(*a) == graph.switch_of(*b)) {
            let first = dense(self.outs.len());
            for (skip, port) in (0u16..).zip(run) {
                if let Peer::Endpoint(endpoint) = graph.peer(*port) {
                    entries.push((endpoint, dense(self.hops.len())));
                }
                let far = next[self.outs.len() - base as usize];
                let next = if far == NONE { NONE } else { far - base + hop_base };
                let count = u16::try_from(run.len()).expect("a switch has at most 255 ports");
                self.hops.push(Hop { first, count, skip });
                self.outs.push(Out { port: port.0, next });
            }
        }
        Ok(self.close(entries))
    }

    /// Adds a tree that `source` alone can send on: `climb` are the up-ports from its switch to the
    /// root, `descent` the ports at which copies leave root and switches below, rising.
    ///
    /// # Errors
    ///
    /// [`TreeError`] if a port has no cable or leads to a switch without outputs; then nothing is
    /// added.
    pub fn add_rooted(
        &mut self,
        graph: &Graph,
        source: EndpointId,
        climb: &[PortId],
        descent: &[PortId],
    ) -> Result<TreeId, TreeError> {
        if let Some(pair) = descent.windows(2).find(|pair| pair[0] >= pair[1]) {
            return Err(TreeError::Order { port: pair[1] });
        }
        self.next_out(climb.len() + descent.len())?;
        let (hops, outs) = (self.hops.len(), self.outs.len());
        let added = self.push_rooted(graph, climb, descent);
        if let Err(error) = added {
            self.hops.truncate(hops);
            self.outs.truncate(outs);
            return Err(error);
        }
        Ok(self.close(vec![(source, dense(hops))]))
    }

    fn push_rooted(
        &mut self,
        graph: &Graph,
        climb: &[PortId],
        descent: &[PortId],
    ) -> Result<(), TreeError> {
        // Hops: the climb in order, then the switches of the descent, rising.
        let down = dense(self.hops.len() + climb.len());
        let run_of = |port: &PortId| graph.switch_of(*port);
        let switches: Vec<_> = descent.chunk_by(|a, b| run_of(a) == run_of(b)).collect();
        let hop_at = |switch| {
            let at = switches.binary_search_by_key(&switch, |run| run_of(&run[0]));
            at.ok().map(|at| down + dense(at))
        };
        for (step, port) in climb.iter().enumerate() {
            let Peer::Switch(far) = graph.peer(*port) else {
                return Err(TreeError::LooseEnd { port: *port });
            };
            let last = step + 1 == climb.len();
            let next = if last { hop_at(graph.switch_of(far)) } else { None };
            let next = if last { next } else { Some(dense(self.hops.len()) + 1) };
            let next = next.ok_or(TreeError::LooseEnd { port: *port })?;
            self.hops.push(Hop { first: dense(self.outs.len()), count: 1, skip: ALL });
            self.outs.push(Out { port: port.0, next });
        }
        // One way to every switch: then it is a tree, whatever lies apart from it.
        let mut reached = vec![false; switches.len()];
        let root = climb.last().and_then(|_| self.outs.last()).map(|out| out.next);
        let mut reach = |hop: u32| !std::mem::replace(&mut reached[(hop - down) as usize], true);
        root.into_iter().all(&mut reach);
        for run in &switches {
            let count = u16::try_from(run.len()).expect("a switch has at most 255 ports");
            self.hops.push(Hop { first: dense(self.outs.len()), count, skip: ALL });
            for port in *run {
                let next = match graph.peer(*port) {
                    Peer::Endpoint(_) => NONE,
                    Peer::Switch(far) => {
                        let hop = hop_at(graph.switch_of(far));
                        let hop = hop.ok_or(TreeError::LooseEnd { port: *port })?;
                        if !reach(hop) {
                            return Err(TreeError::Circle { port: *port });
                        }
                        hop
                    }
                    Peer::None => return Err(TreeError::LooseEnd { port: *port }),
                };
                self.outs.push(Out { port: port.0, next });
            }
        }
        Ok(())
    }

    fn next_out(&self, more: usize) -> Result<u32, TreeError> {
        let all = self.outs.len() + more;
        if all < 1 << 31 { Ok(dense(self.outs.len())) } else { Err(TreeError::TooLarge) }
    }

    fn close(&mut self, mut entries: Vec<(EndpointId, u32)>) -> TreeId {
        entries.sort_unstable();
        self.entries.extend(entries);
        self.trees.push(Ends { entries: dense(self.entries.len()), outs: dense(self.outs.len()) });
        TreeId(dense(self.trees.len() - 1))
    }

    /// Lists the senders of a tree, ascending.
    pub fn senders(&self, tree: TreeId) -> impl ExactSizeIterator<Item = EndpointId> + '_ {
        self.entries_of(tree).iter().map(|(endpoint, _)| *endpoint)
    }

    /// Returns the first hop of a sender's packets on a tree.
    pub(crate) fn entry(&self, tree: TreeId, sender: EndpointId) -> Option<u32> {
        let entries = self.entries_of(tree);
        let at = entries.binary_search_by_key(&sender, |(endpoint, _)| *endpoint).ok()?;
        Some(entries[at].1)
    }

    fn entries_of(&self, tree: TreeId) -> &[(EndpointId, u32)] {
        let [from, to] = self.ends(tree);
        &self.entries[from.entries as usize..to.entries as usize]
    }

    /// Walks the ports by which copies can leave switches on a tree.
    pub fn out_ports(&self, tree: TreeId) -> impl ExactSizeIterator<Item = PortId> + '_ {
        let [from, to] = self.ends(tree);
        self.outs[from.outs as usize..to.outs as usize].iter().map(|out| PortId(out.port))
    }

    fn ends(&self, tree: TreeId) -> [Ends; 2] {
        let at = tree.0 as usize;
        let before = at.checked_sub(1).map_or(Ends { entries: 0, outs: 0 }, |at| self.trees[at]);
        [before, self.trees[at]]
    }

    /// Iterates over the outputs of a hop.
    pub(crate) fn outs(&self, hop: u32) -> impl Iterator<Item = Out> + Clone + '_ {
        let Hop { first, count, skip } = self.hops[hop as usize];
        let outs = &self.outs[first as usize..first as usize + usize::from(count)];
        let (before, after) = outs.split_at(usize::from(skip).min(outs.len()));
        before.iter().chain(after.get(1..).unwrap_or_default()).copied()
    }

    /// Counts the outputs of a hop.
    pub(crate) fn fan_out(&self, hop: u32) -> u16 {
        let Hop { count, skip, .. } = self.hops[hop as usize];
        count - u16::from(skip < count)
    }
}

/// Refuses links that form a circle: a tree has one link less than switches.
fn check_no_circle(graph: &Graph, ports: &[PortId]) -> Result<(), TreeError> {
    let runs: Vec<_> = ports.chunk_by(|a, b| graph.switch_of(*a) == graph.switch_of(*b)).collect();
    let mut parent: Vec<usize> = (0..runs.len()).collect();
    let find = |parent: &mut Vec<usize>, mut at: usize| {
        while parent[at] != at {
            parent[at] = parent[parent[at]];
            at = parent[at];
        }
        at
    };
    for (run, run_ports) in runs.iter().enumerate() {
        for port in *run_ports {
            let Peer::Switch(far) = graph.peer(*port) else { continue };
            if far < *port {
                continue; // each link once; a loop-back cable counts
            }
            let other = runs.partition_point(|run| graph.switch_of(run[0]) < graph.switch_of(far));
            let (a, b) = (find(&mut parent, run), find(&mut parent, other));
            if a == b {
                return Err(TreeError::Circle { port: *port });
            }
            parent[a] = b;
        }
    }
    Ok(())
}

fn dense(index: usize) -> u32 {
    u32::try_from(index).expect("checked to be less than 2^31")
}
