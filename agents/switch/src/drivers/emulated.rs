//! The driver for the emulated fabric: gRPC with the management key.

use std::sync::Arc;

use fabricast_config::Hardware;
use fabricast_proto::v1;
use fabricast_proto::v1::fabric_aggregation_service_client::FabricAggregationServiceClient;
use fabricast_proto::v1::fabric_service_client::FabricServiceClient;
use fabricast_rpc::{Channel, Peer, Reason, RpcError};
use tokio_stream::StreamExt;
use tonic::Code;

use super::{DriverContext, DriverKind, OpenError};
use crate::api::MESSAGE_LIMIT;
use crate::driver::{Driver, DriverError, DriverStream, Written};

pub(super) const KIND: DriverKind = DriverKind { name: "emulated", open };

fn open(context: &DriverContext<'_>) -> Result<Arc<dyn Driver>, OpenError> {
    let Hardware::Emulated { fabric, management_key } = context.hardware else {
        unreachable!("the name of the driver is that of the settings");
    };
    let fabric = context.security.peer(fabric.as_str())?;
    Ok(Arc::new(EmulatedDriver::new(fabric, management_key.reveal())))
}

/// Programs the switches of an emulated fabric.
#[derive(Clone)]
pub struct EmulatedDriver {
    fabric: Peer,
    client: FabricServiceClient<Channel>,
    engines: FabricAggregationServiceClient<Channel>,
    management_key: String,
}

impl std::fmt::Debug for EmulatedDriver {
    // The key stays out of logs.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let address = self.fabric.address();
        formatter.debug_struct("EmulatedDriver").field("fabric", &address).finish_non_exhaustive()
    }
}

impl EmulatedDriver {
    /// Prepares a driver; nothing is sent yet.
    ///
    /// - `fabric`: the emulated fabric.
    /// - `management_key`: the key that the fabric was started with.
    #[must_use]
    pub fn new(fabric: Peer, management_key: &str) -> Self {
        let client = FabricServiceClient::new(fabric.channel())
            .max_decoding_message_size(MESSAGE_LIMIT)
            .max_encoding_message_size(MESSAGE_LIMIT);
        let engines = FabricAggregationServiceClient::new(fabric.channel())
            .max_decoding_message_size(MESSAGE_LIMIT)
            .max_encoding_message_size(MESSAGE_LIMIT);
        Self { fabric, client, engines, management_key: management_key.to_owned() }
    }

    fn key(&self) -> String {
        self.management_key.clone()
    }

    /// Error of a failed write; a refused fence has a variant of its own.
    fn write_failed(&self, fence: v1::Fence, error: impl Into<RpcError>) -> DriverError {
        let error = error.into();
        if error.reason() == Some(Reason::StaleFence) {
            let v1::Fence { term, generation } = fence;
            return DriverError::StaleFence { term, generation };
        }
        self.failed(error)
    }

    fn failed(&self, error: impl Into<RpcError>) -> DriverError {
        failed(self.fabric.address(), error)
    }
}

#[tonic::async_trait]
impl Driver for EmulatedDriver {
    async fn list_switches(&self) -> Result<Vec<v1::Switch>, DriverError> {
        let request = v1::ListFabricSwitchesRequest { management_key: self.key() };
        let answer = self.client.clone().list_fabric_switches(request).await;
        answer.map(|listed| listed.into_inner().switches).map_err(|status| self.failed(status))
    }

    async fn read_tables(
        &self,
        switches: Vec<String>,
    ) -> Result<DriverStream<v1::SwitchTable>, DriverError> {
        let request =
            v1::ReadSwitchTablesRequest { management_key: self.key(), switch_names: switches };
        let answer = self.client.clone().read_switch_tables(request).await;
        let messages = answer.map_err(|status| self.failed(status))?.into_inner();
        let fabric = self.fabric.address().to_owned();
        Ok(Box::pin(messages.map(move |message| {
            message.map(|read| read.table.unwrap_or_default()).map_err(|s| failed(&fabric, s))
        })))
    }

