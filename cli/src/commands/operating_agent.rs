//! `fabricast operating-agent`: one operating agent as a process of its own.

use anyhow::Context;
use clap::Args;
use fabricast_config::OperatingAgentConfig;

use crate::command::{Globals, Run};
use crate::failure::Failure;
use crate::serve::{Part, PartArgs, ReloadableSettings, block_on_threads, security};

/// Run the operating agents of one or more nodes alone, with the group agents they host.
#[derive(Debug, Args)]
pub(crate) struct OperatingAgentArgs {
    #[command(flatten)]
    part: PartArgs,
}

impl Run for OperatingAgentArgs {
    fn run(self, globals: &Globals) -> Result<(), Failure> {
        let reloadable =
            ReloadableSettings::<OperatingAgentConfig>::read(&self.part, &globals.trace)?;
        let config = reloadable.part();
        if self.part.check_config {
            return Ok(());
        }
        let security = security(config.certificates.as_deref(), config.limits)?;
        let telemetry = reloadable.telemetry("fabricast-operating-agent")?;
        block_on_threads(async {
            let app = fabricast_operating::App::bind(config, security.clone())
                .context("start the operating agent")?;
            let settings = app.settings();
            let following = reloadable.follow(&telemetry, &security, |config| settings.set(config));
            let part = Part {
                role: "operating-agent",
                address: app.address(),
                metrics: self.part.metrics,
            };
            Box::pin(part.serve(following, |stop| app.run(stop))).await
        })
    }
}
