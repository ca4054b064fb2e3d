//! Lists of node names as Slurm writes them: `node[001-096,100],login1`.
//!
//! A bracket holds numbers and ranges of numbers; leading zeros are kept (`[08-10]` is 08, 09, 10).
//! A name with several brackets stands for all combinations.

use std::fmt::Write;

use thiserror::Error;

/// Limit on the names that one list may stand for.
const MAX_NAMES: usize = 1 << 22;
/// Limit on the digits of a number in a bracket.
const MAX_DIGITS: usize = 9;

/// Reason why a text is not a list of node names.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HostlistError {
    /// A name is empty: two commas follow each other, or one is the first or last character.
    #[error("column {column}: a name is missing")]
    Empty {
        /// Column of the missing name, from 1.
        column: usize,
    },
    /// A bracket is not closed, or closed without being opened.
    #[error("column {column}: the bracket has no other half")]
    Bracket {
        /// Column of the bracket, from 1.
        column: usize,
    },
    /// A bracket contains something else than a number or a range.
    #[error(
        "column {column}: {text:?} is neither a number of at most {MAX_DIGITS} digits nor a rising range"
    )]
    Range {
        /// Column where it starts, from 1.
        column: usize,
        /// The text found.
        text: String,
    },
    /// A name contains a blank or another character that node names cannot have.
    #[error("column {column}: {character:?} cannot be part of a node name")]
    Character {
        /// Column of the character, from 1.
        column: usize,
        /// The invalid character.
        character: char,
    },
    /// The list stands for too many names.
    #[error("the list stands for more than {MAX_NAMES} names")]
    TooMany,
}

/// Returns whether a name can stand in a list.
#[must_use]
pub fn is_node_name(name: &str) -> bool {
    !name.is_empty() && !name.chars().any(is_foreign) && !name.contains(['[', ']', ','])
}

fn is_foreign(character: char) -> bool {
    character.is_whitespace() || character.is_control() || matches!(character, '#' | '"' | '=')
}

/// Expands a list. Names come in the order written; repeated names are kept. Cost: the names.
///
/// # Errors
///
/// [`HostlistError`] with the column.
pub fn expand(text: &str) -> Result<Vec<String>, HostlistError> {
    let mut names = Vec::new();
    if text.is_empty() {
        return Ok(names);
    }
    let mut made = vec![String::new()]; // what the name so far stands for
    let (mut at, mut started) = (0, false);
    while at < text.len() {
        let character = text[at..].chars().next().expect("within the text");
        let column = text[..at].chars().count() + 1;
        match character {
            ',' if started => {
                names.append(&mut made);
                (made, started) = (vec![String::new()], false);
            }
            ',' => return Err(HostlistError::Empty { column }),
            '[' => {
                let inner = &text[at + 1..];
                let close = inner.find([']', '[']).filter(|close| inner[*close..].starts_with(']'));
                let close = close.ok_or(HostlistError::Bracket { column })?;
                made = multiply(&made, &numbers(&inner[..close], column + 1)?)?;
                at += close + 1;
                started = true;
            }
            ']' => return Err(HostlistError::Bracket { column }),
            _ if is_foreign(character) => {
                return Err(HostlistError::Character { column, character });
            }
            _ => {
                made.iter_mut().for_each(|name| name.push(character));
                started = true;
            }
        }
        if names.len() + made.len() > MAX_NAMES {
            return Err(HostlistError::TooMany);
        }
        at += character.len_utf8();
    }
    if !started {
        return Err(HostlistError::Empty { column: text.chars().count() + 1 });
    }
    names.append(&mut made);
    Ok(names)
}

/// Appends every number to every name.
fn multiply(names: &[String], numbers: &[String]) -> Result<Vec<String>, HostlistError> {
    if names.len().saturating_mul(numbers.len()) > MAX_NAMES {
        return Err(HostlistError::TooMany);
    }
    let with = |name: &String| {
        numbers.iter().map(move |number| format!("{name}{number}")).collect::<Vec<_>>()
    };
    Ok(names.iter().flat_map(with).collect())
}

/// Parses the content of a bracket that starts at `column`.
fn numbers(text: &str, mut column: usize) -> Result<Vec<String>, HostlistError> {
    let mut numbers = Vec::new();
    for part in text.split(',') {
        let wrong = || HostlistError::Range { column, text: part.to_owned() };
        let number = |digits: &str| {
            let is_number = digits.len() <= MAX_DIGITS
                && !digits.is_empty()
                && digits.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| digits.parse::<usize>().ok()).flatten().ok_or_else(wrong)
        };
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (first, last, width) = (number(low)?, number(high)?, low.len());
        if first > last {
            return Err(wrong());
        }
        if numbers.len() + (last - first) >= MAX_NAMES {
            return Err(HostlistError::TooMany);
        }
        numbers.extend((first..=last).map(|number| format!("{number:0width$}")));
        column += part.chars().count() + 1;
    }
    Ok(numbers)
}

/// A name split at its last number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Cut<'a> {
    before: &'a str,
    after: &'a str,
    number: Option<u32>,
    digits: &'a str,
}

