//! Times of messages to a whole group until all members have acknowledged them, one process on
//! each of the members' hosts, through Fabricast or over plain TCP connections:
//!
//! ```sh
//! spread GROUP MEMBERS [ITERATIONS]        # with FABRICAST_SOCKET, and FABRICAST_PATH
//! spread --tcp loop|tree RANK ITERATIONS ADDRESS:PORT...   # the addresses of all ranks, in order
//! ```
//!
//! Rank 0 sends, and prints for each size the bytes, the number of messages, and the median and the
//! 99th percentile of their times in microseconds.
#![expect(clippy::print_stdout, reason = "what it measures is its output")]

use std::error::Error;
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use fabricast_client::blocking::Client;
use fabricast_client::{GroupPath, Settings};

mod tcp;

const SIZES: [usize; 4] = [8, 4 << 10, 64 << 10, 1 << 20];
const WARM_UP: usize = 10;
/// Time in which the fabric's multicast connection is heard, if there is one.
const HEARD: Duration = Duration::from_secs(10);

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> Outcome {
    let words: Vec<String> = std::env::args().collect();
    match words.as_slice() {
        [_, first, shape, rank, iterations, addresses @ ..] if first == "--tcp" => {
            over_tcp(shape.parse()?, rank.parse()?, iterations.parse()?, addresses)
        }
        [_, name, members, more @ ..] if more.len() < 2 => {
            let iterations: usize = more.first().map_or(Ok(100), |text| text.parse())?;
            through_fabricast(name, members.parse()?, iterations)
        }
        _ => Err("usage: spread GROUP MEMBERS [ITERATIONS], or \
                  spread --tcp loop|tree RANK ITERATIONS ADDRESS:PORT..."
            .into()),
    }
}

#[expect(clippy::disallowed_methods, reason = "no runtime waits in this thread")]
fn through_fabricast(name: &str, members: usize, iterations: usize) -> Outcome {
    let client = Client::attach(Settings::from_environment()?)?;
    let group = client.join(name)?;
    group.take_part()?;
    group.wait_for(members)?;
    let begun = Instant::now();
    while group.path() == GroupPath::Direct && begun.elapsed() < HEARD {
        std::thread::sleep(Duration::from_millis(10));
    }
    group.barrier()?;
    let is_sender = group.rank() == 0;
    if is_sender {
        println!("{members} members, path: {}", group.path().as_str());
    }
    measure(is_sender, iterations, |payload| {
        if is_sender {
            group.multicast(payload)?;
        } else {
            group.receive()?;
        }
        Ok(())
    })?;
    group.barrier()?;
    Ok(())
}

fn over_tcp(shape: tcp::Shape, rank: usize, iterations: usize, addresses: &[String]) -> Outcome {
    let parsed = addresses.iter().map(|text| text.parse::<SocketAddr>());
    let addresses = parsed.collect::<Result<Vec<_>, _>>()?;
    let listener = TcpListener::bind(addresses.get(rank).ok_or("the rank has no address")?)?;
    let mut process = tcp::Process::connect(shape, rank, &addresses, &listener)?;
    if rank == 0 {
        println!("{} members, path: TCP {shape:?}", addresses.len());
    }
    measure(rank == 0, iterations, |payload| Ok(process.pass_on(payload)?))
}

/// Has messages of each size sent or taken, as often as told after some to warm up.
///
/// - `pass_on`: sends the payload until all have acknowledged it, or takes one of its length.
fn measure(
    is_sender: bool,
    iterations: usize,
    mut pass_on: impl FnMut(&[u8]) -> Outcome,
) -> Outcome {
    if is_sender {
        println!("{:>9} {:>9} {:>9} {:>9}", "bytes", "number", "us", "99 %");
    }
    for bytes in SIZES {
        let payload = vec![7; bytes];
        let mut times = Vec::new();
        for turn in 0..iterations + WARM_UP {
            let begun = Instant::now();
            pass_on(&payload)?;
            if turn >= WARM_UP {
                times.push(begun.elapsed().as_micros());
            }
        }
        times.sort_unstable();
        let count = times.len();
        if let Some(median) = times.get(count / 2).filter(|_| is_sender) {
            println!("{bytes:>9} {count:>9} {median:>9} {:>9}", times[count * 99 / 100]);
        }
    }
    Ok(())
}
