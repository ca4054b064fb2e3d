//! Checks the modules of each crate: no circle of imports, no type spread over many files.
//!
//! A file imports another if it names something of it after `crate::`, `super::`, `self::` or the
//! name of a child module, in code or in text that serde reads as code; names handed on by
//! `pub use` count for the file that has them. A child may use the modules it lies in: that is no
//! import here.

use std::collections::{BTreeMap, BTreeSet};

use super::rust::{self, Import};
use super::{Finding, SourceFile};

/// Most files that may import each other in a circle.
const CIRCLE: usize = 2;
/// Most files that may hold inherent `impl` blocks of one type.
const IMPL_FILES: usize = 3;
/// Types that are still spread over more files than that, with their number of files.
const SPREAD: [(&str, usize); 1] = [("core/messages/src/member_endpoint.rs", 6)];

/// Checks the modules of every crate.
pub(crate) fn check(files: &[SourceFile]) -> Vec<Finding> {
    crates(files).values().flat_map(Crate::check).collect()
}

/// Number of circles of more files than may import each other, in all crates.
pub(super) fn circle_count(files: &[SourceFile]) -> usize {
    crates(files).values().map(|one| circles(&one.edges()).len()).sum()
}

fn crates(files: &[SourceFile]) -> BTreeMap<&str, Crate> {
    let mut crates: BTreeMap<&str, Crate> = BTreeMap::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let Some((folder, inside)) = file.path.split_once("/src/") else { continue };
        let code = rust::code(&file.text);
        let mut paths = inline_paths(&code);
        paths.extend(rust::serde_paths(&file.text, &code));
        let module = Module {
            path: file.path.clone(),
            imports: rust::imports(&code),
            paths,
            inherent: inherent_impls(&code),
        };
        crates.entry(folder).or_default().modules.insert(module_path(inside), module);
    }
    crates
}

/// The path of a module inside of its crate; the root has none.
type ModulePath = Vec<String>;

fn module_path(inside: &str) -> ModulePath {
    let stem = inside.strip_suffix(".rs").unwrap_or(inside);
    if ["lib", "main"].contains(&stem) {
        return Vec::new();
    }
    stem.split('/').map(str::to_owned).collect()
}

/// A file of a crate.
struct Module {
    path: String,
    imports: Vec<Import>,
    /// Paths that are named outside of `use` declarations.
    paths: Vec<Vec<String>>,
    /// Types with an inherent `impl` block.
    inherent: BTreeSet<String>,
}

#[derive(Default)]
struct Crate {
    modules: BTreeMap<ModulePath, Module>,
}

impl Crate {
    fn check(&self) -> Vec<Finding> {
        let mut findings = self.spread_types();
        let edges = self.edges();
        for circle in circles(&edges) {
            let arrows: Vec<String> = circle
                .iter()
                .flat_map(|from| edges[*from].iter().map(move |to| (*from, to)))
                .filter(|(_, to)| circle.contains(to))
                .map(|(from, to)| format!("{} -> {}", shown(from), shown(to)))
                .collect();
            let what = format!("{} files import each other: {}", circle.len(), arrows.join(", "));
            let Some(first) = circle.first() else { continue };
            let hint = "move what they share below both";
            findings.push(Finding::new(&self.modules[*first].path, 0, what, hint));
        }
        findings
    }

    fn spread_types(&self) -> Vec<Finding> {
        let mut places: BTreeMap<&String, Vec<&str>> = BTreeMap::new();
        for module in self.modules.values() {
            for name in &module.inherent {
                places.entry(name).or_default().push(&module.path);
            }
        }
        let allowed = |file| SPREAD.iter().find(|(path, _)| *path == file).map(|(_, count)| *count);
        places.retain(|_, files| files.len() > allowed(files[0]).unwrap_or(IMPL_FILES));
        let finding = |(name, files): (&String, Vec<&str>)| {
            let what = format!("impl {name} in {} files: {}", files.len(), files.join(", "));
            Finding::new(files[0], 0, what, "split the type by what its parts own")
        };
        places.into_iter().map(finding).collect()
    }

    fn edges(&self) -> BTreeMap<ModulePath, BTreeSet<ModulePath>> {
        let mut edges = BTreeMap::new();
        for (from, module) in &self.modules {
            let mut targets = BTreeSet::new();
            for import in module.imports.iter().filter(|import| !import.is_exported) {
                targets.extend(self.resolve(from, &import.path, 0));
            }
            for path in &module.paths {
                targets.extend(self.resolve(from, path, 0));
            }
            targets.retain(|to| !from.starts_with(to));
            edges.insert(from.clone(), targets);
        }
        edges
    }

    /// The module that has the thing at the end of `path`, as `from` sees it.
    fn resolve(&self, from: &ModulePath, path: &[String], depth: u8) -> Option<ModulePath> {
        let mut at = from.clone();
        let mut names = path.iter().peekable();
        let mut is_local = false;
        while let Some(name) = names.peek() {
            match name.as_str() {
                "crate" => at.clear(),
                "self" => {}
                "super" => {
                    at.pop()?;
                }
                _ => break,
            }
            is_local = true;
            names.next();
        }
        if !is_local && !self.modules.contains_key(&child(&at, names.peek()?)) {
            return None;
        }
        while let Some(name) = names.peek() {
            let below = child(&at, name);
            if self.modules.contains_key(&below) {
                at = below;
                names.next();
                continue;
            }
            let handed_on = self.modules.get(&at)?.imports.iter().find(|import| {
                import.is_exported && import.name == **name && import.path.len() > 1
            });
            if let Some(import) = handed_on.filter(|_| depth < 8) {
                return self.resolve(&at, &import.path, depth + 1).or(Some(at));
            }
            break;
        }
        self.modules.contains_key(&at).then_some(at)
    }
}

