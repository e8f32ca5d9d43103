//! An in-memory store of versioned texts, for the tests.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "each test target uses a part of it; the lint knows test functions, but not helpers"
)]

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use shedlock_core::{Clock, Error, ErrorKind, LockName, Owner};
use shedlock_provider::{Found, Listed, Reading, Record, VersionedStore, Written};

/// The fault injected into a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No fault.
    None,
    /// Another client changes the record just before.
    Raced,
    /// The write is done, and its reply is lost.
    ReplyLost,
    /// As `ReplyLost`, and another owner takes the lock before the record is read back.
    ReplyLostThenTaken,
    /// The write never arrives, and its outcome is unknown.
    RequestLost,
    /// The write is done only when [`Texts::deliver`] is called, and its outcome is unknown.
    Delayed,
    /// Delayed writes arrive just before it.
    Overtaken,
    /// The client sends it twice and receives the second reply. Then the next read fails.
    SentTwice,
}

#[derive(Clone, Debug)]
struct Text {
    version: u64,
    text: String,
}

#[derive(Debug, Default)]
struct Inner {
    texts: BTreeMap<LockName, Text>,
    revision: u64,
    plan: VecDeque<Fault>,
    /// Injects faults in rotation, never two in a row on one record.
    is_rough: bool,
    struck: BTreeMap<LockName, bool>,
    turns: usize,
    delayed: Vec<(LockName, u64, String)>,
    reads: usize,
    writes: usize,
    next_read_fails: bool,
}

/// Clones share the texts.
#[derive(Clone, Debug)]
pub struct Texts {
    inner: Arc<Mutex<Inner>>,
    /// The store's own clock and its resolution, if the store reports its time.
    time: Option<(Arc<dyn Clock>, Duration)>,
    has_revisions: bool,
    repeats_versions: bool,
    keeps_equal: bool,
}

impl Texts {
    pub fn new() -> Self {
        Self {
            inner: Arc::default(),
            time: None,
            has_revisions: false,
            repeats_versions: false,
            keeps_equal: false,
        }
    }

    /// Every reply carries the time of this clock, truncated to the resolution.
    pub fn telling(mut self, clock: Arc<dyn Clock>, resolution: Duration) -> Self {
        self.time = Some((clock, resolution));
        self
    }

    pub fn with_revisions(mut self) -> Self {
        self.has_revisions = true;
        self
    }

    /// Versions start at 1 for each new key.
    pub fn with_repeated_versions(mut self) -> Self {
        self.repeats_versions = true;
        self
    }

    /// Writing the text that is already stored keeps its version, as in Consul.
    pub fn keeping_equal(mut self) -> Self {
        self.keeps_equal = true;
        self
    }

    /// Half of all writes lose a race or their reply.
    pub fn rough(self) -> Self {
        self.lock().is_rough = true;
        self
    }

    /// Sets the faults of the next writes, in order.
    pub fn plan(&self, faults: impl IntoIterator<Item = Fault>) {
        self.lock().plan = faults.into_iter().collect();
    }

    /// Delivers delayed writes.
    pub fn deliver(&self) {
        let delayed = std::mem::take(&mut self.lock().delayed);
        for (name, before, text) in delayed {
            let _ = self.put(&name, before, text);
        }
    }

    pub fn remove(&self, name: &LockName) {
        self.lock().texts.remove(name);
    }

    pub fn text(&self, name: &LockName) -> Option<String> {
        self.lock().texts.get(name).map(|text| text.text.clone())
    }

    /// Writes unconditionally.
    pub fn overwrite(&self, name: &LockName, text: String) {
        let before = self.version(name);
        assert!(self.put(name, before, text).is_some());
    }

    /// Returns the number of reads and writes since the last call.
    pub fn calls(&self) -> (usize, usize) {
        let mut inner = self.lock();
        let reads = std::mem::take(&mut inner.reads);
        (reads, std::mem::take(&mut inner.writes))
    }

