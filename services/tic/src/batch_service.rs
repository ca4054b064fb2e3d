//! `GroupBatchService`: whole batches, each checked here and decided by the writer piece by piece.

use std::sync::Arc;

use fabricast_groups::command::{Answer, Command, DeleteJobGroups, JobEnd};
use fabricast_groups::directory::Directory;
use fabricast_groups::names::JobName;
use fabricast_proto::v1;
use fabricast_rpc::{Caller, Reason, refusal_to_wire};
use fabricast_telemetry::traces::Origin;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::batches::{Batch, Portion};
use crate::fields;
use crate::members;
use crate::orders::{Done, Work};
use crate::service::{Tic, mismatch};

/// Batches that may be read or formed at a time; each is held in memory.
const BATCHES: usize = 4;
/// Answers that may wait for whoever sent the batch; then forming waits, too.
const ANSWERS: usize = 8;
/// Joins or leaves in one call.
const MANY: usize = 10_000;
/// Members with which an answer about many groups is full.
const FOUND: usize = 4_096;
/// Records that the end of a job may change in one decision, unless its next group has more.
const ENDS: usize = 4_096;

/// The service; cloning it is cheap.
#[derive(Clone, Debug)]
pub(crate) struct GroupBatches {
    tic: Tic,
    batches: Arc<Semaphore>,
}

impl GroupBatches {
    pub(crate) fn new(tic: Tic) -> Self {
        Self { tic, batches: Arc::new(Semaphore::new(BATCHES)) }
    }

    /// Cuts a batch into portions that the records would take as they are.
    ///
    /// That is work for seconds, so it is not done where calls are answered and nodes are watched,
    /// but on a thread of its own; and portion by portion, so that the writer gets its turn in between.
    async fn checked(&self, batch: Batch) -> Result<Vec<Portion>, Status> {
        let records = Arc::clone(&self.tic.records);
        let checking = tokio::task::spawn_blocking(move || {
            let portions = batch.cut()?;
            for portion in &portions {
                records.read(|directory| portion.check(directory))?;
            }
            Ok(portions)
        });
        checking.await.map_err(|_panic| mismatch())?
    }

    /// Has all of it decided at once and waits for each.
    async fn many<A>(
        &self,
        commands: Vec<Result<Command, Status>>,
        read: impl Fn(Answer) -> Result<A, Status>,
    ) -> Vec<Result<A, Status>> {
        let placed: Vec<_> = commands
            .into_iter()
            .map(|command| self.tic.orders.send(Work::Decide(command?)))
            .collect();
        let mut answers = Vec::with_capacity(placed.len());
        for order in placed {
            let done = match order {
                Ok(order) => order.done().await,
                Err(refused) => Err(refused),
            };
            answers.push(match done {
                Ok(Done::Decided { answer, .. }) => read(*answer),
                Ok(_) => Err(mismatch()),
                Err(status) => Err(status),
            });
        }
        answers
    }
}

/// Refuses an empty call, and one that is too long.
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

/// Forms portion after portion, answering each, until one is refused or nobody listens.
async fn form(
    tic: Tic,
    portions: Vec<Portion>,
    answers: mpsc::Sender<Result<v1::FormGroupsResponse, Status>>,
    _permit: OwnedSemaphorePermit,
) {
    let last = portions.last();
    let count = last.map_or(0, |portion| portion.first + portion.request.groups.len());
    let group_count = u32::try_from(count).unwrap_or(u32::MAX);
    let mut formed_count = 0;
    for portion in portions {
        let command = Command::FormGroups(Arc::clone(&portion.request));
        let (groups, refused) = match tic.decide(command).await {
            Ok((Answer::Formed(formed), _)) => portion.formed(formed),
            Ok(_) => (Vec::new(), Some(mismatch())),
            Err(status) => (Vec::new(), Some(status)),
        };
        if !groups.is_empty() {
            formed_count += u32::try_from(groups.len()).unwrap_or(u32::MAX);
            let answer = v1::FormGroupsResponse { groups, formed_count, group_count };
            if answers.send(Ok(answer)).await.is_err() {
                return;
            }
        }
        if let Some(status) = refused {
            // If nobody listens, nobody is told.
            let _ = answers.send(Err(status)).await;
            return;
        }
    }
}

#[tonic::async_trait]
impl v1::group_batch_service_server::GroupBatchService for GroupBatches {
    type FormGroupsStream = ReceiverStream<Result<v1::FormGroupsResponse, Status>>;

    async fn form_groups(
        &self,
        request: Request<Streaming<v1::FormGroupsRequest>>,
    ) -> Result<Response<Self::FormGroupsStream>, Status> {
        let permit = Arc::clone(&self.batches).try_acquire_owned().map_err(|_none| {
            Reason::LimitReached.status(format!("{BATCHES} batches are being formed"), &[])
        })?;
        let limits = self.tic.records.read(|directory| directory.limits().clone());
        let caller = Caller::of(request.extensions());
        let mut messages = request.into_inner();
        let batch = Batch::read(&mut messages, &self.tic.graph, limits.batch).await?;
        if batch.len() > limits.groups {
            let message = format!("groups: {}, at most {} may exist", batch.len(), limits.groups);
            return Err(Reason::LimitReached.status(message, &[("limit", "groups")]));
        }
        let portions = self.checked(batch).await?;
        let mut names = portions.iter().flat_map(|portion| &portion.request.groups);
        names.try_for_each(|group| caller.check_group(group.group.name.as_str()))?;
        let (sender, answers) = mpsc::channel(ANSWERS);
        tokio::spawn(Origin::kept().cover(form(self.tic.clone(), portions, sender, permit)));
        Ok(Response::new(ReceiverStream::new(answers)))
    }

    async fn delete_job_groups(
        &self,
        request: Request<v1::DeleteJobGroupsRequest>,
    ) -> Result<Response<v1::DeleteJobGroupsResponse>, Status> {
        let request = request.into_inner();
        let mut wish = DeleteJobGroups {
            request_id: fields::request_id(&request.request_id)?,
            job: fields::name("job", &request.job, JobName::new)?,
            before: self.tic.records.read(Directory::next_gn),
            most: ENDS,
            ended: JobEnd::default(),
        };
        loop {
            let (answer, _) = self.tic.decide(Command::DeleteJobGroups(wish.clone())).await?;
            let Answer::JobGroupsDeleted { ended, done } = answer else { return Err(mismatch()) };
            wish.ended = ended;
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
        let commands = joins.into_iter().map(|join| self.tic.join_command(join)).collect();
        let joined = self.many(commands, |answer| self.tic.joined(answer)).await;
        let end = |joined: Result<_, Status>| match joined {
            Ok(joined) => End::Joined(joined),
            Err(status) => End::Refusal(refusal_to_wire(&status)),
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
        for get in gets {
            let end = match self.tic.look_up(&caller, &get) {
                Ok(found) => {
                    members += found.group.as_ref().map_or(0, |group| group.members.len());
                    End::Found(found)
                }
                Err(status) => End::Refusal(refusal_to_wire(&status)),
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
        let commands = leaves.iter().map(members::leave_command).collect();
        let left = self.many(commands, |answer| members::left(&answer)).await;
        let end = |left: Result<_, Status>| match left {
            Ok(left) => End::Left(left),
            Err(status) => End::Refusal(refusal_to_wire(&status)),
        };
        let answers = left.into_iter().map(|one| v1::LeaveAnswer { answer: Some(end(one)) });
        Ok(Response::new(v1::LeaveManyResponse { answers: answers.collect() }))
    }
}
