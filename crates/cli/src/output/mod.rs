//! The results of the commands.

mod columns;
mod findings;
mod journal;
mod json;
mod plan;
mod restored;
mod table;

use std::path::Path;
use std::time::{Duration, SystemTime};

use shedlock::{Finding, LockName, LockRecord, Migration, Slot};

use crate::args::Format;
use crate::exit::Failure;
pub(crate) use columns::cut;
pub(crate) use journal::{history, jobs};
pub(crate) use plan::{is_sql, plan, schema};
pub(crate) use restored::{Item, Lost, restored};
use shedlock_journal::view::{about, is_ahead, took};
pub(crate) use shedlock_journal::view::{
    age, instant, left, open_end, pause_end, second, shedlock_on, shell_word, state_in_words,
    taken_in_words, visible, visible_lines,
};

/// These locks, or `none` for people. The table fits the width, if there is one.
pub(crate) fn locks(
    store: &str,
    locks: &[LockRecord],
    none: &str,
    width: Option<usize>,
    format: Format,
) -> String {
    match format {
        Format::Table if locks.is_empty() => format!("{none}\n"),
        Format::Table => table::locks(locks, width),
        Format::Json => json::locks(store, locks),
    }
}

/// One lock, or a message that it does not exist.
pub(crate) fn lock(store: &str, lock: Option<&LockRecord>, format: Format) -> String {
    match format {
        Format::Table => lock.map(table::lock).unwrap_or_default(),
        Format::Json => json::lock(store, lock),
    }
}

/// The lock that this process holds, for this long at most, or nothing if it does not.
pub(crate) fn held(
    store: &str,
    lock: Option<&LockRecord>,
    lasts: Option<Duration>,
    format: Format,
) -> String {
    match format {
        Format::Table => lock.map_or_else(String::new, |lock| table::held(lock, lasts)),
        Format::Json => json::held(store, lock),
    }
}

/// A lock before its lease was extended to this end. The current lock, if it was not extended.
pub(crate) fn extended(
    store: &str,
    lock: Option<&LockRecord>,
    until: Option<SystemTime>,
    format: Format,
) -> String {
    match format {
        Format::Table => table::extended(lock, until),
        Format::Json => json::extended(store, lock, until),
    }
}

/// A lock before it was freed, and who freed it. The current lock, if it was not freed.
pub(crate) fn unlock(
    store: &str,
    lock: Option<&LockRecord>,
    freed_by: Option<&str>,
    format: Format,
) -> String {
    match format {
        Format::Table => table::unlock(lock, freed_by),
        Format::Json => json::unlock(store, lock, freed_by),
    }
}

/// A lock before its last slot was set to this one. The current lock, if it was not set.
pub(crate) fn slot_reset(
    store: &str,
    lock: Option<&LockRecord>,
    last_slot: Option<Slot>,
    format: Format,
) -> String {
    match format {
        Format::Table => table::slot_reset(lock, last_slot),
        Format::Json => json::slot_reset(store, lock, last_slot),
    }
}

/// A lock that was paused now.
#[derive(Debug)]
pub(crate) struct PausedLock {
    pub(crate) name: LockName,
    /// The owner text of the pause.
    pub(crate) owner: String,
    /// When the pause ends by itself.
    pub(crate) until: SystemTime,
    /// The record from before.
    pub(crate) before: Option<LockRecord>,
}

/// The locks that were paused. `has_end` is whether the user has set an end.
pub(crate) fn paused(store: &str, locks: &[PausedLock], has_end: bool, format: Format) -> String {
    match format {
        Format::Table => locks
            .iter()
            .map(|lock| table::paused(lock, has_end))
            .collect(),
        Format::Json => json::paused(store, locks),
    }
}

/// The locks that were resumed, before they were, and by whom.
pub(crate) fn resumed(
    store: &str,
    locks: &[LockRecord],
    (by, catches_up): (&str, bool),
    format: Format,
) -> String {
    match format {
        Format::Table => locks
            .iter()
            .map(|lock| table::resumed(lock, by, catches_up))
            .collect(),
        Format::Json => json::resumed(store, locks, by),
    }
}

/// The records that were removed, or would be: printed one by one, because there may be any number.
#[derive(Debug)]
pub(crate) struct PrunedLocks<'a> {
    store: &'a str,
    is_removed: bool,
    format: Format,
    count: usize,
}

impl<'a> PrunedLocks<'a> {
    pub(crate) fn new(store: &'a str, is_removed: bool, format: Format) -> Self {
        Self {
            store,
            is_removed,
            format,
            count: 0,
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The text of the next record, as it was before.
    pub(crate) fn next(&mut self, lock: &LockRecord) -> String {
        self.count += 1;
        match self.format {
            Format::Table => table::pruned(lock, self.is_removed),
            Format::Json if self.count == 1 => {
                let head = json::pruned_head(self.store, self.is_removed);
                head + &json::pruned_lock(lock)
            }
            Format::Json => format!(",{}", json::pruned_lock(lock)),
        }
    }

    /// The end of the text.
    pub(crate) fn end(&self) -> String {
        match self.format {
            Format::Table => String::new(),
            Format::Json if self.count == 0 => {
                json::pruned_head(self.store, self.is_removed) + json::PRUNED_NONE
            }
            Format::Json => json::PRUNED_END.to_owned(),
        }
    }
}

/// What the checks of a store found. Without a store's name: it cannot be reached.
pub(crate) fn findings(store: Option<&str>, found: &[Finding], format: Format) -> String {
    match format {
        Format::Table => findings::table(found),
        Format::Json => json::findings(store, found),
    }
}

/// The changes of a migration.
pub(crate) fn migration(store: &str, migration: &Migration, format: Format) -> String {
    match format {
        Format::Table => table::migration(store, migration),
        Format::Json => json::migration(store, migration),
    }
}

/// A setting: the name of its option, its value, and where that came from.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) name: String,
    pub(crate) value: Option<String>,
    pub(crate) from: String,
}

/// The configuration file, how it was found, and the settings.
pub(crate) fn settings(
    file: Option<(&Path, &str)>,
    settings: &[Setting],
    format: Format,
) -> String {
    match format {
        Format::Table => table::settings(file, settings),
        Format::Json => json::settings(file.map(|(path, _)| path), settings),
    }
}

/// A failure, for a program that reads the results.
pub(crate) fn failure(failure: &Failure) -> String {
    json::failure(failure)
}

/// A duration as it is written in an option, like `1h30m`.
pub(crate) fn duration(duration: Duration) -> String {
    const UNITS: [(&str, u128); 5] = [
        ("d", 86_400_000),
        ("h", 3_600_000),
        ("m", 60_000),
        ("s", 1_000),
        ("ms", 1),
    ];
    let mut rest = duration.as_millis();
    let mut text = String::new();
    for (unit, millis) in UNITS {
        if rest >= millis {
            text.push_str(&format!("{}{unit}", rest / millis));
            rest %= millis;
        }
    }
    if text.is_empty() {
        // Shorter than every unit.
        text = format!("{duration:?}");
    }
    text
}

/// The time since the lock was last used, by the store's own clock.
fn idle(lock: &LockRecord) -> Option<Duration> {
    lock.read_at?.duration_since(lock.last_used()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_written_as_in_an_option() {
        for (millis, text) in [
            (60_000, "1m"),
            (5_400_000, "1h30m"),
            (90_061_001, "1d1h1m1s1ms"),
            (1_500, "1s500ms"),
        ] {
            assert_eq!(duration(Duration::from_millis(millis)), text);
        }
        assert_eq!(duration(Duration::from_micros(5)), "5µs");
    }
}
