//! Choices drawn from the bytes of an input, so that a mutation of the bytes changes the choices.

/// Remaining bytes of an input. Once they are used up, every choice is the first.
#[derive(Debug)]
pub(crate) struct Entropy<'a>(pub(crate) &'a [u8]);

impl<'a> Entropy<'a> {
    pub(crate) fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
            None => 0,
        }
    }

    /// Draws a number below `count`; 0 if that is 0.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        let wide = usize::from(self.byte()) | (usize::from(self.byte()) << 8);
        if count == 0 { 0 } else { wide % count }
    }

    pub(crate) fn pick<T: Copy>(&mut self, items: &[T]) -> Option<T> {
        let at = self.below(items.len());
        items.get(at).copied()
    }

    /// Takes up to `most` bytes.
    pub(crate) fn bytes(&mut self, most: usize) -> &'a [u8] {
        let count = self.below(most + 1).min(self.0.len());
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    /// Draws any number, mostly a small one or a boundary value.
    pub(crate) fn number(&mut self) -> u64 {
        const EDGES: [u64; 10] = [
            0,
            1,
            2,
            u8::MAX as u64,
            u16::MAX as u64,
            u32::MAX as u64,
            i32::MAX as u64,
            i64::MAX as u64,
            u64::MAX - 1,
            u64::MAX,
        ];
        match self.byte() {
            0..160 => u64::from(self.byte()) % 32,
            160..220 => self.pick(&EDGES).unwrap_or_default(),
            220.. => {
                let bytes: [u8; 8] = std::array::from_fn(|_| self.byte());
                u64::from_le_bytes(bytes)
            }
        }
    }
}
