//! A collector of traces that keeps whatever it is sent.

use std::collections::BTreeMap;
use std::sync::Arc;

use opentelemetry_proto::tonic::collector::trace::v1 as otlp;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use otlp::trace_service_server::{TraceService, TraceServiceServer};
use parking_lot::Mutex;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

/// A span as the test looks at it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) service: String,
    pub(crate) name: String,
    pub(crate) trace: Vec<u8>,
    pub(crate) id: Vec<u8>,
    pub(crate) parent: Vec<u8>,
    pub(crate) is_server: bool,
    pub(crate) texts: BTreeMap<String, String>,
}

/// A collector that keeps whatever it is sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Collector(pub(crate) Arc<Mutex<Vec<Seen>>>);

fn texts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |value: &Option<AnyValue>| match value.as_ref().and_then(|any| any.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        _ => String::new(),
    };
    attributes.iter().map(|one| (one.key.clone(), text(&one.value))).collect()
}

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<otlp::ExportTraceServiceRequest>,
    ) -> Result<Response<otlp::ExportTraceServiceResponse>, Status> {
        let mut seen = self.0.lock();
        for resource in request.into_inner().resource_spans {
            let service = texts(&resource.resource.unwrap().attributes)["service.name"].clone();
            for span in resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                seen.push(Seen {
                    service: service.clone(),
                    is_server: span.kind() == SpanKind::Server,
                    texts: texts(&span.attributes),
                    name: span.name,
                    trace: span.trace_id,
                    id: span.span_id,
                    parent: span.parent_span_id,
                });
            }
        }
        Ok(Response::new(otlp::ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    /// Serves for as long as the runtime lives.
    pub(crate) async fn start() -> (Self, String) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let collector = Self::default();
        let service = TraceServiceServer::new(collector.clone());
        let server = tonic::transport::Server::builder().add_service(service);
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        (collector, url)
    }

    /// The spans of one trace, so far.
    pub(crate) fn trace(&self, id: &str) -> Vec<Seen> {
        let seen = self.0.lock();
        seen.iter().filter(|span| hex(&span.trace) == id).cloned().collect()
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
