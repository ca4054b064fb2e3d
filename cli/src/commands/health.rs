//! `fabricast health`: asks whether a server serves.

use clap::Args;
use serde::Serialize;

use crate::args::ServerArgs;
use crate::command::{Globals, Run};
use crate::failure::Failure;
use crate::output;
use crate::remote::{Remote, block_on};

/// Result of the command.
#[derive(Serialize)]
struct Health {
    serving: bool,
}

/// Ask a server whether it serves; exit 1 if not. For container probes.
#[derive(Debug, Args)]
pub(crate) struct HealthArgs {
    /// Service that must be served, such as fabricast.v1.TicService; default: any.
    #[arg(long, value_name = "NAME", default_value = "")]
    service: String,
    #[command(flatten)]
    server: ServerArgs,
}

impl Run for HealthArgs {
    fn run(self, globals: &Globals) -> Result<(), Failure> {
        let (args, format) = (&self, globals.format);
        block_on(async {
            let remote = Remote::new(&args.server)?;
            let serving = remote.is_serving(&args.service).await?;
            output::print(format, &Health { serving }, |health| {
                if health.serving { "serving".to_owned() } else { "not serving".to_owned() }
            })?;
            if serving { Ok(()) } else { Err(Failure::No("it does not serve".to_owned())) }
        })
    }
}
