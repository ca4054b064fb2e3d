//! Answers `GET /metrics` over HTTP/1.1, and nothing else.
//!
//! One request a connection: whoever reads metrics comes a few times a minute. Requests are bounded in length and time,
//! and so are connections at a time, as whoever can reach the port may send what he likes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::exposition;

/// A request that is longer is no request for metrics.
const LONGEST: usize = 8 * 1024;
/// A whole request and answer take no longer.
const PATIENCE: Duration = Duration::from_secs(5);
const CONNECTIONS: usize = 16;

/// Why metrics cannot be served.
#[derive(Debug, Error)]
#[error("cannot serve metrics on {address}")]
pub struct MetricsError {
    /// The address asked for.
    pub address: SocketAddr,
    /// The operating system's reason.
    #[source]
    pub source: std::io::Error,
}

/// Serves until it is dropped.
#[derive(Debug)]
pub struct MetricsServer {
    address: SocketAddr,
    serving: JoinHandle<()>,
}

impl MetricsServer {
    /// Takes the address, port 0 picks a free one, and begins to serve; inside a runtime only.
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
        Ok(Self { address, serving: tokio::spawn(serve(listener, service)) })
    }

    /// Where it serves.
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

async fn serve(listener: TcpListener, service: &'static str) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(async move {
                    // Who is too slow, or hangs up, gets no answer.
                    let _ = tokio::time::timeout(PATIENCE, answer(stream, service)).await;
                    drop(place);
                });
            }
            // Too many open files, mostly: it passes.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn answer(mut stream: TcpStream, service: &str) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < LONGEST {
        if stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let (status, body) = if request.starts_with(b"GET /metrics ") {
        ("200 OK", exposition(service))
    } else {
        ("404 Not Found", "only GET /metrics is answered\n".to_owned())
    };
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn ask(address: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request).await.unwrap();
        let mut answer = Vec::new();
        // A server that has not read everything may reset the connection after its answer.
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    }

    #[tokio::test]
    async fn only_a_request_for_metrics_gets_them() {
        let server = MetricsServer::start("127.0.0.1:0".parse().unwrap(), "tested").await.unwrap();
        let metrics = ask(server.address(), b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert!(metrics.starts_with("HTTP/1.1 200 OK\r\n"), "{metrics}");
        assert!(metrics.contains("service=\"tested\""), "{metrics}");
        let length = metrics.split("Content-Length: ").nth(1).unwrap();
        let length: usize = length.split("\r\n").next().unwrap().parse().unwrap();
        assert_eq!(metrics.split_once("\r\n\r\n").unwrap().1.len(), length);
        for request in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"POST /metrics HTTP/1.1\r\n\r\n"] {
            let refused = ask(server.address(), request).await;
            assert!(refused.starts_with("HTTP/1.1 404"), "{refused}");
        }
        assert!(ask(server.address(), &[b'x'; LONGEST]).await.starts_with("HTTP/1.1 404"));
    }

    #[tokio::test]
    async fn a_taken_address_is_named() {
        let first = MetricsServer::start("127.0.0.1:0".parse().unwrap(), "first").await.unwrap();
        let error = MetricsServer::start(first.address(), "second").await.unwrap_err();
        assert!(error.to_string().ends_with(&first.address().to_string()), "{error}");
    }
}