fn child(module: &ModulePath, name: &str) -> ModulePath {
    module.iter().cloned().chain([name.to_owned()]).collect()
}

fn shown(module: &ModulePath) -> String {
    if module.is_empty() { "lib".to_owned() } else { module.join("::") }
}

/// Paths that begin with `crate::` or `super::` outside of `use` declarations.
fn inline_paths(code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for start in ["crate::", "super::"] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            let end = code[at..].find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
            let path = &code[at..end.map_or(code.len(), |end| at + end)];
            if !path.ends_with("::") {
                found.push(path.split("::").map(str::to_owned).collect());
            }
        }
    }
    found
}

/// Names of the types that have an `impl` block without a trait.
fn inherent_impls(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line_start in code.match_indices("\nimpl").map(|(at, _)| at + 5) {
        let mut rest = &code[line_start..];
        if rest.starts_with('<') {
            let Some(generics) = rust::bracketed(rest, 0) else { continue };
            rest = &rest[generics.len() + 2..];
        }
        let Some(end) = rest.find('{') else { continue };
        let head = &rest[..end];
        if head.contains(" for ") {
            continue;
        }
        let path = head.split(['<', '\n']).next().unwrap_or_default();
        let path = path.split(" where").next().unwrap_or_default().trim();
        let name = path.rsplit("::").next().unwrap_or_default();
        if !name.is_empty() {
            found.insert(name.to_owned());
        }
    }
    found
}

/// Sets of more than [`CIRCLE`] modules of which each reaches every other.
fn circles(edges: &BTreeMap<ModulePath, BTreeSet<ModulePath>>) -> Vec<BTreeSet<&ModulePath>> {
    let reach: BTreeMap<&ModulePath, BTreeSet<&ModulePath>> =
        edges.keys().map(|from| (from, reachable(edges, from))).collect();
    let mut found: Vec<BTreeSet<&ModulePath>> = Vec::new();
    for from in edges.keys() {
        let together: BTreeSet<&ModulePath> =
            reach[from].iter().copied().filter(|to| reach[to].contains(from)).collect();
        if together.len() > CIRCLE && !found.contains(&together) {
            found.push(together);
        }
    }
    found
}

fn reachable<'a>(
    edges: &'a BTreeMap<ModulePath, BTreeSet<ModulePath>>,
    from: &'a ModulePath,
) -> BTreeSet<&'a ModulePath> {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        for to in edges.get(at).into_iter().flatten() {
            if seen.insert(to) {
                open.push(to);
            }
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn complaints(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<_> =
            files.iter().map(|(name, text)| file(&format!("a/src/{name}.rs"), text)).collect();
        check(&files).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn three_files_in_a_circle_are_found_and_two_are_not() {
        let two = [("lib", ""), ("x", "use crate::y::Y;\n"), ("y", "use crate::x::X;\n")];
        assert_eq!(complaints(&two), Vec::<String>::new());
        let three = [
            ("x", "use crate::y::Y;\n"),
            ("y", "fn f() { super::z::g() }\n"),
            ("z", "use crate::{x::X, w};\n"),
            ("w", ""),
        ];
        assert_eq!(complaints(&three), ["3 files import each other: x -> y, y -> z, z -> x"]);
    }

    #[test]
    fn names_handed_on_count_for_the_file_that_has_them() {
        let files = [
            ("lib", "pub use x::X;\npub use z::Z;\n"),
            ("x", "use crate::y::Y;\n"),
            ("y", "use crate::Z;\n"),
            ("z", "use crate::X;\n"),
        ];
        assert_eq!(complaints(&files), ["3 files import each other: x -> y, y -> z, z -> x"]);
    }

    #[test]
    fn a_path_that_serde_reads_is_an_import() {
        let files = [
            ("x", "#[serde(default, with = \"crate::y::as_text\")]\nstruct X;\n"),
            ("y", "use crate::z::Z;\n"),
            ("z", "use crate::x::X;\n"),
        ];
        assert_eq!(complaints(&files), ["3 files import each other: x -> y, y -> z, z -> x"]);
    }

    #[test]
    fn a_child_may_use_the_modules_it_lies_in() {
        let files = [
            ("x", "use a::A;\nuse b::B;\n"),
            ("x/a", "use super::X;\n"),
            ("x/b", "use super::X;\n"),
        ];
        assert_eq!(complaints(&files), Vec::<String>::new());
    }

    #[test]
    fn a_type_may_have_inherent_impls_in_three_files() {
        let text = "\nimpl<T: Into<u8>> Host<T> {\n}\nimpl Display for Host {\n}\n";
        let four = [("a", text), ("b", text), ("c", text), ("d", text)];
        assert_eq!(complaints(&four[..3]), Vec::<String>::new());
        assert_eq!(complaints(&four).len(), 1);
    }
}
