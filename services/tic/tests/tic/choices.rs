//! Choices of the route service are kept as reported (CHOICE-1).

use fabricast_proto::v1;
use prost::Message;
use sha2::{Digest, Sha256};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use v1::route_choice_service_client::RouteChoiceServiceClient;

use crate::harness::{TOPOLOGY, Tic, reason, switch};

type Request = v1::RecordRouteChoicesRequest;

pub(crate) fn client(address: &str) -> RouteChoiceServiceClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    RouteChoiceServiceClient::new(endpoint.connect_lazy())
}

pub(crate) async fn acquire(tic: &Tic) -> u64 {
    let request = v1::AcquireRouteTermRequest {
        router: "router".to_owned(),
        take_over: true,
        ..Default::default()
    };
    tic.client.clone().acquire_route_term(request).await.unwrap().into_inner().term
}

pub(crate) fn scheme() -> v1::RouteChoiceScheme {
    v1::RouteChoiceScheme {
        engine: "sssp-mc".to_owned(),
        color_count: 4,
        tables: v1::TableKind::PerSwitch.into(),
        root_scope: "tn".to_owned(),
        topology_sha256: Sha256::digest(TOPOLOGY.as_bytes()).to_vec(),
        fault_tolerant: false,
    }
}

/// A group's choice: one tree over both leaves and the spine.
pub(crate) fn choice(gn: u64, root: u32) -> v1::RouteChoice {
    let at = |switch_name: &str, ports: &[u32]| v1::SwitchPorts {
        switch_name: switch_name.to_owned(),
        ports: ports.to_vec(),
    };
    let ports = vec![at("S-0", &[1, 5]), at("S-1", &[2, 3, 5]), at("S-2", &[1, 2])];
    v1::RouteChoice {
        gn,
        trees: vec![v1::TreeChoice { tree: 0, part: 3, root, ports, ports_gn: 0 }],
    }
}

pub(crate) fn request(term: u64, number: u64, changed: Vec<v1::RouteChoice>) -> Request {
    Request {
        fence: Some(v1::Fence { term, generation: number }),
        scheme: Some(scheme()),
        changed,
        last: true,
        ..Default::default()
    }
}

async fn record(tic: &Tic, messages: Vec<Request>) -> Result<u32, Status> {
    let answer = client(&tic.address).record_route_choices(tokio_stream::iter(messages)).await?;
    Ok(answer.into_inner().group_count)
}

async fn list(tic: &Tic) -> v1::ListRouteChoicesResponse {
    let request = v1::ListRouteChoicesRequest::default();
    client(&tic.address).list_route_choices(request).await.unwrap().into_inner()
}

/// The roots of all choices.
pub(crate) async fn roots(tic: &Tic) -> Vec<u32> {
    let (mut roots, mut page_token) = (Vec::new(), String::new());
    loop {
        let list = v1::ListRouteChoicesRequest { page_token, ..Default::default() };
        let page = client(&tic.address).list_route_choices(list).await.unwrap().into_inner();
        roots.extend(page.choices.iter().map(|one| one.trees[0].root));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return roots;
        }
    }
}

/// Creates persistent groups, and returns their GNs.
async fn with_groups(tic: Tic, count: u64) -> (Tic, Vec<u64>) {
    tic.register(0).await;
    let mut gns = Vec::new();
    for number in 0..count {
        let name = format!("g{number}");
        tic.join(&name, 0, "p").await;
        gns.push(tic.group(&name).await.unwrap().gn);
    }
    (tic, gns)
}

async fn delete(tic: &Tic, group: &str) {
    let (request_id, group) = (format!("delete {group}"), group.to_owned());
    let request = v1::DeleteGroupRequest { request_id, group };
    tic.client.clone().delete_group(request).await.unwrap();
}

