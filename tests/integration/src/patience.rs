//! Waiting for something to come about, with a bound.

use std::time::{Duration, Instant};

/// Whatever has not come about after this time never will. Long, because tests share processors.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// Time between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Looks again and again until there is an answer.
///
/// - `what`: what is waited for, for the message.
/// - `look`: answers, or says what is still missing.
///
/// # Panics
///
/// After [`DEADLINE`], with what was missing last.
pub async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Result<T, String>) -> T {
    let started = Instant::now();
    loop {
        match look().await {
            Ok(answer) => return answer,
            Err(missing) if started.elapsed() > DEADLINE => {
                panic!("gave up waiting until {what}: {missing}")
            }
            Err(_missing) => tokio::time::sleep(LOOK_AGAIN).await,
        }
    }
}

/// Bounds a wait, so that a broken part fails a test instead of hanging it.
///
/// # Panics
///
/// After [`DEADLINE`].
pub async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.expect("answers in time")
}
