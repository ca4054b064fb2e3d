//! Operations that switches combine for the members hosted here.
//!
//! The TIC is asked from time to time which collectives there are for the groups that somebody takes part in here, and
//! on which trees of switches they run. What is known may be old: a run on a tree that is no more, or not yet, ends
//! with an error, and the members' own tree does what the switches did not.

use std::collections::BTreeMap;
use std::time::Duration;

use fabricast_groups::ids::{Gn, Pn};
use fabricast_groups::names::NodeName;
use fabricast_messages::{Offer, Reduction, Run, Wide, Work};
use fabricast_proto::v1;
use fabricast_proto::v1::collective_service_client::CollectiveServiceClient;
use fabricast_proto::v1::collective_values::Kind as Values;
use fabricast_proto::v1::fabric_aggregation_service_client::FabricAggregationServiceClient;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tracing::debug;

use super::Messaging;
use crate::collectives::Part;
use crate::host::Host;

/// How often the TIC is asked, while somebody takes part in something.
const LOOK: Duration = Duration::from_secs(1);
/// Who waits longer for the others waits at the tree.
const PATIENCE: prost_types::Duration = prost_types::Duration { seconds: 1, nanos: 0 };
/// Numbers in one message, at most.
const NUMBERS: usize = 8_192;

/// Where a member's contributions go, but for what they say.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Way {
    offer: Offer,
    template: v1::ContributeValuesRequest,
}

/// A contribution to be sent.
#[derive(Debug)]
pub(crate) struct Contribution {
    node: NodeName,
    member: (Gn, Pn),
    request: v1::ContributeValuesRequest,
    over: CancellationToken,
}

/// A member that takes part, as the TIC names it.
#[derive(Debug)]
struct Seated {
    node: NodeName,
    member: (Gn, Pn),
    process: String,
}

impl Messaging {
    /// Tells the courier what the switches offer a member now.
    fn offer(&mut self, (gn, pn): (Gn, Pn), way: Option<Way>) {
        let Some(seat) = self.seats.get_mut(&(gn, pn)) else { return };
        if seat.way != way {
            self.courier.offer(gn, pn, way.as_ref().map(|way| way.offer));
            seat.way = way;
        }
    }

    /// A member's part in a run, to be sent; it is given up with what is kept of it at the seat.
    pub(super) fn contribution(
        &mut self,
        node: &NodeName,
        member: (Gn, Pn),
        run: Run,
    ) -> Option<Contribution> {
        let seat = self.seats.get_mut(&member)?;
        let way = seat.way.as_ref()?;
        let request = v1::ContributeValuesRequest {
            sequence: run.sequence,
            work: Some(work(run.work)),
            values: run.numbers.map(values),
            ..way.template.clone()
        };
        let over = CancellationToken::new();
        seat.run = Some(over.clone().drop_guard());
        Some(Contribution { node: node.clone(), member, request, over })
    }

    /// Gives a member's run up.
    pub(super) fn withdraw(&mut self, member: (Gn, Pn)) {
        if let Some(seat) = self.seats.get_mut(&member) {
            seat.run = None;
        }
    }
}

impl Host {
    /// Sends a contribution and tells the member's message layer what came of it.
    pub(crate) async fn contribute(self, contribution: Contribution) {
        let Contribution { node, member, request, over } = contribution;
        let sequence = request.sequence;
        let mut fabric = FabricAggregationServiceClient::new(self.0.fabric.channel());
        let answer = tokio::select! {
            answer = fabric.contribute_values(request) => answer,
            () = over.cancelled() => return,
        };
        let brings = match answer {
            Ok(answer) => Some(answer.into_inner().values.and_then(wide)),
            Err(status) => {
                debug!(member = %node, error = %status.message(), "switches did not combine");
                None
            }
        };
        self.messages(&node, |messaging, _, now| {
            messaging.courier.combined(now, member, sequence, brings);
        });
    }

    /// Keeps the members that take part informed of the trees that switches have for them.
    pub(crate) async fn offer_forever(self) {
        loop {
            tokio::time::sleep(LOOK).await;
            let seated = self.seated();
            if seated.is_empty() {
                continue;
            }
            match self.ways(&seated).await {
                Ok(mut ways) => {
                    for Seated { node, member, .. } in seated.into_values().flatten() {
                        let way = ways.remove(&member);
                        self.messages(&node, |messaging, _, _| messaging.offer(member, way));
                    }
                }
                Err(status) => debug!(error = %status.message(), "collectives not known"),
            }
        }
    }

