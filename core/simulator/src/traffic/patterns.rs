//! Destinations of unicast packets (Dawning §5.1).

use fabricast_topology::{EndpointId, FatTree, Graph};

use crate::chance::Chance;

/// Distribution of unicast destinations. No endpoint sends to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnicastPattern {
    /// All others alike.
    Uniform,
    /// Half of the packets to the k^2 nearest, k being half the ports of a switch: to endpoints of
    /// the same compute midplane; the rest to all others alike.
    Sphere,
    /// The chance of an endpoint falls evenly with its distance: 1 at the same leaf, less by a
    /// fixed step for every level to be climbed, 1/levels for the farthest.
    Decay,
    /// A quarter of the packets to the first eighth of the endpoints, the rest to all others alike.
    HotRegion,
}

impl UnicastPattern {
    /// All patterns, in the paper's order.
    pub const ALL: [Self; 4] = [Self::Uniform, Self::Sphere, Self::Decay, Self::HotRegion];

    /// Gives the name for tables and options.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Sphere => "sphere",
            Self::Decay => "decay",
            Self::HotRegion => "hot-region",
        }
    }
}

/// Draws destinations on one fabric.
#[derive(Clone, Debug)]
pub struct Destinations {
    pattern: UnicastPattern,
    endpoints: u32,
    place: Vec<Place>, // by endpoint
    by_cn: Vec<u32>,   // endpoints, compute midplane by compute midplane
    levels: u32,
}

/// Place of an endpoint, and the part of `by_cn` that is its midplane's.
#[derive(Clone, Copy, Debug)]
struct Place {
    leaf: u32,
    cn: u32,
    block: u32,
    first: u32,
    end: u32,
}

impl Destinations {
    /// Looks at a fabric all of whose endpoints are connected; those that are not are drawn as
    /// well.
    #[must_use]
    pub fn new(graph: &Graph, tree: &FatTree, pattern: UnicastPattern) -> Self {
        let places = graph.endpoints().map(|endpoint| {
            let leaf = tree.leaf_of_endpoint(endpoint).unwrap_or(u32::MAX);
            let cn = if leaf == u32::MAX { leaf } else { tree.cn_of_leaf(leaf) };
            let block = if leaf == u32::MAX { leaf } else { tree.block_of_cn(cn) };
            Place { leaf, cn, block, first: 0, end: 0 }
        });
        let mut place: Vec<Place> = places.collect();
        let mut by_cn: Vec<u32> = graph.endpoints().map(|endpoint| endpoint.0).collect();
        let cn: Vec<u32> = place.iter().map(|place| place.cn).collect();
        by_cn.sort_by_key(|endpoint| cn[*endpoint as usize]);
        let mut first = 0;
        for of_cn in by_cn.chunk_by(|a, b| cn[*a as usize] == cn[*b as usize]) {
            let end =
                first + u32::try_from(of_cn.len()).expect("endpoints are numbered in 32 bits");
            of_cn.iter().for_each(|endpoint| {
                let place = &mut place[*endpoint as usize];
                (place.first, place.end) = (first, end);
            });
            first = end;
        }
        Self { pattern, endpoints: first, place, by_cn, levels: tree.params().levels }
    }

    /// Draws a destination; none if the source has no company.
    pub fn draw(&self, from: EndpointId, chance: &mut Chance) -> Option<EndpointId> {
        if self.endpoints < 2 {
            return None;
        }
        let drawn = match self.pattern {
            UnicastPattern::Uniform => self.anyone(from, chance),
            UnicastPattern::Sphere => self.sphere(from, chance),
            UnicastPattern::Decay => self.decay(from, chance),
            UnicastPattern::HotRegion => self.hot(from, chance),
        };
        Some(EndpointId(drawn))
    }

    fn anyone(&self, from: EndpointId, chance: &mut Chance) -> u32 {
        let other = chance.below(self.endpoints - 1);
        other + u32::from(other >= from.0)
    }

    fn sphere(&self, from: EndpointId, chance: &mut Chance) -> u32 {
        let Place { first, end, .. } = self.place[from.index()];
        if end - first < 2 || chance.below(2) == 0 {
            return self.anyone(from, chance);
        }
        loop {
            let near = self.by_cn[(first + chance.below(end - first)) as usize];
            if near != from.0 {
                return near;
            }
        }
    }

    fn decay(&self, from: EndpointId, chance: &mut Chance) -> u32 {
        let own = self.place[from.index()];
        loop {
            let other = self.anyone(from, chance);
            let place = self.place[other as usize];
            let height = if place.block != own.block {
                3
            } else if place.cn != own.cn {
                2
            } else {
                u32::from(place.leaf != own.leaf)
            };
            if chance.below(self.levels) >= height {
                return other;
            }
        }
    }

    fn hot(&self, from: EndpointId, chance: &mut Chance) -> u32 {
        if chance.below(4) > 0 {
            return self.anyone(from, chance);
        }
        let region = (self.endpoints / 8).max(2);
        loop {
            let hot = chance.below(region);
            if hot != from.0 {
                return hot;
            }
        }
    }
}
