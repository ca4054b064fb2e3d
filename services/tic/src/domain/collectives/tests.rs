//! The stored texts, and the cost of decisions.

use fabricast_collectives::{Limits as TreeLimits, Operation, Quota};
use fabricast_groups::directory::Limits;
use fabricast_groups::ids::{Epoch, Gn, Moment, Pn, Revision};
use fabricast_groups::job::{JobNode, JobNodes};
use fabricast_groups::names::{EndpointName, GroupName, NodeName, ProcessName};
use fabricast_groups::record::{GroupRecord, MemberRecord};
use fabricast_groups::tree::TreeShape;
use fabricast_proto::v1;
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{EndpointId, Mgid};

use super::request::HolderName;
use super::text::Ledger;
use super::*;
use crate::domain::job_places::JobPlaces;

fn allocations(topology: &str, texts: Texts) -> CollectiveAllocations {
    with_entries(Settings::default().entries, topology, texts)
}

/// Allocations on switches of so many entries.
pub(super) fn with_entries(entries: u16, topology: &str, texts: Texts) -> CollectiveAllocations {
    let settings = Settings { entries, ..Settings::default() };
    started(settings, None, topology, texts)
}

/// Allocations on switches without entries, so that all collectives run on adapters.
fn on_adapters(configured: Option<CostParameters>, texts: Texts) -> CollectiveAllocations {
    started(Settings { entries: 0, ..Settings::default() }, configured, "one", texts)
}

fn graph() -> Graph {
    let spec = "kind = 'leaf-spine'\nleaves = 2\nspines = 2\nendpoints_per_leaf = 4\n";
    TopologySpec::parse(spec).unwrap().generate().unwrap()
}

fn started(
    settings: Settings,
    configured: Option<CostParameters>,
    topology: &str,
    texts: Texts,
) -> CollectiveAllocations {
    CollectiveAllocations::new(CollectiveParts {
        graph: Arc::new(graph()),
        settings,
        configured,
        topology: topology.to_owned(),
        texts,
        publisher: Arc::default(),
    })
}

pub(super) fn entries(account: &str, job: usize, entries: u16) -> JobEntries {
    let endpoints = vec![EndpointName::new("h0").unwrap()];
    let node = JobNode { name: NodeName::new("n0").unwrap(), endpoints };
    let places = JobPlaces::new(&graph(), JobNodes::new(vec![node]));
    let holder = HolderName { tenant: account.to_owned(), job: Some(format!("job-{job}")) };
    JobEntries { holder, entries, places }
}

fn holders(allocations: &CollectiveAllocations) -> Vec<(String, String)> {
    let reservations = allocations.usage().wire().reservations.into_iter();
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
    let texts = allocations.durable.keys().map(String::as_str);
    assert_eq!(texts.collect::<Vec<_>>(), [LEDGER, "reservation/2999"]);
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
        sends_only: false,
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
    let given = given.whole();
    assert_eq!(given.processes.len(), 2);
    assert_eq!(puts.len(), 2, "the collective and the ledger");
    allocations.committed();

    let mut puts = Puts::new();
    allocations.applied(&member(2), &mut puts);
    assert!(puts.values().any(Option::is_none), "the record goes with the join");
    allocations.roll_back();
    let mut puts = Puts::new();
    let again = allocations.request_tree(&asks, &directory, &mut puts).unwrap();
    assert_eq!(again.whole(), given);
    assert!(puts.is_empty(), "it is there");
    allocations.applied(&member(2), &mut puts);
    allocations.committed();
    assert_eq!(allocations.durable.keys().collect::<Vec<_>>(), [LEDGER]);
}

/// A group of processes at the first endpoints.
pub(super) fn directory(members: u32) -> Directory {
    let Change::GroupPut(mut record) = group() else { panic!("it is a group") };
    record.members_revision = Revision(members.into());
    let mut directory = Directory::new(Limits::default());
    directory.apply(&Change::GroupPut(record));
    (0..members).for_each(|number| directory.apply(&member(number)));
    directory
}

