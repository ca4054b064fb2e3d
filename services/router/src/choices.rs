//! Keeps the choices of the engine at the TIC.
//!
//! A plan that depends on the past cannot be computed again. So the TIC records what the engine
//! chose before any switch is programmed with it, and the next route service starts from there.
//! Only differences are sent. An engine that computes everything has no choices, and nothing is
//! sent.
//!
//! Invariants
//! - CHOICE-2: no switch holds an entry of a choice that was not durable before.

pub(crate) mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_proto::v1;
use fabricast_rpc::{Backoff, Reason, RpcError};
use fabricast_topology::{Graph, PortId};
use thiserror::Error;
use tracing::warn;

use crate::directory_cache::DirectoryCache;
use crate::environment::Environment;
use crate::planner::Planner;

/// Groups per call when choices are read.
const PAGE_SIZE: u32 = 10_000;

/// A tree chosen for a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChosenTree {
    pub(crate) tree: u8,
    pub(crate) part: u32,
    pub(crate) root: u32,
    /// Ports of the tree, ascending; empty if another group has them.
    pub(crate) ports: Vec<PortId>,
    /// GN of the group that shares the tree and has its ports; 0 if this group has them.
    pub(crate) ports_gn: u64,
}

/// Chosen trees by GN.
pub(crate) type Chosen = BTreeMap<u64, Vec<ChosenTree>>;

/// Choices as recorded at the TIC.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecordedPlan {
    /// Failed parts of the fabric when the choices were made.
    pub(crate) failed: Vec<v1::Element>,
    pub(crate) chosen: Chosen,
}

/// Why choices are not durable.
#[derive(Debug, Error)]
pub(crate) enum RecordError {
    /// A newer route service is active.
    #[error("a newer route service is active")]
    Deposed,
    /// The TIC has another topology by now.
    #[error("the topology of the TIC has changed")]
    OtherTopology,
    /// Any other error; the next turn tries again.
    #[error("choices not recorded: {message}")]
    Failed { message: String },
}

/// The choices that the TIC has recorded.
#[derive(Debug)]
pub(crate) struct ChoiceLog<O> {
    environment: O,
    graph: Arc<Graph>,
    scheme: v1::RouteChoiceScheme,
    fence: v1::Fence,
    recorded: RecordedPlan,
    /// Scheme of the recorded choices.
    state: State,
    /// GNs of a report that the TIC may or may not have recorded.
    unconfirmed: BTreeSet<u64>,
    /// Choices of an earlier route service, until they are taken.
    found: Option<RecordedPlan>,
    /// True if the plan may have changed since the last report.
    is_behind: bool,
}

/// Scheme of the choices at the TIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing was ever recorded.
    Blank,
    /// Choices of another scheme, which the next report replaces.
    Foreign,
    /// Choices of our scheme.
    Ours,
}

impl<O: Environment> ChoiceLog<O> {
    /// Reads what an earlier route service recorded; retries until the TIC answers. The term must
    /// have been acquired before: from then on no other route service changes the choices.
    pub(crate) async fn load(
        environment: O,
        graph: Arc<Graph>,
        scheme: v1::RouteChoiceScheme,
        term: u64,
    ) -> Self {
        let mut backoff = Backoff::default();
        let (found, failed, choices) = loop {
            match read(&environment).await {
                Ok(read) => break read,
                Err(error) => {
                    warn!(peer = environment.tic(), error = %error.message(), "choices not read yet");
                }
            }
            let pause = environment.pause(&mut backoff);
            environment.sleep_until(environment.now().after(pause)).await;
        };
        let state = match found {
            None => State::Blank,
            Some(found) if found == scheme => State::Ours,
            Some(_) => State::Foreign,
        };
        let mut log = Self {
            environment,
            graph,
            scheme,
            fence: v1::Fence { term, generation: 0 },
            recorded: RecordedPlan::default(),
            state,
            unconfirmed: BTreeSet::new(),
            found: None,
            is_behind: true,
        };
        if state == State::Ours {
            log.recorded.failed = failed;
            for choice in choices {
                match wire::read(&log.graph, &choice) {
                    Some(trees) => drop(log.recorded.chosen.insert(choice.gn, trees)),
                    None => drop(log.unconfirmed.insert(choice.gn)),
                }
            }
            log.found = Some(log.recorded.clone()).filter(|plan| !plan.chosen.is_empty());
        }
        log
    }

    /// Returns the choices of an earlier route service, once, if there are any of our scheme.
    pub(crate) fn take_recorded(&mut self) -> Option<RecordedPlan> {
        self.found.take()
    }

    /// Notes that the plan may have changed.
    pub(crate) fn plan_changed(&mut self) {
        self.is_behind = true;
    }

    /// Makes the choices of the plan durable; call it before they are programmed.
    pub(crate) async fn record(
        &mut self,
        planner: &Planner,
        directory: &DirectoryCache,
    ) -> Result<(), RecordError> {
        if !self.is_behind {
            return Ok(());
        }
        let now = RecordedPlan { failed: directory.failed.clone(), chosen: planner.choices() };
        let (changed, removed) = self.difference(&now.chosen);
        let nothing = changed.is_empty() && removed.is_empty();
        let settled = match self.state {
            State::Blank => nothing,
            // Without choices the failed parts do not matter.
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
                seen_revision: directory.revision,
                ..v1::RecordRouteChoicesRequest::default()
            };
            self.unconfirmed.extend(changed.iter().map(|choice| choice.gn));
            self.unconfirmed.extend(&removed);
            self.send(wire::messages(first, changed, removed)).await?;
        }
        self.unconfirmed.clear();
        (self.recorded, self.state) = match self.state {
            State::Blank if settled => (now, State::Blank),
            State::Blank | State::Foreign | State::Ours => (now, State::Ours),
        };
        self.is_behind = false;
        Ok(())
    }

    /// GNs whose choices the TIC does not have, and GNs of which it should have none.
    fn difference(&self, now: &Chosen) -> (Vec<u64>, Vec<u64>) {
        let is_new = |(gn, trees): &(&u64, &Vec<ChosenTree>)| {
            self.unconfirmed.contains(gn) || self.recorded.chosen.get(gn) != Some(trees)
        };
        let changed = now.iter().filter(is_new).map(|(gn, _)| *gn).collect();
        let known: BTreeSet<&u64> = self.recorded.chosen.keys().chain(&self.unconfirmed).collect();
        let removed = known.into_iter().filter(|gn| !now.contains_key(gn)).copied().collect();
        (changed, removed)
    }

    async fn send(&self, messages: Vec<v1::RecordRouteChoicesRequest>) -> Result<(), RecordError> {
        self.environment.record_choices(messages).await.map_err(|error| {
            // A number that this service has not reached yet was used in its term: only with
            // another term can it go on.
            if matches!(error.reason(), Some(Reason::StaleTerm | Reason::StaleFence)) {
                RecordError::Deposed
            } else if error.reason() == Some(Reason::TopologyDiffers) {
                RecordError::OtherTopology
            } else {
                RecordError::Failed { message: error.message().to_owned() }
            }
        })
    }
}

type Read = (Option<v1::RouteChoiceScheme>, Vec<v1::Element>, Vec<v1::RouteChoice>);

async fn read<O: Environment>(environment: &O) -> Result<Read, RpcError> {
    let mut choices = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = v1::ListRouteChoicesRequest { page_size: PAGE_SIZE, page_token };
        let page = environment.list_choices(request).await?;
        choices.extend(page.choices);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok((page.scheme, page.failed_elements, choices));
        }
    }
}
