//! Reads as much of Rust as the checks of structure need: items without comments and text, and the
//! paths that `use` declarations name.

/// Source text with comments, strings and characters blanked out and the unit tests cut off.
///
/// Line breaks stay, so that positions still give line numbers.
pub(super) fn code(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (length, keep) = token(rest, first);
        let piece = &rest[..length];
        if keep {
            out.push_str(piece);
        } else {
            out.extend(piece.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        }
        rest = &rest[length..];
    }
    let tests = unit_tests(&out).unwrap_or(out.len());
    out.truncate(tests);
    out
}

/// Position of the unit tests at the end of a file. `mod tests;` names another file and ends
/// nothing here.
fn unit_tests(code: &str) -> Option<usize> {
    let mut modules = code.match_indices("#[cfg(test)]\nmod ");
    let (at, _) = modules.find(|(at, mark)| {
        let rest = &code[at + mark.len()..];
        rest.find(['{', ';']).is_some_and(|end| rest[end..].starts_with('{'))
    })?;
    Some(at)
}

/// Bytes of the token that `rest` starts with, and whether it is code.
fn token(rest: &str, first: char) -> (usize, bool) {
    let until = |end: &str, from: usize| {
        rest[from..].find(end).map_or(rest.len(), |at| from + at + end.len())
    };
    if rest.starts_with("//") {
        return (rest.find('\n').unwrap_or(rest.len()), false);
    }
    if rest.starts_with("/*") {
        return (until("*/", 2), false);
    }
    if let Some(hashes) = raw_string(rest) {
        let end = format!("\"{}", "#".repeat(hashes));
        return (until(&end, hashes + 2), false);
    }
    if first == '"' {
        return (quoted(rest, '"'), false);
    }
    // A lifetime is no character: 'a' ends two characters later, or begins with a backslash.
    if first == '\'' && (rest[1..].starts_with('\\') || rest[1..].chars().nth(1) == Some('\'')) {
        return (quoted(rest, '\''), false);
    }
    let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    (word.max(first.len_utf8()), true)
}

/// Number of `#` of the raw string that `rest` starts with.
fn raw_string(rest: &str) -> Option<usize> {
    let after = rest.strip_prefix('r')?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    after[hashes..].starts_with('"').then_some(hashes)
}

fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    rest.len()
}

/// A path that a `use` declaration names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Import {
    /// Names from the left; the last one may be `*`.
    pub(super) path: Vec<String>,
    /// Name under which the importing file knows it.
    pub(super) name: String,
    /// Handed on to other modules by `pub use`, of whatever visibility.
    pub(super) is_exported: bool,
    pub(super) line: usize,
}

/// Every path of every `use` declaration in [`code`], with groups taken apart.
pub(super) fn imports(code: &str) -> Vec<Import> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("use ") {
        let line_start = code[..at].rfind('\n').map_or(0, |end| end + 1);
        let before = code[line_start..at].trim();
        let is_exported = before.starts_with("pub");
        if !(before.is_empty() || is_exported) {
            continue;
        }
        let Some(length) = code[at..].find(';') else { continue };
        let line = code[..at].matches('\n').count() + 1;
        let mut paths = Vec::new();
        take_apart(&code[at + 4..at + length], &[], &mut paths);
        for (path, name) in paths {
            found.push(Import { path, name, is_exported, line });
        }
    }
    found
}

/// Paths in text that serde reads as code, as in `#[serde(with = "crate::a")]`.
///
/// - `text`: the source whose [`code`] is `code`.
pub(super) fn serde_paths(text: &str, code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut is_inside = false;
    for (written, code) in text.lines().zip(code.lines()) {
        is_inside |= code.contains("#[serde(");
        if is_inside {
            let quoted = written.split('"').skip(1).step_by(2);
            let paths = quoted
                .filter(|path| ["crate::", "super::"].iter().any(|start| path.starts_with(start)));
            found.extend(paths.map(|path| segments(path).collect()));
            is_inside = !code.contains(")]");
        }
    }
    found
}

