//! Serves `GET /metrics` over HTTP/1.1, and nothing else.
//!
//! Each connection serves one request, as metrics are read a few times a minute. Length and
//! duration of a request and the number of connections are limited, because anybody who reaches the
//! port can send anything.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use prometheus_client::registry::Registry;
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::{exposition, registry};

/// Longest request, with its headers.
const MAX_REQUEST_BYTES: usize = 8 * 1024;
/// Timeout of a request and its response.
const TIMEOUT: Duration = Duration::from_secs(5);
const MAX_CONNECTIONS: usize = 16;
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Reason why metrics cannot be served.
#[derive(Debug, Error)]
#[error("cannot serve metrics on {address}")]
pub struct MetricsError {
    /// The address asked for.
    pub address: SocketAddr,
    /// The operating system's reason.
    #[source]
    pub source: std::io::Error,
}

/// A server of metrics; it serves until it is dropped.
#[derive(Debug)]
pub struct MetricsServer {
    address: SocketAddr,
    serving: JoinHandle<()>,
}

impl MetricsServer {
    /// Binds the address, where port 0 picks a free one, and starts to serve; needs the runtime.
    ///
    /// - `service`: the part that runs, as [`crate::init`] was told.
    ///
    /// # Errors
    ///
    /// [`MetricsError`] names the address and the system's reason.
    pub async fn start(address: SocketAddr, service: &'static str) -> Result<Self, MetricsError> {
        let failed = |source| MetricsError { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { address, serving: spawn(listener, service) })
    }

    /// The bound address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Spawns the server; not part of [`MetricsServer::start`], so that it is compiled with this crate
/// and not with every crate that awaits that.
fn spawn(listener: TcpListener, service: &'static str) -> JoinHandle<()> {
    tokio::spawn(serve(listener, service))
}

async fn serve(listener: TcpListener, service: &'static str) {
    let registry = Arc::new(registry(service));
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    while let Ok(permit) = Arc::clone(&permits).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let registry = Arc::clone(&registry);
                tokio::spawn(async move {
                    // A client that is too slow or disconnects gets no response.
                    let _ = tokio::time::timeout(TIMEOUT, serve_connection(stream, registry)).await;
                    drop(permit);
                });
            }
            // The usual cause, too many open files, needs time to pass.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn serve_connection(stream: TcpStream, registry: Arc<Registry>) -> hyper::Result<()> {
    let service = service_fn(move |request: Request<Incoming>| {
        let response = answer(&request, &registry);
        async move { Ok::<_, Infallible>(response) }
    });
    let mut builder = http1::Builder::new();
    builder.keep_alive(false).header_read_timeout(None).max_buf_size(MAX_REQUEST_BYTES);
    builder.serve_connection(TokioIo::new(stream), service).await
}

fn answer<B>(request: &Request<B>, registry: &Registry) -> Response<String> {
    let is_known = request.method() == Method::GET && request.uri().path() == "/metrics";
    let (status, body) = match is_known {
        true => (StatusCode::OK, exposition(registry)),
        false => (StatusCode::NOT_FOUND, "only GET /metrics is answered\n".to_owned()),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
    response
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn send(address: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request).await.unwrap();
        let mut response = Vec::new();
        // A server that has not read everything may reset the connection after its response.
        let _ = stream.read_to_end(&mut response).await;
        String::from_utf8(response).unwrap()
    }

    #[tokio::test]
    async fn only_a_request_for_metrics_gets_them() {
        let server = MetricsServer::start("127.0.0.1:0".parse().unwrap(), "tested").await.unwrap();
        let metrics = send(server.address(), b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert!(metrics.starts_with("HTTP/1.1 200 OK\r\n"), "{metrics}");
        assert!(metrics.contains("service=\"tested\""), "{metrics}");
        assert!(metrics.ends_with("# EOF\n"), "{metrics}");
        for request in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"POST /metrics HTTP/1.1\r\n\r\n"] {
            let refused = send(server.address(), request).await;
            assert!(refused.starts_with("HTTP/1.1 404"), "{refused}");
        }
        let refused = send(server.address(), &[b'x'; 2 * MAX_REQUEST_BYTES]).await;
        assert!(!refused.contains("fabricast_"), "{refused}");
    }

    #[tokio::test]
    async fn a_taken_address_is_named() {
        let first = MetricsServer::start("127.0.0.1:0".parse().unwrap(), "first").await.unwrap();
        let error = MetricsServer::start(first.address(), "second").await.unwrap_err();
        assert!(error.to_string().ends_with(&first.address().to_string()), "{error}");
    }
}
