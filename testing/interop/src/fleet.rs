//! Stores that ShedLock and this project share.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use shedlock::{
    Attempt, AttemptRequest, ErrorKind, ExtendRequest, Extension, Lease, LockName, LockProvider,
    LockRecord, Owner, Unlock, UnlockRequest,
};
use tokio::sync::{Mutex, MutexGuard, OnceCell};
use url::Url;

use crate::place::Place;
use crate::{Fleets, Java, Provider};

/// A store with ShedLock's own table, a process of ShedLock, and a provider of ours.
pub struct Fleet {
    /// How the store is shared.
    pub how: Fleets,
    /// The process of ShedLock.
    pub java: Java,
    /// Our provider.
    pub rust: Arc<dyn LockProvider>,
    /// The URL with which another process of ours opens the store.
    pub url: String,
    arguments: Vec<String>,
    server: Url,
    second: Mutex<Option<Java>>,
    ours_first: OnceCell<OursFirst>,
    saw_the_early_lock: bool,
}

/// A lock that ShedLock acquired before our provider added its columns.
const EARLY: &str = "before-migrate";

impl Fleets {
    /// Sets up the store: ShedLock comes first and holds a lock when our provider adds its columns.
    ///
    /// # Errors
    /// If the setup fails.
    pub async fn open(self, server: &Url) -> anyhow::Result<Fleet> {
        let place = Place::make(self, server).await?;
        place.make_table().await?;
        let java = start(self, &place.arguments).await?;
        java.lock(EARLY, Duration::from_secs(60))
            .await?
            .context("a lock in a new table should be free")?;

        let rust = connect(&place).await?;
        let early = rust.inspect(&LockName::new(EARLY)?).await?;
        Ok(Fleet {
            how: self,
            java,
            rust,
            url: place.url.into(),
            arguments: place.arguments,
            server: server.clone(),
            second: Mutex::new(None),
            ours_first: OnceCell::new(),
            saw_the_early_lock: early.is_some_and(|record| record.state.may_run()),
        })
    }
}

/// Connects our provider, which creates what it needs.
async fn connect(place: &Place) -> anyhow::Result<Arc<dyn LockProvider>> {
    let rust = shedlock::connect(place.url.as_str()).await?;
    match rust.migrate().await {
        Err(error) if error.kind() != ErrorKind::Unsupported => Err(error.into()),
        // Some stores have nothing to migrate.
        _ => Ok(rust),
    }
}

async fn attempt(
    ours: &Arc<dyn LockProvider>,
    name: &str,
    at_most: Duration,
    at_least: Duration,
) -> anyhow::Result<Attempt> {
    let request = AttemptRequest::new(LockName::new(name)?, Owner::generate(), at_most)
        .with_lock_at_least_for(at_least);
    Ok(ours.attempt(&request).await?)
}

async fn start(how: Fleets, arguments: &[String]) -> anyhow::Result<Java> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Java::start(how.jvm_zone(), &arguments).await
}

