//! Output for programs. `docs/json.md` describes the format, and tests freeze it.

use std::borrow::Cow;
use std::path::Path;
use std::time::SystemTime;

use serde::Serialize;
use shedlock::{Finding, LockRecord, Migration, Pause, Slot};

use super::Setting;
use crate::exit::Failure;
pub(super) use shedlock_journal::view::json::VERSION;
use shedlock_journal::view::json::{Found, Lock};
use shedlock_support::redact;

#[derive(Serialize)]
struct Locks<'a> {
    version: u32,
    store: &'a str,
    locks: Vec<Lock<'a>>,
}

#[derive(Serialize)]
struct OneLock<'a> {
    version: u32,
    store: &'a str,
    lock: Option<Lock<'a>>,
}

#[derive(Serialize)]
struct Extended<'a> {
    version: u32,
    store: &'a str,
    locked_until: Option<String>,
    lock: Option<Lock<'a>>,
}

#[derive(Serialize)]
struct Unlocked<'a> {
    version: u32,
    store: &'a str,
    freed_by: Option<&'a str>,
    lock: Option<Lock<'a>>,
}

#[derive(Serialize)]
struct SlotReset<'a> {
    version: u32,
    store: &'a str,
    last_slot: Option<String>,
    lock: Option<Lock<'a>>,
}

#[derive(Serialize)]
struct PausedLocks<'a> {
    version: u32,
    store: &'a str,
    paused: Vec<PausedLock<'a>>,
}

#[derive(Serialize)]
struct PausedLock<'a> {
    name: &'a str,
    paused_by: &'a str,
    reason: &'a str,
    paused_until: Option<String>,
    before: Option<Lock<'a>>,
}

#[derive(Serialize)]
struct ResumedLocks<'a> {
    version: u32,
    store: &'a str,
    resumed_by: &'a str,
    resumed: Vec<Lock<'a>>,
}

#[derive(Serialize)]
struct Findings<'a> {
    version: u32,
    store: Option<&'a str>,
    findings: Vec<Found<'a>>,
}

#[derive(Serialize)]
struct Changes<'a> {
    version: u32,
    store: &'a str,
    changes: &'a [String],
}

#[derive(Serialize)]
struct Settings<'a> {
    version: u32,
    file: Option<String>,
    settings: Vec<OneSetting<'a>>,
}

#[derive(Serialize)]
struct OneSetting<'a> {
    name: &'a str,
    value: Option<Cow<'a, str>>,
    from: &'a str,
}

#[derive(Serialize)]
struct Failed<'a> {
    version: u32,
    error: Problem<'a>,
}

#[derive(Serialize)]
struct Problem<'a> {
    kind: &'a str,
    message: &'a str,
    exit_code: u8,
}

pub(super) fn locks(store: &str, locks: &[LockRecord]) -> String {
    text(&Locks {
        version: VERSION,
        store,
        locks: locks.iter().map(Lock::of).collect(),
    })
}

pub(super) fn lock(store: &str, lock: Option<&LockRecord>) -> String {
    text(&one_lock(store, lock))
}

/// The same in one line: whoever waits for it reads a stream that stays open.
pub(super) fn held(store: &str, lock: Option<&LockRecord>) -> String {
    line(&one_lock(store, lock))
}

fn one_lock<'a>(store: &'a str, lock: Option<&'a LockRecord>) -> OneLock<'a> {
    OneLock {
        version: VERSION,
        store,
        lock: lock.map(Lock::of),
    }
}

pub(super) fn extended(
    store: &str,
    lock: Option<&LockRecord>,
    until: Option<SystemTime>,
) -> String {
    text(&Extended {
        version: VERSION,
        store,
        locked_until: until.and_then(super::instant),
        lock: lock.map(Lock::of),
    })
}

pub(super) fn unlock(store: &str, lock: Option<&LockRecord>, freed_by: Option<&str>) -> String {
    text(&Unlocked {
        version: VERSION,
        store,
        freed_by,
        lock: lock.map(Lock::of),
    })
}

