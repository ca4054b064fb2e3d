//! The leader as far as this TIC knows it.

use fabricast_proto::v1;
use fabricast_telemetry::metrics::{TIC_LEADS, TIC_TERM};
use parking_lot::RwLock;
use thiserror::Error;

use crate::leadership::election::{LeaderInfo, LeaderLease};

/// The leader that this TIC knows of, itself included.
#[derive(Debug, Default)]
pub(crate) struct LeaderState(RwLock<Current>);

#[derive(Debug, Default)]
struct Current {
    /// This TIC's own lease, while it serves a term.
    lease: Option<LeaderLease>,
    leader: LeaderInfo,
}

/// This TIC does not lead.
#[derive(Clone, Debug, Error)]
#[error("this TIC does not lead, {}", who_does(.leader))]
pub(crate) struct NotLeader {
    /// Empty if no leader is known.
    pub(crate) leader: LeaderInfo,
}

impl LeaderState {
    /// Notes that this TIC leads and is reached at this address.
    pub(crate) fn lead(&self, lease: LeaderLease, address: &str) {
        let term = lease.term();
        TIC_LEADS.set(1);
        TIC_TERM.set(term);
        let leader = LeaderInfo { address: address.to_owned(), term };
        *self.0.write() = Current { lease: Some(lease), leader };
    }

    /// Notes that this TIC does not lead any more, and that no leader is known.
    pub(crate) fn end_term(&self) {
        TIC_LEADS.set(0);
        *self.0.write() = Current::default();
    }

    /// Notes that another TIC leads, or, if it is an empty one, that none does.
    pub(crate) fn follow(&self, leader: LeaderInfo) {
        TIC_LEADS.set(0);
        TIC_TERM.set(leader.term);
        let mut current = self.0.write();
        if current.leader != leader {
            match leader.address.as_str() {
                "" => tracing::warn!("no TIC leads, the store does not answer"),
                address => tracing::info!(peer = address, term = leader.term, "another TIC leads"),
            }
        }
        *current = Current { lease: None, leader };
    }

    /// The leader that callers are told of.
    pub(crate) fn leadership(&self) -> v1::Leadership {
        let current = self.0.read();
        let leads = current.lease.as_ref().is_some_and(LeaderLease::holds);
        // A TIC whose lease has expired knows of no other leader yet.
        let expired = !leads && current.lease.is_some();
        let LeaderInfo { address, term } =
            if expired { LeaderInfo::default() } else { current.leader.clone() };
        v1::Leadership { leads, address, term }
    }

    /// The refusal of a call that only the leader may answer.
    pub(crate) fn not_leader(&self) -> NotLeader {
        let v1::Leadership { address, term, .. } = self.leadership();
        NotLeader { leader: LeaderInfo { address, term } }
    }
}

fn who_does(leader: &LeaderInfo) -> String {
    match leader.address.as_str() {
        "" => "and no TIC is known to lead".to_owned(),
        address => format!("{address} does"),
    }
}
