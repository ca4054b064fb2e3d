//! Portions of one batch that wait for the writer together; none is formed after one that is not.
//!
//! The writer decides a portion while those before it are not durable yet. A portion that it
//! refuses, that the store does not take, or whose answer nobody waits for breaks the chain, before
//! the writer decides the next one. So does one that the queue does not take; those before it are
//! formed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fabricast_groups::command::{FormGroups, Formed, Refusal};

use crate::writer::error::WriteError;
use crate::writer::queue::WriteRequest;
use crate::writer::state::{BatchWrites, WriterState};

/// The portions of a batch; dropped, it ends the batch.
#[derive(Debug)]
pub(crate) struct PortionChain {
    broken_at: Arc<AtomicUsize>,
    /// Portions so far.
    count: usize,
}

impl PortionChain {
    pub(crate) fn new() -> Self {
        Self { broken_at: Arc::new(AtomicUsize::new(usize::MAX)), count: 0 }
    }

    /// The request that forms the groups of the next portion.
    pub(crate) fn next(&mut self, request: Arc<FormGroups>) -> FormPortion {
        let broken_at = Arc::clone(&self.broken_at);
        let link = ChainLink { broken_at, place: self.count, is_formed: false };
        self.count += 1;
        FormPortion { request, link }
    }
}

impl Drop for PortionChain {
    fn drop(&mut self) {
        self.broken_at.store(0, Ordering::Release);
    }
}

/// Place of a portion in its chain; dropped before the portion is formed, it breaks the chain.
#[derive(Debug)]
struct ChainLink {
    /// Lowest place that broke the chain: no portion from there on is formed.
    broken_at: Arc<AtomicUsize>,
    place: usize,
    is_formed: bool,
}

impl ChainLink {
    fn is_broken(&self) -> bool {
        self.broken_at.load(Ordering::Acquire) <= self.place
    }

    fn break_chain(&self) {
        self.broken_at.fetch_min(self.place, Ordering::Release);
    }
}

impl Drop for ChainLink {
    fn drop(&mut self) {
        if !self.is_formed {
            self.break_chain();
        }
    }
}

/// Forms the groups of a portion, unless the chain is broken; then it replies with nothing.
#[derive(Debug)]
pub(crate) struct FormPortion {
    request: Arc<FormGroups>,
    link: ChainLink,
}

/// A portion that is durable, but for the groups that were refused.
#[derive(Debug)]
pub(crate) struct FormedPortion {
    answers: Vec<Result<Formed, Refusal>>,
    link: ChainLink,
}

impl FormedPortion {
    /// Takes the answers, one for each group. The chain goes on unless one is a refusal.
    pub(crate) fn into_answers(self) -> Vec<Result<Formed, Refusal>> {
        let Self { answers, mut link } = self;
        link.is_formed = answers.iter().all(Result::is_ok);
        answers
    }
}

impl WriteRequest for FormPortion {
    type Reply = Option<FormedPortion>;

    fn decide(
        self,
        state: &mut WriterState,
        writes: &mut BatchWrites,
    ) -> Result<Self::Reply, WriteError> {
        let Self { request, link } = self;
        if link.is_broken() {
            return Ok(None);
        }
        let answers = state.decide(request, writes)?.answer;
        if answers.iter().any(Result::is_err) {
            // The next portion may be decided before anybody has taken the answers.
            link.break_chain();
        }
        Ok(Some(FormedPortion { answers, link }))
    }
}

#[cfg(test)]
mod tests {
    use fabricast_groups::names::RequestId;

    use super::*;

    #[test]
    fn a_portion_that_the_queue_does_not_take_is_no_reason_not_to_form_those_before_it() {
        let mut chain = PortionChain::new();
        let [before, not_taken, after] = [(); 3].map(|()| {
            let request_id = RequestId::new("batch#0").unwrap();
            chain.next(Arc::new(FormGroups { request_id, groups: Vec::new() }))
        });
        drop(not_taken);
        assert!(!before.link.is_broken());
        assert!(after.link.is_broken());
        drop(chain);
        assert!(before.link.is_broken(), "nobody waits for it");
    }
}
