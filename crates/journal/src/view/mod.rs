//! What the command and the dashboard show in the same way: instants, durations, states, untrusted
//! text, JSON objects, and what operators do.

mod clock_rate;
mod doubled;
mod evidence;
mod journal;
#[cfg(feature = "json")]
pub mod json;
mod operator;

use std::time::{Duration, SystemTime};

use jiff::Timestamp;

pub use crate::OpenRun;
pub use crate::states::{
    CurrentJob, JobState, LostPause, LostSlot, LostState, all_jobs, current_jobs, next_slot,
    run_states, store_now, taken, taken_locks,
};
pub use clock_rate::ClockRate;
pub use evidence::{drift, what as lost_in_words};
pub use journal::{journal_findings, missing_journal};
pub use operator::{
    Extended, extend_by_operator, extension_detail, is_far_ahead, record_action, slot_detail,
    taken_from, unlock_by_operator,
};
use shedlock_core::{AuditRecord, JobRecord, LockRecord, LockState, Owner, Slot};
pub use shedlock_support::text::{second, shedlock_on, visible, visible_lines};

/// RFC 3339 in UTC, as exact as the instant. `None` outside the calendar's years.
pub fn instant(instant: SystemTime) -> Option<String> {
    Some(Timestamp::try_from(instant).ok()?.to_string())
}

/// A duration in its two largest units, like `3m12s`.
pub fn about(duration: Duration) -> String {
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

/// How long a run took. Tenths matter for short ones.
pub fn took(duration: Duration) -> String {
    if duration < Duration::from_secs(10) {
        return format!("{:.1}s", duration.as_secs_f64());
    }
    about(duration)
}

/// When a pause ends. `has_end` is whether the user has set that.
pub fn pause_end(until: SystemTime, has_end: bool) -> String {
    if has_end {
        format!("until {}", second(until))
    } else {
        format!("until {RESUMED}")
    }
}

/// The end of a pause without an end of its own.
const RESUMED: &str = "it is resumed";

/// The end of a pause that lasts until it is resumed: in years that only a pause can have.
pub fn open_end(until: SystemTime, now: Option<SystemTime>) -> Option<&'static str> {
    const YEARS: Duration = Duration::from_secs(5 * 366 * 86_400);
    let left = until.duration_since(now?).ok()?;
    (left > YEARS).then_some(RESUMED)
}

/// The time since the lock was last acquired, by the store's own clock.
pub fn age(lock: &LockRecord) -> Option<Duration> {
    let age = lock.read_at?.duration_since(lock.locked_at?);
    // Acquired at the very time of reading.
    Some(age.unwrap_or_default())
}

/// How long the lock stays taken, by the store's own clock. `None` if it is free.
pub fn left(lock: &LockRecord) -> Option<Duration> {
    if lock.state == LockState::Free {
        return None;
    }
    lock.locked_until?.duration_since(lock.read_at?).ok()
}

/// The state as the end of a sentence.
pub fn state_in_words(state: LockState) -> &'static str {
    match state {
        LockState::AtLeast => "kept for a while after its run has ended (state at-least)",
        LockState::Taken => "taken by ShedLock for Java (state taken)",
        other => other.as_str(),
    }
}

/// Who took the lock, until when, and what that means, if it was ShedLock for Java.
pub fn taken_in_words(lock: &LockRecord) -> Option<String> {
    if lock.state != LockState::Taken {
        return None;
    }
    let by = shedlock_on(lock.owner.as_deref());
    let until = lock.locked_until.map(second);
    let until = until.map_or_else(String::new, |until| format!(" until {until}"));
    Some(format!(
        "taken by {by}{until}: its task runs, or has ended and lockAtLeastFor keeps it"
    ))
}

/// Which slot of this job ShedLock for Java took last, and what is known about it.
pub fn elsewhere_in_words(job: &JobRecord) -> Option<String> {
    let taken = job.elsewhere.as_ref()?;
    let (by, at) = (shedlock_on(taken.by.as_deref()), second(taken.at));
    let count = match taken.slots {
        1 => String::new(),
        slots => format!(" ({slots} slots in a row)"),
    };
    let watched = match job.is_watched_elsewhere {
        true => "; Java watches that, as an operator has declared",
        false => "",
    };
    let slot = second(taken.slot.instant());
    Some(format!(
        "slot {slot} was taken by {by} at {at}; how its task ended is not known{count}{watched}"
    ))
}

/// That a job is run by ShedLock for Java, if that was the last to take this lock.
pub fn run_by_shedlock(lock: &LockRecord) -> Option<String> {
    let host = lock.owner.as_deref();
    // The owner of a free lock may be missing for other reasons.
    let is_theirs =
        host.is_some_and(|host| !Owner::is_ours(host)) || lock.state == LockState::Taken;
    if !is_theirs {
        return None;
    }
    let on = host.map_or_else(String::new, |host| format!(" on {}", visible(host)));
    let last = lock.locked_at.map(second);
    let last = last.map_or_else(String::new, |last| format!(" (last at {last})"));
    Some(format!(
        "run by ShedLock for Java{on}{last}; its runs are not recorded here"
    ))
}

/// Whether the last slot is ahead of the store's clock, so that no host runs the slots before it. `None` if there is no
/// slot, or if the store does not report its clock.
pub fn is_ahead(lock: &LockRecord) -> Option<bool> {
    let ahead = lock.last_slot?.instant().duration_since(lock.read_at?);
    Some(ahead.is_ok_and(|ahead| ahead > Slot::DEFAULT_TOLERANCE))
}

/// What an operator did, as a participle.
pub fn done(action: &AuditRecord) -> &str {
    match &*action.action {
        "extend" => "extended",
        "pause" => "paused",
        "prune" => "pruned",
        "forget" => "forgotten",
        "resume" => "resumed",
        "run-now" => "run requested",
        "slot-reset" => "slot reset",
        "watch" => "watched elsewhere",
        "unwatch" => "not watched elsewhere",
        "unlock" => "freed",
        other => other,
    }
}

/// A name as a word of a shell's command line.
pub fn shell_word(name: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "_-./:@".contains(char);
    if !name.is_empty() && name.chars().all(is_plain) {
        return name.to_owned();
    }
    format!("'{}'", name.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
