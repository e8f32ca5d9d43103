use shedlock::*;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

/// A record with its version.
#[derive(Clone, Debug)]
struct Paper {
    version: u64,
    owner: String,
    locked_at: SystemTime,
    locked_until: SystemTime,
}

/// The client: reads, and replaces what still has the expected version (0: nothing is there).
#[derive(Debug, Default)]
struct Cabinet(Mutex<BTreeMap<LockName, Paper>>);

impl Cabinet {
    async fn read(&self, name: &LockName) -> Result<Option<Paper>, Error> {
        Ok(self.0.lock().unwrap().get(name).cloned())
    }

    async fn replace(&self, name: &LockName, expected: u64, mut new: Paper) -> Result<bool, Error> {
        let mut papers = self.0.lock().unwrap();
        if papers.get(name).map_or(0, |paper| paper.version) != expected {
            return Ok(false);
        }
        new.version = expected + 1;
        papers.insert(name.clone(), new);
        Ok(true)
    }
}

#[derive(Debug)]
struct CabinetProvider {
    cabinet: Arc<Cabinet>,
    clock: Arc<dyn Clock>,
    identity: ProviderIdentity,
}

impl CabinetProvider {
    /// The paper, if this owner holds its lock now.
    async fn held(&self, name: &LockName, owner: &Owner) -> Result<Option<Paper>, Error> {
        let now = self.clock.system_time();
        let paper = self.cabinet.read(name).await?;
        Ok(paper.filter(|paper| paper.owner == owner.as_str() && paper.locked_until > now))
    }

    /// Ends this owner's lease at the given instant; the record then names nobody as holder.
    async fn end(
        &self,
        name: &LockName,
        owner: &Owner,
        until: impl Fn(&Paper) -> SystemTime,
    ) -> Result<bool, Error> {
        while let Some(paper) = self.held(name, owner).await? {
            let ended = Paper {
                owner: owner.released(),
                locked_until: until(&paper).max(self.clock.system_time()),
                ..paper
            };
            if self.cabinet.replace(name, paper.version, ended).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn record(&self, name: &LockName, paper: &Paper) -> LockRecord {
        let now = self.clock.system_time();
        let is_locked = paper.locked_until > now;
        let mut record = LockRecord::from_stored(name.clone(), &paper.owner, is_locked);
        record.locked_at = Some(paper.locked_at);
        record.locked_until = Some(paper.locked_until);
        record.read_at = Some(now);
        record
    }

    /// What cannot be expressed is refused; it must neither panic nor wrap around.
    fn after(&self, now: SystemTime, duration: Duration) -> Result<SystemTime, Error> {
        now.checked_add(duration).ok_or_else(|| {
            let message = "this duration reaches past the end of the calendar";
            Error::new(ErrorKind::InvalidInput, message).with_store(self.store())
        })
    }

    fn unsupported<T>(&self, what: &str) -> Result<T, Error> {
        let message = format!("this store has no {what}");
        Err(Error::new(ErrorKind::Unsupported, message).with_store(self.store()))
    }
}

impl LockProvider for CabinetProvider {
    fn attempt<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<Attempt, Error>> {
        Box::pin(async move {
            request.validate()?;
            if request.slot().is_some() {
                return self.unsupported("slots");
            }
            let (name, owner) = (request.name(), request.owner());
            for _ in 0..3 {
                let now = self.clock.system_time();
                let before = self.cabinet.read(name).await?;
                if let Some(paper) = before.as_ref().filter(|paper| paper.locked_until > now) {
                    if paper.owner != owner.as_str() {
                        return Ok(Attempt::Skipped(self.record(name, paper).as_skip()));
                    }
                    // Asked again after the answer was lost.
                    let lease = Lease::granted(request).with_acquired_at(paper.locked_at);
                    let lease = lease.with_locked_until(paper.locked_until);
                    return Ok(Attempt::Acquired(lease));
                }
                if before.as_ref().is_some_and(|paper| paper.owner == owner.released()) {
                    // A late copy of an attempt whose lease was unlocked.
                    return Err(Error::attempt_ended());
                }
                let paper = Paper {
                    version: before.map_or(0, |paper| paper.version),
                    owner: owner.to_string(),
                    locked_at: now,
                    locked_until: self.after(now, request.lock_at_most_for())?,
                };
                let (version, locked_until) = (paper.version, paper.locked_until);
                if self.cabinet.replace(name, version, paper).await? {
                    let lease = Lease::granted(request).with_acquired_at(now);
                    let lease = lease.with_locked_until(locked_until);
                    return Ok(Attempt::Acquired(lease));
                }
                // Who was faster? It may be this very attempt, asked twice: look again.
            }
            Ok(Attempt::Skipped(Skip::new(SkipReason::Contended)))
        })
    }

    fn withdraw<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<bool, Error>> {
        let now = self.clock.system_time();
        Box::pin(async move {
            let (name, owner) = (request.name(), request.owner());
            loop {
                if self.end(name, owner, |_| now).await? {
                    return Ok(true);
                }
                // A copy of the attempt may still be on its way. It replaces a version that was free
                // when the attempt read it, so a free record gets a new version.
                let paper = match self.cabinet.read(name).await? {
                    Some(paper) if paper.locked_until > now => return Ok(false),
                    Some(paper) => paper,
                    None => Paper {
                        version: 0,
                        owner: owner.released(),
                        locked_at: now,
                        locked_until: now,
                    },
                };
                if self.cabinet.replace(name, paper.version, paper).await? {
                    return Ok(false);
                }
            }
        })
    }

    fn extend<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a ExtendRequest,
    ) -> BoxFuture<'a, Result<Extension, Error>> {
        Box::pin(async move {
            request.validate(lease.lock_at_least_for())?;
            while let Some(paper) = self.held(lease.name(), lease.owner()).await? {
                let now = self.clock.system_time();
                // Never earlier: an extension that comes late must not cut a later one short.
                let end = self.after(now, request.lock_at_most_for())?;
                let (version, locked_until) = (paper.version, end.max(paper.locked_until));
                let extended = Paper {
                    locked_until,
                    ..paper
                };
                if self
                    .cabinet
                    .replace(lease.name(), version, extended)
                    .await?
                {
                    let lease = lease.extended(request).with_locked_until(locked_until);
                    return Ok(Extension::Extended(lease));
                }
            }
            Ok(Extension::Lost)
        })
    }

