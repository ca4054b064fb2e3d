//! Turns the `.proto` files into the Rust that is checked in.
//!
//! The generated code lives in the repository so that a normal build needs
//! neither `protoc` nor the compiler crates this chore pulls in (the reasons:
//! `docs/adr/0003-generated-protobuf-checked-in.md`). What that costs is that
//! the two can drift apart, so [`check`] compares them byte for byte.

mod calls;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use prost::Message;
use prost_types::FileDescriptorSet;

/// Folder where the `.proto` files start, seen from the root of the repository.
const PROTO_ROOT: &str = "proto";
/// Folder where the generated files live, seen from the root of the repository.
const GENERATED: &str = "proto/src/generated";
/// Every service and message with its comments, for gRPC reflection.
const DESCRIPTOR: &str = "descriptor.bin";

const HEADER: &str = "\
// Written by `cargo xtask proto` from proto/fabricast/v1/*.proto.
// Do not edit: change the .proto file and run the command again.
";

/// Generated files by name: what ought to be in [`GENERATED`].
pub(crate) type Generated = BTreeMap<String, Vec<u8>>;

/// A generated file and what is wrong with it.
pub(crate) type Difference = (String, &'static str);

/// Rewrites the generated files and reports what changed.
///
/// # Errors
///
/// A `.proto` file that does not compile (message with file and line), or a file that
/// cannot be written.
pub(crate) fn write(root: &Path) -> Result<Vec<Difference>> {
    let wanted = generate(&root.join(PROTO_ROOT))?;
    let folder = root.join(GENERATED);
    fs::create_dir_all(&folder).with_context(|| format!("create {GENERATED}"))?;
    let present = read_folder(&folder)?;
    for name in present.keys().filter(|name| !wanted.contains_key(*name)) {
        fs::remove_file(folder.join(name)).with_context(|| format!("remove {name}"))?;
    }
    for (name, text) in &wanted {
        // An untouched file keeps its date, so that cargo rebuilds nothing.
        if present.get(name) != Some(text) {
            fs::write(folder.join(name), text).with_context(|| format!("write {name}"))?;
        }
    }
    Ok(differences(&wanted, &present))
}

/// Lists the generated files that are not what the `.proto` files say.
///
/// # Errors
///
/// As [`write`].
pub(crate) fn check(root: &Path) -> Result<Vec<Difference>> {
    let wanted = generate(&root.join(PROTO_ROOT))?;
    Ok(differences(&wanted, &read_folder(&root.join(GENERATED))?))
}

/// Names the files in which the two sets differ.
fn differences(wanted: &Generated, present: &Generated) -> Vec<Difference> {
    let path = |name: &String| format!("{GENERATED}/{name}");
    let stale = wanted.iter().filter_map(|(name, text)| match present.get(name) {
        None => Some((path(name), "missing")),
        Some(found) if found != text => Some((path(name), "stale")),
        Some(_) => None,
    });
    let surplus = present.keys().filter(|name| !wanted.contains_key(*name));
    let surplus = surplus.map(|name| (path(name), "not generated from any .proto file"));
    stale.chain(surplus).collect()
}

/// Every service and message with its comments.
///
/// # Errors
///
/// A `.proto` file that does not compile.
pub(crate) fn descriptors(root: &Path) -> Result<FileDescriptorSet> {
    compile(&root.join(PROTO_ROOT))
}

/// Compiles every `.proto` file below `proto_root`.
fn compile(proto_root: &Path) -> Result<FileDescriptorSet> {
    let mut sources = Vec::new();
    find_protos(proto_root, &mut sources)?;
    sources.sort();
    if sources.is_empty() {
        bail!("no .proto file below {}", proto_root.display());
    }
    protox::compile(&sources, [proto_root]).map_err(|error| anyhow::anyhow!("{error:?}"))
}

fn generate(proto_root: &Path) -> Result<Generated> {
    let descriptors = compile(proto_root)?;
    let scratch = tempfile::tempdir().context("create a scratch folder")?;
    tonic_prost_build::configure()
        .build_client(true)
        .build_server(true)
        .out_dir(scratch.path())
        .compile_fds(descriptors.clone())
        .context("generate Rust from the descriptors")?;

    let mut files = Generated::new();
    for (name, text) in read_folder(scratch.path())? {
        let text = String::from_utf8(text).with_context(|| format!("read {name}"))?;
        let text = format!("{HEADER}{}", calls::share(&text)?);
        files.insert(name, text.into_bytes());
    }
    files.insert(DESCRIPTOR.to_owned(), descriptors.encode_to_vec());
    Ok(files)
}

fn find_protos(folder: &Path, into: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))?;
    for entry in entries {
        let path = entry.with_context(|| format!("list {}", folder.display()))?.path();
        if path.is_dir() {
            find_protos(&path, into)?;
        } else if path.extension().is_some_and(|extension| extension == "proto") {
            into.push(path);
        }
    }
    Ok(())
}

