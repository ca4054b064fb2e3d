//! Pseudo-random numbers: the same for the same seed on every machine.

/// SplitMix64 by Steele, Lea and Flood: sufficient for random fabrics and test patterns, not for
/// secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitMix {
    state: u64,
}

impl SplitMix {
    /// Starts the sequence of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Returns the next 64 bits.
    pub const fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `count`, 0 if that is 0, by multiplication instead of division.
    pub fn below(&mut self, count: u32) -> u32 {
        let wide = u128::from(self.bits()) * u128::from(count);
        u32::try_from(wide >> 64).expect("less than count")
    }

    /// Shuffles items (Fisher and Yates).
    ///
    /// # Panics
    ///
    /// If there are 2^32 items or more.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            let bound = u32::try_from(at + 1).expect("fewer than 2^32 items");
            items.swap(at, self.below(bound) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of seed 1234567, as given by the authors' reference code.
    #[test]
    fn the_sequence_is_that_of_the_reference_code() {
        let mut chance = SplitMix::new(1_234_567);
        assert_eq!(
            [chance.bits(), chance.bits()],
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]
        );
    }

    #[test]
    fn a_shuffle_keeps_every_item_and_moves_some() {
        let mut items: Vec<u32> = (0..100).collect();
        SplitMix::new(1).shuffle(&mut items);
        assert!(!items.is_sorted());
        items.sort_unstable();
        assert!(items.into_iter().eq(0..100));
    }
}
