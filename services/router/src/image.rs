//! What the switches hold against what they ought to hold, and the order of writes between.
//!
//! Make before break (rule R5): [`Image::additions`] comes first, then senders learn the new
//! colors, and only then [`Image::swaps`] and [`Image::removals`]. In between, an entry is the
//! union of old and new wherever that cannot make a loop.

mod replanted;
mod table;

use std::collections::BTreeMap;

use fabricast_topology::{Graph, Peer, PortSet, SwitchId, TableEntry};

use table::Table;

/// One entry to be written; an empty set removes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Write {
    pub(crate) in_port: u8,
    pub(crate) color: u16,
    pub(crate) out: PortSet,
}

/// A switch, an input port and a color: where packets meet an entry.
pub(crate) type EntryPoint = (SwitchId, u8, u16);

/// Whether somebody who sends at an entry point, an endpoint's port, has the same tree before and after.
pub(crate) type IsKept<'a> = &'a dyn Fn(EntryPoint) -> bool;

/// Writes by switch.
pub(crate) type Writes = BTreeMap<SwitchId, Vec<Write>>;

/// The entries of all switches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Image {
    switches: BTreeMap<SwitchId, Table>,
}

/// How many entries of a table differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Difference {
    /// Entries that only the first one has.
    pub(crate) missing: u32,
    /// Entries that only the second one has.
    pub(crate) extra: u32,
    /// Entries with other output ports.
    pub(crate) altered: u32,
}

impl FromIterator<TableEntry> for Image {
    fn from_iter<I: IntoIterator<Item = TableEntry>>(entries: I) -> Self {
        let mut image = Self::default();
        let mut entries = entries.into_iter().peekable();
        let mut writes = Vec::new(); // of one switch
        while let Some(TableEntry { switch, in_port, color, out }) = entries.next() {
            writes.push(Write { in_port, color, out });
            if entries.peek().is_none_or(|next| next.switch != switch) {
                image.record_all(switch, &writes);
                writes.clear();
            }
        }
        image
    }
}

impl Image {
    /// Notes that a switch has taken writes.
    pub(crate) fn record_all(&mut self, switch: SwitchId, writes: &[Write]) {
        let table = self.switches.entry(switch).or_default();
        table.record_all(writes);
        // An image is compared as a whole: no table and an empty one must be the same.
        if table.is_empty() {
            self.switches.remove(&switch);
        }
    }

    /// Replaces all entries of one switch by what was read from it.
    pub(crate) fn replace(&mut self, switch: SwitchId, writes: impl IntoIterator<Item = Write>) {
        self.forget(switch);
        self.record_all(switch, &writes.into_iter().collect::<Vec<_>>());
    }

    /// Takes out what one switch holds.
    pub(crate) fn take(&mut self, switch: SwitchId) -> Self {
        let table = self.switches.remove_entry(&switch);
        Self { switches: table.into_iter().collect() }
    }

    /// Notes that a switch holds nothing.
    pub(crate) fn forget(&mut self, switch: SwitchId) {
        self.switches.remove(&switch);
    }

    /// Whether an entry is there with at least these output ports.
    pub(crate) fn covers(&self, entry: &TableEntry) -> bool {
        let held = self.switches.get(&entry.switch);
        let out = held.map(|table| table.out(entry.in_port, entry.color));
        out.is_some_and(|out| !out.is_empty() && entry.out.difference(out).is_empty())
    }

    /// Whether every entry of another image is there with at least its output ports.
    pub(crate) fn covers_all(&self, other: &Self) -> bool {
        other.switches.iter().all(|(switch, table)| {
            let mut rows = table.beside(self.switches.get(switch));
            rows.all(|(_, _, out, held)| out.difference(held).is_empty())
        })
    }

    /// Counts how the entries of one switch differ from those in another image.
    pub(crate) fn difference(&self, other: &Self, switch: SwitchId) -> Difference {
        let (own, other) = (self.switches.get(&switch), other.switches.get(&switch));
        let mut difference = Difference::default();
        for (_, _, out, found) in own.into_iter().flat_map(|own| own.beside(other)) {
            if found.is_empty() {
                difference.missing += 1;
            } else if found != out {
                difference.altered += 1;
            }
        }
        let others = other.into_iter().flat_map(|other| other.beside(own));
        let extra = others.filter(|(_, _, _, own)| own.is_empty()).count();
        difference.extra = u32::try_from(extra).unwrap_or(u32::MAX);
        difference
    }

