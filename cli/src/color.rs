//! Colors of states and errors, on terminals only.

use std::io::IsTerminal;
use std::sync::LazyLock;

/// True if standard output is a terminal that may show colors (<https://no-color.org>).
static ON_STDOUT: LazyLock<bool> = LazyLock::new(|| may_show(std::io::stdout().is_terminal()));
/// The same for standard error.
static ON_STDERR: LazyLock<bool> = LazyLock::new(|| may_show(std::io::stderr().is_terminal()));

fn may_show(is_terminal: bool) -> bool {
    let variable = |name| std::env::var_os(name).unwrap_or_default();
    is_terminal && variable("NO_COLOR").is_empty() && variable("TERM") != "dumb"
}

/// Meaning of a color.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Color {
    Good,
    Attention,
    Bad,
    Title,
}

impl Color {
    /// The color of a state in a table; `None` for one that is neither good nor bad.
    fn of_state(state: &str) -> Option<Self> {
        let starts = |words: &[&str]| words.iter().any(|word| state.starts_with(word));
        let has = |word: &str| state.contains(word);
        if starts(&["failed", "down", "no ", "not ", "expelled"]) {
            Some(Self::Bad)
        } else if starts(&["silent", "wait", "unicast only", "stands by"]) || has("drained") {
            Some(Self::Attention)
        } else if starts(&["up", "routed", "active", "settled", "serving"]) {
            Some(Self::Good)
        } else {
            None
        }
    }

    fn code(self) -> u8 {
        match self {
            Self::Title => 1,
            Self::Bad => 31,
            Self::Good => 32,
            Self::Attention => 33,
        }
    }

    /// Text of this color.
    fn of(self, text: &str) -> String {
        format!("\x1b[{}m{text}\x1b[0m", self.code())
    }
}

/// Text for standard output, in a color if it is a terminal.
pub(crate) fn painted(text: &str, color: Color) -> String {
    if *ON_STDOUT { color.of(text) } else { text.to_owned() }
}

/// A state for standard output, in the color of its meaning if it is a terminal.
pub(crate) fn painted_state(state: &str) -> String {
    Color::of_state(state).map_or_else(|| state.to_owned(), |color| painted(state, color))
}

/// A failure for standard error: its first word and its hint in colors if it is a terminal.
#[must_use]
pub fn painted_failure(text: &str) -> String {
    if !*ON_STDERR {
        return text.to_owned();
    }
    let line = |line: &str| {
        for (word, color) in [("fabricast:", Color::Bad), ("hint:", Color::Attention)] {
            if let Some(rest) = line.strip_prefix(word) {
                return color.of(word) + rest;
            }
        }
        line.to_owned()
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Titles of columns that hold states.
const STATES: [&str; 2] = ["STATE", "ROUTE"];

/// The lines of a table, with bold titles and colored states if standard output is a terminal.
pub(crate) fn painted_table(lines: Vec<String>) -> Vec<String> {
    if *ON_STDOUT { with_colors(&lines) } else { lines }
}

fn with_colors(lines: &[String]) -> Vec<String> {
    let Some((titles, rows)) = lines.split_first() else { return Vec::new() };
    let mut columns: Vec<(usize, usize)> =
        STATES.iter().filter_map(|title| column(titles, title)).collect();
    columns.sort_unstable();
    let row = |line: &String| {
        let characters: Vec<char> = line.chars().collect();
        let text = |from: usize, to: usize| -> String {
            characters[from.min(characters.len())..to.min(characters.len())].iter().collect()
        };
        let (mut painted, mut done) = (String::new(), 0);
        for (from, to) in &columns {
            painted += &text(done, *from);
            let cell = text(*from, *to);
            let state = cell.trim_end();
            match Color::of_state(state) {
                Some(color) => painted += &cell.replacen(state, &color.of(state), 1),
                None => painted += &cell,
            }
            done = *to;
        }
        painted + &text(done, usize::MAX)
    };
    std::iter::once(Color::Title.of(titles)).chain(rows.iter().map(row)).collect()
}

/// Characters of a line from where a title begins to where the next one does.
fn column(titles: &str, title: &str) -> Option<(usize, usize)> {
    let begins = |at: usize| at == 0 || titles[..at].ends_with("  ");
    let (from, _) = titles.match_indices(title).find(|(at, _)| begins(*at))?;
    let rest = &titles[from..];
    let gap = rest.find("  ");
    let next = gap.map(|gap| gap + rest[gap..].len() - rest[gap..].trim_start().len());
    Some((from, next.map_or(usize::MAX, |next| from + next)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_bold_and_states_have_the_color_of_their_meaning() {
        let lines = [
            "NODE    STATE        LAST CONTACT",
            "up      failed       3 s ago",
            "n1      up           3 s ago",
            "n2      up, drained  3 s ago",
        ];
        let painted = with_colors(&lines.map(str::to_owned));
        assert_eq!(painted[0], "\x1b[1mNODE    STATE        LAST CONTACT\x1b[0m");
        assert_eq!(painted[1], "up      \x1b[31mfailed\x1b[0m       3 s ago");
        assert_eq!(painted[2], "n1      \x1b[32mup\x1b[0m           3 s ago");
        assert_eq!(painted[3], "n2      \x1b[33mup, drained\x1b[0m  3 s ago");
    }
}
