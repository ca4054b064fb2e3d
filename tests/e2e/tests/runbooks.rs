//! Walks through the runbooks of `docs/runbooks` on the cluster of `deploy/compose`: every command
//! of every page, in order, and what the page says that it answers.

#![expect(clippy::print_stdout, reason = "progress is for people")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use fabricast_e2e::{Cluster, compose_files};
use tokio::process::Command;

/// Longer than whatever a page waits for.
const PATIENCE: &str = "120s";

/// Commands of a page, and what their output has to contain, line by line, in any order.
#[derive(Debug, Default, PartialEq)]
struct Step {
    /// Where in the page the commands begin.
    line: usize,
    commands: String,
    answers: Vec<String>,
}

/// The steps of a page: blocks fenced as `sh`, each with the block fenced as `text` that may follow
/// it.
fn steps(page: &str) -> Vec<Step> {
    let (mut steps, mut fence) = (Vec::<Step>::new(), "");
    for (line, text) in page.lines().enumerate() {
        // A block may belong to an item of a list.
        if let Some(kind) = text.trim_start().strip_prefix("```") {
            fence = kind;
            if kind == "sh" {
                steps.push(Step { line: line + 1, ..Step::default() });
            }
        } else if fence == "sh" {
            let step = steps.last_mut().expect("a block has begun");
            step.commands.push_str(text);
            step.commands.push('\n');
        } else if fence == "text" && !text.trim().is_empty() {
            let step = steps.last_mut().expect("an answer follows commands");
            step.answers.push(plain(text));
        }
    }
    steps
}

/// A line without what only makes columns of it.
fn plain(line: &str) -> String {
    line.split(|c: char| c.is_whitespace() || c == '│' || c == '┆')
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// True if a line has the words of another in their order; `...` stands for any words.
fn has(line: &str, wanted: &str) -> bool {
    let mut rest = line;
    wanted.split("...").all(|part| {
        let Some(at) = rest.find(part.trim()) else { return false };
        rest = &rest[at + part.trim().len()..];
        true
    })
}

fn pages() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/runbooks");
    let entries = fs::read_dir(folder).expect("the runbooks are there");
    let mut pages: Vec<PathBuf> = entries.map(|entry| entry.expect("a file").path()).collect();
    pages.sort();
    pages
}

async fn walk(step: &Step) {
    let compose = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/compose");
    let script = format!("set -eu\n. ./environment\nexec 2>&1\n{}", step.commands);
    let mut command = Command::new("timeout");
    command.args([PATIENCE, "bash", "-c", &script]).current_dir(compose).kill_on_drop(true);
    command.env("COMPOSE_FILE", compose_files());
    let output = command.output().await.expect("bash can be started");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "line {}: {}\n{said}", step.line, output.status);
    let lines: Vec<String> = said.lines().map(plain).collect();
    for answer in &step.answers {
        let found = lines.iter().any(|line| has(line, answer));
        assert!(found, "line {}: no line has '{answer}':\n{said}", step.line);
    }
}

#[tokio::test]
#[ignore = "needs a docker engine: cargo xtask e2e"]
async fn every_runbook_can_be_walked_through() {
    let _cluster = Cluster::start().await;
    for page in pages() {
        let started = Instant::now();
        let text = fs::read_to_string(&page).expect("a page can be read");
        for step in steps(&text) {
            walk(&step).await;
        }
        let name = page.file_name().unwrap_or_default().display();
        println!("e2e: {name} walked through in {:.0} s", started.elapsed().as_secs_f64());
    }
    Cluster::end().await;
}

#[test]
fn a_page_has_commands_and_what_they_answer() {
    let page = "# Page\n\n```sh\necho a\necho b\n```\n\nand\n\n```text\n a  │ 1\nb\n```\n```toml\nx = 1\n```\n1. Do\n   ```sh\n   true\n   ```\n";
    let first = Step {
        line: 3,
        commands: "echo a\necho b\n".to_owned(),
        answers: vec!["a 1".to_owned(), "b".to_owned()],
    };
    let second = Step { line: 18, commands: "   true\n".to_owned(), answers: vec![] };
    assert_eq!(steps(page), [first, second]);
    assert!(has("group rows/0 is routed at 12", "rows/0 ... routed at"));
    assert!(!has("group rows/0 is routed", "routed ... rows/0"));
}

#[test]
fn every_runbook_has_commands() {
    let pages = pages();
    assert!(pages.len() >= 5, "{pages:?}");
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        assert!(!steps(&text).is_empty(), "{}", page.display());
    }
}
