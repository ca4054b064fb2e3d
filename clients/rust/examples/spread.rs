//! Times of messages to a whole group until all members have acknowledged them, one process on
//! each of the members' hosts:
//!
//! ```sh
//! spread GROUP MEMBERS [ITERATIONS]        # with FABRICAST_SOCKET, and FABRICAST_PATH
//! ```
//!
//! Rank 0 sends, and prints the median and the 99th percentile.
#![expect(clippy::print_stdout, reason = "what it measures is its output")]

use std::error::Error;
use std::time::{Duration, Instant};

use fabricast_client::blocking::Client;
use fabricast_client::{GroupPath, Settings};

const SIZES: [usize; 4] = [8, 4 << 10, 64 << 10, 1 << 20];
const WARM_UP: usize = 10;
/// Time in which the fabric's multicast connection is heard, if there is one.
const HEARD: Duration = Duration::from_secs(3);

#[expect(clippy::disallowed_methods, reason = "no runtime waits in this thread")]
fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().collect();
    let [_, name, members, more @ ..] = words.as_slice() else {
        return Err("usage: spread GROUP MEMBERS [ITERATIONS]".into());
    };
    let iterations: usize = more.first().map_or(Ok(100), |text| text.parse())?;
    let client = Client::attach(Settings::from_environment()?)?;
    let group = client.join(name)?;
    group.take_part()?;
    group.wait_for(members.parse()?)?;
    let begun = Instant::now();
    while group.path() == GroupPath::Direct && begun.elapsed() < HEARD {
        std::thread::sleep(Duration::from_millis(10));
    }
    group.barrier()?;
    if group.rank() == 0 {
        println!("{members} members, path: {}", group.path().as_str());
        println!("{:>9} {:>9} {:>9}", "bytes", "us", "99 %");
    }
    for bytes in SIZES {
        let mut times = Vec::new();
        for turn in 0..iterations + WARM_UP {
            if group.rank() != 0 {
                group.receive()?;
                continue;
            }
            let payload = vec![7; bytes];
            let begun = Instant::now();
            group.multicast(&payload)?;
            if turn >= WARM_UP {
                times.push(begun.elapsed().as_micros());
            }
        }
        times.sort_unstable();
        if let Some(median) = times.get(times.len() / 2) {
            println!("{bytes:>9} {median:>9} {:>9}", times[times.len() * 99 / 100]);
        }
    }
    group.barrier()?;
    Ok(())
}
