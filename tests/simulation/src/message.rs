//! Messages between the parties: the calls and answers of the API as values.

use std::collections::BTreeMap;

use fabricast_groups::command::{Command, Joined};
use fabricast_groups::directory::{GroupSnapshot, HostedGroup, Verdict};
use fabricast_groups::message::{
    AgentRefusal, Deregister, OaReport, OaReportReply, PositionUpdate, Register,
};
use fabricast_groups::names::NodeName;
use fabricast_groups::operating::CallId;
use fabricast_groups::record::{Change, GroupRecord, NodeRecord};
use fabricast_groups::{Gn, Incarnation, Moment, Pn, Revision, TicRefusal};

/// Receiver of a decision's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requester {
    Registration,
    Join(CallId),
    Leave(CallId),
    Nobody,
}

/// A message between two parties.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    // to a TIC
    Decide(Requester, Box<Command>),
    /// Fetches a group, for a group agent if the flag is set. The members are left out of the
    /// answer if the agent has those of the given revision.
    Fetch(Gn, bool, Option<Revision>),
    Status(Incarnation, Vec<HostedGroup>),
    /// A group agent cannot reach a node.
    Unreachable(NodeName, Incarnation),
    // from a TIC
    NotLeader,
    Registered(Result<NodeRecord, TicRefusal>),
    /// The node is suppressed and must register again later.
    NotReadmitted,
    Joined(CallId, Result<Box<Joined>, TicRefusal>),
    Left(CallId, Result<(Gn, Pn, Revision), TicRefusal>),
    /// A group without its members, which the agent has already.
    SameMembers(Revision, Box<GroupRecord>),
    /// A group, or the revision at which it did not exist; the flag is that of the fetch.
    Group(Gn, bool, Result<Box<GroupSnapshot>, Revision>),
    Verdict(Incarnation, Verdict),
    Notify(Gn),
    // between nodes
    Register(Box<Register>),
    MemberRegistered(Gn, Pn, Result<Box<PositionUpdate>, AgentRefusal>),
    Deregister(Deregister),
    Report(OaReport),
    ReportReply(OaReportReply),
    Position(Box<PositionUpdate>),
    // from anyone to a node and back
    Probe(u64),
    ProbeAnswer(Incarnation, u64),
    // between TICs and the store
    StoreRequest(StoreRequest),
    StoreReply(StoreReply),
    /// Within the store: a TIC's request after the store's delay.
    StoreWork(usize, StoreRequest),
}

/// Request of a TIC to the store.
#[derive(Clone, Debug)]
pub(crate) enum StoreRequest {
    /// Acquires the leadership, or renews it in a term.
    Lead { sent: Moment, term: Option<u64> },
    /// Writes all changes, in this order, if the term is the newest.
    Write { term: u64, number: u64, changes: Vec<Change> },
}

/// Reply of the store.
#[derive(Clone, Debug)]
pub(crate) enum StoreReply {
    /// The leadership is granted; with all records if it was acquired and not renewed.
    Led { sent: Moment, term: u64, records: Option<BTreeMap<String, Vec<u8>>> },
    /// Another TIC leads.
    NotYours { term: Option<u64> },
    /// The write is durable.
    Written { number: u64 },
    /// The write failed; it may be durable or not.
    Failed { number: u64 },
}
