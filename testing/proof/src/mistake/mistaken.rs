//! Makes one mistake with a correct provider.

use std::fmt;
use std::sync::{Arc, Mutex};

use shedlock_core::admin::{Change, Changed, Seen};
use shedlock_core::{
    Attempt, AttemptRequest, BoxFuture, Clock, Error, ExtendRequest, Extension, Lease, ListRequest,
    LockName, LockProvider, LockRecord, MigrationStep, SystemClock, Unlock, UnlockRequest,
};

use super::Mistake;
use super::clock::{ClockError, WrongClock};
use super::duties::Opened;
use super::site::{Records, Shared, Site};
use crate::SeededRng;

/// What a [`Mistaken`] provider has to work with.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// The seed of its random choices.
    pub seed: u64,
    /// The client's clock, on which it waits.
    pub clock: Arc<dyn Clock>,
    /// Access to the records, if the harness has it.
    pub records: Option<Arc<dyn Records>>,
    /// What it shares with other clients of the same store.
    pub shared: Shared,
}

impl Surroundings {
    /// Real time, and nothing that is shared with other clients.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            clock: Arc::new(SystemClock),
            records: None,
            shared: Shared::default(),
        }
    }
}

/// A correct provider in which a mistake is switched in, or none.
pub struct Mistaken {
    inner: Arc<dyn LockProvider>,
    mistake: Option<Mistake>,
    site: Site,
}

impl Mistaken {
    /// Switches this mistake into this provider.
    pub fn new(
        mistake: Option<Mistake>,
        inner: Arc<dyn LockProvider>,
        surroundings: Surroundings,
    ) -> Self {
        let Surroundings {
            seed,
            clock,
            records,
            shared,
        } = surroundings;
        let site = Site {
            inner: Arc::clone(&inner),
            records,
            wrong_clock: WrongClock::new(
                Arc::clone(&clock),
                match mistake {
                    Some(Mistake::NoLookAfterPause) => ClockError::Lags,
                    Some(Mistake::WaitCountsJumps) => ClockError::CountsJumps,
                    _ => ClockError::None,
                },
            ),
            clock,
            rng: Mutex::new(SeededRng::new(seed)),
            own: Shared::default(),
            shared,
        };
        Self {
            inner,
            mistake,
            site,
        }
    }

    /// The clock for the executor, if the mistake is in the clock too.
    pub fn clock(&self) -> Option<Arc<dyn Clock>> {
        let is_wrong = self.mistake.is_some_and(Mistake::is_of_the_clock);
        is_wrong.then(|| Arc::clone(&self.site.wrong_clock) as Arc<dyn Clock>)
    }

    fn stored(&self, name: &LockName) -> Result<LockName, Error> {
        match self.mistake {
            Some(mistake) => mistake.stored(name),
            None => Ok(name.clone()),
        }
    }
}

impl fmt::Debug for Mistaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mistaken({:?}, {:?})", self.mistake, self.inner)
    }
}

impl LockProvider for Mistaken {
    fn attempt<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<Attempt, Error>> {
        Box::pin(async move {
            let inside = request.clone().with_name(self.stored(&request.name)?);
            Ok(match self.site.attempt(self.mistake, &inside).await? {
                Attempt::Acquired(lease) => {
                    Attempt::Acquired(lease.with_name(request.name.clone()))
                }
                answer => answer,
            })
        })
    }

    fn withdraw<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(async move {
            let inside = request.clone().with_name(self.stored(&request.name)?);
            self.site.withdraw(self.mistake, &inside).await
        })
    }

    fn extend<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a ExtendRequest,
    ) -> BoxFuture<'a, Result<Extension, Error>> {
        Box::pin(async move {
            let inside = lease.clone().with_name(self.stored(lease.name())?);
            Ok(
                match self.site.extend(self.mistake, &inside, request).await? {
                    Extension::Extended(extended) => {
                        Extension::Extended(extended.with_name(lease.name().clone()))
                    }
                    answer => answer,
                },
            )
        })
    }

    fn unlock<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a UnlockRequest,
    ) -> BoxFuture<'a, Result<Unlock, Error>> {
        Box::pin(async move {
            let inside = lease.clone().with_name(self.stored(lease.name())?);
            self.site.unlock(self.mistake, &inside, request).await
        })
    }

    fn inspect<'a>(
        &'a self,
        name: &'a LockName,
    ) -> BoxFuture<'a, Result<Option<LockRecord>, Error>> {
        Box::pin(async move {
            let found = self.site.inner.inspect(&self.stored(name)?).await?;
            Ok(found.map(|mut record| {
                record.name = name.clone();
                record
            }))
        })
    }

    fn list<'a>(
        &'a self,
        request: &'a ListRequest,
    ) -> BoxFuture<'a, Result<Vec<LockRecord>, Error>> {
        Box::pin(self.site.list(self.mistake, request))
    }

    fn look<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Seen>, Error>> {
        Box::pin(self.site.look(self.mistake, name))
    }

    fn change<'a>(
        &'a self,
        name: &'a LockName,
        seen: &'a Seen,
        change: &'a Change,
    ) -> BoxFuture<'a, Result<Changed, Error>> {
        Box::pin(self.site.change(self.mistake, name, seen, change))
    }

    fn remove<'a>(
        &'a self,
        name: &'a LockName,
        seen: &'a Seen,
    ) -> BoxFuture<'a, Result<Changed, Error>> {
        Box::pin(self.site.remove(self.mistake, name, seen))
    }

    fn plan_migration(&self) -> BoxFuture<'_, Result<Vec<MigrationStep>, Error>> {
        Box::pin(self.site.plan_migration(self.mistake))
    }

    fn for_duties(&self) -> Opened<'_> {
        self.site.for_duties(self.mistake)
    }

    shedlock_core::delegate!(inner except attempt, withdraw, extend, unlock, inspect, list,
        look, change, remove, plan_migration, for_duties);
}
