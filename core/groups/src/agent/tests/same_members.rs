//! Tests of answers without the members, which the agent has already.

use super::*;

fn same(host: &mut GaHost, revision: u64, change: impl FnOnce(&mut GroupRecord)) -> Vec<GaOutput> {
    let mut record = snapshot(10, 2, &[]).group;
    change(&mut record);
    host.same_members(at(1), Revision(revision), &record);
    drain(host, at(1))
}

#[test]
fn a_route_reaches_the_members_without_a_new_snapshot() {
    let mut host = host(&[view(0, 0, 1), view(1, 1, 2)]);
    drain(&mut host, at(0));
    assert_eq!(host.whole_at(GN), Some(Revision(10)));
    let state = RouteState::Routed { colors: 3.into(), virtual_group: 0 };
    let (reason, reason_code) = (String::new(), RouteReason::Unspecified);
    let route = Route { revision: Revision(10), state, reason, reason_code, cut_off: Vec::new() };
    let outputs = same(&mut host, 12, |record| record.route = Some(route));
    assert_eq!(told(&outputs), [0, 1]);
    assert_eq!(host.status()[0].known, Revision(12));
    assert_eq!(told(&same(&mut host, 11, |_| {})), [0; 0], "it was overtaken");
    assert_eq!(host.status()[0].known, Revision(12));
}

#[test]
fn a_table_that_differs_is_fetched_as_a_snapshot() {
    let asks = [GaOutput::Refresh { gn: GN }];
    let changed: [fn(&mut GroupRecord); 2] =
        [|record| record.epoch = Epoch(3), |record| record.members_revision = Revision(12)];
    for change in changed {
        let mut host = host(&[view(0, 0, 1), view(1, 1, 2)]);
        drain(&mut host, at(0));
        assert_eq!(same(&mut host, 12, change), asks);
        assert_eq!(host.whole_at(GN), None, "that alone is told anew");
    }
    let mut host = host(&[view(0, 0, 1), view(1, 1, 2)]);
    drain(&mut host, at(0));
    let leaver = Deregister { gn: GN, epoch: Epoch(2), pn: Pn(1), node: name(1) };
    host.deregister(at(1), &leaver).unwrap();
    assert_eq!(drain(&mut host, at(1)).first(), asks.first());
    assert_eq!((host.whole_at(GN), host.members(GN).unwrap().count()), (None, 1));
    assert_eq!(same(&mut host, 12, |_| {}), asks, "what was asked before it left says nothing");
    host.snapshot(at(2), &snapshot(13, 2, &[view(0, 0, 1), view(1, 1, 2)]));
    assert_eq!((host.whole_at(GN), host.members(GN).unwrap().count()), (Some(Revision(13)), 2));
    let mut stranger = GaHost::new(name(0), Incarnation(1), KEY, CONFIG);
    assert_eq!(same(&mut stranger, 12, |_| {}), asks);
}
