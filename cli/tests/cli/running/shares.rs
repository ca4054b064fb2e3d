//! Groups that are reserved for jobs, by hand and by what Slurm calls.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use super::{Up, names};
use crate::support::Run;

const TOKEN: &str = "0123456789abcdef";

/// Reserves, forms and releases as an administrator without a scheduler.
pub(super) fn a_job_gets_its_share_by_hand(up: &Up) {
    let reserve = ["job", "reserve", "by-hand", "--hosts", "node[001-002]", "--groups", "1"];
    let variables = up.ok(&reserve);
    let token = variables
        .lines()
        .find_map(|line| line.strip_prefix("FABRICAST_TOKEN="))
        .expect("it is printed");
    assert_eq!(token.len(), 32, "{variables}");
    let join = |group| vec!["group", "join", group, "--node", "node001"];
    up.run(&join("job/by-hand/a")).refused(2, "its token is required");
    let with_token = |group| [join(group), vec!["--job-token", token]].concat();
    up.ok(&with_token("job/by-hand/a"));
    up.run(&with_token("job/by-hand/b")).refused(2, "as many as were reserved");
    let list = up.ok(&["job", "list"]);
    let row = list.lines().find(|line| line.contains("by-hand")).expect("the job is listed");
    assert!(row.contains("1 of 1") && row.contains("node[001-002]"), "{list}");
    up.run(&["job", "reserve", "greedy", "--hosts", "node001", "--groups", "9999"])
        .refused(1, "nothing is reserved: group_count: 9999 groups");
    assert_eq!(up.ok(&["job", "release", "by-hand"]), "job by-hand released with 1 groups\n");
}

fn names_in(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// The command with what Slurm gives to a prolog of a job.
fn hook(up: &Up, verb: &str, job: &[(&str, &str)]) -> Run {
    let arguments = ["slurm", verb, "--server", &up.address];
    let mut command = up.sandbox.command(&arguments);
    command.env("SLURM_JOB_ID", "17").env("SLURM_JOB_NODELIST", "node[003-004]");
    command.env("SLURM_JOB_USER", "ann").env("SLURM_JOB_ACCOUNT", "physics");
    command.env("SPANK_FABRICAST", "yes").env("SPANK_FABRICAST_TOKEN", TOKEN);
    command.envs(job.iter().copied());
    Run::of(&arguments, &command.output().expect("the binary starts"))
}

/// Prolog and epilog as Slurm calls them.
pub(super) fn a_job_of_slurm_gets_its_share_and_gives_it_back(up: &Up) {
    let succeeds = |run: Run| assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{run:?}");
    let prolog = |job: &[(&str, &str)]| hook(up, "prolog", job);
    succeeds(prolog(&[("SPANK_FABRICAST", "no")]));
    assert!(up.json(&["job", "list"])["jobs"].as_array().is_none_or(Vec::is_empty));
    let groups = ("SPANK_FABRICAST_GROUPS", "2");
    succeeds(prolog(&[groups]));
    succeeds(prolog(&[groups]));
    let job = up.json(&["job", "show", "slurm-17"]);
    assert_eq!((&job["share"]["groupCount"], &job["share"]["user"]), (&2.into(), &"ann".into()));
    up.ok(&["group", "join", "job/slurm-17/a", "--node", "node003", "--job-token", TOKEN]);
    // It was requeued, runs elsewhere, and its epilog did not come through.
    succeeds(prolog(&[groups, ("SLURM_JOB_NODELIST", "node[005-006]")]));
    assert_eq!(
        names(&up.json(&["job", "show", "slurm-17"])["nodes"], "node"),
        ["node005", "node006"]
    );
    up.run(&["group", "show", "job/slurm-17/a"]).refused(2, "no group");
    succeeds(hook(up, "epilog", &[]));
    succeeds(hook(up, "epilog", &[]));
    up.run(&["job", "show", "slurm-17"]).refused(2, "no job 'slurm-17'");

    let too_many = ("SPANK_FABRICAST_GROUPS", "9999");
    let warned = prolog(&[too_many]);
    assert_eq!(warned.code, 0, "{warned:?}");
    assert!(warned.stderr.starts_with("fabricast: warning: job slurm-17: "), "{warned:?}");
    prolog(&[too_many, ("SPANK_FABRICAST", "require")]).refused(1, "9999 groups");
    prolog(&[("SLURM_JOB_ID", "x"), ("SPANK_FABRICAST", "require")]).refused(1, "SLURM_JOB_ID");
    let conf = up.ok(&["slurm", "topology"]);
    assert!(conf.starts_with("SwitchName=") && conf.contains("Nodes="), "{conf}");
    let yaml = up.ok(&["slurm", "topology", "--yaml"]);
    assert!(yaml.starts_with("- topology: fabric\n  cluster_default: true\n"), "{yaml}");
    assert_eq!(yaml.matches("- switch: ").count(), conf.lines().count());

    succeeds(prolog(&[groups, ("SPANK_FABRICAST_AGGREGATION", "3")]));
    let kept = || up.json(&["collective", "usage"])["reservations"].clone();
    assert_eq!(kept()[0]["holder"], json!({"tenant": "physics", "job": "slurm-17"}));
    assert_eq!(kept()[0]["entries"], 3);
    let weights = up.json(&["slurm", "weights"]);
    let weight_of = |node: &str| {
        let has = |entry: &&Value| names_in(&entry["nodes"]).any(|name| name == node);
        weights.as_array().and_then(|all| all.iter().find(has)).map(|it| it["weight"].clone())
    };
    // Both are on the leaf switch of the job's nodes; the last is on another one.
    assert_eq!(weight_of("node003"), Some(3.into()), "{weights}");
    assert_eq!(weight_of("node001"), Some(3.into()), "{weights}");
    assert_eq!(weight_of("gpu021"), Some(1.into()), "{weights}");
    assert!(up.ok(&["slurm", "weights"]).ends_with(" Weight=3\n"));
    succeeds(hook(up, "epilog", &[]));
    assert!(kept().as_array().is_none_or(Vec::is_empty), "{}", kept());
}

/// A list of Slurm's jobs decides, if there is one.
pub(super) fn jobs_that_slurm_does_not_know_are_swept(up: &Up) {
    for id in ["17", "18"] {
        assert_eq!(hook(up, "prolog", &[("SLURM_JOB_ID", id)]).code, 0);
    }
    up.ok(&["job", "reserve", "by-hand", "--hosts", "node007"]);
    let squeue = |script: &str| {
        up.sandbox.write("squeue", script);
        let path = up.sandbox.path("squeue");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("it is our file");
        path.display().to_string()
    };
    let broken = squeue("#!/bin/sh\necho 'no controller' >&2\nexit 1\n");
    up.run(&["slurm", "sweep", "--squeue", &broken]).refused(2, "no controller");
    let partial = squeue("#!/bin/sh\necho 18\n");
    let sweep = ["slurm", "sweep", "--squeue", &partial];
    assert_eq!(up.ok(&[&sweep[..], &["--dry-run"]].concat()), "would release slurm-17\n");
    assert_eq!(up.ok(&sweep), "released slurm-17\n");
    assert_eq!(up.ok(&sweep), "no job has leaked\n");
    assert_eq!(names(&up.json(&["job", "list"])["jobs"], "name"), ["by-hand", "slurm-18"]);
    for job in ["by-hand", "slurm-18"] {
        up.ok(&["job", "release", job]);
    }
}
