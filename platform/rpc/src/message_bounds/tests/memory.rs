//! Memory that decoders really take, compared with what is counted before.

use std::collections::BTreeSet;
use std::process::Command;

use fabricast_proto::v1;
use peak_alloc::PeakAlloc;
use prost::Message;

use super::super::scan::{Bounds, FACTOR, Scanner};
use super::super::sizes::{Content, MESSAGES};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Set in the process that measures, so that no other test allocates beside it.
const ALONE: &str = "FABRICAST_TEST_MEASURES_MEMORY";
/// Bytes of a message. What lists take grows in proportion.
const LENGTH: usize = 16 << 10;
/// Bytes that a message itself may take, without lists.
const OWN: usize = 2_048;
/// Bytes of the longest message that a service accepts.
const LONGEST: usize = 64 << 20;
/// Calls of which the longest message is measured: those that take the most for their bytes.
const LONGEST_MEASURED: usize = 3;
/// Bytes in memory of elements that the longest messages have. Shorter ones take no more memory in
/// all, but there are so many that a decoder without optimization takes long.
const LARGE_ELEMENT: usize = 256;
/// A field that nobody knows.
const UNKNOWN: u32 = 1_000;

/// Decodes a message and drops it.
type Decode = fn(&[u8]) -> bool;

macro_rules! requests {
    ($($path:literal $request:ident,)*) => {
        [$(($path, (|bytes| v1::$request::decode(bytes).is_ok()) as Decode),)*]
    };
}

/// Calls whose requests hold lists, and some others.
fn requests() -> Vec<(&'static str, Decode)> {
    requests! {
        "CollectiveAgentService/RunCollective" RunCollectiveRequest,
        "CollectiveService/CreateCollective" CreateCollectiveRequest,
        "CollectiveService/ReportAggregationTrees" ReportAggregationTreesRequest,
        "CollectiveService/ReserveEntries" ReserveEntriesRequest,
        "CollectiveService/SetTreeConstants" SetTreeConstantsRequest,
        "FabricAggregationService/ContributeValues" ContributeValuesRequest,
        "FabricAggregationService/ReadFabricAggregation" ReadFabricAggregationRequest,
        "FabricAggregationService/WriteFabricAggregation" WriteFabricAggregationRequest,
        "FabricService/AttachEndpoints" AttachEndpointsRequest,
        "FabricService/ReadSwitchCounters" ReadSwitchCountersRequest,
        "FabricService/ReadSwitchTables" ReadSwitchTablesRequest,
        "FabricService/WriteSwitchTables" WriteSwitchTablesRequest,
        "GroupAgentService/NotifyGroups" NotifyGroupsRequest,
        "GroupAgentService/RegisterMembers" RegisterMembersRequest,
        "GroupAgentService/ReportOperatingAgents" ReportOperatingAgentsRequest,
        "GroupBatchService/FormGroups" FormGroupsRequest,
        "GroupBatchService/GetMany" GetManyRequest,
        "GroupBatchService/JoinMany" JoinManyRequest,
        "GroupBatchService/LeaveMany" LeaveManyRequest,
        "JobService/CreateJob" CreateJobRequest,
        "JobService/ReserveJob" ReserveJobRequest,
        "OperatingAgentService/JoinGroup" OperatingAgentServiceJoinGroupRequest,
        "OperatingAgentService/JoinMany" OperatingAgentServiceJoinManyRequest,
        "OperatingAgentService/LeaveMany" OperatingAgentServiceLeaveManyRequest,
        "OperatingAgentService/MeasureOperations" MeasureOperationsRequest,
        "OperatingAgentService/OpenLink" OpenLinkRequest,
        "OperatingAgentService/UpdatePositions" UpdatePositionsRequest,
        "ProcessService/ListParticipants" ListParticipantsRequest,
        "ProcessService/OpenDirectPath" OpenDirectPathRequest,
        "ProcessService/ReserveMembers" ReserveMembersRequest,
        "ProcessService/RunOperation" RunOperationRequest,
        "ProcessService/ShareMemory" ShareMemoryRequest,
        "ProcessService/TakePart" TakePartRequest,
        "RouteChoiceService/RecordRouteChoices" RecordRouteChoicesRequest,
        "RouteService/PlanFaults" PlanFaultsRequest,
        "SwitchAgentService/ReadCounters" ReadCountersRequest,
        "SwitchAgentService/ReadTables" ReadTablesRequest,
        "SwitchAgentService/WriteTables" WriteTablesRequest,
        "SwitchAggregationService/WriteAggregation" WriteAggregationRequest,
        "TicService/JoinGroup" JoinGroupRequest,
        "TicService/MoveGroups" MoveGroupsRequest,
        "TicService/PlanMgids" PlanMgidsRequest,
        "TicService/RegisterNode" RegisterNodeRequest,
        "TicService/ReportFailedElements" ReportFailedElementsRequest,
        "TicService/ReportGroupAgents" ReportGroupAgentsRequest,
        "TicService/ReportRoutes" ReportRoutesRequest,
        "TopologyService/ReportTopology" ReportTopologyRequest,
    }
    .to_vec()
}

