//! The listener of a process, at which neighbours of its memberships connect.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use fabricast_messages::MemberId;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::connection::{GREETING_TIMEOUT, Greeting};
use super::member::{DirectMember, Expected};

/// Connections that have not greeted, at most; further ones wait.
const UNGREETED: usize = 64;
/// Pause after the system has refused to accept a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// The listener, and the memberships that may be connected to.
#[derive(Debug)]
pub(super) struct Sockets {
    /// Address where it listens; empty if it cannot.
    pub(super) address: String,
    members: Mutex<BTreeMap<MemberId, Weak<DirectMember>>>,
    accepting: Mutex<Option<tokio::task::AbortHandle>>,
}

impl Drop for Sockets {
    fn drop(&mut self) {
        if let Some(accepting) = self.accepting.get_mut() {
            accepting.abort();
        }
    }
}

impl Sockets {
    /// Listens at a free port. Without one, all frames go through the agents.
    pub(super) async fn open(host: &str) -> Arc<Self> {
        let listener = match host {
            "" => None,
            host => TcpListener::bind((host, 0)).await.ok(),
        };
        let address = listener.as_ref().and_then(|listener| listener.local_addr().ok());
        let sockets = Arc::new(Self {
            address: address.map_or_else(String::new, |address| address.to_string()),
            members: Mutex::default(),
            accepting: Mutex::default(),
        });
        if let Some(listener) = listener {
            let task = tokio::spawn(accept(listener, Arc::downgrade(&sockets)));
            *sockets.accepting.lock() = Some(task.abort_handle());
        }
        sockets
    }

    /// Lets neighbours of a membership connect, as long as that exists.
    pub(super) fn add(&self, id: MemberId, member: &Arc<DirectMember>) {
        let mut members = self.members.lock();
        members.retain(|_, member| member.strong_count() > 0);
        members.insert(id, Arc::downgrade(member));
    }

    /// Hands a connection to the membership that its greeting names. One that does not prove to
    /// know the edge's secrets is closed without a word.
    async fn greeted(&self, mut stream: TcpStream) {
        let Ok(Some(greeted)) = Greeting::receive(&mut stream).await else { return };
        let greeting = greeted.greeting;
        let id = MemberId { gn: greeting.gn, pn: greeting.to };
        let member = self.members.lock().get(&id).and_then(Weak::upgrade);
        let Some(member) = member else { return };
        let Some(Expected { edge, key, number }) = member.expects(&greeting) else { return };
        if let Ok(connection) = greeted.answer(&key, number, stream).await {
            member.accepted(greeting.from, &edge, Arc::new(connection), number);
        }
    }
}

async fn accept(listener: TcpListener, sockets: Weak<Sockets>) {
    let ungreeted = Arc::new(Semaphore::new(UNGREETED));
    while let Ok(permit) = Arc::clone(&ungreeted).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let Some(sockets) = sockets.upgrade() else { return };
                tokio::spawn(async move {
                    // A connection that takes longer is closed.
                    let _ = timeout(GREETING_TIMEOUT, sockets.greeted(stream)).await;
                    drop(permit);
                });
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}
