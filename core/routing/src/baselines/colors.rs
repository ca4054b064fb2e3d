//! Assigns colors: the one with the fewest groups, of equal ones the lowest.

use std::collections::BTreeSet;

use fabricast_topology::Mgid;

/// The groups of every color.
#[derive(Clone, Debug)]
pub(super) struct Colors {
    groups: Vec<Vec<Mgid>>,        // by color, rising
    order: BTreeSet<(usize, u16)>, // how many groups, color
}

impl Colors {
    pub(super) fn new(colors: u16) -> Self {
        Self {
            groups: vec![Vec::new(); usize::from(colors)],
            order: (0..colors).map(|color| (0, color)).collect(),
        }
    }

    /// Counts the colors there are.
    pub(super) fn len(&self) -> u16 {
        u16::try_from(self.groups.len()).expect("colors are 16 bits wide")
    }

    /// Lists the groups of a color, rising.
    pub(super) fn groups(&self, color: u16) -> &[Mgid] {
        &self.groups[usize::from(color)]
    }

    /// Walks the colors that some group has, rising.
    pub(super) fn in_use(&self) -> impl Iterator<Item = u16> + '_ {
        (0u16..).zip(&self.groups).filter(|(_, groups)| !groups.is_empty()).map(|(color, _)| color)
    }

    /// Gives a group a color.
    pub(super) fn take(&mut self, mgid: Mgid) -> u16 {
        let (_, color) = *self.order.first().expect("there is a color");
        self.take_this(mgid, color);
        color
    }

    /// Gives a group this color.
    pub(super) fn take_this(&mut self, mgid: Mgid, color: u16) {
        self.change(color, |groups| {
            let at = groups.partition_point(|other| *other < mgid);
            groups.insert(at, mgid);
        });
    }

    /// Takes a group's color away.
    pub(super) fn give_back(&mut self, mgid: Mgid, color: u16) {
        self.change(color, |groups| groups.retain(|other| *other != mgid));
    }

    fn change(&mut self, color: u16, change: impl FnOnce(&mut Vec<Mgid>)) {
        let groups = &mut self.groups[usize::from(color)];
        self.order.remove(&(groups.len(), color));
        change(groups);
        self.order.insert((groups.len(), color));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_colors_go_first_and_then_those_with_the_fewest_groups() {
        let mut colors = Colors::new(3);
        let taken: Vec<u16> = (0..7).map(|mgid| colors.take(Mgid(mgid))).collect();
        assert_eq!(taken, [0, 1, 2, 0, 1, 2, 0]);
        colors.give_back(Mgid(4), 1);
        assert_eq!(colors.groups(1), [Mgid(1)]);
        assert_eq!((colors.take(Mgid(9)), colors.take(Mgid(8))), (1, 1));
        assert_eq!(colors.groups(1), [Mgid(1), Mgid(8), Mgid(9)]);
        colors.give_back(Mgid(2), 2);
        colors.give_back(Mgid(5), 2);
        assert!(colors.in_use().eq([0, 1]));
    }
}
