//! The interface of experiments: their description, their inputs, and their progress.

use std::num::NonZeroU32;
use std::time::Duration;

use thiserror::Error;

use crate::hardware::Hardware;
use crate::report::Report;

/// One experiment of a paper.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Name on the command line; also the folder of its files.
    pub name: &'static str,
    /// One line for `--help`: the claim that it tests.
    pub title: &'static str,
    /// Paper, figures and tables that it stands beside.
    pub source: &'static str,
    /// The part of it that can be made longer.
    pub length: Length,
    /// Runs all steps and gives the report.
    pub run: fn(&mut Run<'_>) -> Result<Report, ExperimentError>,
}

/// The part of an experiment that is repeated as often as the user chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// No part can be made longer.
    Fixed,
    /// Collectives, [`Run::rounds`] times.
    Rounds,
    /// Broadcasts under load, [`Run::broadcasts`] of each measurement.
    Broadcasts,
}

/// Inputs of an experiment.
pub struct Run<'a> {
    /// Run a smaller form that ends in seconds; the report says what was left out.
    pub quick: bool,
    /// Chance: the same seed gives the same report. Experiments that use chance are repeated with
    /// the seeds that follow.
    pub seed: u64,
    /// Number of seeds.
    pub seeds: NonZeroU32,
    /// Rates, delays, buffers and costs of adapters.
    pub hardware: &'a Hardware,
    /// Rounds of every process in experiments that repeat collectives; none: as many as suit the
    /// form.
    pub rounds: Option<NonZeroU32>,
    /// Broadcasts of each seed that a measurement under load waits for; none: 1 000 of all seeds
    /// together.
    pub broadcasts: Option<NonZeroU32>,
    /// Time since some moment, for run times only.
    pub clock: &'a dyn Fn() -> Duration,
    /// Told before every step.
    pub progress: &'a mut dyn FnMut(Step<'_>),
}

#[cfg(test)]
impl<'a> Run<'a> {
    /// The smaller form of an experiment, once.
    pub(crate) fn quick(hardware: &'a Hardware) -> Self {
        Self {
            quick: true,
            seed: 1,
            seeds: NonZeroU32::MIN,
            hardware,
            rounds: None,
            broadcasts: None,
            clock: &|| Duration::ZERO,
            progress: Box::leak(Box::new(|_| {})), // it has no bytes
        }
    }
}

/// Progress of an experiment.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// Steps that are complete.
    pub done: usize,
    /// Steps in all.
    pub of: usize,
    /// The step that begins now.
    pub what: &'a str,
}

/// Reason why an experiment could not be run to its end.
#[derive(Debug, Error)]
#[error("{step} failed")]
pub struct ExperimentError {
    /// The step that failed.
    pub step: String,
    /// The error of that step.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

impl ExperimentError {
    /// Adds the failed step to an error.
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

    /// Lists the seeds.
    pub(crate) fn all_seeds(&self) -> impl Iterator<Item = u64> + use<> {
        let first = self.seed;
        (0..self.seeds.get()).map(move |more| first.wrapping_add(more.into()))
    }

    /// Does some work and returns its result with the time it took.
    pub fn timed<T>(&self, work: impl FnOnce() -> T) -> (T, Duration) {
        let started = (self.clock)();
        let result = work();
        (result, (self.clock)().saturating_sub(started))
    }
}
