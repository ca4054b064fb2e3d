//! Settings of a TIC with what a program reads for it.

use std::sync::Arc;

use fabricast_collectives::CostParameters;
use fabricast_config::TicConfig;
use fabricast_groups::directory::Limits;
use fabricast_routing::EngineOptions;
use fabricast_rpc::Security;
use fabricast_store::Clock;

use crate::clock::BootClock;
use crate::domain::topology::TopologySource;

/// Settings of a TIC with what a program reads for it.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Checked settings of the section `[tic]` and those below it.
    pub config: TicConfig,
    /// Security of incoming connections and of those to nodes.
    pub security: Security,
    /// The topology that the settings name.
    pub topology: TopologySource,
    /// Constants from the file that the settings name, if they name one; bytes take time.
    pub parameters: Option<CostParameters>,
    /// Changes that may wait for the writer; further ones are refused.
    pub order_queue: usize,
    /// Messages a watch may be behind before it is cut off.
    pub watch_queue: usize,
    /// Clock of the leader's lease; must count the time in which this machine is suspended.
    pub lease_clock: Arc<dyn Clock>,
}

impl Setup {
    /// A setup in plain text without constants and with the usual bounds.
    #[must_use]
    pub fn new(config: TicConfig, topology: TopologySource) -> Self {
        Self {
            config,
            security: Security::plaintext(),
            topology,
            parameters: None,
            order_queue: 8_192,
            watch_queue: 1_024,
            lease_clock: Arc::new(BootClock),
        }
    }

    /// The engine options that determine how MGIDs are numbered.
    pub(crate) fn engine_options(&self) -> EngineOptions {
        let TicConfig { colors, tables, fault_tolerant, .. } = self.config;
        EngineOptions { fault_tolerant, ..EngineOptions::new(colors, tables) }
    }

    /// Bounds on the records.
    pub(crate) fn limits(&self) -> Limits {
        Limits { damping: self.config.damping, ..Limits::default() }
    }

    /// Limits and cost parameters for the trees of collectives. By these parameters switch trees
    /// are compared with adapter trees, whose shape is chosen by others.
    pub(crate) fn collectives(&self) -> fabricast_collectives::Settings {
        let children = self.config.aggregation_children;
        fabricast_collectives::Settings {
            entries: self.config.aggregation_entries,
            limits: fabricast_collectives::Limits {
                adapter_children: children,
                switch_children: children,
                ..fabricast_collectives::Limits::default()
            },
            parameters: self.parameters.unwrap_or(CostParameters::PAPER),
            ..fabricast_collectives::Settings::default()
        }
    }
}