    /// Number of entries on all switches.
    pub(crate) fn len(&self) -> usize {
        self.switches.values().map(Table::len).sum()
    }

    /// First phase: everything `desired` has that can be there beside what is held.
    pub(crate) fn additions(&self, desired: &Self, graph: &Graph, is_kept: IsKept<'_>) -> Writes {
        self.writes(desired, |at, old, out| {
            union_is_safe(graph, at, (old, out), is_kept).then(|| old.union(out))
        })
    }

    /// Second phase: entries that lead packets of an endpoint up another tree than before. Their
    /// color may have been taken over from a group whose senders must have heard of it first, and
    /// the new tree must be there.
    pub(crate) fn swaps(&self, desired: &Self, graph: &Graph, is_kept: IsKept<'_>) -> Writes {
        self.writes(desired, |at, old, out| {
            (!union_is_safe(graph, at, (old, out), is_kept)).then_some(out)
        })
    }

    /// What `target` makes of the entries of `desired`, where it differs from what is held.
    fn writes(
        &self,
        desired: &Self,
        target: impl Fn(EntryPoint, PortSet, PortSet) -> Option<PortSet>,
    ) -> Writes {
        let mut writes = Writes::new();
        for (&switch, table) in &desired.switches {
            for (in_port, color, out, old) in table.beside(self.switches.get(&switch)) {
                match target((switch, in_port, color), old, out) {
                    Some(out) if out != old => {
                        writes.entry(switch).or_default().push(Write { in_port, color, out });
                    }
                    Some(_) | None => {}
                }
            }
        }
        writes
    }

    /// Third phase: whatever still differs from `desired`.
    pub(crate) fn removals(&self, desired: &Self) -> Writes {
        let mut writes = Writes::new();
        for (&switch, held) in &self.switches {
            for (in_port, color, old, out) in held.beside(desired.switches.get(&switch)) {
                if out != old {
                    writes.entry(switch).or_default().push(Write { in_port, color, out });
                }
            }
        }
        writes
    }
}

