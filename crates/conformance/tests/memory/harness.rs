//! Harnesses over the in-memory provider.

use std::sync::Arc;
use std::time::Duration;

use shedlock_conformance::{
    BoxError, Harness, JavaRecord, Namespace, OptionalAction, Provider, Scope, StoreProfile, Tag,
    action, prefixed,
};
use shedlock_core::{BoxFuture, LockName, LockProvider, ManualClock};
use shedlock_provider::MemoryProvider;

/// With either clock, and behind each wrapper.
pub(crate) fn harnesses() -> [Arc<dyn Harness>; 3] {
    let calls = &[
        Tag::Ownership,
        Tag::Slots,
        Tag::Names,
        Tag::Record,
        Tag::Operators,
        Tag::Declared,
    ];
    let real: Arc<dyn Harness> = Arc::new(Memory {
        stands_still: false,
    });
    let manual: Arc<dyn Harness> = Arc::new(Memory { stands_still: true });
    let prefixed = prefixed(&manual).about(calls);
    [real, manual, Arc::new(prefixed)]
}

/// A separate map for each case, on the real clock or on a clock that only the case advances.
struct Memory {
    stands_still: bool,
}

impl Harness for Memory {
    fn name(&self) -> &str {
        if self.stands_still {
            "memory-manual-clock"
        } else {
            "memory"
        }
    }

    fn namespace(&self) -> BoxFuture<'_, Result<Arc<dyn Namespace>, BoxError>> {
        let clock = self.stands_still.then(ManualClock::new);
        let store = clock.clone().map_or_else(MemoryProvider::new, |clock| {
            MemoryProvider::with_clock(Arc::new(clock))
        });
        Box::pin(async move { Ok(Arc::new(Map { store, clock }) as Arc<dyn Namespace>) })
    }

    /// A clock that stands still changes only the cases that wait.
    fn scope(&self) -> Scope {
        if self.stands_still {
            Scope::About(&[Tag::Time, Tag::Slots])
        } else {
            Scope::Whole
        }
    }

    fn profile(&self) -> OptionalAction<'_, StoreProfile> {
        let file = "tests/profiles/memory.json";
        let profile = StoreProfile::new("memory", file)
            .says("law01", "this process")
            .says("law12", "–")
            .says("hosts", "no")
            .says("tested_on", "–");
        if self.stands_still {
            return None;
        }
        action(async { Ok(profile) })
    }
}

pub(crate) struct Map {
    store: MemoryProvider,
    clock: Option<ManualClock>,
}

impl Namespace for Map {
    fn provider(&self) -> BoxFuture<'_, Result<Provider, BoxError>> {
        Box::pin(async { Ok(Arc::new(self.store.another_client()) as Provider) })
    }

    fn delete_record<'a>(&'a self, name: &'a LockName) -> OptionalAction<'a, ()> {
        action(async {
            self.store.delete(name);
            Ok(())
        })
    }

    fn write_as_shedlock<'a>(
        &'a self,
        name: &'a LockName,
        record: &'a JavaRecord,
    ) -> OptionalAction<'a, ()> {
        action(async {
            let JavaRecord {
                locked_by,
                locked_at,
                lock_until,
            } = record;
            self.store
                .write_as_shedlock(name, locked_by, *locked_at, *lock_until);
            Ok(())
        })
    }

    fn read_as_shedlock<'a>(
        &'a self,
        name: &'a LockName,
    ) -> OptionalAction<'a, Option<JavaRecord>> {
        action(async {
            let record = self.store.inspect(name).await?;
            Ok(record.and_then(|record| {
                Some(JavaRecord {
                    locked_by: record.owner?,
                    locked_at: record.locked_at?,
                    lock_until: record.locked_until?,
                })
            }))
        })
    }

    fn advance(&self, by: Duration) -> Option<()> {
        self.clock.as_ref().map(|clock| clock.advance(by))
    }
}
