//! Generates fat trees of compute and top midplanes.
//!
//! All regular kinds are one shape, cut short at the top. Wiring (C-MR4LMS §2): level-1 switch g of
//! every CN goes to TNs g*p .. g*p+p-1; level-2 switch j of a TN serves CNs j*w .. j*w+w-1.
//! Switches are numbered CN by CN (leaves, then level 1), then TN by TN (level 2, then level 3); on
//! each, down-ports come before up-ports.

use super::SpecError;
use super::cables::{Cables, PortPosition};
use super::ranges::{Level, port_counts};
use crate::graph::Graph;
use crate::ids::SwitchId;

/// Validated parameters of any regular fat tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) levels: u32,
    pub(super) cns: u32,
    pub(super) leaves: u32,    // per CN
    pub(super) endpoints: u32, // per leaf
    pub(super) spines: u32,    // per CN
    pub(super) tns: u32,       // per group
    pub(super) blocks: u32,
    pub(super) cns_per_block: u32,
    pub(super) tops: u32, // level-3 switches per TN
    pub(super) lanes: [u32; 3],
    pub(super) ports: Option<u8>,
}

impl Shape {
    /// Down-links and up-links of a switch of one level.
    fn links(&self, level: u32) -> (u64, u64) {
        let by = |count: u32, lanes: u32| u64::from(count) * u64::from(lanes);
        match level {
            0 => (self.endpoints.into(), by(self.spines, self.lanes[0])),
            1 => (by(self.leaves, self.lanes[0]), by(self.tns, self.lanes[1])),
            2 => (by(self.cns_per_block, self.lanes[1]), by(self.tops, self.lanes[2])),
            _ => (by(self.blocks, self.lanes[2]), 0),
        }
    }

    fn switches(&self, level: u32) -> u64 {
        let by = |a: u32, b: u32| u64::from(a) * u64::from(b);
        match level {
            0 => by(self.cns, self.leaves),
            1 => by(self.cns, self.spines),
            2 => by(self.spines, self.tns) * u64::from(self.blocks),
            _ => by(self.spines, self.tns) * u64::from(self.tops),
        }
    }

    /// Generates the fabric; fails if a switch has too few ports or there are too many in all.
    pub(super) fn wire(self) -> Result<Graph, SpecError> {
        const NAMES: [&str; 4] = ["leaf", "level-1", "level-2", "level-3"];
        let levels = (0..self.levels).zip(NAMES).map(|(level, name)| {
            let (down, up) = self.links(level);
            Level { name, switches: self.switches(level), needs: down.saturating_add(up) }
        });
        let ports = port_counts(&levels.collect::<Vec<_>>(), self.ports)?;
        let mut wiring = Wiring { shape: self, cables: Cables::new() };
        wiring.add_switches(&ports);
        for cn in 0..self.cns {
            wiring.wire_cn(cn);
        }
        for tn in 0..wiring.tns() {
            wiring.wire_tn(tn);
        }
        Ok(wiring.cables.build())
    }
}

struct Wiring {
    shape: Shape,
    cables: Cables,
}

impl Wiring {
    fn tns(&self) -> u32 {
        if self.shape.levels >= 3 { self.shape.spines * self.shape.tns } else { 0 }
    }

    fn add_switches(&mut self, ports: &[u8]) {
        let Self { shape, cables } = self;
        let midplanes = shape.levels >= 3;
        for cn in 0..shape.cns {
            let within = if midplanes { format!("cn{cn}-") } else { String::new() };
            for leaf in 0..shape.leaves {
                let switch = cables.add_switch(&format!("{within}leaf{leaf}"), ports[0]);
                cables.add_endpoints(switch, shape.endpoints);
            }
            for spine in 0..shape.spines {
                cables.add_switch(&format!("{within}spine{spine}"), ports[1]);
            }
        }
        for tn in 0..self.tns() {
            let Self { shape, cables } = self;
            if shape.levels == 3 {
                cables.add_switch(&format!("core{tn}"), ports[2]);
                continue;
            }
            for block in 0..shape.blocks {
                cables.add_switch(&format!("tn{tn}-lower{block}"), ports[2]);
            }
            for top in 0..shape.tops {
                cables.add_switch(&format!("tn{tn}-upper{top}"), ports[3]);
            }
        }
    }

    fn wire_cn(&mut self, cn: u32) {
        let shape = self.shape;
        let [lanes0, lanes1, _] = shape.lanes;
        for spine in 0..shape.spines {
            let above = self.spine(cn, spine);
            for leaf in 0..shape.leaves {
                let below = self.leaf(cn, leaf);
                for lane in 0..lanes0 {
                    let up = shape.endpoints + spine * lanes0 + lane;
                    self.cables
                        .link(PortPosition(below, up), PortPosition(above, leaf * lanes0 + lane));
                }
            }
            let (block, cn_in_block) = match shape.levels {
                4 => (cn / shape.cns_per_block, cn % shape.cns_per_block),
                3 => (0, cn),
                _ => continue,
            };
            for tn in 0..shape.tns {
                let top = self.lower(spine * shape.tns + tn, block);
                for lane in 0..lanes1 {
                    let up = shape.leaves * lanes0 + lane * shape.tns + tn;
                    self.cables.link(
                        PortPosition(above, up),
                        PortPosition(top, cn_in_block * lanes1 + lane),
                    );
                }
            }
        }
    }

    fn wire_tn(&mut self, tn: u32) {
        let shape = self.shape;
        let [_, lanes1, lanes2] = shape.lanes;
        for block in 0..shape.blocks {
            let below = self.lower(tn, block);
            for top in 0..shape.tops {
                let above = SwitchId(self.lower(tn, 0).0 + shape.blocks + top);
                for lane in 0..lanes2 {
                    let up = shape.cns_per_block * lanes1 + lane * shape.tops + top;
                    self.cables
                        .link(PortPosition(below, up), PortPosition(above, block * lanes2 + lane));
                }
            }
        }
    }

    fn leaf(&self, cn: u32, leaf: u32) -> SwitchId {
        SwitchId(cn * (self.shape.leaves + self.shape.spines) + leaf)
    }

    fn spine(&self, cn: u32, spine: u32) -> SwitchId {
        SwitchId(self.leaf(cn, self.shape.leaves).0 + spine)
    }

    fn lower(&self, tn: u32, block: u32) -> SwitchId {
        let below = self.leaf(self.shape.cns, 0).0;
        SwitchId(below + tn * (self.shape.blocks + self.shape.tops) + block)
    }
}
