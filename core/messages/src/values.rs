//! Numbers that operations combine, and the rules of combination.
//!
//! Integers are combined wherever two contributions meet: the order does not matter, sums wrap
//! around. Sums of floats depend on the order, so contributions of floats are collected and
//! combined in ascending order of ranks: the result depends neither on timing nor on the tree.
//!
//! Pairs are two numbers of one type, a value and its place, one pair after the other.

use std::fmt;
use std::ops::{BitAnd, BitOr, BitXor};

use thiserror::Error;

/// Rule by which contributions are combined, number by number or pair by pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Sum; integers wrap around.
    Sum,
    /// The least; NaN is ignored unless all are NaN.
    Min,
    /// The greatest; NaN is ignored unless all are NaN.
    Max,
    /// Bitwise and, for integers only.
    And,
    /// Bitwise or, for integers only.
    Or,
    /// Bitwise exclusive or, for integers only.
    Xor,
    /// Product; integers wrap around.
    Product,
    /// 1 if all numbers are not 0, otherwise 0; for integers only.
    LogicalAnd,
    /// 1 if one number is not 0, otherwise 0; for integers only.
    LogicalOr,
    /// 1 if an odd count of numbers is not 0, otherwise 0; for integers only.
    LogicalXor,
    /// The pair with the least value, of equal ones that with the lowest place; NaN is ignored as
    /// by the minimum.
    MinLoc,
    /// The pair with the greatest value, of equal ones that with the lowest place, likewise.
    MaxLoc,
}

impl Reduction {
    /// All reductions.
    pub const ALL: [Self; 12] = [
        Self::Sum,
        Self::Min,
        Self::Max,
        Self::And,
        Self::Or,
        Self::Xor,
        Self::Product,
        Self::LogicalAnd,
        Self::LogicalOr,
        Self::LogicalXor,
        Self::MinLoc,
        Self::MaxLoc,
    ];

    /// Returns whether it is defined for floats.
    pub fn takes_floats(self) -> bool {
        matches!(self, Self::Sum | Self::Min | Self::Max | Self::Product) || self.takes_pairs()
    }

    /// Returns whether numbers are pairs of a value and its place.
    pub fn takes_pairs(self) -> bool {
        matches!(self, Self::MinLoc | Self::MaxLoc)
    }

    /// Returns whether numbers count as 0 or 1.
    fn is_logical(self) -> bool {
        matches!(self, Self::LogicalAnd | Self::LogicalOr | Self::LogicalXor)
    }
}

impl fmt::Display for Reduction {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
            Self::And => "and",
            Self::Or => "or",
            Self::Xor => "xor",
            Self::Product => "product",
            Self::LogicalAnd => "logical and",
            Self::LogicalOr => "logical or",
            Self::LogicalXor => "logical xor",
            Self::MinLoc => "minloc",
            Self::MaxLoc => "maxloc",
        })
    }
}

/// Numbers of one type.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// 32-bit signed integers.
    I32(Vec<i32>),
    /// 64-bit signed integers.
    I64(Vec<i64>),
    /// 32-bit unsigned integers.
    U32(Vec<u32>),
    /// 64-bit unsigned integers.
    U64(Vec<u64>),
    /// Floats of single precision.
    F32(Vec<f32>),
    /// Floats of double precision.
    F64(Vec<f64>),
}

/// Reason why numbers cannot be combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReductionError {
    /// The rule is for integers only and the numbers are floats.
    #[error("{0} is not defined for floats")]
    Floats(Reduction),
    /// The rule is for pairs and the count of numbers is odd.
    #[error("{0} combines pairs, and the count of numbers is odd")]
    OddCount(Reduction),
    /// The other contribution has another type or another count.
    #[error("contributions differ in type or count")]
    Shape,
}

impl Values {
    /// Returns the count of numbers.
    pub fn len(&self) -> usize {
        match self {
            Self::I32(numbers) => numbers.len(),
            Self::I64(numbers) => numbers.len(),
            Self::U32(numbers) => numbers.len(),
            Self::U64(numbers) => numbers.len(),
            Self::F32(numbers) => numbers.len(),
            Self::F64(numbers) => numbers.len(),
        }
    }

