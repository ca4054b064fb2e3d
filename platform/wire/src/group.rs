//! Groups: the record, and the snapshot that a group agent starts from.

use std::num::NonZeroU32;
use std::time::Duration;

use fabricast_groups::directory::GroupSnapshot;
use fabricast_groups::ids::{Epoch, Gn, Moment, Pn, Revision};
use fabricast_groups::names::{Address, GroupName, JobName, LayerName, NodeName};
use fabricast_groups::record::{Expected, GroupRecord};
use fabricast_groups::voucher::Voucher;
use fabricast_proto::v1;
use fabricast_topology::Mgid;

use crate::error::{WireError, decode_name, optional_name, optional_text, required};
use crate::member::decode_member;
use crate::route::{decode_route, encode_route};
use crate::tree::{decode_optional_tree, encode_tree};

/// Encodes a group without its members and their number.
///
/// - `agent_address`: address of the node that hosts the group's agent; empty if there is none.
#[must_use]
pub fn encode_group(record: &GroupRecord, agent_address: &str) -> v1::Group {
    v1::Group {
        name: record.name.to_string(),
        gn: record.gn.0,
        mgid: record.mgid.0,
        agent_node: optional_text(record.agent.as_ref()),
        agent_address: agent_address.to_owned(),
        epoch: record.epoch.0,
        members: Vec::new(),
        member_count: 0,
        members_revision: record.members_revision.0,
        persistent: record.persistent,
        exclusive: record.exclusive,
        route: record.route.as_ref().map(encode_route),
        create_time: Some(encode_timestamp(record.created)),
        records_revision: record.changed.0,
        layer: optional_text(record.layer.as_ref()),
        job: optional_text(record.job.as_ref()),
        complete_at_member_count: record.expected.map_or(0, |expected| expected.members.get()),
        incomplete: !record.is_complete(),
        home_mgid: record.home.map(|home| home.0),
        tree: encode_tree(record.tree),
    }
}

/// Decodes a group without its members.
///
/// # Errors
///
/// A missing or invalid field.
pub fn decode_group(wire: &v1::Group) -> Result<GroupRecord, WireError> {
    Ok(GroupRecord {
        gn: Gn(wire.gn),
        name: decode_name("group.name", &wire.name, GroupName::new)?,
        mgid: Mgid(wire.mgid),
        agent: optional_name("group.agent_node", &wire.agent_node, NodeName::new)?,
        epoch: Epoch(wire.epoch),
        members_revision: Revision(wire.members_revision),
        changed: Revision(wire.records_revision),
        persistent: wire.persistent,
        exclusive: wire.exclusive,
        layer: optional_name("group.layer", &wire.layer, LayerName::new)?,
        job: optional_name("group.job", &wire.job, JobName::new)?,
        expected: NonZeroU32::new(wire.complete_at_member_count)
            .map(|members| Expected { members, met: !wire.incomplete }),
        home: wire.home_mgid.map(Mgid),
        tree: decode_optional_tree("group", wire.tree.as_ref())?,
        created: wire.create_time.as_ref().map_or(Moment(0), decode_timestamp),
        route: wire.route.as_ref().map(decode_route).transpose()?,
    })
}

/// Decodes the TIC's answer about a group: the record, all members, and the revision that both
/// were read at.
///
/// # Errors
///
/// A missing or invalid field.
pub fn decode_snapshot(answer: &v1::GetGroupResponse) -> Result<GroupSnapshot, WireError> {
    let wire = required("group", answer.group.as_ref())?;
    let group = decode_group(wire)?;
    let members = wire.members.iter().map(|member| decode_member(group.gn, member));
    let members = members.collect::<Result<_, _>>()?;
    let voucher = |member: &v1::Member| Some((Pn(member.pn), Voucher(member.voucher?)));
    let vouchers = wire.members.iter().filter_map(voucher).collect();
    let agent_address = optional_name("group.agent_address", &wire.agent_address, Address::new)?;
    let revision = Revision(answer.revision);
    Ok(GroupSnapshot { revision, group, agent_address, members, vouchers })
}

/// Encodes a moment of the TIC's clock.
#[must_use]
pub fn encode_timestamp(moment: Moment) -> prost_types::Timestamp {
    let since = Duration::from_nanos(moment.0);
    prost_types::Timestamp {
        seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(since.subsec_nanos()).unwrap_or(0),
    }
}

/// Decodes a time; one before 1970 is 1970, one beyond the end of the clock its end.
pub fn decode_timestamp(time: &prost_types::Timestamp) -> Moment {
    let seconds = u64::try_from(time.seconds).unwrap_or(0);
    let nanos = u64::try_from(time.nanos).unwrap_or(0);
    Moment(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}