/// A field with a content.
fn part(field: u32, content: &[u8]) -> Vec<u8> {
    let mut part = Vec::new();
    prost::encoding::encode_key(field, prost::encoding::WireType::LengthDelimited, &mut part);
    prost::encoding::encode_varint(content.len() as u64, &mut part);
    part.extend(content);
    part
}

/// Messages with so many of the shortest elements in one of their lists, and one in all lists
/// around it.
fn shapes(message: usize, count: usize, depth: usize) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for (&field, known) in MESSAGES.messages[message].0.iter().filter(|_| depth < 8) {
        let is_list = known.element > 0;
        let times = if is_list { count } else { 1 };
        match known.content {
            Content::Message(inner) => {
                all.push(part(field, &[]).repeat(times));
                let inner = shapes(inner, count, depth + 1);
                all.extend(inner.iter().map(|inner| part(field, inner)));
            }
            Content::Text => {
                all.push(part(field, b"").repeat(times));
                all.push(part(field, b"a").repeat(times));
            }
            Content::Varints => {
                all.push(part(field, &vec![1; count]));
                let mut key = Vec::new();
                prost::encoding::encode_key(field, prost::encoding::WireType::Varint, &mut key);
                all.push([&key[..], &[1]].concat().repeat(count));
            }
            Content::Fixed(bytes) => all.push(part(field, &vec![1; count * bytes])),
        }
    }
    all
}

/// True if a message holds a list, or a message in it does.
fn holds_lists(message: usize, depth: usize) -> bool {
    depth < 8
        && MESSAGES.messages[message].0.values().any(|field| match field.content {
            Content::Message(inner) => field.element > 0 || holds_lists(inner, depth + 1),
            Content::Text => field.element > 0,
            Content::Varints | Content::Fixed(_) => true,
        })
}

/// A message that was taken.
struct Measured {
    /// Bytes of memory for each byte that it is charged with.
    ratio: f64,
    /// Bytes of its lists and texts, as they are counted.
    kept: usize,
}

/// Decodes a message; `None` if it is refused before.
fn measure(path: &str, decode: Decode, message: &[u8]) -> Option<Measured> {
    let request = MESSAGES.requests[path].message;
    let mut scanner = Scanner::new(&MESSAGES, request, Bounds::of(path));
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    let head = [&[0], &length[..]].concat();
    [&head[..], message].into_iter().try_for_each(|part| scanner.read(part)).ok()?;
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    assert!(decode(message), "{path}: {:?}", &message[..message.len().min(20)]);
    let peak = ALLOCATOR.peak_usage() - before + message.len();
    let (peak, held) = (peak.saturating_sub(OWN), scanner.held());
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    let ratio = peak as f64 / held as f64;
    Some(Measured { ratio, kept: scanner.kept() })
}

/// Messages of one call.
struct Measurements {
    path: String,
    decode: Decode,
    /// Number of messages that were taken.
    taken: usize,
    /// Most bytes of memory for each byte that one was charged with.
    worst: f64,
    /// The same of messages that repeat one large element; 0 if there are none.
    worst_of_element: f64,
    element: Vec<u8>,
}

