//! The states of a member's endpoint and of its edges, each with all transitions in one `match`.
//!
//! The three machines do not depend on each other: the endpoint's participation, and for each edge
//! what its neighbour has been sent and what the neighbour has said. `tests/golden/transitions.txt`
//! lists every transition.

/// Participation of an endpoint in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Participation {
    /// No member of the tree takes part, as far as is known.
    Asleep,
    /// Passes on what others send; the member's process does not take part.
    Awake,
    /// The member's process takes part.
    Open,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParticipationEvent {
    /// A neighbour has sent a frame.
    Wake,
    /// The process begins to take part.
    Open,
    /// The process ceases to take part.
    Close,
}

impl Participation {
    pub(super) fn next(self, event: ParticipationEvent) -> Self {
        use ParticipationEvent as E;
        match (self, event) {
            (_, E::Open) => Self::Open,
            (Self::Asleep, E::Wake) | (Self::Open, E::Close) => Self::Awake,
            (Self::Asleep, E::Close) => Self::Asleep,
            (Self::Awake, E::Wake | E::Close) => Self::Awake,
            (Self::Open, E::Wake) => Self::Open,
        }
    }
}

/// Progress of an edge: what its neighbour has been sent since the link is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edge {
    /// There is no link.
    Unlinked {
        /// The outcome of the last operation is to be sent after the roster.
        owes_outcome: bool,
    },
    /// Hello was sent, and the neighbour has not said hello.
    Greeted {
        /// As in [`Edge::Unlinked`].
        owes_outcome: bool,
    },
    /// The neighbour has said hello, and has not been sent the roster of this side.
    Met {
        /// As in [`Edge::Unlinked`].
        owes_outcome: bool,
    },
    /// The neighbour has the roster and can be sent what depends on it.
    Ready,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EdgeEvent {
    LinkUp,
    LinkDown,
    /// Hello of a neighbour that may know nothing of this edge: of another member than before, or
    /// with a request to reply.
    Hello,
    /// Reply to a hello, by the same member as before.
    HelloReply,
    /// The roster of this side is sent.
    Roster,
    /// The outcome of an operation is to be sent.
    Outcome,
}

impl Edge {
    pub(super) fn new(linked: bool) -> Self {
        let owes_outcome = false;
        if linked { Self::Greeted { owes_outcome } } else { Self::Unlinked { owes_outcome } }
    }

    pub(super) fn next(self, event: EdgeEvent) -> Self {
        use EdgeEvent as E;
        let owes_outcome = self.owes_outcome();
        match (self, event) {
            (_, E::LinkDown) => Self::Unlinked { owes_outcome },
            // A new link: what was sent over the one before may be lost.
            (_, E::LinkUp) => Self::Greeted { owes_outcome },
            (Self::Unlinked { .. }, E::Hello | E::HelloReply | E::Roster) => self,
            (Self::Greeted { .. } | Self::Met { .. } | Self::Ready, E::Hello) => {
                Self::Met { owes_outcome }
            }
            (Self::Greeted { .. }, E::HelloReply) => Self::Met { owes_outcome },
            (Self::Greeted { .. }, E::Roster) => self,
            (Self::Met { .. }, E::HelloReply) => self,
            (Self::Met { .. }, E::Roster) => Self::Ready,
            (Self::Ready, E::HelloReply | E::Roster | E::Outcome) => self,
            (Self::Unlinked { .. }, E::Outcome) => Self::Unlinked { owes_outcome: true },
            (Self::Greeted { .. }, E::Outcome) => Self::Greeted { owes_outcome: true },
            (Self::Met { .. }, E::Outcome) => Self::Met { owes_outcome: true },
        }
    }

    pub(super) fn is_linked(self) -> bool {
        !matches!(self, Self::Unlinked { .. })
    }

    /// Returns whether the neighbour has said hello over the present link.
    pub(super) fn is_met(self) -> bool {
        matches!(self, Self::Met { .. } | Self::Ready)
    }

    pub(super) fn is_ready(self) -> bool {
        self == Self::Ready
    }

    pub(super) fn owes_outcome(self) -> bool {
        match self {
            Self::Unlinked { owes_outcome }
            | Self::Greeted { owes_outcome }
            | Self::Met { owes_outcome } => owes_outcome,
            Self::Ready => false,
        }
    }
}

/// Certainty about the members that take part on a neighbour's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Knowledge {
    /// Presumed from what others said, until the neighbour itself says it.
    Presumed,
    /// Said by the neighbour.
    Stated,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KnowledgeEvent {
    /// The neighbour has sent all members that take part on its side.
    Roster,
    /// The neighbour has sent a change of that.
    Change,
    /// Another member has taken the neighbour's place.
    NewMember,
}

impl Knowledge {
    pub(super) fn next(self, event: KnowledgeEvent) -> Self {
        use KnowledgeEvent as E;
        match (self, event) {
            (_, E::NewMember) => Self::Presumed,
            (_, E::Roster) => Self::Stated,
            // A change of something that is not known says nothing.
            (Self::Presumed, E::Change) => Self::Presumed,
            (Self::Stated, E::Change) => Self::Stated,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use super::*;

    const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/transitions.txt");

    fn rows<S: Copy + Debug, E: Copy + Debug>(
        title: &str,
        states: &[S],
        events: &[E],
        next: impl Fn(S, E) -> S,
    ) -> String {
        let mut table = format!("{title}, event -> {title}\n");
        for state in states {
            for event in events {
                table += &format!("{state:?}, {event:?} -> {:?}\n", next(*state, *event));
            }
        }
        table + "\n"
    }

    fn table() -> String {
        use {EdgeEvent as E, KnowledgeEvent as K, ParticipationEvent as P};
        let edges: Vec<Edge> = [false, true]
            .into_iter()
            .flat_map(|owes_outcome| {
                [
                    Edge::Unlinked { owes_outcome },
                    Edge::Greeted { owes_outcome },
                    Edge::Met { owes_outcome },
                ]
            })
            .chain([Edge::Ready])
            .collect();
        let participation = rows(
            "participation",
            &[Participation::Asleep, Participation::Awake, Participation::Open],
            &[P::Wake, P::Open, P::Close],
            Participation::next,
        );
        let edge = rows(
            "edge",
            &edges,
            &[E::LinkUp, E::LinkDown, E::Hello, E::HelloReply, E::Roster, E::Outcome],
            Edge::next,
        );
        let knowledge = rows(
            "knowledge",
            &[Knowledge::Presumed, Knowledge::Stated],
            &[K::Roster, K::Change, K::NewMember],
            Knowledge::next,
        );
        participation + &edge + knowledge.trim_end() + "\n"
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a golden file is read, and written on request")]
    fn transitions_are_the_recorded_ones() {
        let table = table();
        if std::env::var("UPDATE_GOLDEN").is_ok() {
            std::fs::write(GOLDEN, &table).unwrap();
        }
        assert_eq!(table, std::fs::read_to_string(GOLDEN).unwrap());
    }
}
