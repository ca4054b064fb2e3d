//! Wires a described fabric.
//!
//! All kinds are one shape cut short at the top. Wiring (C-MR4LMS §2): level-1 switch g
//! of every CN goes to TNs g*p .. g*p+p-1, level-2 switch j of a TN serves CNs j*w .. j*w+w-1.
//! Switches are numbered CN by CN (leaves, then level 1), then TN by TN (level 2, then level 3);
//! on each, down-ports come before up-ports.

use super::faults::resolve;
use super::{CnTnSpec, FaultSpec, KAry3Spec, LeafSpineSpec, SpecError, TopologySpec};
use crate::graph::{AdapterFacts, AdapterKind, EndpointFacts, Graph, GraphBuilder, SwitchFacts};
use crate::ids::{PortId, SwitchId};

/// Most ports a switch can have: their numbers are bytes, 255 means "all" in InfiniBand.
const MOST_PORTS: u32 = 254;
/// Most switch ports of a fabric that fit the packed numbers of a graph.
const MOST_PORTS_IN_ALL: u64 = (1 << 31) - 1;
/// GUIDs of generated switches and adapters: locally administered, told apart at a glance.
const SWITCH_GUID: u64 = 0x02fa_b000_0000_0000;
const ADAPTER_GUID: u64 = 0x02fa_b100_0000_0000;
/// Link width and speed that generated fabrics claim.
const SPEED: &str = "4xEDR";

/// Every kind of fabric in one set of numbers, checked.
#[derive(Clone, Copy, Debug)]
struct Shape {
    levels: u32,
    cns: u32,
    leaves: u32,    // per CN
    endpoints: u32, // per leaf
    spines: u32,    // per CN
    tns: u32,       // per group
    blocks: u32,
    cns_per_block: u32,
    tops: u32, // level-3 switches per TN
    lanes: [u32; 3],
    ports: Option<u8>,
}

impl TopologySpec {
    /// Builds the fabric; what is broken is left out as [`Graph::without`] does.
    ///
    /// # Errors
    ///
    /// [`SpecError`] naming the field that is out of range or names nothing.
    pub fn generate(&self) -> Result<Graph, SpecError> {
        let (shape, faults) = match self {
            Self::CnTnFatTree(spec) => (cn_tn_shape(spec)?, &spec.faults),
            Self::KAry3Level(spec) => (k_ary_shape(spec)?, &spec.faults),
            Self::LeafSpine(spec) => (leaf_spine_shape(spec)?, &spec.faults),
        };
        let graph = Wiring { shape, builder: GraphBuilder::new() }.wire()?;
        if *faults == FaultSpec::default() {
            return Ok(graph);
        }
        let faults = resolve(&graph, faults)?;
        Ok(graph.without(&faults))
    }
}

