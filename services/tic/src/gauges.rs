//! Copies the numbers of the records into the metrics.

use std::sync::Arc;
use std::time::Duration;

use fabricast_groups::directory::Directory;
use fabricast_groups::names::NodeName;
use fabricast_groups::record::NodeState;
use fabricast_telemetry::metrics::{TIC_DRAINED, TIC_GROUPS, TIC_MEMBERS, TIC_NODES};
use tokio_util::sync::CancellationToken;

use crate::liveness::inbox::LivenessInbox;
use crate::records::Records;

/// Shorter than the usual interval between two readings of metrics.
const INTERVAL: Duration = Duration::from_secs(2);

/// Updates the metrics as long as a term lasts; after it they are 0, as those of any TIC that does
/// not lead.
pub(crate) async fn update_until(
    end: CancellationToken,
    records: Arc<Records>,
    liveness: Arc<LivenessInbox>,
) {
    let _cleared = ClearedAtEnd;
    loop {
        let silent = liveness.contacts.silent();
        let counts = records.read(|directory| Counts::of(directory, |node| silent.contains(node)));
        counts.show();
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
    /// Cost: O(n) in the nodes.
    fn of(directory: &Directory, is_silent: impl Fn(&NodeName) -> bool) -> Self {
        let mut counts = Self {
            groups: directory.group_count() as u64,
            members: directory.membership_count() as u64,
            ..Self::default()
        };
        for node in directory.nodes() {
            counts.drained += u64::from(node.drained);
            match node.state {
                NodeState::Up if is_silent(&node.name) => counts.silent += 1,
                NodeState::Up => counts.up += 1,
                NodeState::Failed => counts.failed += 1,
            }
        }
        counts
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

#[cfg(test)]
mod tests {
    use super::*;

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
