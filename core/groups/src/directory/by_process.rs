//! The members of a group, found by node and process.
//!
//! The index points to the records, since copies of the names would take nearly as much memory.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use crate::ids::Pn;
use crate::names::{NodeName, ProcessName};
use crate::record::MemberRecord;

/// Members of a group, ascending by node and process, of which no two have the same.
#[derive(Clone, Debug, Default)]
pub(super) struct ByProcess(BTreeSet<Entry>);

#[derive(Clone, Debug)]
struct Entry(Arc<MemberRecord>);

/// Node and process of a member; without a process, a place before all members of the node.
trait Key {
    fn key(&self) -> (&NodeName, Option<&ProcessName>);
}

impl ByProcess {
    /// Adds a member, in the place of an earlier one of its process.
    pub(super) fn insert(&mut self, member: &Arc<MemberRecord>) {
        self.0.replace(Entry(Arc::clone(member)));
    }

    /// Removes the member of a process.
    pub(super) fn remove(&mut self, node: &NodeName, process: &ProcessName) {
        self.0.remove(&(node, Some(process)) as &dyn Key);
    }

    /// Returns the rank of a process.
    pub(super) fn find(&self, node: &NodeName, process: &ProcessName) -> Option<Pn> {
        self.0.get(&(node, Some(process)) as &dyn Key).map(|entry| entry.0.pn)
    }

    /// Returns all members in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &MemberRecord> {
        self.0.iter().map(|entry| &*entry.0)
    }

    /// Returns the members on a node, in the order of their processes.
    pub(super) fn on_node(&self, node: &NodeName) -> impl Iterator<Item = &MemberRecord> {
        let first: (&NodeName, Option<&ProcessName>) = (node, None);
        let range: (Bound<&dyn Key>, Bound<&dyn Key>) = (Bound::Included(&first), Bound::Unbounded);
        let all = self.0.range::<dyn Key + '_, _>(range);
        all.map(|entry| &*entry.0).take_while(move |member| member.node == *node)
    }
}

/// Compares whole records; entries are equal if their processes are.
impl PartialEq for ByProcess {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for ByProcess {}

impl Key for Entry {
    fn key(&self) -> (&NodeName, Option<&ProcessName>) {
        (&self.0.node, Some(&self.0.process))
    }
}

impl Key for (&NodeName, Option<&ProcessName>) {
    fn key(&self) -> (&NodeName, Option<&ProcessName>) {
        *self
    }
}

impl<'a> Borrow<dyn Key + 'a> for Entry {
    fn borrow(&self) -> &(dyn Key + 'a) {
        self
    }
}

impl Ord for dyn Key + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for dyn Key + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for dyn Key + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for dyn Key + '_ {}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Entry {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Gn, Revision};
    use crate::names::EndpointName;

    fn member(pn: u32, node: &str, process: &str) -> Arc<MemberRecord> {
        Arc::new(MemberRecord {
            gn: Gn(1),
            pn: Pn(pn),
            node: NodeName::new(node).unwrap(),
            process: ProcessName::new(process).unwrap(),
            endpoint: EndpointName::new("h1").unwrap(),
            joined: Revision(1),
            sends_only: false,
        })
    }

    #[test]
    fn members_are_in_the_order_of_nodes_and_processes() {
        let mut all = ByProcess::default();
        for (pn, node, process) in [(0, "n2", "p"), (1, "n1", "q"), (2, "n1", "p"), (3, "n1", "q")]
        {
            all.insert(&member(pn, node, process));
        }
        let pns: Vec<u32> = all.iter().map(|member| member.pn.0).collect();
        assert_eq!(pns, [2, 3, 0], "a process has one member");
        let (node, process) = (NodeName::new("n1").unwrap(), ProcessName::new("q").unwrap());
        let pns: Vec<u32> = all.on_node(&node).map(|member| member.pn.0).collect();
        assert_eq!(pns, [2, 3]);
        assert_eq!(all.find(&node, &process), Some(Pn(3)));
        all.remove(&node, &process);
        assert_eq!(all.find(&node, &process), None);
    }

    #[test]
    fn members_of_other_ranks_are_not_the_same() {
        let of = |pn| ByProcess([Entry(member(pn, "n1", "p"))].into());
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }
}
