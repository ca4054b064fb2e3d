//! Lists the engines and makes them by kind; the only file that lists all of them.

use std::str::FromStr;
use std::sync::Arc;

use fabricast_topology::{FatTree, Graph, TableKind};

use crate::routing_engine::{
    BuildError, EngineInput, EngineKind, EngineOptions, RootScope, RoutingEngine, UnknownEngine,
};
use crate::spt::{Layout, MgidSpace};

/// Lists the engines in the order of the command line's help: the constant, the entry in the
/// engine's file, and what it is.
macro_rules! engines {
    ($($kind:ident => $entry:path, $what:literal;)+) => {
        #[expect(non_upper_case_globals, reason = "they are used as the variants of an enum")]
        impl EngineKind {
            $(
                #[doc = $what]
                pub const $kind: Self = Self::new(&$entry);
            )+

            /// Every kind of engine, in the order of the command line's help.
            pub const ALL: &'static [Self] = &[$(Self::$kind),+];
        }
    };
}

engines! {
    CMr4lmsFixed => crate::c_mr4lms::FIXED_ROOT, "C-MR4LMS with the fixed root.";
    CMr4lmsDynamic => crate::c_mr4lms::DYNAMIC_ROOT, "C-MR4LMS with dynamic roots.";
    CMr4lmsHybrid => crate::hybrid::ENTRY, "C-MR4LMS with the fixed root, and others where it would merge.";
    Mr4lms => crate::mr4lms::ENTRY, "MR4LMS, for any topology.";
    MinHopMc => crate::baselines::MIN_HOP_MC, "OpenSM's min-hop tree, one to a color.";
    SsspMc => crate::baselines::SSSP_MC, "OpenSM's tree over light links, one to a color.";
    GlobalTree => crate::baselines::GLOBAL_TREE, "One tree for all groups.";
}

impl FromStr for EngineKind {
    type Err = UnknownEngine;

    fn from_str(name: &str) -> Result<Self, UnknownEngine> {
        let known = Self::ALL.iter().copied().find(|kind| kind.name() == name);
        known.ok_or_else(|| UnknownEngine { name: name.to_owned() })
    }
}

/// Returns the numbers from which to choose MGIDs for an engine, as [`RoutingEngine::space`] does,
/// without making it.
///
/// # Errors
///
/// [`BuildError`] if the colors are out of range, or the engine needs the fat tree that is missing.
pub fn mgid_space(
    kind: EngineKind,
    fat_tree: Option<&FatTree>,
    options: EngineOptions,
) -> Result<MgidSpace, BuildError> {
    let EngineOptions { colors, tables, fault_tolerant, .. } = options;
    check_options(kind, &options)?;
    if !kind.needs_fat_tree() {
        return Ok(MgidSpace::any(colors)?);
    }
    let fat_tree = fat_tree.ok_or(BuildError::NeedsFatTree { kind })?;
    let number = if fault_tolerant { Layout::dual } else { Layout::new };
    Ok(*number(fat_tree.params(), colors, tables)?.space())
}

/// Lists what is wrong with options, as far as that does not depend on the fabric.
#[must_use]
pub fn refused_options(kind: EngineKind, options: &EngineOptions) -> Vec<BuildError> {
    let wide = options.root_scope == Some(RootScope::TnGroup);
    let refusals = [
        (
            options.fault_tolerant && !kind.supports_fault_tolerance(),
            BuildError::NoFaultTolerance { kind },
        ),
        (
            options.stay_after_healing && !kind.supports_stay_after_healing(),
            BuildError::NoStay { kind },
        ),
        (options.root_policy.is_some() && !kind.chooses_roots(), BuildError::NoRootPolicy { kind }),
        (options.root_scope.is_some() && !kind.has_root_scopes(), BuildError::NoRootScope { kind }),
        (
            wide && kind.has_root_scopes() && options.tables == TableKind::PerSwitch,
            BuildError::ScopeNeedsPerPortTables,
        ),
        (
            options.merge_policy.is_some() && !kind.chooses_merges(),
            BuildError::NoMergePolicy { kind },
        ),
        (
            options.merge_partner.is_some() && !kind.chooses_merges(),
            BuildError::NoMergePartner { kind },
        ),
        (
            options.deadlock_free.is_some_and(|wanted| !kind.can_be_deadlock_free(wanted)),
            BuildError::NoDeadlockFree { kind },
        ),
    ];
    refusals.into_iter().filter(|(is_refused, _)| *is_refused).map(|(_, error)| error).collect()
}

/// Refuses what the engine cannot do.
fn check_options(kind: EngineKind, options: &EngineOptions) -> Result<(), BuildError> {
    refused_options(kind, options).into_iter().next().map_or(Ok(()), Err)
}

