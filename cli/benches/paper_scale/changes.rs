//! Changes of groups and of the fabric while 8 900 groups are programmed, and rest.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use fabricast_cli::cluster::Cluster;
use fabricast_proto::v1;
use fabricast_proto::v1::directory_change::Kind;
use fabricast_proto::v1::fabric_service_client::FabricServiceClient;
use fabricast_proto::v1::operating_agent_service_client::OperatingAgentServiceClient;
use fabricast_proto::v1::route_service_client::RouteServiceClient;
use fabricast_proto::v1::tic_service_client::TicServiceClient;
use fabricast_rpc::Channel;
use fabricast_topology::Graph;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{GRID, PER_ENDPOINT, channel, process};

/// Joins that are timed one by one, and the pause after each.
const JOINS: usize = 200;
const PAUSE: Duration = Duration::from_millis(20);
/// Joins and leaves in a second, and for how long.
const RATE: u32 = 1_000;
const TIME: u32 = 60;
/// Dry runs that are timed.
const DRY_RUNS: usize = 5;
/// Time for which the process rests.
const REST: Duration = Duration::from_secs(10);
/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(30);
/// Clock ticks per second of `/proc/self/stat`.
const TICKS: u64 = 100;

/// Records as the watch of the TIC has sent them.
#[derive(Default)]
struct Records {
    /// Color of each group's route, by MGID.
    colors: BTreeMap<u32, u32>,
    /// Revision of each join, by GN and process.
    joined: BTreeMap<(u64, String), u64>,
    /// Reported routes by GN: the routed revision, and when the report came.
    reports: BTreeMap<u64, Vec<(u64, Instant)>>,
}

/// A group along the first direction of the grid.
#[derive(Clone, Copy)]
struct Line {
    b: usize,
    c: usize,
}

struct Bench<'a> {
    graph: &'a Graph,
    nodes: BTreeMap<String, String>,
    agent: OperatingAgentServiceClient<Channel>,
    fabric: FabricServiceClient<Channel>,
    records: watch::Receiver<Records>,
}

pub(super) async fn measure(cluster: &Cluster, graph: &Graph) {
    let (sender, records) = watch::channel(Records::default());
    let following = tokio::spawn(follow(TicServiceClient::new(channel(cluster.tic)), sender));
    let nodes = cluster.owners();
    let mut bench = Bench {
        graph,
        nodes,
        agent: OperatingAgentServiceClient::new(channel(cluster.operating[0])),
        fabric: FabricServiceClient::new(channel(cluster.fabric)),
        records,
    };
    bench
        .records
        .wait_for(|records| !records.colors.is_empty())
        .await
        .expect("the TIC sends its records");
    let share = rest().await;
    bench.join_one_by_one(share).await;
    bench.join_and_leave().await;
    bench.cut_link(cluster.router).await;
    following.abort();
}

/// Follows the records of the TIC.
async fn follow(mut tic: TicServiceClient<Channel>, records: watch::Sender<Records>) {
    let watch = tic.watch_directory(v1::WatchDirectoryRequest {}).await;
    let mut watch = watch.expect("the TIC serves a watch").into_inner();
    let mut snapshot = Some(Records::default());
    while let Some(message) = watch.message().await.expect("the watch goes on") {
        let now = Instant::now();
        let changes = || message.changes.iter().filter_map(|change| change.kind.as_ref());
        match &mut snapshot {
            Some(found) => {
                changes().for_each(|change| found.apply(change, now));
                if message.snapshot_end {
                    records.send_replace(snapshot.take().expect("it was there"));
                }
            }
            None => records.send_modify(|records| {
                changes().for_each(|change| records.apply(change, now));
            }),
        }
    }
}

impl Records {
    fn apply(&mut self, change: &Kind, now: Instant) {
        match change {
            Kind::Group(group) => {
                let Some(route) = &group.route else { return };
                self.colors.insert(group.mgid, route.color);
                self.reports.entry(group.gn).or_default().push((route.routed_revision, now));
            }
            Kind::Joined(v1::MemberChange { gn, member: Some(member) }) => {
                self.joined.insert((*gn, member.process.clone()), member.joined_revision);
            }
            _ => {}
        }
    }

    /// Time of the first report of a route that serves a member.
    fn served(&self, member: &(u64, String)) -> Option<Instant> {
        let joined = self.joined.get(member)?;
        let mut reports = self.reports.get(&member.0)?.iter();
        reports.find(|(revision, _)| revision >= joined).map(|(_, at)| *at)
    }
}

