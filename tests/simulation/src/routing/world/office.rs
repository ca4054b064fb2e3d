//! What the TIC is asked, and who is told of what it decides.

use std::time::Duration;

use fabricast_groups::command::{Answer as Decided, Command};
use fabricast_groups::record::{Change, Route};
use fabricast_groups::{Gn, Refusal, Revision};
use fabricast_proto::v1;
use tonic::Status;

use super::{Event, HEARING, World};
use crate::routing::agent::Caller;
use crate::routing::calls::{Answer, Ask, Reply};
use crate::routing::senders::Seat;
use crate::routing::tic::routed;

impl World {
    pub(super) fn serve_tic(&mut self, caller: Caller, ask: Ask) -> Answer {
        let (router, life, _) = caller;
        match ask {
            Ask::Watch if self.stream((router, life, 0)).is_none() => {
                Err(Status::unavailable("the caller has died"))
            }
            Ask::Watch => {
                let (number, messages) = self.tic.watch(&self.graph, (router, life));
                let key = (router, life, number);
                // Whoever has the snapshot has all that was published before.
                let before = self.tic.published.saturating_sub(messages.len() as u64);
                if let Some(stream) = self.stream(key) {
                    stream.seen = before;
                }
                for message in messages {
                    self.send_message(key, Ok(Reply::Message(Some(Box::new(message)))));
                }
                Ok(Reply::Watching(number))
            }
            Ask::ListChoices => Ok(Reply::Choices(v1::ListRouteChoicesResponse::default())),
            Ask::Record => panic!("an engine without a past chooses nothing"),
            Ask::Report(request) => {
                self.tic.check_report(&request)?;
                let decided = self.decide(&routed(&request));
                decided.map(|_| Reply::Done).map_err(|why| Status::internal(why.to_string()))
            }
            terms => self.tic.serve_term(self.now, &terms),
        }
    }

    /// Lets the TIC decide; everybody hears of it in time.
    pub(super) fn decide(&mut self, command: &Command) -> Result<Decided, Refusal> {
        let groups = self.tic.directory.groups_from(Gn(0));
        let before: Vec<_> = groups.map(|group| (group.gn, group.mgid)).collect();
        let (answer, changes, message) = self.tic.decide(self.now, command)?;
        let directory = &self.tic.directory;
        let gone = before.iter().filter(|(gn, _)| directory.group(*gn).is_none());
        let gone: Vec<_> = gone.map(|(_, mgid)| *mgid).collect();
        let mut changed: Vec<_> = changes.iter().filter_map(group_of).collect();
        changed.sort_unstable();
        changed.dedup();
        self.witness.decided(directory, &gone, &changed);
        let to_tell = self.senders.decided(directory, &changes);
        let at = directory.revision();
        for (seat, route) in to_tell {
            let most = u32::try_from(HEARING.as_micros()).expect("less than an hour");
            let delay = Duration::from_micros(self.chance.below(most).into());
            self.enqueue(delay, Event::Hear(seat, at, route));
        }
        if !changes.is_empty() {
            self.publish(&message);
        }
        Ok(answer)
    }

    /// A member hears of a route from its agent, which has it from the TIC.
    pub(super) fn hear(&mut self, seat: Seat, at: Revision, route: Route) {
        if self.tic_is_down {
            // Its agent asks again.
            self.enqueue(Duration::from_millis(100), Event::Hear(seat, at, route));
        } else if self.senders.hear(seat, at, route) {
            self.witness.news.groups.insert(seat.0);
        }
    }
}

fn group_of(change: &Change) -> Option<Gn> {
    match change {
        Change::GroupPut(group) => Some(group.gn),
        Change::MemberPut(member) | Change::MemberDeleted(member) => Some(member.gn),
        _ => None,
    }
}
