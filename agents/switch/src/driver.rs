//! The trait between a switch agent and the hardware that it programs.
//!
//! Its types are those of the wire (`fabricast.v1`): a switch agent translates nothing, it checks
//! and forwards.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use fabricast_proto::v1;
use fabricast_rpc::RpcError;
use fabricast_topology::Graph;
use thiserror::Error;
use tokio_stream::Stream;

/// A stream of results; it ends after an error.
pub type DriverStream<T> = Pin<Box<dyn Stream<Item = Result<T, DriverError>> + Send>>;

/// A driver for one kind of hardware: finds switches, reads and writes their tables, and reports
/// failed parts.
///
/// Every call can be repeated safely. Names are node ids. The caller has checked names and entries
/// against [`Driver::list_switches`]; a driver checks again what may have changed since.
#[tonic::async_trait]
pub trait Driver: Debug + Send + Sync + 'static {
    /// Lists all reachable switches, ordered by node id.
    ///
    /// # Errors
    ///
    /// [`DriverError::Unavailable`].
    async fn list_switches(&self) -> Result<Vec<v1::Switch>, DriverError>;

    /// Reads the tables of `switches` (at least one), one item per switch, in this order.
    ///
    /// # Errors
    ///
    /// [`DriverError::Unavailable`], [`DriverError::UnknownSwitch`].
    async fn read_tables(
        &self,
        switches: Vec<String>,
    ) -> Result<DriverStream<v1::SwitchTable>, DriverError>;

    /// Writes entries, the part of each switch all or nothing. A switch refuses a fence older than
    /// the newest it has seen.
    ///
    /// - `writes`: at most one part per switch.
    ///
    /// # Errors
    ///
    /// [`DriverError::Unavailable`]; [`DriverError::StaleFence`] if a newer writer is known, and
    /// nothing was written. A switch that did not take its part is no error: see
    /// [`Written::refusals`].
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

    /// Reads the port counters of `switches` (at least one), one item per switch. A switch that
    /// does not answer is left out.
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

    /// Writes aggregation entries, the part of each switch or adapter all or nothing. Returns the
    /// parts that were refused.
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

    /// Time between two discoveries, if the TIC is to be told what is found.
    fn discovery_interval(&self) -> Option<Duration> {
        None
    }

    /// Discovers the whole fabric, as `ibnetdiscover` does.
    ///
    /// # Errors
    ///
    /// [`DriverError::Unavailable`], [`DriverError::NoDiscovery`].
    async fn discover(&self) -> Result<Arc<Graph>, DriverError> {
        Err(DriverError::NoDiscovery)
    }

    /// Sets the expected fabric: parts that are missing in the hardware count as failed.
    fn expect(&self, _fabric: Arc<Graph>) {}

    /// True if packets can be led to a color by the IPv4 multicast address that programs send to.
    fn carries_programs(&self) -> bool {
        false
    }

    /// Has packets of programs led from the endpoints to the colors of their addresses; addresses
    /// that are not named are led nowhere.
    ///
    /// - `programs`: color by address.
    async fn carry_programs(&self, _programs: BTreeMap<Ipv4Addr, u16>) {}

    /// Watches the failed parts: the first item lists all, and so does another after each change.
    ///
    /// # Errors
    ///
    /// [`DriverError::Unavailable`].
    async fn watch_failed_elements(&self) -> Result<DriverStream<Vec<v1::Element>>, DriverError>;
}

/// Result of a write.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Written {
    /// Number of entries written.
    pub entries: u64,
    /// Switches that refused their part, and hold what they held before.
    pub refusals: Vec<v1::SwitchRefusal>,
}

/// Reason why a call to the hardware failed.
#[derive(Clone, Debug, Error)]
pub enum DriverError {
    /// The hardware does not answer.
    #[error("the fabric at {fabric} does not answer: {message}")]
    Unavailable {
        /// Address of the fabric, or name of the adapter.
        fabric: String,
        /// Error of the connection or adapter.
        message: String,
    },
    /// The hardware answers with an error.
    #[error("the fabric at {fabric} refuses")]
    Refused {
        /// Address of the fabric.
        fabric: String,
        /// Error in the answer.
        #[source]
        source: RpcError,
    },
    /// The hardware has no such switch.
    #[error("no switch '{switch}' in the fabric")]
    UnknownSwitch {
        /// Node id in the request.
        switch: String,
    },
    /// The hardware has no port counters that can be read.
    #[error("the hardware has no port counters that can be read")]
    NoCounters,
    /// The hardware has no aggregation engines that can be programmed.
    #[error("the hardware has no aggregation engines")]
    NoAggregation,
    /// The hardware cannot be discovered.
    #[error("the hardware cannot be discovered")]
    NoDiscovery,
    /// A switch has seen a newer writer; nothing was written.
    #[error("a switch has seen a newer writer than term {term}, generation {generation}")]
    StaleFence {
        /// Term of the refused writer.
        term: u64,
        /// Generation of the refused writer.
        generation: u64,
    },
    /// The term of a writer is newer than any that the TIC has granted, or may have granted while
    /// it does not answer; nothing was written.
    #[error("term {term} is not granted: the newest one that may be is {most}")]
    TermNotGranted {
        /// Term of the refused writer.
        term: u64,
        /// Newest term that is taken.
        most: u64,
    },
}
