//! Progress bars for long work, only if standard error is a terminal.

use std::io::{IsTerminal, Read, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Forms of a bar whose end is known.
const STEPS: &str = "{msg:10} {wide_bar} {pos}/{len} {per_sec}";
const BYTES: &str = "{msg:10} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec}";
/// Forms where it is not known.
const SOME_BYTES: &str = "{msg:10} {spinner} {bytes} {bytes_per_sec}";
const TIME: &str = "{msg:10} {spinner} {elapsed}";
/// Interval at which a time is shown again.
const TICK: Duration = Duration::from_millis(100);

/// A bar, which is removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Starts a bar with a number of steps.
    #[must_use]
    pub(crate) fn new(title: &'static str, steps: usize) -> Self {
        Self::shown(title, Some(u64::try_from(steps).unwrap_or(u64::MAX)), STEPS)
    }

    /// Starts a bar of bytes.
    ///
    /// - `bytes`: number of them, if it is known.
    #[must_use]
    pub(crate) fn of_bytes(title: &'static str, bytes: Option<u64>) -> Self {
        Self::shown(title, bytes, if bytes.is_some() { BYTES } else { SOME_BYTES })
    }

    /// Starts to show the time of work that has no steps.
    #[must_use]
    pub(crate) fn of_time(title: &'static str) -> Self {
        let progress = Self::shown(title, None, TIME);
        if !progress.bar.is_hidden() {
            progress.bar.enable_steady_tick(TICK);
        }
        progress
    }

    fn shown(title: &'static str, length: Option<u64>, template: &str) -> Self {
        let target = if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(length, target);
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(title);
        Self { bar }
    }

    /// Counts one step.
    pub(crate) fn step(&self) {
        self.bar.inc(1);
    }

    /// A bar of the bytes read so far.
    pub(crate) fn add_bytes(&self, bytes: usize) {
        self.bar.inc(u64::try_from(bytes).unwrap_or(u64::MAX));
    }

    /// Counts the bytes of a reader as they are read.
    pub(crate) fn counted<R: Read>(self, reader: R) -> impl Read + use<R> {
        self.bar.wrap_read(reader)
    }

    /// Counts the bytes of a writer as they are written.
    pub(crate) fn counted_writes<W: Write>(self, writer: W) -> impl Write + use<W> {
        self.bar.wrap_write(writer)
    }

    /// Shows how many steps are done and what comes next.
    pub(crate) fn at(&self, done: usize, what: &str) {
        self.bar.set_position(u64::try_from(done).unwrap_or(u64::MAX));
        self.bar.set_message(what.to_owned());
    }

    /// Changes the number of steps, as more are known.
    pub(crate) fn set_steps(&self, steps: usize) {
        self.bar.set_length(u64::try_from(steps).unwrap_or(u64::MAX));
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
