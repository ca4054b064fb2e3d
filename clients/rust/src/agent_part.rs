//! The call through which a member takes part in messages and operations of a group.
//!
//! One task reads the events of the agent, which sends at most as many messages as were requested;
//! more are requested as messages are received.

use std::sync::Arc;

use fabricast_proto::v1;
use fabricast_proto::v1::process_service_client::ProcessServiceClient;
use fabricast_proto::v1::take_part_response::Event;
use prost::Message as _;
use tokio::sync::{Mutex, mpsc, watch};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::Channel;
use tonic::{Response, Streaming};

use crate::Error;
use crate::memory::{Lent, Memory, run_to_end};
use crate::part_state::{End, Message, Seen};
use crate::session::Session;

/// Messages that may be queued in this process; more wait at the agent.
const ROOM: u32 = 32;

/// The call of one member, and the events it has received.
#[derive(Debug)]
pub(crate) struct AgentPart {
    pub(crate) group: String,
    pub(crate) seen: watch::Receiver<Seen>,
    session: u64,
    calls: ProcessServiceClient<Channel>,
    inbox: Mutex<Inbox>,
    requests: mpsc::UnboundedSender<v1::TakePartRequest>,
    reader: tokio::task::AbortHandle,
    memory: Option<PartMemory>,
}

/// Shared memory that payloads come through, and the number of the call there.
#[derive(Clone, Debug)]
struct PartMemory {
    memory: Arc<Memory>,
    number: u64,
}

#[derive(Debug)]
struct Inbox {
    messages: mpsc::UnboundedReceiver<Message>, // at most as many as were requested
    received: u32,                              // since more were requested
}

impl Drop for AgentPart {
    fn drop(&mut self) {
        self.reader.abort();
        if let Some(PartMemory { memory, number }) = &self.memory {
            memory.end_part(*number); // frees what was not read
        }
    }
}

impl AgentPart {
    pub(crate) async fn begin(session: &Session, group: &str) -> Result<Self, Error> {
        let (requests, request_stream) = mpsc::unbounded_channel();
        let memory = session
            .memory()
            .await
            .map(|memory| PartMemory { memory: Arc::clone(memory), number: memory.begin_part() });
        let first = v1::TakePartRequest {
            session: session.number,
            group: group.to_owned(),
            more: ROOM,
            part: memory.as_ref().map_or(0, |memory| memory.number),
        };
        // The receiver still exists: it is in this function.
        let _ = requests.send(first);
        let begun = session.calls().take_part(UnboundedReceiverStream::new(request_stream)).await;
        let mut news = begun.map_err(|error| Error::of_group(group, error))?.into_inner();
        let (seen_sender, seen) = watch::channel(Seen::default());
        let (message_sender, messages) = mpsc::unbounded_channel();
        let shared = memory.as_ref().map(|memory| Arc::clone(&memory.memory));
        let reading = async move {
            let end = read(&mut news, shared.as_deref(), &seen_sender, &message_sender).await;
            seen_sender.send_modify(|seen| seen.end = Some(end));
        };
        let reader = tokio::spawn(reading).abort_handle();
        let inbox = Mutex::new(Inbox { messages, received: 0 });
        let group = group.to_owned();
        let (session, calls) = (session.number, session.calls());
        Ok(Self { group, seen, session, calls, inbox, requests, reader, memory })
    }

    /// Waits for the next message of another member.
    pub(crate) async fn receive(&self) -> Result<Message, Error> {
        let mut inbox = self.inbox.lock().await;
        let message = inbox.messages.recv().await.ok_or_else(|| self.end())?;
        inbox.received += 1;
        if inbox.received >= ROOM / 2 {
            let more = std::mem::take(&mut inbox.received);
            // If the call has ended, the caller learns it once the queue is empty.
            let _ = self.requests.send(v1::TakePartRequest { more, ..Default::default() });
        }
        Ok(message)
    }

