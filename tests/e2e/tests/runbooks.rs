//! Walks through the runbooks of `docs/runbooks` on the cluster of `deploy/compose`: every command
//! of every page, in order, and what the page says that it answers. Then come the blocks of other
//! pages that a comment gives to this file.

#![expect(clippy::print_stdout, reason = "progress is for people")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use fabricast_e2e::{Cluster, compose_files};
use tokio::process::Command;

/// Longer than whatever a page waits for.
const PATIENCE: &str = "240s";
/// Other pages with commands for this cluster.
const OTHER_PAGES: [&str; 3] = ["README.md", "docs/administration.md", "docs/deploy.md"];
/// Beginning of the comment before each of their blocks.
const MARK: &str = "<!-- elsewhere: tests/e2e/tests/runbooks.rs ";
/// For runbooks, in the folder of the cluster.
const BESIDE: &str = "set -eu\n. ./environment\nexec 2>&1\n";
/// For other pages, in the root of the repository, with the grpcurl of `cargo xtask setup`. Etcds
/// are reached from their own network only.
const AT_ROOT: &str = r#"
set -eu
PATH=$PATH:$PWD/target/python/bin
shopt -s expand_aliases
etcdctl() { deploy/compose/compose exec -T --env "ETCDCTL_ENDPOINTS=$ETCDCTL_ENDPOINTS" etcd-0 etcdctl "$@"; }
exec 2>&1
"#;

/// Commands of a page, and what their output has to contain, line by line, in any order.
#[derive(Debug, Default, PartialEq)]
struct Step {
    /// Line of the page where the commands begin.
    line: usize,
    commands: String,
    answers: Vec<String>,
}

/// The steps of a page: blocks fenced as `sh`, each with the block fenced as `text` that may follow
/// it.
///
/// - `mark`: beginning of a comment; only blocks that follow such a one are steps.
fn steps(page: &str, mark: Option<&str>) -> Vec<Step> {
    let (mut steps, mut fence) = (Vec::<Step>::new(), "");
    let (mut is_marked, mut is_step) = (false, mark.is_none());
    for (line, text) in page.lines().enumerate() {
        // A block may belong to an item of a list.
        if let Some(kind) = text.trim_start().strip_prefix("```") {
            fence = kind;
            if kind == "sh" {
                is_step = mark.is_none() || std::mem::take(&mut is_marked);
                steps.extend(is_step.then(|| Step { line: line + 1, ..Step::default() }));
            }
        } else if fence == "sh" && is_step {
            let step = steps.last_mut().expect("a block has begun");
            step.commands.push_str(text);
            step.commands.push('\n');
        } else if fence == "text" && is_step && !text.trim().is_empty() {
            let step = steps.last_mut().expect("an answer follows commands");
            step.answers.push(plain(text));
        } else if fence.is_empty() && mark.is_some_and(|mark| text.starts_with(mark)) {
            is_marked = true;
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

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Paths of the runbooks, in order.
fn runbooks() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("docs/runbooks")).expect("the runbooks are there");
    let mut pages: Vec<PathBuf> = entries.map(|entry| entry.expect("a file").path()).collect();
    pages.sort();
    pages
}

/// The steps of a file.
fn read(page: &Path, mark: Option<&str>) -> Vec<Step> {
    steps(&fs::read_to_string(page).expect("a page can be read"), mark)
}

/// Runs a step.
///
/// - `folder`: from the root of the repository.
/// - `before`: commands before those of the page.
async fn walk(step: &Step, folder: &str, before: &str) {
    let script = format!("{before}{}", step.commands);
    let mut command = Command::new("timeout");
    command.args([PATIENCE, "bash", "-c", &script]);
    command.current_dir(root().join(folder)).kill_on_drop(true);
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
    for page in runbooks() {
        let started = Instant::now();
        for step in read(&page, None) {
            walk(&step, "deploy/compose", BESIDE).await;
        }
        let name = page.file_name().unwrap_or_default().display();
        println!("e2e: {name} walked through in {:.0} s", started.elapsed().as_secs_f64());
    }
    // They form groups, and end the cluster.
    for page in OTHER_PAGES {
        let started = Instant::now();
        let steps = read(&root().join(page), Some(MARK));
        for step in &steps {
            walk(step, "", AT_ROOT).await;
        }
        let (count, seconds) = (steps.len(), started.elapsed().as_secs_f64());
        println!("e2e: {count} blocks of {page} run in {seconds:.0} s");
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
    assert_eq!(steps(page, None), [first, second]);
    assert!(has("group rows/0 is routed at 12", "rows/0 ... routed at"));
    assert!(!has("group rows/0 is routed", "routed ... rows/0"));
}

#[test]
fn of_other_pages_only_marked_blocks_are_steps() {
    let page = format!(
        "```sh\na\n```\n```text\nb\n```\n{MARK}x -->\n```sh\nc\n```\n```text\nd\n```\n```sh\ne\n```\n"
    );
    let step = Step { line: 8, commands: "c\n".to_owned(), answers: vec!["d".to_owned()] };
    assert_eq!(steps(&page, Some(MARK)), [step]);
}

/// A folder with the script that looks for newer sources, and sources that were changed at second
/// 1 000.
fn sources() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("newer-sources");
    // An earlier run may have left it.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("deploy/compose")).expect("a folder");
    let script = "deploy/compose/newer";
    fs::copy(root().join(script), folder.join(script)).expect("the script is there");
    for part in ["agents", "cli", "clients", "core", "platform", "proto", "services"] {
        fs::create_dir_all(folder.join(part).join("src")).expect("a folder");
    }
    for file in ["Cargo.lock", "Cargo.toml", "cli/Cargo.toml", "cli/src/main.rs", "cli/README.md"] {
        changed_at(&folder.join(file), 1_000);
    }
    folder
}

/// Makes a file that was changed at a time, in seconds of Unix time.
fn changed_at(file: &Path, seconds: u64) {
    let file = fs::File::create(file).expect("a file");
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    file.set_modified(time).expect("a time can be set");
}

#[test]
fn an_image_is_older_than_sources_that_were_changed_after_it() {
    let folder = sources();
    let newer = |seconds: &str| {
        let mut command = std::process::Command::new("bash");
        let output = command.arg("deploy/compose/newer").arg(seconds).current_dir(&folder).output();
        let output = output.expect("bash can be started");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    };
    assert_eq!(newer("1000"), "");
    assert_ne!(newer("999"), "");
    changed_at(&folder.join("cli/README.md"), 2_000);
    assert_eq!(newer("1000"), "", "no part of the image");
    for file in ["Cargo.lock", "Cargo.toml", "cli/Cargo.toml", "cli/src/main.rs"] {
        changed_at(&folder.join(file), 2_000);
        assert_eq!(newer("1000"), file);
        changed_at(&folder.join(file), 1_000);
    }
}

#[test]
fn every_page_has_commands() {
    let pages = runbooks();
    assert!(pages.len() >= 5, "{pages:?}");
    for page in pages {
        assert!(!read(&page, None).is_empty(), "{}", page.display());
    }
    for page in OTHER_PAGES {
        assert!(!read(&root().join(page), Some(MARK)).is_empty(), "{page}");
    }
}
