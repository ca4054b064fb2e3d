//! Settings of a part that runs: read again on SIGHUP, and when their file has changed.
//!
//! They are taken over whole or not at all, and either way the log says so; the metric
//! `fabricast_settings_generation` says how often they were. A file that somebody is writing is
//! left alone until it has stayed the same for a while.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use fabricast_config::{
    Granting, Reload, Reread, Role, Sources, TelemetryConfig, load_all, read_again,
};
use fabricast_rpc::Security;
use fabricast_telemetry::metrics::{SETTINGS_GENERATION, SETTINGS_REFUSED};
use fabricast_telemetry::traces;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{error, info, warn};

use super::PartArgs;
use crate::args::TraceArgs;
use crate::failure::Failure;
use crate::telemetry::{self, Telemetry};

/// Interval at which the file is checked; it is reloaded once two checks find the same new content.
const LOOK: Duration = Duration::from_secs(2);

/// Settings of a part, and their sources.
#[derive(Debug)]
pub(crate) struct ReloadableSettings<R> {
    sources: Sources,
    now: (R, TelemetryConfig),
    generation: u64,
}

/// The file of settings, and what it last contained.
struct SettingsFile {
    path: Option<PathBuf>,
    /// Content that was last applied or refused.
    known: Option<Vec<u8>>,
    /// Content at the last check.
    seen: Option<Vec<u8>>,
}

impl<R: Role + Clone> ReloadableSettings<R> {
    /// Reads the settings of a part, with those that all parts share.
    ///
    /// # Errors
    ///
    /// Lists everything that is wrong with them.
    pub(crate) fn read(args: &PartArgs, traces: &TraceArgs) -> Result<Self, Failure> {
        let sources = Sources::of_this_process(Some(args.config.clone()));
        let sources = telemetry::with_flags(sources, traces);
        let now = load_all(&sources).map_err(|errors| Failure::BadConfig(errors.into()))?;
        Ok(Self { sources, now, generation: 1 })
    }

    /// Returns the settings of the part.
    pub(crate) fn part(&self) -> R {
        self.now.0.clone()
    }

    /// Starts the log, and traces if they are configured.
    ///
    /// # Errors
    ///
    /// As [`Telemetry::begin`].
    pub(crate) fn telemetry(&self, service: &'static str) -> Result<Telemetry, Failure> {
        Telemetry::begin(service, &self.now.1)
    }
}

impl<R: Reload + Granting> ReloadableSettings<R> {
    /// Reloads the settings on SIGHUP and when their file changes, as long as it is polled.
    ///
    /// - `security`: of the listeners of the part, which grant what it says.
    /// - `apply`: takes over what else may change of the settings of the part.
    ///
    /// # Errors
    ///
    /// The system does not let it listen for SIGHUP.
    pub(crate) async fn follow(
        mut self,
        telemetry: &Telemetry,
        security: &Security,
        apply: impl Fn(&R),
    ) -> Result<Infallible, Failure> {
        SETTINGS_GENERATION.set(self.generation);
        let mut hangups = signal(SignalKind::hangup()).context("listen for SIGHUP")?;
        let mut file = SettingsFile::of(self.sources.file.clone());
        loop {
            file.wait(&mut hangups).await;
            self.read_again(telemetry, &|part| {
                security.set_limits(part.limits());
                apply(part);
            });
        }
    }

    fn read_again(&mut self, running: &Telemetry, apply: &impl Fn(&R)) {
        match read_again(&self.now.0, &self.now.1, &self.sources) {
            Reread::Same => {
                info!(generation = self.generation, "settings read again, none differs")
            }
            Reread::Fixed(names) => {
                SETTINGS_REFUSED.inc();
                warn!(
                    generation = self.generation,
                    settings = names.join(", "),
                    "settings not taken over, these cannot change before the part is started again"
                );
            }
            Reread::Bad(errors) => {
                SETTINGS_REFUSED.inc();
                for problem in errors.problems {
                    error!(generation = self.generation, error = %problem, "settings not taken over");
                }
            }
            Reread::Other { part, telemetry, changed } => {
                self.generation += 1;
                SETTINGS_GENERATION.set(self.generation);
                self.apply_telemetry(running, &telemetry);
                apply(&part);
                self.now = (part, telemetry);
                let settings = changed.join(", ");
                info!(generation = self.generation, settings, "settings read again");
            }
        }
    }

    fn apply_telemetry(&self, telemetry: &Telemetry, config: &TelemetryConfig) {
        if telemetry.log.is_fixed() && config.log != self.now.1.log {
            warn!("telemetry.log: FABRICAST_LOG says what is logged");
        }
        // It was checked as all settings are.
        let _ = telemetry.log.set_filter(&config.log);
        traces::set_share(config.trace_share);
    }
}

impl SettingsFile {
    fn of(path: Option<PathBuf>) -> Self {
        let known = path.as_deref().and_then(content);
        Self { path, seen: known.clone(), known }
    }

    /// Waits until the settings must be read again.
    async fn wait(&mut self, hangups: &mut Signal) {
        loop {
            tokio::select! {
                _ = hangups.recv() => {
                    self.known = self.path.as_deref().and_then(content);
                    self.seen.clone_from(&self.known);
                    return;
                }
                () = tokio::time::sleep(LOOK) => {
                    let found = self.path.as_deref().and_then(content);
                    if self.has_settled(found) {
                        return;
                    }
                }
            }
        }
    }

    /// Records a check; true if the content is new and was the same at the last check.
    fn has_settled(&mut self, found: Option<Vec<u8>>) -> bool {
        let settled = found == self.seen && found != self.known;
        self.seen = found;
        if settled {
            self.known.clone_from(&self.seen);
        }
        settled
    }
}

fn content(path: &Path) -> Option<Vec<u8>> {
    std::fs::read(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_being_written_is_left_alone_until_it_stays_the_same() {
        let mut file =
            SettingsFile { path: None, known: Some(b"a".to_vec()), seen: Some(b"a".to_vec()) };
        let mut look = |text: &str| file.has_settled(Some(text.as_bytes().to_vec()));
        assert!(!look("a") && !look("b") && !look("bc") && look("bc"), "once it has settled");
        assert!(!look("bc") && !look("bc"), "and only once");
        assert!(!look("a") && look("a"), "back is another change");
        assert!(!file.has_settled(None) && file.has_settled(None), "it is gone");
    }
}