    fn unlock<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a UnlockRequest,
    ) -> BoxFuture<'a, Result<Unlock, Error>> {
        Box::pin(async move {
            let (name, owner) = (lease.name(), lease.owner());
            let at_least = request.at_least_of(lease.lock_at_least_for());
            if self
                .end(name, owner, |paper| paper.locked_at + at_least)
                .await?
            {
                return Ok(Unlock::Unlocked);
            }
            // Done before, and the answer was lost?
            let paper = self.cabinet.read(name).await?;
            let is_done = paper.is_some_and(|paper| paper.owner == owner.released());
            Ok(if is_done {
                Unlock::Unlocked
            } else {
                Unlock::Lost
            })
        })
    }

    fn inspect<'a>(
        &'a self,
        name: &'a LockName,
    ) -> BoxFuture<'a, Result<Option<LockRecord>, Error>> {
        Box::pin(async move {
            let paper = self.cabinet.read(name).await?;
            Ok(paper.map(|paper| self.record(name, &paper)))
        })
    }

    fn list<'a>(&'a self, _: &'a ListRequest) -> BoxFuture<'a, Result<Vec<LockRecord>, Error>> {
        Box::pin(async move { self.unsupported("list of its records") })
    }

    fn force_unlock<'a>(
        &'a self,
        request: &'a ForceUnlockRequest,
    ) -> BoxFuture<'a, Result<ForceUnlock, Error>> {
        Box::pin(async move {
            let name = request.name();
            while let Some(paper) = self.cabinet.read(name).await? {
                let record = self.record(name, &paper);
                if record.state == LockState::Free {
                    break;
                }
                let expected = request.expected_owner();
                if expected.is_some_and(|owner| record.owner.as_deref() != Some(owner)) {
                    return Ok(ForceUnlock::OwnerDiffers(record));
                }
                let version = paper.version;
                let locked_until = self.clock.system_time();
                let owner = Owner::released_text(Owner::without_mark(&paper.owner));
                let freed = Paper {
                    owner,
                    locked_until,
                    ..paper
                };
                if self.cabinet.replace(name, version, freed).await? {
                    return Ok(ForceUnlock::Freed(record));
                }
            }
            Ok(ForceUnlock::NotHeld)
        })
    }

    fn check(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async { Ok(()) })
    }

    fn capabilities(&self) -> Capabilities {
        let tolerated_skew = Duration::from_secs(1);
        let mut capabilities = Capabilities::new(ClockSource::Clients { tolerated_skew });
        capabilities.fencing = false;
        capabilities.slots = false;
        capabilities.slot_completion = false;
        capabilities.list = false;
        capabilities
    }

    fn identity(&self) -> ProviderIdentity {
        self.identity.clone()
    }

    fn store(&self) -> &str {
        "cabinet"
    }
}
