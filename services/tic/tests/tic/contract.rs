//! The comments of the protobuf files name the errors of every call, with their real codes.
//!
//! Clients in other languages are written from these comments, and no compiler checks them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The file with the table of reasons and codes.
const REASONS: &str = include_str!("../../../../platform/status/src/status.rs");

fn protos() -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto/fabricast/v1");
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    files.map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

/// The code of every reason, as gRPC writes it.
fn codes() -> BTreeMap<String, String> {
    let mut codes = BTreeMap::new();
    for line in REASONS.lines() {
        let Some((_, meaning)) = line.trim().split_once(" => ") else { continue };
        let Some((code, reason)) = meaning.split_once(" / \"") else { continue };
        let mut upper = String::new();
        for (at, letter) in code.char_indices() {
            if at > 0 && letter.is_uppercase() {
                upper.push('_');
            }
            upper.extend(letter.to_uppercase());
        }
        codes.insert(reason.trim_end_matches("\",").to_owned(), upper);
    }
    codes
}

/// Pairs of a code and a reason in a comment.
fn pairs(text: &str) -> Vec<(String, String)> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let name = |word: &str| word.trim_matches(|c: char| !c.is_ascii_uppercase()).to_owned();
    let is_pair = |three: &&[&str]| three[1] == "/";
    words.windows(3).filter(is_pair).map(|three| (name(three[0]), name(three[2]))).collect()
}

#[test]
fn every_call_names_its_errors() {
    let mut calls = 0;
    for (path, text) in protos() {
        let mut comment = String::new();
        for line in text.lines().map(str::trim) {
            if let Some(more) = line.strip_prefix("//") {
                comment.push_str(more);
                continue;
            }
            if line.starts_with("rpc ") {
                calls += 1;
                let errors = comment.split_once("Errors: ").map(|(_, errors)| errors);
                let errors = errors.unwrap_or_else(|| panic!("{}: {line}", path.display()));
                let listed = !pairs(errors).is_empty() || errors.starts_with("none of its own");
                assert!(listed, "{}: {line}: {errors}", path.display());
            }
            comment.clear();
        }
    }
    assert!(calls > 40, "only {calls} calls found");
}

#[test]
fn every_reason_is_documented_with_its_code() {
    let codes = codes();
    let mut unsaid: Vec<&String> = codes.keys().collect();
    for (path, text) in protos() {
        for (code, reason) in pairs(&text.replace("//", "")) {
            assert_eq!(codes.get(&reason), Some(&code), "{}: {reason}", path.display());
        }
        unsaid.retain(|reason| !text.contains(reason.as_str()));
    }
    assert!(unsaid.is_empty(), "no comment names {unsaid:?}");
}
