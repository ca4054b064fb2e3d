//! The constants of a simulated fabric: rates, delays, buffers, and how switches send multicast.

use thiserror::Error;

/// Constants of a fabric. All links are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// Picoseconds that a byte takes on a link: 1 600 at 5 Gbit/s, 80 at 100 Gbit/s.
    pub ps_per_byte: u64,
    /// Picoseconds from one end of a link to the other.
    pub wire_ps: u64,
    /// Picoseconds from a packet's head at an input of a switch to its first request for an output.
    pub switch_ps: u64,
    /// Virtual channels of every link, each with a buffer of its own; 1 to 16, as of
    /// InfiniBand.
    pub channels: u8,
    /// Bytes of the buffer of an input and channel; the largest packet has to fit.
    pub buffer_bytes: u32,
    /// Policy by which a multicast packet gets its outputs.
    pub multicast: MulticastPolicy,
}

/// Policy by which a multicast packet at the head of an input buffer gets its outputs (Dawning
/// §3.1, §4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum MulticastPolicy {
    /// Resource bulletin board, which shows the outputs that carry no multicast: when all it needs
    /// are on the board and have credit it takes them together. Outputs that still send a unicast
    /// packet follow when they are done, and it leaves by all of them then.
    #[default]
    Bulletin,
    /// The same, read more strictly: all outputs must be idle as well at one moment, and nothing is
    /// ever held. Steady unicast keeps such a packet waiting for long.
    BulletinIdle,
    /// Fan-out splitting: each output gets its copy when it is ready; the buffer is read several
    /// times.
    Splitting,
    /// Outputs are taken one by one, but of packets that want a common output only one takes any:
    /// the one at the input with the highest number.
    FixedPriority,
    /// Outputs are taken one by one and held: this deadlocks.
    HoldAndWait,
}

/// Reason why a fabric cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ModelError {
    /// A constant is out of its range.
    #[error("{field} is {value}, must be {rule}")]
    Range {
        /// Name of the constant.
        field: &'static str,
        /// Value of the constant.
        value: u64,
        /// Allowed range, for people.
        rule: &'static str,
    },
    /// The fabric has too many ports to number.
    #[error("{ports} ports with {channels} channels are too many")]
    TooLarge {
        /// Ports of switches and endpoints.
        ports: usize,
        /// Virtual channels per link.
        channels: u8,
    },
}

impl Model {
    /// Gives the Dawning 5000's constants as far as the paper says them (§2): 5 Gbit/s, virtual
    /// cut-through, RBB. Delays and buffers are ours: 20 ns of wire, 100 ns of switch, 4 KiB.
    #[must_use]
    pub const fn dawning() -> Self {
        Self {
            ps_per_byte: 1_600,
            wire_ps: 20_000,
            switch_ps: 100_000,
            channels: 1,
            buffer_bytes: 4_096,
            multicast: MulticastPolicy::Bulletin,
        }
    }

    /// Gives the time a packet takes on a link, tail after head.
    #[must_use]
    pub const fn sending_ps(&self, bytes: u32) -> u64 {
        bytes as u64 * self.ps_per_byte
    }

    /// Gives the time from a packet's injection until its tail is at an endpoint `switches` away,
    /// if nothing is in its way. Virtual cut-through: the length counts once.
    #[must_use]
    pub const fn zero_load_ps(&self, switches: u64, bytes: u32) -> u64 {
        (switches + 1) * self.wire_ps + switches * self.switch_ps + self.sending_ps(bytes)
    }

    pub(crate) fn check(&self) -> Result<(), ModelError> {
        let range = |field, value, rule| Err(ModelError::Range { field, value, rule });
        if self.ps_per_byte == 0 || self.ps_per_byte > 1_000_000 {
            return range("ps_per_byte", self.ps_per_byte, "1 to 1 000 000");
        }
        if self.channels == 0 || self.channels > 16 {
            return range("channels", self.channels.into(), "1 to 16");
        }
        if self.buffer_bytes == 0 || self.buffer_bytes > 1 << 30 {
            return range("buffer_bytes", self.buffer_bytes.into(), "1 to 2^30");
        }
        for (field, value) in [("wire_ps", self.wire_ps), ("switch_ps", self.switch_ps)] {
            if value > 1_000_000_000_000 {
                return range(field, value, "at most a second");
            }
        }
        Ok(())
    }
}
