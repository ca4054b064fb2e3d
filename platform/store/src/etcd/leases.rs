//! Keep-alives of leases, each lease over a stream of its own that stays open between them.
//!
//! A stream that breaks is opened again, at the next member. To send the same keep-alive twice is
//! harmless: a lease that has expired in the meantime stays expired.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use etcd_client::{Error, LeaseClient, LeaseKeepAliveStream, LeaseKeeper};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tonic::{Code, Status};

use crate::error::StoreError;
use crate::etcd::keys::to_signed;
use crate::etcd::members::{Members, QUICK};
use crate::lease::LeaseId;

/// Keep-alives under way at once; one more is refused.
const MAX_UNDER_WAY: usize = 1_024;
/// Streams kept open between keep-alives; beyond that the one unused for longest is closed.
const MAX_IDLE: usize = 64;

/// Keep-alives of all leases of one store.
pub(crate) struct KeepAlives {
    members: Arc<Members>,
    /// Open streams that no keep-alive is using. A stream in use is not here, so one whose caller
    /// gave up is closed and its late answer is never taken for that of another keep-alive.
    idle: Mutex<BTreeMap<LeaseId, LeaseStream>>,
    under_way: Semaphore,
}

struct LeaseStream {
    keeper: LeaseKeeper,
    answers: LeaseKeepAliveStream,
    /// Index of the member at the other end.
    member: usize,
    used: Instant,
}

impl KeepAlives {
    pub(crate) fn new(members: Arc<Members>) -> Self {
        Self { members, idle: Mutex::default(), under_way: Semaphore::new(MAX_UNDER_WAY) }
    }

    /// Gives a lease its full time again.
    pub(crate) async fn keep_alive(&self, lease: LeaseId) -> Result<(), StoreError> {
        let overloaded = |_| StoreError::Overloaded { queue: "keep-alives", limit: MAX_UNDER_WAY };
        let _permit = self.under_way.try_acquire().map_err(overloaded)?;
        let renewed = self
            .members
            .call(QUICK, |member| self.renew(lease, member.index, member.lease.clone()))
            .await;
        match renewed {
            Ok(stream) => {
                self.put_back(lease, stream);
                Ok(())
            }
            Err(failure) if failure.status.code() == Code::NotFound => {
                Err(StoreError::LeaseNotFound { lease })
            }
            Err(failure) => Err(failure.into_error()),
        }
    }

    /// Closes the stream of a lease that has ended.
    pub(crate) fn forget(&self, lease: LeaseId) {
        self.idle.lock().remove(&lease);
    }

    /// Sends one keep-alive over the lease's stream, or over a new one to `member`.
    async fn renew(
        &self,
        lease: LeaseId,
        member: usize,
        mut client: LeaseClient,
    ) -> Result<LeaseStream, Error> {
        let not_found = || Error::from(Status::not_found("requested lease not found"));
        let idle = self.idle.lock().remove(&lease).filter(|stream| stream.member == member);
        let Some(mut stream) = idle else {
            // Opening a stream sends a keep-alive and waits for its answer.
            return match client.keep_alive(to_signed(lease.0)).await {
                Ok((keeper, answers)) => {
                    Ok(LeaseStream { keeper, answers, member, used: Instant::now() })
                }
                // The queue of a new stream has room, so this can only be etcd's answer.
                Err(Error::LeaseKeepAliveError(_)) => Err(not_found()),
                Err(error) => Err(error),
            };
        };
        stream.keeper.keep_alive().await?;
        match stream.answers.message().await? {
            Some(answer) if answer.ttl() > 0 => Ok(stream),
            Some(_) => Err(not_found()),
            None => Err(Status::unavailable("the stream ended").into()),
        }
    }

    fn put_back(&self, lease: LeaseId, mut stream: LeaseStream) {
        stream.used = Instant::now();
        let mut idle = self.idle.lock();
        idle.insert(lease, stream);
        if idle.len() > MAX_IDLE {
            let oldest = idle.iter().min_by_key(|(_, stream)| stream.used);
            if let Some(lease) = oldest.map(|(lease, _)| *lease) {
                idle.remove(&lease);
            }
        }
    }
}
