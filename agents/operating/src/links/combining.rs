//! Operations that switches combine for the members hosted here.
//!
//! The TIC is asked from time to time which collectives the open members' groups have, and on which
//! trees of switches. All agents ask, and a collective may have as many processes as there are
//! agents: so the TIC leaves out a list that has not changed, and a collective is fetched once as
//! long as its trees stay. The answer may be out of date: a run on a tree that has been released,
//! or is not programmed yet, ends with an error, and the members' own tree does the operation
//! instead.

use std::collections::BTreeMap;
use std::time::Duration;

use fabricast_groups::names::NodeName;
use fabricast_messages::{Combination, MemberId, Offer, Wide, Work};
use fabricast_proto::v1;
use fabricast_proto::v1::collective_values::Kind as Values;
use fabricast_rpc::RpcError;
use tracing::debug;

use crate::collectives::{CollectiveProcess, switch_bytes};
use crate::nodes::messages::{Contribution, SwitchPath};
use crate::runtime::Runtime;

/// Interval of the requests to the TIC while any member is open.
const REFRESH: Duration = Duration::from_secs(1);
/// A contribution waits this long for the others at the switches; then the members' tree combines.
const RUN_TIMEOUT: prost_types::Duration = prost_types::Duration { seconds: 1, nanos: 0 };

/// Lets switches combine what members contribute.
#[derive(Clone, Debug)]
pub(crate) struct Combining {
    pub(crate) runtime: Runtime,
}

/// A member that takes part, in the TIC's terms.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OpenMember {
    node: NodeName,
    key: MemberId,
    process: String,
}

/// Open members by group.
type OpenMembers = BTreeMap<String, Vec<OpenMember>>;

/// Trees of switches by member.
type Paths = BTreeMap<(NodeName, MemberId), SwitchPath>;

/// Answers of the TIC.
#[derive(Debug, Default)]
struct KnownTrees {
    /// Revision of the list of collectives; 0 from TICs of earlier versions.
    revision: u64,
    /// The members that the rest is for.
    members: OpenMembers,
    /// By name of the collective.
    fetched: BTreeMap<String, FetchedTree>,
}

/// The tree of a collective, for those of its processes that are here.
#[derive(Debug)]
struct FetchedTree {
    /// Revision of the collective's trees, as above.
    revision: u64,
    paths: Paths,
}

impl Combining {
    /// Sends a contribution; the member's message layer gets the result.
    pub(crate) fn contribute(&self, contribution: Contribution) {
        let this = self.clone();
        self.runtime.tasks.spawn(async move {
            let Contribution { node, member, path, run, withdrawn } = contribution;
            let request = v1::ContributeValuesRequest {
                sequence: run.sequence,
                work: Some(work_to_wire(run.work)),
                values: run.numbers.map(values_to_wire),
                ..path.template
            };
            let contribute = async {
                Some(this.runtime.channels.aggregation()?.contribute_values(request).await)
            };
            let answer = tokio::select! {
                answer = contribute => answer,
                () = withdrawn.cancelled() => return,
            };
            let result = match answer {
                Some(Ok(answer)) => Some(answer.into_inner().values.and_then(read_values)),
                Some(Err(status)) => {
                    debug!(%node, error = %status.message(), "switches did not combine");
                    None
                }
                None => None,
            };
            this.runtime.nodes.messages(&node, |messages, _, now| {
                messages.layer.combined(now, member, run.sequence, result);
            });
        });
    }

    /// Keeps the open members informed of the trees that switches have for them, forever.
    pub(crate) async fn refresh_offers(self) {
        let mut known = KnownTrees::default();
        loop {
            tokio::time::sleep(REFRESH).await;
            let members = self.open_members();
            if members.is_empty() {
                continue;
            }
            match self.refresh(&members, &mut known).await {
                Ok(()) => {
                    let mut paths = known.paths();
                    for OpenMember { node, key, .. } in members.into_values().flatten() {
                        let path = paths.remove(&(node.clone(), key));
                        self.runtime
                            .nodes
                            .messages(&node, |messages, _, _| messages.offer(key, path));
                    }
                }
                Err(error) => debug!(error = %error.message(), "collectives not listed"),
            }
        }
    }

    /// Asks the TIC for the trees of switches that open members have.
    async fn refresh(&self, members: &OpenMembers, known: &mut KnownTrees) -> Result<(), RpcError> {
        let mut tic = self.runtime.channels.collectives();
        if known.members != *members {
            *known = KnownTrees { members: members.clone(), ..KnownTrees::default() };
        }
        let unless_revision = known.revision;
        let mut request = v1::ListCollectivesRequest { unless_revision, ..Default::default() };
        let (mut revision, mut is_complete) = (None, true);
        let mut fetched = BTreeMap::new();
        loop {
            let page = tic.list_collectives(request).await?.into_inner();
            if page.unchanged {
                return Ok(());
            }
            // Until all is there, it is asked for again.
            known.revision = 0;
            revision = revision.or(Some(page.revision));
            for listed in page.collectives.into_iter().filter(is_on_switches) {
                let Some(members) = members.get(&listed.group) else { continue };
                let name = listed.name;
                let before = known.fetched.remove(&name);
                let before = before.filter(|one| one.revision > 0);
                if let Some(same) = before.filter(|one| one.revision == listed.revision) {
                    fetched.insert(name, same);
                    continue;
                }
                let get = v1::GetCollectiveRequest { name: name.clone() };
                let Ok(found) = tic.get_collective(get).await else {
                    is_complete = false; // as it has been released since
                    continue;
                };
                let found = found.into_inner().collective.unwrap_or_default();
                if is_on_switches(&found) {
                    fetched.insert(name, FetchedTree::of(&found, members));
                }
            }
            if page.next_page_token.is_empty() {
                break;
            }
            let page_token = page.next_page_token;
            request = v1::ListCollectivesRequest { page_token, ..Default::default() };
        }
        known.fetched = fetched;
        known.revision = revision.filter(|_| is_complete).unwrap_or_default();
        Ok(())
    }

