//! The hardware that a switch agent programs, as its settings name it.

use std::sync::Arc;

use anyhow::Context;
use fabricast_config::{Hardware, RoutingName};
use fabricast_rpc::Security;
use fabricast_switch::{Driver, EmulatedDriver, InfinibandDriver, InfinibandOptions, Routing};

use super::topology;
use crate::failure::Failure;

/// Opens the hardware that a switch agent programs.
pub(super) fn driver(hardware: Hardware, security: &Security) -> Result<Arc<dyn Driver>, Failure> {
    match hardware {
        Hardware::Emulated { fabric, management_key } => {
            let fabric = security.peer(fabric.as_str())?;
            Ok(Arc::new(EmulatedDriver::new(fabric, management_key.reveal())))
        }
        Hardware::Infiniband(config) => {
            let expected = config.topology.as_deref();
            let expected =
                expected.map(|file| topology("switch_agent.infiniband", file)).transpose()?;
            let options = InfinibandOptions {
                adapter: config.adapter,
                port: config.port,
                key: config.management_key,
                first_entry: config.first_entry,
                colors: config.colors,
                expected: expected.map(|topology| topology.graph),
                sweep: config.sweep,
                patience: (config.timeout, config.retries),
                routing: match config.routing {
                    RoutingName::Directed => Routing::Directed,
                    RoutingName::Lid => Routing::Lid,
                },
            };
            Ok(Arc::new(InfinibandDriver::open(options).context("open the InfiniBand port")?))
        }
    }
}
