//! Accepts connections: none waits for the handshake of another, and none is refused for the sake
//! of one that is not used.
//!
//! Handshakes run beside each other. When there are as many as there may be, or as many
//! connections, room is made as in [`crate::open_connections`].

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tokio_stream::{Stream, StreamExt};
use tokio_util::sync::CancellationToken;
use tonic::transport::server::TcpIncoming;
use tracing::{debug, info};

use crate::client_limiter::{ClientLimiter, ConnectionSlot};
use crate::connection::{AcceptedConnection, Transport};
use crate::identity::Caller;
use crate::limits::Client;
use crate::log_budget::LogBudget;
use crate::network::{Arriving, Connection};
use crate::open_connections::{OpenConnection, OpenConnections, SWEEP_INTERVAL};
use crate::security::{Loaded, Security};
use crate::shown_certificate::ShownCertificate;

/// Timeout of a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Handshakes in progress. At 1,000 new connections a second that stay silent, each has a second.
const HANDSHAKES: usize = 1_024;
/// Delay after a failed `accept`. The usual cause, too many open files, needs time to pass.
const ACCEPT_DELAY: Duration = Duration::from_millis(20);
/// Longest wait for a connection that makes room to be gone.
const ROOM_TIMEOUT: Duration = Duration::from_secs(1);
/// Interval between two looks for room.
const ROOM_INTERVAL: Duration = Duration::from_millis(5);
/// Refusal of a connection for which there is no room.
const FULL: &str = "the server has as many connections as it may have";

/// A connection of which nothing is known but its origin.
enum Arrived {
    Tcp(TcpStream),
    Local(UnixStream),
    Simulated(Box<dyn Connection>, SocketAddr),
}

/// Accepts connections, with a TLS handshake if `security` demands certificates.
pub(crate) fn accept(
    listener: TcpIncoming,
    security: Security,
    stop: CancellationToken,
) -> ReceiverStream<io::Result<AcceptedConnection>> {
    spawn(listener.map(|stream| stream.map(Arrived::Tcp)), security, stop)
}

/// Accepts connections of local processes.
pub(crate) fn accept_local(
    listener: UnixListener,
    security: Security,
    stop: CancellationToken,
) -> ReceiverStream<io::Result<AcceptedConnection>> {
    let listener = UnixListenerStream::new(listener);
    spawn(listener.map(|stream| stream.map(Arrived::Local)), security, stop)
}

/// Accepts connections of a network other than the system's.
pub(crate) fn accept_simulated(
    arriving: Arriving,
    security: Security,
    stop: CancellationToken,
) -> ReceiverStream<io::Result<AcceptedConnection>> {
    let arriving = arriving.map(|one| one.map(|(stream, from)| Arrived::Simulated(stream, from)));
    spawn(arriving, security, stop)
}

fn spawn(
    arriving: impl Stream<Item = io::Result<Arrived>> + Send + Unpin + 'static,
    security: Security,
    stop: CancellationToken,
) -> ReceiverStream<io::Result<AcceptedConnection>> {
    let (ready, accepted) = mpsc::channel(HANDSHAKES);
    let acceptor = Acceptor {
        ready,
        limiter: ClientLimiter::new(security.limits()),
        connections: OpenConnections::new(security.certificate_age()),
        log: Arc::default(),
        security,
    };
    tokio::spawn(acceptor.run(arriving, stop));
    ReceiverStream::new(accepted)
}

/// Passes connections on to the server.
#[derive(Clone)]
struct Acceptor {
    ready: mpsc::Sender<io::Result<AcceptedConnection>>,
    limiter: Arc<ClientLimiter>,
    connections: Arc<OpenConnections>,
    log: Arc<LogBudget>,
    security: Security,
}

