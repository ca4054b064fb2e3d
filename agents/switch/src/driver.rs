//! The seam between a switch agent and the hardware it programs.
//!
//! The words of the seam are those of the wire (`fabricast.v1`): a switch agent translates
//! nothing, it checks and forwards.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;

use fabricast_proto::v1;
use fabricast_rpc::Reason;
use fabricast_topology::Graph;
use thiserror::Error;
use tokio_stream::Stream;
use tonic::{Code, Status};

/// What a driver hands over piece by piece.
pub type DriverStream<T> = Pin<Box<dyn Stream<Item = Result<T, DriverError>> + Send>>;

/// A kind of hardware: finds switches, reads and writes their tables, tells what has failed.
///
/// Every call may be repeated safely. Names are node ids. The caller has checked names and
/// entries against [`Driver::list_switches`]; a driver checks again what the hardware could have
/// changed since.
#[tonic::async_trait]
pub trait Driver: Debug + Send + Sync + 'static {
    /// Lists all switches that can be reached, ordered by node id.
    ///
    /// # Errors
    ///
    /// [`DriverError::Unavailable`].
    async fn list_switches(&self) -> Result<Vec<v1::Switch>, DriverError>;

    /// Reads the tables of `switches` (at least one), a switch per item, in the order asked for.
    ///
    /// # Errors
    ///
    /// [`DriverError::Unavailable`], [`DriverError::UnknownSwitch`].
    async fn read_tables(
        &self,
        switches: Vec<String>,
    ) -> Result<DriverStream<v1::SwitchTable>, DriverError>;

    /// Writes entries, a switch's part all or nothing; a switch refuses a fence older than its own.
    ///
    /// - `writes`: at most one part per switch.
    ///
    /// # Errors
    ///
    /// [`DriverError::Unavailable`]; [`DriverError::StaleFence`] if nothing was written because
    /// a newer writer is known. Single switches that did not take their part are no error.
    async fn write_tables(
        &self,
        fence: v1::Fence,
        writes: Vec<v1::SwitchWrite>,
    ) -> Result<Written, DriverError>;

    /// Lists the ports of a switch, ordered by number.
    ///
    /// # Errors
    ///
    /// [`DriverError::Unavailable`], [`DriverError::UnknownSwitch`].
    async fn list_ports(&self, switch: &str) -> Result<Vec<v1::PortStatus>, DriverError>;

    /// Reads the port counters of `switches` (at least one), a switch per item; one that does not answer is
    /// left out.
    ///
    /// # Errors
    ///
    /// [`DriverError::Unavailable`], [`DriverError::UnknownSwitch`], [`DriverError::NoCounters`].
    async fn read_counters(
        &self,
        _switches: Vec<String>,
    ) -> Result<DriverStream<v1::SwitchCounters>, DriverError> {
        Err(DriverError::NoCounters)
    }

    /// Reads the aggregation entries of switches and of the adapters behind them.
    ///
    /// # Errors
    ///
    /// [`DriverError::Unavailable`], [`DriverError::NoAggregation`].
    async fn read_aggregation(
        &self,
        _switches: Vec<String>,
    ) -> Result<DriverStream<v1::AggregationTable>, DriverError> {
        Err(DriverError::NoAggregation)
    }

    /// Writes aggregation entries, a place's part all or nothing; answers the parts refused.
    ///
    /// # Errors
    ///
    /// As [`Driver::write_tables`]; [`DriverError::NoAggregation`].
    async fn write_aggregation(
        &self,
        _fence: v1::Fence,
        _writes: Vec<v1::AggregationWrite>,
    ) -> Result<Vec<v1::AggregationRefusal>, DriverError> {
        Err(DriverError::NoAggregation)
    }

    /// Looks at the whole fabric and gives what there is, as `ibnetdiscover` would find it.
    ///
    /// # Errors
    ///
    /// [`DriverError::Unavailable`], [`DriverError::NoDiscovery`].
    async fn discover(&self) -> Result<Arc<Graph>, DriverError> {
        Err(DriverError::NoDiscovery)
    }

    /// Takes a fabric for the one that ought to be there: what is missing of it has failed.
    fn expect(&self, _fabric: Arc<Graph>) {}

    /// Gives all failed parts now, and again after each change.
    ///
    /// # Errors
    ///
    /// [`DriverError::Unavailable`].
    async fn watch_failed_elements(&self) -> Result<DriverStream<Vec<v1::Element>>, DriverError>;
}

/// What a write did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Written {
    /// Number of entries written.
    pub entries: u64,
    /// Switches whose part was refused; theirs changed nothing.
    pub refusals: Vec<v1::SwitchRefusal>,
}

/// Why the hardware did not do what it was asked.
#[derive(Clone, Debug, Error)]
pub enum DriverError {
    /// It does not answer.
    #[error("the fabric at {fabric} does not answer")]
    Unavailable {
        /// Where it should be.
        fabric: String,
        /// What the connection says.
        #[source]
        source: Status,
    },
    /// It answers, but not with what was asked for.
    #[error("the fabric at {fabric} refuses")]
    Refused {
        /// Where it is.
        fabric: String,
        /// Its answer.
        #[source]
        source: Status,
    },
    /// It has no such switch.
    #[error("no switch '{switch}' in the fabric")]
    UnknownSwitch {
        /// The node id asked for.
        switch: String,
    },
    /// Its port counters cannot be read.
    #[error("the hardware has no port counters that can be read")]
    NoCounters,
    /// Its switches have no aggregation engines that can be programmed.
    #[error("the hardware has no aggregation engines")]
    NoAggregation,
    /// It cannot be asked what it looks like.
    #[error("the hardware cannot be discovered")]
    NoDiscovery,
    /// A switch has seen a newer writer; nothing was written.
    #[error("a switch has seen a newer writer than term {term}, generation {generation}")]
    StaleFence {
        /// Term of the refused writer.
        term: u64,
        /// Its generation.
        generation: u64,
    },
}

impl From<DriverError> for Status {
    fn from(error: DriverError) -> Self {
        let text = error.to_string();
        match &error {
            // The hardware has changed since it was discovered; its own words fit the caller too.
            DriverError::Refused { source, .. } if source.code() == Code::NotFound => {
                source.clone()
            }
            DriverError::Unavailable { fabric, source }
            | DriverError::Refused { fabric, source } => Reason::FabricUnavailable
                .status(format!("{text}: {}", source.message()), &[("fabric", fabric)]),
            DriverError::UnknownSwitch { switch } => {
                Reason::UnknownSwitch.status(text, &[("switch", switch)])
            }
            DriverError::NoCounters => Reason::NoCounters.status(text, &[]),
            DriverError::NoAggregation => Reason::NoAggregation.status(text, &[]),
            DriverError::NoDiscovery => Reason::NoTopology.status(text, &[]),
            DriverError::StaleFence { .. } => Reason::StaleFence.status(text, &[]),
        }
    }
}
