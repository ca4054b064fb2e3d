//! Shows the texts that `fabricast eval` writes: headings, tables, lists and paragraphs of
//! Markdown. All else stays as it was written, and nothing of it is markup.

use maud::{Markup, html};

use super::parts::name;

/// Most lines of a text that are shown.
const MAX_LINES: usize = 2_000;

/// A piece of a text.
#[derive(Debug, PartialEq, Eq)]
enum Block<'a> {
    Heading(&'a str),
    Table { head: Vec<&'a str>, rows: Vec<Vec<&'a str>> },
    List(Vec<&'a str>),
    Paragraph(Vec<&'a str>),
}

/// Shows a text.
pub(super) fn markdown(text: &str) -> Markup {
    html! {
        @for block in blocks(text) {
            @match block {
                Block::Heading(text) => h3 { (plain(text)) },
                Block::Paragraph(lines) => p { (plain(&lines.join(" "))) },
                Block::List(items) => ul { @for item in items { li { (plain(item)) } } },
                Block::Table { head, rows } => div .scroll tabindex="0" role="group" aria-label=(head.join(", ")) {
                    table {
                        thead { tr { @for cell in &head { th { (plain(cell)) } } } }
                        tbody { @for row in &rows { tr { @for cell in row { td { (plain(cell)) } } } } }
                    }
                },
            }
        }
    }
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut lines = text.lines().take(MAX_LINES).map(str::trim_end).peekable();
    while let Some(line) = lines.next() {
        if line.is_empty() {
            continue;
        }
        if line.starts_with('#') {
            blocks.push(Block::Heading(line.trim_start_matches('#').trim()));
        } else if let Some(head) = cells(line) {
            lines.next_if(|next| next.starts_with("| ---") || next.starts_with("|---"));
            let mut rows = Vec::new();
            while let Some(row) = lines.peek().copied().and_then(cells) {
                rows.push(row);
                lines.next();
            }
            blocks.push(Block::Table { head, rows });
        } else if let Some(item) = line.strip_prefix("- ") {
            let mut items = vec![item];
            while let Some(item) = lines.peek().and_then(|next| next.strip_prefix("- ")) {
                items.push(item);
                lines.next();
            }
            blocks.push(Block::List(items));
        } else {
            let mut paragraph = vec![line];
            let goes_on = |next: &&str| !next.is_empty() && !next.starts_with(['#', '|', '-']);
            while let Some(next) = lines.next_if(goes_on) {
                paragraph.push(next);
            }
            blocks.push(Block::Paragraph(paragraph));
        }
    }
    blocks
}

/// Cells of a row of a table.
fn cells(line: &str) -> Option<Vec<&str>> {
    let inner = line.strip_prefix('|')?.strip_suffix('|')?;
    Some(inner.split(" | ").map(str::trim).collect())
}

/// A text without the marks of code and emphasis; a star between letters is no mark.
fn plain(text: &str) -> Markup {
    let text = text.replace("**", "").replace('`', "");
    let mut shown = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    let mut before = ' ';
    while let Some(character) = characters.next() {
        let after = characters.peek().copied().unwrap_or(' ');
        if character != '*' || (before.is_alphanumeric() && after.is_alphanumeric()) {
            shown.push(character);
        }
        before = character;
    }
    name(&shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_is_read_in_blocks() {
        let text = "# A\n\none\ntwo\n\n| a | b |\n| --- | --- |\n| 1 | <x> |\n| 2 |  |\n- x\n- y\n";
        let found = blocks(text);
        let expected = [
            Block::Heading("A"),
            Block::Paragraph(vec!["one", "two"]),
            Block::Table { head: vec!["a", "b"], rows: vec![vec!["1", "<x>"], vec!["2", ""]] },
            Block::List(vec!["x", "y"]),
        ];
        assert_eq!(found, expected);
        let shown = markdown(text).0;
        assert_eq!(plain("*Same*: `C*m`").0, "<bdi>Same: C*m</bdi>");
        assert!(shown.contains("&lt;x&gt;") && !shown.contains("<x>"), "{shown}");
    }
}
