//! Constants of the cost model that are measured between the agents.

use super::Up;

pub(super) fn constants_are_measured_and_forgotten(up: &Up) {
    let none = "no constants were measured: new groups have two below each member, and adapter \
                trees are chosen by the constants of the settings, or by defaults\n";
    assert_eq!(up.ok(&["collective", "constants"]), none);
    let fit = ["collective", "fit", "--live", "--nodes", "4", "--rounds", "3"];
    let found = up.json(&fit);
    let kept = up.json(&["collective", "constants"])["constants"].clone();
    assert_eq!(kept["measurementCount"], found["measurements"]);
    assert_eq!(kept["reduceUsPerByte"], found["parameters"]["reduceUsPerByte"]);
    for field in ["storeUsPerByte", "reduceUsPerByte"] {
        assert!(kept[field].as_f64().expect("a number") > 0.0, "{kept}");
    }
    assert!(!up.ok(&["group", "list"]).contains("fabricast-fit"), "the groups have ended");
    up.run(&[&fit[..], &["--given", "link_us=1"]].concat()).refused(2, "cannot be used with");
    assert_eq!(up.ok(&["collective", "constants", "--forget"]), none);
}
