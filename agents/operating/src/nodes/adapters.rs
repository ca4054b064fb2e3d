//! Network interfaces that endpoints are, and the multicast addresses of colors on them.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use fabricast_config::OperatingAgentConfig;
use fabricast_groups::names::{EndpointName, NameError};
use fabricast_groups::operating::Membership;
use fabricast_proto::v1;

/// UDP port of the packets of processes; the kernel tells groups apart by their addresses.
const PORT: u32 = 7409;

/// Interfaces and addresses by which processes of nodes whose endpoints are interfaces send and
/// receive packets.
#[derive(Debug)]
pub(crate) struct Adapters {
    /// Address of color 0; `None` if processes send no packets.
    color_addresses: Option<Ipv4Addr>,
    interfaces: BTreeMap<EndpointName, String>,
}

impl Adapters {
    /// The interfaces of the settings.
    pub(crate) fn of(config: &OperatingAgentConfig) -> Result<Self, NameError> {
        let each = config.nodes.iter().flat_map(|node| &node.interfaces);
        let named = each.map(|(name, endpoint)| Ok((EndpointName::new(endpoint)?, name.clone())));
        let interfaces = named.collect::<Result<_, _>>()?;
        Ok(Self { color_addresses: config.color_addresses, interfaces })
    }

    /// The multicast connection of a member, if the switches carry it.
    pub(super) fn multicast(&self, held: &Membership) -> Option<v1::DirectMulticast> {
        let color = held.colors()?.first;
        let first = u32::from(self.color_addresses?);
        let interface = self.interfaces.get(&held.member.endpoint)?.clone();
        let address = Ipv4Addr::from(first.checked_add(u32::from(color))?).to_string();
        Some(v1::DirectMulticast { interface, address, port: PORT })
    }
}
