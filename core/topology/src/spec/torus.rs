//! The 3-D torus: a grid of switches whose lines are closed to rings.
//!
//! A ring of two switches is one link, a ring of one none, so that 2-D tori and lines are
//! described, too. Switch (i, j, k) has number i + x * (j + y * k): neighbours along x have
//! neighbouring numbers, and so do their endpoints. After the endpoints' ports come, ring by ring,
//! the one onwards and the one backwards.
//!
//! MR4LMS §4.2 measures x = 30, y = z = 20 with two endpoints per switch.

use serde::Deserialize;

use super::cables::{Cables, PortPosition};
use super::ranges::{Level, port_counts, positive};
use super::{FaultSpec, Kind, SpecError};
use crate::graph::Graph;
use crate::ids::SwitchId;

/// A grid of `x` by `y` by `z` switches, closed to rings in each dimension.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TorusSpec {
    #[serde(rename = "kind")]
    pub(super) _kind: Kind,
    /// Switches along the first dimension.
    pub x: u32,
    /// Switches along the second dimension.
    pub y: u32,
    /// Switches along the third dimension; 1 for a 2-D torus.
    pub z: u32,
    /// Endpoints of a switch.
    pub endpoints_per_switch: u32,
    /// Ports of every switch; by default as many as it needs.
    pub switch_ports: Option<u8>,
    /// Faults of the generated fabric.
    #[serde(default)]
    pub faults: FaultSpec,
}

impl TorusSpec {
    pub(super) fn wire(&self) -> Result<Graph, SpecError> {
        positive(&[
            ("x", self.x),
            ("y", self.y),
            ("z", self.z),
            ("endpoints_per_switch", self.endpoints_per_switch),
        ])?;
        let sizes = [self.x, self.y, self.z];
        let ring_ports = sizes.map(|size| size.min(3) - 1); // 0, 1 or 2
        let needs =
            u64::from(self.endpoints_per_switch) + ring_ports.map(u64::from).iter().sum::<u64>();
        let switches = sizes.map(u64::from).into_iter().fold(1, u64::saturating_mul);
        let level = Level { name: "torus", switches, needs };
        let ports = port_counts(&[level], self.switch_ports)?[0];

        let mut cables = Cables::new();
        let places = || {
            let plane = |k| (0..self.y).flat_map(move |j| (0..self.x).map(move |i| [i, j, k]));
            (0..self.z).flat_map(plane)
        };
        for [i, j, k] in places() {
            let switch = cables.add_switch(&format!("t{i}-{j}-{k}"), ports);
            cables.add_endpoints(switch, self.endpoints_per_switch);
        }
        let number = |[i, j, k]: [u32; 3]| SwitchId(i + self.x * (j + self.y * k));
        let mut first = self.endpoints_per_switch;
        for (dimension, (size, ports)) in sizes.into_iter().zip(ring_ports).enumerate() {
            // The last link of a ring closes it; a ring of two has no use for that.
            let last = if size > 2 { size } else { size - 1 };
            for from in places().filter(|place| place[dimension] < last) {
                let mut to = from;
                to[dimension] = (from[dimension] + 1) % size;
                cables.link(
                    PortPosition(number(from), first),
                    PortPosition(number(to), first + ports - 1),
                );
            }
            first += ports;
        }
        Ok(cables.build())
    }
}
