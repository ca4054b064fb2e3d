//! What a request says of a new group, checked against the topology.

use std::collections::BTreeSet;

use fabricast_groups::hints::{Layer, MgidHints};
use fabricast_groups::names::{EndpointName, LayerName};
use fabricast_proto::v1;
use fabricast_rpc::Reason;
use tonic::Status;

use crate::fields;
use crate::service::Tic;

impl Tic {
    /// Checks what is said of a new group.
    pub(crate) fn hints(&self, hints: v1::MgidHints) -> Result<MgidHints, Status> {
        let expected = match hints.expected_endpoints.as_slice() {
            [] => Vec::new(),
            names => self.endpoints("hints.expected_endpoints", names)?,
        };
        let layer = match hints.layer.as_str() {
            "" => None,
            name => Some(Layer {
                name: fields::name("hints.layer", name, LayerName::new)?,
                groups: hints.layer_group_count,
                all_groups: hints.all_group_count,
            }),
        };
        Ok(MgidHints { expected, layer })
    }

    /// Checks that endpoints are in the topology, each named once.
    pub(crate) fn endpoints(
        &self,
        field: &str,
        names: &[String],
    ) -> Result<Vec<EndpointName>, Status> {
        let mut seen = BTreeSet::new();
        let mut endpoints = Vec::with_capacity(names.len());
        for name in names {
            let endpoint = fields::name(field, name, EndpointName::new)?;
            if self.graph.find_endpoint(name).is_none() {
                let message = format!("{field}: no endpoint '{name}' in the topology");
                return Err(Reason::UnknownEndpoint.status(message, &[("endpoint", name)]));
            }
            if !seen.insert(name) {
                let message = format!("{field}: '{name}' is named twice");
                return Err(Reason::NameInvalid.status(message, &[("endpoint", name)]));
            }
            endpoints.push(endpoint);
        }
        if endpoints.is_empty() { Err(fields::missing(field)) } else { Ok(endpoints) }
    }
}
