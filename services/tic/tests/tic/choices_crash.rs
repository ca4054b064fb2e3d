//! The process of a TIC is killed while choices are reported to it: every acknowledged report is
//! there afterwards, and each other one completely or not at all (CHOICE-1).
//!
//! The test starts its own executable again as the process that is killed.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::choices::{acquire, choice, client, request, roots};
use crate::harness::Tic;

const FILE: &str = "FABRICAST_TIC_CRASH_TEST_FILE";
/// Groups of a report that is one transaction, and of one that goes through a redo log.
const GROUPS: [u64; 2] = [40, 2_500];
/// Acknowledgements before each kill.
const ROUNDS: [u32; 6] = [0, 1, 2, 7, 20, 50];

#[test]
#[ignore = "the process that a test of this file kills"]
fn serves_until_killed() {
    let file = std::env::var_os(FILE).expect("started by another test");
    serve(Path::new(&file));
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stdout, reason = "it is how the other process learns the address")]
async fn serve(file: &Path) {
    let tic = Tic::on_file(file).await;
    println!("\nat {}", tic.address);
    std::future::pending().await
}

/// A TIC in a process of its own, and its address.
fn start(file: &Path) -> (Child, String) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "choices_crash::serves_until_killed", "--nocapture"])
        .env(FILE, file)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let address = lines.filter_map(|line| line.strip_prefix("at ").map(str::to_owned)).next();
    (child, address.expect("it says where it serves"))
}

/// Reports until nobody answers, each time with the number of the report as the root of all groups;
/// returns the last number that was acknowledged.
async fn report(address: &str, term: u64, gns: &[u64], killer: impl Fn(u32)) -> u32 {
    let mut client = client(address);
    for number in 1.. {
        let changed = gns.iter().map(|gn| choice(*gn, number)).collect();
        let message = request(term, number.into(), changed);
        if client.record_route_choices(tokio_stream::once(message)).await.is_err() {
            return number - 1;
        }
        killer(number);
    }
    0
}

#[tokio::test]
async fn a_killed_tic_has_every_acknowledged_report_and_no_half_of_one() {
    for groups in GROUPS {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tic.redb");
        let tic = Tic::on_file(&file).await;
        tic.register(0).await; // of which the reports do not know
        let mut term = acquire(&tic).await;
        tic.stop().await;
        let gns: Vec<u64> = (1..=groups).collect();
        for acks in ROUNDS {
            let last = report_until_killed(&file, term, &gns, acks).await;
            // Not only the first leader afterwards has it.
            Tic::on_file(&file).await.stop().await;
            let tic = Tic::on_file(&file).await;
            let roots = roots(&tic).await;
            if last > 0 {
                assert!(roots[0] >= last, "report {last} was acknowledged, {} is there", roots[0]);
                assert!(roots[0] <= last + 1, "report {} was never made", roots[0]);
            }
            assert!(roots.iter().all(|root| *root == roots[0]), "{roots:?} are of several reports");
            assert!(roots.is_empty() || roots.len() == gns.len());
            term = acquire(&tic).await;
            tic.stop().await;
        }
    }
}

/// Reports until the TIC is killed, somewhere in the report after so many; returns the number of
/// the last that was acknowledged.
async fn report_until_killed(file: &Path, term: u64, gns: &[u64], acks: u32) -> u32 {
    let (mut child, address) = start(file);
    let (enough, reached) = std::sync::mpsc::channel();
    let killer = std::thread::spawn(move || {
        // The next report is sent meanwhile.
        let _ = reached.recv();
        #[expect(clippy::disallowed_methods, reason = "a kill comes at any time of a report")]
        std::thread::sleep(Duration::from_millis(u64::from(acks) * 5 % 40));
        child.kill().unwrap();
        child.wait().unwrap();
    });
    if acks == 0 {
        enough.send(()).unwrap();
    }
    let last = report(&address, term, gns, |number| {
        if number == acks {
            enough.send(()).unwrap();
        }
    });
    let last = last.await;
    killer.join().unwrap();
    last
}
