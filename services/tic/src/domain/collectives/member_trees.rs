//! Chooses the shapes of new groups' unicast trees by the constants that were measured here.
//!
//! Without measured constants every group has two below each. A group keeps its shape as long as it
//! exists; new constants hold for groups that are created later.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Arc;

use fabricast_collectives::{CostParameters, Fabric, ShapeInputs, Term, choose_shape};
use fabricast_groups::command::{Command, FormGroup, GroupSpec};
use fabricast_groups::ids::Moment;
use fabricast_groups::names::EndpointName;
use fabricast_groups::tree::TreeShape;
use fabricast_proto::v1;
use fabricast_wire::encode_timestamp;
use serde::{Deserialize, Serialize};

/// Members that a group is thought to get whose creator says nothing; the width of a tree hardly
/// depends on them.
const MEMBERS: usize = 64;

/// Bytes of an operation of a group whose creator says nothing.
const BYTES: u32 = 8;

/// Most choices that are kept.
const KEPT: usize = 1024;

/// Constants of the cost model as measured between the agents of this fabric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MeasuredConstants {
    pub(crate) parameters: CostParameters,
    /// Names of the constants that are stated defaults, because the measurements gave 0.
    pub(crate) defaults: Vec<String>,
    /// Number of measurements.
    pub(crate) measurements: u32,
    /// Part of the measurements' variance that the model explains.
    pub(crate) r_squared: f64,
    /// Time at which the TIC was given them, on its clock, in nanoseconds.
    pub(crate) set_at: u64,
}

impl MeasuredConstants {
    /// Reads constants that are sent.
    ///
    /// # Errors
    ///
    /// The field and its rule.
    pub(crate) fn read(wire: v1::TreeConstants, now: Moment) -> Result<Self, String> {
        let parameters = decode_constants(&wire);
        // Without time for bytes no size would change a tree.
        let positive = |term| matches!(term, Term::Store | Term::Reduce);
        let terms = Term::ALL.map(|term| (term.field(), parameters.get(term), positive(term)));
        let links = ("path_link_count", parameters.path_links, true);
        for (field, value, more_than_0) in terms.into_iter().chain([links]) {
            let least = if more_than_0 { "more than 0" } else { "at least 0" };
            if !value.is_finite() || value < 0.0 || (more_than_0 && value <= 0.0) {
                return Err(format!("{field} is {value}, which must be a number of {least}"));
            }
        }
        let is_term = |name: &String| Term::ALL.iter().any(|term| term.field() == name);
        if let Some(other) = wire.default_fields.iter().find(|name| !is_term(name)) {
            return Err(format!("default_fields: there is no constant '{other}'"));
        }
        if !wire.r_squared.is_finite() {
            return Err(format!("r_squared is {}, which must be a number", wire.r_squared));
        }
        Ok(Self {
            parameters,
            defaults: wire.default_fields,
            measurements: wire.measurement_count,
            r_squared: wire.r_squared,
            set_at: now.0,
        })
    }

    pub(crate) fn wire(&self) -> v1::TreeConstants {
        v1::TreeConstants {
            default_fields: self.defaults.clone(),
            measurement_count: self.measurements,
            r_squared: self.r_squared,
            set_time: Some(encode_timestamp(Moment(self.set_at))),
            ..encode_constants(&self.parameters)
        }
    }
}

/// Encodes parameters; the other fields are empty.
#[must_use]
pub fn encode_constants(parameters: &CostParameters) -> v1::TreeConstants {
    v1::TreeConstants {
        path_link_count: parameters.path_links,
        link_us: parameters.link_us,
        matching_us: parameters.matching_us,
        store_us_per_byte: parameters.store_us_per_byte,
        reduce_us_per_byte: parameters.reduce_us_per_byte,
        software_us: parameters.software_us,
        ..Default::default()
    }
}

/// Decodes parameters, whatever their values are.
#[must_use]
pub fn decode_constants(wire: &v1::TreeConstants) -> CostParameters {
    CostParameters {
        path_links: wire.path_link_count,
        link_us: wire.link_us,
        matching_us: wire.matching_us,
        store_us_per_byte: wire.store_us_per_byte,
        reduce_us_per_byte: wire.reduce_us_per_byte,
        software_us: wire.software_us,
    }
}

/// The choice of shapes.
#[derive(Debug, Default)]
pub(super) struct MemberTrees {
    constants: Option<MeasuredConstants>,
    chosen: BTreeMap<ShapeInputs, TreeShape>,
}

impl MemberTrees {
    pub(super) fn constants(&self) -> Option<&MeasuredConstants> {
        self.constants.as_ref()
    }

    pub(super) fn set(&mut self, constants: Option<MeasuredConstants>) {
        self.constants = constants;
        self.chosen.clear();
    }

    /// Gives the groups that a command may create a shape, unless they have one.
    pub(super) fn choose(&mut self, command: &mut Command, fabric: &Fabric) {
        if self.constants.is_none() {
            return;
        }
        match command {
            Command::Join(join) => self.complete(&mut join.group, &[], fabric),
            Command::CreateGroup(create) => self.complete(&mut create.group, &[], fabric),
            Command::FormGroups(form) => {
                for FormGroup { group, members } in &mut Arc::make_mut(form).groups {
                    let endpoints: Vec<_> = members.iter().map(|one| &one.endpoint).collect();
                    self.complete(group, &endpoints, fabric);
                }
            }
            _ => {}
        }
    }

