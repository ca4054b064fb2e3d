//! Takes the text apart, line by line, into nodes and ports.

use std::collections::BTreeMap;

use super::{ReadError, ReadProblem};
use crate::graph::{AdapterKind, Names};
use crate::ids::dense;

/// Longest node id or description; InfiniBand's are at most 64 bytes.
const LONGEST_NAME: usize = 1024;
/// "No cable" as a peer, and "no node" of an id.
pub(super) const NONE: u32 = u32::MAX;

/// Everything of interest in the lines so far. It refers to no text, so that a text may be given
/// part by part.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pub(super) nodes: Vec<Node>,
    /// Node ids as the node lines spell them, by node.
    pub(super) node_ids: Names,
    /// Descriptions by node.
    pub(super) descriptions: Names,
    /// Ports with a cable, and ports of adapters.
    pub(super) ports: Vec<Port>,
    pub(super) peers: Peers,
    pub(super) speeds: Speeds,
    /// Number of lines.
    pub(super) count: u32,
    pending: Facts,
    in_node: bool,
}

/// A `Switch`, `Ca`, `Hca` or `Rt` line and the facts above it.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) line: u32,
    pub(super) kind: Kind,
    pub(super) ports: u8,
    pub(super) facts: Facts,
    pub(super) lid: u16,
    pub(super) lmc: u8,
    pub(super) enhanced: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Switch,
    Adapter(AdapterKind),
}

/// Facts above a node, as `key=value`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Facts {
    pub(super) vendor: u32,
    pub(super) device: u32,
    pub(super) system_guid: u64,
    pub(super) guid: u64,
    pub(super) port_guid: u64,
}

/// A `[port]` line: its claim about the port. A large fabric has millions, so it is kept small.
#[derive(Clone, Copy, Debug)]
pub(super) struct Port {
    /// Of an adapter's port, its GUID; of a switch's port, that of the adapter's port.
    pub(super) guid: u64,
    pub(super) line: u32,
    /// Index of the node that it belongs to.
    pub(super) node: u32,
    /// Number of the peer's id while lines are read, then index of its node; [`NONE`] without
    /// cable.
    pub(super) peer: u32,
    /// Number of the speed.
    pub(super) speed: u32,
    /// Of an adapter's port, its LID; of a switch's port, that of the adapter's port.
    pub(super) lid: u16,
    pub(super) lmc: u8,
    pub(super) number: u8,
    pub(super) peer_number: u8,
    /// True if no line says so but that of the other end.
    pub(super) mirrored: bool,
}

/// A node id, so that two spellings of one GUID are one id.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Guid(char, u64),
    Text(Box<str>),
}

impl Key {
    fn new(id: &str) -> Self {
        let mut chars = id.chars();
        match (chars.next(), chars.next(), hex(chars.as_str())) {
            (Some(letter), Some('-'), Some(guid)) => Self::Guid(letter, guid),
            _ => Self::Text(id.into()),
        }
    }
}

/// All node ids by number, in the order in which they are first mentioned.
#[derive(Debug, Default)]
pub(super) struct Peers {
    numbers: BTreeMap<Key, u32>,
    /// The first spelling of each.
    names: Names,
    /// The node of each; [`NONE`] while it is not listed.
    nodes: Vec<u32>,
}

impl Peers {
    fn number(&mut self, id: &str) -> u32 {
        let next = dense(self.nodes.len());
        let number = *self.numbers.entry(Key::new(id)).or_insert(next);
        if number == next {
            self.names.push(id);
            self.nodes.push(NONE);
        }
        number
    }

    /// The node with an id.
    pub(super) fn node(&self, number: u32) -> Result<u32, ReadProblem> {
        match self.nodes[number as usize] {
            NONE => {
                Err(ReadProblem::UnknownPeer { node: self.names.get(number as usize).to_owned() })
            }
            node => Ok(node),
        }
    }
}

/// Texts of width and speed by number; 0 is the unknown one.
#[derive(Debug, Default)]
pub(super) struct Speeds {
    numbers: BTreeMap<Box<str>, u32>,
    names: Names,
}

