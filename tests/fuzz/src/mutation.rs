//! Mutations of a corpus: the same for the same seed.

use fabricast_topology::SplitMix;

/// Limit on the length of a mutated input.
const LONGEST: u32 = 4_096;
/// Bytes with a meaning for some parser.
const TELLING: &[u8] = b"\0\x01\x7f\x80\xff\n\r\t \"'{}[](),:;=#/\\.-+0129eExX_*%&?<>|~@!$^";

/// Generates inputs from others.
#[derive(Debug)]
pub struct Mutator {
    chance: SplitMix,
}

impl Mutator {
    /// Creates the sequence of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { chance: SplitMix::new(seed) }
    }

    /// Generates one more input from a corpus, which may be empty.
    pub fn next_input(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let mut input = self.pick(corpus).cloned().unwrap_or_default();
        for _ in 0..=self.below(4) {
            self.mutate(&mut input, corpus);
        }
        input.truncate(input.len().min(LONGEST as usize).max(self.longest(corpus)));
        input
    }

    fn longest(&self, corpus: &[Vec<u8>]) -> usize {
        corpus.iter().map(Vec::len).max().unwrap_or(0)
    }

    fn mutate(&mut self, input: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        let at = self.below(input.len() + 1);
        let until = at + self.below((input.len() - at).min(32) + 1);
        match self.below(9) {
            0 => input.insert(at, self.byte()),
            1 if at < input.len() => input[at] = self.byte(),
            2 if at < input.len() => input[at] ^= 1 << self.below(8),
            3 => _ = input.drain(at..until),
            4 => {
                let copy = input[at..until].to_vec();
                let to = self.below(input.len() + 1);
                input.splice(to..to, copy);
            }
            5 => {
                let other = self.pick(corpus).cloned().unwrap_or_default();
                let from = self.below(other.len() + 1);
                let upto = from + self.below((other.len() - from).min(64) + 1);
                input.splice(at..until, other[from..upto].to_vec());
            }
            6 => {
                let number = self.number();
                input.splice(at..until, number.into_bytes());
            }
            7 => input.truncate(at),
            _ => {
                let random: Vec<u8> = (0..self.below(9)).map(|_| self.byte()).collect();
                input.splice(at..at, random);
            }
        }
    }

    /// Returns a boundary number as text.
    fn number(&mut self) -> String {
        let shift = self.below(65);
        let edge = if shift == 64 { u64::MAX } else { 1 << shift };
        let number = i128::from(edge) - i128::from(u8::from(self.below(2) == 0));
        if self.below(4) == 0 { format!("-{number}") } else { number.to_string() }
    }

    fn byte(&mut self) -> u8 {
        if self.below(2) == 0 {
            return TELLING[self.below(TELLING.len())];
        }
        u8::try_from(self.below(256)).unwrap_or_default()
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        let at = self.below(items.len());
        items.get(at)
    }

    fn below(&mut self, count: usize) -> usize {
        self.chance.below(u32::try_from(count).unwrap_or(u32::MAX)) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_inputs_and_another_gives_others() {
        let corpus = vec![b"one two".to_vec(), b"three".to_vec()];
        let inputs = |seed| -> Vec<Vec<u8>> {
            let mut mutator = Mutator::new(seed);
            (0..100).map(|_| mutator.next_input(&corpus)).collect()
        };
        assert_eq!(inputs(1), inputs(1));
        assert_ne!(inputs(1), inputs(2));
        assert!(inputs(1).iter().any(|input| !corpus.contains(input)));
        assert!(Mutator::new(1).next_input(&[]).len() < 1_000);
    }
}