    fn complete(&mut self, group: &mut GroupSpec, members: &[&EndpointName], fabric: &Fabric) {
        let Some(constants) = self.constants.as_ref().filter(|_| group.tree.is_none()) else {
            return;
        };
        let waits_for = group.complete_at.map_or(0, NonZeroU32::get);
        let waits_for = usize::try_from(waits_for).unwrap_or(usize::MAX >> 1);
        let known = members.len().max(group.hints.expected.len()).max(waits_for);
        let count = if known < 2 { MEMBERS } else { known };
        // Blocks are those of members that all join at once, as ranks are given in their order.
        let block = (count == members.len()).then(|| block_of(members, fabric)).flatten();
        let bytes = group.operation_bytes.unwrap_or(BYTES);
        let bytes = bytes.checked_next_power_of_two().unwrap_or(u32::MAX);
        let members = u32::try_from(count.next_power_of_two()).unwrap_or(u32::MAX);
        let size = ShapeInputs { members, bytes, block };
        if self.chosen.len() >= KEPT {
            self.chosen.clear();
        }
        let choose = || choose_shape(&constants.parameters, size);
        group.tree = Some(*self.chosen.entry(size).or_insert_with(choose));
    }
}

/// The members at one leaf switch, if equally many follow one another at each but the last.
fn block_of(members: &[&EndpointName], fabric: &Fabric) -> Option<u32> {
    let graph = fabric.graph();
    let leaf = |name: &&EndpointName| fabric.leaf_of(graph.find_endpoint(name.as_str())?);
    let leaves = members.iter().map(leaf).collect::<Option<Vec<_>>>()?;
    let runs: Vec<_> = leaves.chunk_by(|a, b| a == b).collect();
    let (last, whole) = runs.split_last()?;
    let block = whole.first()?.len();
    let alike = whole.iter().all(|run| run.len() == block) && last.len() <= block;
    let distinct: BTreeSet<_> = runs.iter().map(|run| run[0]).collect();
    let is_block = block >= 2 && alike && distinct.len() == runs.len();
    is_block.then(|| u32::try_from(block).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use fabricast_groups::command::{FormGroups, FormMember};
    use fabricast_groups::names::{GroupName, ProcessName, RequestId};
    use fabricast_topology::spec::TopologySpec;

    use super::*;

    const MEASURED: CostParameters = CostParameters {
        path_links: 4.0,
        link_us: 15.0,
        matching_us: 10.0,
        store_us_per_byte: 0.001,
        reduce_us_per_byte: 0.002,
        software_us: 20.0,
    };

    fn fabric() -> Fabric {
        let spec = "kind = 'leaf-spine'\nleaves = 4\nspines = 2\nendpoints_per_leaf = 4\n";
        Fabric::detect(Arc::new(TopologySpec::parse(spec).unwrap().generate().unwrap()))
    }

    fn formed(
        trees: &mut MemberTrees,
        bytes: u32,
        hosts: impl Iterator<Item = usize>,
    ) -> TreeShape {
        let fabric = fabric();
        let graph = fabric.graph();
        let names: Vec<_> = graph.endpoints().map(|one| graph.endpoint_name(one)).collect();
        let member = |host: usize| FormMember {
            endpoint: EndpointName::new(names[host]).unwrap(),
            process: ProcessName::new("p").unwrap(),
            node: None,
            incarnation: None,
        };
        let mut group = GroupSpec::new(GroupName::new("g").unwrap());
        group.operation_bytes = Some(bytes);
        let groups = vec![FormGroup { group, members: hosts.map(member).collect() }];
        let request_id = RequestId::new("r").unwrap();
        let mut command = Command::FormGroups(Arc::new(FormGroups { request_id, groups }));
        trees.choose(&mut command, &fabric);
        let Command::FormGroups(form) = command else { panic!("it is still that") };
        form.groups[0].group.tree.unwrap_or_default()
    }

    fn measured(parameters: CostParameters) -> MemberTrees {
        let mut trees = MemberTrees::default();
        trees.set(Some(MeasuredConstants {
            parameters,
            defaults: Vec::new(),
            measurements: 9,
            r_squared: 1.0,
            set_at: 0,
        }));
        trees
    }

    #[test]
    fn without_constants_nothing_is_chosen() {
        assert!(formed(&mut MemberTrees::default(), 8, 0..16).is_default());
    }

    #[test]
    fn constants_and_bytes_decide() {
        let mut trees = measured(MEASURED);
        let (short, long) = (formed(&mut trees, 8, 0..16), formed(&mut trees, 1 << 20, 0..16));
        assert_ne!(short, long);
        assert!(!short.is_default(), "{short:?}");
    }

    #[test]
    fn members_in_the_order_of_leaf_switches_are_a_block_each() {
        let fabric = fabric();
        let graph = fabric.graph();
        let names: Vec<_> = graph
            .endpoints()
            .map(|one| EndpointName::new(graph.endpoint_name(one)).unwrap())
            .collect();
        let block = |hosts: &[usize]| {
            let members: Vec<_> = hosts.iter().map(|host| &names[*host]).collect();
            block_of(&members, &fabric)
        };
        let all: Vec<usize> = (0..16).collect();
        assert_eq!(block(&all), Some(4));
        assert_eq!(block(&all[..14]), Some(4), "the last block may be smaller");
        assert_eq!(block(&all[1..]), None, "the first may not");
        assert_eq!(block(&[0, 4, 8, 12]), None, "one at each");
        assert_eq!(block(&[0, 1, 4, 5, 2, 3]), None, "twice at one leaf switch");
    }
}
