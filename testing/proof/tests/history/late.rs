//! Copies of an attempt that arrive late.

use std::time::Duration;

use shedlock_proof::history::{Rules, What};

use super::{AT_MOST, Forger, MS, TIMEOUT};

/// When no copy of an attempt that was sent at 0 can arrive any more.
const OVER: u64 = (TIMEOUT + 100 * MS) / MS;

/// A store that compares versions and grants a late attempt unless it was withdrawn.
fn by_version() -> Rules {
    Rules {
        refuses_late: false,
        ..Forger::rules()
    }
}

impl Forger {
    /// Another owner attempts the lock and is skipped in favour of this holder.
    fn another_is_skipped_for(self, at: u64, holder: &str) -> Self {
        self.asked(at, "other").skipped_for(at + 1, "other", holder)
    }

    fn withdrawn(self, at: u64, owner: &str) -> Self {
        self.event(at, owner, What::Withdrawn)
            .event(at + 1, owner, What::Withdrew)
    }

    /// The first copy gets no reply, the second one wins, and all is given back.
    fn lost_and_won(self, owner: &str) -> Self {
        self.asked(0, owner)
            .event(10, owner, What::Unknown)
            .asked(20, owner)
            .acquired(21, owner, 1)
            .released(30, owner)
    }
}

#[test]
fn a_holder_that_is_named_is_lawful_while_its_lease_runs() {
    Forger::default()
        .asked(0, "a")
        .acquired(1, "a", 1)
        .another_is_skipped_for(290, "a")
        .must_be_lawful();
}

#[test]
fn an_owner_whose_attempts_were_all_answered_does_not_return() {
    // The lock is held, but not by the owner that the skip names.
    Forger::default()
        .lease(0, 10, "a", 1)
        .asked(20, "b")
        .acquired(21, "b", 2)
        .another_is_skipped_for(50, "a")
        .must_be_convicted_of("owner returns: ");
    // The record may have been read before the lock was given back.
    Forger::default()
        .asked(5, "other")
        .lease(0, 10, "a", 1)
        .skipped_for(30, "other", "a")
        .must_be_lawful();
}

#[test]
fn one_that_was_never_granted_the_lock_does_not_hold_it() {
    for answer in [What::Failed, super::SLOT_TAKEN] {
        Forger::default()
            .asked(0, "a")
            .event(1, "a", answer)
            .another_is_skipped_for(50, "a")
            .must_be_convicted_of("taken for too long: ");
    }
    Forger::default()
        .another_is_skipped_for(50, "stranger")
        .must_be_convicted_of("unknown owner: ");
}

#[test]
fn a_copy_may_come_until_its_timeout_although_the_lock_was_given_back() {
    let skipped_at = |at: u64| {
        Forger::default()
            .lost_and_won("a")
            .another_is_skipped_for(at, "a")
    };
    skipped_at(900).must_be_lawful();
    // A killed process does not withdraw it: its lease may run, but no longer.
    skipped_at(OVER + 250).must_be_lawful();
    skipped_at(OVER + 310).must_be_convicted_of("owner returns: ");
}

#[test]
fn a_withdrawal_past_the_timeout_is_final() {
    let withdrawn_at = |at: u64| {
        Forger::default()
            .lost_and_won("a")
            .withdrawn(at, "a")
            .another_is_skipped_for(OVER + 200, "a")
    };
    withdrawn_at(OVER).must_be_convicted_of("owner returns: ");
    // An earlier withdrawal may have been too early.
    withdrawn_at(500).must_be_lawful();
    // A failed withdrawal ends nothing.
    Forger::default()
        .lost_and_won("a")
        .event(OVER, "a", What::Withdrawn)
        .event(OVER + 1, "a", What::CallFailed)
        .another_is_skipped_for(OVER + 200, "a")
        .must_be_lawful();
}

#[test]
fn a_withdrawal_past_the_timeout_is_final_where_versions_decide() {
    let withdrawn_at = |at: u64| {
        Forger::default()
            .lost_and_won("a")
            .withdrawn(at, "a")
            .another_is_skipped_for(OVER + 200, "a")
    };
    withdrawn_at(OVER).must_be_convicted_by(&by_version(), "owner returns: ");
    withdrawn_at(500).must_be_lawful_by(&by_version());
    // A killed process withdraws nothing: a copy may arrive as late as a request may be in flight.
    let skipped_at = |at: u64| {
        Forger::default()
            .asked(0, "killed")
            .another_is_skipped_for(at, "killed")
    };
    skipped_at(2_250).must_be_lawful_by(&by_version());
    skipped_at(2_310).must_be_convicted_by(&by_version(), "taken for too long: ");
    skipped_at(2_250).must_be_convicted_of("taken for too long: ");
}

