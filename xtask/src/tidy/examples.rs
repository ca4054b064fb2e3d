//! Finds the packages whose documentation has examples, so that no others are built for them.

use super::SourceFile;

/// Returns the names of the packages with examples.
pub(super) fn packages(files: &[SourceFile]) -> Vec<&str> {
    let has_examples = |manifest: &&SourceFile| {
        let sources = manifest.path.replace("Cargo.toml", "src/");
        files.iter().any(|file| {
            file.path.starts_with(&sources) && file.is_rust() && has_example(&file.text)
        })
    };
    let manifests = files.iter().filter(|file| file.path.ends_with("/Cargo.toml"));
    manifests.filter(has_examples).filter_map(|manifest| name(&manifest.text)).collect()
}

fn name(manifest: &str) -> Option<&str> {
    manifest.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'))
}

/// Returns whether a source has a block of code that rustdoc takes for Rust.
fn has_example(text: &str) -> bool {
    let documentation = text.lines().filter_map(|line| {
        let line = line.trim_start();
        line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))
    });
    let fences = documentation.filter_map(|line| line.trim_start().strip_prefix("```"));
    let others = ["text", "toml", "sh", "json", "console", "ini", "proto"];
    fences.step_by(2).any(|opening| !others.contains(&opening.trim()))
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn packages_with_blocks_of_rust_have_examples() {
        let text = "//! ```text\n//! a -> b\n//! ```\nfn f() {}\n";
        let rust = "/// Adds.\n///\n/// ```no_run\n/// f();\n/// ```\npub fn f() {}\n";
        let files = [
            file("core/a/Cargo.toml", "[package]\nname = \"fabricast-a\"\n"),
            file("core/a/src/lib.rs", text),
            file("core/b/Cargo.toml", "[package]\nname = \"fabricast-b\"\n"),
            file("core/b/src/lib.rs", text),
            file("core/b/src/more.rs", &format!("{text}{rust}")),
        ];
        assert_eq!(packages(&files), ["fabricast-b"]);
    }
}
