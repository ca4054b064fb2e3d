//! Processor time that one client may use: a bucket that fills with time.
//!
//! The cost of a call is known when it is over. So the balance may fall below zero; then the client
//! owes time, and what it asks for next waits until the debt is paid.

use std::time::Duration;

use tokio::time::Instant;

/// Processor time that a client which was quiet before may use at once.
pub(crate) const BURST: Duration = Duration::from_millis(200);
/// Debt above which calls are refused; with less they wait.
pub(crate) const MOST_DEBT: Duration = Duration::from_secs(1);

/// The processor time that a client may still use, or owes.
#[derive(Debug)]
pub(crate) struct CostBudget {
    /// Nanoseconds of processor time; negative for a debt.
    balance: i64,
    /// Time of the balance.
    at: Instant,
    /// Pieces of work in progress whose cost will be known at their end.
    at_work: u32,
}

impl CostBudget {
    pub(crate) fn new(now: Instant) -> Self {
        Self { balance: nanos(BURST), at: now, at_work: 0 }
    }

    /// Brings the balance up to date. While there is work whose cost is not known yet, more than a
    /// burst is earned: it pays for that work.
    ///
    /// - `rate`: thousandths of a processor.
    fn earn(&mut self, now: Instant, rate: u64) {
        let elapsed = now.saturating_duration_since(self.at).as_nanos();
        let earned = elapsed * u128::from(rate) / 1_000;
        self.balance = self.balance.saturating_add(i64::try_from(earned).unwrap_or(i64::MAX));
        if self.at_work == 0 {
            self.balance = self.balance.min(nanos(BURST));
        }
        self.at = self.at.max(now);
    }

    /// Takes the cost of work.
    pub(crate) fn charge(&mut self, now: Instant, rate: u64, cost: Duration) {
        self.earn(now, rate);
        self.balance = self.balance.saturating_sub(nanos(cost));
    }

    /// Begins a piece of work whose cost will be known at its end.
    pub(crate) fn begin(&mut self, now: Instant, rate: u64) {
        self.earn(now, rate);
        self.at_work += 1;
    }

    /// Ends a piece of work, which has cost so much.
    pub(crate) fn end(&mut self, now: Instant, rate: u64, cost: Duration) {
        self.charge(now, rate, cost);
        self.at_work -= 1;
        self.earn(now, rate);
    }

    /// The debt in processor time, and the time in which it is paid; `None` without a debt.
    pub(crate) fn debt(&mut self, now: Instant, rate: u64) -> Option<(Duration, Duration)> {
        self.earn(now, rate);
        let owed = u64::try_from(self.balance.checked_neg()?).ok().filter(|owed| *owed > 0)?;
        let wait = u128::from(owed) * 1_000 / u128::from(rate.max(1)) + 1;
        let wait = Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX));
        Some((Duration::from_nanos(owed), wait))
    }

    /// True if a client that is forgotten and comes again has no more than this one.
    pub(crate) fn is_full(&mut self, now: Instant, rate: u64) -> bool {
        self.earn(now, rate);
        self.at_work == 0 && self.balance >= nanos(BURST)
    }
}

fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl CostBudget {
        /// Takes back a charge.
        pub(crate) fn refund(&mut self, cost: Duration) {
            self.balance += nanos(cost);
        }
    }

    const HALF: u64 = 500;
    const fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn a_burst_is_free_and_a_debt_is_paid_at_the_rate() {
        let start = Instant::now();
        let mut budget = CostBudget::new(start);
        budget.charge(start, HALF, BURST);
        assert_eq!(budget.debt(start, HALF), None);
        budget.charge(start, HALF, ms(300));
        let (owed, wait) = budget.debt(start, HALF).unwrap();
        assert_eq!((owed, wait.as_millis()), (ms(300), 600));
        assert_eq!(budget.debt(start + ms(200), HALF).unwrap().0, ms(200));
        assert_eq!(budget.debt(start + ms(600), HALF), None);
        assert!(!budget.is_full(start + ms(999), HALF));
        assert!(budget.is_full(start + ms(1_000), HALF));
        // A second that went by earns a burst and no more.
        let later = start + ms(60_000);
        budget.charge(later, HALF, BURST + ms(10));
        assert_eq!(budget.debt(later, HALF).unwrap().0, ms(10));
    }

    #[test]
    fn work_that_takes_no_more_than_the_rate_leaves_no_debt_however_long_it_takes() {
        let start = Instant::now();
        let mut budget = CostBudget::new(start);
        budget.begin(start, HALF);
        budget.end(start + ms(20_000), HALF, ms(10_000));
        assert_eq!(budget.debt(start + ms(20_000), HALF), None);
        assert!(budget.is_full(start + ms(20_000), HALF));
        // The whole of a processor is twice the rate: half of it is owed.
        let begun = start + ms(20_000);
        budget.begin(begun, HALF);
        budget.end(begun + ms(4_000), HALF, ms(4_000));
        assert_eq!(budget.debt(begun + ms(4_000), HALF).unwrap().0, ms(2_000) - BURST);
    }

    #[test]
    fn work_at_the_same_time_is_paid_from_one_balance() {
        let start = Instant::now();
        let mut budget = CostBudget::new(start);
        budget.begin(start, HALF);
        budget.charge(start + ms(1_000), HALF, ms(600));
        budget.end(start + ms(1_000), HALF, ms(500));
        assert_eq!(budget.debt(start + ms(1_000), HALF).unwrap().0, ms(400));
    }
}
