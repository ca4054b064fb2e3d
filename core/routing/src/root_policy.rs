//! Chooses one of several equally good roots by their load.
//!
//! Source: Dawning §3.2 and §4.2.2. All nearest common ancestors reach a group's members in the
//! same number of hops; what differs is the load on the way. Loads are what port statistics said
//! some time ago, in any unit, and equal for everybody who asks meanwhile: a policy that takes the
//! one best root then sends all of them there, which is why HLSE draws lots among the good ones.
//!
//! Invariants
//! - ROOT-1: the answer is a function of policy, candidates, turn and word; nothing else is asked.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Policy that chooses among equally good roots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RootPolicy {
    /// By the source's number, whatever the load: sources that share a leaf never meet on the way
    /// up.
    Cyclic,
    /// Least loaded parent: every switch on the way up takes the one that is least loaded itself.
    Llp,
    /// The path whose most loaded link is least loaded.
    LlpEcMax,
    /// The path with the least sum of loads.
    LlpEcSum,
    /// Heavy loaded switches eliminated: by chance among the roots not loaded above the mean.
    #[default]
    Hlse,
}

/// Loads of one root that a tree could have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootCandidate<'a> {
    /// Load and number of every switch on the way up, the parent of the source's leaf first and the
    /// root last. Not empty.
    pub climb: &'a [(u64, u32)],
    /// Load of the most loaded link, up from the source and down to the members.
    pub worst_link: u64,
    /// Sum of the loads of these links.
    pub all_links: u64,
}

impl RootPolicy {
    /// All policies, in the paper's order.
    pub const ALL: [Self; 5] =
        [Self::Cyclic, Self::Llp, Self::LlpEcMax, Self::LlpEcSum, Self::Hlse];

    /// Returns the policy's name as options and tables spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cyclic => "cyclic",
            Self::Llp => "llp",
            Self::LlpEcMax => "llp-ec-max",
            Self::LlpEcSum => "llp-ec-sum",
            Self::Hlse => "hlse",
        }
    }

    /// Tells whether loads make a difference.
    #[must_use]
    pub const fn looks_at_load(self) -> bool {
        !matches!(self, Self::Cyclic)
    }

    /// Tells whether loads of links make a difference.
    #[must_use]
    pub const fn looks_at_links(self) -> bool {
        matches!(self, Self::LlpEcMax | Self::LlpEcSum)
    }
}

impl fmt::Display for RootPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no policy has.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no root policy is called {name:?}: cyclic, llp, llp-ec-max, llp-ec-sum or hlse")]
pub struct UnknownRootPolicy {
    /// The name given.
    pub name: String,
}

impl FromStr for RootPolicy {
    type Err = UnknownRootPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownRootPolicy> {
        let found = Self::ALL.into_iter().find(|policy| policy.name() == name);
        found.ok_or_else(|| UnknownRootPolicy { name: name.to_owned() })
    }
}

