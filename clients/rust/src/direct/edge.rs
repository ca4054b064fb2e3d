//! An edge of a member's tree: the neighbour, and how frames get there now.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fabricast_groups::Pn;
use fabricast_groups::names::NodeName;
use fabricast_messages::{Body, Frame};
use fabricast_proto::v1;
use ring::rand::{SecureRandom as _, SystemRandom};

use super::connection::{Connection, EdgeKey};
use super::packet::GroupKey;

/// Secret of a process for one neighbour; zeros if there is none.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Token(pub(super) [u8; Self::BYTES]);

/// The process of a neighbour that serves its member itself.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    /// Address where it listens; empty if it does not.
    pub(super) address: String,
    /// Its secret for this process.
    pub(super) token: Token,
}

/// An edge, from the moment that the neighbour is one.
#[derive(Debug)]
pub(super) struct Edge {
    /// The neighbour's node in the message layer: no two edges of a process have the same.
    pub(super) name: NodeName,
    /// Node of the neighbour.
    pub(super) node: String,
    /// Number of the agents' link; 0 while there is none.
    pub(super) link: u64,
    /// Secret of this process for the neighbour.
    pub(super) own: Token,
    pub(super) peer: Option<Peer>,
    /// Connections of the two so far: frames that the agents carry from before the last are late.
    pub(super) connections: u64,
    pub(super) connection: Option<Arc<Connection>>,
    /// Frames for the connection, as bytes, until the present input has been dealt with.
    pub(super) outgoing: Vec<u8>,
    /// Number of the key of multicast that was sent over the connection last.
    pub(super) told_key: Option<u64>,
    pub(super) is_dialing: bool,
}

/// Value of a frame that the agents have carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// It is for the message layer.
    Current,
    /// It comes too late, or from a process that is no more.
    Late,
}

impl Token {
    pub(super) const BYTES: usize = 16;

    const NONE: Self = Self([0; Self::BYTES]);

