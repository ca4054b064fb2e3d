//! Rates, delays, buffers and costs of adapters that the experiments simulate, as data.
//!
//! Ours are in `data/hardware.toml` with their sources; a user can pass a file of his own. Read
//! [`Hardware::parse`] first. Only with ours is anything fitted to published numbers.

use fabricast_collectives::CostParameters;
use fabricast_simulator::{Model, MulticastPolicy};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::report::{Cell, Table};

const OURS: &str = include_str!("../../../data/hardware.toml");

/// The hardware of all experiments.
#[derive(Clone, Debug, PartialEq)]
pub struct Hardware {
    pub(crate) latency: Latency,
    pub(crate) dawning: Dawning,
    pub(crate) aggregation: Aggregation,
    pub(crate) broadcast: Broadcast,
    /// It is what our fits were made with.
    pub(crate) is_ours: bool,
}

/// Sections of a file; what it leaves out is ours.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sections {
    latency: Option<Latency>,
    dawning: Option<Dawning>,
    aggregation: Option<Aggregation>,
    broadcast: Option<Broadcast>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Latency {
    pub(crate) link: Link,
    pub(crate) adapter: MessageAdapter,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Dawning {
    pub(crate) link: Link,
    pub(crate) registers: Reading,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Aggregation {
    pub(crate) model: CostParameters,
    pub(crate) link: Link,
    pub(crate) adapter: MatchingAdapter,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Broadcast {
    pub(crate) link: Link,
    pub(crate) adapter: ServerAdapter,
}

/// Links and switches of a fabric.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Link {
    pub(crate) gbit_per_s: f64,
    /// Nanoseconds from one end of a link to the other.
    pub(crate) wire_ns: f64,
    /// Nanoseconds from a packet's head at a switch to its first request for an output.
    pub(crate) switch_ns: f64,
    /// Bytes of the buffer of an input.
    pub(crate) buffer_bytes: u32,
}

/// Adapters and processes that exchange messages.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MessageAdapter {
    /// Bytes of a packet beside its data.
    pub(crate) header_bytes: u32,
    /// Width of the gathering tree.
    pub(crate) fan_in: u32,
    /// Host time of a message.
    pub(crate) message_ns: f64,
    /// Host time of a byte of a message of more than 8.
    pub(crate) copy_ns_per_byte: f64,
    /// Mean of the exponential noise on top of the host time.
    pub(crate) message_noise_ns: f64,
    /// Time to match a packet, or to find that it is for another group.
    pub(crate) match_ns: f64,
    /// Time of a process between two collectives.
    pub(crate) process_ns: f64,
    /// Mean of the exponential noise on top of it.
    pub(crate) process_noise_ns: f64,
}

/// Readings of port statistics.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reading {
    /// Microseconds from one reading to the next, and from a reading until it is known.
    pub(crate) reading_us: u32,
}

/// Adapters that aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MatchingAdapter {
    /// Bytes of a packet beside its data.
    pub(crate) header_bytes: u32,
    /// Time to match a packet.
    pub(crate) match_ns: f64,
    /// Time from the end of an operation to the next one.
    pub(crate) pause_ns: f64,
}

/// Adapters of servers with several GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerAdapter {
    /// Data bytes of a packet.
    pub(crate) payload_bytes: u32,
    /// Bytes of a packet beside its data.
    pub(crate) header_bytes: u32,
    /// Rate between GPUs of one server.
    pub(crate) inside_gbit_per_s: f64,
}

/// Reason why a file is no hardware.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HardwareError {
    /// It is no TOML, or a field is unknown, missing or of the wrong kind; the text names the line.
    #[error("{0}")]
    Syntax(String),
    /// Values are out of their ranges.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Ranges(Vec<BadField>),
}

/// A value out of its range.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field} is {value}, must be {rule}")]
pub struct BadField {
    /// The field with its section.
    pub field: String,
    /// Its value, as text.
    pub value: String,
    /// The allowed range.
    pub rule: String,
}

impl Hardware {
    /// Gives ours, as `data/hardware.toml` says.
    #[must_use]
    pub fn ours() -> Self {
        let sections: Sections = toml::from_str(OURS).expect("our file has all fields");
        let whole = "our file has all sections";
        Self {
            latency: sections.latency.expect(whole),
            dawning: sections.dawning.expect(whole),
            aggregation: sections.aggregation.expect(whole),
            broadcast: sections.broadcast.expect(whole),
            is_ours: true,
        }
    }