/// Whether an entry may hold old and new branches at once.
///
/// A link between two switches belongs to one spanning tree of a color, so whatever comes in there
/// stays in that tree and the union is part of it. A packet that comes in from an endpoint may be
/// meant for another spanning tree than before: two ways up at once would deliver twice, and one that is only
/// left over would lead it to strangers. So there the switch ports of one set must contain those of the other.
/// If one of them has none, the ways up do not tell whether it is one tree: it is, if somebody who sends there keeps it.
fn union_is_safe(
    graph: &Graph,
    (switch, in_port, color): EntryPoint,
    (old, new): (PortSet, PortSet),
    is_kept: IsKept<'_>,
) -> bool {
    let peer_of = |number| graph.port(switch, number).map_or(Peer::None, |port| graph.peer(port));
    if old.is_empty() || old == new || !matches!(peer_of(in_port), Peer::Endpoint(_)) {
        return true;
    }
    let upward = |set: PortSet| -> PortSet {
        set.iter().filter(|number| matches!(peer_of(*number), Peer::Switch(_))).collect()
    };
    let (old, new) = (upward(old), upward(new));
    if old.is_empty() || new.is_empty() {
        return is_kept((switch, in_port, color));
    }
    old.difference(new).is_empty() || new.difference(old).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabricast_topology::ibnetdiscover;

    /// Two leaves, two spines, one endpoint a leaf: leaf ports 1, 2 go up, port 3 to the endpoint.
    const FABRIC: &str = r#"
Switch 3 "S-0000000000000001" # "leaf1"
[1] "S-0000000000000003"[1]
[2] "S-0000000000000004"[1]
[3] "H-0000000000000011"[1]
Switch 3 "S-0000000000000002" # "leaf2"
[1] "S-0000000000000003"[2]
[2] "S-0000000000000004"[2]
[3] "H-0000000000000012"[1]
Switch 2 "S-0000000000000003" # "spine1"
[1] "S-0000000000000001"[1]
[2] "S-0000000000000002"[1]
Switch 2 "S-0000000000000004" # "spine2"
[1] "S-0000000000000001"[2]
[2] "S-0000000000000002"[2]
Ca 1 "H-0000000000000011" # "h0"
[1] "S-0000000000000001"[3]
Ca 1 "H-0000000000000012" # "h1"
[1] "S-0000000000000002"[3]
"#;

    fn image(entries: &[(u32, u8, u16, &[u8])]) -> Image {
        entries
            .iter()
            .map(|&(switch, in_port, color, out)| TableEntry {
                switch: SwitchId(switch),
                in_port,
                color,
                out: out.iter().copied().collect(),
            })
            .collect()
    }

    fn apply(image: &mut Image, writes: &Writes) {
        for (&switch, writes) in writes {
            image.record_all(switch, writes);
        }
    }

    #[test]
    fn a_growing_entry_keeps_its_branches_and_a_leaving_one_goes_last() {
        let graph = ibnetdiscover::read(FABRIC).unwrap();
        let mut held = image(&[(2, 1, 5, &[2]), (2, 2, 5, &[1])]);
        let desired = image(&[(2, 1, 6, &[2])]);
        let additions = held.additions(&desired, &graph, &|_| true);
        apply(&mut held, &additions);
        assert_eq!(held, image(&[(2, 1, 5, &[2]), (2, 2, 5, &[1]), (2, 1, 6, &[2])]));
        let removals = held.removals(&desired);
        apply(&mut held, &removals);
        assert_eq!(held, desired);
        assert!(held.additions(&desired, &graph, &|_| true).is_empty());
        assert!(held.removals(&desired).is_empty());
    }

    #[test]
    fn an_image_covers_what_has_no_other_entries_and_output_ports() {
        let held = image(&[(1, 1, 5, &[2, 3]), (2, 1, 5, &[2])]);
        let covers = |entries| held.covers_all(&image(entries));
        assert!(covers(&[]) && covers(&[(1, 1, 5, &[3])]) && held.covers_all(&held));
        assert!(!covers(&[(1, 1, 5, &[4])]) && !covers(&[(1, 1, 6, &[2])]));
        assert!(!covers(&[(2, 1, 5, &[2]), (3, 1, 5, &[2])]));
    }

    /// Found by the simulation: the new tree does not leave its leaf, so the old one was taken for the same.
    #[test]
    fn a_tree_of_one_leaf_does_not_share_an_entry_with_the_tree_before_it() {
        let graph = ibnetdiscover::read(FABRIC).unwrap();
        let (held, desired) = (image(&[(0, 3, 5, &[1])]), image(&[(0, 3, 5, &[2, 1])]));
        let grown = held.additions(&desired, &graph, &|_| false);
        assert_eq!(grown.len(), 1, "the ways up say that it is one tree");
        let desired = image(&[(0, 3, 5, &[3])]);
        for (kept, phases) in [(true, (1, 0)), (false, (0, 1))] {
            let additions = held.additions(&desired, &graph, &|_| kept);
            let swaps = held.swaps(&desired, &graph, &|_| kept);
            assert_eq!((additions.len(), swaps.len()), phases, "kept: {kept}");
        }
    }

    /// Found by the simulation: what the new tree needs was there already, and so was a way up to strangers.
    #[test]
    fn a_tree_of_one_leaf_waits_until_the_way_up_of_the_tree_before_it_is_gone() {
        let graph = ibnetdiscover::read(FABRIC).unwrap();
        let (held, desired) = (image(&[(0, 3, 5, &[1, 4])]), image(&[(0, 3, 5, &[4])]));
        assert!(held.additions(&desired, &graph, &|_| false).is_empty());
        let swap = [Write { in_port: 3, color: 5, out: PortSet::single(4) }];
        assert_eq!(held.swaps(&desired, &graph, &|_| false)[&SwitchId(0)], swap);
        assert!(
            held.swaps(&desired, &graph, &|_| true).is_empty(),
            "its own tree has become smaller"
        );
    }

    #[test]
    fn an_endpoint_never_sends_up_two_trees_at_once() {
        let graph = ibnetdiscover::read(FABRIC).unwrap();
        let mut held = image(&[(0, 3, 5, &[1]), (0, 1, 5, &[3])]);
        let desired = image(&[(0, 3, 5, &[2]), (0, 2, 5, &[3])]);
        let additions = held.additions(&desired, &graph, &|_| true);
        apply(&mut held, &additions);
        assert_eq!(held, image(&[(0, 3, 5, &[1]), (0, 1, 5, &[3]), (0, 2, 5, &[3])]));
        let swaps = held.swaps(&desired, &graph, &|_| true);
        assert_eq!(swaps[&SwitchId(0)], [Write { in_port: 3, color: 5, out: PortSet::single(2) }]);
        apply(&mut held, &swaps);
        assert!(held.swaps(&desired, &graph, &|_| true).is_empty());
        let removals = held.removals(&desired);
        apply(&mut held, &removals);
        assert_eq!(held, desired);
    }
}