pub(super) fn asks(number: u32) -> RequestSwitchTree {
    RequestSwitchTree {
        group: GroupName::new("g").unwrap(),
        node: NodeName::new(&format!("n{number}")).unwrap(),
        process: ProcessName::new("p").unwrap(),
    }
}

pub(super) fn collective(name: &str) -> CreateCollective {
    CreateCollective {
        name: name.to_owned(),
        group: GroupName::new("g").unwrap(),
        tenant: "physics".to_owned(),
        job: String::new(),
        operations: vec![Operation::Barrier],
        min_bytes: 0,
        max_bytes: 8,
        switch_tree_required: true,
    }
}

#[test]
fn a_commit_shares_what_the_batch_did_not_change() {
    let (mut allocations, directory) = (allocations("one", Texts::new()), directory(2));
    let mut puts = Puts::new();
    for name in ["a", "b"] {
        allocations.create(&collective(name), &directory, &mut puts).unwrap();
    }
    allocations.committed();
    let before = allocations.publisher.newest();
    let quota = Quota { collectives: Some(9), ..Quota::default() };
    let holder = HolderName { tenant: "physics".to_owned(), job: None };
    let mut puts = Puts::new();
    allocations.set_quota(&SetQuota { holder, quota }, &mut puts).unwrap();
    assert_eq!(puts.len(), 2, "the quota and the ledger");
    allocations.committed();
    let after = allocations.publisher.newest();
    assert!(after.revision > before.revision);
    assert!(Arc::ptr_eq(&after.collectives, &before.collectives));

    assert!(allocations.release("a", &mut Puts::new()));
    let id = allocations.reserve_for_job(entries("chemistry", 1, 1), &mut Puts::new()).unwrap();
    let unseen = allocations.publisher.newest();
    assert!(Arc::ptr_eq(&unseen, &after), "nothing is seen before it is durable");
    allocations.committed();
    let newest = allocations.publisher.newest();
    assert_eq!(newest.collectives.keys().map(|name| &**name).collect::<Vec<_>>(), ["b"]);
    assert!(Arc::ptr_eq(&newest.collectives["b"], &before.collectives["b"]));
    assert!(newest.reservations.contains(&id) && before.reservations.is_empty());
}

#[test]
fn trees_are_as_old_as_the_first_state_that_has_them() {
    let (mut allocations, directory) = (allocations("one", Texts::new()), directory(2));
    let publisher = Arc::clone(&allocations.publisher);
    let programmed = |publisher: &Publisher, name: &str| {
        publisher.listed(&publisher.newest().collectives[name]).programmed
    };
    allocations.create(&collective("a"), &directory, &mut Puts::new()).unwrap();
    allocations.committed();
    let first = publisher.newest().revision;
    assert!(!programmed(&publisher, "a"));
    publisher.programmed(first, vec![]).unwrap();
    assert!(programmed(&publisher, "a"));
    allocations.create(&collective("b"), &directory, &mut Puts::new()).unwrap();
    allocations.committed();
    assert_eq!(["a", "b"].map(|name| programmed(&publisher, name)), [true, false]);
    allocations.start_over(allocations.durable.clone());
    assert_eq!(["a", "b"].map(|name| programmed(&publisher, name)), [true, false]);
    let snapshot = Arc::clone(&publisher.newest().collectives["b"]);
    let missing = snapshot.trees()[0].number;
    publisher.programmed(publisher.newest().revision, vec![missing]).unwrap();
    assert!(!programmed(&publisher, "b"));
    assert_eq!(snapshot.tree(missing).map(|tree| tree.tree), Some(missing));
}

