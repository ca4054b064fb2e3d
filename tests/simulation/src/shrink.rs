//! Makes a failing scenario short: deeds are left out as long as the same rule stays broken.

use std::fmt::Debug;

use fabricast_groups::Moment;

use crate::routing::{self, RouteDeed, RouteScenario};
use crate::run::{Summary, run};
use crate::scenario::{Deed, Mix, Scenario};

/// Something that can be run and made shorter.
pub trait Play: Clone {
    /// What people and fate do in it.
    type Deed: Debug;

    /// Draws it.
    fn draw(seed: u64, mix: Mix) -> Self;

    /// Runs it.
    ///
    /// # Errors
    ///
    /// The rule that was broken, in words that begin with its name.
    fn play(&self) -> Result<Summary, String>;

    /// The deeds, in the order of time.
    fn deeds(&mut self) -> &mut Vec<(Moment, Self::Deed)>;
}

impl Play for Scenario {
    type Deed = Deed;

    fn draw(seed: u64, mix: Mix) -> Self {
        Self::draw(seed, mix)
    }

    fn play(&self) -> Result<Summary, String> {
        run(self)
    }

    fn deeds(&mut self) -> &mut Vec<(Moment, Deed)> {
        &mut self.deeds
    }
}

impl Play for RouteScenario {
    type Deed = RouteDeed;

    fn draw(seed: u64, mix: Mix) -> Self {
        Self::draw(seed, mix)
    }

    fn play(&self) -> Result<Summary, String> {
        routing::run(self)
    }

    fn deeds(&mut self) -> &mut Vec<(Moment, RouteDeed)> {
        &mut self.deeds
    }
}

/// Leaves out deeds, many at a time first, then one by one. Cost: some hundred runs.
///
/// - `broken`: what [`Play::play`] says of the scenario.
#[must_use]
pub fn shrink<P: Play>(scenario: &P, broken: &str) -> P {
    let fails = |shorter: &P| shorter.play().is_err_and(|now| rule(&now) == rule(broken));
    let mut shortest = scenario.clone();
    let mut size = shortest.deeds().len().div_ceil(2);
    while size > 0 {
        let mut at = 0;
        while at < shortest.deeds().len() {
            let mut shorter = shortest.clone();
            let end = (at + size).min(shorter.deeds().len());
            shorter.deeds().drain(at..end);
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

/// Finds the name of a rule in what a violation says.
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
