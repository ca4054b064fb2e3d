//! The open connections of a listener: which may be closed to make room, and which must be.
//!
//! A connection in use is one with an open call. Of the others, those of the owner with the most of
//! them are closed first, so that nobody is shut out by connections that are held and not used. If
//! all are in use, those of owners with more than an equal part of the room make room for others.
//! Certificates are checked again while connections stand, as [`crate::shown_certificate`] says.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::known::KnownConnections;
use crate::limits::Client;
use crate::shown_certificate::{CertificateFault, RECHECK_INTERVAL, ShownCertificate, Verifier};

mod known;

/// Interval between two looks at all connections.
pub(crate) const SWEEP_INTERVAL: Duration = RECHECK_INTERVAL;
/// Time in which a new connection must have sent the beginning of HTTP/2.
pub(crate) const SILENCE: Duration = Duration::from_secs(5);
/// Bytes with which HTTP/2 begins.
const PREFACE: u64 = 24;
/// A connection is not closed to make room before it is so old, or has been idle so long: its owner
/// may be about to use it, or this machine may be too busy for its handshake.
const GRACE: Duration = Duration::from_millis(500);
/// A search for unused connections that found none is not repeated before, as it looks at all.
const SEARCH_INTERVAL: Duration = Duration::from_millis(100);
/// Parts of the room of which each owner keeps one, however many owners there are.
const MOST_PARTS: usize = 64;

/// The open connections of a listener.
#[derive(Debug)]
pub(crate) struct OpenConnections {
    started: Instant,
    certificate_age: Duration,
    all: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    next: u64,
    by_number: HashMap<u64, Entry>,
    handshakes: usize,
    /// Number of connections, without those that are being closed.
    open: usize,
    /// Those of them whose client is known.
    known: KnownConnections,
    /// Time when a search for unused ones found none.
    none_unused: Option<Instant>,
}

impl Entries {
    /// Counts out a connection, unless it is being closed already.
    fn count_out(&mut self, number: u64) -> Option<&Entry> {
        let entry = self.by_number.get(&number).filter(|entry| entry.is_open())?;
        self.open -= 1;
        self.known.remove(&entry.owner, number);
        Some(entry)
    }

    fn close(&mut self, number: u64) {
        if let Some(entry) = self.count_out(number) {
            entry.close.cancel();
        }
    }
}

#[derive(Debug)]
struct Entry {
    owner: Client,
    phase: Phase,
    opened: Instant,
    activity: Arc<Activity>,
    close: CancellationToken,
}

impl Entry {
    /// True if it is not being closed.
    fn is_open(&self) -> bool {
        !self.close.is_cancelled()
    }

    fn is_handshake(&self) -> bool {
        matches!(self.phase, Phase::Handshake)
    }
}

#[derive(Debug)]
enum Phase {
    Handshake,
    Plain,
    Certified(ShownCertificate),
}

/// Use of one connection.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    open_calls: AtomicU32,
    /// Milliseconds from the start of the listener to the end of the last call; 0 before that.
    idle_since: AtomicU64,
    received: AtomicU64,
}

/// A connection that is counted until this is dropped.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    connections: Arc<OpenConnections>,
    number: u64,
    activity: Arc<Activity>,
    close: CancellationToken,
}

/// A call of a connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionCall {
    connections: Arc<OpenConnections>,
    activity: Arc<Activity>,
}

impl Drop for ConnectionCall {
    fn drop(&mut self) {
        let now = u64::try_from(self.connections.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.activity.idle_since.store(now.max(1), Ordering::Relaxed);
        self.activity.open_calls.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let mut all = self.connections.all.lock();
        all.count_out(self.number);
        if all.by_number.remove(&self.number).is_some_and(|entry| entry.is_handshake()) {
            all.handshakes -= 1;
        }
    }
}

/// The use of a connection, as its calls see it.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionUse {
    connections: Arc<OpenConnections>,
    activity: Arc<Activity>,
}

impl ConnectionUse {
    /// Counts in a call.
    pub(crate) fn begin(&self) -> ConnectionCall {
        self.activity.open_calls.fetch_add(1, Ordering::Relaxed);
        let (connections, activity) = (Arc::clone(&self.connections), Arc::clone(&self.activity));
        ConnectionCall { connections, activity }
    }
}

impl OpenConnection {
    /// Cancelled when the connection has to be closed.
    pub(crate) fn closing(&self) -> CancellationToken {
        self.close.clone()
    }

