//! Output for people.

use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use shedlock::{LockRecord, LockState, Migration, Slot};

const NONE: &str = "-";

pub(super) fn locks(locks: &[LockRecord]) -> String {
    if locks.is_empty() {
        return "no locks\n".to_owned();
    }
    let mut table = plain();
    table.set_header([
        "NAME",
        "STATE",
        "OWNER",
        "UNTIL (UTC)",
        "TOKEN",
        "LAST SLOT",
    ]);
    for lock in locks {
        table.add_row([
            name(lock),
            super::state(lock.state).to_owned(),
            or_none(owner(lock)),
            or_none(lock.locked_until.map(super::second)),
            or_none(lock.fencing_token.map(|token| token.to_string())),
            or_none(slot(lock)),
        ]);
    }
    lines(&table)
}

pub(super) fn lock(lock: &LockRecord) -> String {
    let mut table = plain();
    let state = match lock.state {
        LockState::Held => "held: its holder is running, or its host has died".to_owned(),
        LockState::AtLeast => {
            let kept = "unlocked, but kept by --lock-at-least-for or by the pause after a failed \
                        slot (--retry-backoff)";
            format!("{}: {kept}", super::state(lock.state))
        }
        LockState::Free => "free: can be taken".to_owned(),
        other => super::state(other).to_owned(),
    };
    let until = lock.locked_until.map(|until| {
        let text = super::second(until);
        match left(lock) {
            Some(left) => format!("{text} (in {left})"),
            None => text,
        }
    });
    let whose = if lock.state == LockState::Held {
        "owner"
    } else {
        "last owner"
    };
    for (field, value) in [
        ("name", Some(name(lock))),
        ("state", Some(state)),
        (whose, owner(lock)),
        ("locked at", lock.locked_at.map(super::second)),
        ("locked until", until),
        (
            "fencing token",
            lock.fencing_token.map(|token| token.to_string()),
        ),
        ("last slot", slot(lock)),
        (
            "last slot done",
            lock.last_slot_done.map(|slot| slot.to_string()),
        ),
        ("read at", lock.read_at.map(super::second)),
    ] {
        table.add_row([field.to_owned(), or_none(value)]);
    }
    lines(&table)
}

pub(super) fn unlock(lock: Option<&LockRecord>, freed_by: Option<&str>) -> String {
    let (Some(lock), Some(freed_by)) = (lock, freed_by) else {
        return String::new();
    };
    // The host cannot contain an '@'.
    let freed_by = match freed_by.rsplit_once('@') {
        Some((user, host)) => format!("{user} on host {host}"),
        None => freed_by.to_owned(),
    };
    let freed_by = super::visible(&freed_by);
    let was = match lock.state {
        LockState::AtLeast => "kept after its last run by",
        _ => "held by",
    };
    format!(
        "{}: freed by {freed_by}; it was {was} {} until {}\n",
        name(lock),
        or_none(owner(lock)),
        or_none(lock.locked_until.map(super::second)),
    )
}

pub(super) fn slot_reset(lock: Option<&LockRecord>, last_slot: Option<Slot>) -> String {
    let (Some(lock), Some(last_slot)) = (lock, last_slot) else {
        return String::new();
    };
    format!(
        "{}: the last slot is {last_slot}; it was {}\n",
        name(lock),
        or_none(slot(lock)),
    )
}

pub(super) fn migration(store: &str, migration: &Migration) -> String {
    if migration.changes.is_empty() {
        return format!("{store}: nothing to do\n");
    }
    migration
        .changes
        .iter()
        .map(|change| format!("{store}: {}\n", super::visible(change)))
        .collect()
}

fn name(lock: &LockRecord) -> String {
    super::visible(lock.name.as_str()).into_owned()
}

fn owner(lock: &LockRecord) -> Option<String> {
    let owner = super::visible(lock.owner.as_deref()?);
    Some(owner.into_owned())
}

/// The last slot, and whether it is still open.
fn slot(lock: &LockRecord) -> Option<String> {
    let slot = lock.last_slot?;
    Some(match lock.slot_attempts {
        Some(1) => format!("{slot} (not done, 1 attempt)"),
        Some(attempts) => format!("{slot} (not done, {attempts} attempts)"),
        None => slot.to_string(),
    })
}

