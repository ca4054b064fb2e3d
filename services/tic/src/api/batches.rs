//! `GroupBatchService`: many groups, joins or leaves with one call.

use std::collections::VecDeque;
use std::sync::Arc;

use fabricast_groups::command::{DeleteJobGroups, JobEnd};
use fabricast_groups::directory::Directory;
use fabricast_groups::names::JobName;
use fabricast_proto::v1;
use fabricast_rpc::{CallCost, Caller, Reason, client_key, give_turn};
use fabricast_telemetry::traces::Origin;
use fabricast_wire::encode_refusal;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::api::batch::{self, Batch, Portion};
use crate::api::batch_limits::{
    BATCH_TIMEOUT, BatchPermits, CallerTime, MESSAGE_TIMEOUT, PacedMessages,
};
use crate::api::tic::Tic;
use crate::api::{fields, members, status};
use crate::writer::directory::{Decided, DirectoryRequest, JobGroupsDeleted};
use crate::writer::portions::PortionChain;

/// Answers that may wait for the caller; then forming waits too.
const ANSWERS: usize = 8;
/// Most joins or leaves in one call.
const MANY: usize = 10_000;
/// Joins or leaves of one call that wait for the writer at a time: two of its batches.
const UNANSWERED: usize = 1_024;
/// Portions of one batch that wait for the writer at a time, more than it decides before it writes.
const PORTIONS: usize = 8;
/// Members at which an answer about many groups is full.
const FOUND: usize = 4_096;
/// Records that the end of a job changes in one decision, unless one group has more.
const ENDS: usize = 4_096;

/// The service; cloning it is cheap.
#[derive(Clone, Debug)]
pub(crate) struct GroupBatches {
    tic: Tic,
    permits: Arc<BatchPermits>,
}

impl GroupBatches {
    pub(crate) fn new(tic: Tic) -> Self {
        Self { tic, permits: Arc::default() }
    }

    /// Cuts a batch into portions that the present records would accept.
    ///
    /// That may take seconds, so it runs on a thread of its own, and locks the records for one
    /// portion at a time.
    async fn checked(&self, batch: Batch, caller: &mut CallerTime) -> Result<Vec<Portion>, Status> {
        let records = Arc::clone(&self.tic.records);
        let Some(turn) = caller.wait(BATCH_TIMEOUT, CallCost::current().turn()).await else {
            let busy = "other work of this client takes too long, and others wait to form batches";
            return Err(Reason::LimitReached.status(busy, &[("limit", "batch")]));
        };
        let checking = turn.run(move || {
            let portions = batch.cut()?;
            for portion in &portions {
                records.read(|directory| portion.check(directory))?;
            }
            Ok(portions)
        });
        checking.await.map_err(|_panic| status::panicked("the check of the batch"))?
    }

    /// Notes the MGIDs that are best for all groups of a batch together; the writer takes each one
    /// that is still free then.
    async fn planned(&self, mut portions: Vec<Portion>, caller: &mut CallerTime) -> Vec<Portion> {
        let outlines = batch::outlines(&portions);
        // Without a plan the writer chooses one by one.
        let turn = caller.wait(BATCH_TIMEOUT, CallCost::current().turn()).await;
        let Some(turn) = turn else { return portions };
        // The writer refuses a change that became impossible since the check, and names the group.
        let Ok(choices) = self.tic.plan(turn, outlines).await else { return portions };
        let mut choices = choices.into_iter();
        let mut goes_on = false;
        for portion in &mut portions {
            // The first group has its MGID already if it goes on from the last portion.
            let new = usize::from(goes_on);
            for group in Arc::make_mut(&mut portion.request).groups.iter_mut().skip(new) {
                group.group.hints.planned = choices.next().map(|choice| choice.mgid);
            }
            goes_on = portion.goes_on;
        }
        portions
    }

    /// Sends all requests to the writer and waits for each reply; [`UNANSWERED`] at a time, so that
    /// a long call needs no more of the queue than others.
    async fn write_all<R: DirectoryRequest>(
        &self,
        requests: Vec<Result<R, Status>>,
    ) -> Vec<Result<R::Answer, Status>> {
        let count = requests.len();
        let mut requests = requests.into_iter();
        let send = |request: Result<R, Status>| Ok(self.tic.queue.send(request?)?);
        let mut sent: VecDeque<_> = requests.by_ref().take(UNANSWERED).map(send).collect();
        let mut answers = Vec::with_capacity(count);
        while let Some(pending) = sent.pop_front() {
            answers.push(match pending {
                Ok(pending) => {
                    pending.reply().await.map(|Decided { answer, .. }| answer).map_err(Status::from)
                }
                Err(refused) => Err(refused),
            });
            sent.extend(requests.next().map(send));
        }
        answers
    }
}