#[tokio::test]
async fn choices_are_listed_as_they_were_recorded_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tic.redb");
    let (tic, gns) = with_groups(Tic::on_file(&file).await, 3).await;
    assert_eq!(list(&tic).await, v1::ListRouteChoicesResponse::default());
    let term = acquire(&tic).await;
    let revision = tic.revision().await;
    // Three messages, of which only the first has the fields that all share.
    let mut first = request(term, 1, vec![choice(gns[0], 7)]);
    (first.last, first.failed_elements) = (false, vec![switch("S-2")]);
    let second = Request { changed: vec![choice(gns[2], 9)], ..Default::default() };
    let third = Request { changed: vec![choice(gns[1], 8)], last: true, ..Default::default() };
    let messages = vec![first, second, third];
    assert_eq!(record(&tic, messages.clone()).await.unwrap(), 3);
    assert_eq!(record(&tic, messages).await.unwrap(), 3, "it may be repeated");
    let wanted = v1::ListRouteChoicesResponse {
        scheme: Some(scheme()),
        failed_elements: vec![switch("S-2")],
        choices: vec![choice(gns[0], 7), choice(gns[1], 8), choice(gns[2], 9)],
        next_page_token: String::new(),
    };
    assert_eq!(list(&tic).await, wanted);
    assert_eq!(tic.revision().await, revision, "readers of the directory see no change");
    tic.kill().await;
    let tic = Tic::on_file(&file).await;
    assert_eq!(list(&tic).await, wanted);

    let mut next = request(term, 2, vec![choice(gns[2], 10)]);
    next.removed_gns = vec![gns[0]];
    assert_eq!(record(&tic, vec![next]).await.unwrap(), 2);
    let listed = list(&tic).await;
    assert_eq!(listed.choices, [choice(gns[1], 8), choice(gns[2], 10)]);
    assert_eq!(listed.failed_elements, [], "they are told as a whole");
    tic.stop().await;
    assert_eq!(list(&Tic::on_file(&file).await).await, listed);
}

#[tokio::test]
async fn a_page_ends_at_its_size_or_when_it_is_full() {
    let (tic, gns) = with_groups(Tic::on_memory().await, 5).await;
    let term = acquire(&tic).await;
    let all: Vec<_> = gns.iter().map(|gn| choice(*gn, 1)).collect();
    record(&tic, vec![request(term, 1, all.clone())]).await.unwrap();
    let (mut found, mut page_token) = (Vec::new(), String::new());
    for most in [2, 2, 1] {
        let request = v1::ListRouteChoicesRequest { page_size: 2, page_token };
        let page = client(&tic.address).list_route_choices(request).await.unwrap().into_inner();
        assert_eq!((page.choices.len(), page.scheme), (most, Some(scheme())));
        found.extend(page.choices);
        page_token = page.next_page_token;
    }
    assert_eq!((found, page_token), (all, String::new()));
}

#[tokio::test]
async fn choices_of_a_deleted_group_go_once_the_route_service_knows() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tic.redb");
    let (tic, gns) = with_groups(Tic::on_file(&file).await, 3).await;
    let term = acquire(&tic).await;
    let all: Vec<_> = gns.iter().map(|gn| choice(*gn, 1)).collect();
    record(&tic, vec![request(term, 1, all.clone())]).await.unwrap();
    let before = tic.revision().await;
    delete(&tic, "g1").await;
    let leave = crate::harness::leave("g2", 0, "p");
    tic.client.clone().leave_group(leave).await.unwrap();
    assert_eq!(list(&tic).await.choices, all, "others may share these trees");
    // This route service does not know of the end yet.
    let mut late = request(term, 2, vec![choice(gns[2], 2)]);
    late.seen_revision = before;
    assert_eq!(record(&tic, vec![late]).await.unwrap(), 3);
    let mut next = request(term, 3, vec![choice(gns[0], 3), choice(gns[2], 3)]);
    next.seen_revision = tic.revision().await;
    assert_eq!(record(&tic, vec![next]).await.unwrap(), 1);
    assert_eq!(list(&tic).await.choices, [choice(gns[0], 3)]);
    tic.stop().await;
    assert_eq!(list(&Tic::on_file(&file).await).await.choices, [choice(gns[0], 3)]);
}

