//! A fabric as it is drawn: the graph, and its levels and midplanes.

use std::sync::Arc;

use fabricast_topology::{FatTree, Graph, Peer, Place, SwitchId};

use crate::unit::{Scope, Unit};

/// Most switches of one level that are drawn one by one.
const MAX_IN_ROW: usize = 24;
/// Most switches that are drawn one by one where there are no levels, and most parts.
const MAX_ON_CIRCLE: usize = 48;

/// A fabric that can be drawn.
#[derive(Clone, Debug)]
pub struct Fabric {
    graph: Arc<Graph>,
    fat_tree: Option<FatTree>,
    is_small: bool,
}

/// Place where a switch is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot {
    pub(crate) row: u32,
    pub(crate) frame: u32,
    pub(crate) unit: Unit,
}

impl Fabric {
    /// Finds levels and midplanes.
    #[must_use]
    pub fn new(graph: Arc<Graph>) -> Self {
        let fat_tree = FatTree::detect(&graph).ok();
        let mut fabric = Self { graph, fat_tree, is_small: false };
        let mut widths = [0_usize; 4];
        for switch in fabric.graph.switches() {
            widths[fabric.level(switch) as usize] += 1;
        }
        let most = if fabric.is_fat_tree() { MAX_IN_ROW } else { MAX_ON_CIRCLE };
        fabric.is_small = widths.iter().all(|width| *width <= most);
        fabric
    }

    /// Returns the graph that is drawn.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// True if the fabric has levels.
    #[must_use]
    pub fn is_fat_tree(&self) -> bool {
        self.fat_tree.is_some()
    }

    /// True if all switches are drawn one by one.
    #[must_use]
    pub fn is_small(&self) -> bool {
        self.is_small
    }

    /// The midplane or part that a switch belongs to.
    #[must_use]
    pub fn midplane(&self, switch: SwitchId) -> Unit {
        let Some(tree) = &self.fat_tree else {
            let size = self.graph.switch_count().div_ceil(MAX_ON_CIRCLE).max(1);
            return Unit::Part(u32::try_from(switch.index() / size).expect("fewer than 2^32"));
        };
        match tree.place(switch) {
            Place::Leaf { leaf } => Unit::Cn(tree.cn_of_leaf(leaf)),
            Place::L1 { cn, .. } => Unit::Cn(cn),
            Place::L2 { tn, .. } | Place::L3 { tn, .. } => Unit::Tn(tn),
            Place::Outside => Unit::Part(0),
        }
    }

    /// True if there is such a midplane or part.
    #[must_use]
    pub fn has(&self, unit: Unit) -> bool {
        match unit {
            Unit::Switch(switch) => switch.index() < self.graph.switch_count(),
            Unit::Member(_) => false,
            Unit::Cn(_) | Unit::Tn(_) | Unit::Part(_) => {
                self.graph.switches().any(|switch| self.midplane(switch) == unit)
            }
        }
    }

    /// The name of a switch for people: its description if no other has it, else its node id.
    #[must_use]
    pub fn switch_title(&self, switch: SwitchId) -> &str {
        let text = self.graph.switch_description(switch);
        match self.graph.find_switch(text) {
            Some(found) if found == switch && !text.is_empty() => text,
            Some(_) | None => self.graph.switch_name(switch),
        }
    }

    /// The name of a part for people.
    #[must_use]
    pub fn title(&self, unit: Unit) -> String {
        match unit {
            Unit::Switch(switch) => self.switch_title(switch).to_owned(),
            Unit::Cn(number) => format!("CN {number}"),
            Unit::Tn(number) => format!("TN {number}"),
            Unit::Part(_) if self.is_fat_tree() => "not in the tree".to_owned(),
            Unit::Part(number) => format!("part {number}"),
            Unit::Member(number) => format!("PN {number}"),
        }
    }

    /// Level of a switch from the leaf switches, which have 0; 0 where there are no levels.
    pub(crate) fn level(&self, switch: SwitchId) -> u32 {
        let place = self.fat_tree.as_ref().map(|tree| tree.place(switch));
        match place {
            None | Some(Place::Outside | Place::Leaf { .. }) => 0,
            Some(Place::L1 { .. }) => 1,
            Some(Place::L2 { .. }) => 2,
            Some(Place::L3 { .. }) => 3,
        }
    }

    /// Counts the endpoints that are attached to a switch.
    pub(crate) fn endpoints(&self, switch: SwitchId) -> u32 {
        let graph = &self.graph;
        let attached = graph.ports(switch).filter(|p| matches!(graph.peer(*p), Peer::Endpoint(_)));
        u32::try_from(attached.count()).expect("a switch has at most 255 ports")
    }

    /// Place where a switch is drawn; `None` if it is out of scope.
    pub(crate) fn slot(&self, scope: Scope, switch: SwitchId) -> Option<Slot> {
        let (midplane, level) = (self.midplane(switch), self.level(switch));
        let alone = Unit::Switch(switch);
        match scope {
            Scope::Whole if self.is_small => {
                Some(Slot { row: level, frame: number(midplane), unit: alone })
            }
            Scope::Whole => {
                let row = u32::from(matches!(midplane, Unit::Tn(_)));
                Some(Slot { row, frame: self.frame(midplane), unit: midplane })
            }
            Scope::Inside(Unit::Switch(inner)) => {
                self.slot(Scope::Inside(self.midplane(inner)), switch)
            }
            Scope::Inside(unit) if unit == midplane => {
                let row = if matches!(unit, Unit::Tn(_)) { level - 1 } else { level };
                Some(Slot { row, frame: 0, unit: alone })
            }
            Scope::Inside(unit) => match (unit, midplane) {
                (Unit::Cn(_), Unit::Tn(_)) => {
                    Some(Slot { row: 2, frame: self.frame(midplane), unit: midplane })
                }
                (Unit::Tn(_), Unit::Cn(_)) => {
                    Some(Slot { row: 0, frame: self.frame(midplane), unit: midplane })
                }
                _ => None,
            },
        }
    }

    /// Label of a row.
    pub(crate) fn row_label(&self, scope: Scope, row: u32) -> String {
        if !self.is_fat_tree() {
            return String::new();
        }
        let by_midplane = |row| if row == 0 { "CNs" } else { "TNs" };
        match scope {
            Scope::Whole if !self.is_small => by_midplane(row).to_owned(),
            Scope::Inside(Unit::Cn(_)) if row == 2 => "TNs".to_owned(),
            Scope::Inside(Unit::Tn(_)) if row == 0 => "CNs".to_owned(),
            Scope::Inside(Unit::Tn(_)) => format!("L{}", row + 1),
            Scope::Whole | Scope::Inside(_) => format!("L{row}"),
        }
    }

    /// Number of the frame of a midplane: its block, or its TN group.
    fn frame(&self, midplane: Unit) -> u32 {
        let Some(tree) = &self.fat_tree else { return 0 };
        let params = tree.params();
        match midplane {
            Unit::Cn(cn) => tree.block_of_cn(cn),
            Unit::Tn(tn) => tn / params.tns_per_group.max(1),
            Unit::Part(_) | Unit::Switch(_) | Unit::Member(_) => u32::MAX,
        }
    }
}

/// Number of a midplane or part.
fn number(unit: Unit) -> u32 {
    match unit {
        Unit::Switch(switch) => switch.0,
        Unit::Cn(number) | Unit::Tn(number) => number,
        Unit::Part(_) | Unit::Member(_) => u32::MAX,
    }
}