impl Speeds {
    fn number(&mut self, speed: &str) -> u32 {
        if speed.is_empty() {
            return 0;
        }
        if let Some(number) = self.numbers.get(speed) {
            return *number;
        }
        self.names.push(speed);
        let number = dense(self.names.len());
        self.numbers.insert(speed.into(), number);
        number
    }

    /// The text of a speed.
    pub(super) fn get(&self, number: u32) -> &str {
        number.checked_sub(1).map_or("", |at| self.names.get(at as usize))
    }
}

impl Lines {
    /// Takes the next line.
    pub(super) fn line(&mut self, line: &str) -> Result<(), ReadError> {
        let line = match self.count {
            0 => line.strip_prefix('\u{feff}').unwrap_or(line).trim(),
            _ => line.trim(),
        };
        let number = self.count.checked_add(1);
        self.count =
            number.ok_or_else(|| ReadError::new(self.count, line, ReadProblem::TooLarge))?;
        self.parse(self.count, line).map_err(|problem| ReadError::new(self.count, line, problem))
    }

    fn parse(&mut self, number: u32, line: &str) -> Result<(), ReadProblem> {
        match line.as_bytes() {
            [] => Ok(()),
            [b'#', ..] => {
                self.listed_port(number, &line[1..]);
                Ok(())
            }
            [b'[', ..] => self.port(number, line),
            _ if self.fact(line)? => Ok(()),
            _ => self.node(number, line),
        }
    }

    /// Takes a `key=value` line; false if it is none.
    fn fact(&mut self, line: &str) -> Result<bool, ReadProblem> {
        let Some((key, value)) = line.split_once('=') else { return Ok(false) };
        let (key, value) = (key.trim_end(), value.trim_start());
        let width = match key {
            "vendid" | "devid" => 32,
            "sysimgguid" | "switchguid" | "caguid" | "hcaguid" | "rtguid" => 64,
            _ => return Ok(false),
        };
        let end = value.find(|c: char| c == '(' || c == '#' || c.is_whitespace());
        let (number, rest) = value.split_at(end.unwrap_or(value.len()));
        let guid = hex(number)
            .filter(|number| width == 64 || *number <= u32::MAX.into())
            .ok_or(ReadProblem::Malformed { expected: "hexadecimal number" })?;
        let short = u32::try_from(guid).unwrap_or(0);
        self.in_node = false;
        match key {
            "vendid" => self.pending.vendor = short,
            "devid" => self.pending.device = short,
            "sysimgguid" => self.pending.system_guid = guid,
            _ => {
                self.pending.guid = guid;
                if rest.starts_with('(') {
                    let mut rest = rest;
                    self.pending.port_guid = guid_in_parentheses(&mut rest)?;
                }
            }
        }
        Ok(true)
    }

    /// Takes a line that starts a node; passes over any other text.
    fn node(&mut self, number: u32, line: &str) -> Result<(), ReadProblem> {
        let mut words = line.splitn(2, char::is_whitespace);
        let (kind, rest) = (words.next().unwrap_or(""), words.next().unwrap_or("").trim_start());
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (ports, rest) = rest.split_at(digits);
        let mut rest = rest.trim_start();
        let kind = match kind {
            "Switch" => Kind::Switch,
            "Ca" | "Hca" => Kind::Adapter(AdapterKind::Channel),
            "Rt" => Kind::Adapter(AdapterKind::Router),
            _ if digits > 0 && rest.starts_with('"') => {
                return Err(ReadProblem::UnknownKind { kind: kind.to_owned() });
            }
            _ => return Ok(()),
        };
        if digits == 0 {
            return Ok(()); // a sentence about switches
        }
        let ports = ports.parse().ok().filter(|ports| *ports > 0);
        let ports = ports.ok_or(ReadProblem::Malformed { expected: "1 to 255 ports" })?;
        let id = quoted(&mut rest)?;
        let mut node = Node {
            line: number,
            kind,
            ports,
            facts: std::mem::take(&mut self.pending),
            lid: 0,
            lmc: 0,
            enhanced: false,
        };
        let mut description = "";
        if let Some((_, comment)) = rest.split_once('#') {
            let (before, quoted, after) = around_description(comment)?;
            description = if quoted.is_empty() { bare_description(before) } else { quoted };
            // An unquoted description has the words after it in the same part.
            let words = if after.is_empty() { before } else { after };
            node.lid = number_after(words, "lid");
            node.lmc = u8::try_from(number_after(words, "lmc")).unwrap_or(0);
            node.enhanced = words.split_whitespace().any(|word| word == "enhanced");
        }
        let id_number = self.peers.number(id) as usize;
        if let Some(first) = self.nodes.get(self.peers.nodes[id_number] as usize) {
            return Err(ReadProblem::DuplicateNode { node: id.to_owned(), line: first.line });
        }
        self.peers.nodes[id_number] = dense(self.nodes.len());
        self.in_node = true;
        self.nodes.push(node);
        self.node_ids.push(id);
        self.descriptions.push(description);
        Ok(())
    }

