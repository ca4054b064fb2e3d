//! The stored texts.

use fabricast_groups::directory::Limits;
use fabricast_groups::ids::{Epoch, Gn, Moment, Pn, Revision};
use fabricast_groups::names::{EndpointName, GroupName, NodeName, ProcessName};
use fabricast_groups::record::{GroupRecord, MemberRecord};
use fabricast_groups::tree::TreeShape;
use fabricast_topology::Mgid;
use fabricast_topology::spec::TopologySpec;

use super::request::HolderName;
use super::text::Ledger;
use super::*;

fn allocations(topology: &str, texts: Texts) -> CollectiveAllocations {
    let spec = "kind = 'leaf-spine'\nleaves = 2\nspines = 2\nendpoints_per_leaf = 4\n";
    let graph = TopologySpec::parse(spec).unwrap().generate().unwrap();
    CollectiveAllocations::new(CollectiveParts {
        graph: Arc::new(graph),
        settings: Settings::default(),
        topology: topology.to_owned(),
        texts,
        publisher: Arc::default(),
    })
}

fn entries(account: &str, job: usize, entries: u16) -> JobEntries {
    let endpoint = EndpointName::new("h0").unwrap();
    let holder = HolderName { tenant: account.to_owned(), job: Some(format!("job-{job}")) };
    JobEntries { holder, entries, endpoints: vec![endpoint] }
}

fn holders(allocations: &CollectiveAllocations) -> Vec<(String, String)> {
    let reservations = allocations.usage().reservations.into_iter();
    let holders = reservations.filter_map(|one| one.holder);
    holders.map(|one| (one.tenant, one.job.unwrap_or_default())).collect()
}

#[test]
fn the_stored_text_does_not_grow_with_jobs_that_ended_or_were_refused() {
    let mut allocations = allocations("one", Texts::new());
    let mut largest = Vec::new();
    for job in 100_000..103_000 {
        let mut puts = Puts::new();
        let account = format!("account-{}", job % 7);
        allocations.reserve_for_job(entries(&account, job, 99), &mut puts).unwrap_err();
        assert!(puts.is_empty(), "refused requests store nothing");
        let id = allocations.reserve_for_job(entries(&account, job, 1), &mut puts).unwrap();
        // Another job always runs meanwhile.
        if let Some(before) = id.0.checked_sub(1) {
            assert!(allocations.cancel(ReservationId(before), &mut puts));
        }
        allocations.committed();
        largest.push(allocations.durable[LEDGER].len());
        assert_eq!(holders(&allocations), [(account, format!("job-{job}"))]);
    }
    let (early, late) = (largest[..10].iter().max().unwrap(), largest.iter().max().unwrap());
    assert!(*late < early + 64, "{late} bytes after {early}");
    let loaded = self::allocations("one", allocations.durable.clone());
    assert_eq!(holders(&loaded), holders(&allocations));
    let mut puts = Puts::new();
    assert!(allocations.cancel(ReservationId(2_999), &mut puts));
    let Ledger { tenants, jobs, .. } = allocations.table.ledger.clone();
    assert_eq!((tenants, jobs), (Vec::new(), Vec::new()));
}

#[test]
fn a_text_of_an_earlier_version_is_read_and_loses_unused_names() {
    let text = r#"{"topology":"one","revision":3,"next_id":0,"next_tree":0,"next_reservation":2,
        "tenants":["physics","gone"],"jobs":[[1,"ended"],[0,"running"]],"quotas":[],
        "reservations":[[1,{"holder":{"job":{"tenant":0,"job":1}},"entries":1,"endpoints":[0]},[0]]]}"#;
    let texts = Texts::from([(LEDGER.to_owned(), Arc::from(text))]);
    let mut allocations = allocations("one", texts);
    assert_eq!(holders(&allocations), [("physics".to_owned(), "running".to_owned())]);
    allocations.reserve_for_job(entries("new", 5, 1), &mut Puts::new()).unwrap();
    let Ledger { tenants, jobs, .. } = &allocations.table.ledger;
    assert_eq!(*tenants, [Some("physics".to_owned()), None, Some("new".to_owned())]);
    assert_eq!(*jobs, [None, Some((0, "running".to_owned())), Some((2, "job-5".to_owned()))]);
}

fn group() -> Change {
    Change::GroupPut(GroupRecord {
        gn: Gn(1),
        name: GroupName::new("g").unwrap(),
        mgid: Mgid(0),
        agent: None,
        epoch: Epoch(0),
        members_revision: Revision(1),
        changed: Revision(1),
        persistent: false,
        exclusive: false,
        created: Moment(0),
        route: None,
        layer: None,
        job: None,
        expected: None,
        home: None,
        tree: TreeShape::default(),
    })
}

fn member(number: u32) -> Change {
    Change::MemberPut(Arc::new(MemberRecord {
        gn: Gn(1),
        pn: Pn(number),
        node: NodeName::new(&format!("n{number}")).unwrap(),
        process: ProcessName::new("p").unwrap(),
        endpoint: EndpointName::new(&format!("h{number}")).unwrap(),
        joined: Revision(1),
    }))
}

#[test]
fn a_join_ends_a_requested_tree_once_it_is_stored() {
    let mut directory = Directory::new(Limits::default());
    for change in [group(), member(0), member(1)] {
        directory.apply(&change);
    }
    let asks = RequestSwitchTree {
        group: GroupName::new("g").unwrap(),
        node: NodeName::new("n0").unwrap(),
        process: ProcessName::new("p").unwrap(),
    };
    let mut allocations = allocations("one", Texts::new());
    let mut puts = Puts::new();
    let given = allocations.request_tree(&asks, &directory, &mut puts).unwrap();
    assert_eq!(puts.len(), 2, "the collective and the ledger");
    allocations.committed();

    let mut puts = Puts::new();
    allocations.applied(&member(2), &mut puts);
    assert!(puts.values().any(Option::is_none), "the record goes with the join");
    allocations.roll_back();
    let mut puts = Puts::new();
    assert_eq!(allocations.request_tree(&asks, &directory, &mut puts), Ok(given));
    assert!(puts.is_empty(), "it is there");
    allocations.applied(&member(2), &mut puts);
    allocations.committed();
    assert_eq!(allocations.durable.keys().collect::<Vec<_>>(), [LEDGER]);
}
