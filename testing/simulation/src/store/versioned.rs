//! A store that replaces a record if its version is still in place, and the real engine over it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use shedlock_core::{Error, ErrorKind, LockName};
use shedlock_proof::Mistake;
use shedlock_provider::{Found, Listed, Reading, Record, VersionedStore, Written};

use super::Store;
use crate::transition::Transition;
use crate::world::Link;

/// How stores of this kind differ.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flavour {
    /// The granularity of the time that each reply contains; without it, the clients' clocks judge.
    pub(crate) time: Option<Duration>,
    /// The store's own numbers are the fencing tokens.
    pub(crate) has_revisions: bool,
    /// Versions of a record count from 1, and so repeat after a deletion.
    pub(crate) repeats_versions: bool,
    /// The store's client does not declare that versions start over.
    pub(crate) conceals: bool,
    /// A crash loses its last writes.
    pub(crate) loses_tail: bool,
    /// Replicas serve reads, and lag by this much. None shows a client an older state than it has
    /// seen.
    pub(crate) lag: Option<Duration>,
}

/// The client of such a store.
#[derive(Clone, Debug)]
pub(crate) struct Versioned {
    link: Link,
    flavour: Flavour,
    /// The revision of the last state of each record that this client has seen.
    seen: Arc<Mutex<BTreeMap<LockName, u64>>>,
}

impl Versioned {
    pub(crate) fn new(link: Link, flavour: Flavour) -> Self {
        Self {
            link,
            flavour,
            seen: Arc::default(),
        }
    }

    fn has_seen(&self, name: &LockName, revision: u64) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let last = seen.entry(name.clone()).or_default();
        *last = revision.max(*last);
    }
}

impl Store {
    /// Replaces the record of this version; version 0 means that there is none. Also returns the
    /// revision that the client has then seen: of its own write, or of the one that came first.
    fn write(
        &self,
        name: &LockName,
        before: u64,
        record: &Record,
        flavour: Flavour,
    ) -> (Written<u64>, u64) {
        let mut texts = self.texts();
        let found = texts.get(name);
        let stands = found.map_or(0, |(version, _)| *version);
        if stands != before && self.wrong != Some(Mistake::ReadThenWrite) {
            let revision = self.revision.lock();
            return (
                Written::Raced,
                *revision.unwrap_or_else(PoisonError::into_inner),
            );
        }
        let revision = self.next_revision();
        let version = if flavour.repeats_versions {
            stands + 1
        } else {
            revision
        };
        self.tell(name, revision, found.map(|(_, record)| record), record);
        let before = texts.insert(name.clone(), (version, record.clone()));
        self.keep(name, before);
        self.shows(name, revision, Some((version, record.clone())));
        (Written::Done(version), revision)
    }

    fn read(&self, name: &LockName, time: Option<Duration>) -> Reading<u64> {
        self.reading(self.texts().get(name).cloned(), time)
    }

    fn reading(&self, found: Option<(u64, Record)>, time: Option<Duration>) -> Reading<u64> {
        let reading = match found {
            Some((version, record)) => Reading::found(Found::new(record, version)),
            None => Reading::nothing(),
        };
        match time {
            Some(resolution) => {
                let now = self.world.now();
                let coarse = now - now % crate::world::nanos(resolution).max(1);
                reading.at(crate::world::calendar_at(coarse))
            }
            None => reading,
        }
    }
}

impl VersionedStore for Versioned {
    type Version = u64;

    fn store(&self) -> &str {
        "simulated"
    }

    async fn read(&self, name: &LockName) -> Result<Reading<u64>, Error> {
        let Flavour { time, lag, .. } = self.flavour;
        let seen = {
            let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.get(name).copied().unwrap_or_default()
        };
        let of = name.clone();
        let read = self.link.call(move |store| {
            let Some(lag) = lag else {
                return Ok((store.read(&of, time), 0));
            };
            let seen = match store.wrong {
                Some(Mistake::ReadsGoBack) => 0,
                _ => seen,
            };
            let (found, revision) = store.shown(&of, lag, seen);
            Ok((store.reading(found, time), revision))
        });
        // Nothing can have been written.
        let (reading, revision) = read.await.map_err(|error| {
            let unavailable = shedlock_core::ErrorKind::Unavailable;
            Error::new(unavailable, error.what().to_owned())
        })?;
        self.has_seen(name, revision);
        Ok(reading)
    }

    async fn write(
        &self,
        name: &LockName,
        before: Option<&u64>,
        record: &Record,
    ) -> Result<Written<u64>, Error> {
        let (of, record) = (name, record.clone());
        let before = before.copied().unwrap_or_default();
        let name = name.clone();
        let flavour = self.flavour;
        let sent = self.link.now();
        let call = self.link.call(move |store| {
            if flavour.repeats_versions && store.is_of_deleted(&name, sent) {
                return Err(Error::new(
                    ErrorKind::OutcomeUnknown,
                    "the connection was cut",
                ));
            }
            Ok(store.write(&name, before, &record, flavour))
        });
        let (written, revision) = call.await?;
        if written == Written::Raced {
            self.link.chronicle().count(Transition::LostRace);
        }
        self.has_seen(of, revision);
        Ok(written)
    }

    async fn remove(&self, name: &LockName, before: &u64) -> Result<bool, Error> {
        let (name, before) = (name.clone(), *before);
        let call = self.link.call(move |store| {
            let stands = store.texts().get(&name).map(|(version, _)| *version) == Some(before);
            if stands {
                store.delete(&name);
            }
            Ok(stands)
        });
        call.await
    }

    async fn list(&self, _: Option<&LockName>, _: usize) -> Result<Listed<u64>, Error> {
        let time = self.flavour.time;
        let list = self.link.call(move |store| {
            let names: Vec<LockName> = store.texts().keys().cloned().collect();
            let listed = names.into_iter().map(|name| {
                let reading = store.read(&name, time);
                (name, Ok(reading))
            });
            Ok(listed.collect())
        });
        list.await
    }

    fn store_time(&self) -> Option<Duration> {
        self.flavour.time
    }

    fn versions_can_repeat(&self) -> bool {
        self.flavour.repeats_versions && !self.flavour.conceals
    }

    fn has_revisions(&self) -> bool {
        self.flavour.has_revisions
    }

    fn revision(&self, version: &u64) -> Option<u64> {
        self.flavour.has_revisions.then_some(*version)
    }
}