    /// Returns whether there are no numbers.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the name of the type, as in errors.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::I32(_) => "i32",
            Self::I64(_) => "i64",
            Self::U32(_) => "u32",
            Self::U64(_) => "u64",
            Self::F32(_) => "f32",
            Self::F64(_) => "f64",
        }
    }

    /// Returns the bytes of the numbers.
    pub fn bytes(&self) -> usize {
        let each = match self {
            Self::I32(_) | Self::U32(_) | Self::F32(_) => 4,
            Self::I64(_) | Self::U64(_) | Self::F64(_) => 8,
        };
        each * self.len()
    }

    /// Returns whether these are floats, whose order of combination is fixed.
    pub fn is_float(&self) -> bool {
        matches!(self, Self::F32(_) | Self::F64(_))
    }

    /// Checks that a reduction is defined for these numbers.
    ///
    /// # Errors
    ///
    /// [`ReductionError::Floats`] or [`ReductionError::OddCount`] if it is not.
    pub fn allow(&self, reduction: Reduction) -> Result<(), ReductionError> {
        if self.is_float() && !reduction.takes_floats() {
            return Err(ReductionError::Floats(reduction));
        }
        if reduction.takes_pairs() && !self.len().is_multiple_of(2) {
            return Err(ReductionError::OddCount(reduction));
        }
        Ok(())
    }

    /// Returns the numbers as a contribution to a reduction: 0 and 1 if it is a logical one.
    pub(crate) fn contributed(&self, reduction: Reduction) -> Self {
        macro_rules! truths {
            ($kind:ident, $numbers:expr) => {
                Self::$kind($numbers.iter().map(|number| (*number != 0).into()).collect())
            };
        }
        match self {
            Self::I32(numbers) if reduction.is_logical() => truths!(I32, numbers),
            Self::I64(numbers) if reduction.is_logical() => truths!(I64, numbers),
            Self::U32(numbers) if reduction.is_logical() => truths!(U32, numbers),
            Self::U64(numbers) if reduction.is_logical() => truths!(U64, numbers),
            Self::I32(_)
            | Self::I64(_)
            | Self::U32(_)
            | Self::U64(_)
            | Self::F32(_)
            | Self::F64(_) => self.clone(),
        }
    }

    /// Combines other numbers into these, one by one; on error nothing changes.
    ///
    /// # Errors
    ///
    /// [`ReductionError`] if type or count differ, or the rule is not defined for the type.
    pub fn combine(&mut self, reduction: Reduction, other: &Self) -> Result<(), ReductionError> {
        self.allow(reduction)?;
        if self.len() != other.len() {
            return Err(ReductionError::Shape);
        }
        match (self, other) {
            (Self::I32(a), Self::I32(b)) => {
                integers(a, b, reduction, [i32::wrapping_add, i32::wrapping_mul])
            }
            (Self::I64(a), Self::I64(b)) => {
                integers(a, b, reduction, [i64::wrapping_add, i64::wrapping_mul])
            }
            (Self::U32(a), Self::U32(b)) => {
                integers(a, b, reduction, [u32::wrapping_add, u32::wrapping_mul])
            }
            (Self::U64(a), Self::U64(b)) => {
                integers(a, b, reduction, [u64::wrapping_add, u64::wrapping_mul])
            }
            (Self::F32(a), Self::F32(b)) => {
                floats(a, b, reduction, [|a, b| a + b, f32::min, f32::max, |a, b| a * b]);
            }
            (Self::F64(a), Self::F64(b)) => {
                floats(a, b, reduction, [|a, b| a + b, f64::min, f64::max, |a, b| a * b]);
            }
            (
                Self::I32(_)
                | Self::I64(_)
                | Self::U32(_)
                | Self::U64(_)
                | Self::F32(_)
                | Self::F64(_),
                _,
            ) => return Err(ReductionError::Shape),
        }
        Ok(())
    }
}