    pub(crate) fn usage(&self) -> ConnectionUse {
        let (connections, activity) = (Arc::clone(&self.connections), Arc::clone(&self.activity));
        ConnectionUse { connections, activity }
    }

    /// Counts bytes that were received.
    pub(crate) fn received(&self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.activity.received.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Ends the handshake, if it is in progress: the client is known.
    ///
    /// - `certificate`: `None` in plain text.
    pub(crate) fn identify(&self, owner: Client, certificate: Option<ShownCertificate>) {
        let mut all = self.connections.all.lock();
        let all = &mut *all;
        let entry = all.by_number.get_mut(&self.number).filter(|entry| entry.is_handshake());
        let Some(entry) = entry else { return };
        all.handshakes -= 1;
        entry.phase = certificate.map_or(Phase::Plain, Phase::Certified);
        (entry.owner, entry.opened) = (owner, Instant::now());
        if entry.is_open() {
            all.known.insert(&entry.owner, self.number);
        }
    }
}

/// Reason why the server closes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    Silent,
    Certificate(CertificateFault),
}

impl Closed {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Silent => "nothing came in time",
            Self::Certificate(fault) => fault.text(),
        }
    }
}

impl OpenConnections {
    pub(crate) fn new(certificate_age: Duration) -> Arc<Self> {
        Arc::new(Self { started: Instant::now(), certificate_age, all: Mutex::default() })
    }

    /// Counts in a connection, whose handshake begins.
    pub(crate) fn begin(self: &Arc<Self>, owner: Client) -> OpenConnection {
        let (activity, close) = (Arc::<Activity>::default(), CancellationToken::new());
        let entry = Entry {
            owner,
            phase: Phase::Handshake,
            opened: Instant::now(),
            activity: Arc::clone(&activity),
            close: close.clone(),
        };
        let mut all = self.all.lock();
        let number = all.next;
        all.next += 1;
        all.handshakes += 1;
        all.open += 1;
        all.by_number.insert(number, entry);
        OpenConnection { connections: Arc::clone(self), number, activity, close }
    }

    /// Number of handshakes in progress.
    pub(crate) fn handshakes(&self) -> usize {
        self.all.lock().handshakes
    }

    /// Closes handshakes that wait for their client, one in 16 of all; gives their number.
    pub(crate) fn close_handshakes(&self) -> usize {
        self.close_idle(Entry::is_handshake)
    }

    /// Closes connections that are not used, one in 16 of all; gives their number: 0 also for
    /// [`SEARCH_INTERVAL`] after there were none.
    pub(crate) fn close_unused(&self) -> usize {
        let now = Instant::now();
        let searched = self.all.lock().none_unused;
        if searched.is_some_and(|searched| now < searched + SEARCH_INTERVAL) {
            return 0;
        }
        let closed = self.close_idle(|_| true);
        self.all.lock().none_unused = (closed == 0).then_some(now);
        closed
    }

    fn close_idle(&self, counts: impl Fn(&Entry) -> bool) -> usize {
        let mut all = self.all.lock();
        let now = Instant::now();
        let is_open = |(_, entry): &(&u64, &Entry)| entry.is_open() && counts(entry);
        let mut open: Vec<(&u64, &Entry)> = all.by_number.iter().filter(is_open).collect();
        let most = open.len().div_ceil(16);
        // The oldest of an owner with many come before the newest, and those of others with few.
        open.sort_unstable_by_key(|(_, entry)| Reverse(entry.opened));
        let mut of_owner = HashMap::<&Client, usize>::new();
        let mut ranked: Vec<(Reverse<usize>, Instant, u64)> = open
            .into_iter()
            .filter(|(_, entry)| self.is_idle(entry, now))
            .map(|(number, entry)| {
                let rank = of_owner.entry(&entry.owner).or_default();
                *rank += 1;
                (Reverse(*rank), entry.opened, *number)
            })
            .collect();
        ranked.sort_unstable();
        ranked.truncate(most);
        ranked.iter().for_each(|(_, _, number)| all.close(*number));
        ranked.len()
    }

    /// Number of connections, without those that are being closed.
    pub(crate) fn open_count(&self) -> usize {
        self.all.lock().open
    }

    /// The same of those whose client is known.
    pub(crate) fn known_count(&self) -> usize {
        self.all.lock().known.count()
    }

