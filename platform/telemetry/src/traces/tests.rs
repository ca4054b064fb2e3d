//! One process has one exporter: what needs one is in one test.

use std::sync::Mutex;

use http::{HeaderMap, HeaderValue};
use opentelemetry_proto::tonic::collector::trace::v1 as wire;
use opentelemetry_proto::tonic::trace::v1 as proto;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

use super::*;
use crate::metrics::{exposition, registry};

/// Takes whatever comes.
#[derive(Debug)]
struct Collector(std::sync::Arc<Mutex<Vec<proto::Span>>>);

#[tonic::async_trait]
impl wire::trace_service_server::TraceService for Collector {
    async fn export(
        &self,
        request: Request<wire::ExportTraceServiceRequest>,
    ) -> Result<Response<wire::ExportTraceServiceResponse>, Status> {
        let scopes =
            request.into_inner().resource_spans.into_iter().flat_map(|one| one.scope_spans);
        self.0.lock().unwrap().extend(scopes.flat_map(|scope| scope.spans));
        Ok(Response::new(wire::ExportTraceServiceResponse::default()))
    }
}

fn count(name: &str) -> u64 {
    let text = exposition(&registry("x"));
    let line = text.lines().find(|line| line.starts_with(name)).expect("it is shown");
    line.rsplit(' ').next().and_then(|number| number.parse().ok()).expect("a number")
}

fn flush(exporting: &Exporting) -> bool {
    exporting.0.as_ref().is_some_and(|left| left.flush(Duration::from_secs(20)))
}

#[test]
fn an_address_is_http_with_a_port_and_nothing_else() {
    for good in ["http://127.0.0.1:4317", "http://collector:1/", "http://[::1]:4317"] {
        assert!(collector(good).is_some(), "{good}");
    }
    for bad in [
        "",
        "collector:4317",
        "https://collector:4317",
        "http://collector",
        "http://collector:0",
        "http://collector:99999",
        "http://:4317",
        "http://a@collector:4317",
        "http://collector:4317/v1/traces",
        "http://collector:4317?x",
    ] {
        assert!(collector(bad).is_none(), "{bad}");
    }
}

#[test]
fn without_an_exporter_nothing_is_said_and_nothing_carried() {
    let span = Span::root("work", Side::Inner);
    let mut headers = HeaderMap::new();
    if !is_on() {
        span.origin().write(&mut headers);
        assert!(headers.is_empty() && span.trace_id().is_none());
        assert!(Origin::current().is_none() && Origin::kept().is_none());
    }
}

#[test]
fn spans_arrive_with_their_parents_and_what_is_not_taken_is_counted() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let settings = Settings { collector: format!("http://{address}"), share: 1.0 };
    let exporting = start(&settings, "test").unwrap();
    assert!(matches!(start(&settings, "test"), Err(TraceError::AlreadyStarted)));
    let spans = std::sync::Arc::<Mutex<Vec<proto::Span>>>::default();
    let service = wire::trace_service_server::TraceServiceServer::new(Collector(spans.clone()));
    let serving = tonic::transport::Server::builder().add_service(service);
    let serving = runtime.spawn(serving.serve_with_incoming(TcpListenerStream::new(listener)));

    let root = Span::root("root", Side::Client);
    let mut headers = HeaderMap::new();
    headers.insert("tracestate", HeaderValue::from_static("old=1"));
    root.origin().write(&mut headers);
    assert!(!headers.contains_key("tracestate"), "there is none to hand on");
    let carried = Origin::read(&headers);
    let far = Span::gather("far", Side::Server, &carried, &[Origin::default(), root.origin()]);
    far.set("answer", 42);
    runtime.block_on(far.origin().cover(async {
        assert!(Origin::current().is_same(&far.origin()));
        let text = Origin::kept().to_text().expect("it is kept");
        drop(Span::begin("later", Side::Inner, &Origin::from_text(&text)));
        note("seen", "yes");
    }));
    assert!(current_ids().is_none(), "the work is over");
    for nonsense in
        ["", "x", "00-0-0-01", "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"]
    {
        assert!(Origin::from_text(nonsense).is_none(), "{nonsense}");
    }
    let unkept = Origin::from_text("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00");
    assert!(!unkept.is_none() && !unkept.is_kept());
    assert_eq!(Span::begin("no", Side::Inner, &unkept).trace_id(), None);
    let trace = root.trace_id().expect("everything is kept");
    assert_eq!(far.trace_id().as_ref(), Some(&trace));
    drop((far, root));
    assert!(flush(&exporting));

    let got = spans.lock().unwrap().clone();
    let find =
        |name: &str| got.iter().find(|span| span.name == name).expect("it has arrived").clone();
    let (root, far, later) = (find("root"), find("far"), find("later"));
    assert_eq!(got.len(), 3, "{got:?}");
    assert!(root.parent_span_id.is_empty());
    assert_eq!((&far.parent_span_id, &later.parent_span_id), (&root.span_id, &far.span_id));
    assert_eq!(far.links.len(), 1);
    assert_eq!(far.attributes.len(), 2);
    assert!(count("fabricast_traces_exported_spans_total") >= 3);

    serving.abort();
    drop(runtime);
    let before = count("fabricast_traces_dropped_spans_total");
    assert!(set_share(0.0));
    drop(Span::root("unkept", Side::Inner));
    assert!(set_share(1.0));
    drop(Span::root("lost", Side::Inner));
    assert!(flush(&exporting));
    assert_eq!(count("fabricast_traces_dropped_spans_total"), before + 1);
}
