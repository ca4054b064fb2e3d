//! Tests of the bounds of messages.

use std::time::Duration;

use fabricast_proto::v1;
use prost::Message;
use tokio::sync::mpsc::Sender;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;

use super::scan::FREE_BYTES;
use super::sizes::{Content, Fields};
use super::*;
use crate::client_limiter::tests::usage;

mod memory;

fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0], &length[..], message].concat()
}

/// Reads a call in pieces of some length; gives the bytes in memory of the last message.
fn scan(path: &str, bytes: &[u8], piece: usize) -> Result<usize, Status> {
    let path = format!("/fabricast.v1.{path}");
    let request = MESSAGES.requests[&path].message;
    let mut scanner = Scanner::new(&MESSAGES, request, Bounds::of(&path));
    bytes.chunks(piece).try_for_each(|piece| scanner.read(piece))?;
    Ok(scanner.kept())
}

#[test]
fn calls_of_health_and_reflection_are_bounded_as_all_others() {
    let is_stream = |path: &str| MESSAGES.requests.get(path).map(|request| request.is_stream);
    assert_eq!(is_stream("/grpc.health.v1.Health/Check"), Some(false));
    assert_eq!(is_stream("/grpc.health.v1.Health/Watch"), Some(false));
    for version in ["v1", "v1alpha"] {
        let service = format!("/grpc.reflection.{version}.ServerReflection");
        assert_eq!(is_stream(&format!("{service}/ServerReflectionInfo")), Some(true));
    }
    assert!(MESSAGES.requests.keys().any(|path| path.starts_with("/fabricast.v1.")));
}

#[test]
fn a_message_is_as_long_as_its_call_needs_whatever_its_service_accepts() {
    const TEXTS: usize = 64 << 10;
    const OTHERS: usize = 4 << 20;
    let announced = |length: usize| {
        let length = u32::try_from(length).unwrap().to_be_bytes();
        [&[0], &length[..]].concat()
    };
    for (path, longest) in [
        ("OperatingAgentService/ProbeNode", TEXTS),
        ("GroupAgentService/WatchGroupMembers", TEXTS),
        ("OperatingAgentService/LeaveGroup", TEXTS),
        ("TicService/LeaveGroup", TEXTS),
        ("TopologyService/DrainLink", TEXTS),
        ("ProcessService/JoinGroup", TEXTS),
        ("OperatingAgentService/JoinGroup", OTHERS),
        ("OperatingAgentService/SendPacket", OTHERS),
        ("TopologyService/ReplaceTopology", OTHERS),
        ("AdministrationService/GetServerInfo", OTHERS),
    ] {
        assert!(scan(path, &announced(longest), 1).is_ok(), "{path}");
        let longer = scan(path, &announced(longest + 1), 1).map_err(|status| status.code());
        assert_eq!(longer, Err(Code::OutOfRange), "{path}");
    }
    // Their services have limits of their own.
    for path in ["OperatingAgentService/JoinMany", "TicService/JoinGroup"] {
        assert!(scan(path, &announced(64 << 20), 1).is_ok(), "{path}");
    }
}

/// The texts of a message without lists are names, and few.
#[test]
fn the_longest_names_fit_into_every_message_of_texts() {
    const NAME: usize = 4 * 256; // bytes of as many characters
    let of_texts = MESSAGES.requests.iter().filter(|(_, one)| one.fields == Fields::Texts);
    let of_texts: Vec<_> = of_texts.collect();
    assert!(of_texts.len() > 50, "{}", of_texts.len());
    for (path, request) in of_texts {
        let texts = texts_of(request.message, 0);
        assert!(texts * (NAME + 8) <= Bounds::of(path).longest() / 4, "{path}: {texts} texts");
    }
}

/// Number of texts of a message and of the messages in it.
fn texts_of(message: usize, depth: usize) -> usize {
    let fields = MESSAGES.messages[message].0.values().filter(|_| depth < 8);
    let texts = fields.map(|field| match field.content {
        Content::Message(inner) => texts_of(inner, depth + 1),
        Content::Text => 1,
        Content::Varints | Content::Fixed(_) => 0,
    });
    texts.sum()
}

