//! Slurm on the hosts of the lab: MPI and PMIx over groups of jobs, quotas of accounts, and nodes
//! that go down. `cargo xtask e2e --slurm` runs it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use super::{LIMIT, Slurm, script, succeeds};

/// Groups that the jobs of an account may have together.
const ACCOUNT_GROUPS: &str = "24";

/// Variables for Open MPI: its own messages go over the management network.
const MPI: &str = "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
    OMPI_MCA_btl=self,vader,tcp OMPI_MCA_btl_tcp_if_include=management \
    OMPI_MCA_oob_tcp_if_include=management OMPI_MCA_btl_vader_single_copy_mechanism=none \
    OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_coll_fabricast_after=1 \
    OMPI_MCA_coll_fabricast_verbose=1 OMPI_MCA_coll_fabricast_always=1 \
    OMPI_MCA_mca_base_component_path=$PREFIX/lib/openmpi:SYS_DEFAULT:USER_DEFAULT\n";

impl Slurm {
    /// Starts the lab, and Slurm on its hosts h0 to h7.
    fn in_the_lab() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let lab = folder.path().join("lab");
        let slurm = Self { folder, server: "10.255.0.254:7401".to_owned(), lab: Some(lab) };
        let start = |name: &str, arguments: &[&Path]| {
            let mut command = Command::new(script(name));
            slurm.set_up(&mut command);
            command.env("FABRICAST_TIC__JOB_SHARES__ACCOUNT_GROUPS", ACCOUNT_GROUPS);
            command.env("FABRICAST_SLURM_NODE_TIMEOUT", "10");
            succeeds(command.args(arguments));
        };
        start("lab/start", &[Path::new(&script("slurm/fat-tree.toml"))]);
        start("slurm/start", &[Path::new("--lab"), &slurm.run_folder()]);
        slurm
    }

    /// Submits a script, and waits for its end; returns what it printed.
    fn batch(&self, options: &str, text: &str) -> String {
        let path = self.folder.path().join("batch.sh");
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("the folder can be written");
        let output = self.shell(&format!("sbatch --wait --output=batch.out {options} batch.sh"));
        let said = self.ok("cat batch.out");
        assert!(output.status.success(), "{output:?}\n{said}\n{}", self.read("hooks.log"));
        said
    }

    /// Waits until a line of shell prints what is expected.
    fn prints(&self, line: &str, expected: &str) {
        let started = Instant::now();
        loop {
            let printed = self.ok(line);
            if printed.trim() == expected {
                return;
            }
            assert!(started.elapsed() < 2 * LIMIT, "{line}: {printed}, not {expected}");
        }
    }
}

/// Folder where `cargo xtask e2e --slurm` has installed the libraries and the component of Open
/// MPI.
fn prefix() -> PathBuf {
    std::env::var_os("FABRICAST_E2E_PREFIX").expect("`cargo xtask e2e --slurm` sets it").into()
}

#[test]
#[ignore = "takes minutes and needs what `cargo xtask e2e --slurm` installs"]
fn jobs_of_slurm_use_mpi_and_pmix_over_their_groups() {
    let slurm = Slurm::in_the_lab();
    build_programs(&slurm);
    mpi_programs_use_groups_of_their_job(&slurm);
    ranks_find_their_group_through_pmix(&slurm);
    two_accounts_are_held_to_their_quota(&slurm);
    weights_lead_jobs_to_free_switches(&slurm);
    a_node_that_is_set_down_ends_its_jobs(&slurm);
    a_node_whose_slurmd_dies_ends_its_jobs(&slurm);
    a_node_whose_agent_dies_fails_the_job(&slurm);
}

fn build_programs(slurm: &Slurm) {
    let (prefix, source) = (prefix(), script(".."));
    let prefix = prefix.display();
    slurm
        .ok(&format!("mpicc -pthread -o collectives {source}/tests/integration/mpi/collectives.c"));
    slurm.ok(&format!(
        "cc -I{prefix}/include {source}/clients/pmix/examples/sum.c -L{prefix}/lib \
         -lfabricast_pmix -lfabricast -Wl,-rpath,{prefix}/lib -o sum"
    ));
}

/// The environment of Open MPI with a mode of the component.
fn mpi(mode: &str) -> String {
    format!("{}export FABRICAST_MPI={mode}\n", MPI.replace("$PREFIX", &prefix().to_string_lossy()))
}

fn mpi_programs_use_groups_of_their_job(slurm: &Slurm) {
    for run in ["srun --mpi=pmix", "mpirun -n 4"] {
        let said = slurm.batch(
            "--fabricast=require -N4 -n4",
            &format!("{}{run} ./collectives", mpi("require")),
        );
        assert!(said.contains("ok\n"), "{run}: {said}");
        assert!(said.contains("'MPI_COMM_WORLD', 4 ranks: 13 allgather"), "{run}: {said}");
        slurm.has(0, 0);
    }
    // The group of the world is all that the job has: the other communicators go without.
    let line = format!("{}srun --mpi=pmix ./collectives", mpi("try"));
    let said = slurm.batch("--fabricast --fabricast-groups=1 -N4 -n4", &line);
    assert!(said.contains("ok\n") && said.contains("(QUOTA_REACHED)"), "{said}");
    assert!(said.contains("'MPI_COMM_WORLD', 4 ranks: 13 allgather"), "{said}");
    slurm.has(0, 0);
}

