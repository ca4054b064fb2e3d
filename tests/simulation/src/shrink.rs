//! Shortens a failing scenario: actions are removed as long as the same rule is broken.

use std::fmt::Debug;

use fabricast_groups::Moment;

use crate::routing::{self, RouteAction, RouteScenario};
use crate::run::{Summary, run};
use crate::scenario::{Action, FaultProfile, Scenario};

/// A scenario that can be run and shortened.
pub trait Play: Clone {
    /// Action of the scenario.
    type Action: Debug;

    /// Draws a scenario from a seed.
    fn draw(seed: u64, profile: FaultProfile) -> Self;

    /// Runs the scenario.
    ///
    /// # Errors
    ///
    /// The broken rule, as a text that begins with its id.
    fn play(&self) -> Result<Summary, String>;

    /// Returns the actions, in the order of time.
    fn actions(&mut self) -> &mut Vec<(Moment, Self::Action)>;
}

impl Play for Scenario {
    type Action = Action;

    fn draw(seed: u64, profile: FaultProfile) -> Self {
        Self::draw(seed, profile)
    }

    fn play(&self) -> Result<Summary, String> {
        run(self)
    }

    fn actions(&mut self) -> &mut Vec<(Moment, Action)> {
        &mut self.actions
    }
}

impl Play for RouteScenario {
    type Action = RouteAction;

    fn draw(seed: u64, profile: FaultProfile) -> Self {
        Self::draw(seed, profile)
    }

    fn play(&self) -> Result<Summary, String> {
        routing::run(self)
    }

    fn actions(&mut self) -> &mut Vec<(Moment, RouteAction)> {
        &mut self.actions
    }
}

/// Removes actions, many at a time first, then one by one. Cost: some hundred runs.
///
/// - `broken`: error of [`Play::play`] for the scenario.
#[must_use]
pub fn shrink<P: Play>(scenario: &P, broken: &str) -> P {
    let fails = |shorter: &P| shorter.play().is_err_and(|now| rule(&now) == rule(broken));
    let mut shortest = scenario.clone();
    let mut size = shortest.actions().len().div_ceil(2);
    while size > 0 {
        let mut at = 0;
        while at < shortest.actions().len() {
            let mut shorter = shortest.clone();
            let end = (at + size).min(shorter.actions().len());
            shorter.actions().drain(at..end);
            if fails(&shorter) {
                shortest = shorter;
            } else {
                at = end;
            }
        }
        size /= 2;
    }
    shortest
}

/// Finds the id of a rule in the text of a violation.
fn rule(text: &str) -> Option<&str> {
    text.split([' ', '\n']).find(|word| {
        matches!(word.as_bytes(), [b'G' | b'R' | b'S', number, b':'] if number.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_is_found_wherever_it_stands() {
        assert_eq!(rule("G1: 3 was used before"), Some("G1:"));
        assert_eq!(rule("assertion `left == right` failed: G4: two\n  left: 1"), Some("G4:"));
        assert_eq!(rule("index out of bounds: the len is 3"), None);
    }
}
