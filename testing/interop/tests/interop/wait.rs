//! Waits for events that depend on a real store's time.

use std::future::Future;
use std::time::Duration;

use anyhow::bail;

/// Waits by the real clock.
#[expect(
    clippy::disallowed_methods,
    reason = "a real store's time cannot be moved"
)]
pub(crate) async fn wait(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// Polls until there is a result; an error after a minute.
pub(crate) async fn until<T, F>(mut ask: impl FnMut() -> F) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<Option<T>>>,
{
    for _ in 0..600 {
        if let Some(answer) = ask().await? {
            return Ok(answer);
        }
        wait(Duration::from_millis(100)).await;
    }
    bail!("nothing happened within a minute")
}

/// The real clock.
#[expect(
    clippy::disallowed_methods,
    reason = "the clock that two real processes share orders what they did"
)]
pub(crate) fn now() -> std::time::SystemTime {
    std::time::SystemTime::now()
}