/// The body of a call with these parts so far, and what further ones are sent to.
async fn begun(
    is_stream: bool,
    sent: &[&'static [u8]],
) -> (BoundedBody, Sender<Result<Frame<Bytes>, Status>>) {
    let request = MESSAGES.requests["/fabricast.v1.TicService/PlanMgids"].message;
    let (parts, received) = tokio::sync::mpsc::channel(2);
    for &part in sent {
        parts.send(Ok(Frame::data(Bytes::from_static(part)))).await.unwrap();
    }
    let body = Body::new(StreamBody::new(ReceiverStream::new(received)));
    let scanner = Scanner::new(&MESSAGES, request, Bounds::of(""));
    let frames = BodyStream::new(body);
    let body = BoundedBody {
        frames,
        scanner,
        is_stream,
        is_unary: !is_stream,
        bytes: None,
        deadline: (!is_stream).then(|| Box::pin(sleep(MESSAGE_TIMEOUT))),
        work: None,
        end: None,
        room: None,
    };
    (body, parts)
}

/// Reads a call in parts, after which nothing more comes; gives how it ended.
async fn body(is_stream: bool, sent: &[&'static [u8]]) -> Result<usize, Status> {
    let (mut body, parts) = begun(is_stream, sent).await;
    let mut count = 0;
    let all = async {
        while let Some(frame) = body.next().await {
            count += frame?.data_ref().map_or(0, Bytes::len);
        }
        Ok(())
    };
    let ended = tokio::time::timeout(MESSAGE_TIMEOUT * 10, all).await;
    drop(parts);
    ended.unwrap_or(Ok(())).map(|()| count)
}

#[tokio::test(start_paused = true)]
async fn a_message_that_does_not_end_is_given_up_and_silence_between_messages_is_not() {
    const WHOLE: &[u8] = &[0, 0, 0, 0, 3, 2, 1, 7];
    for sent in [[&WHOLE[..3], &WHOLE[3..6]], [WHOLE, &WHOLE[..7]]] {
        let refused = body(true, &sent).await.unwrap_err();
        assert!(Reason::RequestTooSlow.is_of(&refused), "{sent:?}: {refused}");
    }
    assert_eq!(body(true, &[]).await.unwrap(), 0);
    assert_eq!(body(true, &[WHOLE, WHOLE]).await.unwrap(), 16);
    assert_eq!(body(true, &[&WHOLE[..2], &WHOLE[2..]]).await.unwrap(), 8);
}

#[tokio::test(start_paused = true)]
async fn a_request_of_one_message_that_does_not_begin_or_end_is_given_up() {
    const WHOLE: &[u8] = &[0, 0, 0, 0, 3, 2, 1, 7];
    let parts: [&[&[u8]]; 3] = [&[], &[&WHOLE[..3], &WHOLE[3..6]], &[WHOLE]];
    for sent in parts {
        let refused = body(false, sent).await.unwrap_err();
        assert!(Reason::RequestTooSlow.is_of(&refused), "{sent:?}: {refused}");
    }
}

/// Time stands still, so nothing is earned.
#[tokio::test(start_paused = true)]
async fn bytes_of_a_request_are_charged_to_its_client_and_those_of_a_stream_are_not() {
    const WHOLE: &[u8] = &[0, 0, 0, 0, 3, 2, 1, 7];
    for (is_stream, charged) in [(false, 8), (true, 0)] {
        let usage = usage("tenant/a");
        let (mut body, parts) = begun(is_stream, &[&WHOLE[..3], &WHOLE[3..]]).await;
        drop(parts);
        body.work = Some(CallWork::new(CallCost::of(Arc::clone(&usage)), "-"));
        let before = usage.spent();
        while let Some(frame) = body.next().await {
            assert!(frame.is_ok());
        }
        assert_eq!(usage.spent() - before, Duration::from_nanos(charged));
    }
}

#[test]
fn the_message_that_arrives_and_the_one_before_it_are_held() {
    let request = MESSAGES.requests["/fabricast.v1.TicService/PlanMgids"].message;
    let mut scanner = Scanner::new(&MESSAGES, request, Bounds::of(""));
    let message = framed(&empty_elements(1, 50));
    let mut held = |bytes: &[u8]| {
        scanner.read(bytes).unwrap();
        scanner.held()
    };
    // Twenty elements are in a list with room for 32, after one with room for 16.
    let group = scan("TicService/PlanMgids", &framed(&empty_elements(1, 4)), 9).unwrap() / 4;
    assert_eq!((held(&message[..3]), held(&message[3..45])), (0, (40 + 48 * group) / 4));
    let whole = (100 + 96 * group) / 4;
    assert_eq!(held(&message[45..]), whole);
    assert_eq!(held(&message[..35]), whole + (30 + 24 * group) / 4);
    assert_eq!(held(&message[35..]), whole);
    assert_eq!(held(&framed(&[])), 0);
}

/// An element without a field: its key and its length, 0.
fn empty_elements(field: u8, count: usize) -> Vec<u8> {
    [field << 3 | 2, 0].repeat(count)
}

#[test]
fn lists_of_empty_elements_are_refused_before_they_are_decoded() {
    for path in [
        "GroupBatchService/JoinMany",
        "GroupBatchService/LeaveMany",
        "GroupBatchService/GetMany",
        "GroupAgentService/RegisterMembers",
        "GroupAgentService/ReportOperatingAgents",
        "OperatingAgentService/UpdatePositions",
        "OperatingAgentService/JoinMany",
        "FabricService/AttachEndpoints",
        "TicService/PlanMgids",
    ] {
        let few = framed(&empty_elements(1, 1_000));
        let elements = scan(path, &few, 7).unwrap();
        assert!(elements >= 24 * 1_000, "{path}: {elements}");
        let many = framed(&empty_elements(1, 1 << 20));
        let refused = scan(path, &many, 4_096).unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted, "{path}");
    }
}

/// The sizes that the bound is about are those of the messages in memory.
#[test]
fn sizes_are_near_those_in_memory() {
    let of = |path: &str| scan(path, &framed(&empty_elements(1, 4)), 1).unwrap() / 4;
    for (path, real) in [
        ("GroupBatchService/JoinMany", size_of::<v1::JoinGroupRequest>()),
        ("GroupBatchService/LeaveMany", size_of::<v1::LeaveGroupRequest>()),
        ("GroupAgentService/RegisterMembers", size_of::<v1::RegisterMemberRequest>()),
        ("OperatingAgentService/UpdatePositions", size_of::<v1::Position>()),
        ("GroupAgentService/ReportOperatingAgents", size_of::<v1::OperatingAgentStatus>()),
    ] {
        let counted = of(path);
        assert!(counted * 4 >= real * 3 && counted * 3 <= real * 4, "{path}: {counted}, {real}");
    }
}

#[test]
fn ordinary_messages_pass_in_pieces_of_any_length() {
    let member = |at: u32| v1::Member {
        pn: at,
        node: format!("n{at}"),
        process: "p".to_owned(),
        ..Default::default()
    };
    let register = |at: u32| v1::RegisterMemberRequest {
        agent_node: "n0".to_owned(),
        gn: 7,
        epoch: 1 << 60,
        member: Some(member(at)),
    };
    let request = v1::RegisterMembersRequest { members: (0..10_000).map(register).collect() };
    let message = request.encode_to_vec();
    let two = [framed(&message), framed(&message)].concat();
    let path = "GroupAgentService/RegisterMembers";
    let whole = scan(path, &two, two.len()).unwrap();
    let empty = scan(path, &framed(&empty_elements(1, 10_000)), 99).unwrap();
    assert_eq!(whole, empty + 10_000 * 3 * 8, "and three short names each");
    for piece in [1, 2, 3, 1_000] {
        assert_eq!(scan(path, &two, piece).unwrap(), whole);
    }
}

#[test]
fn elements_within_elements_count() {
    let path = "OperatingAgentService/UpdatePositions";
    let children = empty_elements(6, 100);
    let position = [&[1 << 3 | 2, 200, 1][..], &children].concat();
    let one = scan(path, &framed(&empty_elements(1, 1)), 8).unwrap();
    let neighbor = size_of::<v1::Neighbor>();
    assert_eq!(scan(path, &framed(&position), 8).unwrap(), one + 128 * neighbor);
}

/// Bytes that decoders read in another way than the scanner could hide elements from it.
#[test]
fn what_is_no_message_is_refused_before_elements_can_follow() {
    let path = "GroupBatchService/FormGroups";
    let elements = empty_elements(1, 100);
    let garbage_in_a_group =
        [&[15 << 3 | 3, 1 << 3 | 2, 1, 7, 15 << 3 | 4][..], &elements].concat();
    let longer_than_around = [&[3 << 3 | 2, 3, 2 << 3 | 2, 200, 1][..], &elements].concat();
    let ends_within_a_length = [&[3 << 3 | 2, 2, 2 << 3 | 2, 200, 1][..], &elements].concat();
    let endless_number = [&[0xff; 11][..], &elements].concat();
    let longer_than_all = [&[1 << 3 | 2, 250][..], &elements[..40]].concat();
    let no_kind = vec![7; 300];
    for bytes in [
        garbage_in_a_group,
        longer_than_around,
        ends_within_a_length,
        longer_than_all,
        endless_number,
        no_kind,
    ] {
        for piece in [1, 1_000] {
            let refused = scan(path, &framed(&bytes), piece).unwrap_err();
            assert!(Reason::RequestUnreadable.is_of(&refused), "{refused}");
        }
    }
}

#[test]
fn numbers_count_as_many_bytes_as_they_take_once_decoded() {
    let path = "RouteChoiceService/RecordRouteChoices";
    let packed = |count: usize| {
        let mut text = vec![6 << 3 | 2];
        prost::encoding::encode_varint(count as u64, &mut text);
        framed(&[text, vec![1; count]].concat())
    };
    let single = |count: usize| framed(&[6 << 3, 1].repeat(count));
    for piece in [1, 100, 1 << 20] {
        assert_eq!(scan(path, &packed(1_000), piece).unwrap(), 1_024 * 8);
        assert_eq!(scan(path, &single(1_000), piece).unwrap(), 1_024 * 8);
    }
    // Two bytes each, of which the second begins the next piece.
    let long = framed(&[&[6 << 3 | 2, 4][..], &[0x81, 1, 0x81, 1]].concat());
    assert_eq!(scan(path, &long, 8).unwrap(), 4 * 8);
    let refused = scan(path, &packed(3 << 20), 1 << 16).unwrap_err();
    assert!(Reason::LimitReached.is_of(&refused), "{refused}");
    let ports = [&[3 << 3 | 2, 100][..], &[1; 100]].concat();
    let entry = [&[2 << 3 | 2, 102][..], &ports].concat();
    let write = [&[2 << 3 | 2, 104][..], &entry].concat();
    let bytes = scan("SwitchAgentService/WriteTables", &framed(&write), 7).unwrap();
    let lists = 4 * (size_of::<v1::SwitchWrite>() + size_of::<v1::TableEntry>());
    assert_eq!(bytes, lists + 128 * 4);
}

#[test]
fn the_longest_tables_and_plans_pass() {
    // As many entries as a route service writes at once, to more ports than switches have.
    let entry = |color| v1::TableEntry { in_port: 0, color, out_ports: (1..=257).collect() };
    let write =
        v1::SwitchWrite { switch_name: "s0".to_owned(), entries: (0..20_000).map(entry).collect() };
    let writes = v1::WriteTablesRequest { fence: None, writes: vec![write] };
    let bytes = scan("SwitchAgentService/WriteTables", &framed(&writes.encode_to_vec()), 1 << 16);
    assert!(bytes.unwrap() > 2 * FREE_BYTES);
    let plan = v1::PlannedGroup {
        endpoints: (0..65_537).map(|at| format!("h{at}")).collect(),
        ..Default::default()
    };
    let plan = v1::PlanMgidsRequest { groups: vec![plan; 8] }.encode_to_vec();
    assert!(plan.len() < 4 << 20);
    scan("TicService/PlanMgids", &framed(&plan), 1 << 16).unwrap();
}

#[test]
fn more_elements_than_a_call_takes_are_refused_while_they_arrive() {
    for path in ["GroupBatchService/JoinMany", "GroupAgentService/RegisterMembers"] {
        let empty = |count: usize| framed(&[0x0a, 0].repeat(count));
        scan(path, &empty(10_000), 1 << 10).unwrap();
        let many = empty(1 << 20);
        let begun = &many[..30_000];
        let refused = scan(path, begun, 1 << 10).unwrap_err();
        assert!(Reason::LimitReached.is_of(&refused), "{path}: {refused}");
    }
}

#[test]
fn empty_members_of_groups_take_no_more_than_sixteen_times_their_bytes() {
    let path = "GroupBatchService/FormGroups";
    let group = |members: &[u8]| {
        let spec = v1::FormedGroupSpec { group: "g".to_owned(), ..Default::default() };
        let spec = [spec.encode_to_vec(), members.to_vec()].concat();
        let mut text = vec![0x1a];
        prost::encoding::encode_varint(spec.len() as u64, &mut text);
        framed(&[text, spec].concat())
    };
    let member = v1::FormedMember {
        endpoint: "h12345".to_owned(),
        process: "p0".to_owned(),
        ..Default::default()
    };
    let member = member.encode_to_vec();
    let one = [&[0x12, u8::try_from(member.len()).unwrap()], &member[..]].concat();
    // The latter have just made the list twice as long.
    for count in [400_000, 270_000] {
        let bytes = scan(path, &group(&one.repeat(count)), 1 << 16).unwrap();
        assert!(bytes > FREE_BYTES, "{bytes}");
    }
    let refused = scan(path, &group(&[0x12, 0].repeat(1_250_000)), 1 << 16).unwrap_err();
    assert!(Reason::LimitReached.is_of(&refused), "{refused}");
}
