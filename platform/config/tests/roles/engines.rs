//! Settings of the routing engine.

use fabricast_config::RouterConfig;
use fabricast_routing::EngineKind;

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
    let both = "[router]\nfault_tolerant = true\nroot_policy = 'hlse'\n";
    assert_eq!(
        complaints::<RouterConfig>(both, &[]),
        ["F:2: router.fault_tolerant: only c-mr4lms-fixed has it, which has no root_policy"]
    );
    let other = "[router]\nengine = 'mr4lms'\nstay_after_healing = true\n";
    assert_eq!(
        complaints::<RouterConfig>(other, &[]),
        ["F:3: router.stay_after_healing: only c-mr4lms-fixed has it, not mr4lms"]
    );
}