/// Refuses an empty call, and one with too many items.
fn bounded(field: &str, count: usize) -> Result<(), Status> {
    match count {
        0 => Err(fields::missing(field)),
        count if count > MANY => {
            let message = format!("{field}: {count}, at most {MANY} go into one call");
            Err(Reason::LimitReached.status(message, &[("field", field)]))
        }
        _ => Ok(()),
    }
}

type Answer = Result<v1::FormGroupsResponse, Status>;

/// The answers to the caller of a batch.
struct Answers {
    sender: mpsc::Sender<Answer>,
    /// Place for the reason why the batch ends early.
    last: mpsc::OwnedPermit<Answer>,
    caller: CallerTime,
}

impl Answers {
    async fn open(caller: CallerTime) -> Result<(Self, mpsc::Receiver<Answer>), Status> {
        let (sender, taken) = mpsc::channel(ANSWERS + 1);
        let last = sender.clone().reserve_owned().await;
        let last = last.map_err(|_closed| status::panicked("the batch"))?;
        Ok((Self { sender, last, caller }, taken))
    }

    /// Sends an answer.
    ///
    /// # Errors
    ///
    /// `UNAVAILABLE` / `READER_TOO_SLOW` if the caller is gone or takes no answers, which must not
    /// keep others waiting; it may repeat the batch.
    async fn send(&mut self, answer: v1::FormGroupsResponse) -> Result<(), Status> {
        match self.caller.wait(MESSAGE_TIMEOUT, self.sender.send(Ok(answer))).await {
            Some(Ok(())) => Ok(()),
            Some(Err(_)) | None => {
                let late = "answers of the batch were not taken in time: repeat it";
                Err(Reason::ReaderTooSlow.status(late, &[]))
            }
        }
    }

    fn end(self, refused: Status) {
        // A caller that is gone is not missed.
        drop(self.last.send(Err(refused)));
    }
}

/// Forms the portions one after the other and answers each, until one is refused or the caller is
/// gone. The writer has [`PORTIONS`] of them at a time, so that it need not wait for this task.
async fn form(tic: Tic, portions: Vec<Portion>, mut answers: Answers) {
    let last = portions.last();
    let count = last.map_or(0, |portion| portion.first + portion.request.groups.len());
    let group_count = u32::try_from(count).unwrap_or(u32::MAX);
    let mut formed_count = 0;
    let mut chain = PortionChain::new();
    let mut send = |portion: Portion| {
        let pending = tic.queue.send(chain.next(Arc::clone(&portion.request)));
        (portion, pending)
    };
    let mut portions = portions.into_iter();
    let mut sent: VecDeque<_> = portions.by_ref().take(PORTIONS).map(&mut send).collect();
    while let Some((portion, pending)) = sent.pop_front() {
        let reply = match pending {
            Ok(pending) => pending.reply().await,
            Err(error) => Err(error),
        };
        let (groups, refused) = match reply {
            Ok(Some(formed)) => portion.formed(formed.into_answers()),
            Ok(None) => (Vec::new(), Some(status::panicked("the portion before"))),
            Err(error) => (Vec::new(), Some(error.into())),
        };
        if !groups.is_empty() {
            let whole = groups.len() - usize::from(portion.goes_on && refused.is_none());
            formed_count += u32::try_from(whole).unwrap_or(u32::MAX);
            let answer = v1::FormGroupsResponse { groups, formed_count, group_count };
            if let Err(late) = answers.send(answer).await {
                return answers.end(late);
            }
        }
        if let Some(refused) = refused {
            return answers.end(refused);
        }
        sent.extend(portions.next().map(&mut send));
    }
}

#[tonic::async_trait]
impl v1::group_batch_service_server::GroupBatchService for GroupBatches {
    type FormGroupsStream = ReceiverStream<Result<v1::FormGroupsResponse, Status>>;

