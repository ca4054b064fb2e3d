//! Shares of users in what an agent keeps for processes: sessions and reserved names.
//!
//! A user may have as many as are left for others: half of all while it is alone, a third beside
//! one that has its share, too. So a user that has none finds room, however many the others would
//! like to have.

use std::collections::BTreeMap;

use thiserror::Error;

/// The refusal of more for a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum NoShare {
    #[error("{most} {what} already")]
    All { what: &'static str, most: usize },
    #[error("{count} {what} for this user: as many as there is room for others")]
    User { what: &'static str, count: usize },
}

/// Counts by user.
#[derive(Debug)]
pub(crate) struct UserShares {
    what: &'static str,
    most: usize,
    all: usize,
    /// By user; `None` if the system does not tell.
    of_user: BTreeMap<Option<u32>, usize>,
}

impl UserShares {
    /// - `what`: as errors name it, after a number.
    /// - `most`: that all users may have.
    pub(crate) fn new(what: &'static str, most: usize) -> Self {
        Self { what, most, all: 0, of_user: BTreeMap::new() }
    }

    /// Counts some in for a user, as if they came one after the other: all or none.
    ///
    /// # Errors
    ///
    /// [`NoShare::All`] if that were more than there may be, or [`NoShare::User`] if the user had
    /// more than were left.
    pub(crate) fn begin(&mut self, user: Option<u32>, more: usize) -> Result<(), NoShare> {
        let Some(before_last) = more.checked_sub(1) else { return Ok(()) };
        let (what, most) = (self.what, self.most);
        let (left, count) = (most - self.all, self.count(user));
        if more > left {
            return Err(NoShare::All { what, most });
        }
        if count + more > left - before_last {
            return Err(NoShare::User { what, count });
        }
        self.all += more;
        *self.of_user.entry(user).or_default() += more;
        Ok(())
    }

    /// Counts some out that were counted in.
    pub(crate) fn end(&mut self, user: Option<u32>, count: usize) {
        let Some(of_user) = self.of_user.get_mut(&user) else { return };
        *of_user -= count;
        self.all -= count;
        if *of_user == 0 {
            self.of_user.remove(&user);
        }
    }

    fn count(&self, user: Option<u32>) -> usize {
        self.of_user.get(&user).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHAT: &str = "sessions are open";

    /// Begins sessions of a user until one is refused.
    fn fill(shares: &mut UserShares, user: Option<u32>) -> NoShare {
        loop {
            if let Err(refused) = shares.begin(user, 1) {
                return refused;
            }
        }
    }

    fn of_user(count: usize) -> NoShare {
        NoShare::User { what: WHAT, count }
    }

    #[test]
    fn a_user_has_as_many_as_are_left_for_others() {
        let mut shares = UserShares::new(WHAT, 12);
        assert_eq!(fill(&mut shares, Some(7)), of_user(6));
        assert_eq!(fill(&mut shares, Some(8)), of_user(3));
        assert_eq!(fill(&mut shares, None), of_user(2));
        shares.begin(Some(9), 1).unwrap();
        let all = NoShare::All { what: WHAT, most: 12 };
        assert_eq!(fill(&mut shares, Some(10)), all);
        shares.end(Some(7), 1);
        shares.begin(Some(10), 1).unwrap();
    }

    #[test]
    fn many_are_counted_as_if_they_came_one_after_the_other() {
        let mut shares = UserShares::new(WHAT, 12);
        assert_eq!(shares.begin(Some(7), 7), Err(of_user(0)));
        shares.begin(Some(7), 6).unwrap();
        assert_eq!(shares.begin(Some(8), 4), Err(of_user(0)));
        assert_eq!(shares.begin(Some(8), 13), Err(NoShare::All { what: WHAT, most: 12 }));
        shares.begin(Some(8), 3).unwrap();
        // None more are no more than there may be.
        shares.begin(Some(7), 0).unwrap();
        assert_eq!(fill(&mut shares, None), of_user(2));
    }

    #[test]
    fn what_has_ended_leaves_nothing() {
        let mut shares = UserShares::new(WHAT, 12);
        for _ in 0..100 {
            shares.begin(Some(7), 3).unwrap();
            shares.begin(None, 1).unwrap();
            shares.end(Some(7), 3);
            shares.end(None, 1);
        }
        shares.end(Some(7), 0);
        assert_eq!((shares.all, shares.of_user.len()), (0, 0));
    }
}
