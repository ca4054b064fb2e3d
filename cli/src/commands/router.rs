//! `fabricast router`: one route service as a process of its own.

use anyhow::Context;
use clap::Args;
use fabricast_config::RouterConfig;

use crate::command::{Globals, Run};
use crate::failure::Failure;
use crate::serve::{Part, PartArgs, ReloadableSettings, block_on_threads, security};

/// Run the route service alone.
#[derive(Debug, Args)]
pub(crate) struct RouterArgs {
    #[command(flatten)]
    part: PartArgs,
}

impl Run for RouterArgs {
    fn run(self, globals: &Globals) -> Result<(), Failure> {
        let reloadable = ReloadableSettings::<RouterConfig>::read(&self.part, &globals.trace)?;
        let config = reloadable.part();
        if self.part.check_config {
            return Ok(());
        }
        let security = security(config.certificates.as_deref(), config.limits)?;
        let telemetry = reloadable.telemetry("fabricast-router")?;
        block_on_threads(async {
            let app = fabricast_router::App::bind(config, security.clone())
                .context("start the route service")?;
            let settings = app.settings();
            let following = reloadable.follow(&telemetry, &security, |config| settings.set(config));
            let part = Part { role: "router", address: app.address(), metrics: self.part.metrics };
            Box::pin(part.serve(following, |stop| app.run(stop))).await
        })
    }
}