pub(super) fn slot_reset(
    store: &str,
    lock: Option<&LockRecord>,
    last_slot: Option<Slot>,
) -> String {
    text(&SlotReset {
        version: VERSION,
        store,
        last_slot: last_slot.as_ref().map(Slot::to_string),
        lock: lock.map(Lock::of),
    })
}

pub(super) fn paused(store: &str, locks: &[super::PausedLock]) -> String {
    let paused = locks.iter().map(|lock| {
        let pause = Pause::parse(&lock.owner);
        PausedLock {
            name: lock.name.as_str(),
            paused_by: pause.map_or("", |pause| pause.by()),
            reason: pause.map_or("", |pause| pause.reason()),
            paused_until: super::instant(lock.until),
            before: lock.before.as_ref().map(Lock::of),
        }
    });
    text(&PausedLocks {
        version: VERSION,
        store,
        paused: paused.collect(),
    })
}

pub(super) fn resumed(store: &str, locks: &[LockRecord], by: &str) -> String {
    text(&ResumedLocks {
        version: VERSION,
        store,
        resumed_by: by,
        resumed: locks.iter().map(Lock::of).collect(),
    })
}

/// The start of the object with the records that were removed, or would be. The records follow one by one.
pub(super) fn pruned_head(store: &str, is_removed: bool) -> String {
    let store = serde_json::Value::from(store);
    let dry_run = !is_removed;
    format!(
        "{{\n  \"version\": {VERSION},\n  \"store\": {store},\n  \"dry_run\": {dry_run},\n  \"locks\": ["
    )
}

pub(super) fn pruned_lock(lock: &LockRecord) -> String {
    let text = text(&Lock::of(lock));
    let lines = text.lines().map(|line| format!("\n    {line}"));
    lines.collect()
}

pub(super) const PRUNED_END: &str = "\n  ]\n}\n";

pub(super) const PRUNED_NONE: &str = "]\n}\n";

pub(super) fn findings(store: Option<&str>, findings: &[Finding]) -> String {
    let findings = findings.iter().map(Found::of);
    text(&Findings {
        version: VERSION,
        store,
        findings: findings.collect(),
    })
}

pub(super) fn migration(store: &str, migration: &Migration) -> String {
    text(&Changes {
        version: VERSION,
        store,
        changes: &migration.changes,
    })
}

pub(super) fn settings(file: Option<&Path>, settings: &[Setting]) -> String {
    let settings = settings.iter().map(|setting| OneSetting {
        name: &setting.name,
        value: setting.value.as_deref().map(redact),
        from: &setting.from,
    });
    text(&Settings {
        version: VERSION,
        file: file.map(|path| path.display().to_string()),
        settings: settings.collect(),
    })
}

pub(super) fn failure(failure: &Failure) -> String {
    line(&Failed {
        version: VERSION,
        error: Problem {
            kind: failure.kind(),
            message: &redact(&failure.message()),
            exit_code: failure.number(),
        },
    })
}

pub(super) fn text(value: &impl Serialize) -> String {
    written(serde_json::to_string_pretty(value))
}

fn line(value: &impl Serialize) -> String {
    written(serde_json::to_string(value))
}

