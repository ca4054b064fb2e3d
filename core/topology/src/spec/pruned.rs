//! Pruned fat trees: midplanes of two full levels below director switches with fewer links than
//! endpoints.
//!
//! A *core* is a director: line switches, to whose ports the midplanes are connected, and above
//! them its spine switches, each linked to every line. Uplink n of a midplane (numbered level-1
//! switch by level-1 switch) goes to core n mod `cores`. A midplane thus has `uplinks / cores`
//! *paths* to each core, from different level-1 switches. On a core each path has its own lines,
//! filled midplane by midplane: the first line of a path serves midplanes 0 to `line_ports - 1`,
//! and so on. Without spine switches a core is a single switch, which all midplanes lead to.
//!
//! Both Sunway machines of MR4LMS §4.2 are of this kind. Published facts:
//! - BlueLight: 8 704 processors; 256x34 puts each of 34 groups into one midplane, which therefore
//!   has 256; InfiniBand QDR; 8 paths from each leaf switch to the topmost switch.
//! - TaihuLight: 40 960 processors in 160 midplanes of 256; between midplanes a quarter of
//!   the bandwidth (70 TB/s across the middle); "as BlueLight, but larger", 2 paths.
//!
//! Derived: a quarter is 64 uplinks for 256 processors. Then 8 paths mean 8 cores with 34 * 8 = 272
//! ports in use, and 2 paths mean 32 cores with 160 * 2 = 320. Both fit the director of 324 ports
//! that was sold then, 18 lines and 9 spines of 36-port switches. BlueLight's 29 colors for 256x34
//! (§4.3) are possible only with more than 9 level-1 switches per midplane and fewer than 29
//! endpoints per leaf, since 256 groups leave every midplane and a color is used once per switch.
//!
//! Assumed: BlueLight's quarter (like TaihuLight's); 16 leaves of 16 endpoints and 16 level-1
//! switches per midplane, with 4 uplinks each; the order of cables. TaihuLight's own network chips
//! are modelled as 36-port switches, too.

use serde::Deserialize;

use super::cables::{Cables, PortPosition};
use super::ranges::{Level, port_counts, positive};
use super::{FaultSpec, Kind, SpecError, one};
use crate::graph::Graph;
use crate::ids::SwitchId;

/// Midplanes of leaf and level-1 switches below a few director switches.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrunedSpec {
    #[serde(rename = "kind")]
    pub(super) _kind: Kind,
    /// Number of midplanes.
    pub midplanes: u32,
    /// Leaf switches of a midplane.
    pub leaves: u32,
    /// Endpoints of a leaf switch.
    pub endpoints_per_leaf: u32,
    /// Level-1 switches of a midplane, each linked to all its leaves.
    pub spines: u32,
    /// Links of a level-1 switch upwards; fewer than it has downwards prunes the tree.
    pub uplinks_per_spine: u32,
    /// Number of cores, among which the uplinks of a midplane are divided evenly.
    pub cores: u32,
    /// Ports that a core's line switch has for midplanes; left out if a core is a single switch.
    #[serde(default)]
    pub line_ports: u32,
    /// Spine switches inside a core; 0 if it is a single switch.
    pub core_spines: u32,
    /// Parallel links from a leaf to a level-1 switch.
    #[serde(default = "one")]
    pub lanes0: u32,
    /// Parallel links from a line to a spine switch inside a core.
    #[serde(default = "one")]
    pub core_lanes: u32,
    /// Ports of every switch; by default as many as it needs.
    pub switch_ports: Option<u8>,
    /// Faults of the generated fabric.
    #[serde(default)]
    pub faults: FaultSpec,
}

impl PrunedSpec {
    pub(super) fn wire(&self) -> Result<Graph, SpecError> {
        positive(&[
            ("midplanes", self.midplanes),
            ("leaves", self.leaves),
            ("endpoints_per_leaf", self.endpoints_per_leaf),
            ("spines", self.spines),
            ("uplinks_per_spine", self.uplinks_per_spine),
            ("cores", self.cores),
            ("lanes0", self.lanes0),
            ("core_lanes", self.core_lanes),
        ])?;
        let single = self.core_spines == 0;
        if single != (self.line_ports == 0) {
            let rule = if single { "0 where a core is a single switch" } else { "at least 1" };
            let value = self.line_ports.into();
            return Err(SpecError::Range { field: "line_ports", value, rule: rule.to_owned() });
        }
        let uplinks = self.spines.saturating_mul(self.uplinks_per_spine);
        if !uplinks.is_multiple_of(self.cores) {
            let rule = format!("a divisor of the {uplinks} uplinks of a midplane");
            return Err(SpecError::Range { field: "cores", value: self.cores.into(), rule });
        }
        let paths = uplinks / self.cores;
        let lines_per_path = if single { 0 } else { self.midplanes.div_ceil(self.line_ports) };
        let lines = if single { 1 } else { u64::from(paths) * u64::from(lines_per_path) };
        let ports = port_counts(&self.levels(lines, paths), self.switch_ports)?;
        let lines = u32::try_from(lines).expect("a core's spine has a port for each");
        let mut wiring = Wiring { spec: self, lines, lines_per_path, cables: Cables::new() };
        wiring.add_switches(&ports);
        (0..self.midplanes).for_each(|midplane| wiring.wire_midplane(midplane));
        (0..self.cores).for_each(|core| wiring.wire_core(core));
        Ok(wiring.cables.build())
    }

