//! Reads what C points to, and writes to where C wants results: the functions that check pointers
//! and lengths.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::time::Duration;

use crate::failure::{Code, Failure};

/// Reads a handle or struct.
///
/// # Safety
///
/// A pointer that is not null points to a valid `T`, which lives on during the call.
pub(crate) unsafe fn reference<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, Failure> {
    // SAFETY: valid or null, as the caller promises.
    unsafe { pointer.as_ref() }.ok_or_else(|| is_null(name))
}

/// Reads text; none if the pointer is null.
///
/// # Safety
///
/// A pointer that is not null points to bytes that end with a zero and do not change during the
/// call.
pub(crate) unsafe fn optional_text<'a>(
    pointer: *const c_char,
    name: &str,
) -> Result<Option<&'a str>, Failure> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: not null, and ended by a zero, as the caller promises.
    let text = unsafe { CStr::from_ptr(pointer) }.to_str();
    text.map(Some).map_err(|_| Failure::argument(format!("{name} is not UTF-8")))
}

/// Reads text.
///
/// # Safety
///
/// As [`optional_text`].
pub(crate) unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a str, Failure> {
    // SAFETY: as the caller promises.
    unsafe { optional_text(pointer, name) }?.ok_or_else(|| is_null(name))
}

/// Copies elements. Their address need not be aligned; null is allowed for none.
///
/// # Safety
///
/// A pointer that is not null points to `count` elements that do not change during the call, and
/// every pattern of bits is a `T`.
pub(crate) unsafe fn copied<T: Copy>(
    pointer: *const T,
    count: usize,
    name: &str,
) -> Result<Vec<T>, Failure> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let bytes = count.checked_mul(size_of::<T>()).filter(|bytes| isize::try_from(*bytes).is_ok());
    let Some(bytes) = bytes else {
        return Err(Failure::argument(format!("{name} has {count} elements, more than memory")));
    };
    if pointer.is_null() {
        return Err(is_null(name));
    }
    let mut elements: Vec<T> = Vec::new();
    let refused = |_| Failure::new(Code::System, format!("no memory for {bytes} bytes of {name}"));
    elements.try_reserve_exact(count).map_err(refused)?;
    // SAFETY: the source has `count` elements, as the caller promises, and the vector has room for
    // them; all that it contains then was written, and is a `T` whatever its bits are.
    unsafe {
        pointer.cast::<u8>().copy_to_nonoverlapping(elements.as_mut_ptr().cast::<u8>(), bytes);
        elements.set_len(count);
    }
    Ok(elements)
}

/// Writes one value; null is allowed if nobody wants it.
///
/// # Safety
///
/// A pointer that is not null points to room for a `T`.
pub(crate) unsafe fn write_optional<T>(pointer: *mut T, value: T) {
    if !pointer.is_null() {
        // SAFETY: not null, and with room, as the caller promises.
        unsafe { pointer.write_unaligned(value) };
    }
}

/// Writes bytes.
///
/// # Safety
///
/// A pointer that is not null points to room for so many bytes.
pub(crate) unsafe fn write_bytes(bytes: &[u8], to: *mut c_void) {
    if !to.is_null() {
        // SAFETY: there is room, as the caller promises; the bytes are ours, so nothing overlaps.
        unsafe { bytes.as_ptr().copy_to_nonoverlapping(to.cast::<u8>(), bytes.len()) };
    }
}

/// Writes ranks and their number, of which `capacity` have room.
///
/// # Safety
///
/// Pointers that are not null point to room for `capacity` ranks and for one number.
pub(crate) unsafe fn write_ranks(
    found: &[u32],
    ranks: *mut u32,
    capacity: usize,
    count: *mut usize,
) -> Result<(), Failure> {
    if count.is_null() {
        return Err(is_null("count"));
    }
    if ranks.is_null() && capacity > 0 {
        return Err(is_null("ranks"));
    }
    // SAFETY: not null, and with room, as the caller promises.
    unsafe { write_optional(count, found.len()) };
    if found.len() > capacity {
        let text = format!("{} ranks, and room for {capacity}", found.len());
        return Err(Failure::new(Code::NoRoom, text));
    }
    for (at, rank) in found.iter().enumerate() {
        // SAFETY: `at` is below `capacity`, and there is room for so many.
        unsafe { write_optional(ranks.wrapping_add(at), *rank) };
    }
    Ok(())
}

