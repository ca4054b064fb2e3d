//! Numbers of operations: their types and reductions, as C names them.

use std::ffi::{c_int, c_void};

use fabricast_client::{Number, Reduction};

use crate::arguments;
use crate::failure::Failure;
use crate::outcome::{Outcome, Running};

/// An operation that combines numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Combining {
    /// For the member `root` alone.
    Reduce {
        root: u32,
    },
    AllReduce,
    /// For each member those up to its rank.
    Scan,
}

/// Numbers of the program, as C gives them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawNumbers {
    pub(crate) reduction: c_int,
    pub(crate) kind: c_int,
    pub(crate) numbers: *const c_void,
    pub(crate) count: usize,
}

impl Combining {
    /// Reads the numbers and prepares the operation. Returns it with the bytes of its outcome.
    ///
    /// # Safety
    ///
    /// A pointer that is not null points to `count` numbers of their type.
    pub(crate) unsafe fn prepare(
        self,
        group: fabricast_client::Group,
        raw: RawNumbers,
    ) -> Result<(Running, usize), Failure> {
        let RawNumbers { reduction, kind, numbers, count } = raw;
        let reduction = read_reduction(reduction)?;
        macro_rules! prepare {
            ($number:ty) => {{
                let numbers = numbers.cast::<$number>();
                // SAFETY: as the caller promises; all patterns of bits are numbers.
                let numbers = unsafe { arguments::copied(numbers, count, "the numbers to send") }?;
                let length = size_of_val(numbers.as_slice());
                Ok((self.over(group, reduction, numbers), length))
            }};
        }
        match kind {
            0 => prepare!(i32),
            1 => prepare!(i64),
            2 => prepare!(u32),
            3 => prepare!(u64),
            4 => prepare!(f32),
            5 => prepare!(f64),
            _ => Err(Failure::argument(format!("type {kind} is no type of numbers"))),
        }
    }

    fn over<N: Number + Send + Sync + 'static>(
        self,
        group: fabricast_client::Group,
        reduction: Reduction,
        numbers: Vec<N>,
    ) -> Running {
        Box::pin(async move {
            let combined = match self {
                Self::Reduce { root } => group.reduce(root, reduction, &numbers).await?,
                Self::AllReduce => Some(group.all_reduce(reduction, &numbers).await?),
                Self::Scan => Some(group.scan(reduction, &numbers).await?),
            };
            Ok(combined.map_or(Outcome::Nothing, |numbers| Outcome::Bytes(bytes(&numbers))))
        })
    }
}

fn read_reduction(number: c_int) -> Result<Reduction, Failure> {
    match number {
        0 => Ok(Reduction::Sum),
        1 => Ok(Reduction::Min),
        2 => Ok(Reduction::Max),
        3 => Ok(Reduction::And),
        4 => Ok(Reduction::Or),
        5 => Ok(Reduction::Xor),
        6 => Ok(Reduction::Product),
        7 => Ok(Reduction::LogicalAnd),
        8 => Ok(Reduction::LogicalOr),
        9 => Ok(Reduction::LogicalXor),
        10 => Ok(Reduction::MinLoc),
        11 => Ok(Reduction::MaxLoc),
        _ => Err(Failure::argument(format!("reduction {number} is no reduction"))),
    }
}

/// Copies the bytes of numbers, as this machine orders them.
fn bytes<N: Number>(numbers: &[N]) -> Vec<u8> {
    let (start, length) = (numbers.as_ptr().cast::<u8>(), size_of_val(numbers));
    // SAFETY: integers and floats, which `prepare` names all, have no bytes without a value, and
    // bytes may have any address.
    unsafe { std::slice::from_raw_parts(start, length) }.to_vec()
}
