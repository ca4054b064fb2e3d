//! Checks who may use whom: imports go one way through the layers.
//!
//! `proto`, `core` <- `platform` <- `services`, `agents`, `clients` <- `cli` <- `tests`.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use super::{Finding, SourceFile};

/// Folders of the workspace and their height. `proto` and `core` do not know each other.
const LAYERS: [(&str, u8); 8] = [
    ("proto", 0),
    ("core", 0),
    ("platform", 1),
    ("services", 2),
    ("agents", 2),
    ("clients", 2),
    ("cli", 3),
    ("tests", 4),
];

/// An operating agent hosts the group agents, the C library is made of the Rust client, and fuzzing
/// calls the cluster that integration tests start.
const ALLOWED_SIDEWAYS: [(&str, &str); 3] = [
    ("agents/operating", "agents/group"),
    ("clients/c", "clients/rust"),
    ("tests/fuzz", "tests/integration"),
];

/// Crates that may have unsafe code: they call C, or are called by it.
const UNSAFE: [&str; 2] = ["clients/c", "platform/umad"];

/// Crates that bring a clock, a socket, chance or async with them.
const NOT_IN_CORE: [&str; 12] = [
    "async-trait",
    "futures",
    "hyper",
    "mio",
    "prost",
    "rand",
    "redb",
    "tokio",
    "tokio-stream",
    "tonic",
    "tower",
    "tracing-subscriber",
];

/// A package of the workspace.
struct Package {
    /// Folder from the root of the repository, such as `core/routing`.
    folder: String,
    manifest: toml::Table,
    text: String,
}

/// Checks every `Cargo.toml` of the workspace.
///
/// # Errors
///
/// A manifest that is no TOML.
pub(crate) fn check(files: &[SourceFile]) -> Result<Vec<Finding>> {
    let mut packages = BTreeMap::new();
    for file in files {
        let Some(folder) = file.path.strip_suffix("/Cargo.toml") else { continue };
        let manifest: toml::Table =
            file.text.parse().with_context(|| format!("read {}", file.path))?;
        let name = manifest.get("package").and_then(|package| package.get("name"));
        let Some(name) = name.and_then(toml::Value::as_str) else { continue };
        let package = Package {
            folder: folder.to_owned(),
            text: file.text.clone(),
            manifest: manifest.clone(),
        };
        packages.insert(name.to_owned(), package);
    }
    let mut findings = Vec::new();
    for (name, package) in &packages {
        findings.extend(naming(name, package));
        for (dependency, kind) in dependencies(&package.manifest) {
            findings.extend(import(package, &dependency, kind, &packages));
        }
    }
    Ok(findings)
}

fn naming(name: &str, package: &Package) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut found =
        |needle, what: String, hint: &str| findings.push(package.finding(needle, what, hint));
    let (layer, rest) = package.folder.split_once('/').unwrap_or((&package.folder, ""));
    if layer != "xtask" && height(layer).is_none() {
        found("[package]", format!("{layer}/ is no layer"), "see docs/architecture.md");
    }
    if ["core", "platform", "services", "agents"].contains(&layer)
        && name != format!("fabricast-{rest}")
    {
        found("name", format!("package is named {name}"), "name it fabricast-<folder>");
    }
    let lints = package.manifest.get("lints").and_then(|lints| lints.get("workspace"));
    // `proto` is generated code, and says so beside its own lints; the crates on the border to C
    // repeat them but for the one that forbids unsafe code.
    let has_its_own = layer == "proto" || UNSAFE.contains(&package.folder.as_str());
    if !has_its_own && lints.and_then(toml::Value::as_bool) != Some(true) {
        found(
            "[lints]",
            "the workspace's lints are off".to_owned(),
            "add [lints] workspace = true",
        );
    }
    findings
}

/// Use of a dependency: by the crate, or by its tests only.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Normal,
    Dev,
}

/// Names of all packages in all dependency tables.
fn dependencies(manifest: &toml::Table) -> Vec<(String, Kind)> {
    let platforms = manifest.get("target").and_then(toml::Value::as_table);
    let platforms = platforms.into_iter().flat_map(toml::Table::values);
    let tables = platforms.filter_map(toml::Value::as_table).chain([manifest]);
    let mut found = Vec::new();
    for table in tables {
        for (key, kind) in [
            ("dependencies", Kind::Normal),
            ("build-dependencies", Kind::Normal),
            ("dev-dependencies", Kind::Dev),
        ] {
            let Some(entries) = table.get(key).and_then(toml::Value::as_table) else { continue };
            for (alias, entry) in entries {
                let renamed = entry.get("package").and_then(toml::Value::as_str);
                found.push((renamed.unwrap_or(alias).to_owned(), kind));
            }
        }
    }
    found
}

fn import(
    package: &Package,
    dependency: &str,
    kind: Kind,
    packages: &BTreeMap<String, Package>,
) -> Option<Finding> {
    let layer = package.layer();
    let Some(target) = packages.get(dependency) else {
        let impure = layer == "core" && kind == Kind::Normal && NOT_IN_CORE.contains(&dependency);
        let hint = "the core takes values and gives values; move the call to a service or agent";
        return impure
            .then(|| package.finding(dependency, format!("core uses {dependency}"), hint));
    };
    let (from, to) = (height(layer)?, height(target.layer()));
    let allowed = match to {
        None => false,
        Some(to) if to < from => true,
        Some(to) if to > from => false,
        // Side by side: inside core and platform, or in tests of services and agents.
        Some(_) => {
            let inside = layer == target.layer() && ["core", "platform"].contains(&layer);
            let pair = (package.folder.as_str(), target.folder.as_str());
            inside || (kind == Kind::Dev && from > 0) || ALLOWED_SIDEWAYS.contains(&pair)
        }
    };
    (!allowed).then(|| {
        let what = format!("{} uses {}", package.folder, target.folder);
        package.finding(
            dependency,
            what,
            "imports go down only; services and agents meet through the API",
        )
    })
}

