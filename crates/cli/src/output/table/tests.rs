//! What people see.

use std::time::UNIX_EPOCH;

use shedlock::{LockName, SkippedSlots};
use unicode_width::UnicodeWidthStr;

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

/// Six locks with everything that makes a table wide.
fn six() -> Vec<LockRecord> {
    let at = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let lock = |name: &str, state| {
        let mut lock = LockRecord::new(LockName::new(name).unwrap(), state);
        lock.read_at = Some(at);
        lock
    };
    let mut open = lock("expire-subscriptions", LockState::Held);
    open.owner = Some("web-3.example.org/4711/5f0c9b1d7e3a4c28".into());
    open.locked_at = Some(at - Duration::from_secs(192));
    open.locked_until = Some(at + Duration::from_secs(408));
    open.fencing_token = Some(1_800_000_000_000_000);
    open.last_slot = Some(Slot::at(at - Duration::from_secs(200)).unwrap());
    open.slot_attempts = Some(2);
    let mut kept = lock("payroll", LockState::AtLeast);
    kept.owner = Some("web-4/1/ff".into());
    kept.locked_at = Some(at);
    kept.locked_until = Some(at + Duration::from_secs(90_000));
    let mut free = lock("free", LockState::Free);
    free.locked_at = Some(at - Duration::from_secs(1_000_000));
    free.locked_until = Some(at - Duration::from_secs(999_000));
    let mut no_clock = lock("no-clock", LockState::Held);
    no_clock.read_at = None;
    no_clock.locked_until = Some(at);
    let wide = lock("日本語の名前", LockState::Free);
    let long = lock(&"x".repeat(100_000), LockState::Free);
    vec![open, free, no_clock, kept, wide, long]
}

#[test]
fn a_list_fits_80_columns() {
    let text = locks(&six(), Some(80));
    assert_eq!(
        text,
        "\
NAME             STATE     OWNER            AGE     LEFT   LAST SLOT
expire-subscri…  held      web-3.example.…  3m12s   6m48s  2027-01-15T07:56:40Z…
free             free      -                11d13h  -      -
no-clock         held      -                -       -      -
payroll          at-least  web-4/1/ff       0s      1d1h   -
日本語の名前     free      -                -       -      -
xxxxxxxxxxxxxx…  free      -                -       -      -
"
    );
    assert!(text.lines().all(|line| line.width() <= 80), "{text}");
}

#[test]
fn a_list_fits_140_columns() {
    let text = locks(&six(), Some(140));
    assert_eq!(
        text,
        "\
NAME                             STATE     OWNER                            AGE     LEFT   TOKEN             LAST SLOT
expire-subscriptions             held      web-3.example.org/4711/5f0c9b1…  3m12s   6m48s  1800000000000000  2027-01-15T07:56:40Z (not done…
free                             free      -                                11d13h  -      -                 -
no-clock                         held      -                                -       -      -                 -
payroll                          at-least  web-4/1/ff                       0s      1d1h   -                 -
日本語の名前                     free      -                                -       -      -                 -
xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…  free      -                                -       -      -                 -
"
    );
    assert!(text.lines().all(|line| line.width() <= 140), "{text}");
}

#[test]
fn a_list_in_a_pipe_is_cut_only_where_no_name_should_reach() {
    let text = locks(&six(), None);
    assert!(text.contains("5f0c9b1d7e3a4c28"), "{text}");
    assert!(text.contains("(not done, 2 attempts)"), "{text}");
    assert!(text.lines().all(|line| line.width() < 450), "{text}");
}

#[test]
fn a_list_keeps_its_names_at_any_width() {
    for width in 40..200 {
        let text = locks(&six()[..5], Some(width));
        assert_eq!(text.lines().count(), 6);
        assert!(text.lines().all(|line| line.width() <= width), "{text}");
        for start in ["NAME ", "expire-subs", "free ", "payroll "] {
            assert!(text.contains(start), "{width}: {text}");
        }
    }
}

#[test]
fn one_lock_has_one_line_per_field() {
    let text = lock(&held());
    assert!(text.contains("\nowner           web-3/1/ff\n"), "{text}");
    let until = "\nlocked until    2027-01-15T08:10:00Z (in 9m10s)\n";
    assert!(text.contains(until), "{text}");
}

#[test]
fn a_slot_that_is_not_done_is_shown() {
    let at = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let mut open = held();
    open.last_slot = Some(Slot::at(at).unwrap());
    open.last_slot_done = Some(Slot::at(at - Duration::from_secs(60)).unwrap());
    assert!(locks(&[open.clone()], None).contains(" 2027-01-15T08:00:00Z\n"));
    for (attempts, said) in [(0, "(not done, 0 attempts)"), (1, "(not done, 1 attempt)")] {
        open.slot_attempts = Some(attempts);
        assert!(locks(&[open.clone()], None).contains(said), "{said}");
    }
    open.slot_attempts = Some(2);
    let said = "2027-01-15T08:00:00Z (not done, 2 attempts)\n";
    assert!(locks(&[open.clone()], None).contains(said));
    let text = lock(&open);
    assert!(text.contains(said), "{text}");
    assert!(
        text.contains("\nlast slot done  2027-01-15T07:59:00Z\n"),
        "{text}"
    );
    let mut over = open.clone();
    for state in [LockState::Free, LockState::AtLeast] {
        over.state = state;
        let said = "(not done after 2 attempts; given up if the job's limit is 2)\n";
        let shown = lock(&over);
        assert!(shown.contains(said), "{shown}");
        assert!(locks(&[over.clone()], None).contains(said));
    }
    over.slot_attempts = Some(0);
    assert!(lock(&over).contains("(not done, 0 attempts)\n"));
    let now = Slot::at(at - Duration::from_secs(30)).unwrap();
    assert_eq!(
        slot_reset(Some(&open), Some(now)),
        format!("payroll: the last slot is now 2027-01-15T07:59:30Z; it was {said}")
    );
}

#[test]
fn a_lock_that_was_resumed_is_free_and_its_last_owner_was_a_pause() {
    let mut free = held();
    free.owner = Some("alice@vm/1/5f0c9b1d7e3a4c28 paused: moving".into());
    free.state = LockState::Paused;
    assert!(locks(&[free.clone()], None).contains("  paused by alice@vm (moving)  "));
    free.state = LockState::Free;
    let end = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let from = Slot::at(end - Duration::from_secs(60)).unwrap();
    free.skipped_slots = Some(SkippedSlots::new(from, Slot::at(end).unwrap()));
    free.read_at = Some(end);
    assert!(locks(&[free.clone()], None).contains("  was paused by alice@vm (moving)  "));
    let text = lock(&free);
    assert!(
        text.contains("\nlast owner      was paused by alice@vm (moving)\n"),
        "{text}"
    );
    assert!(
        text.contains("\nskipped slots   after 2027-01-15T07:59:00Z, up to 2027-01-15T08:00:00Z\n"),
        "{text}"
    );
}

#[test]
fn a_freed_lock_is_printed_with_its_previous_state() {
    let mut lock = held();
    assert_eq!(
        unlock(Some(&lock), Some("uid-0@vm")),
        "payroll: freed by uid-0@vm; it was held by web-3/1/ff (until \
         2027-01-15T08:10:00Z); its task may still be running\n"
    );
    lock.state = LockState::AtLeast;
    assert_eq!(
        unlock(Some(&lock), Some("bob@vm")),
        "payroll: freed by bob@vm; it was kept after its last run by web-3/1/ff (until \
         2027-01-15T08:10:00Z)\n"
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
