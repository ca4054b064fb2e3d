//! Settings of the work in one term, and which of them may change meanwhile.

use std::sync::Arc;

use fabricast_config::RouterConfig;
use fabricast_reconciler::Timing;
use fabricast_routing::{EngineKind, EngineOptions};
use tokio::sync::watch;

use crate::recording_files::RecordingFiles;

/// Settings of the control loop.
#[derive(Clone, Debug)]
pub struct RoutingSettings {
    /// Engine that computes the trees.
    pub(crate) engine: EngineKind,
    /// Tables of the switches, and options of the engine.
    pub(crate) engine_options: EngineOptions,
    /// Settings that may change while the loop runs.
    pub(crate) live: LiveSettings,
    /// Files of the recording; `None` to record in memory only.
    pub(crate) recording_files: Option<RecordingFiles>,
}

impl RoutingSettings {
    /// Makes the settings of a loop with this engine, whichever the settings name.
    #[must_use]
    pub fn new(engine: EngineKind, live: LiveSettings) -> Self {
        let engine_options = live.config().engine_options();
        Self { engine, engine_options, live, recording_files: None }
    }

    /// The same with files for the recording.
    pub(crate) fn with_recording_files(self, recording_files: Option<RecordingFiles>) -> Self {
        Self { recording_files, ..self }
    }
}

/// Settings of a route service, some of which may change while it runs; clones share them.
#[derive(Clone, Debug)]
pub struct LiveSettings(Arc<watch::Sender<RouterConfig>>);

impl LiveSettings {
    /// Starts with these settings.
    #[must_use]
    pub fn new(config: RouterConfig) -> Self {
        Self(Arc::new(watch::Sender::new(config)))
    }

    /// Replaces the settings; `config` may differ only where [`fabricast_config::Reload`] allows
    /// it. A timer that is set already keeps its time.
    pub fn set(&self, config: &RouterConfig) {
        self.0.send_replace(config.clone());
    }

    /// Times that the reconciler keeps.
    pub(crate) fn timing(&self) -> Timing {
        let RouterConfig { drain, read_back, read_back_rate, .. } = *self.config();
        Timing { drain, read_back, read_back_rate }
    }

    pub(crate) fn config(&self) -> watch::Ref<'_, RouterConfig> {
        self.0.borrow()
    }
}
