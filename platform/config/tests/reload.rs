//! Settings read again: what may differ, and that nothing is taken over by halves.

use std::path::Path;

use fabricast_config::{
    Granting, Reread, RouterConfig, Sources, SwitchAgentConfig, TelemetryConfig, TicConfig,
    load_all, read_again,
};

const TIC: &str = "[tic]\nstore = 'memory'\ntopology = 'net'\nreport_timeout = '2s'\n\
                   [telemetry]\nlog = 'info'\ntrace_share = 0.5\n";

/// The settings of a part in a file, and what comes of reading it again with another text.
fn again<R: fabricast_config::Reload + std::fmt::Debug>(before: &str, after: &str) -> Reread<R> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("f.toml");
    std::fs::write(&path, before).expect("it can be written");
    let sources = Sources { file: Some(path.clone()), ..Sources::default() };
    let now: (R, TelemetryConfig) = load_all(&sources).expect("they are good");
    write(&path, after);
    read_again(&now.0, &now.1, &sources)
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).expect("it can be written");
}

#[test]
fn what_is_the_same_is_the_same_however_it_is_written() {
    let after = TIC.replace("'2s'", "'2000ms'") + "\n# a remark\n[router]\n";
    assert_eq!(again::<TicConfig>(TIC, &after), Reread::Same);
}

#[test]
fn timeouts_log_and_share_may_change_and_are_named() {
    let after = TIC.replace("'2s'", "'3s'").replace("0.5", "1").replace("'info'", "'debug'");
    let Reread::Other { part, telemetry, changed } = again::<TicConfig>(TIC, &after) else {
        panic!("they differ in nothing else");
    };
    assert_eq!(part.watch.detector.report_timeout.as_secs(), 3);
    assert_eq!((telemetry.log.as_str(), telemetry.trace_share), ("debug", 1.0));
    assert_eq!(changed.len(), 3);
    assert!(changed[0].starts_with("tic.report_timeout"), "{changed:?}");
    assert_eq!(&changed[1..], ["telemetry.log", "telemetry.trace_share"]);
}

#[test]
fn what_clients_are_granted_may_change() {
    let after = "[router]\n[router.limits]\nburst = 7\nconnections = 70000\n";
    let Reread::Other { part, changed, .. } = again::<RouterConfig>("[router]\n", after) else {
        panic!("they differ in nothing else");
    };
    let limits = part.limits();
    assert_eq!((limits.burst, limits.connections), (7, 70_000));
    assert_eq!(changed, ["router.limits"]);
}

/// CONFIG-2.
#[test]
fn one_setting_that_cannot_change_keeps_all_others_out() {
    let after =
        TIC.replace("'2s'", "'3s'").replace("'memory'", "'tic.redb'") + "log_format = 'json'\n";
    assert_eq!(
        again::<TicConfig>(TIC, &after),
        Reread::Fixed(vec!["tic.store".to_owned(), "telemetry.log_format".to_owned()])
    );
    let before = "[switch_agent]\nname = 'a'\nmanagement_key = 'k'\n";
    let after = "[switch_agent]\nname = 'a'\nmanagement_key = 'other'\nreport_interval = '2s'\n";
    let fixed = "switch_agent.driver, fabric, management_key or infiniband".to_owned();
    assert_eq!(again::<SwitchAgentConfig>(before, after), Reread::Fixed(vec![fixed]));
}

#[test]
fn all_that_is_wrong_is_said_with_its_lines() {
    let after = "[router]\nread_back_rate = 0\ncolors = 0\n[telemetry]\ntrace_share = 2\n";
    let Reread::Bad(errors) = again::<RouterConfig>("[router]\n", after) else {
        panic!("they are none");
    };
    let said = errors.to_string();
    let lines: Vec<&str> =
        said.lines().map(|line| line.rsplit("f.toml:").next().unwrap()).collect();
    assert_eq!(lines.len(), 3, "{said}");
    assert!(lines.iter().any(|line| line.starts_with("3: router.colors: ")), "{said}");
    assert!(lines.iter().any(|line| line.starts_with("2: router.read_back_rate: ")), "{said}");
    assert!(lines.iter().any(|line| line.starts_with("5: telemetry.trace_share: ")), "{said}");
}
