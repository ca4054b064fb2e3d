//! Installs the C library below a prefix: library, header, pkg-config file and manual pages.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::manual;
use crate::outside;

/// Name that programs look for, set by `clients/c/build.rs`.
const SONAME: &str = "libfabricast.so.0";
/// Name that the linker looks for, and that cargo gives the library.
const LINK_NAME: &str = "libfabricast.so";
const HEADER: &str = "clients/c/include/fabricast.h";

/// Builds the library with optimization and installs it.
///
/// # Errors
///
/// A build that fails, or a file that cannot be written.
pub(crate) fn run(root: &Path, prefix: &Path) -> Result<Vec<PathBuf>> {
    let build = ["build", "--release", "--package", "fabricast-c"];
    let status = outside("cargo", root).args(build).status().context("start cargo")?;
    if !status.success() {
        bail!("cargo {} failed ({status})", build.join(" "));
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
    let header = root.join(HEADER);
    let header =
        fs::read_to_string(&header).with_context(|| format!("read {}", header.display()))?;
    install(&root.join(target).join("release").join(LINK_NAME), &header, prefix)
}

/// Installs the files; returns their paths.
///
/// - `library`: the library as cargo has built it.
/// - `header`: text of the header.
fn install(library: &Path, header: &str, prefix: &Path) -> Result<Vec<PathBuf>> {
    let version = manual::version(header)?;
    let mut files = vec![
        (PathBuf::from("include/fabricast.h"), header.to_owned()),
        (PathBuf::from("lib/pkgconfig/fabricast.pc"), package(&version)),
    ];
    for page in manual::pages(header)? {
        files.push((Path::new("share/man/man3").join(&page.file), page.text));
    }
    let mut installed = Vec::new();
    let lib = prefix.join("lib");
    fs::create_dir_all(&lib).with_context(|| format!("make {}", lib.display()))?;
    let to = lib.join(SONAME);
    fs::copy(library, &to).with_context(|| format!("copy {}", library.display()))?;
    let link = lib.join(LINK_NAME);
    match fs::remove_file(&link) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("replace {}", link.display()));
        }
        _ => symlink(SONAME, &link).with_context(|| format!("make {}", link.display()))?,
    }
    installed.extend([to, link]);
    for (path, text) in files {
        let path = prefix.join(path);
        let folder = path.parent().unwrap_or(prefix);
        fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        installed.push(path);
    }
    Ok(installed)
}

/// The pkg-config file. Its paths are relative to it, so the prefix may be moved.
fn package(version: &str) -> String {
    format!(
        "prefix=${{pcfiledir}}/../..\n\
         libdir=${{prefix}}/lib\n\
         includedir=${{prefix}}/include\n\
         \n\
         Name: fabricast\n\
         Description: Hardware multicast groups and collective operations\n\
         Version: {version}\n\
         Libs: -L${{libdir}} -lfabricast\n\
         Cflags: -I${{includedir}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installation_has_all_parts_and_may_be_repeated() {
        let (built, prefix) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let library = built.path().join(LINK_NAME);
        fs::write(&library, "library").unwrap();
        let header = include_str!("../../clients/c/include/fabricast.h");
        for _ in 0..2 {
            let installed = install(&library, header, prefix.path()).unwrap();
            assert!(installed.iter().all(|path| path.is_file()), "{installed:?}");
        }
        let read = |path: &str| fs::read_to_string(prefix.path().join(path)).unwrap();
        assert_eq!(read("lib/libfabricast.so.0"), "library");
        assert_eq!(read("lib/libfabricast.so"), "library");
        assert_eq!(read("include/fabricast.h"), header);
        assert!(read("lib/pkgconfig/fabricast.pc").contains(concat!(
            "\nVersion: ",
            env!("CARGO_PKG_VERSION"),
            "\n"
        )));
        assert!(read("share/man/man3/fabricast_join.3").contains("fabricast_join"));
    }

    #[test]
    fn programs_find_the_library_by_the_name_it_is_installed_under() {
        let build_script = include_str!("../../clients/c/build.rs");
        assert!(build_script.contains(&format!("-soname,{SONAME}\"")), "{build_script}");
    }
}