/// Makes an engine without groups or faults.
///
/// `fat_tree` is the fat-tree view of `graph`, if it has one; not every engine needs it.
///
/// # Errors
///
/// [`BuildError`] if the engine cannot do what the options ask for on this fabric.
pub fn build_engine(
    kind: EngineKind,
    graph: Arc<Graph>,
    fat_tree: Option<Arc<FatTree>>,
    options: EngineOptions,
) -> Result<Box<dyn RoutingEngine>, BuildError> {
    check_options(kind, &options)?;
    kind.build(EngineInput { kind, graph, fat_tree, options })
}

#[cfg(test)]
mod tests {
    use crate::mr4lms::{MergePartner, MergePolicy};
    use crate::root_policy::RootPolicy;

    use super::*;

    #[test]
    fn an_option_of_one_engine_implies_it_and_all_others_refuse_it() {
        let usual = EngineOptions::new(8, TableKind::PerPort);
        let cases = [
            EngineOptions { stay_after_healing: true, ..usual },
            EngineOptions { root_scope: Some(RootScope::Tn), ..usual },
            EngineOptions { merge_policy: Some(MergePolicy::Rebuild), ..usual },
            EngineOptions { merge_partner: Some(MergePartner::RarestColor), ..usual },
            EngineOptions { deadlock_free: Some(false), ..usual },
        ];
        assert_eq!(usual.implied_engine(), None);
        for options in cases {
            let (implied, option) = options.implied_engine().expect("one engine has it");
            for kind in EngineKind::ALL {
                let refused = refused_options(*kind, &options);
                let fields: Vec<&str> = refused.iter().map(BuildError::option).collect();
                let expected = if *kind == implied { vec![] } else { vec![option] };
                assert_eq!(fields, expected, "{kind}, {options:?}");
            }
        }
    }

    #[test]
    fn fault_tolerance_goes_with_the_options_of_both_engines_that_have_it() {
        let twice =
            EngineOptions { fault_tolerant: true, ..EngineOptions::new(8, TableKind::PerPort) };
        let implied = |options: EngineOptions| options.implied_engine().map(|(kind, _)| kind);
        assert_eq!(implied(twice), Some(EngineKind::CMr4lmsFixed));
        let scoped = EngineOptions { root_scope: Some(RootScope::TnGroup), ..twice };
        let by_load = EngineOptions { root_policy: Some(RootPolicy::Hlse), ..twice };
        for options in [scoped, by_load] {
            assert_eq!(implied(options), Some(EngineKind::CMr4lmsDynamic));
            assert_eq!(refused_options(EngineKind::CMr4lmsDynamic, &options), []);
        }
        let staying = EngineOptions { stay_after_healing: true, ..twice };
        assert_eq!(implied(staying), Some(EngineKind::CMr4lmsFixed));
        for kind in EngineKind::ALL.iter().copied().filter(|kind| !kind.supports_fault_tolerance())
        {
            let refused = refused_options(kind, &twice);
            assert_eq!(refused, [BuildError::NoFaultTolerance { kind }]);
        }
    }

    #[test]
    fn engines_for_fat_trees_and_mr4lms_can_be_free_of_deadlocks() {
        let free = EngineOptions {
            deadlock_free: Some(true),
            ..EngineOptions::new(8, TableKind::PerPort)
        };
        assert_eq!(free.implied_engine(), None);
        for kind in EngineKind::ALL.iter().copied() {
            let can = kind.needs_fat_tree() || kind == EngineKind::Mr4lms;
            let refused = if can { vec![] } else { vec![BuildError::NoDeadlockFree { kind }] };
            assert_eq!(refused_options(kind, &free), refused);
        }
    }

    #[test]
    fn all_refused_options_are_listed() {
        let options = EngineOptions {
            fault_tolerant: true,
            root_scope: Some(RootScope::TnGroup),
            root_policy: Some(RootPolicy::Hlse),
            ..EngineOptions::new(8, TableKind::PerSwitch)
        };
        let fields = |kind| -> Vec<&str> {
            refused_options(kind, &options).iter().map(BuildError::option).collect()
        };
        assert_eq!(fields(EngineKind::CMr4lmsFixed), ["root_policy", "root_scope"]);
        assert_eq!(fields(EngineKind::CMr4lmsDynamic), ["root_scope"]);
    }

    #[test]
    fn dynamic_roots_are_in_a_whole_tn_group_where_tables_allow_it() {
        for (tables, scope) in
            [(TableKind::PerPort, RootScope::TnGroup), (TableKind::PerSwitch, RootScope::Tn)]
        {
            let usual = EngineOptions::new(8, tables);
            assert_eq!(usual.effective_root_scope(), scope);
            let narrow = EngineOptions { root_scope: Some(RootScope::Tn), ..usual };
            assert_eq!(narrow.effective_root_scope(), RootScope::Tn);
        }
    }
}
