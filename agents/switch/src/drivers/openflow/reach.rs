//! The ways to the switches: some connect to the agent, it connects to others.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use fabricast_rpc::{Backoff, SwitchTls};
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::connection::{Bytes, Closed};
use super::handshake::{Introduced, Rejected, introduce};
use super::options::Target;
use super::switches::Switches;

/// Connections that are served at once; more wait to be accepted.
const CONNECTIONS: usize = 4096;
/// Peers whose refusal is remembered, so that it is logged once.
const REFUSED: usize = 1024;

/// Serves connections to switches.
#[derive(Clone)]
pub(super) struct Reach {
    pub(super) switches: Arc<Switches>,
    pub(super) limit: Duration,
    /// Those for switches that speak TLS; `None` for plain text.
    certificates: Option<SwitchTls>,
    /// Ends all connections.
    pub(super) stop: CancellationToken,
    /// Peers that were refused, with the reason.
    refused: Arc<Mutex<BTreeSet<(String, String)>>>,
}

impl Reach {
    /// - `certificates`: those for switches that connect, and for targets that speak TLS; `None`
    ///   for plain text.
    pub(super) fn new(
        switches: Arc<Switches>,
        limit: Duration,
        certificates: Option<SwitchTls>,
        stop: CancellationToken,
    ) -> Self {
        Self { switches, limit, certificates, stop, refused: Arc::default() }
    }

    /// Accepts connections until stopped.
    pub(super) async fn listen(self, listener: TcpListener) {
        let free = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let permit = Arc::clone(&free).acquire_owned().await;
            let accepted = tokio::select! {
                () = self.stop.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let reach = self.clone();
                    tokio::spawn(async move {
                        // A write is one small packet that nothing follows.
                        let _ = stream.set_nodelay(true);
                        reach.arrived(stream, &peer.ip().to_string()).await;
                        drop(permit);
                    });
                }
                Err(error) => {
                    // As a rule too many open files: others may be closed soon.
                    tracing::warn!(%error, "connection of a switch not accepted");
                    tokio::time::sleep(self.limit).await;
                }
            }
        }
    }

    /// Serves a connection that a switch has made.
    async fn arrived(&self, stream: TcpStream, peer: &str) {
        let Some(certificates) = &self.certificates else {
            self.serve(stream, peer).await;
            return;
        };
        match timeout(self.limit, certificates.accept(stream)).await {
            Ok(Ok(stream)) => {
                self.serve(stream, peer).await;
            }
            Ok(Err(error)) => self.log(peer, None, &format!("no TLS: {error}")),
            Err(_elapsed) => self.log(peer, None, "no TLS: no handshake in time"),
        }
    }

    /// Connects to a switch again and again until stopped.
    pub(super) async fn connect(self, target: Target) {
        let mut backoff = Backoff::default();
        let mut is_told = false;
        while !self.stop.is_cancelled() {
            match timeout(self.limit, self.open(&target)).await {
                Ok(Ok(stream)) => {
                    is_told = false;
                    if self.serve(stream, &target.to_string()).await {
                        backoff = Backoff::default();
                    }
                }
                Ok(Err(error)) if !std::mem::replace(&mut is_told, true) => {
                    tracing::warn!(peer = %target, %error, "switch not reached");
                }
                Err(_elapsed) if !std::mem::replace(&mut is_told, true) => {
                    tracing::warn!(peer = %target, error = "timeout", "switch not reached");
                }
                Ok(Err(_)) | Err(_) => {}
            }
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = tokio::time::sleep(backoff.next_delay()) => {}
            }
        }
    }

    async fn open(&self, target: &Target) -> io::Result<Box<dyn Bytes>> {
        Ok(match target {
            Target::Unix(path) => Box::new(UnixStream::connect(path).await?),
            Target::Tcp(host) => Box::new(dial(host).await?),
            Target::Ssl(host) => {
                let missing = || io::Error::other("there are no certificates for it");
                let certificates = self.certificates.as_ref().ok_or_else(missing)?;
                Box::new(certificates.connect(dial(host).await?).await?)
            }
        })
    }

    /// Serves one connection until it ends. Returns true if the switch could be used.
    async fn serve(&self, stream: impl Bytes, peer: &str) -> bool {
        let introduced = tokio::select! {
            () = self.stop.cancelled() => return false,
            introduced = introduce(stream, &self.switches, self.limit) => introduced,
        };
        match introduced {
            Ok(Introduced { session, fence }) => {
                let (name, connection) = (session.name.clone(), session.connection.clone());
                self.switches.connected(&name, Arc::clone(&session), fence);
                session.follow_programs().await; // they may have changed without the switch
                let reason = tokio::select! {
                    () = self.stop.cancelled() => connection.close(Closed::ByAgent),
                    reason = connection.ended() => reason,
                };
                if !self.stop.is_cancelled() {
                    tracing::warn!(switch = name, peer, %reason, "switch disconnected");
                }
                self.switches.ended(&name, &session, reason);
                true
            }
            Err(Rejected { node, reason }) => {
                self.log(peer, node.as_deref(), &reason.to_string());
                if let Some(node) = node {
                    self.switches.refused(&node, reason);
                }
                false
            }
        }
    }

    /// Logs a refusal, once for each peer and reason.
    fn log(&self, peer: &str, node: Option<&str>, reason: &str) {
        let mut refused = self.refused.lock();
        if refused.len() >= REFUSED {
            refused.clear();
        }
        if refused.insert((peer.to_owned(), reason.to_owned())) {
            tracing::warn!(switch = node, peer, reason, "switch cannot be used");
        }
    }
}

async fn dial(host: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(host).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
