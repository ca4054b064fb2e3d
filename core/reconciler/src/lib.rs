//! The loop between plan and switches as a state machine: plans the groups of the TIC's records,
//! writes what the switches lack in an order that loses no packet, and says which routes hold.
//!
//! Values in, values out: no clock, no socket, no thread. Read [`Reconciler`] first, then
//! `turn.rs`.
//!
//! | part | file |
//! | --- | --- |
//! | records | `directory_cache.rs`, `debounce.rs` |
//! | plan, routes, who may be told what | `planner.rs` |
//! | held and desired entries, phases of writes | `table_state.rs` |
//! | switch agents: reading back, writes, drifts | `switch_agents.rs`, `drift.rs` |
//! | time for senders to hear of routes | `drain.rs`, `retiring.rs` |
//! | choices that are made durable | `choices.rs` |
//! | recording and replay | `recording.rs` |
//!
//! The route service (`services/router`) gives it sockets and a clock; the simulation
//! (`tests/simulation`) gives it a world that loses calls.
#![warn(clippy::wildcard_enum_match_arm)]

mod as_json;
mod choices;
mod debounce;
mod directory_cache;
mod drain;
mod drift;
mod interface;
mod pace;
mod planner;
mod reconciler;
mod recorded;
mod recording;
mod retiring;
mod switch_agents;
mod table_state;
mod turn;

pub use directory_cache::{
    CachedMember, DirectoryChange, DirectoryUpdate, FailedElement, GroupState, RecordedEndpoint,
};
pub use drift::{DriftList, TableDrift};
pub use interface::{
    CallError, ErrorKind, Event, GroupRoute, Input, Output, Refusal, Reply, RouteReport,
    SwitchTable, SwitchWrite, Timing, TurnEnd, WatchEvent, WriteReason,
};
pub use planner::{GroupLabel, PlanError, PlanStatus, PlannedForSearch, RouteExplanation};
pub use reconciler::{Generations, Reconciler, Setup, Status};
pub use recorded::{ChoiceReport, Chosen, ChosenTree, GroupChoices, RecordedChoices, RecordedPlan};
pub use recording::{
    Recorder, Recording, RecordingError, Renewal, Replay, ReplayError, Section, SectionPart,
    Segment, SegmentEnd, SegmentName, SegmentOrigin, Step, StepKind,
};
pub use switch_agents::{Outcome, ProgramError};
pub use table_state::{Difference, Write};