impl<'a> Cut<'a> {
    fn of(name: &'a str) -> Self {
        let whole = Self { before: name, after: "", number: None, digits: "" };
        let Some(last) = name.rfind(|c: char| c.is_ascii_digit()) else { return whole };
        let head = &name[..=last];
        let first = head.rfind(|c: char| !c.is_ascii_digit());
        let first = first.map_or(0, |at| at + head[at..].chars().next().map_or(1, char::len_utf8));
        let digits = &head[first..];
        match digits.parse() {
            Ok(number) if digits.len() <= MAX_DIGITS => Self {
                before: &name[..first],
                after: &name[last + 1..],
                number: Some(number),
                digits,
            },
            Ok(_) | Err(_) => whole,
        }
    }

    /// Returns whether this number continues a range that started with so many digits.
    fn follows(&self, number: u32, width: usize) -> bool {
        self.number == number.checked_add(1) && self.digits == format!("{:0width$}", number + 1)
    }
}

/// Compresses names to one list, sorted and with ranges; duplicates are removed.
#[must_use]
pub fn compress<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut cuts: Vec<Cut<'_>> = names.into_iter().map(Cut::of).collect();
    cuts.sort_unstable();
    cuts.dedup();
    let mut text = String::new();
    for same in cuts.chunk_by(|a, b| (a.before, a.after) == (b.before, b.after)) {
        let (named, numbered): (Vec<&Cut<'_>>, Vec<&Cut<'_>>) =
            same.iter().partition(|cut| cut.number.is_none());
        for cut in named {
            separate(&mut text);
            text.push_str(cut.before);
        }
        if let Some(first) = numbered.first() {
            separate(&mut text);
            match numbered.as_slice() {
                [only] => text.extend([only.before, only.digits, only.after]),
                several => {
                    text.extend([first.before, "[", &ranges(several), "]", first.after]);
                }
            }
        }
    }
    text
}

fn separate(text: &mut String) {
    if !text.is_empty() {
        text.push(',');
    }
}

/// Writes ascending numbers of one name as ranges.
fn ranges(cuts: &[&Cut<'_>]) -> String {
    let mut text = String::new();
    let mut at = 0;
    while at < cuts.len() {
        let first = cuts[at];
        let mut last = at;
        while let (Some(number), Some(next)) = (cuts[last].number, cuts.get(last + 1))
            && next.follows(number, first.digits.len())
        {
            last += 1;
        }
        separate(&mut text);
        text.push_str(first.digits);
        if last > at {
            // Writing to a string cannot fail.
            let _ = write!(text, "-{}", cuts[last].digits);
        }
        at = last + 1;
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn expanded(text: &str) -> Vec<String> {
        expand(text).unwrap()
    }

    #[test]
    fn ranges_keep_leading_zeros_and_brackets_multiply() {
        assert_eq!(
            expanded("node[098-101,7],login"),
            ["node098", "node099", "node100", "node101", "node7", "login"]
        );
        assert_eq!(expanded("r[1-2]n[08-09]-ib"), ["r1n08-ib", "r1n09-ib", "r2n08-ib", "r2n09-ib"]);
        assert_eq!(expanded(""), [""; 0]);
    }

    #[test]
    fn names_are_sorted_and_put_into_ranges() {
        let list = |names: &[&str]| compress(names.iter().copied());
        assert_eq!(list(&["h10", "h9", "h8", "h12", "h8"]), "h[8-10,12]");
        assert_eq!(list(&["node099", "node100", "node98"]), "node[98,099-100]");
        assert_eq!(list(&["a", "b7", "b", "c1-x", "c2-x"]), "a,b,b7,c[1-2]-x");
        assert_eq!(list(&["n99", "n100"]), "n[99-100]");
        assert_eq!(list(&["n12345678901"]), "n12345678901");
        assert_eq!(list(&[]), "");
    }

    #[test]
    fn faults_are_named_with_their_column() {
        let column = |text: &str| match expand(text).unwrap_err() {
            HostlistError::Empty { column }
            | HostlistError::Bracket { column }
            | HostlistError::Range { column, .. }
            | HostlistError::Character { column, .. } => column,
            HostlistError::TooMany => 0,
        };
        let faults = [
            (",a", 1),
            ("a,,b", 3),
            ("a,", 3),
            ("a[1-2", 2),
            ("a]", 2),
            ("a[1[2]]", 2),
            ("ä[1,x]", 5),
            ("a[3-1]", 3),
            ("a[]", 3),
            ("a b", 2),
            ("a[0-9999999999]", 3),
            ("a[0-999999999]", 0),
            ("a[0-9999]b[0-9999]", 0),
        ];
        for (text, place) in faults {
            assert_eq!(column(text), place, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            names in proptest::collection::btree_set("[ab]{0,1}[0-2]{0,3}[xé]{0,1}[019]{0,2}[-]{0,1}", 0..12),
        ) {
            let names: BTreeSet<String> =
                names.into_iter().filter(|name| is_node_name(name)).collect();
            let text = compress(names.iter().map(String::as_str));
            let back = expand(&text).unwrap();
            prop_assert_eq!(back.len(), names.len());
            prop_assert_eq!(back.into_iter().collect::<BTreeSet<String>>(), names);
        }
    }
}