#[test]
fn a_ledger_of_an_earlier_version_is_divided_by_the_next_decision() {
    let text = r#"{"topology":"one","revision":3,"next_id":0,"next_tree":0,"next_reservation":2,
        "tenants":["physics"],"jobs":[[0,"running"]],"quotas":[[{"tenant":0},
        {"collectives":null,"entries":7,"entries_per_switch":null}]],
        "reservations":[[1,{"holder":{"job":{"tenant":0,"job":0}},"entries":1,"endpoints":[0]},
        [0]]],"endpoints":{"1":["h0"]}}"#;
    let texts = Texts::from([(LEDGER.to_owned(), Arc::from(text))]);
    let mut allocations = allocations("one", texts);
    let before = allocations.usage().wire();
    assert_eq!((before.quotas.len(), before.reservations[0].endpoints.len()), (1, 1));
    let directory = directory(2);
    allocations.create(&collective("a"), &directory, &mut Puts::new()).unwrap();
    allocations.roll_back();
    assert_eq!(allocations.usage().wire(), before);
    allocations.create(&collective("a"), &directory, &mut Puts::new()).unwrap();
    allocations.committed();
    let keys: Vec<&str> = allocations.durable.keys().map(String::as_str).collect();
    assert_eq!(keys, ["by-name/a", LEDGER, "quota/tenant/0", "reservation/1"]);
    assert!(allocations.durable[LEDGER].len() < 200, "{}", allocations.durable[LEDGER]);
    for (key, text) in &allocations.durable {
        text::check(key, text).expect("the key is known").unwrap();
    }
    // Also on another topology, whose endpoints have other numbers.
    for topology in ["one", "two"] {
        let loaded = self::allocations(topology, allocations.durable.clone());
        let usage = loaded.usage().wire();
        assert_eq!((&usage.quotas, usage.reservations.len()), (&before.quotas, 1), "{topology}");
        assert_eq!(holders(&loaded), [("physics".to_owned(), "running".to_owned())]);
        assert_eq!(loaded.published.collectives.len(), 1);
    }
    let mut puts = Puts::new();
    assert!(allocations.cancel(ReservationId(1), &mut puts));
    assert_eq!(puts.values().filter(|value| value.is_none()).count(), 1);
    allocations.committed();
    assert!(!allocations.durable.contains_key("reservation/1"));
}

#[test]
fn a_copy_of_the_usage_stays_as_it_is() {
    let (mut allocations, directory) = (allocations("one", Texts::new()), directory(8));
    let mut puts = Puts::new();
    let empty = allocations.usage();
    allocations.create(&collective("a"), &directory, &mut puts).unwrap();
    let id = allocations.reserve_for_job(entries("chemistry", 1, 2), &mut puts).unwrap();
    let quota = Quota { collectives: Some(9), ..Quota::default() };
    let holder = HolderName { tenant: "physics".to_owned(), job: None };
    allocations.set_quota(&SetQuota { holder, quota }, &mut puts).unwrap();
    let used = allocations.usage();
    assert!(allocations.release("a", &mut puts) && allocations.cancel(id, &mut puts));
    assert_eq!(empty.wire(), v1::GetEntryUsageResponse::default());
    let v1::GetEntryUsageResponse { switches, usages, quotas, reservations } = used.wire();
    let of_a = |one: &&v1::SwitchHoldings| one.collectives == ["a"];
    assert!(switches.iter().filter(of_a).count() > 0, "{switches:?}");
    let names = |one: &v1::CollectiveUsage| {
        let v1::CollectiveHolder { tenant, job } = one.holder.clone().unwrap();
        (tenant, job, one.collectives)
    };
    let physics = |job: Option<&str>| ("physics".to_owned(), job.map(str::to_owned), 1);
    assert_eq!(usages.iter().map(names).collect::<Vec<_>>(), [physics(None), physics(Some(""))]);
    assert_eq!((quotas.len(), &reservations[0].endpoints), (1, &vec!["h0".to_owned()]));
    assert!(allocations.usage().wire().reservations.is_empty());
}

#[test]
fn other_topologies_and_ended_jobs_leave_no_records() {
    let mut allocations = allocations("one", Texts::new());
    let mut puts = Puts::new();
    let id = allocations.reserve_for_job(entries("physics", 1, 1), &mut puts).unwrap();
    allocations.committed();
    let mut durable = allocations.durable.clone();
    // It names an endpoint that the next topology does not have.
    let key = reservation_key(id);
    let text = durable[&key].replace("\"h0\"", "\"gone\"");
    durable.insert(key, Arc::from(text));
    let mut moved = self::allocations("two", durable);
    assert!(holders(&moved).is_empty());
    moved.follow(&BTreeSet::new(), &mut Puts::new());
    moved.committed();
    assert_eq!(moved.durable.keys().collect::<Vec<_>>(), [LEDGER]);
    assert!(moved.table.ledger.tenants.is_empty());
}

