//! Prints a drawing as SVG.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::drawing::{Cell, Drawing, Frame, Line};
use crate::unit::Unit;

/// Width of a box.
pub(crate) const CELL_WIDTH: i32 = 68;
/// Height of a box.
pub(crate) const CELL_HEIGHT: i32 = 34;
/// Most lines with a title each; more are joined to one path for each kind.
const MAX_TITLED: usize = 700;

/// Style of the classes in a drawing, for light and dark screens.
pub const STYLE: &str = include_str!("style.css");

impl Drawing {
    /// Prints the drawing as a file that stands alone, with its style.
    #[must_use]
    pub fn file(&self) -> String {
        let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        let style = format!(
            "<style>{}</style>\n<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n",
            STYLE.trim()
        );
        self.write(&mut text, &style, &|_| None);
        text
    }

    /// Prints the drawing for a page that has [`STYLE`] among its own.
    ///
    /// - `link`: address that a box leads to; `None` for a box that leads nowhere.
    #[must_use]
    pub fn svg(&self, link: &dyn Fn(Unit) -> Option<String>) -> String {
        let mut text = String::new();
        self.write(&mut text, "", link);
        text
    }

    fn write(&self, out: &mut String, head: &str, link: &dyn Fn(Unit) -> Option<String>) {
        let Self { width, height, title, .. } = self;
        let title = escape(title);
        put(
            out,
            format_args!(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"fabric\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" aria-label=\"{title}\">\n<title>{title}</title>\n{head}"
            ),
        );
        for frame in &self.frames {
            let Frame { x, y, width, height, .. } = frame;
            put(
                out,
                format_args!(
                    "<rect class=\"frame\" x=\"{x}\" y=\"{y}\" width=\"{width}\" \
                     height=\"{height}\" rx=\"6\"/>\n"
                ),
            );
        }
        self.write_lines(out);
        // Labels lie above the lines.
        let rows = self.rows.iter().map(|row| (18, row.y + 4, &row.text));
        let frames = self.frames.iter().map(|frame| (frame.x, frame.y - 4, &frame.label));
        for (x, y, text) in rows.chain(frames) {
            let text = escape(text);
            put(out, format_args!("<text class=\"row\" x=\"{x}\" y=\"{y}\">{text}</text>\n"));
        }
        for cell in &self.cells {
            write_cell(out, &self.prefix, cell, link(cell.unit));
        }
        out.push_str("</svg>\n");
    }

    fn write_lines(&self, out: &mut String) {
        let is_plain = |line: &&Line| line.failed == 0 && line.trees == 0;
        let titled = self.lines.len() <= MAX_TITLED;
        if !titled {
            let mut paths: BTreeMap<String, String> = BTreeMap::new();
            for line in self.lines.iter().filter(is_plain) {
                let Line { x1, y1, x2, y2, .. } = line;
                put(
                    paths.entry(line_class(line)).or_default(),
                    format_args!("M{x1} {y1}L{x2} {y2}"),
                );
            }
            for (class, path) in paths {
                put(out, format_args!("<path class=\"{class}\" d=\"{path}\"/>\n"));
            }
        }
        // Lines that say more come last, above the others.
        for plain in [true, false] {
            for line in self.lines.iter().filter(|line| is_plain(line) == plain) {
                if plain && !titled {
                    continue;
                }
                let Line { x1, y1, x2, y2, .. } = line;
                put(
                    out,
                    format_args!(
                        "<path class=\"{}\" d=\"M{x1} {y1}L{x2} {y2}\"><title>{}</title></path>\n",
                        line_class(line),
                        escape(&line.title)
                    ),
                );
            }
        }
    }
}

fn line_class(line: &Line) -> String {
    let mut class = format!("line f{}", line.fill);
    match line.failed {
        0 => {}
        failed if failed == line.links => class.push_str(" dead"),
        _ => class.push_str(" hurt"),
    }
    match line.trees {
        0 => {}
        1 => class.push_str(" tree"),
        2 => class.push_str(" second"),
        _ => class.push_str(" tree both"),
    }
    class
}

fn write_cell(out: &mut String, prefix: &str, cell: &Cell, link: Option<String>) {
    let Cell { x, y, .. } = cell;
    let mut class = format!("cell f{}", cell.fill);
    for (has, word) in [
        (cell.dead, " dead"),
        (!cell.dead && cell.failed > 0, " hurt"),
        (cell.on_tree, " on"),
        (cell.is_root, " root"),
        (cell.members > 0, " member"),
    ] {
        if has {
            class.push_str(word);
        }
    }
    let title = escape(&cell.title);
    if let Some(link) = &link {
        put(out, format_args!("<a href=\"{}\" aria-label=\"{title}\">", escape(link)));
    }
    let middle = x + CELL_WIDTH / 2;
    put(
        out,
        format_args!(
            "<g class=\"{class}\" id=\"{}{}\"><title>{title}</title>\
         <rect x=\"{x}\" y=\"{y}\" width=\"{CELL_WIDTH}\" height=\"{CELL_HEIGHT}\" rx=\"4\"/>\
         <text x=\"{middle}\" y=\"{}\">{}</text>",
            escape(prefix),
            cell.unit,
            if cell.note.is_empty() { y + 21 } else { y + 15 },
            escape(&cell.label),
        ),
    );
    if !cell.note.is_empty() {
        put(
            out,
            format_args!(
                "<text class=\"note\" x=\"{middle}\" y=\"{}\">{}</text>",
                y + 28,
                escape(&cell.note)
            ),
        );
    }
    out.push_str(if link.is_some() { "</g></a>\n" } else { "</g>\n" });
}

/// Writes to a string, which cannot fail.
fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a string takes everything");
}

/// Makes a text that is safe between tags and in attributes (DRAW-1): markup is escaped, and
/// control characters and those that turn the direction of writing are replaced.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}' => {
                out.push('\u{fffd}');
            }
            control if control.is_control() => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}
