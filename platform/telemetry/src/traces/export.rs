//! Export of spans: a bounded queue, and a thread that sends its contents to the collector.
//!
//! It has a thread of its own because the runtimes of commands are short-lived, and because a busy
//! runtime must not delay the traces that explain it. Spans that do not fit into the queue, or that
//! the collector does not take in time, are dropped and counted; the log says when that begins and
//! ends.

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

/// Length of the queue, in spans.
const QUEUE: usize = 8_192;
/// Spans in one message.
const BATCH: usize = 512;
/// Longest time for which a message is filled.
const BATCH_DELAY: Duration = Duration::from_millis(200);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Timeout of a message.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// The sending end of the queue.
#[derive(Debug)]
pub(crate) struct Exporter {
    queue: mpsc::Sender<SpanData>,
}

/// Requests that all waiting spans be sent at once.
#[derive(Debug)]
pub(crate) struct Flush(mpsc::UnboundedSender<threads::SyncSender<()>>);

/// The state of the thread.
struct Sending {
    client: TraceServiceClient<Channel>,
    resource: ResourceAttributesWithSchema,
    /// True while the collector accepts spans.
    accepted: bool,
}

impl Exporter {
    /// Starts the thread; it ends when the sending end of the queue is dropped.
    pub(crate) fn start(collector: http::Uri, resource: &Resource) -> io::Result<(Self, Flush)> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (queue, mut spans) = mpsc::channel(QUEUE);
        let (asking, mut flushes) = mpsc::unbounded_channel();
        let resource = ResourceAttributesWithSchema::from(resource);
        std::thread::Builder::new().name("traces".to_owned()).spawn(move || {
            runtime.block_on(async move {
                let endpoint = Endpoint::from(collector)
                    .connect_timeout(CONNECT_TIMEOUT)
                    .timeout(SEND_TIMEOUT);
                let client = TraceServiceClient::new(endpoint.connect_lazy());
                let mut sending = Sending { client, resource, accepted: true };
                while sending.turn(&mut spans, &mut flushes).await {}
            });
        })?;
        Ok((Self { queue }, Flush(asking)))
    }
}

impl Flush {
    /// Waits until all spans are sent, but no longer than `timeout`; `false` if that was too short.
    pub(crate) fn flush(&self, timeout: Duration) -> bool {
        let (done, wait) = threads::sync_channel(1);
        self.0.send(done).is_ok() && wait.recv_timeout(timeout).is_ok()
    }
}

impl SpanProcessor for Exporter {
    fn on_start(&self, _span: &mut Span, _context: &opentelemetry::Context) {}

    fn on_end(&self, span: SpanData) {
        if self.queue.try_send(span).is_err() {
            TRACES_DROPPED.inc();
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
    /// Collects and sends one message of spans; `false` when the queue is closed.
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
                // The requester may have timed out.
                let _ = done.send(());
                return true;
            }
            first = spans.recv() => first,
        };
        let Some(first) = first else { return false };
        let mut batch = vec![first];
        let until = Instant::now() + BATCH_DELAY;
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
        TRACES_DROPPED.inc_by(lost);
        TRACES_EXPORTED.inc_by(count - lost);
        match (&sent, self.accepted) {
            (Err(status), true) => {
                self.accepted = false;
                let error = status.message();
                tracing::warn!(error, "the collector does not take traces, they are dropped");
            }
            (Ok(_), false) => {
                self.accepted = true;
                tracing::info!("the collector takes traces again");
            }
            (Ok(_), true) | (Err(_), false) => {}
        }
    }
}

/// Waiting spans, as many as one message holds.
fn rest(spans: &mut mpsc::Receiver<SpanData>) -> Option<Vec<SpanData>> {
    let mut batch = Vec::new();
    while batch.len() < BATCH
        && let Ok(span) = spans.try_recv()
    {
        batch.push(span);
    }
    (!batch.is_empty()).then_some(batch)
}