fn height(layer: &str) -> Option<u8> {
    LAYERS.iter().find(|(name, _)| *name == layer).map(|(_, height)| *height)
}

impl Package {
    fn layer(&self) -> &str {
        self.folder.split('/').next().unwrap_or_default()
    }

    /// A finding at the line that starts with `needle`.
    fn finding(&self, needle: &str, what: String, hint: &str) -> Finding {
        let mut lines = (1..).zip(self.text.lines());
        let line = lines.find(|(_, line)| line.starts_with(needle)).map_or(0, |(number, _)| number);
        Finding::new(&format!("{}/Cargo.toml", self.folder), line, what, hint)
    }
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    const FOLDERS: [&str; 13] = [
        "proto",
        "core/routing",
        "core/topology",
        "platform/rpc",
        "platform/store",
        "services/tic",
        "services/router",
        "agents/group",
        "agents/operating",
        "clients/c",
        "clients/rust",
        "cli",
        "tests/integration",
    ];

    fn name(folder: &str) -> String {
        format!("fabricast-{}", folder.rsplit('/').next().unwrap())
    }

    /// Complaints if the package in `folder` has `extra` in its manifest.
    fn complaints(folder: &str, extra: &str) -> Vec<String> {
        let files = FOLDERS.map(|other| {
            let package =
                format!("[package]\nname = \"{}\"\n[lints]\nworkspace = true\n", name(other));
            let extra = if other == folder { extra } else { "" };
            file(&format!("{other}/Cargo.toml"), &format!("{package}{extra}\n"))
        });
        check(&files).unwrap().iter().map(ToString::to_string).collect()
    }

    fn may_use(from: &str, to: &str, table: &str) -> bool {
        let found = complaints(from, &format!("[{table}]\n{}.workspace = true", name(to)));
        assert!(found.len() <= 1, "{found:?}");
        found.is_empty()
    }

    #[test]
    fn imports_go_down_and_inside_core_and_platform() {
        for (from, to) in [
            ("core/routing", "core/topology"),
            ("platform/rpc", "proto"),
            ("platform/rpc", "platform/store"),
            ("services/tic", "platform/store"),
            ("services/tic", "core/topology"),
            ("agents/operating", "agents/group"),
            ("clients/rust", "platform/rpc"),
            ("clients/c", "clients/rust"),
            ("cli", "clients/rust"),
            ("cli", "services/router"),
            ("tests/integration", "cli"),
        ] {
            assert!(may_use(from, to, "dependencies"), "{from} -> {to}");
        }
    }

    #[test]
    fn imports_upward_and_between_services_and_agents_are_found() {
        for (from, to) in [
            ("proto", "core/routing"),
            ("core/routing", "proto"),
            ("core/topology", "platform/store"),
            ("platform/rpc", "services/tic"),
            ("services/tic", "services/router"),
            ("services/tic", "agents/group"),
            ("agents/group", "agents/operating"),
            ("agents/operating", "services/tic"),
            ("clients/rust", "agents/operating"),
            ("clients/rust", "clients/c"),
            ("agents/operating", "clients/rust"),
            ("services/tic", "cli"),
            ("cli", "tests/integration"),
        ] {
            for table in ["dependencies", "build-dependencies", "target.'cfg(unix)'.dependencies"] {
                assert!(!may_use(from, to, table), "{from} -> {to} in {table}");
            }
        }
    }

    #[test]
    fn tests_may_look_sideways_and_never_up() {
        assert!(may_use("services/router", "services/tic", "dev-dependencies"));
        assert!(may_use("platform/rpc", "platform/store", "dev-dependencies"));
        assert!(!may_use("services/tic", "cli", "dev-dependencies"));
        assert!(!may_use("core/routing", "platform/rpc", "dev-dependencies"));
    }

    #[test]
    fn a_renamed_import_is_seen_through() {
        let extra = "[dependencies]\nhidden = { package = \"fabricast-router\", path = \"x\" }";
        let found = complaints("services/tic", extra);
        assert!(found[0].contains("services/tic uses services/router"), "{found:?}");
    }

    #[test]
    fn the_core_stays_free_of_clocks_and_sockets() {
        let extra = "[dependencies]\ntokio.workspace = true";
        assert_eq!(
            complaints("core/topology", extra),
            [
                "core/topology/Cargo.toml:6: core uses tokio: the core takes values and gives values; move the call to a service or agent"
            ]
        );
        assert_eq!(complaints("platform/rpc", extra), Vec::<String>::new());
    }

    #[test]
    fn names_layers_and_lints_are_checked() {
        let bad = file("core/x/Cargo.toml", "[package]\nname = \"x\"\n");
        let stray =
            file("misc/y/Cargo.toml", "[package]\nname = \"y\"\n[lints]\nworkspace = true\n");
        let root = file("Cargo.toml", "[workspace]\n");
        let found: Vec<_> =
            check(&[bad, stray, root]).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "core/x/Cargo.toml:2: package is named x: name it fabricast-<folder>",
                "core/x/Cargo.toml: the workspace's lints are off: add [lints] workspace = true",
                "misc/y/Cargo.toml:1: misc/ is no layer: see docs/architecture.md",
            ]
        );
    }
}