    /// Takes a comment that lists an adapter port without a cable; passes over others.
    fn listed_port(&mut self, number: u32, line: &str) {
        let after = line.split_once(')').map(|(_, rest)| rest.trim_start());
        let bare = after.is_some_and(|rest| rest.is_empty() || rest.starts_with('#'));
        if bare && line.starts_with('[') {
            self.port(number, line).unwrap_or_default(); // any other comment
        }
    }

    fn port(&mut self, line_number: u32, line: &str) -> Result<(), ReadProblem> {
        if !self.in_node {
            return Err(ReadProblem::PortWithoutNode);
        }
        let node = self.nodes.last().ok_or(ReadProblem::PortWithoutNode)?;
        let (is_switch, index) = (node.kind == Kind::Switch, self.nodes.len() - 1);
        let mut rest = line;
        let port = port_number(&mut rest)?;
        let number = check_port(self.node_ids.get(index), node.ports, port)?;
        skip_external(&mut rest);
        let mut guid = guid_in_parentheses(&mut rest)?;
        let mut peer = None;
        rest = rest.trim_start();
        if rest.starts_with('"') {
            let id = quoted(&mut rest)?;
            let number = if rest.starts_with('[') { port_number(&mut rest)? } else { 1 };
            // The number of the port is checked against the peer once that is known.
            peer = Some((id, check_port(id, u8::MAX, number)?));
            skip_external(&mut rest);
            rest = rest.trim_start();
            let other_guid = guid_in_parentheses(&mut rest)?;
            guid = if is_switch { other_guid } else { guid };
        } else if !rest.is_empty() && !rest.starts_with('#') {
            return Err(ReadProblem::Malformed { expected: "node id in quotes" });
        }
        let (mut lid, mut lmc, mut speed) = (0, 0, "");
        if let Some((_, comment)) = rest.split_once('#') {
            let (before, _, after) = around_description(comment)?;
            let after = if after.is_empty() && is_switch { before } else { after };
            (lid, speed) = lid_and_speed(after);
            if !is_switch {
                lid = number_after(before, "lid");
                lmc = u8::try_from(number_after(before, "lmc")).unwrap_or(0);
            }
        }
        if peer.is_none() && is_switch {
            return Ok(()); // a switch has all its ports, listed or not
        }
        let (peer, peer_number) =
            peer.map_or((NONE, 0), |(id, number)| (self.peers.number(id), number));
        self.ports.push(Port {
            guid,
            line: line_number,
            node: dense(index),
            peer,
            speed: self.speeds.number(speed),
            lid,
            lmc,
            number,
            peer_number,
            mirrored: false,
        });
        Ok(())
    }
}

/// Checks a port number against what its node has.
pub(super) fn check_port(node: &str, ports: u8, port: u32) -> Result<u8, ReadProblem> {
    u8::try_from(port)
        .ok()
        .filter(|port| (1..=ports).contains(port))
        .ok_or_else(|| ReadProblem::NoSuchPort { node: node.to_owned(), port, ports })
}

/// Reads a hexadecimal number, "0x" and leading zeros or not.
pub(super) fn hex(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    // A sign would pass for a number.
    let clean = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    clean.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

/// Takes `"id"` off the front.
fn quoted<'a>(rest: &mut &'a str) -> Result<&'a str, ReadProblem> {
    let unclosed = ReadProblem::Malformed { expected: "node id in quotes" };
    let inner = rest.strip_prefix('"').ok_or(unclosed.clone())?;
    let (id, after) = inner.split_once('"').ok_or(unclosed.clone())?;
    if id.trim().is_empty() || id.len() > LONGEST_NAME {
        return Err(unclosed);
    }
    *rest = after;
    Ok(id)
}

