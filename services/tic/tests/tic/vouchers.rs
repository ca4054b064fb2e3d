//! Vouchers: the TIC's word for what agents tell each other.

use fabricast_groups::ids::{Epoch, Gn};
use fabricast_groups::message::{Enrolment, Register};
use fabricast_groups::names::NodeName;
use fabricast_groups::voucher::{Voucher, VoucherKey, VoucherSeed};
use fabricast_proto::v1;
use fabricast_wire::{decode_member, decode_snapshot};
use prost::Message;

use crate::batches::batches;
use crate::harness::{Tic, join, reason, registration};

fn key(number: u32, start_id: u64) -> VoucherKey {
    VoucherSeed([7; 16]).key(&NodeName::new(&format!("n{number}")).unwrap(), start_id)
}

/// A registration with a voucher key.
fn with_key(number: u32, start_id: u64) -> v1::RegisterNodeRequest {
    let voucher_key = key(number, start_id).bytes().to_vec();
    v1::RegisterNodeRequest { voucher_key, ..registration(number, "127.0.0.1:1", start_id) }
}

async fn get(tic: &Tic, with_vouchers: bool) -> v1::GetGroupResponse {
    let get = v1::GetGroupRequest { group: "g".to_owned(), with_vouchers, ..Default::default() };
    let request = v1::GetManyRequest { gets: vec![get] };
    let answers = batches(tic).get_many(request).await.unwrap().into_inner().answers;
    match answers.into_iter().next().unwrap().answer {
        Some(v1::get_answer::Answer::Found(found)) => found,
        other => panic!("{other:?}"),
    }
}

/// True if the answer has the voucher for the enrolment of a member, under this key.
fn is_vouched(answer: &v1::GetGroupResponse, index: usize, key: VoucherKey) -> bool {
    let told = decode_snapshot(answer).unwrap();
    let member = told.members[index].clone();
    let enrolment = Enrolment {
        group: told.group.name,
        mgid: told.group.mgid,
        agent: told.group.agent.unwrap(),
        agent_address: told.agent_address.unwrap(),
        known: told.revision,
        voucher: told.vouchers.get(&member.member.pn).copied(),
        member,
    };
    enrolment.is_vouched(told.group.epoch, &key)
}

fn vouchers(group: Option<&v1::Group>) -> Vec<bool> {
    group.unwrap().members.iter().map(|member| member.voucher.is_some()).collect()
}

/// In plain text everybody may be that agent.
#[tokio::test]
async fn the_tic_vouches_to_the_agent_of_a_group_that_asks_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tic.redb");
    let tic = Tic::on_file(&path).await;
    for number in [0, 1] {
        tic.client.clone().register_node(with_key(number, 1)).await.unwrap();
    }
    tic.register(2).await; // an older agent
    for number in 0..3 {
        tic.join("g", number, "p").await;
    }
    for _start in 0..2 {
        let told = get(&tic, true).await;
        assert_eq!(vouchers(told.group.as_ref()), [true, true, false]);
        assert!(is_vouched(&told, 0, key(0, 1)) && is_vouched(&told, 1, key(1, 1)));
        assert!(!is_vouched(&told, 1, key(0, 1)));
    }
    tic.stop().await;
    let tic = Tic::on_file(&path).await;
    let told = get(&tic, true).await;
    assert!(is_vouched(&told, 1, key(1, 1)), "the next TIC has the keys");

    assert_eq!(vouchers(get(&tic, false).await.group.as_ref()), [false; 3]);
    assert_eq!(vouchers(tic.groups().await.first()), [false; 3]);
    let get_node = v1::GetNodeRequest { node: "n1".to_owned() };
    let node = tic.client.clone().get_node(get_node).await.unwrap().into_inner();
    let has_key = |bytes: &[u8]| bytes.windows(16).any(|part| part == key(1, 1).bytes());
    assert!(has_key(&with_key(1, 1).encode_to_vec()) && !has_key(&node.encode_to_vec()));

    // Its next incarnation has another key; what was said to the former one counts no more.
    tic.client.clone().register_node(with_key(1, 2)).await.unwrap();
    let again = v1::JoinGroupRequest {
        incarnation: 2,
        request_id: "again".to_owned(),
        ..join("g", 1, "p")
    };
    tic.client.clone().join_group(again).await.unwrap();
    let told = get(&tic, true).await;
    let at = told.group.as_ref().unwrap().members.iter().position(|member| member.node == "n1");
    let at = at.unwrap();
    assert!(is_vouched(&told, at, key(1, 2)) && !is_vouched(&told, at, key(1, 1)));
}

#[tokio::test]
async fn a_join_comes_with_a_voucher_for_the_agent_of_the_group() {
    let tic = Tic::on_memory().await;
    for number in [0, 1] {
        tic.client.clone().register_node(with_key(number, 1)).await.unwrap();
    }
    tic.join("g", 0, "p").await;
    let alone = tic.client.clone().join_group(join("g", 1, "p")).await.unwrap().into_inner();
    let many = v1::JoinManyRequest { joins: vec![join("g", 1, "p")] };
    let many = batches(&tic).join_many(many).await.unwrap().into_inner().answers;
    let Some(v1::join_answer::Answer::Joined(repeated)) = many[0].answer.clone() else {
        panic!("{many:?}");
    };
    for joined in [alone, repeated] {
        let (group, member) = (joined.group.unwrap(), joined.member.unwrap());
        let register = |epoch| Register {
            gn: Gn(group.gn),
            epoch: Epoch(epoch),
            member: decode_member(Gn(group.gn), &member).unwrap(),
            voucher: member.voucher.map(Voucher),
        };
        assert!(register(group.epoch).is_vouched(&key(0, 1)));
        assert!(!register(group.epoch).is_vouched(&key(1, 1)));
        assert!(!register(group.epoch + 1).is_vouched(&key(0, 1)));
    }
}

#[tokio::test]
async fn a_key_of_another_length_is_refused() {
    let tic = Tic::on_memory().await;
    for length in [1, 15, 17] {
        let mut request = with_key(0, 1);
        request.voucher_key = vec![7; length];
        let refused = tic.client.clone().register_node(request).await.unwrap_err();
        assert_eq!(reason(&refused), "NAME_INVALID");
        assert!(refused.message().starts_with("voucher_key: "), "{refused}");
    }
    assert!(tic.nodes().await.is_empty());
}
