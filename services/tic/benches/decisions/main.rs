//! Measures how long the writer of a TIC takes for each decision on the paper's fabric, while every
//! change that a TIC can make is made there once, as large as it may sensibly be. Others wait for
//! the writer meanwhile, so the bench fails if a decision takes more than 50 ms of processor time,
//! and names the kind of its request.
//!
//! Only the TIC runs: one caller plays the agents of 32 768 nodes, the route service, launchers and
//! administrators.

#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]
#![expect(clippy::print_stderr, reason = "the kinds of requests are no figures")]

mod collectives;
mod fabric;
mod groups;
mod jobs;
mod load;
mod log;
mod nodes;
mod routes;
mod sequence;

use std::process::ExitCode;
use std::time::Duration;

use fabricast_config::{RawLimits, RawTicConfig, checked};
use fabricast_tic::{App, Setup, TopologySource};
use fabricast_topology::spec::TopologySpec;
use tokio_util::sync::CancellationToken;

use load::{Scale, calls_left_out};
use log::{DecisionLog, Decisions, LONGEST};

/// The paper's largest pattern has as many groups.
const SCALE: Scale = Scale { groups: 8_900, joins: 10_000, jobs: 100, collectives: 200 };

fn main() -> ExitCode {
    let log = DecisionLog::default();
    tracing::subscriber::set_global_default(log.clone()).expect("there is no other");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(run());
    let mut kinds: Vec<(String, Decisions)> = log.by_kind().into_iter().collect();
    kinds.sort_by_key(|(_, decisions)| std::cmp::Reverse(decisions.longest));
    eprintln!("{:>12} {:>10} {:>9}  request", "longest, ms", "decisions", "> 50 ms");
    for (kind, Decisions { count, too_long, longest }) in &kinds {
        eprintln!("{:>12.2} {count:>10} {too_long:>9}  {kind}", millis(*longest));
    }
    let (_, longest) = kinds.first().expect("the writer logs its decisions");
    println!("figure decisions/longest {:.2} ms", millis(longest.longest));
    let failed = kinds.iter().filter(|(_, decisions)| decisions.too_long > 0);
    let failed: Vec<&str> = failed.map(|(kind, _)| &**kind).collect();
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!("decisions took more than {LONGEST:?}: {}", failed.join(", "));
    ExitCode::FAILURE
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Makes all changes at a TIC of their own.
async fn run() {
    let folder = tempfile::tempdir().expect("a folder");
    let limits = RawLimits {
        calls_per_second: 1_000_000,
        burst: 1_000_000,
        processor_percent: 100,
        ..RawLimits::default()
    };
    let config = checked(RawTicConfig {
        listen: "127.0.0.1:0".parse().expect("an address"),
        store: Some(folder.path().join("tic.redb").display().to_string()),
        topology: Some("discovered".into()),
        report_timeout: Duration::from_secs(3_600),
        limits,
        ..RawTicConfig::default()
    });
    let config = config.expect("the settings are good");
    let app = App::bind(Setup::new(config, TopologySource::Discovered)).await;
    let app = app.expect("the TIC starts");
    let address = app.address().to_string();
    let stop = CancellationToken::new();
    let running = tokio::spawn(app.run(stop.clone()));
    let graph = TopologySpec::paper().generate().expect("a fabric");
    sequence::make_all_changes(&address, graph, SCALE).await;
    let left_out = calls_left_out();
    assert!(left_out.is_empty(), "calls that can change something and were not made: {left_out:?}");
    stop.cancel();
    running.await.expect("the TIC stops").expect("the TIC works until then");
}
