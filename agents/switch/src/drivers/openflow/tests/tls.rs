//! Switches to which the agent connects by TLS.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use fabricast_rpc::{Authority, CertificateFiles};
use tempfile::TempDir;
use time::OffsetDateTime;

use super::*;

fn authority() -> Authority {
    let begin = OffsetDateTime::now_utc() - time::Duration::hours(1);
    Authority::create(begin, time::Duration::days(2)).unwrap()
}

/// A folder with a certificate that names no host, and the authority of the other ends.
fn certificates(issuer: &Authority, trusted: &Authority) -> TempDir {
    let begin = OffsetDateTime::now_utc() - time::Duration::hours(1);
    let names = ["leaf".to_owned()];
    let own = issuer.issue(&[], &names, begin, time::Duration::days(1)).unwrap();
    let folder = TempDir::new().unwrap();
    CertificateFiles::in_folder(folder.path()).write(trusted, &own).unwrap();
    folder
}

/// Has a switch listen; returns the target of agents.
///
/// - `refused`: counts connections without a handshake.
async fn listening(switch: &Switch, folder: &Path, refused: &Arc<AtomicUsize>) -> String {
    let tls = SwitchTls::new(folder).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = format!("ssl:{}", listener.local_addr().unwrap());
    let (switch, refused) = (switch.clone(), Arc::clone(refused));
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            match tls.accept(stream).await {
                Ok(stream) => {
                    let _ = switch.clone().serve(stream).await;
                }
                Err(_) => {
                    refused.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    });
    target
}

#[tokio::test]
async fn an_agent_connects_by_tls_to_switches_of_its_authority_only() {
    let fabric = Arc::new(TopologySpec::parse(FABRIC).unwrap().generate().unwrap());
    let (ours, theirs) = (authority(), authority());
    let (known, foreign) = (certificates(&ours, &ours), certificates(&theirs, &ours));
    let (mut switches, mut targets, refused) = (Vec::new(), Vec::new(), Arc::default());
    for (datapath, folder) in (1..).zip([&known, &foreign, &known]) {
        let switch = Switch::new(datapath, 3, Habits::default());
        targets.push(listening(&switch, folder.path(), &refused).await);
        switches.push(switch);
    }
    let more = format!("certificates = '{}'\nconnect = {targets:?}", known.path().display());
    let driver = start(&fabric, &more);
    let names: Vec<_> = fabric.switches().map(|one| fabric.switch_name(one).to_owned()).collect();
    for at in [0, 2] {
        eventually(|| driver.switches.session(&names[at]).is_ok()).await;
    }
    eventually(|| refused.load(Ordering::Relaxed) > 0).await;
    let writes = names.iter().map(|name| part(name, &[(3, &[2])])).collect();
    let written = World::write_by(&driver, (5, 1), writes).await.unwrap();
    let refusals: Vec<_> =
        written.refusals.iter().map(|one| (&one.switch_name, &*one.reason)).collect();
    assert_eq!((written.entries, refusals), (2, vec![(&names[1], "SWITCH_DOWN")]));
    let read = table(&driver, names[0].clone()).await.unwrap();
    assert_eq!(read.entries, part("", &[(3, &[2])]).entries);
    let held: Vec<_> = switches.iter().map(|one| one.model.lock().groups.len()).collect();
    assert_eq!(held, [1, 0, 1]);
}
