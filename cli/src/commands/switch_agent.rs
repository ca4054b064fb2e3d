//! `fabricast switch-agent`: one switch agent as a process of its own.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use fabricast_config::{Hardware, SwitchAgentConfig};
use fabricast_rpc::Security;
use fabricast_switch::{Driver, DriverContext, OpenError, check_driver, open_driver};

use crate::command::{Globals, Run};
use crate::failure::Failure;
use crate::serve::{Part, PartArgs, ReloadableSettings, block_on_threads, security, topology};

/// Run a switch agent alone.
#[derive(Debug, Args)]
pub(crate) struct SwitchAgentArgs {
    #[command(flatten)]
    part: PartArgs,
}

impl Run for SwitchAgentArgs {
    fn run(self, globals: &Globals) -> Result<(), Failure> {
        let reloadable = ReloadableSettings::<SwitchAgentConfig>::read(&self.part, &globals.trace)?;
        let config = reloadable.part();
        check_driver(&config.hardware).map_err(failed)?;
        if self.part.check_config {
            return Ok(());
        }
        let security = security(config.certificates.as_deref(), config.limits)?;
        let telemetry = reloadable.telemetry("fabricast-switch-agent")?;
        block_on_threads(async {
            let driver = open_hardware(&config.hardware, &security)?;
            let app = fabricast_switch::App::bind(config, security.clone(), driver)
                .context("start the switch agent")?;
            let settings = app.settings();
            let following = reloadable.follow(&telemetry, &security, |config| {
                settings.set_report_interval(config.report_interval)
            });
            let part =
                Part { role: "switch-agent", address: app.address(), metrics: self.part.metrics };
            Box::pin(part.serve(following, |stop| app.run(stop))).await
        })
    }
}

/// Opens the hardware that a switch agent programs.
pub(super) fn open_hardware(
    hardware: &Hardware,
    security: &Security,
) -> Result<Arc<dyn Driver>, Failure> {
    let section = match hardware {
        Hardware::Emulated { .. } | Hardware::Infiniband(_) => "switch_agent.infiniband",
        Hardware::Other { .. } => "switch_agent.driver_options",
    };
    let read_topology = |file: &Path| {
        let read = topology(section, file);
        read.map(|topology| topology.graph).map_err(|failure| failure.message())
    };
    let context = DriverContext { hardware, security, read_topology: &read_topology };
    open_driver(&context).map_err(failed)
}

fn failed(error: OpenError) -> Failure {
    match error {
        OpenError::UnknownDriver { .. } | OpenError::Options(_) | OpenError::Topology(_) => {
            Failure::BadConfig(error.into())
        }
        OpenError::Peer(_) => error.into(),
        OpenError::Infiniband(_) => {
            anyhow::Error::new(error).context("open the InfiniBand port").into()
        }
        OpenError::Openflow(_) => {
            anyhow::Error::new(error).context("open the OpenFlow driver").into()
        }
    }
}
