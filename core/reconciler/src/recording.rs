//! Records the inputs of a reconciler, so that its run can be repeated step by step.
//!
//! A recording has sections. Each begins with the setup of a reconciler that knows nothing, and
//! holds all of its inputs with their times, and a digest of each output. Equal inputs give equal
//! outputs, so a section can be played again from its beginning.
//!
//! To keep a recording bounded, [`Recorder::renew`] replaces the reconciler by a new one that is
//! given the records and tables of the old one, as if it had asked for them, and begins a section
//! there. It does so only at rest, when the new one finds nothing to do; the oldest sections then
//! go.
//!
//! [`Recorder::take_part`] returns the same bytes part by part, for files ([`Segment`]).

mod codec;
mod renew;
mod replay;
mod segment;

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;

use fabricast_groups::Moment;
use fabricast_routing::{EngineKind, EngineOptions};
use fabricast_topology::Graph;
use serde::{Deserialize, Serialize};

pub use codec::RecordingError;
pub use renew::Renewal;
pub use replay::{Replay, ReplayError, Step, StepKind};
pub use segment::{SectionPart, Segment, SegmentEnd, SegmentName, SegmentOrigin};

use crate::interface::{Event, Input, Output, Timing};
use crate::planner::PlanError;
use crate::reconciler::{Generations, Reconciler, Setup};
use crate::recorded::RecordedChoices;
use codec::Frame;

/// A section that takes this share of the limit is to be followed by the next.
const RENEWAL_SHARE: usize = 2;

/// A reconciler whose inputs are recorded.
#[derive(Debug)]
pub struct Recorder {
    reconciler: Reconciler,
    /// All sections, the present one last; none if nothing is recorded.
    sections: VecDeque<Section>,
    /// Setup of the present reconciler, but for topology and choices.
    base: Base,
    /// Bytes that all sections may take; 0 records nothing.
    limit: usize,
    /// Earliest time of the next attempt to begin a section.
    renew_at: Moment,
    /// True if a section is to begin although the present one is short.
    wants_section: bool,
    /// Bytes of the present section that were taken for a file; `None` before its start was.
    taken: Option<usize>,
    loads: Option<Vec<u64>>,
}

/// A recording: the fabric as ibnetdiscover text, and sections, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recording {
    /// The fabric, as ibnetdiscover prints it.
    pub topology: String,
    /// Time of the export on the clock of the inputs.
    pub exported: Moment,
    /// Parts of the run. Each can be played by itself.
    pub sections: Vec<Section>,
}

/// A part of a run, from a reconciler that knows nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    start: Start,
    /// Frames, each with its length before it.
    #[serde(with = "serde_bytes")]
    frames: Vec<u8>,
}

/// The setup of a section, but for the topology.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Start {
    at: Moment,
    base: Base,
    timing: Timing,
    generations: Generations,
    recorded: RecordedChoices,
}

/// The parts of a setup that never change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Base {
    /// Name of the engine.
    engine: String,
    engine_options: EngineOptions,
    agents: Vec<String>,
}

impl Recorder {
    /// Makes a reconciler that is recorded from its first input on.
    ///
    /// - `limit`: bytes that the recording may take in memory; 0 records nothing.
    ///
    /// # Errors
    ///
    /// As [`Reconciler::new`].
    pub fn new(setup: Setup, limit: usize, now: Moment) -> Result<Self, PlanError> {
        let base = Base {
            engine: setup.engine.name().to_owned(),
            engine_options: setup.engine_options,
            agents: setup.agents.clone(),
        };
        let start = Start {
            at: now,
            base: base.clone(),
            timing: setup.timing,
            generations: setup.generations,
            recorded: setup.recorded.clone(),
        };
        Ok(Self {
            reconciler: Reconciler::new(setup, now)?,
            sections: (limit > 0).then(|| Section::new(start)).into_iter().collect(),
            base,
            limit,
            renew_at: now,
            wants_section: false,
            taken: None,
            loads: None,
        })
    }