    /// Closes connections of owners that have more than an equal part of the room, also those in
    /// use: the newest of the owners with the most, at most one in 16 of all. Gives their number: 0
    /// also if the owner of the newcomer has more than its part, or two such would close each
    /// other's connections in turn.
    ///
    /// - `room`: connections that there may be.
    /// - `newcomer`: needs a place.
    pub(crate) fn close_surplus(&self, room: u32, newcomer: &OpenConnection) -> usize {
        let mut all = self.all.lock();
        let newcomer = all.by_number.get(&newcomer.number);
        let own = newcomer.map_or(0, |entry| all.known.count_of(&entry.owner));
        let part = equal_part(room as usize, all.known.owners());
        if own == 0 || own > part {
            return 0;
        }
        let most = all.known.count().div_ceil(16);
        let mut closed = 0;
        while closed < most
            && let Some(newest) = all.known.newest_beyond(part)
        {
            all.close(newest);
            closed += 1;
        }
        closed
    }

    /// True if closing a connection interrupts nothing.
    fn is_idle(&self, entry: &Entry, now: Instant) -> bool {
        let since = match entry.activity.idle_since.load(Ordering::Relaxed) {
            0 => entry.opened,
            ended => entry.opened.max(self.started + Duration::from_millis(ended)),
        };
        entry.activity.open_calls.load(Ordering::Relaxed) == 0 && since + GRACE <= now
    }

    /// Closes connections that say nothing, and those whose certificate is not good any more.
    ///
    /// - `current`: the verifier in force; `None` in plain text.
    pub(crate) fn sweep(&self, current: Option<&Verifier>) -> Vec<(Client, Closed)> {
        let (now, time) = (Instant::now(), SystemTime::now());
        let mut all = self.all.lock();
        let (mut numbers, mut closed) = (Vec::new(), Vec::new());
        for (number, entry) in all.by_number.iter_mut().filter(|(_, entry)| entry.is_open()) {
            let is_silent = entry.activity.received.load(Ordering::Relaxed) < PREFACE;
            let why = match (&mut entry.phase, current) {
                (Phase::Handshake, _) => None, // it has a timeout of its own
                _ if is_silent && entry.opened + SILENCE <= now => Some(Closed::Silent),
                (Phase::Certified(shown), Some(current)) => {
                    shown.fault(current, now, time, self.certificate_age).map(Closed::Certificate)
                }
                (Phase::Certified(_) | Phase::Plain, _) => None,
            };
            if let Some(why) = why {
                numbers.push(*number);
                closed.push((entry.owner.clone(), why));
            }
        }
        numbers.into_iter().for_each(|number| all.close(number));
        closed
    }
}

