//! `fabricast tic`: one TIC as a process of its own.

use std::path::Path;

use anyhow::{Context, anyhow};
use clap::Args;
use fabricast_collectives::CostParameters;
use fabricast_config::TicConfig;
use fabricast_tic::{Setup, TopologySource};

use super::collective::parameters;
use crate::command::{Globals, Run};
use crate::failure::Failure;
use crate::serve::{Part, PartArgs, ReloadableSettings, block_on_threads, security, topology};

/// Run the topology information center alone.
#[derive(Debug, Args)]
pub(crate) struct TicArgs {
    #[command(flatten)]
    part: PartArgs,
}

impl Run for TicArgs {
    fn run(self, globals: &Globals) -> Result<(), Failure> {
        let reloadable = ReloadableSettings::<TicConfig>::read(&self.part, &globals.trace)?;
        let config = reloadable.part();
        let topology = match &config.topology {
            Some(file) => {
                let topology = topology("tic", file)?;
                TopologySource::File(topology.text, topology.graph)
            }
            None => TopologySource::Discovered,
        };
        let parameters = config.aggregation_parameters.as_deref().map(tree_constants);
        let parameters = parameters.transpose()?;
        if self.part.check_config {
            return Ok(());
        }
        let security = security(config.certificates.as_deref(), config.limits)?;
        let telemetry = reloadable.telemetry("fabricast-tic")?;
        let setup =
            Setup { security: security.clone(), parameters, ..Setup::new(config, topology) };
        block_on_threads(async {
            let app = fabricast_tic::App::bind(setup).await.context("start the TIC")?;
            let settings = app.settings();
            let following =
                reloadable.follow(&telemetry, &security, |config| settings.set_watch(config.watch));
            let part = Part { role: "tic", address: app.address(), metrics: self.part.metrics };
            Box::pin(part.serve(following, |stop| app.run(stop))).await
        })
    }
}

/// Reads the constants that the settings name.
fn tree_constants(file: &Path) -> Result<CostParameters, Failure> {
    let bad = |text: String| Failure::BadConfig(anyhow!("tic.aggregation_parameters: {text}"));
    let parameters = parameters(file).map_err(|failure| bad(failure.message()))?;
    let checked = parameters.with_time_for_bytes();
    checked.map_err(|error| bad(format!("'{}': {error}", file.display())))
}
