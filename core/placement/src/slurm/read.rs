//! Parser of `topology.conf`.

use std::collections::BTreeMap;

use super::{Below, SlurmError, SlurmProblem, SlurmSwitch, SlurmTopology};
use crate::hostlist;

/// Keys that have a meaning, as they are written.
const KEYS: [&str; 4] = ["SwitchName", "Nodes", "Switches", "LinkSpeed"];

/// Parses a file.
///
/// # Errors
///
/// [`SlurmError`] with the first wrong line and the key.
pub fn read(text: &str) -> Result<SlurmTopology, SlurmError> {
    let mut switches = Vec::new();
    for (line, words) in lines(text) {
        let switch = switch(line, &words).map_err(|problem| SlurmError { line, problem })?;
        switches.push(switch);
    }
    check(&switches)?;
    Ok(SlurmTopology { switches })
}

/// Returns the lines without comments, joined where a backslash continues them; empty lines are
/// left out.
fn lines(text: &str) -> Vec<(usize, String)> {
    let mut lines = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let line = without_comment(line);
        let trimmed = line.trim_end();
        let goes_on = trimmed.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1;
        let (first, mut joined) = open.take().unwrap_or((number, String::new()));
        joined.push_str(if goes_on { &trimmed[..trimmed.len() - 1] } else { trimmed });
        if goes_on {
            open = Some((first, joined));
        } else {
            lines.push((first, joined));
        }
    }
    lines.extend(open);
    lines.retain(|(_, line)| !line.trim().is_empty());
    lines
}

/// Removes a comment: everything from the first `#` without a backslash before it.
fn without_comment(line: &str) -> String {
    let mut text = String::new();
    let mut escaped = false;
    for character in line.chars() {
        match character {
            '#' if escaped => {
                text.pop();
                text.push('#');
            }
            '#' => break,
            _ => text.push(character),
        }
        escaped = character == '\\' && !escaped;
    }
    text
}

/// Parses the keys of one switch.
fn switch(line: usize, text: &str) -> Result<SlurmSwitch, SlurmProblem> {
    let mut values: [Option<String>; 4] = [const { None }; 4];
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (key, value, after) = pair(rest)?;
        let known = KEYS.iter().position(|known| known.eq_ignore_ascii_case(key));
        let at = known.ok_or_else(|| SlurmProblem::UnknownKey { key: key.to_owned() })?;
        if values[at].replace(value.to_owned()).is_some() {
            return Err(SlurmProblem::KeyTwice { key: KEYS[at] });
        }
        rest = after.trim_start();
    }
    let [name, nodes, below, _speed] = values;
    let name = name.filter(|name| !name.is_empty()).ok_or(SlurmProblem::NoName)?;
    let list = |key: &'static str, text: &str| {
        hostlist::expand(text).map_err(|source| SlurmProblem::List { key, source })
    };
    let below = match (nodes, below) {
        (Some(nodes), None) => Below::Nodes(list("Nodes", &nodes)?),
        (None, Some(below)) => Below::Switches(list("Switches", &below)?),
        (None, None) | (Some(_), Some(_)) => return Err(SlurmProblem::NodesOrSwitches { name }),
    };
    Ok(SlurmSwitch { line, name, below })
}

/// Parses `Key = Value` or `Key="Value"`; returns the rest of the line as well.
fn pair(text: &str) -> Result<(&str, &str, &str), SlurmProblem> {
    let word = || text.split_whitespace().next().unwrap_or_default().to_owned();
    let wrong = || SlurmProblem::NotKeyValue { word: word() };
    let (key, rest) = text.split_once('=').ok_or_else(wrong)?;
    let key = key.trim_end();
    if key.is_empty() || key.contains(char::is_whitespace) {
        return Err(wrong());
    }
    let rest = rest.trim_start();
    if let Some(quoted) = rest.strip_prefix('"') {
        let (value, after) = quoted.split_once('"').ok_or_else(wrong)?;
        return Ok((key, value, after));
    }
    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
    let (value, after) = rest.split_at(end);
    if value.is_empty() { Err(wrong()) } else { Ok((key, value, after)) }
}

/// Checks that the lines form trees: every switch described once, nothing below two switches, no
/// loop.
fn check(switches: &[SlurmSwitch]) -> Result<(), SlurmError> {
    let mut described: BTreeMap<&str, usize> = BTreeMap::new();
    for switch in switches {
        if let Some(first) = described.insert(&switch.name, switch.line) {
            let problem = SlurmProblem::SwitchTwice { name: switch.name.clone(), first };
            return Err(SlurmError { line: switch.line, problem });
        }
    }
    let mut nodes: BTreeMap<&str, usize> = BTreeMap::new();
    let mut parents: BTreeMap<&str, (&str, usize)> = BTreeMap::new();
    for SlurmSwitch { line, name: parent, below } in switches {
        let at = |problem| SlurmError { line: *line, problem };
        let twice =
            |key, name: &str, first| at(SlurmProblem::Below { key, name: name.to_owned(), first });
        match below {
            Below::Nodes(names) => {
                for name in names {
                    if let Some(first) = nodes.insert(name, *line) {
                        return Err(twice("Nodes", name, first));
                    }
                }
            }
            Below::Switches(names) => {
                for name in names {
                    if !described.contains_key(&**name) {
                        return Err(at(SlurmProblem::UnknownSwitch { name: name.clone() }));
                    }
                    if let Some((_, first)) = parents.insert(name, (parent, *line)) {
                        return Err(twice("Switches", name, first));
                    }
                }
            }
        }
    }
    no_loop(switches, &parents)
}

fn no_loop(
    switches: &[SlurmSwitch],
    parents: &BTreeMap<&str, (&str, usize)>,
) -> Result<(), SlurmError> {
    for switch in switches {
        let mut above = &*switch.name;
        for _ in 0..=switches.len() {
            match parents.get(above) {
                Some((parent, _)) => above = parent,
                None => break,
            }
        }
        if parents.contains_key(above) {
            let problem = SlurmProblem::Loop { name: switch.name.clone() };
            return Err(SlurmError { line: switch.line, problem });
        }
    }
    Ok(())
}