#[test]
fn collectives_follow_a_failure_in_pieces_of_bounded_work() {
    const COUNT: usize = 3_000;
    let directory = directory(8);
    let mut allocations = with_entries(4_000, "one", Texts::new());
    for number in 0..COUNT {
        let create = collective(&format!("c{number}"));
        allocations.create(&create, &directory, &mut Puts::new()).unwrap();
    }
    allocations.committed();
    let root = |snapshot: &CollectiveSnapshot| {
        let entries = &snapshot.whole().switch_tree.as_ref().unwrap().entries;
        entries[0].holder.clone().unwrap()
    };
    let published = allocations.publisher.newest();
    let dead = root(&published.collectives["c0"]);
    let Some(v1::aggregation_node::Kind::SwitchName(name)) = &dead.kind else {
        panic!("the root is a switch")
    };
    let switch = ElementKey::Switch(allocations.graph.find_switch(name).unwrap());
    let failed = BTreeSet::from([switch]);
    let mut pieces = 0;
    while *allocations.publisher.newest().failed != failed {
        let mut puts = Puts::new();
        allocations.follow(&failed, &mut puts);
        allocations.committed();
        assert!(puts.len() < COUNT / 2, "{} writes", puts.len());
        pieces += 1;
    }
    assert!((2..100).contains(&pieces), "{pieces}");
    let published = allocations.publisher.newest();
    assert!(published.collectives.values().all(|one| root(one) != dead));
    let mut puts = Puts::new();
    allocations.follow(&failed, &mut puts);
    assert!(puts.is_empty(), "all have followed");
}

#[test]
fn a_refusal_holds_for_all_members_until_something_is_freed_or_they_change() {
    let (mut allocations, directory) = (allocations("one", Texts::new()), directory(3));
    let ask = |allocations: &mut CollectiveAllocations, number, directory: &Directory| {
        let asked = allocations.request_tree(&asks(number), directory, &mut Puts::new());
        asked.map(|one| one.listed().name.clone()).map_err(|error| error.to_string())
    };
    let everything = ReserveEntries {
        holder: HolderName { tenant: "others".to_owned(), job: None },
        entries: 16,
        endpoints: [0, 4].map(EndpointId).to_vec(), // one at each leaf switch
    };
    let id = allocations.reserve(everything, &mut Puts::new()).unwrap();
    let why = ask(&mut allocations, 0, &directory).unwrap_err();
    assert!(why.contains("no entries left"), "{why}");
    assert_eq!(ask(&mut allocations, 2, &directory), Err(why));
    let one = self::directory(1);
    let single = ask(&mut allocations, 0, &one).unwrap_err();
    assert!(single.contains("single member"), "{single}");
    assert!(allocations.cancel(id, &mut Puts::new()));
    let given = ask(&mut allocations, 1, &directory).unwrap();
    assert_eq!(ask(&mut allocations, 2, &directory), Ok(given.clone()));
    // An administrator's tree of the same members is theirs, and one of others is not.
    allocations.applied(&member(3), &mut Puts::new());
    allocations.create(&collective("a"), &directory, &mut Puts::new()).unwrap();
    assert_eq!(ask(&mut allocations, 0, &directory), Ok("a".to_owned()));
    let two = self::directory(2);
    assert_eq!(ask(&mut allocations, 0, &two), Ok(given.clone()));
    allocations.applied(&member(2), &mut Puts::new());
    assert_eq!(ask(&mut allocations, 0, &directory), Ok("a".to_owned()));
    assert!(allocations.release("a", &mut Puts::new()));
    assert_eq!(ask(&mut allocations, 0, &directory), Ok(given));
    allocations.applied(&Change::GroupDeleted(Gn(1)), &mut Puts::new());
    allocations.committed();
    assert_eq!(allocations.publisher.newest().collectives.len(), 0);
}