    /// Takes an input, as [`Reconciler::handle`].
    pub fn handle(&mut self, now: Moment, input: Input) {
        self.handle_saved(now, input, |_| {});
    }

    /// Takes an input, which `save` may take a part with before it is handled: so files also have
    /// an input that ends the process.
    pub fn handle_saved(&mut self, now: Moment, input: Input, save: impl FnOnce(&mut Self)) {
        if let Input::Loads(loads) = &input {
            self.loads = Some(loads.clone());
        }
        let changes_nothing =
            matches!(&input, Input::Timing(timing) if *timing == self.reconciler.timing);
        if changes_nothing {
            return;
        }
        if let Some(section) = self.sections.back_mut() {
            section.push(&Frame::of(&self.reconciler, now, &input));
        }
        save(self);
        self.reconciler.handle(now, input);
        self.stay_bounded();
    }

    /// Returns the next work for the caller, as [`Reconciler::poll_output`].
    pub fn poll_output(&mut self) -> Option<Output> {
        let output = self.reconciler.poll_output()?;
        if let Some(section) = self.sections.back_mut() {
            section.push(&Frame::Output(codec::digest(&output)));
        }
        Some(output)
    }

    /// Takes the facts for the log, as [`Reconciler::take_events`].
    pub fn take_events(&mut self) -> Vec<Event> {
        self.reconciler.take_events()
    }

    /// Returns what is recorded, without the text of the topology; `None` if nothing is.
    pub fn recording(&self, now: Moment) -> Option<Recording> {
        let sections: Vec<Section> = self.sections.iter().cloned().collect();
        (!sections.is_empty()).then(|| Recording {
            topology: String::new(),
            exported: now,
            sections,
        })
    }

    /// Takes what was recorded since the last call, for the file of the present section; `None` if
    /// nothing was. A call before each [`Self::renew`] leaves nothing out.
    pub fn take_part(&mut self) -> Option<SectionPart> {
        let section = self.sections.back()?;
        let start = self.taken.is_none().then(|| codec::encode(&section.start));
        let frames = section.frames.get(self.taken.unwrap_or(0)..)?.to_vec();
        let part = SectionPart::new(start, frames);
        self.taken = Some(section.frames.len());
        (!part.is_empty()).then_some(part)
    }

    /// Has the next call of [`Self::renew`] at rest begin a section, for the file of the present
    /// one has a gap.
    pub fn want_section(&mut self) {
        self.wants_section = true;
    }

    /// Bytes of the sections.
    fn len(&self) -> usize {
        self.sections.iter().map(|section| section.frames.len()).sum()
    }

    /// Drops the oldest sections while there are too many bytes; a section that is too long by
    /// itself goes, too, and recording goes on with the next one.
    fn stay_bounded(&mut self) {
        while self.len() > self.limit {
            if self.sections.pop_front().is_none() {
                return;
            }
        }
    }
}

impl Deref for Recorder {
    type Target = Reconciler;

    fn deref(&self) -> &Reconciler {
        &self.reconciler
    }
}

impl Section {
    fn new(start: Start) -> Self {
        Self { start, frames: Vec::new() }
    }

    /// Returns the time at which the section begins.
    pub fn begins(&self) -> Moment {
        self.start.at
    }

    /// Returns the bytes that the section takes.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Returns whether the section has no inputs.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }
}

impl Start {
    fn setup(&self, graph: Arc<Graph>) -> Result<Setup, RecordingError> {
        let engine: EngineKind = self.base.engine.parse().map_err(RecordingError::Engine)?;
        Ok(Setup {
            graph,
            engine,
            engine_options: self.base.engine_options,
            timing: self.timing,
            agents: self.base.agents.clone(),
            recorded: self.recorded.clone(),
            generations: self.generations,
        })
    }
}