    /// The open members by group.
    fn open_members(&self) -> OpenMembers {
        let mut members = OpenMembers::new();
        self.runtime.nodes.read_all(|node, agent, messages| {
            for key in messages.open_members() {
                let Some(held) = agent.member(key.gn, key.pn) else { continue };
                let process = held.member.process.to_string();
                let one = OpenMember { node: node.clone(), key, process };
                members.entry(held.group.to_string()).or_default().push(one);
            }
        });
        members
    }
}

impl KnownTrees {
    /// The trees of switches for members. Of several trees of a member the newest counts: an older
    /// one may be of members that the group had before.
    fn paths(&self) -> Paths {
        let mut paths = Paths::new();
        for (key, path) in self.fetched.values().flat_map(|one| &one.paths) {
            let is_older = |known: &SwitchPath| known.offer.tree < path.offer.tree;
            if paths.get(key).is_none_or(is_older) {
                paths.insert(key.clone(), path.clone());
            }
        }
        paths
    }
}

impl FetchedTree {
    fn of(collective: &v1::Collective, members: &[OpenMember]) -> Self {
        let path =
            |one: &OpenMember| Some(((one.node.clone(), one.key), switch_path(collective, one)?));
        let paths = members.iter().filter_map(path).collect();
        Self { revision: collective.revision, paths }
    }
}

fn is_on_switches(collective: &v1::Collective) -> bool {
    collective.state() == v1::CollectiveState::SwitchTree && collective.programmed
}

/// The tree of switches for a member; `None` if the member is not in the collective.
fn switch_path(collective: &v1::Collective, one: &OpenMember) -> Option<SwitchPath> {
    let tree = collective.switch_tree.as_ref()?;
    let process = CollectiveProcess::find(collective, one.node.as_str(), &one.process)?;
    let to = process.target(tree)?;
    let supports = |operation| collective.operations().any(|one| one == operation);
    let offer = Offer {
        tree: tree.tree,
        process: usize::try_from(process.process.process).ok()?,
        processes: collective.processes.len(),
        barrier: supports(v1::CollectiveOperation::Barrier),
        broadcast: supports(v1::CollectiveOperation::Broadcast),
        all_reduce: supports(v1::CollectiveOperation::AllReduce),
        bytes: usize::try_from(switch_bytes(collective)).ok()?,
    };
    let template = v1::ContributeValuesRequest {
        tree: tree.tree,
        process_count: process.count,
        to: Some(to),
        process: Some(process.process),
        timeout: Some(RUN_TIMEOUT),
        ..Default::default()
    };
    Some(SwitchPath { offer, template })
}

fn work_to_wire(work: Work) -> v1::CollectiveWork {
    let (operation, source, reduction) = match work {
        Work::Barrier => (v1::CollectiveOperation::Barrier, 0, v1::Reduction::Unspecified),
        Work::Broadcast { source } => {
            (v1::CollectiveOperation::Broadcast, source, v1::Reduction::Unspecified)
        }
        Work::AllReduce { reduction } => {
            let reduction = match reduction {
                Combination::Sum => v1::Reduction::Sum,
                Combination::Min => v1::Reduction::Min,
                Combination::Max => v1::Reduction::Max,
                Combination::And => v1::Reduction::And,
                Combination::Or => v1::Reduction::Or,
            };
            (v1::CollectiveOperation::AllReduce, 0, reduction)
        }
    };
    v1::CollectiveWork {
        operation: operation.into(),
        reduction: reduction.into(),
        root_process: u32::try_from(source).unwrap_or(u32::MAX),
    }
}

fn values_to_wire(numbers: Wide) -> v1::CollectiveValues {
    let kind = match numbers {
        Wide::Signed(values) => Values::SignedValues(v1::SignedValues { values }),
        Wide::Unsigned(values) => Values::UnsignedValues(v1::UnsignedValues { values }),
    };
    v1::CollectiveValues { kind: Some(kind) }
}

fn read_values(values: v1::CollectiveValues) -> Option<Wide> {
    match values.kind? {
        Values::SignedValues(v1::SignedValues { values }) => Some(Wide::Signed(values)),
        Values::UnsignedValues(v1::UnsignedValues { values }) => Some(Wide::Unsigned(values)),
        Values::FloatValues(_) => None,
    }
}