    fn version(&self, name: &LockName) -> u64 {
        self.lock().texts.get(name).map_or(0, |text| text.version)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    /// Replaces the text that has this version (0: no text exists).
    fn put(&self, name: &LockName, before: u64, text: String) -> Option<u64> {
        let mut inner = self.lock();
        let found = inner.texts.get(name);
        let version = found.map_or(0, |text| text.version);
        if version != before {
            return None;
        }
        if self.keeps_equal && found.is_some_and(|found| found.text == text) {
            return Some(version);
        }
        inner.revision += 1;
        let version = if self.repeats_versions {
            before + 1
        } else {
            inner.revision
        };
        inner.texts.insert(name.clone(), Text { version, text });
        Some(version)
    }

    fn next_fault(&self, name: &LockName) -> Fault {
        let mut inner = self.lock();
        inner.writes += 1;
        if let Some(fault) = inner.plan.pop_front() {
            return fault;
        }
        if !inner.is_rough {
            return Fault::None;
        }
        let was_struck = inner.struck.get(name).copied().unwrap_or_default();
        inner.struck.insert(name.clone(), !was_struck);
        inner.turns += 1;
        match (was_struck, inner.turns % 3) {
            (true, _) => Fault::None,
            (false, 0) => Fault::Raced,
            (false, _) => Fault::ReplyLost,
        }
    }

    fn written(
        &self,
        name: &LockName,
        before: u64,
        record: &Record,
    ) -> Result<Written<u64>, Error> {
        let text = record.to_text();
        match self.next_fault(name) {
            Fault::Raced if before > 0 => {
                let untouched = self.text(name);
                if let Some(untouched) = untouched {
                    let _ = self.put(name, before, untouched);
                }
                return Ok(Written::Raced);
            }
            Fault::Raced => return Ok(Written::Raced),
            Fault::ReplyLost => {
                let _ = self.put(name, before, text);
                return Err(lost());
            }
            Fault::ReplyLostThenTaken => {
                assert!(self.put(name, before, text).is_some());
                let mut taken = Record::until(record.locked_until + Duration::from_secs(3_600));
                taken.owner = Owner::generate().to_string();
                self.overwrite(name, taken.to_text());
                return Err(lost());
            }
            Fault::RequestLost => return Err(lost()),
            Fault::SentTwice => {
                let _ = self.put(name, before, text);
                self.lock().next_read_fails = true;
                return Ok(Written::Raced);
            }
            Fault::Delayed => {
                self.lock().delayed.push((name.clone(), before, text));
                return Err(lost());
            }
            Fault::Overtaken => self.deliver(),
            Fault::None => {}
        }
        Ok(match self.put(name, before, text) {
            Some(version) => Written::Done(version),
            None => Written::Raced,
        })
    }

    fn reading(&self, text: Option<&Text>) -> Result<Reading<u64>, Error> {
        let reading = match text {
            Some(text) => {
                let record = Record::from_text(&text.text)?;
                Reading::found(Found::new(record, text.version))
            }
            None => Reading::nothing(),
        };
        Ok(match &self.time {
            Some((clock, resolution)) => reading.at(cut(clock.system_time(), *resolution)),
            None => reading,
        })
    }
}

fn cut(instant: SystemTime, resolution: Duration) -> SystemTime {
    if resolution.is_zero() {
        return instant;
    }
    let since = instant.duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let over = since.as_nanos() % resolution.as_nanos();
    instant - Duration::from_nanos(u64::try_from(over).unwrap())
}

fn lost() -> Error {
    Error::new(ErrorKind::OutcomeUnknown, "the reply was lost: retry")
}

impl VersionedStore for Texts {
    type Version = u64;

    fn store(&self) -> &str {
        "texts"
    }

    async fn read(&self, name: &LockName) -> Result<Reading<u64>, Error> {
        self.lock().reads += 1;
        if std::mem::take(&mut self.lock().next_read_fails) {
            return Err(Error::new(ErrorKind::Unavailable, "no connection"));
        }
        let text = self.lock().texts.get(name).cloned();
        // Lets other tasks run between a read and a write.
        tokio::task::yield_now().await;
        self.reading(text.as_ref())
    }

    async fn write(
        &self,
        name: &LockName,
        before: Option<&u64>,
        record: &Record,
    ) -> Result<Written<u64>, Error> {
        self.written(name, before.copied().unwrap_or(0), record)
    }

    async fn remove(&self, name: &LockName, before: &u64) -> Result<bool, Error> {
        let fault = self.next_fault(name);
        match fault {
            Fault::RequestLost => return Err(lost()),
            Fault::Raced => return Ok(false),
            _ => {}
        }
        let removed = {
            let mut inner = self.lock();
            let stands = inner
                .texts
                .get(name)
                .is_some_and(|text| text.version == *before);
            if stands {
                inner.texts.remove(name);
            }
            stands
        };
        match fault {
            Fault::ReplyLost => Err(lost()),
            _ => Ok(removed),
        }
    }

    async fn list(&self, _: Option<&LockName>, _: usize) -> Result<Listed<u64>, Error> {
        let texts = self.lock().texts.clone();
        let listed = texts.iter().rev();
        Ok(listed
            .map(|(name, text)| (name.clone(), self.reading(Some(text))))
            .collect())
    }

    fn store_time(&self) -> Option<Duration> {
        self.time.as_ref().map(|(_, resolution)| *resolution)
    }

    fn versions_can_repeat(&self) -> bool {
        self.repeats_versions
    }

    fn has_revisions(&self) -> bool {
        self.has_revisions
    }

    fn revision(&self, version: &u64) -> Option<u64> {
        self.has_revisions.then_some(*version)
    }
}
