//! Bounded reading and writing of big-endian fields.

use thiserror::Error;

/// Reason why bytes are no OpenFlow message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The bytes end inside of a field.
    #[error("{what} ends after {left} of {wanted} bytes")]
    Short {
        /// Structure that was read.
        what: &'static str,
        /// Bytes that are there.
        left: usize,
        /// Bytes that the field takes.
        wanted: usize,
    },
    /// A length field contradicts the structure.
    #[error("{what} has length {length}")]
    Length {
        /// Structure that was read.
        what: &'static str,
        /// Value of the length field.
        length: usize,
    },
    /// A field has a value that the specification does not define.
    #[error("{what} has the unknown value {value}")]
    Value {
        /// Field that was read.
        what: &'static str,
        /// Value of the field.
        value: u32,
    },
    /// The message has a version other than 1.3 and 1.4.
    #[error("OpenFlow version {version:#04x}")]
    Version {
        /// Version byte of the message.
        version: u8,
    },
    /// A message in a bundle has another transaction id than the message that adds it.
    #[error("a bundled message has transaction {inner}, its carrier {outer}")]
    BundleXid {
        /// Transaction id of the bundled message.
        inner: u32,
        /// Transaction id of the carrier.
        outer: u32,
    },
}

/// Reads fields from the front of a slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    /// - `what`: structure, for errors.
    pub(crate) const fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { bytes, what }
    }

    /// The same bytes as another structure, for errors.
    pub(crate) const fn named(self, what: &'static str) -> Self {
        Self { what, ..self }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) const fn left(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn take(&mut self, wanted: usize) -> Result<&'a [u8], DecodeError> {
        let (what, left) = (self.what, self.bytes.len());
        let (taken, rest) =
            self.bytes.split_at_checked(wanted).ok_or(DecodeError::Short { what, left, wanted })?;
        self.bytes = rest;
        Ok(taken)
    }

    /// Takes a part with its own name for errors.
    pub(crate) fn part(&mut self, wanted: usize, what: &'static str) -> Result<Self, DecodeError> {
        Ok(Self { bytes: self.take(wanted)?, what })
    }

    pub(crate) fn skip(&mut self, count: usize) -> Result<(), DecodeError> {
        self.take(count).map(drop)
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        Ok(self.take(N)?.try_into().expect("as many bytes as were taken"))
    }

    pub(crate) fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16, DecodeError> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    pub(crate) fn address(&mut self) -> Result<[u8; 6], DecodeError> {
        self.array()
    }

    /// Reads text of a fixed size, which ends at the first zero byte.
    pub(crate) fn text(&mut self, size: usize) -> Result<String, DecodeError> {
        let bytes = self.take(size)?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(size);
        let mut text = String::from_utf8_lossy(&bytes[..end]).into_owned();
        text.truncate(text.floor_char_boundary(size)); // a replaced byte takes three
        Ok(text)
    }

    /// Reads a length field of 16 bits at the front and takes the structure that it spans, length
    /// field included.
    ///
    /// - `least`: smallest allowed length.
    pub(crate) fn sized(&mut self, least: usize, what: &'static str) -> Result<Self, DecodeError> {
        let mut ahead = *self;
        let length = usize::from(ahead.u16()?);
        if length < least || length > self.left() {
            return Err(DecodeError::Length { what, length });
        }
        let mut part = self.part(length, what)?;
        part.skip(2)?;
        Ok(part)
    }

    /// Reads structures until the end.
    pub(crate) fn all<T>(
        mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let mut list = Vec::new();
        while !self.is_empty() {
            list.push(read(&mut self)?);
        }
        Ok(list)
    }
}

/// Appends fields to a byte vector.
pub(crate) trait Put {
    fn u8(&mut self, value: u8);
    fn u16(&mut self, value: u16);
    fn u32(&mut self, value: u32);
    fn u64(&mut self, value: u64);
    fn zeros(&mut self, count: usize);
    fn bytes(&mut self, bytes: &[u8]);
    /// Text of a fixed size, filled up with zeros; what does not fit is cut off.
    fn text(&mut self, text: &str, size: usize);
    /// Appends a structure and writes its length, padding excluded, as 16 bits at `at` bytes after
    /// its start; pads with zeros to a multiple of 8.
    fn sized(&mut self, at: usize, write: impl FnOnce(&mut Self));
}

impl Put for Vec<u8> {
    fn u8(&mut self, value: u8) {
        self.push(value);
    }

    fn u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn zeros(&mut self, count: usize) {
        self.resize(self.len() + count, 0);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn text(&mut self, text: &str, size: usize) {
        let end = text.floor_char_boundary(size);
        self.bytes(&text.as_bytes()[..end]);
        self.zeros(size - end);
    }

    fn sized(&mut self, at: usize, write: impl FnOnce(&mut Self)) {
        let start = self.len();
        write(self);
        let length = self.len() - start;
        // A structure that does not fit makes the message too long, which its sender checks.
        let field = u16::try_from(length).unwrap_or(u16::MAX);
        self[start + at..start + at + 2].copy_from_slice(&field.to_be_bytes());
        self.zeros(length.next_multiple_of(8) - length);
    }
}

/// Number of padding bytes after a structure of this length.
pub(crate) const fn padding(length: usize) -> usize {
    length.next_multiple_of(8) - length
}
