//! What the parties say to each other: the calls and answers of the wire, as values.

use std::collections::BTreeMap;

use fabricast_groups::command::{Command, Joined};
use fabricast_groups::directory::{GroupSnapshot, HostedGroup, Verdict};
use fabricast_groups::message::{
    AgentRefusal, Deregister, OaReport, OaReportReply, PositionUpdate, Register,
};
use fabricast_groups::names::NodeName;
use fabricast_groups::operating::CallId;
use fabricast_groups::record::{Change, GroupRecord, NodeRecord};
use fabricast_groups::{Gn, Incarnation, Moment, Pn, Refusal, Revision};

/// Whom a decision's answer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    Registration,
    Join(CallId),
    Leave(CallId),
    Nobody,
}

/// A message between two parties.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    // to a TIC
    Decide(Asker, Box<Command>),
    /// For a group agent, or for the node's processes; without the members if they are those of a revision.
    Fetch(Gn, bool, Option<Revision>),
    Status(Incarnation, Vec<HostedGroup>),
    /// A group agent cannot reach a node.
    Unreachable(NodeName, Incarnation),
    // from a TIC
    NotLeader,
    Registered(Result<NodeRecord, Refusal>),
    /// It has come and gone too often: ask again later.
    NotReadmitted,
    Joined(CallId, Result<Box<Joined>, Refusal>),
    Left(CallId, Result<(Gn, Pn, Revision), Refusal>),
    /// A group whose members are known.
    SameMembers(Revision, Box<GroupRecord>),
    /// A group, or the revision at which there was none.
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
    Ask(StoreAsk),
    Answer(StoreAnswer),
    /// Within the store: what a TIC has asked, when its time has come.
    Work(usize, StoreAsk),
}

/// What a TIC asks the store.
#[derive(Clone, Debug)]
pub(crate) enum StoreAsk {
    /// For the leadership, or for more of it in a term.
    Lead { sent: Moment, term: Option<u64> },
    /// To write everything, in this order, if the term is the newest.
    Write { term: u64, number: u64, changes: Vec<Change> },
}

/// What the store answers.
#[derive(Clone, Debug)]
pub(crate) enum StoreAnswer {
    /// The leadership is granted, with all records to whom did not have it.
    Led { sent: Moment, term: u64, records: Option<BTreeMap<String, Vec<u8>>> },
    /// Somebody else has it.
    NotYours { term: Option<u64> },
    /// Everything is durable.
    Written { number: u64 },
    /// It may be durable or not.
    Failed { number: u64 },
}
