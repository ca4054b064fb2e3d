//! `cargo xtask kubernetes`: the overlays of `deploy/kubernetes`, checked without a cluster.
//!
//! They are rendered by kubectl and checked in Python, which has the schemas. Where one of the two
//! is missing, that is said and nothing is checked.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::{outside, python};

const FOLDER: &str = "deploy/kubernetes";
const OVERLAYS: [&str; 6] =
    ["dev", "production", "monitored", "cert-manager", "infiniband", "openflow"];

/// Renders and checks the overlays. `false` if one is not as it must be.
///
/// # Errors
///
/// A command that cannot be started.
pub(crate) fn run(root: &Path) -> Result<bool> {
    if let Err(why) = tools(root) {
        println!("== left out: the checks of {FOLDER} ({why})");
        return Ok(true);
    }
    let built = outside("cargo", root)
        .args(["build", "--quiet", "--package", "fabricast-cli"])
        .status()
        .context("start cargo")?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), Into::into);
    let mut good = built.success();
    for overlay in OVERLAYS {
        let mut rendering = Command::new("kubectl")
            .arg("kustomize")
            .arg(root.join(FOLDER).join("overlays").join(overlay))
            .stdout(Stdio::piped())
            .spawn()
            .context("start kubectl")?;
        let rendered = rendering.stdout.take().context("kubectl's output")?;
        println!("== {overlay}");
        let checked = Command::new(root.join(python::FOLDER).join("bin/python"))
            .arg(root.join(FOLDER).join("check.py"))
            .arg(target.join("debug/fabricast"))
            .stdin(rendered)
            .status()
            .context("start python")?;
        good &= rendering.wait().context("wait for kubectl")?.success() && checked.success();
    }
    Ok(good)
}

fn tools(root: &Path) -> Result<(), String> {
    let version = Command::new("kubectl")
        .args(["version", "--client"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !version.is_ok_and(|status| status.success()) {
        return Err("kubectl is not installed".to_owned());
    }
    python::add(root, "kubernetes-validate", "kubernetes_validate")
}