#[tokio::test]
async fn another_scheme_drops_the_choices_of_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tic.redb");
    let (tic, gns) = with_groups(Tic::on_file(&file).await, 2).await;
    let term = acquire(&tic).await;
    let mut number = 0;
    let changes: [fn(&mut v1::RouteChoiceScheme); 5] = [
        |scheme| scheme.engine = "minhop-mc".to_owned(),
        |scheme| scheme.color_count = 5,
        |scheme| scheme.tables = v1::TableKind::PerPort.into(),
        |scheme| scheme.root_scope = "tn-group".to_owned(),
        |scheme| scheme.fault_tolerant = true,
    ];
    for change in changes {
        let before = request(term, number + 1, gns.iter().map(|gn| choice(*gn, 1)).collect());
        assert_eq!(record(&tic, vec![before]).await.unwrap(), 2);
        let mut next = request(term, number + 2, vec![choice(gns[1], 2)]);
        change(next.scheme.as_mut().unwrap());
        let scheme = next.scheme.clone();
        assert_eq!(record(&tic, vec![next]).await.unwrap(), 1);
        let listed = list(&tic).await;
        assert_eq!((listed.scheme, listed.choices), (scheme, vec![choice(gns[1], 2)]));
        number += 2;
    }
    let listed = list(&tic).await;
    tic.kill().await;
    assert_eq!(list(&Tic::on_file(&file).await).await, listed);
}

#[tokio::test]
async fn an_older_route_service_and_an_older_report_are_refused() {
    let (tic, gns) = with_groups(Tic::on_memory().await, 1).await;
    let (old, new) = (acquire(&tic).await, acquire(&tic).await);
    record(&tic, vec![request(new, 3, vec![choice(gns[0], 1)])]).await.unwrap();
    for (term, number, why) in
        [(old, 9, "STALE_TERM"), (new + 1, 9, "STALE_TERM"), (new, 2, "STALE_FENCE")]
    {
        let refused = record(&tic, vec![request(term, number, vec![choice(gns[0], 2)])]).await;
        let refused = refused.unwrap_err();
        assert_eq!(
            (refused.code(), reason(&refused).as_str()),
            (Code::Aborted, why),
            "{term} {number}"
        );
    }
    assert_eq!(list(&tic).await.choices, [choice(gns[0], 1)]);
    // Numbers start anew in each term.
    let next = acquire(&tic).await;
    record(&tic, vec![request(next, 1, vec![choice(gns[0], 2)])]).await.unwrap();
}

#[tokio::test]
async fn a_report_that_breaks_off_changes_nothing() {
    let (tic, gns) = with_groups(Tic::on_memory().await, 2).await;
    let term = acquire(&tic).await;
    record(&tic, vec![request(term, 1, vec![choice(gns[0], 1)])]).await.unwrap();
    let before = list(&tic).await;
    let mut half = request(term, 2, vec![choice(gns[0], 2)]);
    half.last = false;
    let refused = record(&tic, vec![half.clone()]).await.unwrap_err();
    assert_eq!(reason(&refused), "FIELD_MISSING");
    assert!(refused.message().starts_with("last:"), "{refused:?}");
    assert_eq!(reason(&record(&tic, vec![]).await.unwrap_err()), "FIELD_MISSING");
    // A route service dies while it reports: the rest never arrives, and then the connection ends.
    let (said, more) = tokio::sync::mpsc::channel(1);
    let mut speaker = client(&tic.address);
    let call = tokio::spawn(async move {
        let messages = tokio_stream::wrappers::ReceiverStream::new(more);
        speaker.record_route_choices(messages).await
    });
    said.send(half).await.unwrap();
    assert_eq!(list(&tic).await, before);
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    assert_eq!(list(&tic).await, before);
    // The broken report was not taken, or this one would be older.
    record(&tic, vec![request(term, 2, vec![choice(gns[1], 3)])]).await.unwrap();
}