/// Pushes every path of the tree `text` below `prefix`, with the name it gets.
fn take_apart(text: &str, prefix: &[String], out: &mut Vec<(Vec<String>, String)>) {
    let text = text.trim();
    if let Some((head, tail)) = text.split_once('{') {
        let mut prefix = prefix.to_vec();
        prefix.extend(segments(head));
        let inner = tail.rsplit_once('}').map_or(tail, |(inner, _)| inner);
        for part in split_at_top(inner) {
            take_apart(part, &prefix, out);
        }
        return;
    }
    let (path, alias) = match text.split_once(" as ") {
        Some((path, alias)) => (path, Some(alias.trim().to_owned())),
        None => (text, None),
    };
    let mut whole = prefix.to_vec();
    whole.extend(segments(path).filter(|name| prefix.is_empty() || name != "self"));
    let Some(last) = whole.last().cloned() else { return };
    out.push((whole, alias.unwrap_or(last)));
}

fn segments(path: &str) -> impl Iterator<Item = String> {
    path.split("::").map(|name| name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// Splits at commas outside of braces and of the other brackets.
pub(super) fn split_at_top(text: &str) -> Vec<&str> {
    let (mut depth, mut start) = (0_i32, 0);
    let mut parts = Vec::new();
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match c {
            '{' | '(' | '[' | '<' => depth += 1,
            '>' if before == '-' => {}
            '}' | ')' | ']' | '>' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
        before = c;
    }
    parts.push(&text[start..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// Text from the bracket at `open` to the one that closes it, without both.
pub(super) fn bracketed(text: &str, open: usize) -> Option<&str> {
    let (mut depth, mut before) = (0_i32, ' ');
    for (at, c) in text[open..].char_indices() {
        match c {
            '(' | '<' | '[' | '{' => depth += 1,
            '>' if before == '-' => {}
            ')' | '>' | ']' | '}' => {
                depth -= 1;
                if depth == 0 {
                    return Some(&text[open + 1..open + at]);
                }
            }
            _ => {}
        }
        before = c;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_text_and_unit_tests_are_no_code() {
        let text = "//! use a;\nlet x = \"use b; \\\" //\"; /* use c; */ let y: &'a str = 'u';\n";
        assert_eq!(code(text).split_whitespace().collect::<String>(), "letx=;lety:&'astr=;");
        assert_eq!(code("a r#\"b\"# c").split_whitespace().collect::<String>(), "ac");
        assert_eq!(code("a\n#[cfg(test)]\nmod tests { b }\n").trim(), "a");
        let near_the_top = "a\n#[cfg(test)]\nmod tests;\nb\n#[cfg(test)]\nmod more { c }\n";
        assert_eq!(code(near_the_top).trim(), "a\n#[cfg(test)]\nmod tests;\nb");
        assert_eq!(code(text).matches('\n').count(), 2, "line numbers stay");
    }

    #[test]
    fn groups_of_imports_are_taken_apart() {
        let code = "use crate::a::{self, b::{C, D as E}, F};\npub(crate) use g::*;\nreuse x;\n";
        let found: Vec<_> = imports(code)
            .into_iter()
            .map(|i| format!("{} as {} {} {}", i.path.join("::"), i.name, i.is_exported, i.line))
            .collect();
        assert_eq!(
            found,
            [
                "crate::a as a false 1",
                "crate::a::b::C as C false 1",
                "crate::a::b::D as E false 1",
                "crate::a::F as F false 1",
                "g::* as * true 2",
            ]
        );
    }

    #[test]
    fn paths_of_serde_are_found_in_its_attributes_alone() {
        let text = "#[serde(with = \"crate::a::b\")]\nx: X,\n#[serde(\n    default = \"one\",\n    \
                    with = \"super::c\"\n)]\nf(\"crate::d\"); // #[serde(with = \"crate::e\")]\n\
                    #[cfg(test)]\nmod tests {\n    #[serde(with = \"crate::f\")]\n}\n";
        let paths = serde_paths(text, &code(text));
        let paths: Vec<_> = paths.iter().map(|path| path.join("::")).collect();
        assert_eq!(paths, ["crate::a::b", "super::c"]);
    }

    #[test]
    fn commas_inside_of_brackets_do_not_split() {
        assert_eq!(split_at_top("a: B<C, D>, e: (F, G), f: fn(x) -> y,").len(), 3);
        assert_eq!(bracketed("f(a, (b) -> c) + d", 1), Some("a, (b) -> c"));
    }
}
