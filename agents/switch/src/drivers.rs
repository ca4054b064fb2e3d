//! The list of drivers, and how one is opened by its name in the settings.
//!
//! To add a driver, write `drivers/<name>.rs` with an implementation of [`Driver`] and a constant
//! `KIND`, declare the module here, and add the constant to [`DRIVERS`]. Its settings are the table
//! `[switch_agent.driver_options]`, which `open` reads with [`DriverContext::options`].

mod bridge;
pub(crate) mod emulated;
pub(crate) mod infiniband;
pub(crate) mod openflow;
pub(crate) mod parts;

use std::path::Path;
use std::sync::Arc;

use fabricast_config::Hardware;
use fabricast_rpc::{PeerError, Security};
use fabricast_topology::Graph;
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::driver::{Driver, DriverStream};

/// All drivers that can be named in the settings.
const DRIVERS: &[DriverKind] = &[bridge::KIND, emulated::KIND, infiniband::KIND, openflow::KIND];

/// One line of the list of drivers.
pub(crate) struct DriverKind {
    /// Value of `driver` in the settings.
    pub(crate) name: &'static str,
    /// Opens the hardware. Called once, in a tokio runtime.
    pub(crate) open: fn(&DriverContext<'_>) -> Result<Arc<dyn Driver>, OpenError>,
}

/// Inputs of the opening of a driver.
pub struct DriverContext<'a> {
    /// Settings of the driver.
    pub hardware: &'a Hardware,
    /// TLS of connections to other parts.
    pub security: &'a Security,
    /// Reads a topology from a file, in any format that Fabricast knows; the error is a text.
    pub read_topology: &'a dyn Fn(&Path) -> Result<Arc<Graph>, String>,
}

impl DriverContext<'_> {
    /// Reads the table `[switch_agent.driver_options]`. A driver defines the type, with
    /// `#[serde(deny_unknown_fields)]`.
    ///
    /// # Errors
    ///
    /// [`OpenError::Options`] if the table does not fit the type.
    pub fn options<T: DeserializeOwned>(&self) -> Result<T, OpenError> {
        let options = match self.hardware {
            Hardware::Other { options, .. } => options.as_str(),
            Hardware::Emulated { .. } | Hardware::Infiniband(_) => "",
        };
        toml::from_str(options).map_err(|error| OpenError::Options(error.to_string()))
    }
}

/// Reason why a driver cannot be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// No driver has this name.
    #[error("switch_agent.driver: no driver is named '{name}', expected one of {known}")]
    UnknownDriver {
        /// Name in the settings.
        name: String,
        /// Names of all drivers.
        known: String,
    },
    /// The options of the driver are wrong.
    #[error("switch_agent.driver_options: {0}")]
    Options(String),
    /// A file with a topology cannot be read.
    #[error("{0}")]
    Topology(String),
    /// The address of a peer is wrong.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// The InfiniBand port cannot be used.
    #[error(transparent)]
    Infiniband(#[from] infiniband::InfinibandError),
    /// OpenFlow switches cannot be reached.
    #[error(transparent)]
    Openflow(#[from] openflow::OpenflowError),
}

/// Opens the hardware that the settings name.
///
/// # Errors
///
/// [`OpenError`]: the settings are wrong, or the hardware cannot be used.
pub fn open_driver(context: &DriverContext<'_>) -> Result<Arc<dyn Driver>, OpenError> {
    (find(context.hardware)?.open)(context)
}

/// Checks that there is a driver of the name in the settings.
///
/// # Errors
///
/// [`OpenError::UnknownDriver`].
pub fn check_driver(hardware: &Hardware) -> Result<(), OpenError> {
    find(hardware).map(drop)
}

fn find(hardware: &Hardware) -> Result<&'static DriverKind, OpenError> {
    let name = hardware.driver_name();
    DRIVERS.iter().find(|kind| kind.name == name).ok_or_else(|| {
        let known: Vec<&str> = DRIVERS.iter().map(|kind| kind.name).collect();
        OpenError::UnknownDriver { name: name.to_owned(), known: known.join(", ") }
    })
}

/// Asks all switches at once; the answers come in the order of the names.
pub(crate) fn for_each<T: Send + 'static, F: Future<Output = Option<T>> + Send + 'static>(
    names: Vec<String>,
    ask: impl Fn(String) -> F,
) -> DriverStream<T> {
    let asked: Vec<_> = names.into_iter().map(|name| tokio::spawn(ask(name))).collect();
    let (answers, stream) = mpsc::channel(4);
    tokio::spawn(async move {
        for one in asked {
            if let Ok(Some(answer)) = one.await
                && answers.send(Ok(answer)).await.is_err()
            {
                return; // the reader has gone away
            }
        }
    });
    Box::pin(ReceiverStream::new(stream))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Eq, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct ExampleOptions {
        address: String,
    }

    fn with_options<T>(options: &str, check: impl FnOnce(&DriverContext<'_>) -> T) -> T {
        let hardware = Hardware::Other { driver: "example".into(), options: options.into() };
        let security = Security::plaintext();
        let read_topology = |_: &Path| Err("no file is read here".to_owned());
        let context = DriverContext {
            hardware: &hardware,
            security: &security,
            read_topology: &read_topology,
        };
        check(&context)
    }

    #[test]
    fn an_unknown_driver_is_refused_with_the_names_of_all() {
        let error = with_options("", |context| open_driver(context).map(drop)).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("'example', expected one of bridge, emulated, infiniband, openflow"),
            "{text}"
        );
    }

    #[test]
    fn a_driver_reads_its_own_options() {
        let read = |text| with_options(text, |context| context.options::<ExampleOptions>());
        let address = "switch:1".to_owned();
        assert_eq!(read("address = 'switch:1'").unwrap(), ExampleOptions { address });
        for wrong in ["", "adress = 'switch:1'", "address = 1"] {
            assert!(matches!(read(wrong), Err(OpenError::Options(_))), "{wrong}");
        }
    }
}
