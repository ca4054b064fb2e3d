//! Values of collective operations: numbers of one type, combined element by element.

/// Function that combines values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reduction {
    /// Sum; of integers modulo 2^64.
    Sum,
    /// Minimum. Floating-point numbers are ordered as IEEE 754's totalOrder has them.
    Min,
    /// Maximum, in the same order.
    Max,
    /// Bitwise AND; of integers only.
    And,
    /// Bitwise OR; of integers only.
    Or,
}

/// Numbers of one type, 64 bits each.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Signed 64-bit integers.
    I64(Vec<i64>),
    /// Unsigned 64-bit integers.
    U64(Vec<u64>),
    /// IEEE 754 double-precision numbers.
    F64(Vec<f64>),
}

impl Values {
    /// True if a reduction is defined for this type.
    #[must_use]
    pub const fn allow(&self, reduction: Reduction) -> bool {
        match (self, reduction) {
            (Self::F64(_), Reduction::And | Reduction::Or) => false,
            (Self::I64(_) | Self::U64(_) | Self::F64(_), _) => true,
        }
    }

    /// Counts the bytes of the numbers, 8 each.
    pub(crate) const fn bytes(&self) -> u64 {
        let count = match self {
            Self::I64(numbers) => numbers.len(),
            Self::U64(numbers) => numbers.len(),
            Self::F64(numbers) => numbers.len(),
        };
        8 * count as u64
    }

    /// Combines other values into these; `false`, without a change, if they differ in type or
    /// length, or the reduction is not defined.
    pub(crate) fn combine(&mut self, other: &Self, reduction: Reduction) -> bool {
        if !self.allow(reduction) {
            return false;
        }
        match (self, other) {
            (Self::I64(mine), Self::I64(other)) => each(mine, other, |a, b| match reduction {
                Reduction::Sum => a.wrapping_add(b),
                Reduction::Min => a.min(b),
                Reduction::Max => a.max(b),
                Reduction::And => a & b,
                Reduction::Or => a | b,
            }),
            (Self::U64(mine), Self::U64(other)) => each(mine, other, |a, b| match reduction {
                Reduction::Sum => a.wrapping_add(b),
                Reduction::Min => a.min(b),
                Reduction::Max => a.max(b),
                Reduction::And => a & b,
                Reduction::Or => a | b,
            }),
            (Self::F64(mine), Self::F64(other)) => each(mine, other, |a, b| match reduction {
                Reduction::Min if b.total_cmp(&a).is_lt() => b,
                Reduction::Max if b.total_cmp(&a).is_gt() => b,
                Reduction::Min | Reduction::Max => a,
                // Bits of floating-point numbers are refused above.
                Reduction::Sum | Reduction::And | Reduction::Or => a + b,
            }),
            (Self::I64(_) | Self::U64(_) | Self::F64(_), _) => false,
        }
    }
}

/// Combines slices of one length element by element.
fn each<T: Copy>(mine: &mut [T], other: &[T], combine: impl Fn(T, T) -> T) -> bool {
    if mine.len() != other.len() {
        return false;
    }
    mine.iter_mut().zip(other).for_each(|(mine, other)| *mine = combine(*mine, *other));
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reduction_does_what_it_says() {
        let combined = |reduction, (mut a, b): (Values, Values)| {
            assert!(a.combine(&b, reduction));
            a
        };
        let signed = || (Values::I64(vec![-3, i64::MAX]), Values::I64(vec![5, 1]));
        assert_eq!(combined(Reduction::Sum, signed()), Values::I64(vec![2, i64::MIN]));
        assert_eq!(combined(Reduction::Min, signed()), Values::I64(vec![-3, 1]));
        assert_eq!(combined(Reduction::Max, signed()), Values::I64(vec![5, i64::MAX]));
        let bits = || (Values::U64(vec![0b1100]), Values::U64(vec![0b1010]));
        assert_eq!(combined(Reduction::And, bits()), Values::U64(vec![0b1000]));
        assert_eq!(combined(Reduction::Or, bits()), Values::U64(vec![0b1110]));
        assert_eq!(combined(Reduction::Sum, bits()), Values::U64(vec![22]));
        let floats = || (Values::F64(vec![0.5, -0.0]), Values::F64(vec![0.25, 0.0]));
        assert_eq!(combined(Reduction::Sum, floats()), Values::F64(vec![0.75, 0.0]));
        assert_eq!(combined(Reduction::Max, floats()), Values::F64(vec![0.5, 0.0]));
        let Values::F64(least) = combined(Reduction::Min, floats()) else { panic!("a type") };
        assert!(least[1].is_sign_negative(), "-0 is less than 0");
    }

    #[test]
    fn messages_that_do_not_fit_are_left_alone() {
        let mut one = Values::I64(vec![1]);
        assert!(!one.combine(&Values::U64(vec![1]), Reduction::Sum));
        assert!(!one.combine(&Values::I64(vec![1, 2]), Reduction::Sum));
        let mut float = Values::F64(vec![1.0]);
        assert!(!float.combine(&Values::F64(vec![1.0]), Reduction::Or));
        assert_eq!((one, float), (Values::I64(vec![1]), Values::F64(vec![1.0])));
    }
}
