//! The state before a batch, which the store may refuse.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_collectives::Holder;

use super::Item;
use crate::domain::collectives::request::HolderName;
use crate::domain::collectives::text::Ledger;
use crate::domain::elements::ElementKey;

/// The state before a batch, of what the batch has touched; the allocator has its own.
#[derive(Debug, Default)]
pub(super) struct Before {
    pub(super) items: BTreeMap<String, Option<Item>>,
    /// Tenants and jobs that something was asked for, or that have lost their numbers, with their
    /// names.
    pub(super) holders: BTreeMap<Holder, HolderName>,
    pub(super) next_id: u64,
    pub(super) revision: u64,
    pub(super) failed: Arc<BTreeSet<ElementKey>>,
    pub(super) is_rebuilt: bool,
    pub(super) is_old_layout: bool,
}

impl Before {
    /// Records a collective before its first change.
    pub(super) fn item(&mut self, name: &str, items: &BTreeMap<String, Item>) {
        if !self.items.contains_key(name) {
            self.items.insert(name.to_owned(), items.get(name).cloned());
        }
    }

    /// Records the name of a tenant or job that has a number.
    pub(super) fn holder(&mut self, holder: Holder, ledger: &Ledger) {
        self.holders.entry(holder).or_insert_with(|| ledger.holder_name(holder));
    }
}

#[cfg(test)]
mod tests;