#[test]
fn the_timeout_of_a_stopped_process_counts_from_when_it_goes_on() {
    let stopped_until = |until: u64| {
        Forger::default()
            .asked(0, "a")
            .done_to(1, "a", What::Stopped)
            .done_to(until, "a", What::GoesOn)
            .event(until + 10, "a", What::Unknown)
            .another_is_skipped_for(OVER + AT_MOST / MS + 50, "a")
    };
    stopped_until(100).must_be_lawful();
    stopped_until(20).must_be_convicted_of("taken for too long: ");
}

#[test]
fn an_owner_that_is_granted_the_lock_once_more_is_convicted() {
    Forger::default()
        .lease(0, 10, "a", 1)
        .asked(20, "a")
        .acquired(21, "a", 2)
        .must_be_convicted_of("owner returns: a was granted job");
}

#[test]
fn copies_of_an_earlier_version_may_come_at_any_time_and_overlap_no_lease() {
    let old = || {
        Forger::default()
            .done_to(0, "a", What::IsOld)
            .lost_and_won("a")
    };
    old()
        .another_is_skipped_for(OVER + 400, "a")
        .must_be_lawful();
    old()
        .asked(20_000, "a")
        .skipped_for(20_001, "b", "a")
        .must_be_lawful();
    // All copies of this attempt got a reply.
    Forger::default()
        .done_to(0, "a", What::IsOld)
        .lease(0, 10, "a", 1)
        .another_is_skipped_for(50, "a")
        .must_be_convicted_of("owner returns: ");
    Forger::default()
        .done_to(0, "a", What::IsOld)
        .lease(0, 100, "a", 1)
        .lease(50, 60, "b", 2)
        .must_be_convicted_of("overlap: ");
}

#[test]
fn a_log_of_an_earlier_version_is_read() -> Result<(), serde_json::Error> {
    let asked = r#"{"asked":{"at_most":1,"at_least":0,"slot":null,"slot_attempts":null}}"#;
    let What::Asked { timeout, .. } = serde_json::from_str(asked)? else {
        panic!("an attempt");
    };
    assert_eq!(timeout, 10_000 * MS);
    let skipped = r#"{"skipped":{"locked":true,"slot_taken":false}}"#;
    let What::Skipped { holder, until, .. } = serde_json::from_str(skipped)? else {
        panic!("a skip");
    };
    assert_eq!((holder, until), (None, None));
    Ok(())
}

/// Rules of a harness whose processes withdraw within this time, in milliseconds.
fn withdrawing(within: u64) -> Rules {
    Rules {
        withdrawal: Some(Duration::from_millis(within)),
        ..Forger::rules()
    }
}

#[test]
fn an_attempt_that_may_still_win_is_withdrawn_past_its_bound() {
    const BOUND: u64 = TIMEOUT / MS;
    let unknown = || {
        Forger::default()
            .asked(0, "a")
            .event(10, "a", What::Unknown)
    };
    // The process writes something long after that.
    let lives_on =
        |forger: Forger| forger.done_to(BOUND + 2_000, "a", What::WallClock { shows: 0 });
    let early = |forger: Forger| forger.withdrawn(20, "a").withdrawn(BOUND - 1, "a");
    lives_on(early(unknown())).must_be_convicted_by(&withdrawing(1_000), "not withdrawn: ");
    lives_on(unknown()).must_be_convicted_by(&withdrawing(1_000), "not withdrawn: ");
    lives_on(early(unknown()).withdrawn(BOUND, "a")).must_be_lawful_by(&withdrawing(1_000));
    // It may have been killed.
    early(unknown()).must_be_lawful_by(&withdrawing(1_000));
    // It was stopped.
    let stopped = early(unknown())
        .done_to(BOUND + 1, "a", What::Stopped)
        .done_to(BOUND + 900, "a", What::GoesOn);
    lives_on(stopped).must_be_lawful_by(&withdrawing(1_000));
    // What was won was held past the bound, when no copy could win any more.
    let held = Forger::default()
        .asked(0, "a")
        .event(10, "a", What::Unknown)
        .asked(20, "a")
        .acquired(21, "a", 1)
        .released(BOUND + 10, "a");
    lives_on(held).must_be_lawful_by(&withdrawing(1_000));
}
