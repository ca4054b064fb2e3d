//! Lists the engines and makes them by kind; the only file that lists all of them.

use std::str::FromStr;
use std::sync::Arc;

use fabricast_topology::{FatTree, Graph};

use crate::routing_engine::{
    BuildError, EngineInput, EngineKind, EngineOptions, RoutingEngine, UnknownEngine,
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
    check_options(kind, options)?;
    if !kind.needs_fat_tree() {
        return Ok(MgidSpace::any(colors)?);
    }
    let fat_tree = fat_tree.ok_or(BuildError::NeedsFatTree { kind })?;
    let number = if fault_tolerant { Layout::dual } else { Layout::new };
    Ok(*number(fat_tree.params(), colors, tables)?.space())
}

/// Refuses what the engine cannot do.
fn check_options(kind: EngineKind, options: EngineOptions) -> Result<(), BuildError> {
    if options.fault_tolerant && !kind.supports_fault_tolerance() {
        return Err(BuildError::NoFaultTolerance { kind });
    }
    if options.stay_after_healing && !kind.supports_stay_after_healing() {
        return Err(BuildError::NoStay { kind });
    }
    if options.root_policy.is_some() && !kind.chooses_roots() {
        return Err(BuildError::NoRootPolicy { kind });
    }
    Ok(())
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
    check_options(kind, options)?;
    kind.build(EngineInput { kind, graph, fat_tree, options })
}
