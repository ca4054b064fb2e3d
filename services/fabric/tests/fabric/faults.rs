//! Breaking and mending.

use fabricast_proto::v1;
use fabricast_proto::v1::element::Kind;
use tonic::{Code, Status, Streaming};

use crate::{Fabric, KEY, packet, refusal, send, soon, why};

fn link(switch: &str, port: u32) -> Option<v1::Element> {
    element(Kind::Link(v1::PortName { switch_name: switch.into(), port }))
}

pub(super) fn switch(name: &str) -> Option<v1::Element> {
    element(Kind::SwitchName(name.into()))
}

fn endpoint(name: &str) -> Option<v1::Element> {
    element(Kind::Endpoint(name.into()))
}

fn element(kind: Kind) -> Option<v1::Element> {
    Some(v1::Element { kind: Some(kind) })
}

impl Fabric {
    pub(super) async fn fail(&self, element: Option<v1::Element>) -> Result<bool, Status> {
        let request = v1::FailElementRequest { element };
        Ok(soon(self.client.clone().fail_element(request)).await?.into_inner().changed)
    }

    pub(super) async fn heal(&self, element: Option<v1::Element>) -> Result<bool, Status> {
        let request = v1::HealElementRequest { element };
        Ok(soon(self.client.clone().heal_element(request)).await?.into_inner().changed)
    }

    async fn watch(&self) -> Streaming<v1::WatchFailedElementsResponse> {
        let request = v1::WatchFailedElementsRequest { management_key: KEY.into() };
        let stream = soon(self.client.clone().watch_failed_elements(request)).await;
        stream.expect("the key is right").into_inner()
    }
}

async fn list(watch: &mut Streaming<v1::WatchFailedElementsResponse>) -> Vec<Option<v1::Element>> {
    let list = soon(watch.message()).await.expect("no error").expect("the stream goes on");
    list.elements.into_iter().map(Some).collect()
}

#[tokio::test]
async fn watchers_get_the_whole_list_at_the_start_and_after_each_change() {
    let fabric = Fabric::programmed().await;
    let mut watch = fabric.watch().await;
    assert_eq!(list(&mut watch).await, []);
    // A link by its upper end, a switch by its description: both come back by node id.
    assert!(fabric.fail(link("top", 2)).await.unwrap());
    assert_eq!(list(&mut watch).await, [link("S-1", 3)]);
    assert!(fabric.fail(switch("top")).await.unwrap());
    assert_eq!(list(&mut watch).await, [switch("S-2"), link("S-1", 3)]);
    assert!(fabric.fail(endpoint("h1")).await.unwrap());
    let everything = [switch("S-2"), link("S-1", 3), endpoint("h1")];
    assert_eq!(list(&mut watch).await, everything);
    let mut late = fabric.watch().await;
    assert_eq!(list(&mut late).await, everything);
    assert!(fabric.heal(link("S-1", 3)).await.unwrap());
    assert_eq!(list(&mut watch).await, [switch("S-2"), endpoint("h1")]);
    fabric.stop().await;
}

#[tokio::test]
async fn failing_twice_and_healing_the_healthy_change_nothing() {
    let fabric = Fabric::programmed().await;
    for part in [link("S-0", 3), link("S-0", 1), switch("S-2"), endpoint("h0")] {
        assert!(!fabric.heal(part.clone()).await.unwrap(), "{part:?}");
        assert!(fabric.fail(part.clone()).await.unwrap(), "{part:?}");
        assert!(!fabric.fail(part.clone()).await.unwrap(), "{part:?}");
        assert!(fabric.heal(part.clone()).await.unwrap(), "{part:?}");
    }
    fabric.stop().await;
}

#[tokio::test]
async fn a_failed_endpoint_receives_and_sends_nothing() {
    let fabric = Fabric::programmed().await;
    let mut process = fabric.attached(&["h0", "h1"]).await;
    fabric.fail(endpoint("h1")).await.unwrap();
    let answer = fabric.inject("h0", 2).await.unwrap();
    assert_eq!((answer.delivered.len(), answer.dropped_dead_port), (0, 1));
    assert_eq!(fabric.inject("h1", 2).await.unwrap().dropped_dead_port, 1);
    fabric.heal(endpoint("h1")).await.unwrap();
    process.send(send(&[("h0", packet(2, "after"))])).await;
    assert_eq!(process.receive(1).await, [("h1".to_owned(), "after".to_owned())]);
    fabric.stop().await;
}

#[tokio::test]
async fn nothing_passes_a_cut_link() {
    let fabric = Fabric::programmed().await;
    fabric.fail(link("S-0", 3)).await.unwrap();
    assert_eq!(fabric.inject("h0", 1).await.unwrap().delivered, ["h1"]);
    fabric.heal(link("S-2", 1)).await.unwrap();
    assert_eq!(fabric.inject("h0", 1).await.unwrap().delivered.len(), 3);
    fabric.stop().await;
}

#[tokio::test]
async fn parts_that_do_not_exist_are_refused() {
    let fabric = Fabric::programmed().await;
    let strangers = [
        link("S-9", 1),
        link("S-0", 0),
        link("S-0", 5),
        link("S-0", 70_000),
        link("S-0", 4), // nothing plugged in
        switch("S-9"),
        switch(""),
        endpoint("h9"),
    ];
    for stranger in strangers {
        let unknown = refusal(Code::NotFound, "UNKNOWN_ELEMENT");
        assert_eq!(why(fabric.fail(stranger.clone()).await), unknown, "{stranger:?}");
        assert_eq!(why(fabric.heal(stranger.clone()).await), unknown, "{stranger:?}");
    }
    for nothing in [None, Some(v1::Element::default())] {
        let missing = refusal(Code::InvalidArgument, "FIELD_MISSING");
        assert_eq!(why(fabric.fail(nothing.clone()).await), missing);
        assert_eq!(why(fabric.heal(nothing).await), missing);
    }
    assert_eq!(list(&mut fabric.watch().await).await, []);
    fabric.stop().await;
}
