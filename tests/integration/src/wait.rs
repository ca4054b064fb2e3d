//! Waits with a bound.

use std::time::{Duration, Instant};

/// Timeout of every wait. Long, because tests share processors.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// Time between two checks.
const INTERVAL: Duration = Duration::from_millis(5);

/// Checks a condition until it holds, and returns its value.
///
/// - `what`: name of the condition, for the panic message.
/// - `look`: the check; its error is a text with what is missing.
///
/// # Panics
///
/// After [`DEADLINE`], with the last error.
pub async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Result<T, String>) -> T {
    let started = Instant::now();
    loop {
        match look().await {
            Ok(answer) => return answer,
            Err(missing) if started.elapsed() > DEADLINE => {
                panic!("gave up waiting until {what}: {missing}")
            }
            Err(_missing) => tokio::time::sleep(INTERVAL).await,
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
