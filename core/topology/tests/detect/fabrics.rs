//! The fabrics that detection is tried on.

use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{
    AdapterFacts, EndpointFacts, FatTreeParams, Graph, GraphBuilder, SwitchFacts, SwitchId,
};
use proptest::prelude::*;

pub(crate) fn generate(text: &str) -> Graph {
    TopologySpec::parse(text).unwrap().generate().unwrap()
}

/// The numbers of a generated fabric and its TOML.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers {
    pub(crate) levels: u32,
    pub(crate) q: u32,
    pub(crate) m: u32,
    pub(crate) p: u32,
    pub(crate) k: u32,
    pub(crate) w: u32,
    pub(crate) l3: u32,
    pub(crate) cns: u32,
    pub(crate) e: u32,
    pub(crate) lanes: [u32; 3],
}

impl Numbers {
    pub(crate) fn toml(&self) -> String {
        let Self { q, m, p, k, w, l3, cns, e, lanes: [r0, r1, r2], .. } = self;
        format!(
            "kind = 'cn-tn-fat-tree'\nq = {q}\nm = {m}\np = {p}\nk = {k}\nw = {w}\nl3_per_tn = {l3}\n\
             cns = {cns}\nendpoints_per_leaf = {e}\nlanes0 = {r0}\nlanes1 = {r1}\nlanes2 = {r2}\n"
        )
    }

    pub(crate) fn params(&self) -> FatTreeParams {
        FatTreeParams {
            levels: 4,
            cns: self.cns,
            leaves_per_cn: self.q,
            spines: self.m,
            lanes0: self.lanes[0],
            tns_per_group: self.p,
            lanes1: self.lanes[1],
            tns: self.m * self.p,
            blocks: self.k,
            cns_per_block: self.w.min(self.cns),
            l3_per_tn: self.l3,
            lanes2: self.lanes[2],
            endpoints_per_leaf: self.e,
        }
    }
}

/// Four-level fabrics in which no single part is the only one of its kind.
pub(crate) fn four_levels() -> impl Strategy<Value = Numbers> {
    let sizes = (2..4u32, 2..4u32, 1..4u32, 2..4u32, 1..4u32, 2..4u32, 1..4u32);
    (sizes, prop::array::uniform3(1..3u32), 0..100u32).prop_map(
        |((q, m, p, k, w, l3, e), lanes, part)| {
            let cns = w + 1 + part % (k * w - w);
            Numbers { levels: 4, q, m, p, k, w, l3, cns, e, lanes }
        },
    )
}

/// Three-level fabrics of `k`-port switches: graph, pods.
pub(crate) fn three_levels() -> impl Strategy<Value = String> {
    (2..5u32, 1..3u32, 2..5u32, 1..5u32).prop_map(|(half, lanes1, leaf_uplinks, spine_uplinks)| {
        let k = half * 2;
        let leaf_uplinks = leaf_uplinks.min(half);
        let spine_uplinks = spine_uplinks.min(half) / lanes1 * lanes1;
        let spine_uplinks = spine_uplinks.max(lanes1);
        format!(
            "kind = 'k-ary-3-level'\nk = {k}\nlanes1 = {lanes1}\n\
             leaf_uplinks = {leaf_uplinks}\nspine_uplinks = {spine_uplinks}\n"
        )
    })
}

/// Sizes of a pruned tree of directors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pruned {
    pub(crate) midplanes: u32,
    pub(crate) spines: u32,
    pub(crate) uplinks: u32,
    pub(crate) cores: u32,
    pub(crate) line_ports: u32,
    pub(crate) core_spines: u32,
    pub(crate) core_lanes: u32,
}

impl Pruned {
    pub(crate) fn toml(&self) -> String {
        let Self { midplanes, spines, uplinks, cores, line_ports, core_spines, core_lanes } = self;
        format!(
            "kind = 'pruned-fat-tree'\nmidplanes = {midplanes}\nleaves = 2\n\
             endpoints_per_leaf = 2\nspines = {spines}\nuplinks_per_spine = {uplinks}\n\
             cores = {cores}\nline_ports = {line_ports}\ncore_spines = {core_spines}\n\
             core_lanes = {core_lanes}\n"
        )
    }
}

/// Pruned trees whose cores are single switches.
pub(crate) fn pruned_to_single_cores() -> impl Strategy<Value = Pruned> {
    pruned().prop_map(|sizes| Pruned { line_ports: 0, core_spines: 0, ..sizes })
}

/// Pruned trees in which level-1 switches of a midplane share directors, or have their own.
pub(crate) fn pruned() -> impl Strategy<Value = Pruned> {
    (3..8u32, 2..6u32, 1..4u32, 0..4usize, 2..4u32, 2..5u32, 1..3u32).prop_map(
        |(midplanes, spines, uplinks, cores, line_ports, core_spines, core_lanes)| {
            let all = spines * uplinks;
            let divisors: Vec<u32> = (1..=all).filter(|n| all.is_multiple_of(*n)).collect();
            let cores = divisors[cores % divisors.len()];
            Pruned { midplanes, spines, uplinks, cores, line_ports, core_spines, core_lanes }
        },
    )
}

pub(crate) fn random_graph(hosts: &[u8], cables: &[(usize, usize)]) -> Graph {
    let mut builder = GraphBuilder::new();
    let mut used: Vec<u8> = hosts.to_vec();
    for (index, count) in hosts.iter().enumerate() {
        let switch = builder.add_switch(&format!("S-{index}"), "", 90, SwitchFacts::default());
        for number in 1..=*count {
            builder.add_adapter(&format!("H-{index}-{number}"), "", AdapterFacts::default());
            let endpoint = builder.add_endpoint(EndpointFacts { number: 1, ..Default::default() });
            builder.attach(endpoint, builder.port(switch, number).unwrap()).unwrap();
        }
    }
    for (a, b) in cables {
        let [a, b] = [a, b].map(|index| {
            let index = index % hosts.len();
            used[index] += 1;
            builder.port(SwitchId(u32::try_from(index).unwrap()), used[index]).unwrap()
        });
        builder.link(a, b).unwrap();
    }
    builder.build().unwrap()
}
