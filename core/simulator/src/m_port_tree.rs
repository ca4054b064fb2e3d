//! The m-port n-tree FT(m, n) of the Dawning paper, wired by its Definitions 1 to 3.
//!
//! `m` ports to a switch, `n` levels of switches, level 0 the roots. Where the scan of the paper
//! has lost indices we read: SW<w, l> port k is linked to SW<w', l+1> port k' if w without its last
//! digit equals w' without digit l, k = w'_l + 1 and k' = w's last digit + m/2 + 1, ports counted
//! from 1.

use fabricast_topology::{
    AdapterFacts, BuildError, EndpointFacts, Graph, GraphBuilder, SwitchFacts, SwitchId,
};
use thiserror::Error;

/// Reason why the tree cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MPortTreeError {
    /// The number of ports is odd, too small or too large.
    #[error("m is {m}, must be even and 4 to 254")]
    Ports {
        /// Ports per switch that were given.
        m: u32,
    },
    /// The number of levels is too small or too large.
    #[error("n is {n}, must be 2 to 4")]
    Levels {
        /// Levels that were given.
        n: u32,
    },
    /// There would be more than a million endpoints.
    #[error("FT({m}, {n}) has more than 2^20 endpoints")]
    TooLarge {
        /// Ports per switch.
        m: u32,
        /// Levels of switches.
        n: u32,
    },
    /// The wiring contradicts itself.
    #[error(transparent)]
    Wiring(#[from] BuildError),
}

/// Builds FT(m, n): 2 (m/2)^n endpoints, (2n - 1) (m/2)^(n-1) switches.
///
/// Endpoints are numbered by their labels, called `P<digits>`; switches level by level from the
/// roots, described as `SW<digits,level>`.
///
/// # Errors
///
/// [`MPortTreeError`] if `m` or `n` is out of range.
pub fn m_port_n_tree(m: u32, n: u32) -> Result<Graph, MPortTreeError> {
    if !(4..=254).contains(&m) || m % 2 == 1 {
        return Err(MPortTreeError::Ports { m });
    }
    if !(2..=4).contains(&n) {
        return Err(MPortTreeError::Levels { n });
    }
    let endpoints = 2 * u64::from(m / 2).pow(n);
    if endpoints > 1 << 20 {
        return Err(MPortTreeError::TooLarge { m, n });
    }
    let mut tree = Labels { m, half: m / 2, n, builder: GraphBuilder::new() };
    tree.add_switches();
    tree.link_switches()?;
    tree.attach_endpoints()?;
    Ok(tree.builder.build()?)
}

struct Labels {
    m: u32,
    half: u32,
    n: u32,
    builder: GraphBuilder,
}

impl Labels {
    /// Counts the switches of a level.
    fn on_level(&self, level: u32) -> u32 {
        let first = if level == 0 { self.half } else { self.m };
        first * self.half.pow(self.n - 2)
    }

    /// Gives the switch with a label: its digits as one number, highest first.
    fn switch(&self, digits: &[u32], level: u32) -> SwitchId {
        let within = digits.iter().fold(0, |number, digit| number * self.half + digit);
        SwitchId((0..level).map(|above| self.on_level(above)).sum::<u32>() + within)
    }

    /// Splits a number into digits; all but the first are below m/2.
    fn digits(&self, mut number: u32, count: u32) -> Vec<u32> {
        let mut digits: Vec<u32> = (1..count)
            .map(|_| {
                let digit = number % self.half;
                number /= self.half;
                digit
            })
            .collect();
        digits.push(number);
        digits.reverse();
        digits
    }

    fn add_switches(&mut self) {
        let ports = u8::try_from(self.m).expect("at most 254");
        let mut id = 0u64;
        for level in 0..self.n {
            for within in 0..self.on_level(level) {
                let label = join(&self.digits(within, self.n - 1));
                let name = format!("S-{id:016x}");
                let text = format!("SW<{label},{level}>");
                self.builder.add_switch(&name, &text, ports, SwitchFacts::default());
                id += 1;
            }
        }
    }

