//! Groups that cross links, whatever their colors: what a group looks at that may choose among
//! places where it is alone.

/// Loads of the links of one tier. A number stands for a spanning tree, or for one with its first
/// step to the root; its links are one row of the tier, or with fault tolerance two.
#[derive(Clone, Debug)]
pub(super) struct RowLoads {
    rows: Vec<[u32; 2]>, // by number; twice the same for one tree
    width: usize,
    loads: Vec<u32>, // by row and place
}

impl RowLoads {
    /// - `rows`: the rows of each number.
    /// - `width`: the places of a row.
    pub(super) fn new(rows: Vec<[u32; 2]>, width: usize) -> Self {
        let count = rows.iter().flatten().max().map_or(0, |last| *last as usize + 1);
        Self { rows, width, loads: vec![0; count * width] }
    }

    /// Changes the loads of a number's links at some places.
    pub(super) fn change(&mut self, number: usize, places: &[u32], change: impl Fn(&mut u32)) {
        let rows = self.rows[number];
        let count = if rows[0] == rows[1] { 1 } else { 2 };
        for row in &rows[..count] {
            let loads = &mut self.loads[*row as usize * self.width..];
            places.iter().for_each(|at| change(&mut loads[*at as usize]));
        }
    }

    /// Gives the largest load of a number's links at some places.
    pub(super) fn most(&self, number: usize, places: &[u32]) -> u32 {
        let loads = |row: u32| &self.loads[row as usize * self.width..];
        let of_row = |row: u32| places.iter().map(move |at| loads(row)[*at as usize]).max();
        self.rows[number].into_iter().filter_map(of_row).max().unwrap_or(0)
    }

    /// Gives the largest load at some places for every number.
    pub(super) fn most_of_all(&self, places: &[u32]) -> Vec<u32> {
        let most = |loads: &[u32]| places.iter().map(|at| loads[*at as usize]).max().unwrap_or(0);
        let by_row: Vec<u32> = self.loads.chunks(self.width.max(1)).map(most).collect();
        let load = |row: u32| by_row.get(row as usize).copied().unwrap_or(0);
        self.rows.iter().map(|[first, second]| load(*first).max(load(*second))).collect()
    }

    /// Gives the rows of a number.
    pub(super) fn rows(&self, number: usize) -> [u32; 2] {
        self.rows[number]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number 0 has row 0, number 1 rows 0 and 1.
    #[test]
    fn the_largest_load_of_all_rows_and_places_counts() {
        let mut loads = RowLoads::new(vec![[0, 0], [0, 1]], 3);
        loads.change(0, &[0, 2], |load| *load += 2);
        loads.change(1, &[1, 2], |load| *load += 1);
        assert_eq!(loads.most_of_all(&[0, 1]), [2, 2]);
        assert_eq!(loads.most_of_all(&[1, 2]), [3, 3]);
        assert_eq!((loads.most(0, &[1]), loads.most(1, &[0])), (1, 2));
        loads.change(0, &[0, 2], |load| *load -= 2);
        assert_eq!(loads.most_of_all(&[0, 1, 2]), [1, 1]);
        assert_eq!((loads.most(0, &[]), loads.rows(1)), (0, [0, 1]));
    }

    #[test]
    fn a_tier_without_links_has_no_load() {
        let loads = RowLoads::new(vec![[0, 0]], 0);
        assert_eq!((loads.most(0, &[]), loads.most_of_all(&[])), (0, vec![0]));
    }
}
