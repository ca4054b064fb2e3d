//! Golden scenarios: the commands of a file and exactly what they print.
//!
//! A file in `tests/golden/<area>/` has a header (`#` lines with the picture of the fabric), input
//! files (`file NAME`, then lines after `| `) and commands (`$ ARGUMENTS`), each followed by `----`
//! and its output: standard output, standard error after `! `, and the exit code unless it is 0.
//! Numbers of milliseconds are shown as `_`. `UPDATE_GOLDEN=1 cargo nextest run -p fabricast-cli
//! golden` rewrites the outputs.

use std::path::{Path, PathBuf};

use crate::support::Sandbox;

#[test]
fn commands_print_what_the_golden_files_say() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let files = scenarios(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden"));
    assert!(!files.is_empty(), "there are golden files");
    let mut differing = Vec::new();
    for file in files {
        let expected = std::fs::read_to_string(&file).unwrap();
        let found = replay(&expected);
        if found == expected {
            continue;
        }
        if update {
            std::fs::write(&file, found).unwrap();
        } else {
            differing.push(format!("{}:\n{}", file.display(), difference(&expected, &found)));
        }
    }
    assert!(differing.is_empty(), "UPDATE_GOLDEN=1 rewrites these:\n{}", differing.join("\n"));
}

fn scenarios(folder: &Path) -> Vec<PathBuf> {
    let list = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).expect("the folder is in the repository");
        entries.map(|entry| entry.expect("it can be listed").path()).collect()
    };
    let mut files: Vec<PathBuf> = list(folder).iter().flat_map(|area| list(area)).collect();
    files.sort();
    files
}

/// Runs the commands of a scenario; returns its text with the outputs they have now.
fn replay(text: &str) -> String {
    let sandbox = Sandbox::new();
    let mut found = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("file ") {
            let mut content = String::new();
            found += &format!("{line}\n");
            while let Some(row) = lines.next_if(|row| row.starts_with("| ")) {
                content += &format!("{}\n", &row[2..]);
                found += &format!("{row}\n");
            }
            sandbox.write(name, content);
        } else if let Some(arguments) = line.strip_prefix("$ ") {
            found += &format!("{line}\n----\n{}", output(&sandbox, arguments));
            // The old output ends at the next step.
            while let Some(old) = lines.peek() {
                if old.starts_with("$ ") || old.starts_with("file ") {
                    found.push('\n');
                    break;
                }
                lines.next();
            }
        } else {
            found += &format!("{line}\n");
        }
    }
    found
}

fn output(sandbox: &Sandbox, arguments: &str) -> String {
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let run = sandbox.run(&arguments);
    let errors = run.stderr.lines().map(|line| format!("! {line}\n"));
    let mut text = without_times(&run.stdout) + &errors.collect::<String>();
    if run.code != 0 {
        text += &format!("exit {}\n", run.code);
    }
    text
}

/// Replaces the number before every `ms`, which differs from run to run.
fn without_times(text: &str) -> String {
    let line = |line: &str| {
        let mut words: Vec<&str> = line.split(' ').collect();
        for at in 1..words.len() {
            if words[at].trim_end_matches(':') == "ms" {
                words[at - 1] = "_";
            }
        }
        words.join(" ") + "\n"
    };
    text.lines().map(line).collect()
}

/// The first line that differs, as it is and as it should be.
fn difference(expected: &str, found: &str) -> String {
    let mut pairs = expected.lines().zip(found.lines()).zip(1..);
    let differing = pairs.find(|((expected, found), _)| expected != found);
    differing.map_or("  one is longer".to_owned(), |((expected, found), number)| {
        format!("  line {number}\n  expected: {expected}\n  found:    {found}")
    })
}
