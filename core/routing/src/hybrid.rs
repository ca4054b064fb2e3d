//! The hybrid engine in the list of engines: groups at home where they are alone, all others where
//! they are merged least.
//!
//! On most fat trees it is [`DynamicRootEngine::hybrid`], whose trees go through level-1 switches
//! of one number in all CNs. Where level-1 switches of several numbers lead to one director or
//! core switch, such trees serve few groups once links are absent: with 5 % of them gone 11 of the
//! 64 top midplanes of BlueLight have a link from each of 34 CNs. There a group that cannot be
//! alone at home gets a tree of MR4LMS, which takes another level-1 switch in every CN if need be
//! ([`Mr4lms::with_homes`]). Two trees for each group are always of the former kind.

use fabricast_topology::FatTree;

use crate::c_mr4lms::{DynamicRootEngine, HomeTrees};
use crate::mr4lms::{Mr4lms, Mr4lmsOptions};
use crate::routing_engine::{EngineEntry, EngineInput, EngineOptions};

/// The engine in the list of engines.
pub(crate) const ENTRY: EngineEntry = EngineEntry {
    needs_fat_tree: true,
    chooses_roots: false,
    fault_tolerance: true,
    ..EngineEntry::new("c-mr4lms-hybrid", |mut input| {
        let fat_tree = input.fat_tree()?;
        let EngineInput { graph, options, .. } = input;
        if !has_trees_of_mr4lms(&fat_tree, &options) {
            return Ok(Box::new(DynamicRootEngine::hybrid(graph, fat_tree, options)?));
        }
        let EngineOptions { colors, tables, .. } = options;
        let homes = HomeTrees::new(graph.clone(), fat_tree, colors, tables)?;
        let options = Mr4lmsOptions { deadlock_free: true, ..Mr4lmsOptions::new(colors, tables) };
        Ok(Box::new(Mr4lms::with_homes(graph, options, homes)?))
    })
};

/// Tells whether groups that cannot be alone at home get trees of MR4LMS.
pub(crate) fn has_trees_of_mr4lms(fat_tree: &FatTree, options: &EngineOptions) -> bool {
    !options.fault_tolerant && fat_tree.shares_tops()
}
