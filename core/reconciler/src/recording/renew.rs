//! Begins the next section, with a new reconciler in the place of the old one.

use std::sync::Arc;
use std::time::Duration;

use fabricast_groups::Moment;

use super::codec::{Frame, digest, known_table};
use super::{RENEWAL_SHARE, Recorder, Section, Start};
use crate::interface::{Input, Output, Reply, TurnEnd, WatchEvent};
use crate::reconciler::{Generations, Reconciler};

/// Time between two attempts.
const PAUSE: Duration = Duration::from_secs(1);

/// Result of [`Recorder::renew`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// It is not time for it, or the reconciler has work.
    NotNow,
    /// A section has begun.
    Done,
    /// Records and tables alone take more bytes than the limit, this number. Nothing is recorded
    /// from now on.
    TooLarge(usize),
}

impl Recorder {
    /// Begins the next section if the present one is long, or was dropped, or another one is
    /// wanted, and the reconciler is at rest. Call it when there is no output and no input.
    ///
    /// Costs as much as the start of a reconciler with these records, but for the calls.
    pub fn renew(&mut self, now: Moment) -> Renewal {
        let length = self.sections.back().map_or(usize::MAX, Section::len);
        let is_wanted = self.wants_section || length > self.limit / RENEWAL_SHARE;
        let is_due = self.limit > 0 && is_wanted && now >= self.renew_at;
        if !is_due || !self.reconciler.is_at_rest() {
            return Renewal::NotNow;
        }
        self.renew_at = now.after(PAUSE);
        let Some((mut successor, section)) = self.successor(now) else { return Renewal::NotNow };
        let length = section.len();
        if length > self.limit / RENEWAL_SHARE {
            self.sections.clear();
            self.limit = 0;
            return Renewal::TooLarge(length);
        }
        successor.agents.take_over_drifts(&mut self.reconciler.agents);
        self.reconciler = successor;
        self.sections.push_back(section);
        self.wants_section = false;
        self.taken = None;
        self.stay_bounded();
        Renewal::Done
    }

    /// Makes a reconciler with the records and tables of the present one, and the section that
    /// leads to it; `None` if it would have anything to do.
    fn successor(&self, now: Moment) -> Option<(Reconciler, Section)> {
        let old = &self.reconciler;
        let start = Start {
            at: now,
            base: self.base.clone(),
            timing: old.timing,
            generations: Generations { write: old.generation, choice: old.choices.generation() },
            recorded: old.choices.recorded()?,
        };
        let setup = start.setup(Arc::clone(old.agents.graph())).ok()?;
        let mut new = Reconciler::new(setup, now).ok()?;
        let mut section = Section::new(start);
        let mut give = |new: &mut Reconciler, input: Input| {
            section.push(&Frame::of(new, now, &input));
            new.handle(now, input);
            let output = new.poll_output();
            if let Some(output) = &output {
                section.push(&Frame::Output(digest(output)));
            }
            output
        };
        if let Some(loads) = &self.loads {
            give(&mut new, Input::Loads(loads.clone()));
        }
        let records = old.directory.snapshot(|gn| old.reported_route(gn))?;
        give(&mut new, Input::Watch(WatchEvent::Snapshot(vec![records])));
        let mut output = None;
        // A turn walks a part of the groups; the next one follows at once.
        while output.is_some() || new.is_turn_due(now) {
            let Some(call) = output else {
                output = give(&mut new, Input::Deadline);
                continue;
            };
            let reply = match call {
                Output::List { agent } => Reply::Listed(Ok(old.agents.owned(agent).collect())),
                Output::ReadBack { agent, .. } => {
                    for switch in old.agents.answering(agent) {
                        give(&mut new, Input::Table(known_table(old, switch)));
                    }
                    Reply::Read(Ok(()))
                }
                // They show the term, which the switches have seen.
                Output::Write { writes, .. }
                    if writes.iter().all(|write| write.entries.is_empty()) =>
                {
                    Reply::Written(Ok(Vec::new()))
                }
                Output::EndTurn(TurnEnd::Complete) => {
                    output = give(&mut new, Input::TurnEnded { pause: Duration::ZERO });
                    continue;
                }
                Output::Record(_)
                | Output::Write { .. }
                | Output::Report(_)
                | Output::EndTurn(_) => return None,
            };
            output = give(&mut new, Input::Reply(reply));
        }
        new.take_events(); // the old one has logged these facts
        let is_equal = new.status().settled && new.has_tables_of(old);
        is_equal.then_some((new, section))
    }
}
