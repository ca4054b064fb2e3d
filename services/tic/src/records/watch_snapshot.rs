//! The snapshot with which a watch begins, encoded while its reader takes it.

use fabricast_groups::directory::DirectoryCopy;
use fabricast_groups::ids::Moment;
use fabricast_proto::v1;
use fabricast_wire::{encode_group, encode_member, encode_node};
use prost::Message;
use v1::directory_change::Kind;

use crate::clock::wall_clock;
use crate::records::wrap;

/// Encoded size at which a message is closed; readers take at most 4 MiB unless told otherwise.
/// Decoded, a record takes ten times as much.
const MESSAGE_BYTES: usize = 1 << 17;

/// The messages of a snapshot: nodes, then each group with its members, then the failed parts of
/// the fabric.
#[derive(Debug)]
pub(crate) struct WatchSnapshot {
    copy: DirectoryCopy,
    topology_sha256: Vec<u8>,
    now: Moment,
    /// Taken with the last change.
    failed: Option<v1::FailedElements>,
    node: usize,
    group: usize,
    /// The next member of the group; `None` if the group itself is next.
    member: Option<usize>,
}

impl WatchSnapshot {
    pub(crate) fn new(
        copy: DirectoryCopy,
        failed: v1::FailedElements,
        topology_sha256: &[u8],
    ) -> Self {
        Self {
            copy,
            topology_sha256: topology_sha256.to_vec(),
            now: wall_clock(),
            failed: Some(failed),
            node: 0,
            group: 0,
            member: None,
        }
    }

    fn next_kind(&mut self) -> Option<Kind> {
        if let Some(node) = self.copy.nodes().get(self.node) {
            self.node += 1;
            return Some(Kind::Node(encode_node(node, self.now)));
        }
        while let Some((group, members)) = self.copy.group(self.group) {
            let Some(index) = self.member else {
                self.member = Some(0);
                let agent = group.agent.as_ref().and_then(|agent| self.copy.node(agent));
                let address = agent.map_or("", |node| node.address.as_str());
                let member_count = u32::try_from(members.len()).unwrap_or(u32::MAX);
                return Some(Kind::Group(v1::Group {
                    member_count,
                    ..encode_group(group, address)
                }));
            };
            if let Some(member) = members.get(index) {
                self.member = Some(index + 1);
                let node = self.copy.node(&member.node);
                let member = Some(encode_member(member, node));
                return Some(Kind::Joined(v1::MemberChange { gn: group.gn.0, member }));
            }
            (self.group, self.member) = (self.group + 1, None);
        }
        self.failed.take().map(Kind::FailedElements)
    }
}

impl Iterator for WatchSnapshot {
    type Item = v1::WatchDirectoryResponse;

    fn next(&mut self) -> Option<Self::Item> {
        self.failed.as_ref()?;
        let (mut changes, mut bytes) = (Vec::new(), 0);
        while bytes < MESSAGE_BYTES
            && let Some(kind) = self.next_kind()
        {
            let change = wrap(kind);
            bytes += change.encoded_len();
            changes.push(change);
        }
        Some(v1::WatchDirectoryResponse {
            revision: self.copy.revision().0,
            snapshot: true,
            snapshot_end: self.failed.is_none(),
            topology_sha256: self.topology_sha256.clone(),
            changes,
            ..Default::default()
        })
    }
}
