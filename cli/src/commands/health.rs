//! Whether a server serves.

use serde::Serialize;

use crate::args::{Format, HealthArgs};
use crate::failure::Failure;
use crate::output;
use crate::remote::{Remote, block_on};

/// What a server said, as it is printed.
#[derive(Serialize)]
struct Health {
    serving: bool,
}

/// Asks the server named first.
///
/// # Errors
///
/// Exit 1 if it says that it does not serve; exit 2 if it says nothing, or has no such service.
pub(crate) fn run(args: &HealthArgs, format: Format) -> Result<(), Failure> {
    block_on(async {
        let remote = Remote::new(&args.server)?;
        let serving = remote.is_serving(&args.service).await?;
        output::print(format, &Health { serving }, |health| {
            if health.serving { "serving".to_owned() } else { "not serving".to_owned() }
        })?;
        if serving { Ok(()) } else { Err(Failure::No("it does not serve".to_owned())) }
    })
}
