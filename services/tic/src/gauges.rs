//! Copies the numbers of the records into the metrics.

use std::sync::Arc;
use std::time::Duration;

use fabricast_groups::directory::{Directory, NodeCounts};
use fabricast_groups::names::NodeName;
use fabricast_groups::record::NodeState;
use fabricast_telemetry::metrics::{TIC_DRAINED, TIC_GROUPS, TIC_MEMBERS, TIC_NODES};
use tokio_util::sync::CancellationToken;

use crate::liveness::inbox::LivenessInbox;
use crate::records::Records;

/// Shorter than the usual interval between two readings of metrics.
const INTERVAL: Duration = Duration::from_secs(2);
/// Nodes that are looked up while the records are kept as they are.
const PIECE: usize = 1_024;

/// Updates the metrics as long as a term lasts; after it they are 0, as those of any TIC that does
/// not lead.
pub(crate) async fn update_until(
    end: CancellationToken,
    records: Arc<Records>,
    liveness: Arc<LivenessInbox>,
) {
    let _cleared = ClearedAtEnd;
    loop {
        count(&records, &liveness).show();
        tokio::select! {
            () = end.cancelled() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
    }
}

/// Clears the metrics when the task ends, also if it is cut short.
struct ClearedAtEnd;

impl Drop for ClearedAtEnd {
    fn drop(&mut self) {
        Counts::default().show();
    }
}

/// Numbers of the records.
#[derive(Debug, Default)]
struct Counts {
    up: u64,
    silent: u64,
    failed: u64,
    drained: u64,
    groups: u64,
    members: u64,
}

impl Counts {
    /// - `silent`: nodes that are up and silent; some may have failed since they were counted.
    fn of(directory: &Directory, silent: usize) -> Self {
        let NodeCounts { up, failed, drained } = directory.node_counts();
        let silent = silent.min(up);
        Self {
            up: (up - silent) as u64,
            silent: silent as u64,
            failed: failed as u64,
            drained: drained as u64,
            groups: directory.group_count() as u64,
            members: directory.membership_count() as u64,
        }
    }

    fn show(&self) {
        for (state, count) in [("up", self.up), ("silent", self.silent), ("failed", self.failed)] {
            TIC_NODES.set(state, count);
        }
        TIC_DRAINED.set(self.drained);
        TIC_GROUPS.set(self.groups);
        TIC_MEMBERS.set(self.members);
    }
}

/// Counts without keeping the records for longer than a piece of the silent nodes takes.
fn count(records: &Records, liveness: &LivenessInbox) -> Counts {
    let silent = liveness.contacts.silent();
    let names: Vec<&NodeName> = silent.iter().collect();
    let counts = names.chunks(PIECE).map(|some| records.read(|all| count_up(all, some)));
    let silent: usize = counts.sum();
    records.read(|directory| Counts::of(directory, silent))
}

/// Number of these nodes that are up.
fn count_up(directory: &Directory, names: &[&NodeName]) -> usize {
    let is_up =
        |name: &NodeName| directory.node(name).is_some_and(|node| node.state == NodeState::Up);
    names.iter().filter(|name| is_up(name)).count()
}

#[cfg(test)]
mod tests {
    use fabricast_groups::directory::Limits;
    use fabricast_groups::ids::Incarnation;
    use fabricast_groups::names::Address;
    use fabricast_groups::record::{Change, NodeRecord};

    use super::*;

    #[test]
    fn silent_nodes_are_counted_among_those_that_are_up() {
        let name = |number: u32| NodeName::new(&format!("n{number}")).unwrap();
        let mut directory = Directory::new(Limits::default());
        for number in 0..5 {
            let state = if number == 4 { NodeState::Failed } else { NodeState::Up };
            directory.apply(&Change::NodePut(NodeRecord {
                name: name(number),
                address: Address::new("127.0.0.1:1").unwrap(),
                endpoints: Vec::new(),
                incarnation: Incarnation(1),
                start_id: 1,
                state,
                flaps: None,
                drained: number == 1,
                voucher_key: None,
            }));
        }
        let silent = [name(0), name(1), name(4), name(9)];
        let silent = count_up(&directory, &silent.iter().collect::<Vec<_>>());
        let Counts { up, silent, failed, drained, .. } = Counts::of(&directory, silent);
        assert_eq!([up, silent, failed, drained], [2, 2, 1, 1]);
        let Counts { up, silent, .. } = Counts::of(&directory, 9);
        assert_eq!([up, silent], [0, 4], "they have failed meanwhile");
    }

    #[test]
    fn a_tic_whose_term_has_ended_shows_nothing() {
        Counts { up: 3, silent: 1, failed: 2, drained: 1, groups: 5, members: 9 }.show();
        assert_eq!(TIC_NODES.get("failed"), Some(2));
        assert_eq!((TIC_GROUPS.get(), TIC_MEMBERS.get(), TIC_DRAINED.get()), (5, 9, 1));
        drop(ClearedAtEnd);
        assert_eq!(["up", "silent", "failed"].map(|state| TIC_NODES.get(state)), [Some(0); 3]);
        assert_eq!((TIC_GROUPS.get(), TIC_MEMBERS.get(), TIC_DRAINED.get()), (0, 0, 0));
    }
}
