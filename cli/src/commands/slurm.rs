//! `fabricast slurm`: what Slurm calls when jobs begin and end.

mod hooks;
mod sweep;
mod weights;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::args::ServerArgs;
use crate::command::{Globals, Run};
use crate::commands::topology::slurm_tree;
use crate::failure::Failure;
use crate::output;
use crate::remote::{Remote, block_on};
use crate::source::Topology;

/// Reserve groups for the jobs of Slurm, and release them.
#[derive(Debug, Subcommand)]
pub(crate) enum SlurmCommand {
    /// Reserve groups for the job that Slurm is about to start; Slurm's PrologSlurmctld calls it.
    ///
    /// Reads the job from the environment that Slurm gives to a prolog. A job that was submitted
    /// without `--fabricast` gets nothing. A refusal is a warning, unless the job was submitted
    /// with `--fabricast=require`: then it is exit 1, and Slurm requeues the job.
    Prolog(HookArgs),
    /// Release what a job had; Slurm's EpilogSlurmctld calls it.
    Epilog(HookArgs),
    /// Release jobs that Slurm does not know any more, such as after a crash of its controller.
    Sweep {
        /// Only print what it would release; change nothing.
        #[arg(long)]
        dry_run: bool,
        /// Program that lists Slurm's jobs.
        #[arg(long, default_value = "squeue", value_name = "PROGRAM")]
        squeue: PathBuf,
        #[command(flatten)]
        hook: HookArgs,
    },
    /// Print the topology of a running control plane as topology.conf.
    Topology {
        /// Print it as topology.yaml, which Slurm reads from version 25.05 on.
        #[arg(long)]
        yaml: bool,
        /// Output file; default: standard output.
        #[arg(long)]
        out: Option<PathBuf>,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Print a weight for each node, which is higher the more groups jobs have reserved there.
    ///
    /// Each line is for `scontrol update`; of nodes that are free alike, Slurm takes those of the
    /// lowest weight.
    Weights(ServerArgs),
}

/// Options of the commands that Slurm calls.
#[derive(Debug, Args)]
pub(crate) struct HookArgs {
    /// Name of this Slurm, for a fabric with several: by default, its job 17 is called `slurm-17`.
    #[arg(long, env = "FABRICAST_SCHEDULER", default_value = "slurm", value_name = "NAME")]
    scheduler: String,
    #[command(flatten)]
    server: ServerArgs,
}

impl HookArgs {
    /// The name that a job of Slurm has here.
    fn job_name(&self, id: u64) -> String {
        format!("{}-{id}", self.scheduler)
    }

    /// The number of a job of Slurm; `None` for jobs of others.
    fn job_id(&self, name: &str) -> Option<u64> {
        let id = name.strip_prefix(&self.scheduler)?.strip_prefix('-')?;
        id.parse().ok().filter(|number: &u64| number.to_string() == id)
    }
}

impl Run for SlurmCommand {
    fn run(self, globals: &Globals) -> Result<(), Failure> {
        match self {
            Self::Prolog(args) => hooks::prolog(&args),
            Self::Epilog(args) => hooks::epilog(&args),
            Self::Sweep { dry_run, squeue, hook } => {
                block_on(sweep::sweep(&squeue, &hook, dry_run, globals.format))
            }
            Self::Weights(server) => block_on(weights::weights(&server, globals.format)),
            Self::Topology { yaml, out, server } => {
                let graph = block_on(async { Remote::new(&server)?.graph().await })?;
                let tree = slurm_tree(&Topology::of("the control plane", graph))?;
                let text = if yaml { tree.write_yaml() } else { tree.write() };
                output::document(globals.format, out.as_deref(), &text, || tree)
            }
        }
    }

    fn calls_running_parts(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        hook: HookArgs,
    }

    #[test]
    fn a_job_is_named_after_its_slurm_and_no_other_name_is_its() {
        let Line { hook } = Line::parse_from(["x", "--scheduler", "east"]);
        assert_eq!(hook.job_name(17), "east-17");
        assert_eq!(hook.job_id("east-17"), Some(17));
        for other in ["east-", "east-17-2", "east-017", "east-+1", "west-17", "east17", "j"] {
            assert_eq!(hook.job_id(other), None, "{other}");
        }
    }
}
