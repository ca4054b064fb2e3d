//! `--fault-tolerant`: two trees for every group.

use crate::refusals::refuse;
use crate::routes::{FABRICS, VERIFY, plan};
use crate::support::Sandbox;

#[test]
fn two_trees_are_planned_and_verified() {
    let sandbox = Sandbox::new();
    let fabrics = FABRICS.iter().filter(|(name, _)| !["one-level", "dead-core"].contains(name));
    for (name, spec) in fabrics {
        for (kind, engine) in [
            ("per-port", "c-mr4lms-fixed"),
            ("per-switch", "c-mr4lms-fixed"),
            ("per-port", "c-mr4lms-dynamic"),
            ("per-port", "c-mr4lms-hybrid"),
        ] {
            let options = ["--pattern", "random:9:5", "--tables", kind, "--engine", engine];
            let options = [&options[..], &["--fault-tolerant"]].concat();
            let figures = plan(&sandbox, spec, &options);
            assert_eq!(figures["faultTolerant"], true);
            let (shared, trees) = (figures["virtualGroups"].as_u64(), figures["trees"].as_u64());
            assert!(trees > shared, "{name} {kind} {figures}");
            let found = sandbox.json(&[&VERIFY[..], &["--all-senders"]].concat());
            assert_eq!(found["violationCount"], 0, "{name} {kind} {found}");
            assert_eq!(found["groups"], figures["groups"], "{name} {kind} {found}");
            assert_eq!(found["entries"], figures["tableEntries"], "{name} {kind}");
            let single = plan(&sandbox, spec, &options[..6]);
            let once = sandbox.json(&[&VERIFY[..], &["--all-senders"]].concat());
            assert_eq!(single["faultTolerant"], false);
            assert!(found["hops"].as_u64() > once["hops"].as_u64(), "{name} {kind}");
        }
    }
}

#[test]
fn two_trees_that_cannot_be_had_are_refused() {
    refuse(
        &Sandbox::new(),
        &[
            (
                "route plan --topology cluster --pattern 8x12 --engine mr4lms --fault-tolerant",
                2,
                "--fault-tolerant: mr4lms has no fault tolerance",
            ),
            (
                "route plan --topology cluster --pattern 8x12 --tables per-switch --colors 1 \
                 --fault-tolerant",
                2,
                "--fault-tolerant: fault tolerance with per-switch tables takes two entries",
            ),
            (
                "demo --engine minhop-mc --fault-tolerant",
                2,
                "--fault-tolerant: minhop-mc has no fault tolerance",
            ),
            (
                "up --engine mr4lms --fault-tolerant",
                2,
                "--fault-tolerant: mr4lms has no fault tolerance",
            ),
        ],
    );
}
