//! Shares of users in the sessions of an agent.
//!
//! A user may have as many sessions as are left for others: half of all while it is alone, a third
//! beside one that has its share, too. So a user that has none finds room, however many the others
//! would like to have.

use std::collections::BTreeMap;

use thiserror::Error;

/// The refusal of a further session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum NoShare {
    #[error("{most} processes are attached already")]
    All { most: usize },
    #[error("{count} processes of this user are attached: as many as there is room for others")]
    User { count: usize },
}

/// Counts of sessions.
#[derive(Debug)]
pub(crate) struct SessionShares {
    most: usize,
    all: usize,
    /// By user; `None` if the system does not tell.
    of_user: BTreeMap<Option<u32>, usize>,
}

impl SessionShares {
    /// - `most`: sessions of all users.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, all: 0, of_user: BTreeMap::new() }
    }

    /// Counts a session in.
    ///
    /// # Errors
    ///
    /// [`NoShare::All`] if there are as many as there may be, or [`NoShare::User`] if the user has
    /// as many as are left.
    pub(crate) fn begin(&mut self, user: Option<u32>) -> Result<(), NoShare> {
        let (left, count) = (self.most - self.all, self.count(user));
        if left == 0 {
            return Err(NoShare::All { most: self.most });
        }
        if count >= left {
            return Err(NoShare::User { count });
        }
        self.all += 1;
        *self.of_user.entry(user).or_default() += 1;
        Ok(())
    }

    /// Counts a session out that was counted in.
    pub(crate) fn end(&mut self, user: Option<u32>) {
        let Some(count) = self.of_user.get_mut(&user) else { return };
        *count -= 1;
        self.all -= 1;
        if *count == 0 {
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

    /// Begins sessions of a user until one is refused.
    fn fill(shares: &mut SessionShares, user: Option<u32>) -> NoShare {
        loop {
            if let Err(refused) = shares.begin(user) {
                return refused;
            }
        }
    }

    #[test]
    fn a_user_has_as_many_sessions_as_are_left_for_others() {
        let mut shares = SessionShares::new(12);
        assert_eq!(fill(&mut shares, Some(7)), NoShare::User { count: 6 });
        assert_eq!(fill(&mut shares, Some(8)), NoShare::User { count: 3 });
        assert_eq!(fill(&mut shares, None), NoShare::User { count: 2 });
        shares.begin(Some(9)).unwrap();
        assert_eq!(fill(&mut shares, Some(10)), NoShare::All { most: 12 });
        shares.end(Some(7));
        shares.begin(Some(10)).unwrap();
    }

    #[test]
    fn ended_sessions_leave_nothing() {
        let mut shares = SessionShares::new(12);
        for _ in 0..100 {
            shares.begin(Some(7)).unwrap();
            shares.begin(None).unwrap();
            shares.end(Some(7));
            shares.end(None);
        }
        assert_eq!((shares.all, shares.of_user.len()), (0, 0));
    }
}
