//! Memory that decoders really take, compared with what is counted before.

use std::collections::BTreeSet;
use std::process::Command;

use fabricast_proto::v1;
use peak_alloc::PeakAlloc;
use prost::Message;

use super::super::scan::{Bounds, FACTOR, Scanner};
use super::super::sizes::{Content, MESSAGES};
use super::framed;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Set in the process that measures, so that no other test allocates beside it.
const ALONE: &str = "FABRICAST_TEST_MEASURES_MEMORY";
/// Bytes of a message. What lists take grows in proportion.
const LENGTH: usize = 16 << 10;
/// Bytes that a message itself may take, without lists.
const OWN: usize = 2_048;

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

/// Most bytes of memory for each byte that a call is charged with, and the number of messages that
/// were taken.
fn worst(path: &str, decode: Decode) -> (f64, usize) {
    let path = format!("/fabricast.v1.{path}");
    let request = MESSAGES.requests[&path].message;
    let (mut worst, mut taken) = (0_f64, 0);
    let counts = [1, 5, 1_025, 4_097];
    for shape in counts.into_iter().flat_map(|count| shapes(request, count, 0)) {
        for times in BTreeSet::from([1, (LENGTH / shape.len().max(1)).max(1)]) {
            let message = shape.repeat(times);
            let mut scanner = Scanner::new(&MESSAGES, request, Bounds::of(&path));
            if scanner.read(&framed(&message)).is_err() {
                continue;
            }
            let before = ALLOCATOR.current_usage();
            ALLOCATOR.reset_peak_usage();
            assert!(decode(&message), "{path}: {:?}", &message[..message.len().min(20)]);
            let peak = ALLOCATOR.peak_usage() - before + message.len();
            let (peak, held) = (peak.saturating_sub(OWN), scanner.held());
            taken += 1;
            #[expect(clippy::cast_precision_loss, reason = "a ratio")]
            let ratio = peak as f64 / held as f64;
            worst = worst.max(ratio);
        }
    }
    (worst, taken)
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
    let mut failed = Vec::new();
    for (path, decode) in &requests {
        let (ratio, taken) = worst(path, *decode);
        assert!(taken > 0, "{path}");
        #[expect(clippy::cast_precision_loss, reason = "a small number")]
        if ratio > FACTOR as f64 {
            failed.push(format!("{path}: {ratio:.2}"));
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
    let is_left_out = |path: &str, request: usize| {
        holds_lists(request, 0) && !requests.iter().any(|(known, _)| path.ends_with(known))
    };
    let left_out =
        MESSAGES.requests.iter().filter(|(path, request)| is_left_out(path, request.message));
    let left_out: Vec<&String> = left_out.map(|(path, _)| path).collect();
    assert!(left_out.is_empty(), "not measured: {left_out:?}");
}
