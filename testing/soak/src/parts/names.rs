//! Names that are always new, locks that are dropped, and attempts that are cancelled at any point.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

use anyhow::bail;
use shedlock::{Attempt, Executor, LockConfig};
use tokio::runtime::Handle;

use crate::Load;
use crate::part::{
    AT_MOST, Place, Samples, Times, Workers, Yardstick, end, note, nothing_is_held, run_once,
};
use crate::quantity::{NEW_NAME, PAIR};

/// An attempt that is cancelled is polled at most this often.
const POLLS: u32 = 6;

pub(super) async fn run(place: &Place, load: Load) -> anyhow::Result<()> {
    let executor = Executor::new(place.provider().await?);
    let yardstick = Arc::new(Yardstick::new(&executor).await?);
    let before = Handle::current().metrics().num_alive_tasks();
    let (new, known) = (Times::default(), Times::default());
    let names = Arc::new(AtomicU32::new(0));
    let mut workers = Workers::default();
    for worker in 0..2_u32 {
        let (executor, yardstick, names) = (executor.clone(), yardstick.clone(), names.clone());
        let (new, known) = (new.clone(), known.clone());
        workers.add(Duration::from_millis(5), move || {
            let (executor, yardstick, new, known) = (
                executor.clone(),
                yardstick.clone(),
                new.clone(),
                known.clone(),
            );
            let nth = names.fetch_add(1, Ordering::SeqCst);
            async move {
                yardstick.read().await?;
                new.of(run_once(&executor, &of(format!("new-{nth}"))))
                    .await?;
                known
                    .of(run_once(
                        &executor,
                        &of(format!("known-{worker}-{}", nth % 100)),
                    ))
                    .await
            }
        });
    }
    let dropping = executor.clone();
    let mut nth = 0_u32;
    workers.add(Duration::from_millis(10), move || {
        nth += 1;
        // No name comes again before what was dropped has been given back.
        let (executor, config) = (dropping.clone(), of(format!("dropped-{}", nth % 1_000)));
        async move {
            match executor.lock(&config).await? {
                Attempt::Acquired(lock) => drop(lock),
                other => bail!("a dropped lock was not given back: {other:?}"),
            }
            Ok(())
        }
    });
    let cancelling = executor.clone();
    workers.add(Duration::from_millis(20), move || {
        let (executor, config) = (
            cancelling.clone(),
            of(format!("cancelled-{}", fastrand::u32(..1_000))),
        );
        async move {
            // One may still be held by an attempt that was cancelled.
            let attempt = executor.execute(&config, tokio::task::yield_now());
            polled(attempt, fastrand::u32(1..=POLLS)).await;
            Ok(())
        }
    });
    let mut samples = Samples::new(load);
    while samples.next().await {
        workers.check()?;
        samples.add_own()?;
        Times::sample(
            &[(&NEW_NAME, &new), (&PAIR, &known)],
            &yardstick.times,
            &samples,
        );
    }
    let steps = workers.stop().await?;
    nothing_is_held(&executor).await?;
    end(
        "tasks alive",
        Handle::current().metrics().num_alive_tasks(),
        before + 2,
    );
    let names = names.load(Ordering::SeqCst);
    note(&format!(
        "{names} new names, {} drops and cancels",
        steps - u64::from(names)
    ));
    Ok(())
}

fn of(name: String) -> LockConfig {
    LockConfig::new(name).job("soak").lock_at_most_for(AT_MOST)
}

/// Drops it after this many polls, if it has not ended by then.
async fn polled(future: impl Future, mut polls: u32) {
    let mut future = pin!(future);
    poll_fn(|context| {
        polls -= 1;
        if future.as_mut().poll(context).is_ready() || polls == 0 {
            return Poll::Ready(());
        }
        Poll::Pending
    })
    .await;
}