    /// The ways that the trees of collectives are for those who take part. Of several collectives of a group the first
    /// by name that has a tree counts.
    async fn ways(
        &self,
        seated: &BTreeMap<String, Vec<Seated>>,
    ) -> Result<BTreeMap<(Gn, Pn), Way>, Status> {
        let mut client = CollectiveServiceClient::new(self.0.tic.channel())
            .max_decoding_message_size(fabricast_group::MESSAGE_LIMIT);
        let mut ways = BTreeMap::new();
        let mut request = v1::ListCollectivesRequest::default();
        loop {
            let page = client.list_collectives(request).await?.into_inner();
            for listed in page.collectives.into_iter().filter(has_switches) {
                let Some(members) = seated.get(&listed.group) else { continue };
                let named = v1::GetCollectiveRequest { name: listed.name };
                // One that has been released since is none.
                let Ok(found) = client.get_collective(named).await else { continue };
                let found = found.into_inner().collective.unwrap_or_default();
                for one in members.iter().filter(|_| has_switches(&found)) {
                    if let Some(way) = way(&found, one) {
                        ways.entry(one.member).or_insert(way);
                    }
                }
            }
            if page.next_page_token.is_empty() {
                return Ok(ways);
            }
            request = v1::ListCollectivesRequest {
                page_token: page.next_page_token,
                ..Default::default()
            };
        }
    }

    /// Those who take part, by group.
    fn seated(&self) -> BTreeMap<String, Vec<Seated>> {
        let state = self.state();
        let mut seated: BTreeMap<String, Vec<Seated>> = BTreeMap::new();
        for (node, hosted) in &state.nodes {
            for (gn, pn) in hosted.messages.seats.keys() {
                let Some(held) = hosted.operating.member(*gn, *pn) else { continue };
                let process = held.member.process.to_string();
                let one = Seated { node: node.clone(), member: (*gn, *pn), process };
                seated.entry(held.group.to_string()).or_default().push(one);
            }
        }
        seated
    }
}

fn has_switches(collective: &v1::Collective) -> bool {
    collective.state() == v1::CollectiveState::SwitchTree && collective.programmed
}

/// The way of a member's contributions; `None` if the collective is not for it.
fn way(collective: &v1::Collective, one: &Seated) -> Option<Way> {
    let tree = collective.switch_tree.as_ref()?;
    let part = Part::of(collective, one.node.as_str(), &one.process).ok()?;
    let to = part.target(tree).ok()?;
    let does = |operation| collective.operations().any(|one| one == operation);
    let longest = collective.max_bytes.min(collective.switch_tree_max_bytes);
    let offer = Offer {
        tree: tree.tree,
        process: usize::try_from(part.process.process).ok()?,
        processes: collective.processes.len(),
        barrier: does(v1::CollectiveOperation::Barrier),
        broadcast: does(v1::CollectiveOperation::Broadcast),
        all_reduce: does(v1::CollectiveOperation::AllReduce),
        bytes: usize::try_from(longest).ok()?.min(8 * NUMBERS),
    };
    let template = v1::ContributeValuesRequest {
        tree: tree.tree,
        process_count: part.processes,
        to: Some(to),
        process: Some(part.process),
        timeout: Some(PATIENCE),
        ..Default::default()
    };
    Some(Way { offer, template })
}

fn work(work: Work) -> v1::CollectiveWork {
    let (operation, source, reduction) = match work {
        Work::Barrier => (v1::CollectiveOperation::Barrier, 0, v1::Reduction::Unspecified),
        Work::Broadcast { source } => {
            (v1::CollectiveOperation::Broadcast, source, v1::Reduction::Unspecified)
        }
        Work::AllReduce { reduction } => {
            let reduction = match reduction {
                Reduction::Sum => v1::Reduction::Sum,
                Reduction::Min => v1::Reduction::Min,
                Reduction::Max => v1::Reduction::Max,
                Reduction::And => v1::Reduction::And,
                Reduction::Or => v1::Reduction::Or,
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

fn values(numbers: Wide) -> v1::CollectiveValues {
    let kind = match numbers {
        Wide::Signed(values) => Values::SignedValues(v1::SignedValues { values }),
        Wide::Unsigned(values) => Values::UnsignedValues(v1::UnsignedValues { values }),
    };
    v1::CollectiveValues { kind: Some(kind) }
}

fn wide(values: v1::CollectiveValues) -> Option<Wide> {
    match values.kind? {
        Values::SignedValues(v1::SignedValues { values }) => Some(Wide::Signed(values)),
        Values::UnsignedValues(v1::UnsignedValues { values }) => Some(Wide::Unsigned(values)),
        Values::FloatValues(_) => None,
    }
}
