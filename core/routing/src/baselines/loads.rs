//! Counts the groups that cross every link and pass every switch.

use fabricast_topology::{Graph, PortId, SwitchId};

use crate::links::Link;
use crate::mr4lms::fabric::Fabric;

/// The fabric with the loads of its trees.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadedFabric<'a> {
    pub(super) fabric: &'a Fabric,
    pub(super) loads: &'a Loads,
}

/// The loads that trees have left behind.
#[derive(Clone, Debug)]
pub(super) struct Loads {
    efi: Vec<u32>,     // by lower port of a link
    passing: Vec<u32>, // by switch
}

impl Loads {
    pub(super) fn new(graph: &Graph) -> Self {
        Self { efi: vec![0; graph.port_count()], passing: vec![0; graph.switch_count()] }
    }

    /// Returns the groups whose packets cross a link, its EFI.
    pub(super) fn link(&self, link: Link) -> u32 {
        self.efi[link.port.min(link.peer).index()]
    }

    /// Returns the groups whose packets pass a switch.
    pub(super) fn switch(&self, switch: SwitchId) -> u32 {
        self.passing[switch.index()]
    }

    /// Counts groups that use a tree, given by its ports, rising.
    pub(super) fn count_in(&mut self, fabric: &Fabric, ports: &[PortId], groups: usize) {
        let groups = dense(groups);
        self.change(fabric, ports, |load| *load += groups);
    }

    /// Takes groups that used a tree out of the counts.
    pub(super) fn count_out(&mut self, fabric: &Fabric, ports: &[PortId], groups: usize) {
        let groups = dense(groups);
        self.change(fabric, ports, |load| *load -= groups);
    }

    fn change(&mut self, fabric: &Fabric, ports: &[PortId], change: impl Fn(&mut u32)) {
        for (port, _) in fabric.tree_links(ports) {
            change(&mut self.efi[port.index()]);
        }
        for switch in fabric.switches(ports) {
            change(&mut self.passing[switch.index()]);
        }
    }
}

fn dense(groups: usize) -> u32 {
    u32::try_from(groups).expect("a group has a 32-bit MGID")
}