/// Takes `[number]` off the front.
fn port_number(rest: &mut &str) -> Result<u32, ReadProblem> {
    let bad = ReadProblem::Malformed { expected: "port number in brackets" };
    let inner = rest.strip_prefix('[').ok_or(bad.clone())?;
    let (number, after) = inner.split_once(']').ok_or(bad.clone())?;
    *rest = after;
    let number = number.trim();
    let clean = number.bytes().all(|byte| byte.is_ascii_digit());
    clean.then(|| number.parse().ok()).flatten().ok_or(bad)
}

/// Takes the external port number of a chassis, `[ext 3]`, off the front.
fn skip_external(rest: &mut &str) {
    if let Some((_, after)) = rest.strip_prefix("[ext").and_then(|inner| inner.split_once(']')) {
        *rest = after;
    }
}

/// Takes `(guid)` off the front; 0 if there is none.
fn guid_in_parentheses(rest: &mut &str) -> Result<u64, ReadProblem> {
    let Some(inner) = rest.strip_prefix('(') else { return Ok(0) };
    let bad = ReadProblem::Malformed { expected: "GUID in parentheses" };
    let (guid, after) = inner.split_once(')').ok_or(bad.clone())?;
    *rest = after;
    hex(guid.trim()).filter(|_| !guid.trim().is_empty()).ok_or(bad)
}

/// Cuts a comment into what is before, in and after the quotes. A
/// description may contain quotes itself, so the last one ends it.
fn around_description(comment: &str) -> Result<(&str, &str, &str), ReadProblem> {
    let Some((before, rest)) = comment.split_once('"') else { return Ok((comment, "", "")) };
    let unclosed = ReadProblem::Malformed { expected: "closing quote of the description" };
    let (description, after) = rest.rsplit_once('"').ok_or(unclosed)?;
    if description.len() > LONGEST_NAME {
        return Err(ReadProblem::Malformed { expected: "description of at most 1024 bytes" });
    }
    Ok((before, description, after))
}

/// Takes a description that ibsim accepts without quotes.
fn bare_description(comment: &str) -> &str {
    let ends = [" base port ", " enhanced port ", " lid ", " lmc "];
    let end = ends.iter().filter_map(|end| comment.find(end)).min().unwrap_or(comment.len());
    let text = comment[..end].trim();
    if text.len() > LONGEST_NAME { "" } else { text }
}

/// Returns the number that follows a word; 0 if there is none.
fn number_after(text: &str, word: &str) -> u16 {
    let mut words = text.split_whitespace().skip_while(|other| *other != word);
    words.nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Reads `lid 4 4xEDR`.
fn lid_and_speed(text: &str) -> (u16, &str) {
    let text = text.trim();
    let after_lid = text.strip_prefix("lid ").map(str::trim_start).and_then(|rest| {
        let (number, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        Some((number.parse().ok()?, rest.trim_start()))
    });
    after_lid.unwrap_or((0, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guids_are_read_in_every_spelling() {
        for text in ["0x00000008f1", "8f1", "0X8F1", "00000000000008f1"] {
            assert_eq!(hex(text), Some(0x8f1));
        }
        for text in ["0x", "+8f1", "8g", "10000000000000000"] {
            assert_eq!(hex(text), None, "{text}");
        }
    }

    #[test]
    fn a_description_may_contain_quotes() {
        let parts = around_description(" \"a \"b\" c\" lid 4 4xEDR").unwrap();
        assert_eq!(parts, (" ", "a \"b\" c", " lid 4 4xEDR"));
    }

    #[test]
    fn everything_after_the_lid_is_the_speed() {
        assert_eq!(lid_and_speed(" lid 4 4xEDR s=1"), (4, "4xEDR s=1"));
        assert_eq!(lid_and_speed(" 4xEDR"), (0, "4xEDR"));
        assert_eq!(lid_and_speed("lid x"), (0, "lid x"));
    }
}
