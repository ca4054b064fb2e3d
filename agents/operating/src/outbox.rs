//! Positions on their way to the processes of other nodes.
//!
//! Every address has one worker while there is something for it, so that a process that does not
//! answer holds up nobody else's. Only the newest position of a member waits: no more than there
//! are members.

use std::collections::BTreeMap;
use std::time::Duration;

use fabricast_proto::v1;
use fabricast_telemetry::traces::{Origin, Origins};
use tracing::debug;

use crate::host::{Host, lock};

/// Positions in one push.
const POSITIONS_PER_PUSH: usize = 2000;
/// A push is given up after this; the agents repeat what no report names.
const PUSH_DEADLINE: Duration = Duration::from_secs(2);

/// Positions that wait, by address; an address is listed while its worker runs.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    waiting: BTreeMap<String, BTreeMap<(u64, u32), v1::Position>>,
    /// The traced requests that those for an address come of.
    origins: BTreeMap<String, Origins>,
}

impl Outbox {
    /// Adds a position; answers whether the address needs a worker.
    fn put(&mut self, address: &str, position: v1::Position) -> bool {
        let origin = Origin::kept();
        if !origin.is_none() {
            self.origins.entry(address.to_owned()).or_default().add(origin);
        }
        let idle = !self.waiting.contains_key(address);
        let waiting = self.waiting.entry(address.to_owned()).or_default();
        let age = |held: &v1::Position| (held.epoch, held.version);
        let member = (position.gn, position.pn);
        if waiting.get(&member).is_none_or(|held| age(held) <= age(&position)) {
            waiting.insert(member, position);
        }
        idle
    }

    /// Takes what the address's worker is to send next; nothing ends it.
    fn take(&mut self, address: &str) -> Vec<v1::Position> {
        let Some(waiting) = self.waiting.get_mut(address) else { return Vec::new() };
        if waiting.is_empty() {
            self.waiting.remove(address);
            return Vec::new();
        }
        let rest = match waiting.keys().nth(POSITIONS_PER_PUSH).copied() {
            Some(next) => waiting.split_off(&next),
            None => BTreeMap::new(),
        };
        std::mem::replace(waiting, rest).into_values().collect()
    }
}

impl Host {
    /// Pushes positions, all for one process in one call; what is lost is asked for by a report.
    pub(crate) fn push(&self, positions: impl IntoIterator<Item = (String, v1::Position)>) {
        let mut idle = Vec::new();
        let mut outbox = lock(&self.0.outbox);
        for (address, position) in positions {
            if outbox.put(&address, position) {
                idle.push(address);
            }
        }
        drop(outbox);
        for address in idle {
            self.spawn(|host| host.push_to(address));
        }
    }

    async fn push_to(self, address: String) {
        let peer = self.peer(&address);
        loop {
            let (positions, origins) = {
                let mut outbox = lock(&self.0.outbox);
                (outbox.take(&address), outbox.origins.remove(&address).unwrap_or_default())
            };
            if positions.is_empty() {
                return;
            }
            let Ok(peer) = &peer else { continue };
            let request = v1::UpdatePositionsRequest { positions };
            let (mut client, span) = (self.agent_at(peer), origins.span("place_members"));
            let push = span.origin().cover(client.update_positions(request));
            match tokio::time::timeout(PUSH_DEADLINE, push).await {
                Ok(Ok(_)) => {}
                Ok(Err(status)) => {
                    debug!(peer = %address, error = %status.message(), "positions not pushed");
                }
                Err(_) => debug!(peer = %address, "positions not taken in time"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::tests::host;

    fn position(pn: u32, epoch: u64, version: u64) -> v1::Position {
        v1::Position { gn: 1, pn, epoch, version, ..Default::default() }
    }

    #[test]
    fn only_the_newest_position_of_a_member_waits() {
        let mut outbox = Outbox::default();
        assert!(outbox.put("a", position(1, 1, 5)), "a worker is needed");
        assert!(!outbox.put("a", position(1, 2, 1)));
        assert!(!outbox.put("a", position(1, 1, 6)));
        assert!(!outbox.put("a", position(0, 1, 1)));
        assert_eq!(outbox.take("a"), [position(0, 1, 1), position(1, 2, 1)]);
        assert!(!outbox.put("a", position(3, 1, 1)), "its worker has not ended");
        assert_eq!(outbox.take("a").len(), 1);
        assert!(outbox.take("a").is_empty());
        assert!(outbox.put("a", position(3, 1, 1)), "the former worker has ended");
    }

    #[test]
    fn a_push_is_bounded_and_leaves_nobody_out() {
        let mut outbox = Outbox::default();
        for pn in 0..5000 {
            outbox.put("a", position(pn, 1, 1));
        }
        let pushed = [outbox.take("a"), outbox.take("a"), outbox.take("a"), outbox.take("a")];
        assert_eq!(pushed.each_ref().map(Vec::len), [2000, 2000, 1000, 0]);
        let all = pushed.iter().flatten().map(|position| position.pn);
        assert!(all.eq(0..5000));
    }

    #[tokio::test]
    async fn a_process_that_does_not_answer_holds_up_no_other() {
        let (host, _) = host();
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let other = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address =
            |at: &tokio::net::TcpListener| at.local_addr().expect("bound just now").to_string();
        host.push([(address(&silent), position(0, 1, 1))]);
        let _held = silent.accept().await.unwrap();
        host.push([(address(&other), position(0, 1, 1))]);
        let _told = other.accept().await.unwrap();
        assert!(
            lock(&host.0.outbox).waiting.contains_key(&address(&silent)),
            "its call is still out"
        );
    }
}