/// A refused batch of the directory alone: its revision comes again, with other members.
#[test]
fn a_refusal_in_a_batch_that_is_undone_holds_no_longer() {
    let mut allocations = allocations("one", Texts::new());
    let mut ask = |directory: &Directory, is_refused: bool| {
        let asked = allocations.request_tree(&asks(0), directory, &mut Puts::new());
        if is_refused {
            allocations.roll_back();
        }
        asked.map(|_| ()).map_err(|error| error.to_string())
    };
    let one = directory(1);
    let single = ask(&one, true).unwrap_err();
    assert!(single.contains("single member"), "{single}");
    let mut two = directory(2);
    two.apply(&group());
    let revisions = [&one, &two].map(|all| all.group(Gn(1)).unwrap().members_revision);
    assert_eq!(revisions[0], revisions[1]);
    assert_eq!(ask(&two, false), Ok(()));
}

/// Constants of agents whose packets take long, as measurements would give them.
const AGENTS: CostParameters = CostParameters {
    link_us: 15.0,
    matching_us: 40.0,
    store_us_per_byte: 0.001,
    reduce_us_per_byte: 0.002,
    ..CostParameters::PAPER
};

fn set_measured(allocations: &mut CollectiveAllocations, parameters: Option<CostParameters>) {
    let constants = parameters.map(|parameters| MeasuredConstants {
        parameters,
        defaults: Vec::new(),
        measurements: 9,
        r_squared: 1.0,
        set_at: 0,
    });
    allocations.set_constants(constants, &mut Puts::new());
    allocations.committed();
}

/// Creates a collective of 8 processes at two leaf switches that runs on adapters.
fn create_on_adapters(
    allocations: &mut CollectiveAllocations,
    name: &str,
    max_bytes: u32,
) -> v1::AdapterTreeChoice {
    let operations = vec![Operation::AllReduce];
    let create =
        CreateCollective { operations, max_bytes, switch_tree_required: false, ..collective(name) };
    let created = allocations.create(&create, &directory(8), &mut Puts::new()).unwrap();
    allocations.committed();
    created.listed().adapter_tree_choice.unwrap()
}

fn choice(
    family: v1::TreeFamily,
    width: u32,
    constants: v1::ConstantsOrigin,
) -> v1::AdapterTreeChoice {
    v1::AdapterTreeChoice { family: family.into(), width, constants: constants.into() }
}

#[test]
fn size_and_constants_choose_the_adapter_tree() {
    use v1::ConstantsOrigin::{Configured, Default, Measured};
    use v1::TreeFamily::{Hierarchical, KAry};
    let mut allocations = on_adapters(None, Texts::new());
    let short = create_on_adapters(&mut allocations, "short", 8);
    assert_eq!(short, choice(KAry, 7, Default));
    let long = create_on_adapters(&mut allocations, "long", 1 << 20);
    assert_eq!(long, choice(Hierarchical, 2, Default));
    set_measured(&mut allocations, Some(AGENTS));
    let measured = create_on_adapters(&mut allocations, "measured", 8);
    assert_eq!(measured, choice(Hierarchical, 2, Measured));

    let mut allocations = on_adapters(Some(AGENTS), Texts::new());
    let configured = create_on_adapters(&mut allocations, "configured", 8);
    assert_eq!(configured, choice(Hierarchical, 2, Configured));
    set_measured(&mut allocations, Some(CostParameters::DEFAULT));
    let measured = create_on_adapters(&mut allocations, "measured", 8);
    assert_eq!(measured, choice(KAry, 7, Measured), "measurements come first");
    set_measured(&mut allocations, None);
    let forgotten = create_on_adapters(&mut allocations, "forgotten", 8);
    assert_eq!(forgotten, choice(Hierarchical, 2, Configured));
}

