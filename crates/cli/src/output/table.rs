//! Output for people.

use std::time::{Duration, SystemTime};

use super::Setting;
use super::columns::{self, Column};
use std::path::Path;

use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use shedlock::{LockRecord, LockState, Migration, Pause, Slot};
use shedlock_support::redact;

use super::PausedLock;

const NONE: &str = "-";

/// If the table is too wide, slots lose their remarks, then owners and names are cut. Columns that
/// matter least are left out.
const COLUMNS: [Column; 7] = [
    column("NAME", Some(12), 0),
    column("STATE", None, 0),
    column("OWNER", Some(12), 1),
    column("AGE", None, 2),
    column("LEFT", None, 0),
    column("TOKEN", None, 4),
    column("LAST SLOT", Some(21), 3),
];

const fn column(title: &'static str, at_least: Option<usize>, leaves: u8) -> Column {
    Column {
        title,
        at_least,
        leaves,
    }
}

pub(super) fn locks(locks: &[LockRecord], width: Option<usize>) -> String {
    let rows: Vec<_> = locks
        .iter()
        .map(|lock| {
            [
                name(lock),
                lock.state.as_str().to_owned(),
                or_none(owner(lock)),
                or_none(super::age(lock).map(super::about)),
                or_none(left(lock)),
                or_none(lock.fencing_token.map(|token| token.to_string())),
                or_none(slot(lock)),
            ]
        })
        .collect();
    columns::lines(&COLUMNS, &rows, width)
}

pub(super) fn lock(lock: &LockRecord) -> String {
    let mut table = plain();
    let state = match lock.state {
        LockState::Held => {
            "held: its holder is running, or the holder or its host has died".to_owned()
        }
        LockState::Taken => super::taken_in_words(lock).unwrap_or_default(),
        LockState::Paused => "paused: no one can take it before the pause ends".to_owned(),
        LockState::AtLeast => {
            let kept = "released, but kept by --lock-at-least-for or by the pause after a failed \
                        slot (--retry-backoff)";
            format!("{}: {kept}", lock.state.as_str())
        }
        LockState::Free => "free: can be taken".to_owned(),
        other => other.as_str().to_owned(),
    };
    let until = lock.locked_until.map(|until| {
        if let Some(end) = super::open_end(until, lock.read_at) {
            return end.to_owned();
        }
        let text = super::second(until);
        match super::left(lock) {
            Some(left) => format!("{text} (in {})", super::about(left)),
            None => text,
        }
    });
    let (whose, at, ends) = match lock.state {
        LockState::Held | LockState::Taken => ("owner", "locked at", "locked until"),
        LockState::Paused => ("paused by", "paused at", "paused until"),
        _ => ("last owner", "locked at", "locked until"),
    };
    let pause = lock.pause();
    let who = pause.map_or_else(|| owner(lock), |pause| shown(pause.by()));
    let reason = pause.map(|pause| ("reason", shown(pause.reason())));
    let first = [
        ("name", Some(name(lock))),
        ("state", Some(state)),
        (whose, who),
    ];
    let rest = [
        (at, lock.locked_at.map(super::second)),
        (ends, until),
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
    ];
    let skipped = skipped(lock).map(|skipped| ("skipped slots", Some(skipped)));
    for (field, value) in first.into_iter().chain(reason).chain(rest).chain(skipped) {
        table.add_row([field.to_owned(), or_none(value)]);
    }
    lines(&table)
}

pub(super) fn held(lock: &LockRecord, lasts: Option<Duration>) -> String {
    let lasts = lasts.map_or_else(String::new, |lasts| {
        format!(", for at most {}", super::duration(lasts))
    });
    format!(
        "{}: held as {} until Ctrl-C or SIGTERM{lasts}\n",
        name(lock),
        or_none(owner(lock)),
    )
}

pub(super) fn extended(lock: Option<&LockRecord>, until: Option<SystemTime>) -> String {
    let (Some(lock), Some(until)) = (lock, until) else {
        return String::new();
    };
    let (name, owner, end) = (name(lock), or_none(owner(lock)), super::second(until));
    match lock.locked_until {
        Some(before) if before >= until => {
            format!("{name}: not changed: already held by {owner} until {end}\n")
        }
        before => {
            let before = or_none(before.map(super::second));
            format!("{name}: held by {owner} until {end} (previously until {before})\n")
        }
    }
}

pub(super) fn unlock(lock: Option<&LockRecord>, freed_by: Option<&str>) -> String {
    let (Some(lock), Some(freed_by)) = (lock, freed_by) else {
        return String::new();
    };
    let freed_by = super::visible(freed_by);
    let was = match lock.state {
        LockState::AtLeast => format!("kept after its last run by {}", or_none(owner(lock))),
        _ => had(lock),
    };
    let task = match lock.state.may_run() {
        true => "; its task may still be running",
        false => "",
    };
    format!(
        "{}: freed by {freed_by}; it was {was} (until {}){task}\n",
        name(lock),
        or_none(lock.locked_until.map(super::second)),
    )
}

pub(super) fn paused(lock: &PausedLock, has_end: bool) -> String {
    let until = super::pause_end(lock.until, has_end);
    let pause = Pause::parse(&lock.owner);
    let by = pause.map(|pause| pause.to_string()).unwrap_or_default();
    let was = lock.before.as_ref().filter(|lock| lock.state.may_run());
    let was = was.map_or_else(String::new, |lock| {
        format!("; it was {}, whose task may still be running", had(lock))
    });
    let name = super::visible(lock.name.as_str());
    format!("{name}: paused {by} {until}{was}\n")
}