    /// Sends a message; returns the ranks that may have it or not.
    pub(crate) async fn send(&self, payload: &[u8], best_effort: bool) -> Result<Vec<u32>, Error> {
        let lent = self.memory.as_ref().and_then(|memory| memory.memory.lend(payload));
        let request = v1::SendMessageRequest {
            session: self.session,
            group: self.group.clone(),
            payload: if lent.is_some() { Vec::new() } else { payload.to_vec() },
            best_effort,
            shared_payload: lent.as_ref().map(Lent::range),
        };
        let mut calls = self.calls.clone();
        let sent = match lent {
            None => calls.send_message(request).await,
            Some(lent) => {
                let sending = async move {
                    let sent = calls.send_message(request).await;
                    drop(lent);
                    sent
                };
                run_to_end(sending).await?
            }
        };
        let sent = sent.map_err(|error| Error::of_group(&self.group, error))?;
        Ok(sent.into_inner().unknown_pns)
    }

    /// Runs an operation to its end.
    pub(crate) async fn run(
        &self,
        operation: v1::GroupOperation,
    ) -> Result<v1::OperationResult, Error> {
        let request = v1::RunOperationRequest {
            session: self.session,
            group: self.group.clone(),
            ..Default::default()
        };
        let mut calls = self.calls.clone();
        let ended = match self.memory.as_ref().map(|memory| Arc::clone(&memory.memory)) {
            None => {
                let request = v1::RunOperationRequest { operation: Some(operation), ..request };
                let ended = calls.run_operation(request).await.map(Response::into_inner);
                ended.map_err(|error| Error::of_group(&self.group, error))?
            }
            Some(memory) => {
                let run = async move { run_through(&memory, &mut calls, request, operation).await };
                run_to_end(run).await??
            }
        };
        Ok(ended.result.unwrap_or_default())
    }

    fn end(&self) -> Error {
        self.seen.borrow().end.clone().unwrap_or(End::Closed).into_error(&self.group)
    }
}

/// Reads events until the call ends; returns the reason.
async fn read(
    news: &mut Streaming<v1::TakePartResponse>,
    memory: Option<&Memory>,
    seen_sender: &watch::Sender<Seen>,
    message_sender: &mpsc::UnboundedSender<Message>,
) -> End {
    loop {
        let event = match news.message().await {
            Ok(Some(news)) => news.event,
            Ok(None) => return End::Closed,
            Err(error) => return End::Failed(error.into()),
        };
        match event {
            Some(Event::Participants(v1::Participants { pns })) => {
                seen_sender.send_modify(|seen| seen.participants = pns);
            }
            Some(Event::Message(v1::GroupMessage { from_pn, payload, shared_payload })) => {
                let payload = match (shared_payload, memory) {
                    (Some(range), Some(memory)) => memory.take(range),
                    (Some(_), None) => Err("no memory is shared".to_owned()),
                    (None, _) => Ok(payload),
                };
                let payload = match payload {
                    Ok(payload) => payload,
                    Err(what) => return End::BadPayload(what),
                };
                // The receiver is dropped together with this task.
                let _ = message_sender.send(Message { sender: from_pn, payload });
            }
            None => {} // an event that this version does not know
        }
    }
}

/// Runs an operation whose long parts go through shared memory.
async fn run_through(
    memory: &Arc<Memory>,
    calls: &mut ProcessServiceClient<Channel>,
    request: v1::RunOperationRequest,
    operation: v1::GroupOperation,
) -> Result<v1::RunOperationResponse, Error> {
    let lent = memory.lend_encoded(&operation);
    let request = v1::RunOperationRequest {
        operation: lent.is_none().then_some(operation),
        shared_operation: lent.as_ref().map(Lent::range),
        ..request
    };
    let group = request.group.clone();
    let ended = calls.run_operation(request).await;
    let mut ended = ended.map_err(|error| Error::of_group(&group, error))?.into_inner();
    drop(lent);
    if let Some(range) = ended.shared_result.take() {
        let encoded = memory.take(range).map_err(Error::bad_answer)?;
        let result = v1::OperationResult::decode(encoded.as_slice());
        let wrong = |error| Error::bad_answer(format!("the agent's memory: {error}"));
        ended.result = Some(result.map_err(wrong)?);
    }
    Ok(ended)
}
