//! The way to the collector: a bounded queue, and a thread of its own that sends what is in it.
//!
//! A thread, since runtimes come and go with the commands of the command line, and so that a busy runtime does not hold
//! up what is said about it. What does not fit into the queue, and what the collector does not take in time, is dropped
//! and counted; that it happens is said when it begins and when it ends.

use std::io;
use std::sync::mpsc as threads;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanProcessor};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use tonic::transport::{Channel, Endpoint};

use crate::metrics::{TRACES_DROPPED, TRACES_EXPORTED};

/// Spans that may wait.
const QUEUE: usize = 8_192;
/// Spans in one message.
const BATCH: usize = 512;
/// A span waits no longer for others to go with.
const GATHER: Duration = Duration::from_millis(200);
const CONNECT: Duration = Duration::from_secs(1);
/// A message that is not taken by then is given up.
const PATIENCE: Duration = Duration::from_secs(5);

/// The end that spans are put in.
#[derive(Debug)]
pub(crate) struct Exporter {
    queue: mpsc::Sender<SpanData>,
}

/// Asks that everything be sent now.
#[derive(Debug)]
pub(crate) struct Flush(mpsc::UnboundedSender<threads::SyncSender<()>>);

/// The other end.
struct Sending {
    client: TraceServiceClient<Channel>,
    resource: ResourceAttributesWithSchema,
    /// Whether the collector takes what it is sent.
    taken: bool,
}

impl Exporter {
    /// Starts the thread; it ends when nobody can put anything in any more.
    pub(crate) fn start(collector: http::Uri, resource: &Resource) -> io::Result<(Self, Flush)> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (queue, mut spans) = mpsc::channel(QUEUE);
        let (asking, mut flushes) = mpsc::unbounded_channel();
        let resource = ResourceAttributesWithSchema::from(resource);
        std::thread::Builder::new().name("traces".to_owned()).spawn(move || {
            runtime.block_on(async move {
                let endpoint = Endpoint::from(collector).connect_timeout(CONNECT).timeout(PATIENCE);
                let client = TraceServiceClient::new(endpoint.connect_lazy());
                let mut sending = Sending { client, resource, taken: true };
                while sending.turn(&mut spans, &mut flushes).await {}
            });
        })?;
        Ok((Self { queue }, Flush(asking)))
    }
}

impl Flush {
    /// Waits until everything is sent, but no longer than `patience`; whether it was. What was not is lost with the
    /// process.
    pub(crate) fn flush(&self, patience: Duration) -> bool {
        let (done, wait) = threads::sync_channel(1);
        self.0.send(done).is_ok() && wait.recv_timeout(patience).is_ok()
    }
}

impl SpanProcessor for Exporter {
    fn on_start(&self, _span: &mut Span, _context: &opentelemetry::Context) {}

    fn on_end(&self, span: SpanData) {
        if self.queue.try_send(span).is_err() {
            TRACES_DROPPED.add(1);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }
}

impl Sending {
    /// Gathers some spans and sends them; `false` when there will be no more.
    async fn turn(
        &mut self,
        spans: &mut mpsc::Receiver<SpanData>,
        flushes: &mut mpsc::UnboundedReceiver<threads::SyncSender<()>>,
    ) -> bool {
        let first = tokio::select! {
            biased;
            Some(done) = flushes.recv() => {
                while let Some(batch) = rest(spans) {
                    self.send(batch).await;
                }
                // Whoever asked may have given up.
                let _ = done.send(());
                return true;
            }
            first = spans.recv() => first,
        };
        let Some(first) = first else { return false };
        let mut batch = vec![first];
        let until = Instant::now() + GATHER;
        while batch.len() < BATCH && flushes.is_empty() {
            match timeout_at(until, spans.recv()).await {
                Ok(Some(span)) => batch.push(span),
                Ok(None) | Err(_) => break,
            }
        }
        self.send(batch).await;
        true
    }

    async fn send(&mut self, batch: Vec<SpanData>) {
        let count = batch.len() as u64;
        let resource_spans = group_spans_by_resource_and_scope(batch, &self.resource);
        let sent = self.client.export(ExportTraceServiceRequest { resource_spans }).await;
        let lost = match &sent {
            Ok(answer) => {
                let refused = answer.get_ref().partial_success.as_ref();
                refused.map_or(0, |some| u64::try_from(some.rejected_spans).unwrap_or(0)).min(count)
            }
            Err(_) => count,
        };
        TRACES_DROPPED.add(lost);
        TRACES_EXPORTED.add(count - lost);
        match (&sent, self.taken) {
            (Err(status), true) => {
                self.taken = false;
                let error = status.message();
                tracing::warn!(error, "the collector does not take traces, they are dropped");
            }
            (Ok(_), false) => {
                self.taken = true;
                tracing::info!("the collector takes traces again");
            }
            (Ok(_), true) | (Err(_), false) => {}
        }
    }
}

/// What waits, as far as it goes into one message.
fn rest(spans: &mut mpsc::Receiver<SpanData>) -> Option<Vec<SpanData>> {
    let mut batch = Vec::new();
    while batch.len() < BATCH
        && let Ok(span) = spans.try_recv()
    {
        batch.push(span);
    }
    (!batch.is_empty()).then_some(batch)
}
