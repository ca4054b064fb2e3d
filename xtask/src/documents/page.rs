//! A page as a script: its commands at the same lines, and the comments that steer it.
//!
//! - `<!-- left out: REASON -->` before a block fenced as `sh`: the block does not run.
//! - `<!-- elsewhere: FILE ... -->`: it does not run here, but FILE runs it in the gate.
//! - `<!-- needs: TOOL, ... -->`: it runs where `cargo xtask setup` has these tools.
//! - `<!-- optimized -->`: it takes minutes in a debug build, and runs only in an optimized one.
//! - `<!-- first: COMMANDS -->`, on one line or several: commands that run before what follows, as
//!   those that make a file which every reader has. Between another comment and its block they are
//!   left out with the block.

use anyhow::{Result, bail, ensure};

/// Reason why a block does not run in a debug build.
const SLOW: &str = "takes minutes in a debug build; `cargo xtask documents --release` runs it";
/// Programs that serve until they are ended.
const SERVERS: [&str; 3] = ["fabricast up", "fabricast console", "fabricast switch-agent"];

/// Tools and build that the blocks of a page can count on.
#[derive(Clone, Copy)]
pub(crate) struct Means<'a> {
    /// True if the binary is optimized.
    pub(crate) is_optimized: bool,
    /// Reason why a tool is missing; `None` if it is there. Refuses names that are none of a tool.
    pub(crate) missing: &'a dyn Fn(&str) -> Result<Option<String>>,
}

/// The commands of a page.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// A line for each line of the page: a command, a part of one, or nothing.
    lines: Vec<String>,
    /// Number of its commands that run; those of `first` do not count.
    pub(crate) commands: usize,
    /// True if a block runs that needs tools: such pages run one after the other.
    pub(crate) has_needs: bool,
    /// Blocks that do not run: where, and why.
    pub(crate) left_out: Vec<String>,
    /// Blocks that run elsewhere.
    pub(crate) elsewhere: Vec<Elsewhere>,
}

/// A block that something else of the gate runs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Elsewhere {
    /// Page and line.
    pub(crate) block: String,
    /// Path of the test or script that runs it.
    pub(crate) runner: String,
}

/// Place where the reader of a page is.
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

/// Comments before a block.
#[derive(Debug, Default)]
struct Steering {
    /// True if there was one that steers a block.
    is_there: bool,
    left_out: Option<String>,
    runner: Option<String>,
}

/// Reads a page, for a build that is optimized or not.
///
/// # Errors
///
/// A comment that steers nothing, or that does not end.
pub(crate) fn read(path: &str, text: &str, means: Means<'_>) -> Result<Page> {
    let (page, steering) = (Page::default(), Steering::default());
    let mut reader =
        Reader { path, means, page, steering, place: Place::Text, here: None, goes_on: false };
    for (number, line) in (1..).zip(text.lines()) {
        let command = reader.line(number, line)?;
        reader.page.lines.push(command);
    }
    let ended = reader.place == Place::Text && !reader.steering.is_there;
    ensure!(ended, "{path}: a block or comment does not end");
    Ok(reader.page)
}

struct Reader<'a> {
    path: &'a str,
    means: Means<'a>,
    page: Page,
    place: Place,
    steering: Steering,
    /// Word that ends a text which a command reads.
    here: Option<String>,
    /// True if a command goes on in the next line.
    goes_on: bool,
}