#[tokio::test]
async fn a_refused_report_names_its_bad_field() {
    let (tic, gns) = with_groups(Tic::on_memory().await, 2).await;
    let term = acquire(&tic).await;
    record(&tic, vec![request(term, 1, vec![choice(gns[0], 1)])]).await.unwrap();
    let before = list(&tic).await;
    type Spoil = fn(&mut Request);
    fn scheme(request: &mut Request) -> &mut v1::RouteChoiceScheme {
        request.scheme.as_mut().unwrap()
    }
    fn tree(request: &mut Request) -> &mut v1::TreeChoice {
        &mut request.changed[1].trees[0]
    }
    let cases: [(&str, &str, Spoil); 22] = [
        ("fence", "FIELD_MISSING", |to| to.fence = None),
        ("fence.term", "FIELD_MISSING", |to| to.fence.as_mut().unwrap().term = 0),
        ("fence.generation", "FIELD_MISSING", |to| to.fence.as_mut().unwrap().generation = 0),
        ("scheme", "FIELD_MISSING", |to| to.scheme = None),
        ("scheme.engine", "NAME_INVALID", |to| scheme(to).engine = "mc\n".to_owned()),
        ("scheme.color_count", "COLOR_OUT_OF_RANGE", |to| scheme(to).color_count = 0),
        ("scheme.color_count", "COLOR_OUT_OF_RANGE", |to| scheme(to).color_count = 16_385),
        ("scheme.tables", "FIELD_MISSING", |to| scheme(to).tables = 0),
        ("scheme.tables", "FIELD_MISSING", |to| scheme(to).tables = 9),
        ("scheme.root_scope", "NAME_INVALID", |to| scheme(to).root_scope = String::new()),
        ("scheme.topology_sha256", "TOPOLOGY_DIFFERS", |to| scheme(to).topology_sha256[0] ^= 1),
        ("elements: no switch", "UNKNOWN_ELEMENT", |to| to.failed_elements = vec![switch("S-9")]),
        ("changed.gn", "FIELD_MISSING", |to| to.changed[1].gn = 0),
        ("changed.gn", "CHOICE_INVALID", |to| to.changed[1].gn = to.changed[0].gn),
        ("removed_gns", "CHOICE_INVALID", |to| to.removed_gns = vec![to.changed[0].gn]),
        ("changed.trees", "FIELD_MISSING", |to| to.changed[1].trees = vec![]),
        ("changed.trees.tree", "CHOICE_INVALID", |to| tree(to).tree = 256),
        ("changed.trees.tree", "CHOICE_INVALID", |to| {
            let same = tree(to).clone();
            to.changed[1].trees.push(same);
        }),
        ("changed.trees.ports: no switch 'S-7'", "UNKNOWN_ELEMENT", |to| {
            tree(to).ports[0].switch_name = "S-7".to_owned();
        }),
        ("changed.trees.ports: switch S-0 has no port 6", "UNKNOWN_ELEMENT", |to| {
            tree(to).ports[0].ports = vec![6];
        }),
        ("changed.trees.ports_gn", "CHOICE_INVALID", |to| tree(to).ports_gn = 1),
        ("changed.trees.ports.ports", "CHOICE_INVALID", |to| tree(to).ports[0].ports = vec![2, 2]),
    ];
    for (field, why, spoil) in cases {
        let mut bad = request(term, 2, vec![choice(gns[0], 2), choice(gns[1], 2)]);
        spoil(&mut bad);
        let status = record(&tic, vec![bad]).await.unwrap_err();
        assert_eq!(reason(&status), why, "{field}: {status:?}");
        assert!(status.message().starts_with(field), "{field}: {}", status.message());
        assert_eq!(list(&tic).await, before, "{field}");
    }
    let bad = v1::ListRouteChoicesRequest { page_token: "x".to_owned(), ..Default::default() };
    let refused = client(&tic.address).list_route_choices(bad).await.unwrap_err();
    assert_eq!(reason(&refused), "PAGE_TOKEN_INVALID");
}

#[tokio::test]
async fn a_choice_that_fits_into_no_page_is_refused() {
    let (tic, gns) = with_groups(Tic::on_memory().await, 1).await;
    let term = acquire(&tic).await;
    let mut large = choice(gns[0], 1);
    let tree = large.trees[0].clone();
    large.trees = (0..255).map(|number| v1::TreeChoice { tree: number, ..tree.clone() }).collect();
    let bytes = large.encoded_len();
    record(&tic, vec![request(term, 1, vec![large.clone()])]).await.unwrap();
    assert_eq!(list(&tic).await.choices, [large.clone()], "{bytes} bytes");
    // Many large numbers of a switch with a long name exceed the limit.
    let wide = vec![u32::MAX; 800_000];
    large.trees[0].ports[0].ports = wide;
    let refused = record(&tic, vec![request(term, 2, vec![large])]).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
}
