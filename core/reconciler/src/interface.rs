//! Inputs and outputs of the reconciler.
//!
//! All of them are plain values, so that a run can be recorded and played again.

use std::time::Duration;

use fabricast_groups::ids::{Gn, Revision};
use fabricast_groups::record::Route;
use fabricast_routing::{ChangeError, RestoreError};
use fabricast_topology::SwitchId;
use serde::{Deserialize, Serialize};

use crate::directory_cache::DirectoryUpdate;
use crate::recorded::ChoiceReport;
use crate::table_state::{Difference, Write};

/// Input of the reconciler, besides the time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Input {
    /// The watch of the TIC's records has brought something.
    Watch(WatchEvent),
    /// A table arrived that an [`Output::ReadBack`] has asked for.
    Table(SwitchTable),
    /// An output was carried out, or was not.
    Reply(Reply),
    /// The time of [`next_deadline`](crate::Reconciler::next_deadline) has come.
    Deadline,
    /// Answer to [`Output::EndTurn`].
    TurnEnded {
        /// Time until the next attempt if the turn has failed. It is drawn by the caller, because
        /// it depends on chance.
        pause: Duration,
    },
    /// Settings that may change while the reconciler runs.
    Timing(Timing),
    /// Bytes per second that each port of the topology sends, in the order of its ports.
    Loads(Vec<u64>),
}

/// An event of the watch of the TIC's records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WatchEvent {
    /// The records as a whole, in parts; the first event of every stream.
    Snapshot(Vec<DirectoryUpdate>),
    /// Changes since the last event.
    Delta(DirectoryUpdate),
    /// The stream broke. The next one starts with a snapshot.
    Lost,
}

/// Settings that may change while the reconciler runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timing {
    /// Time after which all senders know a route that was reported.
    pub drain: Duration,
    /// Time in which every table is compared once.
    pub read_back: Duration,
    /// Most tables that are compared in a second, at least 1.
    pub read_back_rate: u32,
}

/// Work for the caller. While a call is carried out there is no other output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Output {
    /// Make choices of the engine durable; answered by [`Reply::Recorded`].
    Record(ChoiceReport),
    /// List the switches of an agent; answered by [`Reply::Listed`].
    List {
        /// Number of the switch agent.
        agent: usize,
    },
    /// Read tables of an agent's switches: an [`Input::Table`] for each, then [`Reply::Read`].
    ReadBack {
        /// Number of the switch agent.
        agent: usize,
        /// Switches to be read; all that the agent has if there are none.
        switches: Vec<SwitchId>,
    },
    /// Write entries to an agent's switches; answered by [`Reply::Written`].
    Write {
        /// Number of the switch agent.
        agent: usize,
        /// Generation of the write; switches refuse older ones.
        generation: u64,
        /// Entries by switch. Without entries a switch only notes the generation.
        writes: Vec<SwitchWrite>,
    },
    /// Report routes to the TIC; answered by [`Reply::Reported`].
    Report(RouteReport),
    /// The turn is over; answered by [`Input::TurnEnded`].
    EndTurn(TurnEnd),
}

/// Reason why entries are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteReason {
    /// The switches are shown the term before they are read; nothing is written.
    ShowTerm,
    /// The engine has given entries to another tree of the same color: they go first.
    ReplacedTree,
    /// Ports that trees need are added; no packet takes another way yet.
    Addition,
    /// Packets of endpoints are led up their new trees.
    Swap,
    /// No sender needs these ports any more.
    Removal,
}

/// Answer to an output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// Answer to [`Output::Record`].
    Recorded(Result<(), CallError>),
    /// Answer to [`Output::List`]: the switches of the agent that are in the topology.
    Listed(Result<Vec<SwitchId>, CallError>),
    /// Answer to [`Output::ReadBack`], after its tables.
    Read(Result<(), CallError>),
    /// Answer to [`Output::Write`]: the switches that have refused their part.
    Written(Result<Vec<Refusal>, CallError>),
    /// Answer to [`Output::Report`].
    Reported(Result<(), CallError>),
}

/// Entries for one switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchWrite {
    /// Switch to write to.
    pub switch: SwitchId,
    /// Its entries, in the order in which they are written.
    pub entries: Vec<Write>,
}

/// All entries of one switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchTable {
    /// Switch that holds them.
    pub switch: SwitchId,
    /// Its entries, in any order.
    pub entries: Vec<Write>,
}

/// Refusal of a write by one switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Name of the switch.
    pub switch_name: String,
    /// The switch, if it is in the topology.
    pub switch: Option<SwitchId>,
    /// Reason why it has refused.
    pub error: CallError,
}

/// Error of a call, which may have been carried out unless `kind` rules it out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallError {
    /// Kind of error.
    pub kind: ErrorKind,
    /// Text for people.
    pub message: String,
}

/// Kind of a call's error, as far as the reconciler tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ErrorKind {
    /// The TIC knows a newer term.
    StaleTerm,
    /// The receiver has seen a newer term or generation.
    StaleFence,
    /// The TIC has another topology by now.
    TopologyDiffers,
    /// Any other; the next turn tries again.
    Other,
}

/// Routes for the TIC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteReport {
    /// Generation of the report; the TIC refuses older ones.
    pub generation: u64,
    /// Routes that are programmed, or withdrawn.
    pub routes: Vec<GroupRoute>,
    /// The tables hold nothing of groups that had ended at this revision, so their MGIDs may be
    /// used again; 0 if nothing is known.
    pub clean: Revision,
}

/// Route of one group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupRoute {
    /// Number of the group.
    pub gn: Gn,
    /// Route that is reported for it.
    #[serde(with = "crate::as_json")]
    pub route: Route,
}

/// End of a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TurnEnd {
    /// Everything that could be done was done.
    Complete,
    /// Something was left undone, for this reason; the next turn tries again.
    Incomplete(String),
    /// A newer route service is active; this one must not write any more.
    Deposed,
    /// The reconciler must start again with the TIC's new topology.
    OtherTopology,
}

/// A fact for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The engine cannot hold a group.
    GroupRefused {
        /// Number of the group.
        gn: Gn,
        /// Reason that the engine gives.
        error: ChangeError,
    },
    /// The planned trees of a group do not reach all members, which is a fault of the engine.
    MembersMissed {
        /// Number of the group.
        gn: Gn,
        /// Number of members.
        missed: usize,
    },
    /// A recorded choice does not fit any more.
    ChoiceDropped {
        /// Number of the group.
        gn: Gn,
        /// Rule that the choice breaks now.
        error: RestoreError,
    },
    /// So many recorded choices do not fit that all were dropped.
    AllChoicesDropped {
        /// Reason why the last one did not fit.
        error: RestoreError,
    },
    /// Recorded choices were restored.
    ChoicesRestored {
        /// Number of those that did not fit.
        dropped: usize,
    },
    /// A switch holds something else than it had confirmed.
    TableDrifted {
        /// Switch that has drifted.
        switch: SwitchId,
        /// Difference from what it had confirmed.
        difference: Difference,
    },
    /// A switch that had drifted holds what it ought to.
    TableRepaired {
        /// Switch that was repaired.
        switch: SwitchId,
        /// The difference that was repaired.
        difference: Difference,
    },
}
