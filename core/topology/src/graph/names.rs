//! Many short texts in one allocation, and a way to find one.

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

    /// Gives a text by number.
    pub(crate) fn get(&self, index: usize) -> &str {
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        &self.text[start..self.ends[index] as usize]
    }

    /// Counts the texts.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Gives unused memory back.
    pub(crate) fn shrink(&mut self) {
        self.text.shrink_to_fit();
        self.ends.shrink_to_fit();
    }
}

/// The numbers of some texts in the order of the texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NameIndex(Vec<u32>);

impl NameIndex {
    /// Sorts the numbers of `names` by their text.
    pub(crate) fn new(names: &Names) -> Self {
        let mut order: Vec<u32> = (0..dense(names.len())).collect();
        order.sort_unstable_by(|a, b| {
            names.get(*a as usize).cmp(names.get(*b as usize)).then(a.cmp(b))
        });
        Self(order)
    }

    /// Finds the one text that equals `name`; none if there is no or more than one.
    pub(crate) fn find(&self, names: &Names, name: &str) -> Option<u32> {
        let at = self.0.partition_point(|index| names.get(*index as usize) < name);
        let is_name =
            |at: usize| self.0.get(at).is_some_and(|index| names.get(*index as usize) == name);
        (is_name(at) && !is_name(at + 1)).then(|| self.0[at])
    }

    /// Walks the numbers whose text is also that of another number.
    pub(crate) fn duplicates<'a>(&'a self, names: &'a Names) -> impl Iterator<Item = u32> + 'a {
        let same = |a: u32, b: u32| names.get(a as usize) == names.get(b as usize);
        self.0.iter().enumerate().filter_map(move |(at, index)| {
            let before = at > 0 && same(self.0[at - 1], *index);
            let after = self.0.get(at + 1).is_some_and(|next| same(*next, *index));
            (before || after).then_some(*index)
        })
    }
}