/// How long the lock stays taken, by the store's own clock. `None` if it is free.
fn left(lock: &LockRecord) -> Option<String> {
    let left = lock.locked_until?.duration_since(lock.read_at?).ok()?;
    let seconds = left.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    Some(match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m {seconds}s"),
        _ => format!("{hours}h {minutes}m"),
    })
}

fn or_none(value: Option<String>) -> String {
    value.unwrap_or_else(|| NONE.to_owned())
}

fn plain() -> Table {
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    table
}

/// The lines without the blanks at both ends that the table adds.
fn lines(table: &Table) -> String {
    let table = table.to_string();
    let mut text = String::with_capacity(table.len());
    for line in table.lines() {
        text.push_str(line.strip_prefix(' ').unwrap_or(line).trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use shedlock::LockName;

    use super::*;

    fn held() -> LockRecord {
        let at = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let mut record = LockRecord::new(LockName::new("payroll").unwrap(), LockState::Held);
        record.owner = Some("web-3/1/ff".into());
        record.locked_at = Some(at);
        record.locked_until = Some(at + Duration::from_secs(600));
        record.fencing_token = Some(7);
        record.read_at = Some(at + Duration::from_secs(50));
        record
    }

    #[test]
    fn a_list_has_one_line_per_lock() {
        let free = LockRecord::new(LockName::new("a").unwrap(), LockState::Free);
        assert_eq!(
            locks(&[free, held()]),
            "NAME     STATE  OWNER       UNTIL (UTC)           TOKEN  LAST SLOT\n\
             a        free   -           -                     -      -\n\
             payroll  held   web-3/1/ff  2027-01-15T08:10:00Z  7      -\n"
        );
        assert_eq!(locks(&[]), "no locks\n");
    }

    #[test]
    fn one_lock_has_one_line_per_field() {
        let text = lock(&held());
        assert!(text.contains("\nowner           web-3/1/ff\n"), "{text}");
        let until = "\nlocked until    2027-01-15T08:10:00Z (in 9m 10s)\n";
        assert!(text.contains(until), "{text}");
    }

    #[test]
    fn a_slot_that_is_not_done_is_shown() {
        let at = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let mut open = held();
        open.last_slot = Some(Slot::at(at).unwrap());
        open.last_slot_done = Some(Slot::at(at - Duration::from_secs(60)).unwrap());
        assert!(locks(&[open.clone()]).contains(" 2027-01-15T08:00:00Z\n"));
        for (attempts, said) in [(0, "(not done, 0 attempts)"), (1, "(not done, 1 attempt)")] {
            open.slot_attempts = Some(attempts);
            assert!(locks(&[open.clone()]).contains(said), "{said}");
        }
        open.slot_attempts = Some(2);
        let said = "2027-01-15T08:00:00Z (not done, 2 attempts)\n";
        assert!(locks(&[open.clone()]).contains(said));
        let text = lock(&open);
        assert!(text.contains(said), "{text}");
        assert!(
            text.contains("\nlast slot done  2027-01-15T07:59:00Z\n"),
            "{text}"
        );
        let now = Slot::at(at - Duration::from_secs(30)).unwrap();
        assert_eq!(
            slot_reset(Some(&open), Some(now)),
            format!("payroll: the last slot is 2027-01-15T07:59:30Z; it was {said}")
        );
    }

    #[test]
    fn a_freed_lock_is_printed_with_its_previous_state() {
        let mut lock = held();
        assert_eq!(
            unlock(Some(&lock), Some("uid 0@vm")),
            "payroll: freed by uid 0 on host vm; it was held by web-3/1/ff until \
             2027-01-15T08:10:00Z\n"
        );
        lock.state = LockState::AtLeast;
        assert_eq!(
            unlock(Some(&lock), Some("bob@vm")),
            "payroll: freed by bob on host vm; it was kept after its last run by web-3/1/ff until \
             2027-01-15T08:10:00Z\n"
        );
    }

    #[test]
    fn a_migration_prints_its_changes_or_that_there_are_none() {
        assert_eq!(
            migration("sqlite", &Migration::default()),
            "sqlite: nothing to do\n"
        );
        let changed = Migration::with_changes(vec!["created table \"shedlock\"".into()]);
        assert_eq!(
            migration("sqlite", &changed),
            "sqlite: created table \"shedlock\"\n"
        );
    }
}
