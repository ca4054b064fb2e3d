//! Settings of the InfiniBand driver.

use fabricast_config::{Hardware, RoutingName, SwitchAgentConfig};

use crate::{complaints, load_text};

#[test]
fn infiniband_switches_need_no_fabric_and_no_key_of_it() {
    let file = "\
[switch_agent]
name = 'a'
driver = 'infiniband'
[switch_agent.infiniband]
first_entry = 7
management_key = '0x10'
";
    let agent: SwitchAgentConfig = load_text(file, &[]).unwrap();
    let Hardware::Infiniband(driver) = agent.hardware else { panic!("asked for") };
    assert_eq!((driver.first_entry, driver.management_key, driver.colors), (7, 16, None));
    assert_eq!(driver.routing, RoutingName::Directed);
    let by_lid: SwitchAgentConfig = load_text(&format!("{file}routing = 'lid'\n"), &[]).unwrap();
    let Hardware::Infiniband(driver) = by_lid.hardware else { panic!("asked for") };
    assert_eq!(driver.routing, RoutingName::Lid);
    assert_eq!(
        complaints::<SwitchAgentConfig>(&format!("{file}routing = 'gid'\n"), &[]),
        [
            "F:7: switch_agent.infiniband.routing: unknown variant `gid`, expected `directed` or `lid`"
        ]
    );
    let bad = file.replace('7', "20000").replace("0x10", "10").replace("'a'", "'a'\nfabric = ''");
    assert_eq!(
        complaints::<SwitchAgentConfig>(&bad, &[]),
        [
            "F:6: switch_agent.infiniband.first_entry: a multicast table has entries 0 to 16383",
            "F:7: switch_agent.infiniband.management_key: not 0x and at most 16 hexadecimal digits",
        ]
    );
}

#[test]
fn a_driver_of_another_name_gets_its_options_as_they_are() {
    let file = "\
[switch_agent]
name = 'a'
driver = 'example'
[switch_agent.driver_options]
address = 'switch:1'
colors = 7
";
    let agent: SwitchAgentConfig = load_text(file, &[]).unwrap();
    assert_eq!(agent.hardware.driver_name(), "example");
    let Hardware::Other { options, .. } = agent.hardware else { panic!("another driver") };
    assert_eq!(options, "address = \"switch:1\"\ncolors = 7\n");
}