fn written(text: serde_json::Result<String>) -> String {
    text.expect("strings and numbers are always valid JSON") + "\n"
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use shedlock::{LockName, LockState, SkippedSlots};

    use super::*;

    #[test]
    fn the_form_is_frozen() {
        let at = UNIX_EPOCH + Duration::from_millis(1_800_000_000_250);
        let mut record = LockRecord::new(LockName::new("a \"b\"").unwrap(), LockState::AtLeast);
        record.owner = Some("h/1/ff".into());
        record.locked_at = Some(at);
        record.locked_until = Some(at + Duration::from_secs(60));
        record.fencing_token = Some(u64::MAX);
        record.last_slot = Some(Slot::at(at).unwrap());
        record.last_slot_done = Some(Slot::at(at - Duration::from_secs(60)).unwrap());
        record.slot_attempts = Some(2);
        let from = Slot::at(at - Duration::from_secs(30)).unwrap();
        record.skipped_slots = Some(SkippedSlots::new(from, Slot::at(at).unwrap()));
        record.read_at = Some(at);
        assert_eq!(
            lock("sqlite", Some(&record)),
            r#"{
  "version": 1,
  "store": "sqlite",
  "lock": {
    "name": "a \"b\"",
    "state": "at-least",
    "owner": "h/1/ff",
    "paused_by": null,
    "pause_reason": null,
    "locked_at": "2027-01-15T08:00:00.25Z",
    "locked_until": "2027-01-15T08:01:00.25Z",
    "fencing_token": 18446744073709551615,
    "last_slot": "2027-01-15T08:00:00.25Z",
    "last_slot_done": "2027-01-15T07:59:00.25Z",
    "slot_attempts": 2,
    "skipped_from": "2027-01-15T07:59:30.25Z",
    "skipped_until": "2027-01-15T08:00:00.25Z",
    "last_slot_ahead": false,
    "read_at": "2027-01-15T08:00:00.25Z"
  }
}
"#
        );
        let free = LockRecord::new(LockName::new("a").unwrap(), LockState::Free);
        assert_eq!(
            locks("sqlite", &[free]),
            r#"{
  "version": 1,
  "store": "sqlite",
  "locks": [
    {
      "name": "a",
      "state": "free",
      "owner": null,
      "paused_by": null,
      "pause_reason": null,
      "locked_at": null,
      "locked_until": null,
      "fencing_token": null,
      "last_slot": null,
      "last_slot_done": null,
      "slot_attempts": null,
      "skipped_from": null,
      "skipped_until": null,
      "last_slot_ahead": null,
      "read_at": null
    }
  ]
}
"#
        );
        assert_eq!(
            lock("sqlite", None),
            "{\n  \"version\": 1,\n  \"store\": \"sqlite\",\n  \"lock\": null\n}\n"
        );
        assert_eq!(
            unlock("sqlite", None, Some("root@a")),
            "{\n  \"version\": 1,\n  \"store\": \"sqlite\",\n  \"freed_by\": \"root@a\",\n  \
             \"lock\": null\n}\n"
        );
        assert_eq!(
            slot_reset("sqlite", None, Some(Slot::at(at).unwrap())),
            "{\n  \"version\": 1,\n  \"store\": \"sqlite\",\n  \"last_slot\": \
             \"2027-01-15T08:00:00.25Z\",\n  \"lock\": null\n}\n"
        );
        let free = LockRecord::new(LockName::new("a").unwrap(), LockState::Free);
        let listed = locks("sqlite", std::slice::from_ref(&free));
        let pruned = pruned_head("sqlite", true) + &pruned_lock(&free) + PRUNED_END;
        assert_eq!(
            pruned,
            listed.replace("  \"locks\"", "  \"dry_run\": false,\n  \"locks\"")
        );
        assert_eq!(
            pruned_head("sqlite", false) + PRUNED_NONE,
            "{\n  \"version\": 1,\n  \"store\": \"sqlite\",\n  \"dry_run\": true,\n  \
             \"locks\": []\n}\n"
        );
        let finding = Finding::warning("clock", "off", "set it");
        assert_eq!(
            findings(None, &[finding]),
            "{\n  \"version\": 1,\n  \"store\": null,\n  \"findings\": [\n    {\n      \
             \"check\": \"clock\",\n      \"level\": \"warning\",\n      \"message\": \
             \"off\",\n      \"remedy\": \"set it\"\n    }\n  ]\n}\n"
        );
        let failed = Failure::usage("no \"x\" in nats://geheim@h");
        assert_eq!(
            failure(&failed),
            "{\"version\":1,\"error\":{\"kind\":\"usage\",\"message\":\
             \"no \\\"x\\\" in nats://***@h\",\"exit_code\":2}}\n"
        );
        let changes = Migration::with_changes(vec!["created table shedlock".into()]);
        assert_eq!(
            migration("sqlite", &changes),
            "{\n  \"version\": 1,\n  \"store\": \"sqlite\",\n  \"changes\": [\n    \
             \"created table shedlock\"\n  ]\n}\n"
        );
    }
}
