//! Messages of one process to all others over plain TCP connections, for comparison.
//!
//! In a loop the first process has a connection to each other one: it sends to all of them, and
//! then waits for all answers. In a tree each process has two others below it: it passes pieces on
//! as they come, and answers once it has the whole message and those below it have answered.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Most bytes that are passed on at once.
const PIECE: usize = 64 << 10;
/// Longest wait for another process.
const PATIENCE: Duration = Duration::from_secs(60);

/// The connections that there are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// The first process is connected to each other one.
    Loop,
    /// Each process is connected to two others below it.
    Tree,
}

impl Shape {
    /// Ranks of the processes below one.
    fn below(self, rank: usize, count: usize) -> Range<usize> {
        let (first, end) = match self {
            Self::Loop if rank == 0 => (1, count),
            Self::Loop => (count, count),
            Self::Tree => (2 * rank + 1, 2 * rank + 3),
        };
        first.min(count)..end.min(count)
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "loop" => Ok(Self::Loop),
            "tree" => Ok(Self::Tree),
            _ => Err(format!("'{text}' is neither loop nor tree")),
        }
    }
}

/// One of the processes, with its connections.
pub(crate) struct Process {
    /// None at the first process.
    above: Option<TcpStream>,
    below: Vec<TcpStream>,
    buffer: Vec<u8>,
}

impl Process {
    /// Connects a process to those below it, and waits for the one above it.
    ///
    /// - `addresses`: of all ranks, in order; `listener` has that of this one.
    pub(crate) fn connect(
        shape: Shape,
        rank: usize,
        addresses: &[SocketAddr],
        listener: &TcpListener,
    ) -> io::Result<Self> {
        let mut below = Vec::new();
        for address in &addresses[shape.below(rank, addresses.len())] {
            let connect = || TcpStream::connect_timeout(address, Duration::from_secs(5));
            below.push(prepared(eventually(connect)?)?);
        }
        listener.set_nonblocking(true)?;
        let accept = || listener.accept().map(|(stream, _)| stream);
        let above = if rank == 0 { None } else { Some(prepared(eventually(accept)?)?) };
        Ok(Self { above, below, buffer: vec![0; PIECE] })
    }

    /// Sends a message at the first process, until all have acknowledged it; at the others, takes
    /// one of this length, and acknowledges it for those below, too.
    pub(crate) fn pass_on(&mut self, payload: &[u8]) -> io::Result<()> {
        let Self { above, below, buffer } = self;
        let mut left = payload.len();
        while left > 0 {
            let most = left.min(PIECE);
            let piece = match above {
                None => &payload[..most],
                Some(above) => {
                    let length = above.read(&mut buffer[..most])?;
                    if length == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    &buffer[..length]
                }
            };
            for other in below.iter_mut() {
                other.write_all(piece)?;
            }
            left -= piece.len();
        }
        let mut answer = [0];
        for other in below.iter_mut() {
            other.read_exact(&mut answer)?;
        }
        above.as_mut().map_or(Ok(()), |above| above.write_all(&answer))
    }
}

/// Has a connection send at once, and wait no longer than [`PATIENCE`].
fn prepared(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Tries until it succeeds, no longer than [`PATIENCE`].
#[expect(clippy::disallowed_methods, reason = "no runtime waits in this thread")]
fn eventually<T>(attempt: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let begun = Instant::now();
    loop {
        match attempt() {
            Err(_) if begun.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(20)),
            ended => return ended,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn every_process_but_the_first_is_below_one_other() {
        for shape in [Shape::Loop, Shape::Tree] {
            for count in 1..40 {
                let all = (0..count).flat_map(|rank| shape.below(rank, count));
                let mut found: Vec<usize> = all.collect();
                found.sort_unstable();
                assert_eq!(found, (1..count).collect::<Vec<_>>(), "{shape:?} of {count}");
            }
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "no runtime waits in this thread")]
    fn the_first_process_waits_for_the_answer_of_the_last_one() {
        const LATE: usize = 6;
        for shape in [Shape::Loop, Shape::Tree] {
            let bind = |_| TcpListener::bind("127.0.0.1:0").unwrap();
            let listeners: Vec<TcpListener> = (0..=LATE).map(bind).collect();
            let addresses: Vec<SocketAddr> =
                listeners.iter().map(|one| one.local_addr().unwrap()).collect();
            let (taken, addresses) = (&AtomicBool::new(false), addresses.as_slice());
            std::thread::scope(|scope| {
                for (rank, listener) in listeners.iter().enumerate() {
                    scope.spawn(move || {
                        let connected = Process::connect(shape, rank, addresses, listener);
                        let mut process = connected.unwrap();
                        if rank == LATE {
                            std::thread::sleep(Duration::from_millis(100));
                            taken.store(true, Ordering::SeqCst);
                        }
                        process.pass_on(&[7; 3 * PIECE / 2]).unwrap();
                        assert!(rank > 0 || taken.load(Ordering::SeqCst), "{shape:?}");
                    });
                }
            });
        }
    }
}