/// Measures messages of a call with the shortest elements in its lists.
fn measure_short(path: &str, decode: Decode) -> Measurements {
    let path = format!("/fabricast.v1.{path}");
    let request = MESSAGES.requests[&path].message;
    let (taken, worst, worst_of_element, element) = (0, 0.0, 0.0, Vec::new());
    let mut call = Measurements { path, decode, taken, worst, worst_of_element, element };
    let shapes = |count| shapes(request, count, 0).into_iter().map(move |shape| (count, shape));
    for (count, shape) in [1, 5, 1_025, 4_097].into_iter().flat_map(shapes) {
        for times in BTreeSet::from([1, (LENGTH / shape.len().max(1)).max(1)]) {
            let measured = measure(&call.path, decode, &shape.repeat(times));
            let Some(Measured { ratio, kept }) = measured else { continue };
            call.taken += 1;
            call.worst = call.worst.max(ratio);
            let is_large = count == 1 && kept / times >= LARGE_ELEMENT;
            if is_large && ratio > call.worst_of_element {
                (call.worst_of_element, call.element) = (ratio, shape.clone());
            }
        }
    }
    call
}

/// Measures a message of the longest length that takes as much memory as it may: its list has just
/// made room for twice as many elements. `None` if that are more elements than the call takes.
fn measure_longest(call: &Measurements) -> Option<Measured> {
    let each = measure(&call.path, call.decode, &call.element.repeat(4))?.kept / 4;
    let room = 1_usize << (FACTOR * LONGEST / each.max(1)).ilog2();
    let mut message = call.element.repeat(room / 2 + 1);
    // Key and length of the field have six bytes.
    let rest = LONGEST.checked_sub(message.len() + 6)?;
    message.extend(part(UNKNOWN, &vec![0; rest]));
    measure(&call.path, call.decode, &message)
}

#[test]
fn no_request_takes_more_than_four_times_the_bytes_that_it_is_charged_with() {
    if std::env::var_os(ALONE).is_none() {
        let name = std::thread::current().name().expect("a test has a name").to_owned();
        let mut alone = Command::new(std::env::current_exe().unwrap());
        let alone = alone.args(["--exact", &name, "--nocapture"]).env(ALONE, "1");
        let output = alone.output().unwrap();
        let told =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && told.contains("1 passed"), "{told}");
        return;
    }
    let requests = requests();
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    let most = FACTOR as f64;
    let mut calls: Vec<_> =
        requests.iter().map(|(path, decode)| measure_short(path, *decode)).collect();
    assert!(calls.iter().all(|call| call.taken > 0));
    let failed = calls.iter().filter(|call| call.worst > most);
    let failed: Vec<_> = failed.map(|call| format!("{}: {:.2}", call.path, call.worst)).collect();
    assert!(failed.is_empty(), "{failed:?}");
    calls.retain(|call| call.worst_of_element > 0.0);
    calls.sort_by(|one, other| other.worst_of_element.total_cmp(&one.worst_of_element));
    let longest = calls.iter().filter_map(|call| Some((&call.path, measure_longest(call)?)));
    let longest: Vec<_> = longest.take(LONGEST_MEASURED).collect();
    assert_eq!(longest.len(), LONGEST_MEASURED);
    for (path, measured) in longest {
        let Measured { ratio, kept } = measured;
        assert!(kept > LONGEST, "{path}: its lists take {kept} bytes only");
        assert!(ratio <= most, "{path}: {ratio:.2} in a message of {LONGEST} bytes");
    }
    let is_left_out = |path: &str, request: usize| {
        holds_lists(request, 0) && !requests.iter().any(|(known, _)| path.ends_with(known))
    };
    let left_out =
        MESSAGES.requests.iter().filter(|(path, request)| is_left_out(path, request.message));
    let left_out: Vec<&String> = left_out.map(|(path, _)| path).collect();
    assert!(left_out.is_empty(), "not measured: {left_out:?}");
}
