//! Chooses the engine where the settings name none.
//!
//! C-MR4LMS with the fixed root keeps its tables a pure function of the groups, whether switches have one table or
//! one a port (with one, spanning trees and not colors number the entries), but it needs a fat tree that it can number.
//! MR4LMS goes with any topology.

use fabricast_routing::{EngineKind, EngineOptions, mgid_space};
use fabricast_topology::{FatTree, Graph};

/// Gives the engine that fits a fabric.
pub(crate) fn fitting(graph: &Graph, options: EngineOptions) -> EngineKind {
    let fixed = EngineKind::CMr4lmsFixed;
    // Whoever wants what no other engine has is told what is in the way of it.
    if options.fault_tolerant || options.stay_after_healing {
        return fixed;
    }
    let fat_tree = FatTree::detect(graph).ok();
    match mgid_space(fixed, fat_tree.as_ref(), options) {
        Ok(_) => fixed,
        Err(_) => EngineKind::Mr4lms,
    }
}

#[cfg(test)]
mod tests {
    use fabricast_routing::RootPolicy;
    use fabricast_topology::TableKind;
    use fabricast_topology::spec::TopologySpec;

    use super::*;

    const FAT_TREE: &str = "kind = 'k-ary-3-level'\nk = 4\n";
    const TORUS: &str = "kind = 'torus'\nx = 2\ny = 3\nz = 3\nendpoints_per_switch = 1\n";

    fn chosen(fabric: &str, options: EngineOptions) -> EngineKind {
        fitting(&TopologySpec::parse(fabric).unwrap().generate().unwrap(), options)
    }

    #[test]
    fn a_fat_tree_has_its_own_engine_and_everything_else_has_mr4lms() {
        for tables in [TableKind::PerPort, TableKind::PerSwitch] {
            let options = EngineOptions::new(8, tables);
            assert_eq!(chosen(FAT_TREE, options), EngineKind::CMr4lmsFixed, "{tables:?}");
            assert_eq!(chosen(TORUS, options), EngineKind::Mr4lms, "{tables:?}");
        }
    }

    #[test]
    fn what_is_asked_for_is_not_given_up() {
        let options = EngineOptions::new(8, TableKind::PerPort);
        let twice = EngineOptions { fault_tolerant: true, ..options };
        assert_eq!(chosen(TORUS, twice), EngineKind::CMr4lmsFixed);
        let staying = EngineOptions { stay_after_healing: true, ..options };
        assert_eq!(chosen(TORUS, staying), EngineKind::CMr4lmsFixed);
        let by_load = EngineOptions { root_policy: Some(RootPolicy::Hlse), ..options };
        assert_eq!(chosen(FAT_TREE, by_load), EngineKind::Mr4lms);
    }
}