impl Reader<'_> {
    /// Returns the command of a line, or nothing.
    fn line(&mut self, number: usize, line: &str) -> Result<String> {
        let trimmed = line.trim();
        Ok(match self.place {
            Place::Text => self.text(number, line)?,
            Place::First => match trimmed.strip_suffix("-->") {
                Some(inner) => {
                    self.place = Place::Text;
                    self.unless_left_out(inner)
                }
                None => self.unless_left_out(&served(line)),
            },
            Place::Block { .. } if trimmed == "```" => {
                self.place = Place::Text;
                String::new()
            }
            Place::Block { runs: false, .. } => String::new(),
            Place::Block { indent, .. } => self.block(line.get(indent..).unwrap_or(trimmed)),
        })
    }

    /// Reads a line outside of comments and blocks.
    fn text(&mut self, number: usize, line: &str) -> Result<String> {
        let (path, trimmed) = (self.path, line.trim());
        let inner = trimmed.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"));
        if let Some(rest) = trimmed.strip_prefix("<!-- first:") {
            if let Some(inner) = rest.strip_suffix("-->") {
                return Ok(self.unless_left_out(&served(inner.trim())));
            }
            self.place = Place::First;
            return Ok(self.unless_left_out(rest.trim()));
        }
        let steers = match inner {
            Some(comment) => self.steers(comment)?,
            None => false,
        };
        if steers {
            self.steering.is_there = true;
        } else if ["left out:", "elsewhere:", "needs:"]
            .iter()
            .any(|start| trimmed.strip_prefix("<!-- ").is_some_and(|rest| rest.starts_with(start)))
        {
            bail!("{path}:{number}: the comment does not end on its line");
        } else if let Some(kind) = trimmed.strip_prefix("```") {
            self.begin_block(number, kind, line.len() - line.trim_start().len())?;
        } else if !trimmed.is_empty() {
            ensure!(!self.steering.is_there, "{path}:{number}: no block follows the comment");
        }
        Ok(String::new())
    }

    /// Takes a comment that steers the next block. `false` if it is another one.
    fn steers(&mut self, comment: &str) -> Result<bool> {
        let left_out = if comment == "optimized" {
            (!self.means.is_optimized).then(|| SLOW.to_owned())
        } else if let Some(why) = comment.strip_prefix("left out: ") {
            Some(why.to_owned())
        } else if let Some(tools) = comment.strip_prefix("needs: ") {
            self.page.has_needs = true;
            let missing = tools.split(", ").map(self.means.missing);
            missing.collect::<Result<Vec<_>>>()?.into_iter().flatten().next()
        } else if let Some(runner) = comment.strip_prefix("elsewhere: ") {
            let runner = runner.split(' ').next().unwrap_or_default();
            self.steering.runner = Some(runner.to_owned());
            None
        } else {
            return Ok(false);
        };
        let steering = &mut self.steering;
        steering.left_out = steering.left_out.take().or(left_out);
        Ok(true)
    }

    fn begin_block(&mut self, number: usize, kind: &str, indent: usize) -> Result<()> {
        let Steering { is_there, left_out, runner } = std::mem::take(&mut self.steering);
        let (block, is_shell) = (format!("{}:{number}", self.path), kind == "sh");
        ensure!(is_shell || !is_there, "{block}: only sh is steered");
        let runs = is_shell && left_out.is_none() && runner.is_none();
        self.place = Place::Block { runs, indent };
        match (left_out, runner) {
            (Some(why), _) => self.page.left_out.push(format!("{block}: {why}")),
            (None, Some(runner)) => self.page.elsewhere.push(Elsewhere { block, runner }),
            (None, None) => {}
        }
        Ok(())
    }

    /// Reads a line of a block that runs.
    fn block(&mut self, line: &str) -> String {
        let (mut command, trimmed) = (line.to_owned(), line.trim());
        if let Some(end) = &self.here {
            if line == end {
                self.here = None;
            }
        } else if !self.goes_on {
            command = served(line);
            let is_command = !trimmed.is_empty() && !trimmed.starts_with('#');
            self.page.commands += usize::from(is_command);
            self.here = line.split_once("<<").map(|(_, word)| word.trim_matches('\'').to_owned());
        }
        self.goes_on = self.here.is_none() && trimmed.ends_with('\\');
        command
    }

    /// A command of `first`, unless the block after it is left out.
    fn unless_left_out(&self, command: &str) -> String {
        let Steering { left_out, runner, .. } = &self.steering;
        let runs = left_out.is_none() && runner.is_none();
        if runs { command.to_owned() } else { String::new() }
    }
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

    /// Reads a page where only the tool `cc` is there.
    fn read_as(text: &str, is_optimized: bool) -> Result<Page> {
        let missing = |tool: &str| match tool {
            "cc" => Ok(None),
            "ovs" => Ok(Some("no ovs".to_owned())),
            other => bail!("{other}?"),
        };
        read("p", text, Means { is_optimized, missing: &missing })
    }

    fn read_page(text: &str) -> Page {
        read_as(text, false).unwrap()
    }

    #[test]
    fn commands_stay_at_their_lines_and_the_rest_is_gone() {
        let text = "# Page\n<!-- first: echo a >a -->\n\n```sh\nfabricast up  # all\nb \\\n    c\n```\n1. x\n   ```sh\n   d\n   ```\n```toml\nx = 1\n```\n";
        let page = read_page(text);
        let lines: Vec<_> = page.lines.iter().map(String::as_str).collect();
        let rest = ["", "", "d", "", "", "", ""];
        let first = ["", "echo a >a", "", "", "serve fabricast up", "b \\", "    c", ""];
        assert_eq!(lines, [&first[..], &rest].concat());
        assert_eq!((page.commands, page.left_out.len()), (3, 0));
    }

    #[test]
    fn a_block_that_is_left_out_is_listed_with_its_reason() {
        let text = "<!-- left out: no engine -->\n\n```sh\nx\n```\n```sh\ny\n```\n";
        let page = read_page(text);
        assert_eq!(page.script().trim(), "y\n\ntrue");
        assert_eq!(page.left_out, ["p:3: no engine"]);
    }

    #[test]
    fn a_block_that_runs_elsewhere_is_not_left_out() {
        let page = read_page("<!-- elsewhere: tests/a runs it on b -->\n```sh\nx\n```\n");
        let elsewhere = Elsewhere { block: "p:2".to_owned(), runner: "tests/a".to_owned() };
        assert_eq!((page.elsewhere, page.commands), (vec![elsewhere], 0));
        assert_eq!(page.left_out, Vec::<String>::new());
    }

    #[test]
    fn a_block_runs_only_with_its_tools_and_so_does_what_comes_first() {
        let page = read_page("<!-- needs: cc -->\n<!-- first: a -->\n```sh\nx\n```\n");
        assert_eq!((page.commands, page.has_needs), (1, true));
        assert_eq!(page.script(), "\na\n\nx\n\ntrue\n");
        let page = read_page(
            "<!-- needs: cc, ovs -->\n<!-- first:\na\nb -->\n```sh\nx\n```\n<!-- first: c -->\n",
        );
        assert_eq!((page.commands, page.left_out), (0, vec!["p:5: no ovs".to_owned()]));
        assert_eq!(page.lines.concat(), "c");
    }

    #[test]
    fn comments_of_several_lines_keep_their_lines() {
        let page = read_page("<!-- first:\na\nb -->\n```sh\nc\n```\n");
        assert_eq!(page.script(), "\na\nb \n\nc\n\ntrue\n");
        assert_eq!(page.commands, 1);
    }

    #[test]
    fn a_slow_block_runs_in_an_optimized_build_only() {
        let text = "<!-- needs: cc -->\n<!-- optimized -->\n```sh\nx\n```\n";
        assert_eq!(read_as(text, true).unwrap().commands, 1);
        let page = read_page(text);
        assert_eq!((page.commands, page.left_out), (0, vec![format!("p:3: {SLOW}")]));
    }

    #[test]
    fn comments_that_steer_nothing_are_refused() {
        for text in [
            "<!-- left out: x -->\ntext\n",
            "<!-- left out: x -->\n```toml\n```\n",
            "<!-- left out: x -->\n",
            "<!-- left out: x\n",
            "<!-- needs: cc\n",
            "<!-- needs: cc -->\ntext\n",
            "<!-- needs: cc, nothing -->\n```sh\n```\n",
            "<!-- elsewhere: x -->\n",
            "<!-- first: x\n",
            "```sh\nx\n",
        ] {
            assert!(read_as(text, false).is_err(), "{text}");
        }
    }
}
