//! Chance in the simulation: one sequence for each source of traffic.

use fabricast_topology::SplitMix;

/// Random number generator with an independent sequence for each pair of seed and stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chance {
    numbers: SplitMix,
}

impl Chance {
    /// Starts the sequence of a pair of seed and stream.
    #[must_use]
    pub const fn new(seed: u64, stream: u64) -> Self {
        let mixed = SplitMix::new(seed).bits();
        Self { numbers: SplitMix::new(mixed ^ stream.wrapping_mul(0xD6E8_FEB8_6659_FD93)) }
    }

    /// Draws 64 bits.
    pub const fn word(&mut self) -> u64 {
        self.numbers.bits()
    }

    /// Draws a number below `count`.
    pub fn below(&mut self, count: u32) -> u32 {
        self.numbers.below(count)
    }

    /// Shuffles items.
    ///
    /// # Panics
    ///
    /// If there are 2^32 items or more.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        self.numbers.shuffle(items);
    }

    /// Draws from an exponential distribution, in picoseconds, at most 40 means.
    pub fn wait_ps(&mut self, mean_ps: u64) -> u64 {
        // -ln(u) by the binary logarithm of a 64-bit word: leading zeros, then a table-free
        // series in integers, so that every machine draws the same.
        let word = self.word() | 1;
        let zeros = word.leading_zeros();
        let mut x = u128::from(word << zeros); // in [2^63, 2^64): x / 2^63 in [1, 2)
        let mut log2 = 0u64; // of x / 2^63, in 2^-32; 20 bits of it are computed
        for bit in (12..32).rev() {
            x = (x * x) >> 63;
            if x >> 64 == 1 {
                log2 |= 1 << bit;
                x >>= 1;
            }
        }
        let minus_log2 = (u64::from(zeros + 1) << 32) - log2; // in 2^-32, more than 0
        // ln 2 = 0xB17217F7 / 2^32.
        let ln = (u128::from(minus_log2) * 0xB172_17F7) >> 32;
        let wait = (ln * u128::from(mean_ps)) >> 32;
        u64::try_from(wait).expect("at most 45 means")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_have_their_mean_and_spread() {
        let mut chance = Chance::new(1, 0);
        let waits: Vec<u64> = (0..100_000).map(|_| chance.wait_ps(1_000_000)).collect();
        let mean = waits.iter().sum::<u64>() / 100_000;
        assert!((990_000..1_010_000).contains(&mean), "{mean}");
        let longer = waits.iter().filter(|wait| **wait > 1_000_000).count();
        assert!((36_200..37_400).contains(&longer), "1/e of them, not {longer}");
    }

    #[test]
    fn streams_of_one_seed_differ() {
        assert_ne!(Chance::new(1, 0).word(), Chance::new(1, 1).word());
        assert_eq!(Chance::new(1, 1).word(), Chance::new(1, 1).word());
    }

    #[test]
    fn below_reaches_every_number_evenly() {
        let (mut chance, mut counts) = (Chance::new(3, 5), [0u32; 10]);
        (0..100_000).for_each(|_| counts[chance.below(10) as usize] += 1);
        assert!(counts.iter().all(|count| (9_600..10_400).contains(count)), "{counts:?}");
    }
}
