//! The results of the commands.

mod columns;
mod findings;
mod journal;
mod json;
mod plan;
mod table;
mod visible;

use std::path::Path;
use std::time::{Duration, SystemTime};

use jiff::{Timestamp, Unit};
use shedlock::{Finding, LockName, LockRecord, LockState, Migration, Slot};

use crate::args::Format;
use crate::exit::Failure;
pub(crate) use journal::{history, jobs};
pub(crate) use plan::{is_sql, plan, schema};
pub(crate) use visible::{visible, visible_lines};

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
        Format::Json => json::lock(store, lock),
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

/// When a pause ends. `has_end` is whether the user has set that.
pub(crate) fn pause_end(until: SystemTime, has_end: bool) -> String {
    let end = second(until);
    if has_end {
        format!("until {end}")
    } else {
        format!("until it is resumed (at most until {end})")
    }
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
pub(crate) fn resumed(store: &str, locks: &[LockRecord], by: &str, format: Format) -> String {
    match format {
        Format::Table => locks.iter().map(|lock| table::resumed(lock, by)).collect(),
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

/// RFC 3339 in UTC, as exact as the instant. `None` outside the calendar's years.
pub(crate) fn instant(instant: SystemTime) -> Option<String> {
    Some(Timestamp::try_from(instant).ok()?.to_string())
}

/// RFC 3339 in UTC to the second.
pub(crate) fn second(instant: SystemTime) -> String {
    let rounded = Timestamp::try_from(instant).and_then(|instant| instant.round(Unit::Second));
    rounded.map_or_else(|_| "out of range".to_owned(), |instant| instant.to_string())
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

/// The end of a pause that lasts until it is resumed: in years that only a pause can have.
pub(crate) fn open_end(until: SystemTime, now: Option<SystemTime>) -> Option<String> {
    const YEARS: Duration = Duration::from_secs(5 * 366 * 86_400);
    let left = until.duration_since(now?).ok()?;
    (left > YEARS).then(|| format!("it is resumed (at most until {})", second(until)))
}

/// The time since the lock was last acquired, by the store's own clock.
pub(crate) fn age(lock: &LockRecord) -> Option<Duration> {
    let age = lock.read_at?.duration_since(lock.locked_at?);
    // Acquired at the very time of reading.
    Some(age.unwrap_or_default())
}

/// The time since the lock was last used, by the store's own clock.
fn idle(lock: &LockRecord) -> Option<Duration> {
    lock.read_at?.duration_since(lock.last_used()?).ok()
}

/// How long the lock stays taken, by the store's own clock. `None` if it is free.
pub(crate) fn left(lock: &LockRecord) -> Option<Duration> {
    if lock.state == LockState::Free {
        return None;
    }
    lock.locked_until?.duration_since(lock.read_at?).ok()
}

/// A duration in its two largest units, like `3m12s`.
fn about(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let units = [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];
    let largest = units.iter().position(|(_, size)| seconds >= *size);
    let Some(largest) = largest else {
        return "0s".to_owned();
    };
    let mut rest = seconds;
    let mut text = String::new();
    for (unit, size) in units.iter().skip(largest).take(2) {
        if rest >= *size {
            text.push_str(&format!("{}{unit}", rest / size));
            rest %= size;
        }
    }
    text
}

/// A name as a word of a shell's command line.
pub(crate) fn shell_word(name: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "_-./:@".contains(char);
    if !name.is_empty() && name.chars().all(is_plain) {
        return name.to_owned();
    }
    format!("'{}'", name.replace('\'', r"'\''"))
}

/// The state as a word of the JSON format.
pub(crate) fn state(state: LockState) -> &'static str {
    match state {
        LockState::Held => "held",
        LockState::Paused => "paused",
        LockState::AtLeast => "at-least",
        LockState::Free => "free",
        _ => "unknown",
    }
}

/// The state as the end of a sentence.
pub(crate) fn state_in_words(state: LockState) -> &'static str {
    match state {
        LockState::AtLeast => "kept for a while after its run has ended (state at-least)",
        other => self::state(other),
    }
}

/// Whether the last slot is ahead of the store's clock, so that no host runs the slots before it. `None` if there is no
/// slot, or if the store does not report its clock.
fn is_ahead(lock: &LockRecord) -> Option<bool> {
    let ahead = lock.last_slot?.instant().duration_since(lock.read_at?);
    Some(ahead.is_ok_and(|ahead| ahead > Slot::DEFAULT_TOLERANCE))
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

    #[test]
    fn a_time_is_short() {
        for (seconds, text) in [
            (0, "0s"),
            (59, "59s"),
            (192, "3m12s"),
            (7_205, "2h"),
            (7_265, "2h1m"),
            (1_000_000, "11d13h"),
        ] {
            assert_eq!(about(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn a_name_is_one_word_for_a_shell() {
        for (name, word) in [
            ("payroll", "payroll"),
            ("a b", "'a b'"),
            ("it's", r"'it'\''s'"),
            ("$(x)", "'$(x)'"),
        ] {
            assert_eq!(shell_word(name), word);
        }
    }
}
