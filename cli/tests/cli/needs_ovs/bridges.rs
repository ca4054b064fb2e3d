//! A lab whose switches are Linux bridges.

use super::*;

/// Sends an echo request to an address, and waits for the answer.
const PING: &str = "
import socket, struct, sys
sock = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
sock.settimeout(20)
sock.sendto(struct.pack('!BBHHH', 8, 0, 0xf7ff, 0, 0), (sys.argv[1], 0))
while sock.recvfrom(100)[1][0] != sys.argv[1]: pass
";

#[test]
fn the_demo_counts_what_bridges_carry() {
    let lab = Lab(tempfile::tempdir().expect("a folder"));
    lab.succeeds("start", &["--driver", "bridge", &lab.small_fabric()]);
    let said = lab.succeeds("demo", &["--short"]);
    assert!(said.contains("was drained and resumed"), "{said}");
    assert!(said.contains("7. all programs have ended"), "{said}");
    let said = lab.succeeds("status", &["--brief"]);
    assert!(said.contains("6 of 6 switches connected, 8 of 8 hosts up"), "{said}");

    // Packets to one host have no way until they are given one.
    lab.succeeds("unicast", &[]);
    lab.succeeds("exec", &["h0", "--", "python3", "-c", PING, "10.0.0.8"]);
    lab.succeeds("stop", &[]);
    assert!(!lab.folder().exists());
    assert_eq!(processes(&lab.folder()), Vec::<String>::new());
}