    async fn write_tables(
        &self,
        fence: v1::Fence,
        writes: Vec<v1::SwitchWrite>,
    ) -> Result<Written, DriverError> {
        let request =
            v1::WriteSwitchTablesRequest { management_key: self.key(), fence: Some(fence), writes };
        match self.client.clone().write_switch_tables(request).await {
            Ok(answer) => {
                let v1::WriteSwitchTablesResponse { written_entries, refusals } =
                    answer.into_inner();
                Ok(Written { entries: written_entries, refusals })
            }
            Err(status) => Err(self.write_failed(fence, status)),
        }
    }

    async fn list_ports(&self, switch: &str) -> Result<Vec<v1::PortStatus>, DriverError> {
        let request = v1::ListSwitchPortsRequest {
            management_key: self.key(),
            switch_name: switch.to_owned(),
        };
        match self.client.clone().list_switch_ports(request).await {
            Ok(answer) => Ok(answer.into_inner().ports),
            Err(status) if status.code() == Code::NotFound => {
                Err(DriverError::UnknownSwitch { switch: switch.to_owned() })
            }
            Err(status) => Err(self.failed(status)),
        }
    }

    async fn read_counters(
        &self,
        switches: Vec<String>,
    ) -> Result<DriverStream<v1::SwitchCounters>, DriverError> {
        let request =
            v1::ReadSwitchCountersRequest { management_key: self.key(), switch_names: switches };
        let answer = self.client.clone().read_switch_counters(request).await;
        let messages = answer.map_err(|status| self.failed(status))?.into_inner();
        let fabric = self.fabric.address().to_owned();
        Ok(Box::pin(messages.map(move |message| {
            message.map(|read| read.counters.unwrap_or_default()).map_err(|s| failed(&fabric, s))
        })))
    }

    async fn read_aggregation(
        &self,
        switches: Vec<String>,
    ) -> Result<DriverStream<v1::AggregationTable>, DriverError> {
        let request =
            v1::ReadFabricAggregationRequest { management_key: self.key(), switch_names: switches };
        let answer = self.engines.clone().read_fabric_aggregation(request).await;
        let messages = answer.map_err(|status| self.failed(status))?.into_inner();
        let fabric = self.fabric.address().to_owned();
        Ok(Box::pin(messages.map(move |message| {
            message.map(|read| read.table.unwrap_or_default()).map_err(|s| failed(&fabric, s))
        })))
    }

    async fn write_aggregation(
        &self,
        fence: v1::Fence,
        writes: Vec<v1::AggregationWrite>,
    ) -> Result<Vec<v1::AggregationRefusal>, DriverError> {
        let request = v1::WriteFabricAggregationRequest {
            management_key: self.key(),
            fence: Some(fence),
            writes,
        };
        match self.engines.clone().write_fabric_aggregation(request).await {
            Ok(answer) => Ok(answer.into_inner().refusals),
            Err(status) => Err(self.write_failed(fence, status)),
        }
    }

    async fn watch_failed_elements(&self) -> Result<DriverStream<Vec<v1::Element>>, DriverError> {
        let request = v1::WatchFailedElementsRequest { management_key: self.key() };
        let answer = self.client.clone().watch_failed_elements(request).await;
        let messages = answer.map_err(|status| self.failed(status))?.into_inner();
        let fabric = self.fabric.address().to_owned();
        Ok(Box::pin(messages.map(move |message| {
            message.map(|list| list.elements).map_err(|status| failed(&fabric, status))
        })))
    }
}

fn failed(fabric: &str, error: impl Into<RpcError>) -> DriverError {
    let (fabric, source) = (fabric.to_owned(), error.into());
    // A reason shows that the fabric itself answered, and not the connection to it.
    match source.reason_text() {
        Some(reason) if reason != Reason::ShuttingDown.text() => {
            DriverError::Refused { fabric, source }
        }
        _ => DriverError::Unavailable { fabric, message: source.message().to_owned() },
    }
}
