//! A reading that requests share, because it reads a whole store.

use std::sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::lock::Mutex;
use shedlock_core::{Clock as _, Error, Moment, SystemClock};

/// How old a reading may be.
const FRESH: Duration = Duration::from_secs(5);

/// The latest reading. While one request reads, the others wait for what it finds.
pub(crate) struct Shared<T> {
    latest: StdMutex<Latest<T>>,
    /// Held by the request that reads.
    turn: Mutex<()>,
}

struct Latest<T> {
    reading: Option<(Moment, Arc<T>)>,
    /// How often the reading was dropped. A reading that began before that is not kept.
    drops: u64,
}

impl<T> Shared<T> {
    pub(crate) fn new() -> Self {
        Self {
            latest: StdMutex::new(Latest {
                reading: None,
                drops: 0,
            }),
            turn: Mutex::new(()),
        }
    }

    /// The latest reading if it is fresh, otherwise a new one. A failure is not shared: it may be
    /// gone at the next try.
    pub(crate) async fn get(
        &self,
        read: impl Future<Output = Result<T, Error>>,
    ) -> Result<Arc<T>, Error> {
        if let Some(fresh) = self.latest().fresh() {
            return Ok(fresh);
        }
        let _turn = self.turn.lock().await;
        let drops = {
            let latest = self.latest();
            if let Some(fresh) = latest.fresh() {
                return Ok(fresh);
            }
            latest.drops
        };
        // Its age counts from its start.
        let start = SystemClock.now();
        let found = Arc::new(read.await?);
        let mut latest = self.latest();
        if latest.drops == drops {
            latest.reading = Some((start, found.clone()));
        }
        Ok(found)
    }

    /// Drops the reading, because something has changed.
    pub(crate) fn forget(&self) {
        let mut latest = self.latest();
        latest.reading = None;
        latest.drops += 1;
    }

    fn latest(&self) -> MutexGuard<'_, Latest<T>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Latest<T> {
    fn fresh(&self) -> Option<Arc<T>> {
        let (start, found) = self.reading.as_ref()?;
        let age = SystemClock.now().saturating_since(*start);
        (age < FRESH).then(|| found.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures_util::future::{join, join_all};

    use super::*;

    #[tokio::test]
    async fn requests_at_the_same_time_share_one_reading() {
        let (shared, reads) = (Shared::new(), AtomicU32::new(0));
        let read = || async {
            let number = reads.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            Ok(number)
        };
        let all = join_all((0..10).map(|_| shared.get(read()))).await;
        for found in all {
            assert_eq!(*found.unwrap(), 0);
        }
        shared.forget();
        assert_eq!(*shared.get(read()).await.unwrap(), 1);
    }

    #[tokio::test]
    async fn a_reading_that_began_before_a_change_is_not_kept() {
        let shared = Shared::new();
        let slow = shared.get(async {
            tokio::task::yield_now().await;
            Ok("before")
        });
        let change = async { shared.forget() };
        let (found, ()) = join(slow, change).await;
        assert_eq!(*found.unwrap(), "before");
        assert_eq!(*shared.get(async { Ok("after") }).await.unwrap(), "after");
    }

    #[tokio::test]
    async fn a_failure_is_not_kept() {
        let shared = Shared::new();
        let error = Error::new(shedlock_core::ErrorKind::Unavailable, "no store");
        assert!(shared.get(async { Err(error) }).await.is_err());
        assert_eq!(*shared.get(async { Ok(1) }).await.unwrap(), 1);
    }
}
