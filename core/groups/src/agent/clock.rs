//! What becomes due, and what is waiting to be done.

use super::{Claim, GaHost, GaOutput};
use crate::detector::DetectorOutput;
use crate::ids::Moment;

impl GaHost {
    /// Draws the consequences of time passing.
    pub fn tick(&mut self, now: Moment) {
        self.detector.poll(now);
        self.drain_detector(now);
        let most = self.config.detector.report_timeout.max(self.config.retry);
        for (node, claim) in self.failed.iter_mut().filter(|(_, claim)| claim.due <= now) {
            let pause = claim.pause;
            *claim = Claim { due: now.after(pause), pause: (pause * 2).min(most) };
            if let Some(peer) = self.peers.get(node) {
                let (node, incarnation) = (node.clone(), peer.incarnation);
                self.output.push_back(GaOutput::NodeFailed { node, incarnation });
            }
        }
        let unanswered = self.asked.due(now).into_iter();
        self.output.extend(unanswered.map(|gn| GaOutput::Refresh { gn }));
        while let Some((due, gn, pn)) = self.resend.first().copied() {
            if due > now {
                break;
            }
            self.confirm(gn, pn);
            self.dirty.insert((gn, pn));
        }
    }

    /// Answers the next thing to do.
    pub fn poll_output(&mut self, now: Moment) -> Option<GaOutput> {
        if let Some(output) = self.output.pop_front() {
            return Some(output);
        }
        let (gn, pn) = self.dirty.pop_first()?;
        let mut update = self.position(gn, pn).expect("removed seats are not dirty");
        update.enrolment = self.enrolment(gn, pn);
        self.confirm(gn, pn);
        let due = now.after(self.config.resend);
        self.resend.insert((due, gn, pn));
        let seat = self.seat_mut(gn, pn).expect("removed seats are not dirty");
        seat.resend_at = Some(due);
        Some(GaOutput::Position { address: seat.view.address.clone(), update })
    }

    /// Answers when to call [`GaHost::tick`] at the latest.
    pub fn next_deadline(&self) -> Option<Moment> {
        let resend = self.resend.first().map(|(due, _, _)| *due);
        let waiting = self.failed.values().map(|claim| claim.due).chain(self.asked.next_deadline());
        waiting.chain(resend).chain(self.detector.next_deadline()).min()
    }

    pub(super) fn drain_detector(&mut self, now: Moment) {
        while let Some(output) = self.detector.poll_output() {
            match output {
                DetectorOutput::Probe { peer, probe } => {
                    if let Some(at) = self.peers.get(&peer) {
                        let address = at.address.clone();
                        self.output.push_back(GaOutput::Probe { node: peer, address, probe });
                    }
                }
                DetectorOutput::Dead { peer } => {
                    self.failed.insert(peer, Claim { due: now, pause: self.config.retry });
                }
            }
        }
    }
}