fn positive(fields: &[(&'static str, u32)]) -> Result<(), SpecError> {
    match fields.iter().find(|(_, value)| *value == 0) {
        Some((field, _)) => Err(SpecError::Range { field, value: 0, rule: "at least 1".into() }),
        None => Ok(()),
    }
}

fn at_most(field: &'static str, value: u32, most: u64) -> Result<u32, SpecError> {
    let fits = u64::from(value) <= most;
    let rule = || format!("at most {most}");
    fits.then_some(value).ok_or_else(|| SpecError::Range {
        field,
        value: value.into(),
        rule: rule(),
    })
}

fn share(field: &'static str, links: u32, lanes: u32) -> Result<u32, SpecError> {
    let rule = || format!("a multiple of the {lanes} parallel links");
    let whole = links >= lanes && links.is_multiple_of(lanes);
    whole.then(|| links / lanes).ok_or_else(|| SpecError::Range {
        field,
        value: links.into(),
        rule: rule(),
    })
}

fn cn_tn_shape(spec: &CnTnSpec) -> Result<Shape, SpecError> {
    let tops = spec.l3_per_tn.unwrap_or(spec.cns_per_block);
    let most_cns = u64::from(spec.blocks) * u64::from(spec.cns_per_block);
    let all = u32::try_from(most_cns).unwrap_or(u32::MAX);
    positive(&[
        ("leaves_per_cn", spec.leaves_per_cn),
        ("spines_per_cn", spec.spines_per_cn),
        ("tns_per_group", spec.tns_per_group),
        ("blocks", spec.blocks),
        ("cns_per_block", spec.cns_per_block),
        ("l3_per_tn", tops),
        ("cns", spec.cns.unwrap_or(1)),
        ("endpoints_per_leaf", spec.endpoints_per_leaf),
        ("lanes0", spec.lanes0),
        ("lanes1", spec.lanes1),
        ("lanes2", spec.lanes2),
    ])?;
    Ok(Shape {
        levels: 4,
        cns: at_most("cns", spec.cns.unwrap_or(all), most_cns)?,
        leaves: spec.leaves_per_cn,
        endpoints: spec.endpoints_per_leaf,
        spines: spec.spines_per_cn,
        tns: spec.tns_per_group,
        blocks: spec.blocks,
        cns_per_block: spec.cns_per_block,
        tops,
        lanes: [spec.lanes0, spec.lanes1, spec.lanes2],
        ports: spec.switch_ports,
    })
}

fn k_ary_shape(spec: &KAry3Spec) -> Result<Shape, SpecError> {
    if spec.k < 2 || spec.k % 2 == 1 {
        let rule = "even and at least 2".into();
        return Err(SpecError::Range { field: "k", value: spec.k.into(), rule });
    }
    let (all, half) = (u32::from(spec.k), u32::from(spec.k / 2));
    positive(&[("lanes0", spec.lanes0), ("lanes1", spec.lanes1)])?;
    let most_pods = all / spec.lanes1;
    let endpoints = spec.endpoints_per_leaf.unwrap_or(half);
    let leaf_uplinks = at_most("leaf_uplinks", spec.leaf_uplinks.unwrap_or(half), half.into())?;
    let spine_uplinks = at_most("spine_uplinks", spec.spine_uplinks.unwrap_or(half), half.into())?;
    let pods = at_most("pods", spec.pods.unwrap_or(most_pods), most_pods.into())?;
    positive(&[("pods", pods), ("endpoints_per_leaf", endpoints)])?;
    Ok(Shape {
        levels: 3,
        cns: pods,
        leaves: share("k / 2", half, spec.lanes0)?,
        endpoints,
        spines: share("leaf_uplinks", leaf_uplinks, spec.lanes0)?,
        tns: share("spine_uplinks", spine_uplinks, spec.lanes1)?,
        blocks: 1,
        cns_per_block: pods,
        tops: 0,
        lanes: [spec.lanes0, spec.lanes1, 0],
        ports: Some(spec.k),
    })
}

fn leaf_spine_shape(spec: &LeafSpineSpec) -> Result<Shape, SpecError> {
    positive(&[
        ("leaves", spec.leaves),
        ("spines", spec.spines.max(u32::from(spec.leaves == 1))),
        ("endpoints_per_leaf", spec.endpoints_per_leaf),
        ("lanes0", spec.lanes0),
    ])?;
    Ok(Shape {
        levels: if spec.spines == 0 { 1 } else { 2 },
        cns: 1,
        leaves: spec.leaves,
        endpoints: spec.endpoints_per_leaf,
        spines: spec.spines,
        tns: 0,
        blocks: 0,
        cns_per_block: 0,
        tops: 0,
        lanes: [spec.lanes0, 0, 0],
        ports: spec.switch_ports,
    })
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

    /// Port counts by level, and whether everything can be numbered.
    fn port_counts(&self) -> Result<[u8; 4], SpecError> {
        const LEVELS: [&str; 4] = ["leaf", "level-1", "level-2", "level-3"];
        let mut counts = [0; 4];
        let mut in_all = 0u64;
        for (level, name) in (0..self.levels).zip(LEVELS) {
            let (down, up) = self.links(level);
            let has = self.ports.map_or(MOST_PORTS, u32::from);
            let needs = down.saturating_add(up);
            if needs > has.into() {
                return Err(SpecError::Ports { level: name, needs, has });
            }
            let ports = self.ports.map_or(needs, u64::from);
            counts[level as usize] = u8::try_from(ports).expect("at most 254");
            in_all = in_all.saturating_add(self.switches(level).saturating_mul(ports));
        }
        if in_all > MOST_PORTS_IN_ALL {
            return Err(SpecError::TooLarge { ports: in_all, most: MOST_PORTS_IN_ALL });
        }
        Ok(counts)
    }
}

struct Wiring {
    shape: Shape,
    builder: GraphBuilder,
}

impl Wiring {
    fn wire(mut self) -> Result<Graph, SpecError> {
        let ports = self.shape.port_counts()?;
        self.add_switches(ports);
        self.add_endpoints();
        for cn in 0..self.shape.cns {
            self.wire_cn(cn);
        }
        for tn in 0..self.tns() {
            self.wire_tn(tn);
        }
        Ok(self.builder.build().expect("generated names are unique"))
    }

    fn tns(&self) -> u32 {
        if self.shape.levels >= 3 { self.shape.spines * self.shape.tns } else { 0 }
    }

    fn add_switches(&mut self, ports: [u8; 4]) {
        let shape = self.shape;
        let midplanes = shape.levels >= 3;
        for cn in 0..shape.cns {
            let within = if midplanes { format!("cn{cn}-") } else { String::new() };
            for leaf in 0..shape.leaves {
                self.add_switch(&format!("{within}leaf{leaf}"), ports[0]);
            }
            for spine in 0..shape.spines {
                self.add_switch(&format!("{within}spine{spine}"), ports[1]);
            }
        }
        for tn in 0..self.tns() {
            if shape.levels == 3 {
                self.add_switch(&format!("core{tn}"), ports[2]);
                continue;
            }
            for block in 0..shape.blocks {
                self.add_switch(&format!("tn{tn}-lower{block}"), ports[2]);
            }
            for top in 0..shape.tops {
                self.add_switch(&format!("tn{tn}-upper{top}"), ports[3]);
            }
        }
    }

    fn add_switch(&mut self, description: &str, ports: u8) {
        let guid = SWITCH_GUID + u64::from(self.builder.switch_count());
        let facts =
            SwitchFacts { guid, port_guid: guid, system_guid: guid, ..SwitchFacts::default() };
        self.builder.add_switch(&format!("S-{guid:016x}"), description, ports, facts);
    }

    fn add_endpoints(&mut self) {
        let mut guid = ADAPTER_GUID;
        for cn in 0..self.shape.cns {
            for leaf in 0..self.shape.leaves {
                let switch = self.leaf(cn, leaf);
                for port in 0..self.shape.endpoints {
                    let description = format!("h{}", guid - ADAPTER_GUID);
                    self.builder.add_adapter(
                        &format!("H-{guid:016x}"),
                        &description,
                        AdapterFacts {
                            kind: AdapterKind::Channel,
                            ports: 1,
                            system_guid: guid,
                            guid,
                            ..AdapterFacts::default()
                        },
                    );
                    let facts = EndpointFacts { number: 1, port_guid: guid, lmc: 0, lid: 0 };
                    let endpoint = self.builder.add_endpoint(facts);
                    let port = self.port(switch, port);
                    self.builder.attach(endpoint, port).expect("one endpoint per port");
                    self.builder.set_port_speed(port, SPEED);
                    self.builder.set_endpoint_speed(endpoint, SPEED);
                    guid += 1;
                }
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
                    self.link((below, up), (above, leaf * lanes0 + lane));
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
                    self.link((above, up), (top, cn_in_block * lanes1 + lane));
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
                    self.link((below, up), (above, block * lanes2 + lane));
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

    /// Gives a port by its position from 0.
    fn port(&self, switch: SwitchId, position: u32) -> PortId {
        let number = u8::try_from(position + 1).expect("port counts were checked");
        self.builder.port(switch, number).expect("port counts were checked")
    }

    fn link(&mut self, below: (SwitchId, u32), above: (SwitchId, u32)) {
        let (below, above) = (self.port(below.0, below.1), self.port(above.0, above.1));
        self.builder.link(below, above).expect("every link has its own ports");
        self.builder.set_port_speed(below, SPEED);
        self.builder.set_port_speed(above, SPEED);
    }
}