/// Reads the files of one folder; a folder that does not exist is empty.
fn read_folder(folder: &Path) -> Result<Generated> {
    let mut files = Generated::new();
    if !folder.exists() {
        return Ok(files);
    }
    for entry in fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))? {
        let path = entry.with_context(|| format!("list {}", folder.display()))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        files.insert(name, fs::read(&path).with_context(|| format!("read {}", path.display()))?);
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ECHO: &str = r#"
        syntax = "proto3";
        package fabricast.v1;
        import "google/protobuf/timestamp.proto";
        // Says things back.
        service EchoService { rpc Echo(EchoRequest) returns (EchoResponse); }
        // Bytes to say.
        message EchoRequest { bytes payload = 1; google.protobuf.Timestamp sent = 2; }
        // Bytes that were said.
        message EchoResponse { bytes payload = 1; }
    "#;

    fn repository(proto: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("proto/fabricast/v1");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("echo.proto"), proto).unwrap();
        root
    }

    #[test]
    fn written_code_has_both_sides_comments_and_plain_bytes() {
        let root = repository(ECHO);
        write(root.path()).unwrap();
        let rust = fs::read_to_string(root.path().join(GENERATED).join("fabricast.v1.rs")).unwrap();
        for needed in [
            "cargo xtask proto",
            "pub mod echo_service_client",
            "pub mod echo_service_server",
            "/// Bytes to say.",
            "pub payload: ::prost::alloc::vec::Vec<u8>",
            "::prost_types::Timestamp",
        ] {
            assert!(rust.contains(needed), "{needed} is not in\n{rust}");
        }
    }

    #[test]
    fn check_is_clean_after_write_and_writes_nothing_itself() {
        let root = repository(ECHO);
        assert_eq!(check(root.path()).unwrap().len(), 2, "both files are missing at first");
        assert!(!root.path().join(GENERATED).exists());
        write(root.path()).unwrap();
        assert_eq!(check(root.path()).unwrap(), []);
        assert_eq!(write(root.path()).unwrap(), []);
    }

    #[test]
    fn an_edited_proto_and_a_leftover_file_are_both_named() {
        let root = repository(ECHO);
        write(root.path()).unwrap();
        fs::write(
            root.path().join("proto/fabricast/v1/echo.proto"),
            ECHO.replace("bytes payload = 1", "bytes body = 1"),
        )
        .unwrap();
        fs::write(root.path().join(GENERATED).join("old.rs"), "").unwrap();
        let found: Vec<_> = check(root.path()).unwrap();
        assert!(found.contains(&(format!("{GENERATED}/fabricast.v1.rs"), "stale")), "{found:?}");
        assert!(found.iter().any(|(file, _)| file.ends_with("old.rs")), "{found:?}");
        write(root.path()).unwrap();
        assert_eq!(check(root.path()).unwrap(), []);
    }

    #[test]
    fn a_broken_proto_is_an_error_that_names_the_file() {
        let root = repository("syntax = \"proto3\"; message {");
        let error = format!("{:#}", write(root.path()).unwrap_err());
        assert!(error.contains("echo.proto"), "{error}");
    }
}
