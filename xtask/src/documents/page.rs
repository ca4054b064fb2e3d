//! A page as a script: its commands at the same lines, and the comments that steer it.
//!
//! - `<!-- left out: REASON -->` before a block fenced as `sh`: the block does not run.
//! - `<!-- optimized -->` before a block: it takes minutes in a debug build, and runs only in an
//!   optimized one.
//! - `<!-- first: COMMANDS -->`, on one line or several: commands that run before what follows, as
//!   those that make a file which every reader has.

use anyhow::{Result, bail, ensure};

/// Why a block does not run in a debug build.
const SLOW: &str = "takes minutes in a debug build; `cargo xtask documents --release` runs it";
/// Programs that serve until they are ended.
const SERVERS: [&str; 2] = ["fabricast up", "fabricast console"];

/// The commands of a page.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// A line for each line of the page: a command, a part of one, or nothing.
    lines: Vec<String>,
    /// Number of its commands that run; those of `first` do not count.
    pub(crate) commands: usize,
    /// Blocks that do not run: where, and why.
    pub(crate) left_out: Vec<String>,
}

/// Where the reader of a page is.
#[derive(Debug, PartialEq)]
enum Place {
    Text,
    First,
    /// In a block, with the spaces before its fence.
    Block {
        runs: bool,
        indent: usize,
    },
}

/// Reads a page, for a build that is optimized or not.
///
/// # Errors
///
/// A comment that steers nothing, or that does not end.
pub(crate) fn read(path: &str, text: &str, is_optimized: bool) -> Result<Page> {
    let (mut page, mut place, mut reason) = (Page::default(), Place::Text, None);
    // The word that ends a text which a command reads, and true if a command goes on.
    let (mut here, mut goes_on) = (None::<String>, false);
    for (number, line) in (1..).zip(text.lines()) {
        let trimmed = line.trim();
        let mut command = String::new();
        match &place {
            Place::Text => {
                if let Some(rest) = trimmed.strip_prefix("<!-- left out: ") {
                    let Some(why) = rest.strip_suffix(" -->") else {
                        bail!("{path}:{number}: the comment does not end on its line");
                    };
                    reason = Some(why.to_owned());
                } else if trimmed == "<!-- optimized -->" {
                    reason = (!is_optimized).then(|| SLOW.to_owned());
                } else if let Some(rest) = trimmed.strip_prefix("<!-- first:") {
                    match rest.strip_suffix("-->") {
                        Some(inner) => command = served(inner.trim()),
                        None => {
                            command = rest.trim().to_owned();
                            place = Place::First;
                        }
                    }
                } else if let Some(kind) = trimmed.strip_prefix("```") {
                    let indent = line.len() - line.trim_start().len();
                    let is_shell = kind == "sh";
                    let why = reason.take();
                    ensure!(is_shell || why.is_none(), "{path}:{number}: only sh is left out");
                    if let Some(why) = &why {
                        page.left_out.push(format!("{path}:{number}: {why}"));
                    }
                    place = Place::Block { runs: is_shell && why.is_none(), indent };
                } else if !trimmed.is_empty() {
                    ensure!(reason.is_none(), "{path}:{number}: nothing follows 'left out'");
                }
            }
            Place::First => match trimmed.strip_suffix("-->") {
                Some(inner) => {
                    command = inner.to_owned();
                    place = Place::Text;
                }
                None => command = served(line),
            },
            Place::Block { .. } if trimmed == "```" => place = Place::Text,
            Place::Block { runs: false, .. } => {}
            Place::Block { indent, .. } => {
                let inner = line.get(*indent..).unwrap_or(trimmed);
                command = inner.to_owned();
                if let Some(end) = &here {
                    if inner == end {
                        here = None;
                    }
                } else if !goes_on {
                    command = served(inner);
                    let is_command = !trimmed.is_empty() && !trimmed.starts_with('#');
                    page.commands += usize::from(is_command);
                    here =
                        inner.split_once("<<").map(|(_, word)| word.trim_matches('\'').to_owned());
                }
                goes_on = here.is_none() && trimmed.ends_with('\\');
            }
        }
        page.lines.push(command);
    }
    ensure!(place == Place::Text && reason.is_none(), "{path}: a block or comment does not end");
    Ok(page)
}

/// A command, as one in the background if it serves.
fn served(command: &str) -> String {
    let bare = command.split(" #").next().unwrap_or_default().trim_end();
    if SERVERS.iter().any(|start| bare.starts_with(start)) && !bare.ends_with(" &") {
        format!("serve {bare}")
    } else {
        command.to_owned()
    }
}

impl Page {
    /// The commands, each at its line of the page.
    pub(crate) fn script(&self) -> String {
        let mut script = self.lines.join("\n");
        // The page failed if one of its commands did, and not if the last one did.
        script.push_str("\ntrue\n");
        script
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_stay_at_their_lines_and_the_rest_is_gone() {
        let text = "# Page\n<!-- first: echo a >a -->\n\n```sh\nfabricast up  # all\nb \\\n    c\n```\n1. x\n   ```sh\n   d\n   ```\n```toml\nx = 1\n```\n";
        let page = read("p", text, false).unwrap();
        let lines: Vec<_> = page.lines.iter().map(String::as_str).collect();
        let rest = ["", "", "d", "", "", "", ""];
        let first = ["", "echo a >a", "", "", "serve fabricast up", "b \\", "    c", ""];
        assert_eq!(lines, [&first[..], &rest].concat());
        assert_eq!((page.commands, page.left_out.len()), (3, 0));
    }

    #[test]
    fn a_block_that_is_left_out_is_listed_with_its_reason() {
        let text = "<!-- left out: no engine -->\n\n```sh\nx\n```\n```sh\ny\n```\n";
        let page = read("p", text, false).unwrap();
        assert_eq!(page.script().trim(), "y\n\ntrue");
        assert_eq!(page.left_out, ["p:3: no engine"]);
    }

    #[test]
    fn comments_of_several_lines_keep_their_lines() {
        let page = read("p", "<!-- first:\na\nb -->\n```sh\nc\n```\n", false).unwrap();
        assert_eq!(page.script(), "\na\nb \n\nc\n\ntrue\n");
        assert_eq!(page.commands, 1);
    }

    #[test]
    fn a_slow_block_runs_in_an_optimized_build_only() {
        let text = "<!-- optimized -->\n```sh\nx\n```\n";
        assert_eq!(read("p", text, true).unwrap().commands, 1);
        let page = read("p", text, false).unwrap();
        assert_eq!((page.commands, page.left_out), (0, vec![format!("p:2: {SLOW}")]));
    }

    #[test]
    fn comments_that_steer_nothing_are_refused() {
        for text in [
            "<!-- left out: x -->\ntext\n",
            "<!-- left out: x -->\n```toml\n```\n",
            "<!-- left out: x -->\n",
            "<!-- left out: x\n",
            "<!-- first: x\n",
            "```sh\nx\n",
        ] {
            assert!(read("p", text, false).is_err(), "{text}");
        }
    }
}
