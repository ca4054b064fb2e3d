//! Calls under way. The state machines repeat a question until it is answered; a repetition while
//! the call is still out is dropped, so that a slow peer is not buried in copies of one question.

use std::collections::BTreeSet;

use fabricast_groups::ids::Incarnation;
use fabricast_groups::names::NodeName;
use fabricast_groups::operating::CallId;

use crate::host::{Host, lock};

/// What makes two calls the same question.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Question {
    /// A process's join or leave, in a life of its node.
    Call(NodeName, Incarnation, CallId),
    /// The news that a node has failed.
    Failure(NodeName, NodeName, Incarnation),
    /// The report to the agents at an address.
    Report(String),
    /// The report to the TIC.
    Status,
}

/// Takes the question off the list when the call is over, however it ended.
pub(crate) struct Asking<'a> {
    host: &'a Host,
    question: Question,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        lock(&self.host.0.questions).remove(&self.question);
    }
}

/// The questions that are out.
pub(crate) type Questions = BTreeSet<Question>;

impl Host {
    /// Sorts out those whose question is out already; the others' questions are out until the
    /// second half of the answer is dropped.
    pub(crate) fn not_out<T>(
        &self,
        asked: Vec<T>,
        question: impl Fn(&T) -> Question,
    ) -> (Vec<T>, Vec<Asking<'_>>) {
        let mut questions = lock(&self.0.questions);
        let mut asking = Vec::new();
        let mut fresh = asked;
        fresh.retain(|one| {
            let question = question(one);
            let new = questions.insert(question.clone());
            if new {
                asking.push(Asking { host: self, question });
            }
            new
        });
        (fresh, asking)
    }

    /// Makes a call, unless the same question is out already; `None` if it is.
    ///
    /// The question counts as answered before the caller sees the answer: what the answer gives
    /// rise to may be the same question again.
    pub(crate) async fn ask<F: Future>(&self, question: Question, call: F) -> Option<F::Output> {
        if !lock(&self.0.questions).insert(question.clone()) {
            return None;
        }
        let _asking = Asking { host: self, question };
        Some(call.await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::tests::host;

    #[tokio::test]
    async fn a_question_that_is_out_is_not_put_twice() {
        let (host, node) = host();
        let question = |life| Question::Failure(node.clone(), node.clone(), Incarnation(life));
        let (answer, answered) = tokio::sync::oneshot::channel();
        let first = host.ask(question(1), answered);
        let others = async {
            assert_eq!(host.ask(question(1), async { 2 }).await, None);
            assert_eq!(host.ask(question(2), async { 3 }).await, Some(3), "another one");
            answer.send(1).unwrap();
        };
        let (first, ()) = tokio::join!(first, others);
        assert_eq!(first, Some(Ok(1)));
        assert_eq!(host.ask(question(1), async { 4 }).await, Some(4), "it is answered");
        drop(host.ask(question(1), std::future::pending::<()>()));
        assert!(lock(&host.0.questions).is_empty());
    }
}
