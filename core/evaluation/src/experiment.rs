//! The list of experiments and what each is given.

use std::num::NonZeroU32;
use std::time::Duration;

use thiserror::Error;

use crate::report::Report;
use crate::{aggregation, c_mr4lms, dawning, latency, mr4lms};

/// One experiment of a paper.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// What it is called on the command line; also the folder of its files.
    pub name: &'static str,
    /// What it shows, one line.
    pub title: &'static str,
    /// Paper, figures and tables that it stands beside.
    pub source: &'static str,
    /// Whether it repeats something as often as [`Run::rounds`] says.
    pub repeats_rounds: bool,
    /// Runs it.
    pub run: fn(&mut Run<'_>) -> Result<Report, ExperimentError>,
}

/// What an experiment is given from outside.
pub struct Run<'a> {
    /// Run a smaller form that ends in seconds; the report says what was left out.
    pub quick: bool,
    /// Chance: the same seed gives the same report.
    pub seed: u64,
    /// Rounds of every process in experiments that repeat collectives; none: as many as suit the form.
    pub rounds: Option<NonZeroU32>,
    /// Time since some moment, for run times only.
    pub clock: &'a dyn Fn() -> Duration,
    /// Told before every step.
    pub progress: &'a mut dyn FnMut(Step<'_>),
}

/// How far an experiment has come.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// Steps done.
    pub done: usize,
    /// Steps in all.
    pub of: usize,
    /// What is done next.
    pub what: &'a str,
}

/// Why an experiment could not be run to its end.
#[derive(Debug, Error)]
#[error("{step} failed")]
pub struct ExperimentError {
    /// What was being done.
    pub step: String,
    /// What went wrong.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

impl ExperimentError {
    /// Says in which step an error came up.
    pub fn at<E>(step: impl Into<String>) -> impl FnOnce(E) -> Self
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let step = step.into();
        move |error| Self { step, source: error.into() }
    }
}

impl Run<'_> {
    /// Tells the shell how far the experiment has come.
    pub fn step(&mut self, done: usize, of: usize, what: &str) {
        (self.progress)(Step { done, of, what });
    }

    /// Does some work and gives how long it took beside its result.
    pub fn timed<T>(&self, work: impl FnOnce() -> T) -> (T, Duration) {
        let started = (self.clock)();
        let result = work();
        (result, (self.clock)().saturating_sub(started))
    }
}

/// Lists all experiments, in the order of the papers.
#[must_use]
pub const fn experiments() -> &'static [Experiment] {
    &[
        c_mr4lms::EXPERIMENT,
        c_mr4lms::ENGINES,
        mr4lms::EXPERIMENT,
        latency::EXPERIMENT,
        dawning::EXPERIMENT,
        aggregation::EXPERIMENT,
    ]
}

/// Finds an experiment by its name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Experiment> {
    experiments().iter().find(|experiment| experiment.name == name)
}