/// AGG-11: a number names one tree for good.
#[test]
fn an_adapter_tree_stays_as_it_is_under_new_constants() {
    let mut allocations = on_adapters(None, Texts::new());
    let default = create_on_adapters(&mut allocations, "old", 8);
    let old = allocations.publisher.newest().collectives["old"].whole().clone();
    assert_eq!(old.adapter_tree.as_ref().unwrap().entries.len(), 1, "all below one");
    set_measured(&mut allocations, Some(AGENTS));
    let is_same = |allocations: &CollectiveAllocations| {
        let newest = allocations.publisher.newest();
        let now = newest.collectives["old"].whole();
        assert_eq!(now.adapter_tree_choice, Some(default));
        assert_eq!(now.adapter_tree, old.adapter_tree);
    };
    is_same(&allocations);
    // Another TIC reads the records, and has other settings.
    let mut other = on_adapters(Some(CostParameters::PAPER), allocations.durable.clone());
    is_same(&other);
    assert_ne!(create_on_adapters(&mut other, "new", 8), default, "it knows what was measured");
}

/// AGG-11: the record has what the tree was built by.
#[test]
fn an_adapter_tree_stays_as_it_is_under_another_limit_on_children() {
    let mut allocations = on_adapters(None, Texts::new());
    create_on_adapters(&mut allocations, "old", 8);
    let narrow = |texts: &Texts| {
        let limits = TreeLimits { adapter_children: 3, ..TreeLimits::default() };
        started(Settings { entries: 0, limits, ..Settings::default() }, None, "one", texts.clone())
    };
    let tree = |allocations: &CollectiveAllocations, name: &str| {
        let tree = allocations.publisher.newest().collectives[name].whole().adapter_tree.clone();
        tree.expect("it runs on adapters")
    };
    let widest = |tree: &v1::AggregationTree| {
        tree.entries.iter().map(|entry| entry.children.len()).max().expect("it has entries")
    };
    let old = tree(&allocations, "old");
    assert!(widest(&old) > 3, "{old:?}");
    let mut loaded = narrow(&allocations.durable);
    assert_eq!(tree(&loaded, "old"), old);
    create_on_adapters(&mut loaded, "new", 8);
    assert!(widest(&tree(&loaded, "new")) <= 3);
    // Records of earlier versions do not name the limit.
    let key = format!("{COLLECTIVE}old");
    let mut durable = allocations.durable.clone();
    let mut record: serde_json::Value = serde_json::from_str(&durable[&key]).unwrap();
    record.as_object_mut().unwrap().remove("adapter_children").unwrap();
    durable.insert(key, Arc::from(record.to_string()));
    assert!(widest(&tree(&narrow(&durable), "old")) <= 3);
}

#[test]
fn an_adapter_tree_of_an_earlier_version_is_that_of_its_record() {
    let mut allocations = on_adapters(None, Texts::new());
    set_measured(&mut allocations, Some(AGENTS));
    create_on_adapters(&mut allocations, "a", 1 << 20);
    let key = format!("{COLLECTIVE}a");
    let mut durable = allocations.durable.clone();
    let mut record: serde_json::Value = serde_json::from_str(&durable[&key]).unwrap();
    for key in ["adapter_choice", "adapter_children"] {
        record.as_object_mut().unwrap().remove(key).unwrap();
    }
    durable.insert(key.clone(), Arc::from(record.to_string()));
    text::check(&key, &durable[&key]).expect("the key is known").unwrap();
    let mut loaded = on_adapters(None, durable);
    // By the constants of the paper, whatever was measured: with bytes that cost nothing, the
    // widest.
    let earlier = choice(v1::TreeFamily::Hierarchical, 8, v1::ConstantsOrigin::Unspecified);
    let shown = |allocations: &CollectiveAllocations| {
        allocations.publisher.newest().collectives["a"].whole().clone()
    };
    let before = shown(&loaded);
    assert_eq!(before.adapter_tree_choice, Some(earlier));
    let number = |collective: &v1::Collective| collective.adapter_tree.as_ref().unwrap().tree;
    assert_eq!(number(&before), number(&shown(&allocations)));
    // The next record of it has the choice.
    loaded.store("a", &mut Puts::new());
    loaded.committed();
    assert!(loaded.durable[&key].contains("adapter_choice"), "{}", loaded.durable[&key]);
    let again = shown(&on_adapters(None, loaded.durable.clone()));
    assert_eq!(
        (again.adapter_tree_choice, again.adapter_tree),
        (Some(earlier), before.adapter_tree)
    );
}
