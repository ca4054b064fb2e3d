//! Cells by 32-bit number, given out and taken back without allocation once it is warm.

/// Stands for no cell.
pub(crate) const NONE: u32 = u32::MAX;

/// A vector whose free cells are chained.
#[derive(Clone, Debug)]
pub(crate) struct Slab<T> {
    cells: Vec<T>,
    free: Vec<u32>,
}

impl<T: Copy> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self { cells: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn insert(&mut self, value: T) -> u32 {
        if let Some(id) = self.free.pop() {
            self.cells[id as usize] = value;
            return id;
        }
        self.cells.push(value);
        u32::try_from(self.cells.len() - 1).expect("fewer than 2^32 packets are under way")
    }

    pub(crate) fn remove(&mut self, id: u32) {
        self.free.push(id);
    }

    /// Counts the cells in use.
    pub(crate) const fn len(&self) -> usize {
        self.cells.len() - self.free.len()
    }

    /// Counts the cells there ever were at one time.
    pub(crate) const fn peak(&self) -> usize {
        self.cells.len()
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, id: u32) -> &T {
        &self.cells[id as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, id: u32) -> &mut T {
        &mut self.cells[id as usize]
    }
}