pub(super) fn resumed(lock: &LockRecord, by: &str, catches_up: bool) -> String {
    if lock.state != LockState::Paused {
        let slots = match catches_up {
            true => "can run now",
            false => "count as taken up to now",
        };
        let (name, by) = (name(lock), super::visible(by));
        return format!(
            "{name}: resumed by {by}; its pause was over, and the slots of it {slots}\n"
        );
    }
    let kept = lock.pause().and_then(|pause| pause.kept_until());
    let kept = kept.filter(|end| Some(*end) > lock.read_at);
    let kept = kept.map_or_else(String::new, |end| {
        format!(
            "; it stays taken until {} (lock_at_least_for, or a retry backoff)",
            super::second(end)
        )
    });
    let was = lock.pause().map(|pause| pause.to_string());
    let since = lock.locked_at.map(super::second);
    format!(
        "{}: resumed by {}; it had been paused {} since {}{kept}\n",
        name(lock),
        super::visible(by),
        was.unwrap_or_default(),
        or_none(since)
    )
}

pub(super) fn pruned(lock: &LockRecord, is_removed: bool) -> String {
    let would_be = if is_removed { "" } else { "would be " };
    format!(
        "{}: {would_be}removed; idle for {} (since {}), last owner {}\n",
        name(lock),
        or_none(super::idle(lock).map(super::about)),
        or_none(lock.last_used().map(super::second)),
        or_none(owner(lock)),
    )
}

pub(super) fn slot_reset(lock: Option<&LockRecord>, last_slot: Option<Slot>) -> String {
    let (Some(lock), Some(last_slot)) = (lock, last_slot) else {
        return String::new();
    };
    format!(
        "{}: the last slot is now {last_slot}; it was {}\n",
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

pub(super) fn settings(file: Option<(&Path, &str)>, settings: &[Setting]) -> String {
    let text = |text: &str| super::visible(&redact(text)).into_owned();
    let (path, from) = file.map_or((None, "default"), |(path, from)| (Some(path), from));
    let file = [
        "config".to_owned(),
        or_none(path.map(|path| text(&path.to_string_lossy()))),
        from.to_owned(),
    ];
    let rows = settings.iter().map(|setting| {
        let value = setting.value.as_deref();
        [
            setting.name.clone(),
            or_none(value.map(text)),
            text(&setting.from),
        ]
    });
    let rows: Vec<_> = std::iter::once(file).chain(rows).collect();
    let columns = ["SETTING", "VALUE", "FROM"].map(|title| column(title, None, 0));
    columns::lines(&columns, &rows, None)
}

fn name(lock: &LockRecord) -> String {
    super::visible(lock.name.as_str()).into_owned()
}

/// Who has the lock.
fn had(lock: &LockRecord) -> String {
    match lock.state {
        LockState::Taken => format!("taken by {}", super::shedlock_on(lock.owner.as_deref())),
        _ => format!("held by {}", or_none(owner(lock))),
    }
}

fn owner(lock: &LockRecord) -> Option<String> {
    let owner = lock.owner.as_deref()?;
    if let Some(pause) = Pause::parse(owner) {
        let was = match lock.state {
            LockState::Paused => "paused",
            _ => "was paused",
        };
        return Some(format!("{was} {pause}"));
    }
    Some(super::visible(owner).into_owned())
}

/// How long the lock stays taken.
fn left(lock: &LockRecord) -> Option<String> {
    let left = super::left(lock)?;
    let is_open = lock.state == LockState::Paused
        && super::open_end(lock.locked_until?, lock.read_at).is_some();
    Some(if is_open {
        "open-ended".to_owned()
    } else {
        super::about(left)
    })
}

/// The last slot, whether it is ahead of the store's clock, and whether it is still open.
fn slot(lock: &LockRecord) -> Option<String> {
    let slot = lock.last_slot?;
    let ahead = super::is_ahead(lock) == Some(true);
    // The record has the attempts that were made, not those that the job allows.
    let is_running = lock.state.may_run() || lock.state == LockState::Paused;
    let is_over = !is_running && lock.slot_attempts > Some(0);
    let open = lock.slot_attempts.map(|attempts| {
        let made = match attempts {
            1 => "1 attempt".to_owned(),
            _ => format!("{attempts} attempts"),
        };
        if is_over {
            format!("not done after {made}; given up if the job's limit is {attempts}")
        } else {
            format!("not done, {made}")
        }
    });
    let remarks: Vec<_> = ahead
        .then(|| "ahead of the clock".to_owned())
        .into_iter()
        .chain(open)
        .collect();
    Some(if remarks.is_empty() {
        slot.to_string()
    } else {
        format!("{slot} ({})", remarks.join("; "))
    })
}

/// The slots that a pause has skipped, until a later one runs. While it lasts, its end has a row of its own.
fn skipped(lock: &LockRecord) -> Option<String> {
    let skipped = lock.skipped_slots?;
    let (from, until) = (skipped.from, skipped.until);
    if lock.state == LockState::Paused {
        return Some(format!("after {from}"));
    }
    if lock.slots_skipped_before().is_none() {
        let what = "none: something else has ended the pause";
        return Some(format!("{what} that began at {from}"));
    }
    Some(format!("after {from}, up to {until}"))
}

/// An untrusted text, if there is one.
fn shown(text: &str) -> Option<String> {
    let shown = super::visible(text).into_owned();
    Some(shown).filter(|text| !text.is_empty())
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
mod tests;