impl Fleet {
    /// Borrows a second process of ShedLock, which the cases share one after the other because it
    /// is expensive to start.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn second_java(&self) -> anyhow::Result<Second<'_>> {
        let mut second = self.second.lock().await;
        let java = match second.take() {
            Some(java) => java,
            None => start(self.how, &self.arguments).await?,
        };
        Ok(Second {
            place: second,
            java: Some(java),
        })
    }

    /// Returns whether our provider still saw ShedLock's lock after adding its columns to the
    /// table.
    pub fn saw_the_early_lock(&self) -> bool {
        self.saw_the_early_lock
    }

    /// Returns a place in the same store that our provider created, and in which it held a lock
    /// when ShedLock came.
    ///
    /// # Errors
    /// If either side fails.
    pub async fn ours_first(&self) -> anyhow::Result<&OursFirst> {
        let make = || OursFirst::make(self);
        self.ours_first.get_or_try_init(make).await
    }

    /// Acquires the lock with our provider; `None` if another owner holds it.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn lock(&self, name: &str, at_most: Duration) -> anyhow::Result<Option<Lease>> {
        Ok(attempt(&self.rust, name, at_most, Duration::ZERO)
            .await?
            .acquired())
    }

    /// Attempts the lock with our provider.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn attempt(&self, name: &str, at_most: Duration) -> anyhow::Result<Attempt> {
        attempt(&self.rust, name, at_most, Duration::ZERO).await
    }

    /// Attempts the lock with our provider, with this lock-at-least-for.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn attempt_for(
        &self,
        name: &str,
        at_most: Duration,
        at_least: Duration,
    ) -> anyhow::Result<Attempt> {
        attempt(&self.rust, name, at_most, at_least).await
    }

    /// Attempts the lock with another provider of ours.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn attempt_at(
        &self,
        ours: &Arc<dyn LockProvider>,
        name: &str,
        at_most: Duration,
    ) -> anyhow::Result<Attempt> {
        attempt(ours, name, at_most, Duration::ZERO).await
    }

    /// Unlocks with our provider; returns whether the lease was still ours.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn unlock(&self, lease: &Lease) -> anyhow::Result<bool> {
        let unlocked = self.rust.unlock(lease, &UnlockRequest::new()).await?;
        Ok(unlocked == Unlock::Unlocked)
    }

    /// Extends with our provider; `None` if the lease is lost.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn extend(&self, lease: &Lease, at_most: Duration) -> anyhow::Result<Option<Lease>> {
        Ok(
            match self
                .rust
                .extend(lease, &ExtendRequest::new(at_most))
                .await?
            {
                Extension::Extended(lease) => Some(lease),
                _ => None,
            },
        )
    }

    /// Returns the store's record of the lock, if there is one.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn record(&self, name: &str) -> anyhow::Result<Option<LockRecord>> {
        Ok(self.rust.inspect(&LockName::new(name)?).await?)
    }
}

/// A place that our provider created before ShedLock came.
#[derive(Debug)]
pub struct OursFirst {
    /// Our provider.
    pub ours: Arc<dyn LockProvider>,
    /// ShedLock's provider.
    pub theirs: Provider,
    /// Whether ShedLock was excluded from the lock that our provider already held.
    pub kept_out_the_first: bool,
}

impl OursFirst {
    async fn make(fleet: &Fleet) -> anyhow::Result<Self> {
        let place = Place::make(fleet.how, &fleet.server).await?;
        let ours = connect(&place).await?;
        let minute = Duration::from_secs(60);
        let early = attempt(&ours, EARLY, minute, Duration::ZERO).await?;
        let _held = early
            .acquired()
            .context("the lock should be free: no other process uses the store")?;
        let theirs = fleet.java.open(&place.arguments).await?;
        let taken = fleet.java.lock_at(theirs, EARLY, minute).await?;
        Ok(Self {
            ours,
            theirs,
            kept_out_the_first: taken.is_none(),
        })
    }
}

/// A second process of ShedLock, borrowed.
#[derive(Debug)]
pub struct Second<'a> {
    place: MutexGuard<'a, Option<Java>>,
    java: Option<Java>,
}

impl Second<'_> {
    /// Kills it with SIGKILL.
    ///
    /// # Errors
    /// If it cannot be killed.
    pub async fn kill(mut self) -> anyhow::Result<()> {
        match self.java.take() {
            Some(java) => java.kill().await,
            None => Ok(()),
        }
    }
}

impl Deref for Second<'_> {
    type Target = Java;

    fn deref(&self) -> &Java {
        self.java
            .as_ref()
            .expect("only `kill`, which ends this, takes it")
    }
}

impl Drop for Second<'_> {
    fn drop(&mut self) {
        *self.place = self.java.take();
    }
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fleet")
            .field("how", &self.how)
            .finish_non_exhaustive()
    }
}
