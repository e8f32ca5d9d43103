//! Shared parts of the cases about slots.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use shedlock_core::{Attempt, AttemptRequest, LockName, Slot};
use tokio::task::JoinSet;

use crate::context::name;
use crate::steps::{attempt_of_many, unlock};
use crate::{JavaRecord, Provider, Stop, TestContext, Verdict};

const MINUTE: Duration = Duration::from_secs(60);

/// A job with slots a minute apart, the first of them an hour ago.
pub(super) struct Slots<'a> {
    pub(super) context: &'a TestContext,
    pub(super) job: LockName,
    base: Slot,
    pub(super) first: Provider,
    pub(super) second: Provider,
}

impl<'a> Slots<'a> {
    pub(super) async fn new(context: &'a TestContext) -> Result<Self, Stop> {
        context.needs_slots()?;
        let (first, second) = context.two().await?;
        let base = context.slot_before_now(&first, 60 * MINUTE).await?;
        Ok(Self {
            context,
            job: name("job"),
            base,
            first,
            second,
        })
    }

    pub(super) fn slot(&self, number: u32) -> Result<Slot, Stop> {
        Ok(Slot::at(self.base.instant() + number * MINUTE)?)
    }

    pub(super) fn request(&self, number: u32) -> Result<AttemptRequest, Stop> {
        Ok(self
            .context
            .request(&self.job)
            .with_slot(self.slot(number)?))
    }

    /// Writes what ShedLock leaves after an acquisition this long after slot 0, held for `kept`.
    pub(super) async fn java(&self, after: Duration, kept: Duration) -> Verdict {
        let locked_at = self.slot(0)?.instant() + after;
        let record = JavaRecord {
            locked_by: "java-host".to_owned(),
            locked_at,
            lock_until: locked_at + kept,
        };
        self.context.write_as_shedlock(&self.job, &record).await
    }

    /// As [`java`](Self::java), but the record must still exist after its end. Not applicable to a
    /// store that deletes records that ShedLock unlocked or that expired.
    pub(super) async fn java_leaves(&self, after: Duration, kept: Duration) -> Verdict {
        self.java(after, kept).await?;
        if self.context.read_as_shedlock(&self.job).await?.is_none() {
            return Err(Stop::not_applicable(
                "a lock that ShedLock no longer holds leaves no record in this store",
            ));
        }
        Ok(())
    }

    /// Not applicable if the record that ShedLock left does not contain its acquisition time: the
    /// store uses the time of the write instead.
    pub(super) async fn needs_shedlocks_times(&self, locked_at: SystemTime) -> Verdict {
        let seen = self.context.read_as_shedlock(&self.job).await?;
        let apart = seen.map(|seen| seen.locked_at.duration_since(locked_at).unwrap_or_default());
        if apart.is_some_and(|apart| apart > MINUTE) {
            return Err(Stop::not_applicable(
                "the records of ShedLock in this store do not contain the time at which they were \
                 acquired",
            ));
        }
        Ok(())
    }

    /// Returns how many of the contenders ran; each unlocks immediately.
    pub(super) async fn contend(
        &self,
        providers: &[Provider],
        slot: u32,
        count: usize,
    ) -> Result<usize, Stop> {
        let mut contenders = JoinSet::new();
        for i in 0..count {
            let provider = Arc::clone(&providers[i % providers.len()]);
            let request = self.request(slot)?;
            contenders.spawn(async move {
                match attempt_of_many(&provider, &request).await? {
                    Attempt::Acquired(lease) => {
                        unlock(&provider, &lease).await?;
                        Ok(1)
                    }
                    _ => Ok::<usize, Stop>(0),
                }
            });
        }
        let mut winners = 0;
        while let Some(joined) = contenders.join_next().await {
            winners += joined??;
        }
        Ok(winners)
    }
}
