//! Permits for what takes a processor: one computation of a kind at a time, and a few that wait.
//!
//! A call asks for a permit in the turn of its client ([`fabricast_rpc::CallCost::turn`]), which it
//! keeps to its end. So one client has one place, however many calls it makes.

use std::sync::Arc;

use fabricast_rpc::Reason;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;

/// Most calls that wait for a permit.
const MOST_WAITING: usize = 8;

/// Permits for computations of one kind; clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Computations {
    running: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

impl Computations {
    pub(crate) fn new() -> Self {
        let [running, waiting] = [1, MOST_WAITING].map(|most| Arc::new(Semaphore::new(most)));
        Self { running, waiting }
    }

    /// Waits for the permit, in turn.
    ///
    /// # Errors
    ///
    /// `RESOURCE_EXHAUSTED / LIMIT_REACHED` if as many calls as may wait already.
    pub(super) async fn permit(&self) -> Result<OwnedSemaphorePermit, Status> {
        let Ok(_waits) = self.waiting.try_acquire() else {
            let text = format!("{MOST_WAITING} such calls wait already, try again later");
            return Err(Reason::LimitReached.status(text, &[]));
        };
        let stopping = |_| Reason::ShuttingDown.status("the route service is stopping", &[]);
        Arc::clone(&self.running).acquire_owned().await.map_err(stopping)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_computes_few_wait_and_the_others_are_refused() {
        let computations = Computations::new();
        let first = computations.permit().await.expect("nobody waits");
        let mut waiting = tokio::task::JoinSet::new();
        for _ in 0..MOST_WAITING {
            let computations = computations.clone();
            waiting.spawn(async move { computations.permit().await.map(drop) });
        }
        while computations.waiting.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let refused = computations.permit().await.expect_err("too many wait");
        assert!(Reason::LimitReached.is_of(&refused), "{refused}");
        drop(first);
        assert!(waiting.join_all().await.iter().all(Result::is_ok));
        assert!(computations.permit().await.is_ok());
    }
}
