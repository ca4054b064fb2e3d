//! Settings of the routing engine.

use fabricast_config::RouterConfig;
use fabricast_routing::{EngineKind, MergePartner, MergePolicy, RootScope};

use crate::{complaints, load_text};

#[test]
fn the_engine_is_named_or_left_to_the_topology() {
    for (text, engine) in [
        ("engine = 'auto'\n", None),
        ("engine = 'mr4lms'\n", Some(EngineKind::Mr4lms)),
        ("root_policy = 'hlse'\n", None),
        ("fault_tolerant = true\n", None),
    ] {
        let config: RouterConfig = load_text(&format!("[router]\n{text}"), &[]).unwrap();
        assert_eq!(config.engine, engine, "{text}");
    }
    let both = "[router]\nstay_after_healing = true\nroot_policy = 'hlse'\n";
    assert_eq!(
        complaints::<RouterConfig>(both, &[]),
        ["F:3: router.root_policy: c-mr4lms-fixed has no roots to choose from; \
             `stay_after_healing` selects c-mr4lms-fixed"]
    );
    let by_load = "[router]\nfault_tolerant = true\nroot_policy = 'hlse'\n";
    let config: RouterConfig = load_text(by_load, &[]).unwrap();
    assert_eq!(config.engine, None, "dynamic roots go with both");
    let other = "[router]\nengine = 'mr4lms'\nstay_after_healing = true\n";
    assert_eq!(
        complaints::<RouterConfig>(other, &[]),
        ["F:3: router.stay_after_healing: mr4lms decides by itself where groups stay after a \
             failure; c-mr4lms-fixed can be told"]
    );
    let several = "[router]\nengine = 'c-mr4lms-dynamic'\ntables = 'per-switch'\n\
                   root_scope = 'tn-group'\nmerge_policy = 'rebuild'\nstay_after_healing = true\n";
    assert_eq!(
        complaints::<RouterConfig>(several, &[]),
        [
            "F:6: router.stay_after_healing: c-mr4lms-dynamic decides by itself where groups stay \
             after a failure; c-mr4lms-fixed can be told",
            "F:4: router.root_scope: roots in a whole TN group need per-port tables; with per-switch \
             tables only those of one TN can be had",
            "F:5: router.merge_policy: c-mr4lms-dynamic has no choice in the treatment of merged \
             trees; mr4lms has",
        ]
    );
}

#[test]
fn options_of_the_engine_are_those_of_route_plan() {
    let text = "[router]\nmerge_policy = 'rebuild'\nmerge_partner = 'rarest-color'\n";
    let config: RouterConfig = load_text(text, &[]).unwrap();
    let options = config.engine_options();
    assert_eq!(options.merge_policy, Some(MergePolicy::Rebuild));
    assert_eq!(options.merge_partner, Some(MergePartner::RarestColor));
    assert_eq!(options.root_scope, None);
    let text = "[router]\nroot_scope = 'tn'\ntables = 'per-switch'\n";
    let config: RouterConfig = load_text(text, &[]).unwrap();
    assert_eq!(config.engine_options().root_scope, Some(RootScope::Tn));
    assert_eq!(
        complaints::<RouterConfig>("[router]\nmerge_partner = 'farthest'\n", &[]),
        [
            "F:2: router.merge_partner: unknown variant `farthest`, expected one of `fewest-groups`, `nearest`, `rarest-color`"
        ]
    );
}
