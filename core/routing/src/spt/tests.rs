//! The numbering against theorem 1 and equation (4).

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn paper(colors: u16) -> Layout {
    let params = FatTreeParams {
        levels: 4,
        cns: 64,
        leaves_per_cn: 32,
        spines: 16,
        lanes0: 1,
        tns_per_group: 6,
        lanes1: 1,
        tns: 96,
        blocks: 32,
        cns_per_block: 16,
        l3_per_tn: 16,
        lanes2: 1,
        endpoints_per_leaf: 16,
    };
    Layout::new(&params, colors, TableKind::PerPort).unwrap()
}

/// The corollary of theorem 1: C colors have C*m trees; 40-port switches with m = 20 and C = 256
/// have 5 120.
#[test]
fn colors_times_spines_trees_exist() {
    assert_eq!(paper(32).space().total(), 512);
    let mut params = *paper(32).params();
    params.spines = 20;
    assert_eq!(Layout::new(&params, 256, TableKind::PerPort).unwrap().space().total(), 5_120);
    assert_eq!(Layout::new(&params, 256, TableKind::PerSwitch).unwrap().space().total(), 256);
}

/// Section 4.2.1: the first 96 MGIDs use the 96 top midplanes in turn.
#[test]
fn consecutive_mgids_go_round_all_top_midplanes() {
    let layout = paper(32);
    let tns: BTreeSet<u32> =
        (0..96).map(|mgid| layout.tree(layout.space().spt(Mgid(mgid))).tn).collect();
    assert_eq!(tns.len(), 96);
}

#[test]
fn the_mapping_is_the_papers_where_there_are_no_lanes() {
    let layout = paper(32);
    for mgid in [0, 17, 511, 512, 70_001] {
        let tree = layout.tree(layout.space().spt(Mgid(mgid)));
        let color = (mgid / 16) % 32;
        assert_eq!(u32::from(tree.color), color);
        assert_eq!(tree.tn, (mgid % 16) * 6 + color % 6);
        assert_eq!((tree.leaf_up, tree.l3, tree.v), (mgid % 16, 0, 0));
    }
}

#[test]
fn colors_out_of_range_are_refused() {
    let params = *paper(1).params();
    for colors in [0, MAX_COLORS + 1] {
        assert_eq!(
            Layout::new(&params, colors, TableKind::PerPort),
            Err(LayoutError::Colors { colors: u32::from(colors) })
        );
    }
    assert_eq!(paper(MAX_COLORS).space().colors(), MAX_COLORS);
}

pub(crate) fn any_params() -> impl Strategy<Value = FatTreeParams> {
    (2u32..=4, 1u32..5, 1u32..5, 1u32..4, 1u32..5, 1u32..4, 1u32..4).prop_map(
        |(levels, spines, lanes0, p, lanes1, w, lanes2)| FatTreeParams {
            levels,
            cns: 4,
            leaves_per_cn: 2,
            spines,
            lanes0,
            tns_per_group: if levels > 2 { p } else { 0 },
            lanes1: if levels > 2 { lanes1 } else { 0 },
            tns: if levels > 2 { p * spines } else { 0 },
            blocks: if levels > 3 { 2 } else { 1 },
            cns_per_block: 2,
            l3_per_tn: if levels > 3 { w } else { 0 },
            lanes2: if levels > 3 { lanes2 } else { 0 },
            endpoints_per_leaf: 2,
        },
    )
}

fn any_pairing() -> impl Strategy<Value = Pairing> {
    prop_oneof![Just(Pairing::Fixed), Just(Pairing::AcrossHalves), Just(Pairing::AnyTwo)]
}

/// In every round each switch is in one pair at most, and all rounds together have every two of
/// them once; each is the first of its pair about as often as the second.
#[test]
fn any_two_level_1_switches_are_a_pair_in_one_round() {
    for spines in 2..20 {
        let params = FatTreeParams { spines, ..*paper(32).params() };
        let layout = Layout::dual(&params, 19, TableKind::PerPort).unwrap();
        let layout = Layout { pairing: Pairing::AnyTwo, ..layout };
        let (pairs, rounds) = (spines / 2, (spines - 1) | 1);
        assert_eq!(layout.space().trees_per_color(), pairs);
        let mut met = BTreeSet::new();
        let mut firsts = vec![0u32; spines as usize];
        for round in 0..rounds {
            let mut used = BTreeSet::new();
            for spt in round * pairs..(round + 1) * pairs {
                let pair: Vec<u32> = layout.trees(spt).map(|tree| tree.g).collect();
                assert!(pair.iter().all(|g| *g < spines && used.insert(*g)), "{spines} {round}");
                assert!(met.insert((pair[0].min(pair[1]), pair[0].max(pair[1]))), "{pair:?}");
                firsts[pair[0] as usize] += 1;
            }
        }
        let all = spines * (spines - 1) / 2;
        assert_eq!(met.len(), all as usize);
        let (least, most) = (firsts.iter().min().unwrap(), firsts.iter().max().unwrap());
        assert!(most - least <= 1, "{firsts:?}");
    }
}