    fn link_switches(&mut self) -> Result<(), BuildError> {
        for level in 0..self.n - 1 {
            for below in 0..self.on_level(level + 1) {
                let digits = self.digits(below, self.n - 1);
                let at = level as usize;
                let mut above: Vec<u32> = digits.clone();
                let k = above.remove(at) + 1;
                above.push(0);
                let lower = self.switch(&digits, level + 1);
                for last in 0..self.half {
                    *above.last_mut().expect("n is 2 or more") = last;
                    let upper = self.switch(&above, level);
                    let (k, k_low) = (port(k), port(last + self.half + 1));
                    let upper = self.builder.port(upper, k).expect("k is at most m");
                    let lower = self.builder.port(lower, k_low).expect("at most m");
                    self.builder.link(upper, lower)?;
                }
            }
        }
        Ok(())
    }

    fn attach_endpoints(&mut self) -> Result<(), BuildError> {
        for number in 0..self.m * self.half.pow(self.n - 1) {
            let digits = self.digits(number, self.n);
            let (last, leaf) = digits.split_last().expect("n is 2 or more");
            let name = format!("P{}", join(&digits));
            let facts = AdapterFacts { ports: 1, ..AdapterFacts::default() };
            self.builder.add_adapter(&format!("H-{number:016x}"), &name, facts);
            let facts = EndpointFacts { number: 1, ..EndpointFacts::default() };
            let endpoint = self.builder.add_endpoint(facts);
            let leaf = self.switch(leaf, self.n - 1);
            let place = self.builder.port(leaf, port(last + 1)).expect("at most m/2");
            self.builder.attach(endpoint, place)?;
        }
        Ok(())
    }
}

fn port(number: u32) -> u8 {
    u8::try_from(number).expect("m is at most 254")
}

/// Writes a label: digits in a row, with dots between them where one has two places.
fn join(digits: &[u32]) -> String {
    let parts: Vec<String> = digits.iter().map(u32::to_string).collect();
    parts.join(if digits.iter().any(|digit| *digit > 9) { "." } else { "" })
}

#[cfg(test)]
mod tests {
    use fabricast_topology::{FatTree, Peer};

    use super::*;

    /// FT(4, 3) of the paper's figure 3 has 16 nodes and 20 switches; FT(8, 3) of §5 128 nodes, 80
    /// switches and 16 roots; no port is left over.
    #[test]
    fn the_papers_trees_have_their_sizes() {
        for (m, n, endpoints, switches) in
            [(4, 3, 16, 20), (8, 3, 128, 80), (4, 2, 8, 6), (4, 4, 32, 56)]
        {
            let graph = m_port_n_tree(m, n).unwrap();
            assert_eq!((graph.endpoint_count(), graph.switch_count()), (endpoints, switches));
            let open = graph.switches().flat_map(|switch| graph.ports(switch));
            assert_eq!(open.filter(|port| graph.peer(*port) == Peer::None).count(), 0);
        }
    }

    /// Figure 3: the lowest common ancestors of P000, P001, P010, P011 are SW<00,1> and SW<01,1>.
    #[test]
    fn figure_3_has_its_common_ancestors() {
        let graph = m_port_n_tree(4, 3).unwrap();
        let leaf = graph.find_switch("SW<00,2>").unwrap();
        let other = graph.find_switch("SW<01,2>").unwrap();
        let above = |leaf| {
            let mut names: Vec<&str> = graph
                .ports(leaf)
                .filter_map(|port| match graph.peer(port) {
                    Peer::Switch(far) => Some(graph.switch_description(graph.switch_of(far))),
                    Peer::None | Peer::Endpoint(_) => None,
                })
                .collect();
            names.sort_unstable();
            names
        };
        assert_eq!(above(leaf), ["SW<00,1>", "SW<01,1>"]);
        assert_eq!(above(other), above(leaf));
    }

    #[test]
    fn every_tree_is_recognised_without_irregularities() {
        for (m, n) in [(4, 2), (4, 3), (8, 3), (6, 4)] {
            let graph = m_port_n_tree(m, n).unwrap();
            let tree = FatTree::detect(&graph).unwrap();
            assert_eq!(tree.params().levels, n, "FT({m}, {n})");
            assert!(tree.irregularities().is_empty(), "{:?}", tree.irregularities());
        }
    }

    #[test]
    fn sizes_out_of_range_are_refused() {
        assert_eq!(m_port_n_tree(5, 3), Err(MPortTreeError::Ports { m: 5 }));
        assert_eq!(m_port_n_tree(8, 1), Err(MPortTreeError::Levels { n: 1 }));
        assert_eq!(m_port_n_tree(254, 4), Err(MPortTreeError::TooLarge { m: 254, n: 4 }));
    }
}
