//! The results of tasks that run until they end by themselves.

use tokio::task::JoinError;

/// Takes the result of a task that nobody aborts; a panic of the task goes on here.
///
/// Such a task is cancelled only when its runtime ends. Then the caller's task is about to be
/// dropped as well, and this waits for that.
pub async fn joined<T>(ended: Result<T, JoinError>) -> T {
    match ended.map_err(JoinError::try_into_panic) {
        Ok(value) => value,
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        Err(Err(_cancelled)) => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A TIC in `fabricast run` panicked, as the runtime ended while it waited for a call.
    #[tokio::test]
    async fn a_cancelled_task_has_no_result_and_is_no_panic() {
        assert_eq!(joined(tokio::spawn(async { 7 }).await).await, 7);
        let task = tokio::spawn(std::future::pending::<()>());
        task.abort();
        let waits = tokio::time::timeout(Duration::from_millis(1), joined(task.await)).await;
        assert!(waits.is_err());
    }

    #[tokio::test]
    #[should_panic(expected = "in the task")]
    async fn a_panic_goes_on() {
        let task = tokio::spawn(async { panic!("in the task") });
        joined(task.await).await
    }
}
