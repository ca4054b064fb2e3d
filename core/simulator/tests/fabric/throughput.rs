//! Saturation: what the fabric carries is the analytic bound where there is one.

use fabricast_simulator::{
    Delivery, Model, MulticastPolicy, Offer, Packet, Route, Simulator, Workload,
};
use fabricast_topology::{EndpointId, Peer};

use crate::support::{Fixture, Script, model, unicast};

/// Endpoints that always have the next packet of a fixed route, and what arrived after a warm-up.
struct Greedy {
    routes: Vec<Option<Route>>,
    bytes: u32,
    from_ps: u64,
    received: Vec<u64>,
}

impl Greedy {
    fn new(routes: Vec<Option<Route>>, bytes: u32, from_ps: u64) -> Self {
        let received = vec![0; routes.len()];
        Self { routes, bytes, from_ps, received }
    }
}

impl Workload for Greedy {
    fn next(&mut self, now_ps: u64, from: EndpointId, _channel: u8) -> Offer {
        let route = self.routes.get(from.index()).copied().flatten();
        let packet = |route| Packet { route, bytes: self.bytes, born_ps: now_ps, tag: 0 };
        route.map_or(Offer::Nothing, |route| Offer::Send(packet(route)))
    }

    fn delivered(&mut self, now_ps: u64, delivery: &Delivery) {
        if now_ps > self.from_ps {
            self.received[delivery.to.index()] += u64::from(delivery.bytes);
        }
    }
}

const WARM_PS: u64 = 20_000_000;
/// 64 times 1 024 bytes later.
const END_PS: u64 = WARM_PS + 65_536_000;

/// Gives what every endpoint received, in parts of a thousand of its link's rate.
fn received(fixture: &Fixture, model: Model, load: Greedy) -> Vec<u64> {
    let mut simulator = Simulator::new(fixture.network(), model, load).expect("a valid model");
    assert_eq!(simulator.run_until(END_PS), Ok(true));
    let capacity = (END_PS - WARM_PS) / model.ps_per_byte;
    simulator.workload().received.iter().map(|bytes| bytes * 1_000 / capacity).collect()
}

fn to(endpoint: u32) -> Option<Route> {
    Some(Route::Unicast(EndpointId(endpoint)))
}

/// A permutation that d-mod-k routes without a shared link runs at full rate everywhere.
#[test]
fn a_permutation_without_shared_links_runs_at_link_rate() {
    let fixture = Fixture::m_port(8, 3);
    let routes = (0..128).map(|from| to((from + 16) % 128)).collect();
    let parts = received(&fixture, model(), Greedy::new(routes, 256, WARM_PS));
    assert!(parts.iter().all(|part| (999..=1_000).contains(part)), "{parts:?}");
}

/// All to one: its link is full, and the senders of one input share it alike with the others.
#[test]
fn a_hot_endpoint_receives_at_link_rate() {
    let fixture = Fixture::m_port(4, 3);
    let routes = (0..16).map(|from| to(0).filter(|_| from > 0)).collect();
    let parts = received(&fixture, model(), Greedy::new(routes, 256, WARM_PS));
    assert!((999..=1_000).contains(&parts[0]), "{parts:?}");
    assert_eq!(parts[1..].iter().sum::<u64>(), 0);
}

/// Two streams over one link get half of it each: the arbiter is fair.
#[test]
fn streams_that_share_a_link_get_equal_parts() {
    let fixture = Fixture::m_port(8, 2);
    // Hosts 0 and 1 to 16 and 20: both destinations are 0 modulo the 4 up-ports.
    let mut routes = vec![None; 32];
    (routes[0], routes[1]) = (to(16), to(20));
    let parts = received(&fixture, model(), Greedy::new(routes, 512, WARM_PS));
    assert!((495..=505).contains(&parts[16]) && (495..=505).contains(&parts[20]), "{parts:?}");
}