    fn levels(&self, lines: u64, paths: u32) -> [Level; 4] {
        let by = |a: u32, b: u32| u64::from(a) * u64::from(b);
        let inside = by(self.core_spines, self.core_lanes);
        let outside = match self.core_spines {
            0 => by(self.midplanes, paths),
            _ => self.line_ports.into(),
        };
        [
            Level {
                name: "leaf",
                switches: by(self.midplanes, self.leaves),
                needs: by(self.spines, self.lanes0).saturating_add(self.endpoints_per_leaf.into()),
            },
            Level {
                name: "level-1",
                switches: by(self.midplanes, self.spines),
                needs: by(self.leaves, self.lanes0).saturating_add(self.uplinks_per_spine.into()),
            },
            Level {
                name: "core line",
                switches: lines.saturating_mul(self.cores.into()),
                needs: inside.saturating_add(outside),
            },
            Level {
                name: "core spine",
                switches: by(self.cores, self.core_spines),
                needs: lines.saturating_mul(self.core_lanes.into()),
            },
        ]
    }
}

struct Wiring<'a> {
    spec: &'a PrunedSpec,
    lines: u32, // of a core
    lines_per_path: u32,
    cables: Cables,
}

impl Wiring<'_> {
    fn add_switches(&mut self, ports: &[u8]) {
        let Self { spec, lines, cables, .. } = self;
        for midplane in 0..spec.midplanes {
            for leaf in 0..spec.leaves {
                let switch = cables.add_switch(&format!("cn{midplane}-leaf{leaf}"), ports[0]);
                cables.add_endpoints(switch, spec.endpoints_per_leaf);
            }
            for spine in 0..spec.spines {
                cables.add_switch(&format!("cn{midplane}-spine{spine}"), ports[1]);
            }
        }
        for core in 0..spec.cores {
            for line in 0..*lines {
                let within =
                    if spec.core_spines > 0 { format!("-line{line}") } else { String::new() };
                cables.add_switch(&format!("core{core}{within}"), ports[2]);
            }
            for spine in 0..spec.core_spines {
                cables.add_switch(&format!("core{core}-spine{spine}"), ports[3]);
            }
        }
    }

    fn wire_midplane(&mut self, midplane: u32) {
        let spec = self.spec;
        let first = midplane * (spec.leaves + spec.spines);
        for spine in 0..spec.spines {
            let above = SwitchId(first + spec.leaves + spine);
            for (leaf, lane) in
                (0..spec.leaves).flat_map(|leaf| (0..spec.lanes0).map(move |lane| (leaf, lane)))
            {
                let up = spec.endpoints_per_leaf + spine * spec.lanes0 + lane;
                self.cables.link(
                    PortPosition(SwitchId(first + leaf), up),
                    PortPosition(above, leaf * spec.lanes0 + lane),
                );
            }
            for up in 0..spec.uplinks_per_spine {
                let number = spine * spec.uplinks_per_spine + up;
                let (core, path) = (number % spec.cores, number / spec.cores);
                let (line, port) = match spec.line_ports {
                    0 => (0, path * spec.midplanes + midplane),
                    ports => (path * self.lines_per_path + midplane / ports, midplane % ports),
                };
                let line = self.in_core(core, line);
                let from = PortPosition(above, spec.leaves * spec.lanes0 + up);
                self.cables.link(from, PortPosition(line, port));
            }
        }
    }

    fn wire_core(&mut self, core: u32) {
        let spec = self.spec;
        for (line, spine) in
            (0..self.lines).flat_map(|line| (0..spec.core_spines).map(move |spine| (line, spine)))
        {
            let (below, above) = (self.in_core(core, line), self.in_core(core, self.lines + spine));
            for lane in 0..spec.core_lanes {
                let up = spec.line_ports + spine * spec.core_lanes + lane;
                self.cables.link(
                    PortPosition(below, up),
                    PortPosition(above, line * spec.core_lanes + lane),
                );
            }
        }
    }

    /// Returns a switch of a core: its lines come first, then its spines.
    fn in_core(&self, core: u32, number: u32) -> SwitchId {
        let spec = self.spec;
        let below = spec.midplanes * (spec.leaves + spec.spines);
        SwitchId(below + core * (self.lines + spec.core_spines) + number)
    }
}