proptest! {
    /// Theorem 1: the M trees of one color share no switch-to-switch link,
    /// and M is as many as a leaf's up-links or the levels above allow.
    #[test]
    fn trees_of_one_color_are_conflict_free(params in any_params(), colors in 1u16..9) {
        let layout = Layout::new(&params, colors, TableKind::PerPort).unwrap();
        let m = layout.space().trees_per_color();
        for color in 0..u32::from(colors) {
            let (mut leaf, mut l1, mut l2) =
                (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
            for spt in color * m..(color + 1) * m {
                let tree = layout.tree(spt);
                prop_assert_eq!(u32::from(tree.color), color);
                prop_assert!(tree.leaf_up < params.leaf_up_ports());
                prop_assert!(leaf.insert(tree.leaf_up));
                if params.levels > 2 {
                    prop_assert!(tree.u < params.l1_up_ports());
                    prop_assert!(l1.insert((tree.g, tree.u)));
                    prop_assert_eq!(tree.tn / params.tns_per_group, tree.g);
                }
                if params.levels > 3 {
                    prop_assert!(tree.v < params.l2_up_ports());
                    prop_assert_eq!(tree.v % params.l3_per_tn, tree.l3);
                    prop_assert!(l2.insert((tree.tn, tree.v)));
                }
            }
        }
    }

    /// Equation (4): with per-port tables all trees of all pairs of one color share no link
    /// between switches, with per-switch tables no two trees share an entry; and the two of a pair
    /// share no switch above the leaves.
    #[test]
    fn the_trees_of_a_pair_share_nothing_above_the_leaves(
        params in any_params(), colors in 2u16..9, per_switch in any::<bool>(),
        pairing in any_pairing(),
    ) {
        let tables = if per_switch { TableKind::PerSwitch } else { TableKind::PerPort };
        let Ok(layout) = Layout::dual(&params, colors, tables) else {
            prop_assert!(params.spines < 2);
            return Ok(());
        };
        let layout = Layout { pairing, ..layout };
        let space = layout.space();
        let (mut entries, mut links) = (BTreeSet::new(), BTreeSet::new());
        for spt in 0..space.total() {
            let trees: Vec<SpanningTree> = layout.trees(spt).collect();
            prop_assert_eq!(trees.len(), 2);
            prop_assert_ne!(trees[0].g, trees[1].g);
            for tree in &trees {
                prop_assert!(tree.g < params.spines && tree.color < space.colors());
                prop_assert!(tree.color < colors);
                if params.levels > 2 {
                    prop_assert_eq!(tree.tn / params.tns_per_group, tree.g);
                }
                let color = (!per_switch).then_some(tree.color);
                prop_assert!(per_switch || links.insert((color, 0, tree.leaf_up, 0)));
                prop_assert!(per_switch || params.levels < 3 || links.insert((color, 1, tree.g, tree.u)));
                prop_assert!(per_switch || params.levels < 4 || links.insert((color, 2, tree.tn, tree.v)));
                prop_assert!(!per_switch || entries.insert(tree.color));
            }
            prop_assert!(per_switch || trees[0].color == trees[1].color);
        }
    }

    /// The trees of one level-1 switch are spread over its up-ports as evenly as can be.
    #[test]
    fn loads_of_the_up_ports_differ_by_at_most_one(params in any_params(), colors in 1u16..40) {
        let layout = Layout::new(&params, colors, TableKind::PerPort).unwrap();
        prop_assume!(params.levels > 2);
        let ups = params.tns_per_group * usable_lanes1(&params);
        let mut loads = vec![0u32; ups as usize];
        for spt in (0..layout.space().total()).filter(|spt| layout.tree(*spt).g == 0) {
            loads[layout.tree(spt).u as usize] += 1;
        }
        prop_assert!(loads.iter().max().unwrap() - loads.iter().min().unwrap() <= 1);
    }
}