/// Measures the process while nothing is asked of it. Returns its share of a processor.
async fn rest() -> f64 {
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (started, before) = (Instant::now(), processor_time());
    tokio::time::sleep(REST).await;
    let share = (processor_time() - before).as_secs_f64() / started.elapsed().as_secs_f64();
    println!("figure paper_scale/rest/processor_time_per_second {:.0} ms", share * 1e3);
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let memory = memory.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    println!("figure paper_scale/rest/memory {} MiB", memory.expect("a size in KiB") / 1024);
    share
}

/// Processor time of this process so far.
fn processor_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields = stat.rsplit(')').next().expect("fields follow the name").split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 1_000 / TICKS)
}

/// Prints the median and the 99th percentile.
fn print(path: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let millis = |share: usize| times[(times.len() - 1) * share / 100].as_secs_f64() * 1e3;
    println!("figure paper_scale/{path}/median {:.2} ms", millis(50));
    println!("figure paper_scale/{path}/99th_percentile {:.2} ms", millis(99));
}

/// Times `fabric fail --dry-run` of a link.
async fn dry_run(router: SocketAddr, link: &v1::TreeLink) {
    let mut longest = Duration::ZERO;
    for _ in 0..DRY_RUNS {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fabricast"));
        command.args(["fabric", "fail", "--dry-run", "--server"]).arg(router.to_string());
        command.arg("--link").arg(format!("{}:{}", link.switch_name, link.port));
        let started = Instant::now();
        let ended = tokio::task::spawn_blocking(move || command.output()).await;
        longest = longest.max(started.elapsed());
        let ended = ended.expect("no panic").expect("the command runs");
        let text = String::from_utf8_lossy(&ended.stdout);
        assert!(ended.status.success() && text.contains("spanning tree"), "{ended:?}");
    }
    println!("figure paper_scale/dry_run/fail_link {} ms", longest.as_millis());
}