    /// Makes a secret that nobody can guess.
    pub(super) fn random() -> std::io::Result<Self> {
        let mut bytes = [0; Self::BYTES];
        let filled = SystemRandom::new().fill(&mut bytes);
        filled.map_err(|_| std::io::Error::other("the system gives no random numbers"))?;
        Ok(Self(bytes))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl Edge {
    /// An edge without a link. Without random numbers there is no secret, and no connection is ever
    /// made.
    pub(super) fn new(node: &str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = NodeName::new(&format!("edge {number}")).expect("a short text");
        Self {
            name,
            node: node.to_owned(),
            link: 0,
            own: Token::random().unwrap_or(Token::NONE),
            peer: None,
            connections: 0,
            connection: None,
            outgoing: Vec::new(),
            told_key: None,
            is_dialing: false,
        }
    }

    /// True if frames get to the neighbour in some way.
    pub(super) fn is_up(&self) -> bool {
        self.link != 0 || self.connection.is_some()
    }

    /// True if this is the connection in use.
    pub(super) fn uses(&self, connection: &Arc<Connection>) -> bool {
        self.connection.as_ref().is_some_and(|used| Arc::ptr_eq(used, connection))
    }

    /// Sends the key of multicast over the connection, unless it has been.
    pub(super) fn tell_key(&mut self, key: GroupKey) {
        if let Some(connection) = self.connection.as_ref().filter(|_| self.told_key != Some(key.id))
        {
            connection.append_key(&mut self.outgoing, key);
            self.told_key = Some(key.id);
        }
    }

    /// Sends what has been collected for the connection. A connection that fails is closed, which
    /// the task that serves it notices.
    pub(super) fn flush(&mut self) {
        let outgoing = std::mem::take(&mut self.outgoing);
        if let Some(connection) = self.connection.as_ref().filter(|_| !outgoing.is_empty())
            && connection.send(&outgoing).is_err()
        {
            connection.close();
        }
    }

    /// Ends the edge.
    pub(super) fn close(&mut self) {
        if let Some(connection) = self.connection.take() {
            connection.close();
        }
    }

    /// Notes what came with a frame that the agents have carried. A connection to a process that is
    /// no more ends.
    pub(super) fn note(&mut self, direct: Option<v1::DirectEnd>, body: &Body) -> Arrival {
        let Some(v1::DirectEnd { address, token, connections }) = direct else {
            self.peer = None; // its agent serves it
            self.close();
            return Arrival::Current;
        };
        let Ok(token) = token.try_into().map(Token) else { return Arrival::Late };
        if self.peer.as_ref().is_none_or(|peer| peer.token != token) {
            if !matches!(body, Body::Hello(_)) {
                return Arrival::Late;
            }
            self.close();
            self.peer = Some(Peer { address, token });
            self.connections = connections;
        }
        if connections < self.connections || self.connection.is_some() {
            return Arrival::Late;
        }
        self.connections = connections;
        Arrival::Current
    }

    /// The key of a connection to the neighbour; `None` if there can be none.
    ///
    /// - `own`: rank of this process's member.
    /// - `to`: rank of the neighbour.
    pub(super) fn key(&self, own: Pn, to: Pn) -> Option<EdgeKey> {
        let theirs = &self.peer.as_ref()?.token;
        if self.own == Token::NONE || *theirs == Token::NONE || self.own == *theirs {
            return None;
        }
        let (lower, higher) = if own < to { (&self.own, theirs) } else { (theirs, &self.own) };
        Some(EdgeKey::new(lower, higher))
    }

    /// A frame for the agents to carry.
    ///
    /// - `address`: where this process listens.
    pub(super) fn carried(&self, frame: &Frame, address: &str) -> v1::DirectFrame {
        let direct = v1::DirectEnd {
            address: address.to_owned(),
            token: self.own.0.to_vec(),
            connections: self.connections,
        };
        let frame = v1::LinkFrame {
            gn: frame.gn.0,
            from_pn: frame.from.0,
            to_pn: frame.to.0,
            body: frame.body.encode(),
            direct: Some(direct),
        };
        v1::DirectFrame { link: self.link, frame: Some(frame) }
    }

    /// True if this process is to connect to the neighbour: of two direct ones, that of lower rank
    /// connects.
    pub(super) fn is_to_be_dialed(&self, from: Pn, to: Pn) -> bool {
        let is_reached = self.peer.as_ref().is_some_and(|peer| !peer.address.is_empty());
        from < to && is_reached && self.connection.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(token: u8, connections: u64) -> Option<v1::DirectEnd> {
        Some(v1::DirectEnd { address: "a:1".to_owned(), token: vec![token; 16], connections })
    }

    fn hello() -> Body {
        let (joined, round, decided) = (fabricast_groups::Revision(1), 0, 0);
        let hello = fabricast_messages::Hello { joined, reply: true, hears: false, round, decided };
        Body::Hello(hello)
    }

    #[test]
    fn frames_from_before_a_connection_and_of_a_process_that_is_no_more_are_late() {
        let mut edge = Edge::new("n1");
        let query = Body::Query { number: 1 };
        assert_eq!(edge.note(end(1, 0), &query), Arrival::Late, "it has not said hello");
        assert_eq!(edge.note(end(1, 0), &hello()), Arrival::Current);
        assert_eq!(edge.note(end(1, 0), &query), Arrival::Current);
        assert_eq!(edge.note(end(1, 2), &query), Arrival::Current);
        assert_eq!(edge.note(end(1, 1), &query), Arrival::Late);
        assert_eq!(edge.note(end(2, 0), &query), Arrival::Late, "another process");
        assert_eq!(edge.note(end(2, 0), &hello()), Arrival::Current);
        assert_eq!(edge.note(end(1, 2), &query), Arrival::Late);
        assert_eq!(edge.note(None, &query), Arrival::Current, "the agent serves the member now");
        assert!(edge.peer.is_none());
    }

    #[test]
    fn the_lower_rank_connects_to_a_process_that_listens() {
        let mut edge = Edge::new("n1");
        assert!(!edge.is_to_be_dialed(Pn(1), Pn(2)), "it is behind its agent");
        edge.note(end(1, 0), &hello());
        assert!(edge.is_to_be_dialed(Pn(1), Pn(2)) && !edge.is_to_be_dialed(Pn(2), Pn(1)));
        edge.peer.as_mut().unwrap().address.clear();
        assert!(!edge.is_to_be_dialed(Pn(1), Pn(2)));
    }

    #[test]
    fn secrets_differ_and_are_not_printed() {
        let edge = Edge::new("n1");
        assert!(edge.own != Edge::new("n1").own);
        assert_eq!(format!("{:?}", edge.own), "Token");
    }

    #[test]
    fn there_is_no_key_without_two_secrets() {
        let mut edge = Edge::new("n1");
        assert!(edge.key(Pn(1), Pn(2)).is_none());
        edge.note(end(0, 0), &hello());
        assert!(edge.key(Pn(1), Pn(2)).is_none());
        edge.note(end(1, 0), &hello());
        assert!(edge.key(Pn(1), Pn(2)).is_some());
        edge.own = Token([1; Token::BYTES]);
        assert!(edge.key(Pn(1), Pn(2)).is_none(), "it is its own secret");
    }
}
