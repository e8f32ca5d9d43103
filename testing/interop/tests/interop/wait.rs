//! Waits for events that depend on a real store's time.

use std::future::Future;

use shedlock_rig::wait::Looks;
pub(crate) use shedlock_rig::wait::sleep as wait;

/// Polls until there is a result.
pub(crate) async fn until<T, F>(mut ask: impl FnMut() -> F) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<Option<T>>>,
{
    let looks = Looks::at("an answer of the store");
    loop {
        if let Some(answer) = ask().await? {
            return Ok(answer);
        }
        looks.again().await;
    }
}

/// The real clock.
#[expect(
    clippy::disallowed_methods,
    reason = "the clock that two real processes share orders what they did"
)]
pub(crate) fn now() -> std::time::SystemTime {
    std::time::SystemTime::now()
}