/// Combines integers; those of logical reductions are 0 or 1 ([`Values::contributed`]).
///
/// - `wrapping`: sum, product.
fn integers<T>(to: &mut [T], from: &[T], reduction: Reduction, wrapping: [fn(T, T) -> T; 2])
where
    T: Copy + Ord + BitAnd<Output = T> + BitOr<Output = T> + BitXor<Output = T>,
{
    if reduction.takes_pairs() {
        return pairs(to, from, reduction);
    }
    let [add, multiply] = wrapping;
    for (to, from) in to.iter_mut().zip(from) {
        *to = match reduction {
            Reduction::Sum => add(*to, *from),
            Reduction::Min => *to.min(&mut from.clone()),
            Reduction::Max => *to.max(&mut from.clone()),
            Reduction::And | Reduction::LogicalAnd => *to & *from,
            Reduction::Or | Reduction::LogicalOr => *to | *from,
            Reduction::Xor | Reduction::LogicalXor => *to ^ *from,
            Reduction::Product => multiply(*to, *from),
            Reduction::MinLoc | Reduction::MaxLoc => *to, // done by `pairs`
        };
    }
}

/// - `rules`: sum, least, greatest, product.
fn floats<T>(to: &mut [T], from: &[T], reduction: Reduction, rules: [fn(T, T) -> T; 4])
where
    T: Copy + PartialOrd,
{
    let rule = match reduction {
        Reduction::Sum => rules[0],
        Reduction::Min => rules[1],
        Reduction::Max => rules[2],
        Reduction::Product => rules[3],
        Reduction::MinLoc | Reduction::MaxLoc => return pairs(to, from, reduction),
        Reduction::And
        | Reduction::Or
        | Reduction::Xor
        | Reduction::LogicalAnd
        | Reduction::LogicalOr
        | Reduction::LogicalXor => return, // refused by `allow`
    };
    for (to, from) in to.iter_mut().zip(from) {
        *to = rule(*to, *from);
    }
}

