//! Looks at the tables again while there is nothing else to do: a few at a time (`pace.rs`), for ever.

use fabricast_groups::Moment;

use super::Control;
use crate::outside::Outside;
use crate::pace::Pace;

impl<O: Outside> Control<O> {
    /// When the next tables are to be compared at the latest, or a turn is to be made.
    pub(super) fn due(&self) -> Moment {
        self.turn_due().fold(self.look_back_at, Moment::min)
    }

    /// When turns are to be made.
    fn turn_due(&self) -> impl Iterator<Item = Moment> + use<O> {
        // While a turn is to be repeated, nothing else can be brought to its end.
        let next = self.retry_at.or(self.drain.due().filter(|_| self.connected));
        next.into_iter().chain(self.gathering.due())
    }

    /// Compares the next tables if it is time for that; whether a turn is to be made now.
    pub(super) async fn look_back(&mut self) -> bool {
        let now = self.outside.now();
        let mut is_wanted = self.turn_due().any(|at| now >= at);
        if now >= self.look_back_at {
            let pacing = self.policy.live.pacing();
            let pace = Pace { interval: pacing.read_back, rate: pacing.read_back_rate };
            let (count, pause) = pace.step(self.programmer.table_count());
            is_wanted |= self.programmer.compare_some(count, &self.dead).await;
            // From the end of it: however slow the switches are, there is time for news in between.
            self.look_back_at = self.outside.now().after(pause);
        }
        is_wanted
    }
}
