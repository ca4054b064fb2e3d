//! Counts the groups that cross every link and pass every switch.

use fabricast_topology::{Graph, PortId, SwitchId};

use crate::links::Link;
use crate::mr4lms::fabric::Fabric;

/// Number of groups whose trees use each link and switch.
#[derive(Clone, Debug)]
pub(crate) struct Loads {
    efi: Vec<u32>,     // by lower port of a link
    passing: Vec<u32>, // by switch
    links: Vec<u32>,   // by EFI, from 1 on: links that have it; the last is not 0
}

impl Loads {
    pub(crate) fn new(graph: &Graph) -> Self {
        let (efi, passing) = (vec![0; graph.port_count()], vec![0; graph.switch_count()]);
        Self { efi, passing, links: Vec::new() }
    }

    /// Returns the largest EFI of a link.
    pub(crate) fn max_efi(&self) -> u32 {
        dense(self.links.len().saturating_sub(1))
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
        self.change_links(fabric, ports, |load| load + groups);
        self.change_switches(fabric.switches(ports), |load| load + groups);
    }

    /// Takes groups that used a tree out of the counts.
    pub(crate) fn count_out(&mut self, fabric: &Fabric, ports: &[PortId], groups: usize) {
        let groups = dense(groups);
        self.change_links(fabric, ports, |load| load - groups);
        self.change_switches(fabric.switches(ports), |load| load - groups);
    }

    /// Counts groups that use more links and switches of a tree.
    pub(crate) fn count_more(
        &mut self,
        fabric: &Fabric,
        ports: &[PortId],
        switches: &[SwitchId],
        groups: usize,
    ) {
        let groups = dense(groups);
        self.change_links(fabric, ports, |load| load + groups);
        self.change_switches(switches.iter().copied(), |load| load + groups);
    }

    fn change_links(&mut self, fabric: &Fabric, ports: &[PortId], change: impl Fn(u32) -> u32) {
        let Self { efi, links, .. } = self;
        for (port, _) in fabric.tree_links(ports) {
            let efi = &mut efi[port.index()];
            if *efi > 0 {
                links[*efi as usize] -= 1;
            }
            *efi = change(*efi);
            let at = *efi as usize;
            if links.len() <= at {
                links.resize(at + 1, 0);
            }
            links[at] += u32::from(at > 0);
        }
        while links.last() == Some(&0) {
            links.pop();
        }
    }

    fn change_switches(
        &mut self,
        switches: impl Iterator<Item = SwitchId>,
        change: impl Fn(u32) -> u32,
    ) {
        for switch in switches {
            let passing = &mut self.passing[switch.index()];
            *passing = change(*passing);
        }
    }
}

fn dense(groups: usize) -> u32 {
    u32::try_from(groups).expect("a group has a 32-bit MGID")
}