/// Chooses among candidates; none if there are none.
///
/// - `turn`: a number of the source; Cyclic takes candidate `turn` modulo their number, so they
///   have to be in the order of their up-ports, lowest level fastest.
/// - `word`: 64 random bits; only HLSE looks at them.
/// - Equal loads: the first candidate; HLSE draws among them.
/// - Cost: O(candidates), of LLP times the height.
#[must_use]
pub fn choose_root(
    policy: RootPolicy,
    candidates: &[RootCandidate<'_>],
    turn: u32,
    word: u64,
) -> Option<usize> {
    let least = |key: &dyn Fn(&RootCandidate<'_>) -> u64| {
        let keys = candidates.iter().map(key).enumerate();
        keys.min_by_key(|(at, key)| (*key, *at)).map(|(at, _)| at)
    };
    match policy {
        RootPolicy::Cyclic => (turn as usize).checked_rem(candidates.len()),
        RootPolicy::Llp => {
            // Comparing climbs switch by switch is what a walk upwards does.
            let climbs = candidates.iter().map(|candidate| candidate.climb).enumerate();
            climbs.min_by_key(|(at, climb)| (*climb, *at)).map(|(at, _)| at)
        }
        RootPolicy::LlpEcMax => least(&|candidate| candidate.worst_link),
        RootPolicy::LlpEcSum => least(&|candidate| candidate.all_links),
        RootPolicy::Hlse => draw_light_root(candidates, word),
    }
}

/// Draws one of the candidates whose root is not loaded above the mean of all. (The paper keeps
/// those below the mean; where all are equal there would be none.)
fn draw_light_root(candidates: &[RootCandidate<'_>], word: u64) -> Option<usize> {
    let load = |candidate: &RootCandidate<'_>| {
        u128::from(candidate.climb.last().map_or(0, |(load, _)| *load))
    };
    let sum: u128 = candidates.iter().map(load).sum();
    let count = candidates.len() as u128;
    let is_light = |candidate: &RootCandidate<'_>| load(candidate) * count <= sum;
    let light = candidates.iter().filter(|candidate| is_light(candidate)).count();
    let lot = (u128::from(word) * light as u128) >> 64;
    let lot = usize::try_from(lot).expect("less than the number of candidates");
    let mut places = (0..candidates.len()).filter(|at| is_light(&candidates[*at]));
    places.nth(lot)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Roots of one level, as in figure 7.
    fn roots(loads: &[u64]) -> Vec<[(u64, u32); 1]> {
        (0..).zip(loads).map(|(id, load)| [(*load, id)]).collect()
    }

    fn candidates<const N: usize>(climbs: &[[(u64, u32); N]]) -> Vec<RootCandidate<'_>> {
        let links = |climb: &[(u64, u32); N]| climb.map(|(load, _)| load);
        climbs
            .iter()
            .map(|climb| RootCandidate {
                climb,
                worst_link: links(climb).into_iter().max().unwrap(),
                all_links: links(climb).into_iter().sum(),
            })
            .collect()
    }

    /// Dawning figure 7: loads 3, 4, 2, 5 of SW<00,0>, <01,0>, <10,0>, <11,0>. LLP sends everybody
    /// to <10,0>; HLSE draws between <00,0> and <10,0>, half of the time each.
    #[test]
    fn figure_7_is_chosen_as_the_paper_says() {
        let climbs = roots(&[3, 4, 2, 5]);
        let candidates = candidates(&climbs);
        for policy in [RootPolicy::Llp, RootPolicy::LlpEcMax, RootPolicy::LlpEcSum] {
            assert_eq!(choose_root(policy, &candidates, 7, 1), Some(2));
        }
        let hlse = |word| choose_root(RootPolicy::Hlse, &candidates, 7, word);
        assert_eq!((hlse(0), hlse(u64::MAX / 2)), (Some(0), Some(0)));
        assert_eq!((hlse(u64::MAX / 2 + 1), hlse(u64::MAX)), (Some(2), Some(2)));
    }

    #[test]
    fn cyclic_deals_out_candidates_by_the_sources_number() {
        let climbs = roots(&[9, 0, 0]);
        let chosen = |turn| choose_root(RootPolicy::Cyclic, &candidates(&climbs), turn, 0);
        assert_eq!([0, 1, 2, 3].map(chosen), [Some(0), Some(1), Some(2), Some(0)]);
    }

    /// LLP sees only the next parent: it takes the lighter one although a heavy root is above it.
    #[test]
    fn least_loaded_parent_is_short_sighted_and_the_others_are_not() {
        let climbs = [[(1, 0), (90, 10)], [(1, 0), (80, 11)], [(5, 1), (6, 12)], [(5, 1), (7, 13)]];
        let candidates = candidates(&climbs);
        let chosen = |policy| choose_root(policy, &candidates, 0, 0);
        assert_eq!(chosen(RootPolicy::Llp), Some(1));
        assert_eq!(chosen(RootPolicy::LlpEcMax), Some(2));
        assert_eq!(chosen(RootPolicy::LlpEcSum), Some(2));
    }

    /// Of two parents with equal load a switch takes the first, whatever stands above the second.
    #[test]
    fn equal_parents_are_not_compared_by_what_is_above_them() {
        let climbs = [[(1, 0), (90, 10)], [(1, 1), (2, 12)]];
        assert_eq!(choose_root(RootPolicy::Llp, &candidates(&climbs), 0, 0), Some(0));
    }

    #[test]
    fn without_candidates_nothing_is_chosen() {
        for policy in RootPolicy::ALL {
            assert_eq!(choose_root(policy, &[], 3, 9), None);
        }
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for policy in RootPolicy::ALL {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        assert_eq!("x".parse::<RootPolicy>(), Err(UnknownRootPolicy { name: "x".into() }));
    }

    proptest! {
        #[test]
        fn hlse_never_takes_a_root_loaded_above_the_mean(
            loads in proptest::collection::vec(0u64..1_000, 1..20),
            word: u64,
        ) {
            let climbs = roots(&loads);
            let chosen = choose_root(RootPolicy::Hlse, &candidates(&climbs), 0, word).unwrap();
            let sum: u64 = loads.iter().sum();
            prop_assert!(loads[chosen] * u64::try_from(loads.len()).unwrap() <= sum);
        }
    }
}
