//! Settings of failure detection: valid ones, and the message for each invalid one.

use std::time::Duration;

use fabricast_config::{OperatingAgentConfig, Role, Sources, TicConfig, load};
use fabricast_groups::detector::{Adaptive, Policy};
use fabricast_groups::flaps::{FlapDamping, FlapPolicy};

/// Loads from variables `FABRICAST_<name>`.
fn load_from<R: Role>(variables: &[(&str, &str)]) -> Result<R, Vec<String>> {
    let named = |(name, value): &(&str, &str)| (format!("FABRICAST_{name}"), (*value).to_owned());
    let variables = variables.iter().map(named).collect();
    load::<R>(&Sources { variables, ..Sources::default() })
        .map_err(|errors| errors.to_string().lines().map(str::to_owned).collect())
}

fn tic(variables: &[(&str, &str)]) -> Result<TicConfig, Vec<String>> {
    let needed = [("TIC__STORE", "memory"), ("TIC__TOPOLOGY", "f")];
    load_from([&needed, variables].concat().as_slice())
}

#[test]
fn every_mechanism_has_its_policy_and_timeouts_may_be_adaptive() {
    let tic = tic(&[
        ("TIC__ON_SILENCE", "expel"),
        ("TIC__ON_PORTS_DOWN", "expel"),
        ("TIC__ADAPTIVE__PHI", "12"),
        ("TIC__FLAPPING__POLICY", "refuse"),
        ("TIC__FLAPPING__HALF_LIFE", "90s"),
    ])
    .unwrap();
    let policies = (tic.watch.detector.policy, tic.watch.on_report, tic.watch.on_ports_down);
    assert_eq!(policies, (Policy::ExpelAtOnce, Policy::Probe, Policy::ExpelAtOnce));
    assert_eq!(tic.watch.detector.adaptive, Adaptive::new(12.0, Duration::from_secs(1)));
    let half_life = Duration::from_secs(90);
    assert_eq!(tic.damping, FlapDamping { policy: FlapPolicy::Refuse, limit: 3, half_life });
    let agent: OperatingAgentConfig = load_from(&[
        ("OPERATING_AGENT__NODES", "[{ name = 'h0' }]"),
        ("OPERATING_AGENT__ADAPTIVE__SHORTEST", "700ms"),
        ("OPERATING_AGENT__PROBE_ATTEMPTS", "3"),
    ])
    .unwrap();
    let shortest = Duration::from_millis(700);
    assert_eq!(agent.detector.adaptive, Adaptive::new(8.0, shortest));
    assert_eq!((agent.detector.policy, agent.detector.probing.attempts), (Policy::Probe, 3));
}

#[test]
fn bad_choices_are_named() {
    let bad = tic(&[
        ("TIC__ON_SILENCE", "ask"),
        ("TIC__ADAPTIVE__PHI", "17"),
        ("TIC__ADAPTIVE__SHORTEST", "3s"),
        ("TIC__FLAPPING__POLICY", "ban"),
        ("TIC__FLAPPING__LIMIT", "0"),
        ("TIC__FLAPPING__HALF_LIFE", "0s"),
    ]);
    assert_eq!(
        bad.unwrap_err(),
        [
            "FABRICAST_TIC__FLAPPING__POLICY: tic.flapping.policy: unknown variant `ban`, expected one of `off`, `no-host`, `refuse`",
            "FABRICAST_TIC__ON_SILENCE: tic.on_silence: unknown variant `ask`, expected `probe` or `expel`",
            "FABRICAST_TIC__ADAPTIVE__PHI: tic.adaptive.phi: 17 is not from 0.5 to 16",
            "FABRICAST_TIC__ADAPTIVE__SHORTEST: tic.adaptive.shortest: 3s is longer than report_timeout, 2s",
            "FABRICAST_TIC__FLAPPING__HALF_LIFE: tic.flapping.half_life: must be longer than 0s",
            "FABRICAST_TIC__FLAPPING__LIMIT: tic.flapping.limit: 0 is not from 1 to 1000",
        ]
    );
}
