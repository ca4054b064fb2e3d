//! Progress bars for long work, only if standard error is a terminal.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar that counts steps.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Starts a bar with a number of steps.
    #[must_use]
    pub(crate) fn new(title: &'static str, steps: usize) -> Self {
        let target = if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let steps = u64::try_from(steps).unwrap_or(u64::MAX);
        let bar = ProgressBar::with_draw_target(Some(steps), target);
        if let Ok(style) = ProgressStyle::with_template("{msg:10} {wide_bar} {pos}/{len} {per_sec}")
        {
            bar.set_style(style);
        }
        bar.set_message(title);
        Self { bar }
    }

    /// Counts one step.
    pub(crate) fn step(&self) {
        self.bar.inc(1);
    }

    /// Shows how many steps are done and what comes next.
    pub(crate) fn at(&self, done: usize, what: &str) {
        self.bar.set_position(u64::try_from(done).unwrap_or(u64::MAX));
        self.bar.set_message(what.to_owned());
    }

    /// Shows what is done now.
    pub(crate) fn say(&self, what: &str) {
        self.bar.set_message(what.to_owned());
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