    /// Reads hardware: TOML as `data/hardware.toml`. Sections that are left out are ours.
    ///
    /// # Errors
    ///
    /// [`HardwareError`] naming the line, or every field out of its range; the writer's mistake.
    pub fn parse(text: &str) -> Result<Self, HardwareError> {
        let sections: Sections = toml::from_str(text)
            .map_err(|error| HardwareError::Syntax(error.to_string().trim_end().to_owned()))?;
        let ours = Self::ours();
        let read = Self {
            latency: sections.latency.unwrap_or(ours.latency),
            dawning: sections.dawning.unwrap_or(ours.dawning),
            aggregation: sections.aggregation.unwrap_or(ours.aggregation),
            broadcast: sections.broadcast.unwrap_or(ours.broadcast),
            is_ours: true,
        };
        read.check()?;
        let is_ours = read == ours;
        Ok(Self { is_ours, ..read })
    }

    fn check(&self) -> Result<(), HardwareError> {
        let mut check = Check::default();
        let Latency { link, adapter } = &self.latency;
        check.link("latency", link, adapter.header_bytes.saturating_add(2_048));
        check.header("latency", adapter.header_bytes);
        check.count("latency.adapter.fan_in", adapter.fan_in, [2, 1_024]);
        check.times(
            "latency.adapter",
            &[
                ("message_ns", adapter.message_ns),
                ("copy_ns_per_byte", adapter.copy_ns_per_byte),
                ("message_noise_ns", adapter.message_noise_ns),
                ("match_ns", adapter.match_ns),
                ("process_ns", adapter.process_ns),
                ("process_noise_ns", adapter.process_noise_ns),
            ],
        );
        check.link("dawning", &self.dawning.link, 1_024);
        let reading = self.dawning.registers.reading_us;
        check.count("dawning.registers.reading_us", reading, [1, 1_000_000]);
        let Aggregation { model, link, adapter } = &self.aggregation;
        let costs = [
            ("path_links", model.path_links),
            ("link_us", model.link_us),
            ("matching_us", model.matching_us),
            ("store_us_per_byte", model.store_us_per_byte),
            ("reduce_us_per_byte", model.reduce_us_per_byte),
            ("software_us", model.software_us),
        ];
        check.times("aggregation.model", &costs);
        check.link("aggregation", link, 8_192);
        check.header("aggregation", adapter.header_bytes);
        let times = [("match_ns", adapter.match_ns), ("pause_ns", adapter.pause_ns)];
        check.times("aggregation.adapter", &times);
        let Broadcast { link, adapter } = &self.broadcast;
        // Source routes add up to 500 bytes.
        let packet = adapter.payload_bytes.saturating_add(adapter.header_bytes).saturating_add(500);
        check.link("broadcast", link, packet);
        check.header("broadcast", adapter.header_bytes);
        check.count("broadcast.adapter.payload_bytes", adapter.payload_bytes, [64, 65_536]);
        check.rate("broadcast.adapter.inside_gbit_per_s", adapter.inside_gbit_per_s);
        check.end()
    }

    /// Lists the values of a section.
    pub(crate) fn table(&self, section: &impl Serialize) -> Table {
        let title = match self.is_ours {
            true => "Hardware (`data/hardware.toml`, which names the sources)",
            false => "Hardware, from the file that was given",
        };
        let mut table = Table::new("hardware", title, &["parameter", "value"]);
        let section = toml::Table::try_from(section).expect("sections are tables");
        for (part, values) in section {
            for (name, value) in values.as_table().into_iter().flatten() {
                table.push([Cell::text(format!("{part}.{name}")), Cell::text(value.to_string())]);
            }
        }
        table
    }
}

impl Link {
    /// Gives the simulator's constants.
    pub(crate) fn model(&self, multicast: MulticastPolicy) -> Model {
        Model {
            ps_per_byte: whole(8_000.0 / self.gbit_per_s),
            wire_ps: ps(self.wire_ns),
            switch_ps: ps(self.switch_ns),
            channels: 1,
            buffer_bytes: self.buffer_bytes,
            multicast,
        }
    }
}

/// Gives nanoseconds in picoseconds.
pub(crate) fn ps(nanoseconds: f64) -> u64 {
    whole(nanoseconds * 1e3)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be 0 to 10^15 when it was read"
)]
fn whole(value: f64) -> u64 {
    value.round() as u64
}

