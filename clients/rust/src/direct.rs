//! The direct path: this process runs the message layer of its memberships itself.
//!
//! ```text
//!  calls ──► DirectPart ──► DirectMember (MessageLayer, one lock) ──► Connection ──► other process
//!                              ▲   ▲                │                 (TCP, to direct neighbours)
//!  Sockets (one listener) ─────┘   │                ▼
//!  agent ◄──────────────────── OpenDirectPath (frames of all other neighbours)
//! ```
//!
//! The edges of a member's tree begin on the agents' links. If both ends are direct, each tells the
//! other its address and a secret; the one of lower rank connects, and the edge begins anew on the
//! connection. When that breaks, the edge begins anew over the agents.

pub(crate) mod connection;
pub(crate) mod edge;
pub(crate) mod member;
mod multicast;
mod open_part;
mod packet;
pub(crate) mod part;
mod sockets;
mod state;

use std::collections::BTreeMap;
use std::sync::Arc;

use fabricast_groups::{Gn, Pn};
use fabricast_messages::MemberId;
use fabricast_proto::v1;
use fabricast_proto::v1::process_service_client::ProcessServiceClient;
use fabricast_status::Reason;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::Channel;

use crate::Error;
use crate::part_state::End;
use member::{DirectMember, Wiring};
use sockets::Sockets;

/// The memberships of this process that have the direct path.
#[derive(Debug)]
pub(crate) struct DirectPaths {
    sockets: Arc<Sockets>,
    members: Mutex<BTreeMap<String, Arc<DirectMember>>>,
    /// Held while a path is opened: each is opened once.
    opening: tokio::sync::Mutex<()>,
    /// Without the path, a join fails.
    is_required: bool,
}

impl Drop for DirectPaths {
    fn drop(&mut self) {
        self.members.get_mut().values().for_each(|member| member.stop(End::Closed));
    }
}

impl DirectPaths {
    /// - `host`: address of this machine at which other nodes reach its processes; empty if the
    ///   agent offers no direct path.
    pub(crate) async fn new(host: &str, is_required: bool) -> Self {
        let (members, opening) = Default::default();
        Self { sockets: Sockets::open(host).await, members, opening, is_required }
    }

    /// Begins the path of a membership, unless it has begun.
    pub(crate) async fn begin(
        &self,
        mut calls: ProcessServiceClient<Channel>,
        session: u64,
        membership: &v1::Membership,
    ) -> Result<(), Error> {
        let group = &membership.group;
        let _opening = self.opening.lock().await;
        if self.member(group).is_some() {
            return Ok(());
        }
        let (requests, request_stream) = mpsc::unbounded_channel();
        let first = v1::OpenDirectPathRequest {
            session,
            group: group.clone(),
            knows_trees: true,
            ..Default::default()
        };
        // The receiver still exists: it is in this function.
        let _ = requests.send(first);
        let opened = calls.open_direct_path(UnboundedReceiverStream::new(request_stream)).await;
        let responses = match opened.map_err(|error| Error::of_group(group, error)) {
            Ok(responses) => responses.into_inner(),
            Err(Error::Refused { reason, .. })
                if !self.is_required && reason == Reason::NoDirectPath.text() =>
            {
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let id = MemberId { gn: Gn(membership.gn), pn: Pn(membership.pn) };
        let address = self.sockets.address.clone();
        let wiring = Wiring { group: group.as_str().into(), id, address, requests };
        let member = DirectMember::start(wiring, responses);
        self.sockets.add(id, &member);
        let ended = self.members.lock().insert(group.clone(), member);
        if let Some(ended) = ended {
            ended.stop(End::Closed);
        }
        Ok(())
    }

    /// The membership in a group, unless it has ended.
    pub(crate) fn member(&self, group: &str) -> Option<Arc<DirectMember>> {
        self.members.lock().get(group).filter(|member| !member.has_ended()).cloned()
    }

    /// Forgets a membership, which the process has left.
    pub(crate) fn forget(&self, group: &str) {
        let ended = self.members.lock().remove(group);
        if let Some(ended) = ended {
            let left = Reason::NotAMember.status("the process has left the group", &[]);
            ended.stop(End::Failed(left.into()));
        }
    }
}