impl Acceptor {
    async fn run(
        self,
        mut arriving: impl Stream<Item = io::Result<Arrived>> + Unpin,
        stop: CancellationToken,
    ) {
        let mut sweeps = tokio::time::interval(SWEEP_INTERVAL);
        sweeps.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let next = tokio::select! {
                next = arriving.next() => next,
                _ = sweeps.tick() => {
                    self.sweep().await;
                    continue;
                }
                () = self.ready.closed() => return,
                () = stop.cancelled() => return,
            };
            match next {
                Some(Ok(arrived)) => self.receive(arrived).await,
                Some(Err(error)) => {
                    debug!(%error, "a connection was lost before it was accepted");
                    self.connections.close_unused();
                    tokio::time::sleep(ACCEPT_DELAY).await;
                }
                None => return,
            }
        }
    }

    async fn sweep(&self) {
        let current = self.security.current().await.map(|loaded| loaded.client_verifier());
        for (client, why) in self.connections.sweep(current.as_ref()) {
            if let Some(unlogged) = self.log.take() {
                info!(%client, error = why.text(), unlogged, "a connection was closed");
            }
        }
    }

    /// Counts a connection in, and begins its handshake.
    async fn receive(&self, arrived: Arrived) {
        match arrived {
            Arrived::Local(stream) => {
                let process = stream.peer_cred().ok();
                let client = process.map_or(Client::Unknown, |process| Client::User(process.uid()));
                let Some((slot, open)) = self.admit(&client).await else { return };
                open.identify(client.clone(), None);
                let transport = Transport::Local(stream);
                self.pass_on(Known { slot, open, client, caller: Caller::Unasked }, transport)
                    .await;
            }
            Arrived::Simulated(stream, from) => {
                self.receive_plain(Some(from), Transport::Simulated(stream)).await;
            }
            Arrived::Tcp(stream) => {
                let from = stream.peer_addr().ok();
                let Some(loaded) = self.security.current().await else {
                    return self.receive_plain(from, Transport::Plain(stream)).await;
                };
                let Some((slot, open)) = self.admit(&address_of(from)).await else { return };
                let acceptor = self.clone();
                tokio::spawn(async move {
                    let begun = Handshake { slot, open, from, loaded };
                    acceptor.secure(stream, begun).await;
                });
            }
        }
    }

    async fn receive_plain(&self, from: Option<SocketAddr>, transport: Transport) {
        let address = address_of(from);
        let Some((slot, open)) = self.admit(&address).await else { return };
        open.identify(address, None);
        let (client, caller) = (Client::of(&Caller::Unasked, from), Caller::Unasked);
        self.pass_on(Known { slot, open, client, caller }, transport).await;
    }

    /// Makes room for a connection whose client is not known yet, at the cost of none that is used;
    /// `None` if there is none.
    async fn admit(&self, client: &Client) -> Option<(ConnectionSlot, OpenConnection)> {
        let began = Instant::now();
        // A handshake that is not to be closed yet is soon, or ends.
        while self.security.is_mutual() && self.connections.handshakes() >= HANDSHAKES {
            self.connections.close_handshakes();
            tokio::time::sleep(ROOM_INTERVAL).await;
        }
        let mut slot = self.limiter.slot();
        if slot.is_none() {
            // Some may be closed already and not gone yet.
            let some_leave = self.connections.open_count() < self.limiter.room() as usize
                || self.connections.close_unused() > 0;
            slot = self.limiter.spare_slot();
            while slot.is_none() && some_leave && began.elapsed() < ROOM_TIMEOUT {
                tokio::time::sleep(ROOM_INTERVAL).await;
                slot = self.limiter.spare_slot();
            }
        }
        let Some(slot) = slot else {
            self.limiter.record_full();
            self.refuse(client, &FULL);
            return None;
        };
        Some((slot, self.connections.begin(client.clone())))
    }

    /// Makes room for a connection whose client is known by closing others, if there is none; false
    /// if it has to go.
    fn make_room(&self, newcomer: &OpenConnection) -> bool {
        let room = self.limiter.room();
        if !self.limiter.is_over() || self.connections.known_count() <= room as usize {
            return true;
        }
        let closed = self.connections.close_surplus(room, newcomer);
        if closed > 0
            && let Some(unlogged) = self.log.take()
        {
            info!(closed, unlogged, "connections in use were closed to make room");
        }
        closed > 0
    }

    async fn secure(self, stream: TcpStream, begun: Handshake) {
        let Handshake { slot, open, from, loaded } = begun;
        let tls = TlsAcceptor::from(Arc::clone(&loaded.server));
        let closing = open.closing();
        let shaken = tokio::select! {
            shaken = tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)) => shaken,
            () = closing.cancelled() => return self.refuse_from(from, &"others need the room"),
        };
        let stream = match shaken {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return self.refuse_from(from, &error),
            Err(_elapsed) => return self.refuse_from(from, &"no certificate shown in time"),
        };
        let chain = stream.get_ref().1.peer_certificates();
        let (caller, shown) = match identified(chain, &loaded) {
            Ok(identified) => identified,
            Err(error) => return self.refuse_from(from, &error),
        };
        let client = Client::of(&caller, from);
        open.identify(client.clone(), Some(shown));
        let transport = Transport::Secured(Box::new(stream));
        self.pass_on(Known { slot, open, client, caller }, transport).await;
    }

    /// Passes a connection on, unless its client has too many, or there is no room for it.
    async fn pass_on(&self, known: Known, transport: Transport) {
        let Known { slot, open, client, caller } = known;
        let Some(permit) = self.limiter.permit(slot, client.clone()) else {
            return self.refuse(&client, &"its client has as many connections as it may have");
        };
        if !self.make_room(&open) {
            self.limiter.record_full();
            return self.refuse(&client, &FULL);
        }
        let connection = AcceptedConnection::new(transport, caller, permit, open);
        // The server is stopping if it does not receive the connection.
        let _ = self.ready.send(Ok(connection)).await;
    }

    fn refuse_from(&self, from: Option<SocketAddr>, error: &dyn std::fmt::Display) {
        self.refuse(&from.map_or(Client::Unknown, Client::Through), error);
    }

    fn refuse(&self, client: &Client, error: &dyn std::fmt::Display) {
        if let Some(unlogged) = self.log.take() {
            info!(%client, %error, unlogged, "a connection was refused");
        }
    }
}

/// A connection whose handshake has begun.
struct Handshake {
    slot: ConnectionSlot,
    open: OpenConnection,
    from: Option<SocketAddr>,
    loaded: Arc<Loaded>,
}

/// A connection whose client is known.
struct Known {
    slot: ConnectionSlot,
    open: OpenConnection,
    client: Client,
    caller: Caller,
}

fn address_of(from: Option<SocketAddr>) -> Client {
    from.map_or(Client::Unknown, |from| Client::At(from.ip().to_canonical()))
}

/// The caller that a chain of certificates names.
fn identified(
    chain: Option<&[CertificateDer<'_>]>,
    loaded: &Loaded,
) -> io::Result<(Caller, ShownCertificate)> {
    let shown = ShownCertificate::new(chain, loaded.client_verifier())?;
    Ok((Caller::Known(shown.identities()?), shown))
}
