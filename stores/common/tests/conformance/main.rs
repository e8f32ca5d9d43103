//! The kit over the engine: an in-memory store of versioned texts, in every variant that real
//! stores of this kind have, and one that loses races and replies on purpose.

#[path = "../common/mod.rs"]
mod common;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use common::Texts;
use shedlock_conformance::{
    BoxError, Harness, JavaRecord, Namespace, OptionalAction, Provider, Scope, Tag, action,
    prefixed,
};
use shedlock_core::{BoxFuture, Clock, Error, LockName, ManualClock, SystemClock};
use shedlock_provider::{Record, Versioned};
use shedlock_torture::TortureNamespace;

fn main() -> ExitCode {
    let kinds = [
        Kind::RealClock,
        Kind::ManualClock,
        Kind::Rough,
        Kind::StoreTime,
        Kind::CoarseStoreTime,
        Kind::Revisions,
        Kind::RepeatedVersions,
    ];
    let mut harnesses: Vec<Arc<dyn Harness>> = Vec::new();
    for kind in kinds {
        harnesses.push(Arc::new(Cas { kind }));
    }
    let manual: Arc<dyn Harness> = Arc::new(Cas {
        kind: Kind::ManualClock,
    });
    harnesses.push(Arc::new(prefixed(&manual)));
    shedlock_torture::main::<Map>(harnesses)
}

/// The tolerated skew here: less than the default, because cases wait for it.
const SKEW: Duration = Duration::from_millis(100);

#[derive(Clone, Copy)]
enum Kind {
    /// Leases are judged by the clients' real clocks.
    RealClock,
    /// The clients share a clock that only the case advances.
    ManualClock,
    /// Half of all writes lose a race or their reply.
    Rough,
    /// The store reports its time exactly.
    StoreTime,
    /// The store reports its time truncated, like the Date header of an HTTP response.
    CoarseStoreTime,
    /// The store numbers its writes, and these numbers are the fencing tokens.
    Revisions,
    /// A deleted key starts again with versions that it had before.
    RepeatedVersions,
}

struct Cas {
    kind: Kind,
}

impl Harness for Cas {
    fn name(&self) -> &str {
        match self.kind {
            Kind::RealClock => "cas",
            Kind::ManualClock => "cas-manual-clock",
            Kind::Rough => "cas-rough",
            Kind::StoreTime => "cas-store-time",
            Kind::CoarseStoreTime => "cas-coarse-store-time",
            Kind::Revisions => "cas-revisions",
            Kind::RepeatedVersions => "cas-repeated-versions",
        }
    }

    /// The rough store runs the whole kit: a lost race or reply may break any case.
    fn scope(&self) -> Scope {
        Scope::About(match self.kind {
            Kind::Rough => return Scope::Whole,
            Kind::RealClock | Kind::ManualClock | Kind::StoreTime | Kind::CoarseStoreTime => {
                &[Tag::Time, Tag::Slots]
            }
            Kind::Revisions | Kind::RepeatedVersions => {
                &[Tag::Ownership, Tag::Fencing, Tag::Slots, Tag::Record]
            }
        })
    }

    fn namespace(&self) -> BoxFuture<'_, Result<Arc<dyn Namespace>, BoxError>> {
        let manual = ManualClock::new();
        let texts = Texts::new();
        let clock = || -> Arc<dyn Clock> { Arc::new(manual.clone()) };
        let (texts, advances) = match self.kind {
            Kind::RealClock => (texts, false),
            Kind::ManualClock => (texts, true),
            Kind::Rough => (texts.rough(), true),
            Kind::StoreTime => (texts.telling(clock(), Duration::ZERO), true),
            Kind::CoarseStoreTime => (texts.telling(Arc::new(SystemClock), SKEW), false),
            Kind::Revisions => (texts.with_revisions(), true),
            Kind::RepeatedVersions => (texts.with_repeated_versions(), true),
        };
        let clock = advances.then_some(manual);
        Box::pin(async move { Ok(Arc::new(Map { texts, clock }) as Arc<dyn Namespace>) })
    }
}

struct Map {
    texts: Texts,
    /// The clock of the store or of all clients, if it is manual.
    clock: Option<ManualClock>,
}

impl Map {
    fn provider_on(&self, clock: Arc<dyn Clock>) -> Provider {
        let engine = Versioned::new(self.texts.clone());
        let engine = engine.with_clock(clock).with_tolerated_skew(SKEW);
        Arc::new(engine.provider())
    }

    /// Reads the record for a change in ShedLock's way, which ignores tokens and slots.
    fn record(&self, name: &LockName) -> Result<Option<Record>, Error> {
        let text = self.texts.text(name);
        text.map(|text| Record::from_text(&text)).transpose()
    }
}

impl Namespace for Map {
    fn provider(&self) -> BoxFuture<'_, Result<Provider, BoxError>> {
        let clock: Arc<dyn Clock> = match &self.clock {
            Some(manual) => Arc::new(manual.clone()),
            None => Arc::new(SystemClock),
        };
        Box::pin(async move { Ok(self.provider_on(clock)) })
    }

    fn delete_record<'a>(&'a self, name: &'a LockName) -> OptionalAction<'a, ()> {
        action(async {
            self.texts.remove(name);
            Ok(())
        })
    }

    fn write_foreign<'a>(&'a self, name: &'a LockName, data: &'a [u8]) -> OptionalAction<'a, ()> {
        action(async move {
            let text = String::from_utf8_lossy(data).into_owned();
            self.texts.overwrite(name, text);
            Ok(())
        })
    }

    fn write_as_shedlock<'a>(
        &'a self,
        name: &'a LockName,
        record: &'a JavaRecord,
    ) -> OptionalAction<'a, ()> {
        action(async {
            let mut text = Record::until(record.lock_until);
            if let Some(before) = self.record(name)? {
                text = before;
            }
            text.locked_until = record.lock_until;
            text.owner.clone_from(&record.locked_by);
            text.locked_at = Some(record.locked_at);
            self.texts.overwrite(name, text.to_text());
            Ok(())
        })
    }

    fn read_as_shedlock<'a>(
        &'a self,
        name: &'a LockName,
    ) -> OptionalAction<'a, Option<JavaRecord>> {
        action(async {
            let record = self.record(name)?;
            Ok(record.and_then(|record| {
                Some(JavaRecord {
                    locked_by: record.owner,
                    locked_at: record.locked_at?,
                    lock_until: record.locked_until,
                })
            }))
        })
    }

    /// Not offered with a manual clock: a wrong clock would be hours away from the case's clock.
    fn provider_with_clock(&self, clock: Arc<dyn Clock>) -> OptionalAction<'_, Provider> {
        if self.clock.is_some() {
            return None;
        }
        action(async move { Ok(self.provider_on(clock)) })
    }

    fn advance(&self, by: Duration) -> Option<()> {
        self.clock.as_ref().map(|clock| clock.advance(by))
    }
}

impl TortureNamespace for Map {}