    async fn form_groups(
        &self,
        request: Request<Streaming<v1::FormGroupsRequest>>,
    ) -> Result<Response<Self::FormGroupsStream>, Status> {
        let limits = self.tic.records.read(|directory| directory.limits().clone());
        let caller = Caller::of(request.extensions());
        let client = client_key(request.extensions());
        let mut messages = PacedMessages::new(Box::pin(request.into_inner()));
        let first = messages.next().await?.ok_or_else(|| fields::missing("request_id"))?;
        // A client that has not begun to send takes no permit, and none that owes processor time.
        drop(CallCost::current().turn().await);
        messages.permit(BatchPermits::take(&self.permits, client).await?);
        let graph = &self.tic.topology.graph;
        let batch = Batch::read(first, &mut messages, graph, limits.batch).await?;
        if batch.len() > limits.groups {
            let message = format!("groups: {}, at most {} may exist", batch.len(), limits.groups);
            return Err(Reason::LimitReached.status(message, &[("limit", "groups")]));
        }
        // Before the records are asked: they may have groups of others by that name.
        batch.names().try_for_each(|name| caller.check_group(name))?;
        let mut caller = messages.into_caller_time();
        let portions = self.checked(batch, &mut caller).await?;
        let portions = self.planned(portions, &mut caller).await;
        let (answers, taken) = Answers::open(caller).await?;
        let forming = form(self.tic.clone(), portions, answers);
        tokio::spawn(Origin::kept().cover(CallCost::current().cover(forming)));
        Ok(Response::new(ReceiverStream::new(taken)))
    }

    async fn delete_job_groups(
        &self,
        request: Request<v1::DeleteJobGroupsRequest>,
    ) -> Result<Response<v1::DeleteJobGroupsResponse>, Status> {
        let asked = request.into_inner();
        let mut request = DeleteJobGroups {
            request_id: fields::request_id(&asked.request_id)?,
            job: fields::name("job", &asked.job, JobName::new)?,
            before: self.tic.records.read(Directory::next_gn),
            most: ENDS,
            ended: JobEnd::default(),
        };
        loop {
            let JobGroupsDeleted { ended, done } =
                self.tic.queue.write(request.clone()).await?.answer;
            request.ended = ended;
            if let Some(revision) = done {
                return Ok(Response::new(v1::DeleteJobGroupsResponse {
                    group_count: ended.groups,
                    membership_count: ended.memberships,
                    revision: revision.0,
                }));
            }
        }
    }

    async fn join_many(
        &self,
        request: Request<v1::JoinManyRequest>,
    ) -> Result<Response<v1::JoinManyResponse>, Status> {
        use v1::join_answer::Answer as End;
        let caller = Caller::of(request.extensions());
        let joins = request.into_inner().joins;
        joins.iter().try_for_each(|join| caller.check_node(&join.node))?;
        bounded("joins", joins.len())?;
        let graph = &self.tic.topology.graph;
        let requests = joins.into_iter().map(|join| members::join(graph, join)).collect();
        let joined = self.write_all(requests).await;
        let end = |joined: Result<_, Status>| match joined {
            Ok(joined) => End::Joined(members::joined(&self.tic.records, &caller, &joined)),
            Err(status) => End::Refusal(encode_refusal(status)),
        };
        let answers = joined.into_iter().map(|one| v1::JoinAnswer { answer: Some(end(one)) });
        Ok(Response::new(v1::JoinManyResponse { answers: answers.collect() }))
    }

    async fn get_many(
        &self,
        request: Request<v1::GetManyRequest>,
    ) -> Result<Response<v1::GetManyResponse>, Status> {
        use v1::get_answer::Answer as End;
        let caller = Caller::of(request.extensions());
        let gets = request.into_inner().gets;
        bounded("gets", gets.len())?;
        let (mut answers, mut members) = (Vec::with_capacity(gets.len()), 0);
        for (index, get) in gets.into_iter().enumerate() {
            give_turn(index).await;
            let end = match members::look_up(&self.tic.records, &caller, &get) {
                Ok(found) => {
                    members += found.group.as_ref().map_or(0, |group| group.members.len());
                    End::Found(found)
                }
                Err(status) => End::Refusal(encode_refusal(status)),
            };
            answers.push(v1::GetAnswer { answer: Some(end) });
            if members >= FOUND {
                break;
            }
        }
        let revision = self.tic.records.read(Directory::revision).0;
        Ok(Response::new(v1::GetManyResponse { answers, revision }))
    }

    async fn leave_many(
        &self,
        request: Request<v1::LeaveManyRequest>,
    ) -> Result<Response<v1::LeaveManyResponse>, Status> {
        use v1::leave_answer::Answer as End;
        let caller = Caller::of(request.extensions());
        let leaves = request.into_inner().leaves;
        leaves.iter().try_for_each(|leave| caller.check_node(&leave.node))?;
        bounded("leaves", leaves.len())?;
        let left = self.write_all(leaves.iter().map(members::leave).collect()).await;
        let end = |left: Result<_, Status>| match left {
            Ok(left) => End::Left(members::left(&left)),
            Err(status) => End::Refusal(encode_refusal(status)),
        };
        let answers = left.into_iter().map(|one| v1::LeaveAnswer { answer: Some(end(one)) });
        Ok(Response::new(v1::LeaveManyResponse { answers: answers.collect() }))
    }
}