/// Connections that an owner keeps, of so many owners.
fn equal_part(room: usize, owners: usize) -> usize {
    (room / owners.max(1)).max(room / MOST_PARTS).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shown_certificate::CERTIFICATE_AGE;

    fn at(number: u8) -> Client {
        Client::At([10, 0, 0, number].into())
    }

    /// Connections older than [`GRACE`].
    fn old(
        connections: &Arc<OpenConnections>,
        owner: &Client,
        count: usize,
    ) -> Vec<OpenConnection> {
        let begun: Vec<_> = (0..count).map(|_| connections.begin(owner.clone())).collect();
        let mut all = connections.all.lock();
        for one in &begun {
            let entry = all.by_number.get_mut(&one.number).unwrap();
            entry.opened -= GRACE * 2;
        }
        begun
    }

    fn is_closed(connection: &OpenConnection) -> bool {
        connection.close.is_cancelled()
    }

    #[test]
    fn room_is_made_at_the_cost_of_whoever_has_the_most() {
        let connections = OpenConnections::new(CERTIFICATE_AGE);
        let quiet = old(&connections, &at(1), 1);
        let noisy = old(&connections, &at(2), 63);
        assert_eq!(connections.close_handshakes(), 4);
        assert!(!is_closed(&quiet[0]));
        assert!(noisy[..4].iter().all(is_closed), "the oldest ones");
        assert!(!noisy[4..].iter().any(is_closed));
        drop(noisy);
        assert_eq!(connections.handshakes(), 1);
        drop(quiet);
        assert!(connections.all.lock().by_number.is_empty());
        assert_eq!(connections.open_count(), 0);
    }

    #[test]
    fn a_connection_in_use_or_just_made_is_not_closed() {
        let connections = OpenConnections::new(CERTIFICATE_AGE);
        let close_unused = || connections.close_idle(|_| true);
        let fresh = connections.begin(at(1));
        assert_eq!(close_unused(), 0);
        let used = old(&connections, &at(2), 1);
        let call = used[0].usage().begin();
        assert_eq!(close_unused(), 0);
        drop(call);
        assert_eq!(close_unused(), 0, "it was in use a moment ago");
        let idle = old(&connections, &at(3), 1);
        idle[0].identify(at(3), None);
        assert_eq!(connections.close_handshakes(), 0);
        drop(fresh);
    }

    #[tokio::test(start_paused = true)]
    async fn a_search_that_found_no_unused_connection_is_not_repeated_at_once() {
        let connections = OpenConnections::new(CERTIFICATE_AGE);
        let one = connections.begin(at(1));
        tokio::time::advance(GRACE - Duration::from_millis(1)).await;
        assert_eq!(connections.close_unused(), 0);
        tokio::time::advance(SEARCH_INTERVAL - Duration::from_millis(1)).await;
        assert_eq!(connections.close_unused(), 0);
        assert!(!is_closed(&one));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(connections.close_unused(), 1);
    }

    /// Connections, each with a call.
    fn in_use(
        connections: &Arc<OpenConnections>,
        owner: &Client,
        count: usize,
    ) -> Vec<(OpenConnection, ConnectionCall)> {
        let with_call = |one: OpenConnection| {
            one.identify(owner.clone(), None);
            let call = one.usage().begin();
            (one, call)
        };
        old(connections, owner, count).into_iter().map(with_call).collect()
    }

    fn closed(of: &[(OpenConnection, ConnectionCall)]) -> usize {
        of.iter().filter(|(one, _)| is_closed(one)).count()
    }

    #[test]
    fn connections_in_use_beyond_an_equal_part_make_room_for_others() {
        let connections = OpenConnections::new(CERTIFICATE_AGE);
        let few = in_use(&connections, &at(1), 10);
        let many = in_use(&connections, &at(2), 22);
        assert_eq!(connections.close_unused(), 0);
        let unknown = connections.begin(at(3));
        assert_eq!((connections.known_count(), connections.close_surplus(32, &unknown)), (32, 0));
        unknown.identify(at(3), None);
        assert_eq!(connections.known_count(), 33);
        // Each of three owners has ten.
        for more in [3, 2, 2, 2, 2, 1] {
            assert_eq!(connections.close_surplus(32, &unknown), more);
        }
        assert_eq!(connections.close_surplus(32, &unknown), 0);
        assert_eq!((closed(&few), closed(&many[..10]), closed(&many[10..])), (0, 0, 12));
        assert_eq!((connections.open_count(), connections.known_count()), (21, 21));
        drop(many);
        assert_eq!((connections.open_count(), connections.known_count()), (11, 11));
    }

    #[test]
    fn owners_that_have_their_part_do_not_close_connections_of_each_other() {
        let connections = OpenConnections::new(CERTIFICATE_AGE);
        let few = in_use(&connections, &at(1), 16);
        let many = in_use(&connections, &at(2), 17);
        assert_eq!(connections.close_surplus(32, &many[16].0), 0);
        assert_eq!(connections.close_surplus(32, &few[15].0), 1, "each of them has sixteen");
        assert!(is_closed(&many[16].0));
        for owner in [at(1), at(2)] {
            let more = in_use(&connections, &owner, 1);
            assert_eq!(connections.close_surplus(32, &more[0].0), 0);
        }
        assert_eq!((closed(&few), closed(&many)), (0, 1));
    }

    #[test]
    fn each_of_many_owners_keeps_some_connections() {
        let parts = [1, 4, 64, 1_000].map(|owners| equal_part(3_072, owners));
        assert_eq!(parts, [3_072, 768, 48, 48]);
        assert_eq!(equal_part(4, 100), 1);
    }

    #[test]
    fn whoever_says_nothing_is_cut_off() {
        let connections = OpenConnections::new(CERTIFICATE_AGE);
        let pair = [connections.begin(at(1)), connections.begin(at(1))];
        for one in &pair {
            one.identify(at(1), None);
        }
        pair[1].received(24);
        assert!(connections.sweep(None).is_empty());
        for entry in connections.all.lock().by_number.values_mut() {
            entry.opened -= SILENCE;
        }
        assert_eq!(connections.sweep(None), [(at(1), Closed::Silent)]);
        assert!(is_closed(&pair[0]) && !is_closed(&pair[1]));
    }
}
