//! Trees on the paper's test fabric with nothing else on its links (§2.3, §6.1.1, §6.2.1).

use fabricast_collectives::{
    AdapterTree, CostParameters, Division, Nesting, NestingError, Operation, Shape, TreeError,
    TreeKind,
};
use thiserror::Error;

use super::parameters::LIMITS;

/// Width of the adapter trees that are compared (§6.1).
pub(super) const WIDTH: u32 = 32;
/// Width of both kinds of trees in §6.2.1.
pub(super) const WIDE: u32 = 64;
/// Processes of a leaf switch, and of a node.
pub(super) const OF_A_LEAF: u32 = 16;
pub(super) const OF_A_NODE: u32 = 2;
/// Sizes of messages, in bytes.
pub(super) const SIZES: [u32; 9] = [8, 16, 32, 64, 128, 256, 512, 1_024, 2_048];

/// Reason why a tree could not be built.
#[derive(Debug, Error)]
pub(super) enum Misfit {
    #[error("the processes cannot be grouped")]
    Nesting(#[from] NestingError),
    #[error("there is no such tree")]
    Tree(#[from] TreeError),
}

/// The adapter trees that §6.1 compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Ary,
    Nomial,
    Hierarchical,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Ary, Self::Nomial, Self::Hierarchical];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Ary => "32-ary",
            Self::Nomial => "32-nomial",
            Self::Hierarchical => "hierarchical 32-nomial",
        }
    }
}

/// One adapter tree over the first processes of the test fabric.
pub(super) struct Tree {
    pub(super) processes: u32,
    pub(super) kind: Kind,
    pub(super) tree: AdapterTree,
    pub(super) nesting: Nesting,
}

/// Groups the first processes of the test fabric: two on a node, 16 on a leaf switch.
pub(super) fn nesting(processes: u32) -> Result<Nesting, NestingError> {
    let nodes: Vec<u32> = (0..processes).map(|process| process / OF_A_NODE).collect();
    let leaves: Vec<u32> = (0..processes).map(|process| process / OF_A_LEAF).collect();
    let divisions = [Division { links: 0, keys: &nodes }, Division { links: 2, keys: &leaves }];
    Nesting::new(processes, &divisions, 4)
}

impl Tree {
    pub(super) fn new(kind: Kind, processes: u32, width: u32) -> Result<Self, Misfit> {
        let nesting = nesting(processes)?;
        let tree = match kind {
            Kind::Ary => AdapterTree::k_ary(processes, width)?,
            Kind::Nomial => AdapterTree::k_nomial(processes, width)?,
            Kind::Hierarchical => AdapterTree::hierarchical(&nesting, width)?,
        };
        Ok(Self { processes, kind, tree, nesting })
    }

    /// The time of a broadcast with every packet followed, in microseconds.
    pub(super) fn broadcast_us(&self, parameters: &CostParameters, bytes: u32) -> f64 {
        let links = |a, b| self.nesting.links(a, b);
        let gathered = self.tree.gather_us(parameters, Operation::Broadcast, bytes, links);
        gathered + self.sent_back_us(parameters, bytes)
    }

    /// The time of the way back of a broadcast by multicast to the farthest process, in
    /// microseconds.
    pub(super) fn sent_back_us(&self, parameters: &CostParameters, bytes: u32) -> f64 {
        parameters.distribute_us(&self.shape(), Operation::Broadcast, bytes)
    }

    /// The time of a broadcast by equations (1) and (2) with this tree's own height, radius and
    /// most children, in microseconds.
    pub(super) fn own_model_us(&self, parameters: &CostParameters, bytes: u32) -> f64 {
        parameters.total_us(&self.shape(), Operation::Broadcast, bytes)
    }

    fn shape(&self) -> Shape {
        let root = self.tree.root();
        let farthest = (0..self.processes).map(|process| self.nesting.links(process, root)).max();
        Shape {
            kind: TreeKind::Adapter,
            height: f64::from(self.tree.height()),
            children: f64::from(self.tree.degree()),
            radius_links: f64::from(self.tree.radius(|a, b| self.nesting.links(a, b))),
            multicast_links: f64::from(farthest.unwrap_or(0)),
        }
    }
}

/// The time of a broadcast by equations (1) to (4) of a complete tree, in microseconds.
pub(super) fn modelled_us(
    parameters: &CostParameters,
    kind: TreeKind,
    processes: u32,
    [width, bytes]: [u32; 2],
) -> f64 {
    let shape = parameters.complete(kind, processes, width);
    parameters.total_us(&shape, Operation::Broadcast, bytes)
}

/// The time of a broadcast on a tree of switches with its root at the top, packet by packet, in
/// microseconds: every leaf switch with its processes' packets, or, if the root can have all
/// processes as children, the root alone.
pub(super) fn switch_tree_us(parameters: &CostParameters, processes: u32, bytes: u32) -> f64 {
    let per_child = parameters.per_child_us(Operation::Broadcast, bytes);
    let link = parameters.link_us;
    let gathered = if processes <= LIMITS.switch_children {
        2.0 * link + f64::from(processes) * per_child
    } else {
        let leaves = processes.div_ceil(OF_A_LEAF);
        let last = processes - (leaves - 1) * OF_A_LEAF;
        let at_root = |of_leaf: u32| 2.0 * link + f64::from(of_leaf) * per_child;
        // Leaves that have fewer processes are heard first.
        let mut arrivals: Vec<f64> = (1..leaves).map(|_| at_root(OF_A_LEAF)).collect();
        arrivals.push(at_root(last));
        arrivals.sort_unstable_by(f64::total_cmp);
        arrivals.into_iter().fold(0.0, |free: f64, come| free.max(come) + per_child)
    };
    let shape = Shape {
        kind: TreeKind::Switch,
        height: 2.0,
        children: f64::from(OF_A_LEAF),
        radius_links: 2.0,
        multicast_links: 2.0,
    };
    gathered + parameters.distribute_us(&shape, Operation::Broadcast, bytes)
}

/// Trees by number of processes and kind, on idle links.
pub(super) struct Idle {
    pub(super) trees: Vec<Tree>,
    /// The 64-ary ones of §6.2.1.
    pub(super) wide: Vec<Tree>,
}

impl Idle {
    pub(super) fn new(counts: &[u32]) -> Result<Self, Misfit> {
        let mut trees = Vec::new();
        for processes in counts {
            for kind in Kind::ALL {
                trees.push(Tree::new(kind, *processes, WIDTH)?);
            }
        }
        let wide = counts.iter().map(|count| Tree::new(Kind::Ary, *count, WIDE));
        Ok(Self { trees, wide: wide.collect::<Result<_, _>>()? })
    }

    /// The trees of a kind, by number of processes.
    pub(super) fn of(&self, kind: Kind) -> impl Iterator<Item = &Tree> {
        self.trees.iter().filter(move |tree| tree.kind == kind)
    }

    /// The tree of a kind over all processes.
    pub(super) fn whole(&self, kind: Kind) -> &Tree {
        self.of(kind).last().expect("every kind was built")
    }
}
