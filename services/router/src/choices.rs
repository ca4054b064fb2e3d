//! What the engine chose, on its way to the TIC and back.
//!
//! A plan that depends on the past cannot be computed again. So what was chosen is kept by the TIC
//! before any switch is programmed with it, and the next route service begins with it. Only what
//! differs is sent. Engines that compute everything choose nothing, and then nothing is sent.
//!
//! Invariants
//! - CHOICE-2: no switch holds an entry of a choice that was not durable before.

pub(crate) mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_proto::v1;
use fabricast_rpc::{Backoff, Reason, reason_of};
use fabricast_topology::{Graph, PortId};
use tonic::Status;
use tracing::warn;

use crate::mirror::Mirror;
use crate::outside::Outside;
use crate::planner::Planner;

/// Groups asked for in one call.
const PAGE: u32 = 10_000;

/// One tree that was chosen for a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChosenTree {
    pub(crate) tree: u8,
    pub(crate) part: u32,
    pub(crate) root: u32,
    /// Rising.
    pub(crate) ports: Vec<PortId>,
    /// The group that shares the tree and has its ports; 0 if there is none.
    pub(crate) ports_gn: u64,
}

/// What was chosen, by GN.
pub(crate) type Chosen = BTreeMap<u64, Vec<ChosenTree>>;

/// What an earlier route service left.
#[derive(Clone, Debug, Default)]
pub(crate) struct Past {
    /// The failed parts that its plan went round.
    pub(crate) failed: Vec<v1::Element>,
    pub(crate) chosen: Chosen,
}

/// Why choices are not durable.
#[derive(Debug)]
pub(crate) enum Unrecorded {
    /// A newer route service is at work.
    Deposed,
    /// The TIC has another topology by now.
    OtherTopology,
    /// Try again.
    Failed(String),
}

/// What the TIC is known to have recorded.
#[derive(Debug)]
pub(crate) struct ChoiceLog<O> {
    outside: O,
    graph: Arc<Graph>,
    scheme: v1::RouteChoiceScheme,
    fence: v1::Fence,
    recorded: Past,
    /// Whose scheme the TIC has.
    state: State,
    /// Groups of a report that may or may not have been taken over.
    doubtful: BTreeSet<u64>,
    /// Handed over once.
    past: Option<Past>,
    /// The plan may have changed since the last report.
    behind: bool,
}

/// How things stand at the TIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing was ever recorded.
    Blank,
    /// Choices that were made otherwise; the next report replaces them.
    Foreign,
    /// Choices of our scheme.
    Ours,
}

impl<O: Outside> ChoiceLog<O> {
    /// Reads what an earlier route service recorded, however long the TIC takes to answer. The term
    /// must have been acquired before: then nobody else changes it any more.
    pub(crate) async fn load(
        outside: O,
        graph: Arc<Graph>,
        scheme: v1::RouteChoiceScheme,
        term: u64,
    ) -> Self {
        let mut backoff = Backoff::default();
        let (found, failed, choices) = loop {
            match read(&outside).await {
                Ok(read) => break read,
                Err(status) => {
                    warn!(peer = outside.tic(), error = %status.message(), "no choices yet");
                }
            }
            let pause = outside.pause(&mut backoff);
            outside.sleep_until(outside.now().after(pause)).await;
        };
        let state = match found {
            None => State::Blank,
            Some(found) if found == scheme => State::Ours,
            Some(_) => State::Foreign,
        };
        let mut log = Self {
            outside,
            graph,
            scheme,
            fence: v1::Fence { term, generation: 0 },
            recorded: Past::default(),
            state,
            doubtful: BTreeSet::new(),
            past: None,
            behind: true,
        };
        if state == State::Ours {
            log.recorded.failed = failed;
            for choice in choices {
                match wire::read(&log.graph, &choice) {
                    Some(trees) => drop(log.recorded.chosen.insert(choice.gn, trees)),
                    None => drop(log.doubtful.insert(choice.gn)),
                }
            }
            log.past = Some(log.recorded.clone()).filter(|past| !past.chosen.is_empty());
        }
        log
    }

    /// Hands over, once, what an earlier route service left, if it can be used.
    pub(crate) fn take_past(&mut self) -> Option<Past> {
        self.past.take()
    }

    /// Notes that the plan may have changed.
    pub(crate) fn planned(&mut self) {
        self.behind = true;
    }

    /// Makes what was chosen durable, before it is programmed.
    pub(crate) async fn record(
        &mut self,
        planner: &Planner,
        mirror: &Mirror,
    ) -> Result<(), Unrecorded> {
        if !self.behind {
            return Ok(());
        }
        let now = Past { failed: mirror.failed.clone(), chosen: planner.choices() };
        let (changed, removed) = self.difference(&now.chosen);
        let nothing = changed.is_empty() && removed.is_empty();
        let settled = match self.state {
            State::Blank => nothing,
            // Where there are no choices, nobody asks what they go round.
            State::Ours => nothing && (now.chosen.is_empty() || now.failed == self.recorded.failed),
            State::Foreign => false,
        };
        if !settled {
            self.fence.generation += 1;
            let changed: Vec<v1::RouteChoice> =
                changed.iter().map(|gn| wire::choice(&self.graph, *gn, &now.chosen[gn])).collect();
            let first = v1::RecordRouteChoicesRequest {
                fence: Some(self.fence),
                scheme: Some(self.scheme.clone()),
                failed_elements: now.failed.clone(),
                seen_revision: mirror.revision,
                ..v1::RecordRouteChoicesRequest::default()
            };
            self.doubtful.extend(changed.iter().map(|choice| choice.gn));
            self.doubtful.extend(&removed);
            self.send(wire::messages(first, changed, removed)).await?;
        }
        self.doubtful.clear();
        (self.recorded, self.state) = match self.state {
            State::Blank if settled => (now, State::Blank),
            State::Blank | State::Foreign | State::Ours => (now, State::Ours),
        };
        self.behind = false;
        Ok(())
    }

    /// Groups with choices that the TIC does not have, and groups of which it should have none.
    fn difference(&self, now: &Chosen) -> (Vec<u64>, Vec<u64>) {
        let is_new = |(gn, trees): &(&u64, &Vec<ChosenTree>)| {
            self.doubtful.contains(gn) || self.recorded.chosen.get(gn) != Some(trees)
        };
        let changed = now.iter().filter(is_new).map(|(gn, _)| *gn).collect();
        let known: BTreeSet<&u64> = self.recorded.chosen.keys().chain(&self.doubtful).collect();
        let removed = known.into_iter().filter(|gn| !now.contains_key(gn)).copied().collect();
        (changed, removed)
    }

    async fn send(&self, messages: Vec<v1::RecordRouteChoicesRequest>) -> Result<(), Unrecorded> {
        self.outside.record_choices(messages).await.map_err(|status| match reason_of(&status) {
            Some(reason) if reason == Reason::StaleTerm.text() => Unrecorded::Deposed,
            Some(reason) if reason == Reason::TopologyDiffers.text() => Unrecorded::OtherTopology,
            Some(_) | None => Unrecorded::Failed(format!("choices: {}", status.message())),
        })
    }
}

type Read = (Option<v1::RouteChoiceScheme>, Vec<v1::Element>, Vec<v1::RouteChoice>);

async fn read<O: Outside>(outside: &O) -> Result<Read, Status> {
    let mut choices = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = v1::ListRouteChoicesRequest { page_size: PAGE, page_token };
        let page = outside.list_choices(request).await?;
        choices.extend(page.choices);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok((page.scheme, page.failed_elements, choices));
        }
    }
}