/// All-to-all broadcast: every endpoint's link is full, and everyone gets the same from everyone.
#[test]
fn all_to_all_broadcast_fills_every_endpoint_link_with_splitting() {
    let mut fixture = Fixture::m_port(4, 3);
    let members: Vec<u32> = (0..16).collect();
    let routes: Vec<_> = (0..16)
        .map(|source| Some(Route::Tree(fixture.rooted(source, &members, source % 4))))
        .collect();
    let model = Model { multicast: MulticastPolicy::Splitting, buffer_bytes: 8_192, ..model() };
    let parts = received(&fixture, model, Greedy::new(routes, 1_024, WARM_PS));
    assert!(parts.iter().all(|part| *part > 970), "{parts:?}");
}

/// One broadcaster alone fills every link of its tree, whatever the policy.
#[test]
fn a_lone_broadcaster_sends_at_link_rate() {
    for multicast in crate::support::POLICIES {
        let mut fixture = Fixture::m_port(8, 3);
        let members: Vec<u32> = (0..128).collect();
        let tree = fixture.rooted(5, &members, 3);
        let mut routes = vec![None; 128];
        routes[5] = Some(Route::Tree(tree));
        let model = Model { multicast, ..model() };
        let parts = received(&fixture, model, Greedy::new(routes, 1_024, WARM_PS));
        assert!(parts.iter().all(|part| *part >= 984), "{multicast:?} {parts:?}");
    }
}

/// A link carries no more than its credits allow: one buffer of one packet needs a round trip each.
#[test]
fn a_buffer_of_one_packet_bounds_the_rate_by_its_round_trip() {
    let fixture = Fixture::m_port(8, 3);
    let mut routes = vec![None; 128];
    routes[0] = to(127);
    let model = Model { buffer_bytes: 256, ..model() };
    let parts = received(&fixture, model, Greedy::new(routes, 256, WARM_PS));
    // Start, head at the next switch after 10 + 50 ns, its tail gone 256 ns later, credit 10 ns
    // after.
    let bound = 256 * 1_000 / (10 + 50 + 256 + 10);
    assert!((bound - 2..=bound + 2).contains(&parts[127]), "{} is not {bound}", parts[127]);
}

/// A link that others fill to three quarters: packets go at the rate that is left, and the next
/// switch does not send bytes that it has not got.
#[test]
fn a_slowed_port_carries_what_is_left_of_it() {
    let fixture = Fixture::m_port(8, 3);
    let leaf = fixture.graph.switch_of(fixture.graph.attachment(EndpointId(0)).expect("linked"));
    let is_up = |port: &_| matches!(fixture.graph.peer(*port), Peer::Switch(_));
    let up: Vec<_> = fixture.graph.ports(leaf).filter(is_up).collect();
    let slow = 4 * model().ps_per_byte;

    let routes = (0..128).map(|from| to(16).filter(|_| from == 0)).collect();
    let load = Greedy::new(routes, 256, WARM_PS);
    let mut simulator = Simulator::new(fixture.network(), model(), load).expect("a valid model");
    up.iter().for_each(|port| simulator.slow_down(*port, slow));
    assert_eq!(simulator.run_until(END_PS), Ok(true));
    let all_ps = simulator.workload().received[16] * slow;
    assert_eq!(all_ps, END_PS - WARM_PS, "a packet after the other, at the rate that is left");

    let mut script = Script::default();
    script.add(0, 0, 0, unicast(16, 256, 0, 1));
    let mut simulator = Simulator::new(fixture.network(), model(), script).expect("a valid model");
    up.iter().for_each(|port| simulator.slow_down(*port, slow));
    assert_eq!(simulator.run_until(u64::MAX), Ok(false));
    let took_ps = simulator.workload().deliveries[0].0;
    let more_ps = 256 * (slow - model().ps_per_byte);
    assert_eq!(took_ps, model().zero_load_ps(5, 256) + more_ps);
}
