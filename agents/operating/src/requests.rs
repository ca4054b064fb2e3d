//! Joins and leaves on their way to the TIC: what is due at one moment goes in one call.

use fabricast_groups::Refusal;
use fabricast_groups::command::{Join, Leave};
use fabricast_groups::ids::{Gn, Pn, Revision};
use fabricast_groups::names::NodeName;
use fabricast_groups::operating::CallId;
use fabricast_proto::v1;
use fabricast_proto::v1::group_batch_service_client::GroupBatchServiceClient;
use fabricast_rpc::{LeaderChannel, refusal_from_wire};
use fabricast_telemetry::traces::{self, Origins};
use tonic::Status;

use crate::host::Host;
use crate::questions::Question;
use crate::tic_wire::{self, Verdict};

/// Joins or leaves in one call.
const PER_CALL: usize = 4_096;

/// Questions of processes that are due.
#[derive(Debug, Default)]
pub(crate) struct Many {
    pub(crate) joins: Vec<(NodeName, CallId, Join)>,
    pub(crate) leaves: Vec<(NodeName, CallId, Leave)>,
}

impl Host {
    /// Puts the questions to the TIC; returns at once.
    pub(crate) fn put(&self, questions: Many) {
        let Many { mut joins, mut leaves } = questions;
        while !joins.is_empty() {
            let rest = joins.split_off(joins.len().min(PER_CALL));
            let some = std::mem::replace(&mut joins, rest);
            let span = self.origins(some.iter().map(|(node, id, _)| (node, *id))).span("join");
            self.spawn(|host| async move { span.origin().cover(host.join(some)).await });
        }
        while !leaves.is_empty() {
            let rest = leaves.split_off(leaves.len().min(PER_CALL));
            let some = std::mem::replace(&mut leaves, rest);
            let span = self.origins(some.iter().map(|(node, id, _)| (node, *id))).span("leave");
            self.spawn(|host| async move { span.origin().cover(host.leave(some)).await });
        }
    }

    /// The traced requests that calls come of.
    fn origins<'a>(&self, calls: impl Iterator<Item = (&'a NodeName, CallId)>) -> Origins {
        if !traces::is_on() {
            return Origins::default();
        }
        let state = self.state();
        let of_call = |(node, id): (&NodeName, CallId)| state.waiting.get(&(node.clone(), id));
        calls.filter_map(of_call).map(|(_, origin)| origin.clone()).collect()
    }

    pub(crate) fn tic_batches(&self) -> GroupBatchServiceClient<LeaderChannel> {
        GroupBatchServiceClient::new(self.0.tic.channel())
            .max_decoding_message_size(fabricast_group::MESSAGE_LIMIT)
    }

    async fn join(self, joins: Vec<(NodeName, CallId, Join)>) {
        let question = |(node, id, join): &(NodeName, CallId, Join)| {
            Question::Call(node.clone(), join.member.incarnation, *id)
        };
        let (joins, asking) = self.not_out(joins, question);
        let requests: Vec<_> =
            joins.iter().map(|(_, _, join)| tic_wire::join_request(join)).collect();
        let answers = match <[_; 1]>::try_from(requests) {
            Ok([request]) => {
                let answer = self.tic().join_group(request).await;
                Ok(vec![answer.map(tonic::Response::into_inner)])
            }
            Err(requests) if requests.is_empty() => return,
            Err(joins) => {
                let answer = self.tic_batches().join_many(v1::JoinManyRequest { joins }).await;
                answer.map(|answer| answer.into_inner().answers.into_iter().map(joined).collect())
            }
        };
        drop(asking);
        for ((node, id, _), answer) in joins.into_iter().zip(spread(answers)) {
            let answer = answer.and_then(|answer| tic_wire::joined(&answer));
            if let Some(answer) = self.judge(&node, id, answer) {
                self.input(&node, |agent, now| agent.join_answered(now, id, answer));
            }
        }
    }

    async fn leave(self, leaves: Vec<(NodeName, CallId, Leave)>) {
        let question = |(node, id, leave): &(NodeName, CallId, Leave)| {
            Question::Call(node.clone(), leave.incarnation, *id)
        };
        let (leaves, asking) = self.not_out(leaves, question);
        let requests: Vec<_> =
            leaves.iter().map(|(_, _, leave)| tic_wire::leave_request(leave)).collect();
        let answers = match <[_; 1]>::try_from(requests) {
            Ok([request]) => {
                let answer = self.tic().leave_group(request).await;
                Ok(vec![answer.map(tonic::Response::into_inner)])
            }
            Err(requests) if requests.is_empty() => return,
            Err(leaves) => {
                let answer = self.tic_batches().leave_many(v1::LeaveManyRequest { leaves }).await;
                answer.map(|answer| answer.into_inner().answers.into_iter().map(left).collect())
            }
        };
        drop(asking);
        for ((node, id, _), answer) in leaves.into_iter().zip(spread(answers)) {
            let answer = answer.map(|left| (Gn(left.gn), Pn(left.pn), Revision(left.revision)));
            if let Some(answer) = self.judge(&node, id, answer) {
                self.input(&node, |agent, _now| agent.leave_answered(id, answer));
            }
        }
    }

    /// Sorts the answer to a process's call and notes what was said; `None` if it is to be repeated.
    fn judge<T>(
        &self,
        node: &NodeName,
        id: CallId,
        answer: Result<T, Status>,
    ) -> Option<Result<T, Refusal>> {
        let status = match answer {
            Ok(answer) => {
                self.note(node, id, None);
                return Some(Ok(answer));
            }
            Err(status) => status,
        };
        match tic_wire::verdict(node, &status) {
            Verdict::Unclear => {
                self.note(node, id, Some(status));
                None
            }
            Verdict::Life(refusal) => Some(Err(refusal)),
            Verdict::Final(refusal) => {
                self.note(node, id, Some(status));
                Some(Err(refusal))
            }
        }
    }
}

/// The answers one by one; that all of them are missing is said to each.
pub(crate) fn spread<T>(
    answers: Result<Vec<Result<T, Status>>, Status>,
) -> impl Iterator<Item = Result<T, Status>> {
    let (some, lost) = match answers {
        Ok(some) => (some, Status::unavailable("the TIC answered others only")),
        Err(status) => (Vec::new(), status),
    };
    some.into_iter().chain(std::iter::repeat_with(move || Err(lost.clone())))
}

fn joined(answer: v1::JoinAnswer) -> Result<v1::JoinGroupResponse, Status> {
    match answer.answer {
        Some(v1::join_answer::Answer::Joined(joined)) => Ok(joined),
        Some(v1::join_answer::Answer::Refusal(refusal)) => Err(refusal_from_wire(&refusal)),
        None => Err(Status::unavailable("the TIC did not answer this join")),
    }
}

fn left(answer: v1::LeaveAnswer) -> Result<v1::LeaveGroupResponse, Status> {
    match answer.answer {
        Some(v1::leave_answer::Answer::Left(left)) => Ok(left),
        Some(v1::leave_answer::Answer::Refusal(refusal)) => Err(refusal_from_wire(&refusal)),
        None => Err(Status::unavailable("the TIC did not answer this leave")),
    }
}
