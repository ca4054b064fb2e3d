//! Counts the groups that cross every link and pass every switch.

use fabricast_topology::{Graph, PortId, SwitchId};

use crate::links::Link;
use crate::mr4lms::fabric::Fabric;

/// Number of groups whose trees use each link and switch.
#[derive(Clone, Debug)]
pub(crate) struct Loads {
    efi: Vec<u32>,     // by lower port of a link
    passing: Vec<u32>, // by switch
}

impl Loads {
    pub(crate) fn new(graph: &Graph) -> Self {
        Self { efi: vec![0; graph.port_count()], passing: vec![0; graph.switch_count()] }
    }

    /// Returns the groups whose packets cross a link, its EFI.
    pub(crate) fn link(&self, link: Link) -> u32 {
        self.efi[link.port.min(link.peer).index()]
    }

    /// Returns the groups whose packets pass a switch.
    pub(crate) fn switch(&self, switch: SwitchId) -> u32 {
        self.passing[switch.index()]
    }

    /// Counts groups that use a tree, given by its ports, rising.
    pub(crate) fn count_in(&mut self, fabric: &Fabric, ports: &[PortId], groups: usize) {
        let groups = dense(groups);
        self.change(fabric, ports, |load| *load += groups);
    }

    /// Takes groups that used a tree out of the counts.
    pub(crate) fn count_out(&mut self, fabric: &Fabric, ports: &[PortId], groups: usize) {
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
