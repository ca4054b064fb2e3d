//! Portions of one batch that wait for the writer together; none is formed after one that is not.
//!
//! The writer decides a portion while those before it are not durable yet. A portion that it
//! refuses, that the store does not take, or whose answer nobody waits for breaks the chain, before
//! the writer decides the next one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fabricast_groups::command::{FormGroups, Formed, Refusal};

use crate::writer::error::WriteError;
use crate::writer::queue::WriteRequest;
use crate::writer::state::{BatchWrites, WriterState};

/// The portions of a batch; dropped, it ends the batch.
#[derive(Debug, Default)]
pub(crate) struct PortionChain {
    is_broken: Arc<AtomicBool>,
}

impl PortionChain {
    /// The request that forms the groups of the next portion.
    pub(crate) fn next(&self, request: Arc<FormGroups>) -> FormPortion {
        let link = ChainLink { is_broken: Arc::clone(&self.is_broken), is_formed: false };
        FormPortion { request, link }
    }
}

impl Drop for PortionChain {
    fn drop(&mut self) {
        self.is_broken.store(true, Ordering::Release);
    }
}

/// Place of a portion in its chain; dropped before the portion is formed, it breaks the chain.
#[derive(Debug)]
struct ChainLink {
    is_broken: Arc<AtomicBool>,
    is_formed: bool,
}

impl Drop for ChainLink {
    fn drop(&mut self) {
        if !self.is_formed {
            self.is_broken.store(true, Ordering::Release);
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
        if link.is_broken.load(Ordering::Acquire) {
            return Ok(None);
        }
        let answers = state.decide(request, writes)?.answer;
        if answers.iter().any(Result::is_err) {
            // The next portion may be decided before anybody has taken the answers.
            link.is_broken.store(true, Ordering::Release);
        }
        Ok(Some(FormedPortion { answers, link }))
    }
}
