//! The etcds without a quorum, as an administrator sees them: nobody leads, no TIC serves, and the
//! metrics from which the alerts are computed say so.

use std::time::{Duration, Instant};

use fabricast_testing::Etcd;

use super::leaders::{Process, leading};
use crate::metrics::get;
use crate::support::{Run, Sandbox, free_address};

/// A bound for whatever must come about.
const SOON: Duration = Duration::from_secs(60);

/// Runs a command until it ends as wanted.
fn until(sandbox: &Sandbox, arguments: &[&str], wanted: impl Fn(&Run) -> bool) {
    let started = Instant::now();
    loop {
        let run = sandbox.run(arguments);
        if wanted(&run) {
            return;
        }
        assert!(started.elapsed() < SOON, "{run:?}");
    }
}

/// A number among the metrics of a TIC.
fn metric(tic: &Process, name: &str) -> f64 {
    let text = get(&tic.metrics).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|value| value.trim().parse().ok()).unwrap_or_else(|| panic!("{name}: {text}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_quorum_no_tic_leads_none_serves_and_the_alerts_fire() {
    let mut etcd = Etcd::start(3).await;
    let sandbox = Sandbox::new();
    let mut tics = Vec::new();
    for number in 0..2 {
        tics.push(Process::start(&sandbox, &etcd, number).await);
    }
    leading(&tics, 0).await;
    for tic in &tics {
        until(&sandbox, &["health", "--server", &tic.address], |run| run.code == 0);
    }
    etcd.kill(0).await;
    etcd.kill(1).await;
    let both = format!("{},{}", tics[0].address, tics[1].address);
    for servers in [&tics[0].address, &tics[1].address, &both] {
        until(&sandbox, &["group", "list", "--server", servers], |run| {
            run.code == 2 && run.stderr.contains("no TIC is known to lead")
        });
    }
    // The other parts are asked all the same; none of them is there.
    let nobody = free_address();
    let parts = ["--router", &nobody, "--switch-agent", &nobody];
    sandbox.ok(&[&["context", "add", "dark", "--server", &both][..], &parts].concat());
    let status = sandbox.run(&["status", "--context", "dark"]);
    assert_eq!(status.code, 1, "{status:?}");
    let route_service = format!("route service {nobody}: ");
    let switch_agent = format!("switch agent {nobody}: ");
    for problem in ["no TIC leads", &route_service, &switch_agent] {
        assert!(status.stdout.contains(problem), "{problem}: {status:?}");
    }
    for tic in &tics {
        let health = sandbox.run(&["health", "--server", &tic.address]);
        let expected = format!("{}: not serving: fabricast.v1.TicService", tic.address);
        assert_eq!((health.code, health.stdout.trim()), (1, expected.as_str()));
        sandbox.ok(&["health", "--alive", "--server", &tic.address]);
        // FabricastNoTicLeads and FabricastStoreFails.
        assert!(metric(tic, "fabricast_tic_leads") < 1.0);
        assert!(metric(tic, "fabricast_tic_store_failures_total") > 0.0);
    }
    etcd.restart(0).await;
    for tic in &tics {
        until(&sandbox, &["health", "--server", &tic.address], |run| run.code == 0);
        until(&sandbox, &["group", "list", "--server", &tic.address], |run| run.code == 0);
    }
}
