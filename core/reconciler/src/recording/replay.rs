//! Plays a section of a recording again.

use std::collections::BTreeSet;
use std::sync::Arc;

use fabricast_groups::Moment;
use fabricast_topology::{EndpointId, Graph, SwitchId, ibnetdiscover};
use thiserror::Error;

use super::codec::{Frame, RecordingError, digest, known_table};
use super::{Recording, Section};
use crate::directory_cache::{DirectoryChange, FailedElement, RecordedEndpoint};
use crate::interface::{Event, Input, Output, WatchEvent, WriteReason};
use crate::planner::PlanError;
use crate::reconciler::Reconciler;

/// Reason why a section could not be played to its end.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// The recording is damaged, or of another version.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The reconciler cannot be made.
    #[error("no reconciler can be made of the recording")]
    Plan(#[from] PlanError),
    /// The reconciler does something else than it did.
    #[error("step {step} differs from the recording: {what}")]
    Differs {
        /// Number of the step.
        step: usize,
        /// Kind of the difference.
        what: &'static str,
    },
}

/// One step: an input or an output.
#[derive(Debug)]
pub struct Step {
    /// Number of the step in its section, from 0.
    pub number: usize,
    /// Time of the input; of an output that of the input before it.
    pub at: Moment,
    /// The input or output.
    pub kind: StepKind,
    /// Facts for the log that came up.
    pub events: Vec<Event>,
}

/// The input or output of a step.
#[derive(Debug)]
pub enum StepKind {
    /// An input was taken.
    Input(Input),
    /// A table arrived that was as the reconciler knew it.
    SameTable(SwitchId),
    /// An output was returned, the same as when it was recorded.
    Output(Output, Option<WriteReason>),
}

/// A section that is played.
#[derive(Debug)]
pub struct Replay<'a> {
    section: &'a Section,
    graph: Arc<Graph>,
    reconciler: Reconciler,
    /// Offset of the next frame.
    offset: usize,
    number: usize,
    at: Moment,
}

impl Recording {
    /// Makes the graph of the fabric.
    ///
    /// # Errors
    ///
    /// [`RecordingError::Topology`] for a text that is no topology.
    pub fn graph(&self) -> Result<Arc<Graph>, RecordingError> {
        Ok(Arc::new(ibnetdiscover::read(&self.topology)?))
    }
}

impl<'a> Replay<'a> {
    /// Begins to play a section on its fabric.
    ///
    /// # Errors
    ///
    /// [`ReplayError`] if the setup of the section cannot be read or does not fit the fabric.
    pub fn new(section: &'a Section, graph: Arc<Graph>) -> Result<Self, ReplayError> {
        let at = section.begins();
        let reconciler = Reconciler::new(section.start.setup(Arc::clone(&graph))?, at)?;
        Ok(Self { section, graph, reconciler, offset: 0, number: 0, at })
    }

    /// Takes the next step; `None` at the end of the section.
    ///
    /// # Errors
    ///
    /// [`ReplayError::Differs`] if the reconciler does something else than it did.
    pub fn step(&mut self) -> Result<Option<Step>, ReplayError> {
        let Some((frame, next)) = self.section.frame(self.offset)? else { return Ok(None) };
        self.offset = next;
        let number = self.number;
        self.number += 1;
        let kind = match frame {
            Frame::Input(at, input) => {
                if !is_of(&self.graph, &input) {
                    let why = format!("step {number} names a part that the topology does not have");
                    return Err(RecordingError::Damaged(why).into());
                }
                self.take(at, input.clone());
                StepKind::Input(input)
            }
            Frame::SameTable(at, switch) => {
                let table = known_table(&self.reconciler, switch);
                self.take(at, Input::Table(table));
                StepKind::SameTable(switch)
            }
            Frame::Output(recorded) => {
                let differs = |what| ReplayError::Differs { step: number, what };
                let reason = self.reconciler.write_reason();
                let output = self.reconciler.poll_output();
                let output = output.ok_or_else(|| differs("there is no output"))?;
                if digest(&output) != recorded {
                    return Err(differs("the output is another one"));
                }
                StepKind::Output(output, reason)
            }
        };
        Ok(Some(Step { number, at: self.at, kind, events: self.reconciler.take_events() }))
    }

    fn take(&mut self, at: Moment, input: Input) {
        self.at = at;
        self.reconciler.handle(at, input);
    }

    /// The reconciler as it is after the last step.
    #[must_use]
    pub fn reconciler(&self) -> &Reconciler {
        &self.reconciler
    }

    /// Names of the groups whose planned trees use a color at a switch.
    pub fn groups_at(&self, switch: SwitchId, color: u16) -> BTreeSet<&str> {
        self.reconciler.groups_at(switch, color)
    }
}

/// True if a topology has all parts that an input names.
fn is_of(graph: &Graph, input: &Input) -> bool {
    let has_switch = |switch: SwitchId| switch.index() < graph.switch_count();
    let has_endpoint = |endpoint: EndpointId| endpoint.index() < graph.endpoint_count();
    let is_known = |change: &DirectoryChange| match change {
        DirectoryChange::Joined { member, .. } => match member.endpoint {
            RecordedEndpoint::Known(endpoint) => has_endpoint(endpoint),
            RecordedEndpoint::Unknown(_) => true,
        },
        DirectoryChange::Failed(elements) => elements.iter().all(|element| match *element {
            FailedElement::Link(port) => port.index() < graph.port_count(),
            FailedElement::Switch(switch) => has_switch(switch),
            FailedElement::Endpoint(endpoint) => has_endpoint(endpoint),
        }),
        DirectoryChange::Group(_) | DirectoryChange::Deleted(_) | DirectoryChange::Left { .. } => {
            true
        }
    };
    match input {
        Input::Watch(WatchEvent::Snapshot(updates)) => {
            updates.iter().flat_map(|update| &update.changes).all(is_known)
        }
        Input::Watch(WatchEvent::Delta(update)) => update.changes.iter().all(is_known),
        Input::Table(table) => has_switch(table.switch),
        Input::Watch(WatchEvent::Lost)
        | Input::Reply(_)
        | Input::Deadline
        | Input::TurnEnded { .. }
        | Input::Timing(_)
        | Input::Loads(_) => true,
    }
}