/// A place for a handle that a function makes; it holds null until then.
#[derive(Debug)]
pub(crate) struct Place<T>(*mut *mut T);

impl<T> Place<T> {
    /// Checks the place and writes null there.
    ///
    /// # Safety
    ///
    /// A pointer that is not null points to room for a pointer, until [`Self::put`] was called.
    pub(crate) unsafe fn new(pointer: *mut *mut T, name: &str) -> Result<Self, Failure> {
        if pointer.is_null() {
            return Err(is_null(name));
        }
        // SAFETY: not null, and with room, as the caller promises.
        unsafe { pointer.write_unaligned(std::ptr::null_mut()) };
        Ok(Self(pointer))
    }

    /// Hands a value over to C, which returns it with [`free`].
    pub(crate) fn put(&self, value: T) {
        // SAFETY: checked by `new`.
        unsafe { self.0.write_unaligned(Box::into_raw(Box::new(value))) };
    }
}

/// Takes a value back from C; null is none.
///
/// # Safety
///
/// A pointer that is not null came from [`Place::put`] and is not used by anyone any more.
pub(crate) unsafe fn taken<T>(pointer: *mut T) -> Option<Box<T>> {
    // SAFETY: made from a box, and ours alone, as the caller promises.
    (!pointer.is_null()).then(|| unsafe { Box::from_raw(pointer) })
}

/// Converts a timeout in milliseconds; none for a negative number, which is without end.
pub(crate) fn timeout(milliseconds: c_int) -> Option<Duration> {
    u64::try_from(milliseconds).ok().map(Duration::from_millis)
}

/// Converts text for C. A zero byte, which cannot be in it, is replaced.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text).or_else(|_| CString::new(text.replace('\0', "?"))).unwrap_or_default()
}

fn is_null(name: &str) -> Failure {
    Failure::argument(format!("{name} is NULL"))
}

#[cfg(test)]
mod tests {
    use std::ptr::null;

    use super::*;

    #[test]
    fn elements_are_copied_from_any_address_and_nonsense_is_refused() {
        let bytes = [9_u8, 1, 0, 0, 0, 2, 0, 0, 0];
        // SAFETY: two numbers begin at the second byte.
        let numbers = unsafe { copied(bytes.as_ptr().wrapping_add(1).cast::<u32>(), 2, "numbers") };
        assert_eq!(numbers.unwrap(), [1_u32.to_le(), 2_u32.to_le()]);
        // SAFETY: nothing is read from null.
        let read = |count| unsafe { copied(null::<u64>(), count, "numbers") };
        assert!(read(0).unwrap().is_empty());
        assert_eq!(read(1).unwrap_err().text, "numbers is NULL");
        assert!(read(usize::MAX).unwrap_err().text.contains("more than memory"));
    }

    #[test]
    fn text_is_checked() {
        // SAFETY: constants that end with a zero, or null.
        unsafe {
            assert_eq!(text(c"rows/3".as_ptr(), "name").unwrap(), "rows/3");
            assert_eq!(text(null(), "name").unwrap_err().text, "name is NULL");
            assert_eq!(text(c"\xff".as_ptr(), "name").unwrap_err().text, "name is not UTF-8");
            assert_eq!(optional_text(null(), "name").unwrap(), None);
        }
        assert_eq!(c_text("a\0b").as_c_str(), c"a?b");
    }

    #[test]
    fn a_negative_timeout_is_none() {
        assert_eq!(timeout(-1), None);
        assert_eq!(timeout(0), Some(Duration::ZERO));
        assert_eq!(timeout(1500), Some(Duration::from_millis(1500)));
    }
}