impl Bench<'_> {
    /// Endpoint of a process of the grid.
    fn endpoint(&self, process: usize) -> String {
        let endpoint = self.graph.endpoints().nth(process / PER_ENDPOINT).expect("on the fabric");
        self.graph.endpoint_name(endpoint).to_owned()
    }

    /// The request of a new process to join a line, at an endpoint where the line has no member.
    fn join(
        &self,
        line: Line,
        number: usize,
    ) -> (v1::OperatingAgentServiceJoinGroupRequest, String) {
        let [_, y, z] = GRID;
        let at = process(number % 100, (line.b + 1 + number % (y - 1)) % y, (line.c + z / 2) % z);
        let endpoint = self.endpoint(at);
        let request = v1::OperatingAgentServiceJoinGroupRequest {
            node: self.nodes[&endpoint].clone(),
            group: format!("x/{}/{}", line.b, line.c),
            process: format!("late{number}"),
            ..Default::default()
        };
        (request, endpoint)
    }

    fn line(number: usize) -> Line {
        let [_, y, z] = GRID;
        Line { b: number * 7 % y, c: number * 11 % z }
    }

    async fn join_one_by_one(&mut self, share: f64) {
        let (mut acknowledged, mut arrived) = (Vec::new(), Vec::new());
        let (started, before) = (Instant::now(), processor_time());
        for number in 0..JOINS {
            let line = Self::line(number);
            let (request, endpoint) = self.join(line, number);
            let asked = Instant::now();
            let joined = self.agent.join_group(request).await.expect("it is acknowledged");
            acknowledged.push(asked.elapsed());
            let membership = joined.into_inner().membership.expect("a membership");
            let known = Instant::now();
            let sender = self.endpoint(process(0, line.b, line.c));
            self.until_delivered(&sender, membership.mgid, &[endpoint]).await;
            arrived.push(known.elapsed());
            tokio::time::sleep(PAUSE).await;
        }
        let spent = (processor_time() - before).as_secs_f64();
        let each = (spent - share * started.elapsed().as_secs_f64()).max(0.0) / JOINS as f64;
        print("join/until_acknowledged", acknowledged);
        print("join/acknowledged_until_first_packet", arrived);
        println!("figure paper_scale/join/processor_time {:.2} ms", each * 1e3);
    }

    /// Sends packets with the color as reported until one reaches these endpoints.
    async fn until_delivered(&mut self, sender: &str, mgid: u32, to: &[String]) {
        let started = Instant::now();
        while !self.is_delivered(sender, mgid, to).await {
            assert!(started.elapsed() < PATIENCE, "the packet never arrives");
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
    }

    /// Sends a packet with the newest color of the group; true if it has arrived everywhere.
    async fn is_delivered(&mut self, sender: &str, mgid: u32, to: &[String]) -> bool {
        let color = self.records.borrow().colors[&mgid];
        let packet = Some(v1::Packet { mgid, color, ..Default::default() });
        let request = v1::InjectPacketRequest { endpoint: sender.to_owned(), packet };
        let sent = self.fabric.inject_packet(request).await.expect("the fabric answers");
        let delivered = sent.into_inner().delivered;
        to.iter().all(|endpoint| delivered.contains(endpoint))
    }

    /// Joins at half the rate; each process leaves a second later.
    async fn join_and_leave(&mut self) {
        let (started, before) = (Instant::now(), processor_time());
        let mut changes = JoinSet::new();
        for number in 0..RATE / 2 * TIME {
            let due = started + Duration::from_secs(2) * number / RATE;
            tokio::time::sleep_until(due.into()).await;
            let number = number as usize;
            let (join, _) = self.join(Self::line(number), JOINS + number);
            let mut agent = self.agent.clone();
            changes.spawn(async move {
                let leave = v1::OperatingAgentServiceLeaveGroupRequest {
                    node: join.node.clone(),
                    group: join.group.clone(),
                    process: join.process.clone(),
                    ..Default::default()
                };
                let joined = agent.join_group(join).await.expect("it is acknowledged");
                let acknowledged = Instant::now();
                tokio::time::sleep(Duration::from_secs(1)).await;
                agent.leave_group(leave).await.expect("it is acknowledged");
                let membership = joined.into_inner().membership.expect("a membership");
                ((membership.gn, membership.process), acknowledged)
            });
        }
        let mut members = Vec::new();
        while let Some(member) = changes.join_next().await {
            members.push(member.expect("no panic"));
        }
        let are_served =
            |records: &Records| members.iter().all(|(member, _)| records.served(member).is_some());
        let served = tokio::time::timeout(PATIENCE, self.records.wait_for(are_served)).await;
        let records = served.expect("all are routed in time").expect("the watch goes on");
        let lags = members.iter().map(|(member, acknowledged)| {
            let served = records.served(member).expect("it is");
            served.saturating_duration_since(*acknowledged)
        });
        print("churn/acknowledged_until_reported", lags.collect());
        let spent = (processor_time() - before).as_secs_f64() / started.elapsed().as_secs_f64();
        println!("figure paper_scale/churn/processor_time_per_second {:.0} ms", spent * 1e3);
    }

    /// Cuts a link of the group `x/0/0` and waits for all groups that had it.
    async fn cut_link(&mut self, address: SocketAddr) {
        let mut router = RouteServiceClient::new(channel(address));
        let mut explain = async |group: String| {
            let request = v1::ExplainRouteRequest { group };
            let found = router.explain_route(request).await.expect("the group exists");
            found.into_inner().explanation.expect("an explanation")
        };
        let links = explain("x/0/0".to_owned()).await.links;
        let link = links.into_iter().find(|link| link.peer_port > 0).expect("it leaves its leaf");
        let mut hit = Vec::new();
        let [x, y, z] = GRID;
        for (b, c) in (0..y).flat_map(|b| (0..z).map(move |c| (b, c))) {
            let route = explain(format!("x/{b}/{c}")).await;
            if route.links.contains(&link) {
                let members: Vec<String> =
                    (0..x).map(|a| self.endpoint(process(a, b, c))).collect();
                hit.push((route.mgid, members));
            }
        }
        dry_run(address, &link).await;
        let end = v1::PortName { switch_name: link.switch_name, port: link.port };
        let element = Some(v1::Element { kind: Some(v1::element::Kind::Link(end)) });
        let cut = Instant::now();
        let request = v1::FailElementRequest { element: element.clone() };
        self.fabric.fail_element(request).await.expect("the fabric cuts it");
        let groups = hit.len();
        let mut times = Vec::new();
        while !hit.is_empty() {
            assert!(cut.elapsed() < PATIENCE, "packets never arrive");
            let mut missing = Vec::new();
            for (mgid, members) in hit {
                let (sender, others) = members.split_first().expect("a group has members");
                let is_other = |member: &&String| *member != sender;
                let others: Vec<String> = others.iter().filter(is_other).cloned().collect();
                if self.is_delivered(sender, mgid, &others).await {
                    times.push(cut.elapsed());
                } else {
                    missing.push((mgid, members));
                }
            }
            hit = missing;
        }
        // A group whose new entries other groups have still waits until their packets have drained.
        let last = times.last().copied().unwrap_or_default().as_secs_f64() * 1e3;
        print("cut_link/until_first_packet", times);
        println!("figure paper_scale/cut_link/until_first_packet/last {last:.2} ms");
        println!("{groups} groups of the first direction had the link");
        self.fabric.heal_element(v1::HealElementRequest { element }).await.expect("it heals");
    }
}
