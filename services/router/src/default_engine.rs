//! Chooses the engine if the settings name none.
//!
//! C-MR4LMS with fixed roots makes tables that are a pure function of the groups, for switches with
//! one table or one per port. It needs a fat tree whose spanning trees it can number. MR4LMS works
//! on any topology.

use fabricast_routing::{EngineKind, EngineOptions, mgid_space};
use fabricast_topology::{FatTree, Graph};

/// Engine for a fabric: the only one that has the options, else C-MR4LMS with fixed roots where it
/// works, else MR4LMS.
pub(crate) fn default_engine(graph: &Graph, options: EngineOptions) -> EngineKind {
    // No other engine has the option; if this one cannot be built, its error says why.
    if let Some((implied, _)) = options.implied_engine() {
        return implied;
    }
    let fixed = EngineKind::CMr4lmsFixed;
    let fat_tree = FatTree::detect(graph).ok();
    match mgid_space(fixed, fat_tree.as_ref(), options) {
        Ok(_) => fixed,
        Err(_) => EngineKind::Mr4lms,
    }
}

#[cfg(test)]
mod tests {
    use fabricast_routing::{MergePolicy, RootPolicy, RootScope};
    use fabricast_topology::TableKind;
    use fabricast_topology::spec::TopologySpec;

    use super::*;

    const FAT_TREE: &str = "kind = 'k-ary-3-level'\nk = 4\n";
    const TORUS: &str = "kind = 'torus'\nx = 2\ny = 3\nz = 3\nendpoints_per_switch = 1\n";

    fn chosen(fabric: &str, options: EngineOptions) -> EngineKind {
        default_engine(&TopologySpec::parse(fabric).unwrap().generate().unwrap(), options)
    }

    #[test]
    fn a_fat_tree_gets_c_mr4lms_and_everything_else_gets_mr4lms() {
        for tables in [TableKind::PerPort, TableKind::PerSwitch] {
            let options = EngineOptions::new(8, tables);
            assert_eq!(chosen(FAT_TREE, options), EngineKind::CMr4lmsFixed, "{tables:?}");
            assert_eq!(chosen(TORUS, options), EngineKind::Mr4lms, "{tables:?}");
        }
    }

    #[test]
    fn options_of_one_engine_decide_for_it() {
        let options = EngineOptions::new(8, TableKind::PerPort);
        let twice = EngineOptions { fault_tolerant: true, ..options };
        assert_eq!(chosen(TORUS, twice), EngineKind::CMr4lmsFixed);
        let staying = EngineOptions { stay_after_healing: true, ..options };
        assert_eq!(chosen(TORUS, staying), EngineKind::CMr4lmsFixed);
        let scoped = EngineOptions { root_scope: Some(RootScope::Tn), ..options };
        assert_eq!(chosen(FAT_TREE, scoped), EngineKind::CMr4lmsDynamic);
        let merging = EngineOptions { merge_policy: Some(MergePolicy::Rebuild), ..options };
        assert_eq!(chosen(FAT_TREE, merging), EngineKind::Mr4lms);
        let by_load = EngineOptions { root_policy: Some(RootPolicy::Hlse), ..options };
        assert_eq!(chosen(FAT_TREE, by_load), EngineKind::Mr4lms);
    }
}