/// Problems found so far.
#[derive(Default)]
struct Check(Vec<BadField>);

impl Check {
    fn refuse(&mut self, field: String, value: impl ToString, rule: impl Into<String>) {
        self.0.push(BadField { field, value: value.to_string(), rule: rule.into() });
    }

    fn link(&mut self, section: &str, link: &Link, packet: u32) {
        self.rate(&format!("{section}.link.gbit_per_s"), link.gbit_per_s);
        let times = [("wire_ns", link.wire_ns), ("switch_ns", link.switch_ns)];
        self.times(&format!("{section}.link"), &times);
        self.count(&format!("{section}.link.buffer_bytes"), link.buffer_bytes, [packet, 1 << 30]);
    }

    fn rate(&mut self, field: &str, rate: f64) {
        if !(0.01..=8_000.0).contains(&rate) {
            self.refuse(field.to_owned(), rate, "0.01 to 8000");
        }
    }

    fn times(&mut self, part: &str, times: &[(&str, f64)]) {
        for (name, time) in times {
            if !(0.0..=1e9).contains(time) {
                self.refuse(format!("{part}.{name}"), time, "0 to 1000000000");
            }
        }
    }

    fn header(&mut self, section: &str, bytes: u32) {
        self.count(&format!("{section}.adapter.header_bytes"), bytes, [1, 1_024]);
    }

    fn count(&mut self, field: &str, count: u32, [least, most]: [u32; 2]) {
        if !(least..=most).contains(&count) {
            self.refuse(field.to_owned(), count, format!("{least} to {most}"));
        }
    }

    fn end(self) -> Result<(), HardwareError> {
        if self.0.is_empty() { Ok(()) } else { Err(HardwareError::Ranges(self.0)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAWNING: &str = "[dawning.link]\ngbit_per_s = 10.0\nwire_ns = 5.0\nswitch_ns = 50.0\n\
                           buffer_bytes = 4096\n[dawning.registers]\nreading_us = 20\n";

    #[test]
    fn our_file_is_within_its_own_ranges_and_is_ours() {
        assert_eq!(Hardware::parse(OURS).unwrap(), Hardware::ours());
        assert!(Hardware::parse("").unwrap().is_ours);
    }

    #[test]
    fn a_section_of_a_file_replaces_ours_and_nothing_else() {
        let read = Hardware::parse(DAWNING).unwrap();
        let model = read.dawning.link.model(MulticastPolicy::Bulletin);
        assert_eq!((model.ps_per_byte, model.wire_ps, model.switch_ps), (800, 5_000, 50_000));
        assert_eq!((model.buffer_bytes, read.is_ours), (4_096, false));
        assert_eq!(read.latency, Hardware::ours().latency);
    }

    #[test]
    fn every_field_out_of_its_range_is_named() {
        let text = DAWNING.replace("10.0", "0.0").replace("4096", "100");
        let error = Hardware::parse(&text).unwrap_err().to_string();
        let expected = "dawning.link.gbit_per_s is 0, must be 0.01 to 8000; \
                        dawning.link.buffer_bytes is 100, must be 1024 to 1073741824";
        assert_eq!(error, expected);
    }

    #[test]
    fn unknown_and_missing_fields_are_named() {
        let unknown = Hardware::parse(&DAWNING.replace("wire_ns", "cable_ns")).unwrap_err();
        assert!(unknown.to_string().contains("cable_ns"), "{unknown}");
        let missing = Hardware::parse(&DAWNING.replace("wire_ns = 5.0\n", "")).unwrap_err();
        assert!(missing.to_string().contains("wire_ns"), "{missing}");
        let wrong = Hardware::parse(&DAWNING.replace("50.0", "'fast'")).unwrap_err();
        assert!(wrong.to_string().contains("switch_ns"), "{wrong}");
    }

    #[test]
    fn the_table_of_a_section_lists_its_fields() {
        let ours = Hardware::ours();
        let rows: Vec<String> = ours
            .table(&ours.dawning)
            .rows
            .iter()
            .map(|row| format!("{} {}", row[0], row[1]))
            .collect();
        assert!(rows.contains(&"link.gbit_per_s 5.0".to_owned()), "{rows:?}");
        assert!(rows.contains(&"registers.reading_us 300".to_owned()), "{rows:?}");
    }
}