/// Combines pairs. The order does not matter, unless a place is NaN.
fn pairs<T: Copy + PartialOrd>(to: &mut [T], from: &[T], reduction: Reduction) {
    let is_nan = |number: T| number.partial_cmp(&number).is_none();
    for (to, from) in to.chunks_exact_mut(2).zip(from.chunks_exact(2)) {
        let (value, other) = (to[0], from[0]);
        let is_lower_place = from[1] < to[1];
        let takes_other = match (is_nan(value), is_nan(other)) {
            (true, true) => is_lower_place,
            (true, false) => true,
            (false, true) => false,
            (false, false) if value == other => is_lower_place,
            (false, false) if reduction == Reduction::MaxLoc => other > value,
            (false, false) => other < value,
        };
        if takes_other {
            to.copy_from_slice(from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn combined(reduction: Reduction, mut a: Values, b: &Values) -> Values {
        a.combine(reduction, b).unwrap();
        a
    }

    #[test]
    fn rules_combine_as_their_names_say() {
        let (a, b) = (Values::I32(vec![12, -7, i32::MAX]), Values::I32(vec![10, 3, 1]));
        let want = [
            (Reduction::Sum, [22, -4, i32::MIN]),
            (Reduction::Min, [10, -7, 1]),
            (Reduction::Max, [12, 3, i32::MAX]),
            (Reduction::And, [8, 1, 1]),
            (Reduction::Or, [14, -5, i32::MAX]),
            (Reduction::Xor, [6, -6, i32::MAX - 1]),
            (Reduction::Product, [120, -21, i32::MAX]),
        ];
        for (reduction, numbers) in want {
            assert_eq!(combined(reduction, a.clone(), &b), Values::I32(numbers.to_vec()));
        }
    }

    #[test]
    fn logical_rules_give_0_or_1_also_for_one_contribution() {
        let (a, b) = (Values::I64(vec![-4, 7, 0, 0]), Values::I64(vec![2, 0, 9, 0]));
        let want = [
            (Reduction::LogicalAnd, [1, 0, 0, 0]),
            (Reduction::LogicalOr, [1, 1, 1, 0]),
            (Reduction::LogicalXor, [0, 1, 1, 0]),
        ];
        for (reduction, numbers) in want {
            let [a, b] = [&a, &b].map(|values| values.contributed(reduction));
            assert_eq!(a, Values::I64(vec![1, 1, 0, 0]));
            assert_eq!(combined(reduction, a, &b), Values::I64(numbers.to_vec()));
        }
        assert_eq!(a.contributed(Reduction::Or), a);
    }

    #[test]
    fn nan_is_ignored_by_extremes_but_not_by_sums() {
        let (a, b) = (Values::F64(vec![f64::NAN, 1.0]), Values::F64(vec![2.0, f64::NAN]));
        for reduction in [Reduction::Min, Reduction::Max] {
            assert_eq!(combined(reduction, a.clone(), &b), Values::F64(vec![2.0, 1.0]));
        }
        let Values::F64(sums) = combined(Reduction::Sum, a, &b) else { panic!("type changed") };
        assert!(sums.iter().all(|sum| sum.is_nan()));
    }

    #[test]
    fn the_place_of_an_extreme_is_the_lowest_among_equal_ones() {
        let (a, b) = (Values::I32(vec![3, 7, 5, 1, 2, 4]), Values::I32(vec![3, 2, 4, 9, 2, 4]));
        let (least, greatest) = ([3, 2, 4, 9, 2, 4], [3, 2, 5, 1, 2, 4]);
        for (reduction, pairs) in [(Reduction::MinLoc, least), (Reduction::MaxLoc, greatest)] {
            assert_eq!(combined(reduction, a.clone(), &b), Values::I32(pairs.to_vec()));
            assert_eq!(combined(reduction, b.clone(), &a), Values::I32(pairs.to_vec()));
        }
    }

    #[test]
    fn nan_has_no_place_unless_all_are_nan() {
        let (a, b) = ([f64::NAN, 0.0, 1.5, 3.0], [2.0, 5.0, f64::NAN, 0.0]);
        for reduction in [Reduction::MinLoc, Reduction::MaxLoc] {
            let found = combined(reduction, Values::F64(a.to_vec()), &Values::F64(b.to_vec()));
            assert_eq!(found, Values::F64(vec![2.0, 5.0, 1.5, 3.0]));
        }
        let [later, earlier] = [9.0, 4.0].map(|place| Values::F32(vec![f32::NAN, place]));
        let Values::F32(found) = combined(Reduction::MinLoc, later, &earlier) else { panic!() };
        assert!(found[0].is_nan(), "{found:?}");
        assert_eq!(Values::F32(found[1..].to_vec()), Values::F32(vec![4.0]));
    }

    #[test]
    fn pairs_are_whole() {
        let odd = Values::U64(vec![1, 2, 3]);
        let refused = ReductionError::OddCount(Reduction::MaxLoc);
        assert_eq!(odd.allow(Reduction::MaxLoc), Err(refused));
        assert_eq!(odd.clone().combine(Reduction::MaxLoc, &odd), Err(refused));
        assert_eq!(odd.allow(Reduction::Max), Ok(()));
    }

    #[test]
    fn an_error_changes_nothing() {
        let mut a = Values::U64(vec![1, 2]);
        assert_eq!(a.combine(Reduction::Sum, &Values::U64(vec![1])), Err(ReductionError::Shape));
        assert_eq!(a.combine(Reduction::Sum, &Values::I64(vec![1, 1])), Err(ReductionError::Shape));
        assert_eq!(a, Values::U64(vec![1, 2]));
        let mut floats = Values::F32(vec![1.0]);
        let refused = floats.combine(Reduction::Or, &Values::F32(vec![1.0]));
        assert_eq!(refused, Err(ReductionError::Floats(Reduction::Or)));
    }
}
