//! Reports of failed elements.

use std::time::Duration;

use fabricast_config::RawSwitchAgentConfig;
use fabricast_proto::v1;
use fabricast_proto::v1::element::Kind;

use crate::fake_tic::FakeTic;
use crate::hardware::Hardware;
use crate::{Agent, HOUR, LOOPBACK, settings};

fn link(switch: &str, port: u32) -> v1::Element {
    element(Kind::Link(v1::PortName { switch_name: switch.into(), port }))
}

fn switch(name: &str) -> v1::Element {
    element(Kind::SwitchName(name.into()))
}

fn endpoint(name: &str) -> v1::Element {
    element(Kind::Endpoint(name.into()))
}

fn element(kind: Kind) -> v1::Element {
    v1::Element { kind: Some(kind) }
}

fn reporting(tic: &FakeTic, report_interval: Duration) -> RawSwitchAgentConfig {
    RawSwitchAgentConfig { tic: [tic.address].into_iter().collect(), report_interval, ..settings() }
}

#[tokio::test]
async fn a_change_is_reported_at_once_with_the_whole_list() {
    let (hardware, mut tic) = (Hardware::new(), FakeTic::start(LOOPBACK));
    let agent = Agent::start_with(&hardware, reporting(&tic, HOUR));
    let first = tic.report().await;
    assert_eq!((&*first.reporter, first.elements), ("agent", vec![]));
    for failed in [vec![switch("S-3")], vec![switch("S-3"), endpoint("h1")], vec![]] {
        hardware.set_failed(&failed);
        assert_eq!(tic.report().await.elements, failed);
    }
    agent.stop().await;
    tic.stop().await;
}

#[tokio::test]
async fn a_restarted_tic_learns_the_list_again() {
    let (hardware, mut tic) = (Hardware::new(), FakeTic::start(LOOPBACK));
    let failed = [link("S-1", 2)];
    hardware.set_failed(&failed);
    let agent = Agent::start_with(&hardware, reporting(&tic, Duration::from_millis(20)));
    assert_eq!(tic.report().await.elements, failed);
    assert_eq!(tic.report().await.elements, failed, "repeated without a change");
    let address = tic.stop().await;
    let mut restarted = FakeTic::start(address);
    assert_eq!(restarted.report().await.elements, failed);
    agent.stop().await;
    restarted.stop().await;
}

#[tokio::test]
async fn nothing_is_reported_before_the_hardware_has_answered() {
    let (hardware, mut tic) = (Hardware::new(), FakeTic::start(LOOPBACK));
    hardware.set_reachable(false);
    let agent = Agent::start_with(&hardware, reporting(&tic, Duration::from_millis(20)));
    // The agent serves, so its tasks have begun to ask in vain.
    agent.client.clone().list_switches(v1::ListSwitchesRequest {}).await.unwrap_err();
    hardware.set_failed(&[switch("S-1")]);
    hardware.set_reachable(true);
    assert_eq!(
        tic.report().await.elements,
        [switch("S-1")],
        "an empty list would say: all is well"
    );
    agent.stop().await;
    tic.stop().await;
}

#[tokio::test]
async fn a_limited_agent_reports_what_touches_its_switches() {
    let (hardware, mut tic) = (Hardware::new(), FakeTic::start(LOOPBACK));
    let near = [link("S-3", 1), switch("S-1"), endpoint("h1"), link("S-1", 1)];
    let far = [link("S-2", 2), link("S-3", 2), switch("S-2"), switch("S-3"), endpoint("h2")];
    hardware.set_failed(&[&far[..], &near[..]].concat());
    let settings =
        RawSwitchAgentConfig { switches: Some(vec!["S-1".into()]), ..reporting(&tic, HOUR) };
    let agent = Agent::start_with(&hardware, settings);
    assert_eq!(tic.report().await.elements, near);
    agent.stop().await;
    tic.stop().await;
}