fn ranks_find_their_group_through_pmix(slurm: &Slurm) {
    for run in ["srun --mpi=pmix", "mpirun -n 6 --oversubscribe --map-by node"] {
        let said =
            slurm.batch("--fabricast=require -N3 -n6", &format!("{}{run} ./sum", mpi("off")));
        assert_eq!(said.matches("the sums agree").count(), 6, "{run}: {said}");
        for rank in 0..6 {
            assert!(said.contains(&format!("rank {rank} of 6 on h")), "{run}: {said}");
        }
        assert!(said.contains(" in job/slurm-"), "{run}: {said}");
        slurm.has(0, 0);
    }
    // A rank that has no agent: the others do not wait for it.
    let line = "srun --mpi=pmix sh -c '[ $SLURM_PROCID = 1 ] && export FABRICAST_SOCKET=/nowhere; \
                ./sum' && echo all || echo none";
    let said = slurm.batch("--fabricast=require -N3 -n3", line);
    assert!(said.contains("rank 1: has not attached") && said.ends_with("none\n"), "{said}");
    slurm.has(0, 0);
}

fn two_accounts_are_held_to_their_quota(slurm: &Slurm) {
    // On a leaf switch of its own each, so that only the quota is in the way.
    let asked = |account: &str, node: u32, demand: &str| {
        slurm.submit(&format!(
            "-n1 --nodelist=h{node} --account={account} --fabricast={demand} --fabricast-groups=16"
        ))
    };
    let first = asked("physics", 0, "require");
    asked("chemistry", 2, "require");
    slurm.has(2, 2);
    for (account, node) in [("physics", 4), ("chemistry", 6)] {
        let job = asked(account, node, "yes");
        slurm.prints(&format!("squeue -h -j {job} -o %t"), "R");
        let log = slurm.read("hooks.log");
        let why = format!("16 groups, 8 are free within the limit of account '{account}'");
        assert!(log.contains(&format!("warning: job slurm-{job}: group_count: {why}")), "{log}");
        slurm.ok(&format!("scancel {job}"));
        let job = asked(account, node, "require");
        slurm.prints(&format!("squeue -h -j {job} -o %r"), "BeginTime");
        slurm.ok(&format!("scancel {job}"));
    }
    slurm.has(2, 2);
    slurm.ok(&format!("scancel {first}"));
    slurm.has(1, 1);
    asked("physics", 4, "require");
    slurm.has(2, 2);
    slurm.ok("scancel --user=root");
    slurm.has(0, 0);
}

fn weights_lead_jobs_to_free_switches(slurm: &Slurm) {
    slurm.submit("-N1 -n1 --nodelist=h0 --fabricast --fabricast-groups=5");
    slurm.has(1, 1);
    let weights = slurm.ok("$FABRICAST slurm weights");
    assert_eq!(weights, "NodeName=h[2-7] Weight=1\nNodeName=h[0-1] Weight=6\n");
    assert_eq!(slurm.ok("srun -N1 hostname"), "h0\n", "so far it has room");
    slurm.ok("$FABRICAST slurm weights | while read -r line; do scontrol update $line; done");
    assert_eq!(slurm.ok("srun -N1 hostname"), "h2\n");
    slurm.ok("scancel --user=root");
    slurm.has(0, 0);
}

/// The nodes have a job of two nodes; one of them goes down.
fn loses(slurm: &Slurm, take_down: &str, bring_back: &str) {
    let job = slurm.submit("-N2 -n2 --nodelist=h[4-5] --fabricast=require --fabricast-groups=2");
    slurm.has(1, 1);
    slurm.ok(take_down);
    slurm.has(0, 0);
    // Slurm queues it again; it waits for its nodes.
    slurm.prints(&format!("squeue -h -j {job} -o %T"), "PENDING");
    slurm.ok(&format!("scancel {job}"));
    slurm.ok(bring_back);
    slurm.prints("sinfo -h -n h5 -o %T", "idle");
}

fn a_node_that_is_set_down_ends_its_jobs(slurm: &Slurm) {
    loses(
        slurm,
        "scontrol update nodename=h5 state=down reason=test",
        // It may have come back by itself, as its slurmd lives.
        "scontrol update nodename=h5 state=resume || true",
    );
}

fn a_node_whose_slurmd_dies_ends_its_jobs(slurm: &Slurm) {
    let folder = slurm.run_folder();
    let kill = format!("kill -9 $(cat {}/slurmd.h5.pid)", folder.display());
    // The shell is in the lab already.
    let start = script("slurm/start-node");
    loses(slurm, &kill, &format!("FABRICAST_IN_LAB=1 {start} {} h5", folder.display()));
}

/// The fabric sees that the node is gone, Slurm does not.
fn a_node_whose_agent_dies_fails_the_job(slurm: &Slurm) {
    let lab = slurm.lab.clone().expect("it is in the lab");
    let job = slurm.submit("-N2 -n2 --nodelist=h[6-7] --fabricast=require --fabricast-groups=2");
    slurm.has(1, 1);
    slurm.ok(&format!("kill -9 $(cat {}/pids/h6)", lab.display()));
    slurm.has(1, 0);
    slurm.ok(&format!("scancel {job}"));
    slurm.has(0, 0);
}
