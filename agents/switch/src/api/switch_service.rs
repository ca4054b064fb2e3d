//! `SwitchAgentService`: checks a call, then forwards it to the driver.

use std::collections::BTreeSet;
use std::sync::Arc;

use fabricast_proto::v1;
use fabricast_proto::v1::switch_agent_service_server::SwitchAgentService;
use fabricast_rpc::Reason;
use fabricast_telemetry::metrics::SWITCH_ENTRIES;
use tokio_stream::StreamExt;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};

use crate::driver::{Driver, Written};
use crate::inventory::Inventory;
use crate::write_check::split_writes;

/// The service of one agent. It needs no listener: the simulation calls it directly.
#[derive(Clone, Debug)]
pub struct SwitchAgent {
    pub(crate) inventory: Arc<Inventory>,
}

impl SwitchAgent {
    /// Creates a service; nothing is sent to the hardware yet.
    ///
    /// - `only`: node ids of the switches to serve; empty means all the driver finds.
    #[must_use]
    pub fn new(driver: Arc<dyn Driver>, only: BTreeSet<String>) -> Self {
        Self { inventory: Arc::new(Inventory::new(driver, only, None)) }
    }
}

#[tonic::async_trait]
impl SwitchAgentService for SwitchAgent {
    async fn list_switches(
        &self,
        _request: Request<v1::ListSwitchesRequest>,
    ) -> Result<Response<v1::ListSwitchesResponse>, Status> {
        let switches = self.inventory.discover().await?;
        let switches = switches.values().cloned().collect();
        Ok(Response::new(v1::ListSwitchesResponse { switches }))
    }

    type ReadTablesStream = BoxStream<v1::ReadTablesResponse>;

    async fn read_tables(
        &self,
        request: Request<v1::ReadTablesRequest>,
    ) -> Result<Response<Self::ReadTablesStream>, Status> {
        let names = self.resolve_names(request.into_inner().switch_names).await?;
        if names.is_empty() {
            return Ok(Response::new(Box::pin(tokio_stream::empty())));
        }
        let tables = self.inventory.driver().read_tables(names).await?;
        let answers = tables.map(|table| {
            table.map(|table| v1::ReadTablesResponse { table: Some(table) }).map_err(Status::from)
        });
        Ok(Response::new(Box::pin(answers)))
    }

    async fn write_tables(
        &self,
        request: Request<v1::WriteTablesRequest>,
    ) -> Result<Response<v1::WriteTablesResponse>, Status> {
        let v1::WriteTablesRequest { fence, writes } = request.into_inner();
        let Some(fence) = fence else {
            return Err(Reason::FieldMissing.status("fence is missing", &[("field", "fence")]));
        };
        let v1::Fence { term, generation } = fence;
        let names = writes.iter().map(|write| write.switch_name.as_str());
        let switches = self.inventory.switches(names).await?;
        // The last check: no writer with a newer term may come between it and the write.
        self.inventory.check_fence(&fence).await?;
        let (accepted, mut refusals) = split_writes(&switches, writes);
        let mut written = Written::default();
        if !accepted.is_empty() {
            // From here on the term counts, even if the hardware does not answer. A request without
            // an acceptable part does not count: it must not shut out the real writer.
            self.inventory.note_term(term);
            written = self.inventory.driver().write_tables(fence, accepted).await?;
        }
        SWITCH_ENTRIES.inc_by(written.entries);
        refusals.append(&mut written.refusals);
        tracing::debug!(
            term,
            generation,
            entries = written.entries,
            refused = refusals.len(),
            "tables written"
        );
        Ok(Response::new(v1::WriteTablesResponse { written_entries: written.entries, refusals }))
    }

    async fn list_ports(
        &self,
        request: Request<v1::ListPortsRequest>,
    ) -> Result<Response<v1::ListPortsResponse>, Status> {
        let name = request.into_inner().switch_name;
        if name.is_empty() {
            let facts = [("field", "switch_name")];
            return Err(Reason::FieldMissing.status("switch_name is missing", &facts));
        }
        let switches = self.inventory.switches(std::iter::once(name.as_str())).await?;
        if !switches.contains_key(&name) {
            return Err(unknown_switch(&name));
        }
        let ports = self.inventory.driver().list_ports(&name).await?;
        Ok(Response::new(v1::ListPortsResponse { ports }))
    }

    type ReadCountersStream = BoxStream<v1::ReadCountersResponse>;

    async fn read_counters(
        &self,
        request: Request<v1::ReadCountersRequest>,
    ) -> Result<Response<Self::ReadCountersStream>, Status> {
        let names = self.resolve_names(request.into_inner().switch_names).await?;
        if names.is_empty() {
            return Ok(Response::new(Box::pin(tokio_stream::empty())));
        }
        let counters = self.inventory.driver().read_counters(names).await?;
        let answers = counters.map(|read| {
            read.map(|read| v1::ReadCountersResponse { counters: Some(read) }).map_err(Status::from)
        });
        Ok(Response::new(Box::pin(answers)))
    }
}

impl SwitchAgent {
    /// Checks the names of switches; no names mean all switches.
    async fn resolve_names(&self, names: Vec<String>) -> Result<Vec<String>, Status> {
        let switches = self.inventory.switches(names.iter().map(String::as_str)).await?;
        if let Some(unknown) = names.iter().find(|name| !switches.contains_key(*name)) {
            return Err(unknown_switch(unknown));
        }
        Ok(if names.is_empty() { switches.keys().cloned().collect() } else { names })
    }
}

fn unknown_switch(name: &str) -> Status {
    Reason::UnknownSwitch.status(format!("no switch '{name}' at this agent"), &[("switch", name)])
}
