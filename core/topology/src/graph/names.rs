//! Many short texts in one allocation, with an index by text.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::ids::dense;

/// Texts by dense number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    text: String,
    ends: Vec<u32>,
}

impl Names {
    /// Appends a text.
    pub(crate) fn push(&mut self, name: &str) {
        self.text.push_str(name);
        self.ends.push(dense(self.text.len()));
    }

    /// Returns a text by number.
    pub(crate) fn get(&self, index: usize) -> &str {
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        &self.text[start..self.ends[index] as usize]
    }

    /// Counts the texts.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Releases unused memory.
    pub(crate) fn shrink(&mut self) {
        self.text.shrink_to_fit();
        self.ends.shrink_to_fit();
    }
}

/// Marks an empty slot.
const FREE: u32 = u32::MAX;
/// Bit that marks the number of a text that is not unique.
const SHARED: u32 = 1 << 31;

/// Index of texts: their numbers in the order of the texts, and a hash table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NameIndex {
    order: Vec<u32>,
    /// Hash table, at least half empty; a text is at the slot of its hash or behind it.
    slots: Vec<u32>,
}

impl NameIndex {
    /// Sorts the numbers of `names` by their text.
    pub(crate) fn new(names: &Names) -> Self {
        let mut order: Vec<u32> = (0..dense(names.len())).collect();
        order.sort_unstable_by(|a, b| {
            names.get(*a as usize).cmp(names.get(*b as usize)).then(a.cmp(b))
        });
        let mut index = Self { slots: vec![FREE; (2 * order.len()).next_power_of_two()], order };
        for number in 0..dense(names.len()) {
            let slot = index.slot(names, names.get(number as usize));
            let found = index.slots[slot];
            index.slots[slot] = if found == FREE { number } else { found | SHARED };
        }
        index
    }

    /// Finds the unique text that equals `name`; `None` if there is none or more than one. Expected
    /// cost: O(1).
    pub(crate) fn find(&self, names: &Names, name: &str) -> Option<u32> {
        let found = self.slots.get(self.slot(names, name)).copied()?;
        (found & SHARED == 0).then_some(found)
    }

    /// Returns the slot of a text, or the free slot where it would be.
    fn slot(&self, names: &Names, name: &str) -> usize {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        let mask = self.slots.len().wrapping_sub(1);
        let hash = usize::try_from(hasher.finish() >> 32).expect("32 bits");
        let mut slot = hash & mask;
        while let Some(&number) = self.slots.get(slot) {
            if number == FREE || names.get((number & !SHARED) as usize) == name {
                break;
            }
            slot = (slot + 1) & mask;
        }
        slot
    }

    /// Iterates over the numbers whose text is also that of another number.
    pub(crate) fn duplicates<'a>(&'a self, names: &'a Names) -> impl Iterator<Item = u32> + 'a {
        let same = |a: u32, b: u32| names.get(a as usize) == names.get(b as usize);
        self.order.iter().enumerate().filter_map(move |(at, index)| {
            let before = at > 0 && same(self.order[at - 1], *index);
            let after = self.order.get(at + 1).is_some_and(|next| same(*next, *index));
            (before || after).then_some(*index)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(texts: impl IntoIterator<Item = String>) -> Names {
        let mut names = Names::default();
        texts.into_iter().for_each(|text| names.push(&text));
        names
    }

    #[test]
    fn every_text_is_found_but_those_that_several_have() {
        let texts = (0..1000).map(|number| format!("h{}", number % 900));
        let names = names(texts);
        let index = NameIndex::new(&names);
        for number in 0..900 {
            let once = (number >= 100).then_some(number);
            assert_eq!(index.find(&names, &format!("h{number}")), once, "h{number}");
        }
        for absent in ["h900", "h", "", "h1 ", "H1"] {
            assert_eq!(index.find(&names, absent), None, "{absent}");
        }
        assert_eq!(index.duplicates(&names).count(), 200);
    }

    #[test]
    fn nothing_is_found_among_no_texts() {
        let (names, default) = (Names::default(), NameIndex::default());
        for index in [NameIndex::new(&names), default] {
            assert_eq!(index.find(&names, "h0"), None);
            assert_eq!(index.duplicates(&names).count(), 0);
        }
    }
}
