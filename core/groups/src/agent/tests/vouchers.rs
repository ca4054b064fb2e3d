//! Members that no snapshot has had, and what their nodes are told.

use super::*;
use crate::voucher::EnrolmentClaim;

/// The senders have good certificates, of the nodes of the members.
#[test]
fn a_member_that_no_snapshot_has_had_needs_a_voucher_for_all_of_it() {
    let members = [view(0, 0, 1), view(1, 1, 2)];
    let good = register(2, view(2, 2, 11));
    let with_key = |key: VoucherKey| {
        let voucher = Some(good.claim().voucher(&key));
        Register { voucher, ..good.clone() }
    };
    let with_view = |change: fn(&mut MemberView)| {
        let mut forged = good.clone();
        change(&mut forged.member);
        forged
    };
    let of_another_epoch = register(1, view(2, 2, 11)).voucher;
    let of_an_enrolment = EnrolmentClaim {
        member: good.claim().member,
        group: &GroupName::new("g").unwrap(),
        mgid: Mgid(1),
        epoch: Epoch(2),
        agent: &name(0),
        agent_address: &members[0].address,
    };
    let of_an_enrolment = Some(of_an_enrolment.voucher(&KEY));
    for forged in [
        Register { voucher: None, ..good.clone() },
        Register { voucher: of_another_epoch, ..good.clone() },
        Register { voucher: of_an_enrolment, ..good.clone() },
        with_key(VoucherKey::new([8; 16])),
        with_view(|view| view.member.node = name(9)),
        with_view(|view| view.member.process = ProcessName::new("q").unwrap()),
        with_view(|view| view.member.endpoint = EndpointName::new("h9").unwrap()),
        with_view(|view| view.member.joined = Revision(u64::MAX)),
        with_view(|view| view.incarnation = Incarnation(2)),
        with_view(|view| view.address = Address::new("10.0.0.9:1").unwrap()),
        with_view(|view| view.member.pn = Pn(3)),
    ] {
        let mut host = host(&members);
        drain(&mut host, at(0));
        let pn = forged.member.member.pn;
        let refused = AgentRefusal::UnknownMember { gn: GN, pn };
        assert_eq!(host.register(at(1), &forged), Err(refused), "{forged:?}");
        // Nobody has another place, and the TIC is asked at once.
        assert_eq!(drain(&mut host, at(1)), [GaOutput::Refresh { gn: GN }]);
        assert_eq!(host.members(GN).unwrap().cloned().collect::<Vec<_>>(), members);
        let all = [members[0].clone(), members[1].clone(), good.member.clone()];
        host.snapshot(at(1), &snapshot(12, 2, &all));
        assert_eq!(told(&drain(&mut host, at(1))), [1, 2], "the member and its parent");
    }
    let mut host = host(&members);
    drain(&mut host, at(0));
    host.register(at(1), &good).unwrap();
    assert_eq!(told(&drain(&mut host, at(1))), [1], "its parent, and no question");
}

#[test]
fn a_member_that_a_snapshot_has_had_needs_no_voucher() {
    let members = [view(0, 0, 1), view(1, 1, 2)];
    let mut host = host(&members);
    let bare = Register { voucher: None, ..register(2, view(1, 1, 2)) };
    host.register(at(1), &bare).unwrap();
}

/// Vouchers of the enrolments that were sent, by rank.
fn sent(outputs: &[GaOutput]) -> Vec<(u32, Option<Voucher>)> {
    let one = |output: &GaOutput| match output {
        GaOutput::Position { update, .. } => {
            let told = update.enrolment.as_ref()?;
            Some((update.pn.0, told.voucher))
        }
        GaOutput::Probe { .. } | GaOutput::NodeFailed { .. } | GaOutput::Refresh { .. } => None,
    };
    outputs.iter().filter_map(one).collect()
}

#[test]
fn an_enrolment_has_the_voucher_of_the_snapshot_until_another_epoch() {
    let members = [view(0, 0, 1), view(1, 1, 2)];
    let mut told = snapshot(10, 2, &members);
    told.vouchers = BTreeMap::from([(Pn(1), Voucher(4))]);
    let mut host = GaHost::new(name(0), Incarnation(1), KEY, CONFIG);
    host.snapshot(at(0), &told);
    let expected = [(0, None), (1, Some(Voucher(4)))];
    assert_eq!(sent(&drain(&mut host, at(0))), expected);
    // A snapshot without them takes none away, and one of the same members has none.
    host.snapshot(at(1), &snapshot(11, 2, &members));
    let mut group = snapshot(12, 2, &members).group;
    group.members_revision = Revision(11);
    host.same_members(at(1), Revision(12), &group);
    host.tick(at(9));
    assert_eq!(sent(&drain(&mut host, at(9))), expected, "sent again");
    host.snapshot(at(9), &snapshot(13, 3, &members));
    assert_eq!(sent(&drain(&mut host, at(9))), [(0, None), (1, None)]);
}

/// The voucher of its join is for this agent, and of no use to its node.
#[test]
fn a_member_that_registered_gets_the_voucher_of_the_first_snapshot_that_has_it() {
    let members = [view(0, 0, 1), view(1, 1, 12)];
    let mut host = host(&members[..1]);
    drain(&mut host, at(0));
    host.register(at(1), &register(2, members[1].clone())).unwrap();
    let mut told = snapshot(12, 2, &members);
    told.vouchers = BTreeMap::from([(Pn(1), Voucher(4))]);
    host.snapshot(at(1), &told);
    assert_eq!(host.enrolment(GN, Pn(1)), None, "its node has it");
    let state = host.member_mut(GN, Pn(1)).unwrap();
    assert_eq!(state.voucher, Some(Voucher(4)));
}
