//! Histories that include leases of ShedLock.

use shedlock_proof::history::What;

use super::{AT_MOST, Forger, MS};

const GRANTED: What = What::Acquired {
    token: None,
    acquired_at: None,
    locked_until: None,
};

impl Forger {
    /// ShedLock attempts the lock, from a host named like the owner without its number.
    fn shedlock_asked(self, at: u64, owner: &str, at_least: u64) -> Self {
        let host = owner.trim_end_matches(|end: char| end.is_ascii_digit());
        let what = What::Asked {
            at_most: AT_MOST,
            at_least: at_least * MS,
            slot: None,
            slot_attempts: None,
            host: Some(host.to_owned()),
            timeout: u64::MAX,
        };
        self.event(at, owner, what)
    }

    /// ShedLock holds the lock.
    fn shedlock_holds(self, at: u64, owner: &str) -> Self {
        self.shedlock_asked(at, owner, 0)
            .event(at + 1, owner, GRANTED)
    }
}

#[test]
fn shedlock_and_ours_one_after_the_other_are_lawful() {
    let findings = Forger::default()
        .lease(0, 10, "a", 1)
        .shedlock_holds(12, "java1")
        .asked(15, "b")
        .skipped(16, "b")
        .released(20, "java1")
        .lease(22, 30, "c", 2)
        .shedlock_asked(25, "java2", 0)
        .skipped(26, "java2")
        .must_be_lawful();
    assert_eq!(findings.acquisitions, 3);
    assert_eq!(findings.shedlocks, 1);
}

#[test]
fn a_lease_of_shedlocks_within_ours_is_convicted() {
    Forger::default()
        .asked(0, "a")
        .acquired(1, "a", 1)
        .shedlock_holds(100, "java1")
        .must_be_convicted_of("overlap:");
}

#[test]
fn a_lease_of_ours_within_shedlocks_is_convicted() {
    Forger::default()
        .shedlock_holds(0, "java1")
        .lease(100, 110, "a", 1)
        .must_be_convicted_of("overlap:");
    // No one can have unlocked it, although its process is dead.
    Forger::default()
        .shedlock_holds(0, "java1")
        .done_to(50, "java1", What::Stopped)
        .lease(290, 295, "a", 1)
        .must_be_convicted_of("overlap:");
}

#[test]
fn two_leases_of_shedlocks_at_once_are_convicted() {
    for other in ["java2", "elsewhere1"] {
        Forger::default()
            .shedlock_holds(0, "java1")
            .shedlock_holds(100, other)
            .must_be_convicted_of("overlap:");
    }
}

#[test]
fn an_unlock_of_shedlocks_that_comes_too_late_is_lawful_and_one_of_ours_is_not() {
    Forger::default()
        .shedlock_holds(0, "java1")
        .asked(305, "b")
        .acquired(306, "b", 1)
        .released(400, "java1")
        .released(500, "b")
        .must_be_lawful();
    Forger::default()
        .lease(0, 400, "a", 1)
        .must_be_convicted_of("unlocked too late:");
}

#[test]
fn what_shedlocks_late_unlock_frees_of_ours_is_found_out() {
    Forger::default()
        .shedlock_holds(0, "java1")
        .asked(305, "b")
        .acquired(306, "b", 1)
        .released(400, "java1")
        .lease(402, 410, "c", 2)
        .must_be_convicted_of("overlap:");
}

#[test]
fn our_tokens_grow_across_a_lease_of_shedlocks() {
    let around = |token| {
        Forger::default()
            .lease(0, 10, "a", 7)
            .shedlock_holds(12, "java1")
            .released(20, "java1")
            .lease(22, 30, "b", token)
    };
    around(8).must_be_lawful();
    around(6).must_be_convicted_of("token goes back:");
    around(7).must_be_convicted_of("token twice:");
}

#[test]
fn an_unlock_without_an_answer_may_end_only_the_next_lease_of_the_same_host() {
    let next = |owner: &str| {
        Forger::default()
            .shedlock_asked(0, "java1", 0)
            .event(1, "java1", GRANTED)
            .event(250, "java1", What::ReleaseAsked)
            .event(260, "java1", What::CallFailed)
            .shedlock_asked(310, owner, 100)
            .event(311, owner, GRANTED)
            .lease(320, 330, "a", 1)
    };
    next("java2").must_be_lawful();
    next("elsewhere1").must_be_convicted_of("overlap:");
    next("elsewhere1").must_be_convicted_of("at-least:");
}

#[test]
fn an_unlock_that_was_answered_excuses_nothing() {
    Forger::default()
        .shedlock_holds(0, "java1")
        .released(250, "java1")
        .shedlock_holds(310, "java2")
        .lease(320, 330, "a", 1)
        .must_be_convicted_of("overlap:");
}

#[test]
fn what_shedlock_keeps_is_kept() {
    let kept = |until: u64| {
        Forger::default()
            .shedlock_asked(0, "java1", 100)
            .event(1, "java1", GRANTED)
            .released(10, "java1")
            .lease(until, until + 10, "a", 1)
    };
    kept(102).must_be_lawful();
    kept(60).must_be_convicted_of("at-least:");
}

#[test]
fn an_extension_by_shedlock_without_an_answer_may_extend_what_is_kept() {
    let skipped_after = |answer: What| {
        Forger::default()
            .shedlock_asked(0, "java1", 100)
            .event(1, "java1", GRANTED)
            .event(5, "java1", What::RenewAsked { at_most: AT_MOST })
            .event(6, "java1", answer)
            .released(10, "java1")
            .asked(200, "a")
            .skipped(201, "a")
    };
    skipped_after(What::CallFailed).must_be_lawful();
    skipped_after(What::Renewed { locked_until: None }).must_be_convicted_of("taken for too long:");
}

#[test]
fn a_free_lock_that_is_refused_to_shedlock_is_convicted() {
    Forger::default()
        .lease(0, 10, "a", 1)
        .shedlock_asked(50, "java1", 0)
        .skipped(51, "java1")
        .must_be_convicted_of("taken for too long:");
}

#[test]
fn an_extension_that_is_refused_to_shedlock_while_its_lease_runs_is_convicted() {
    Forger::default()
        .shedlock_holds(0, "java1")
        .event(100, "java1", What::RenewAsked { at_most: AT_MOST })
        .event(101, "java1", What::RenewLost)
        .must_be_convicted_of("lost ownership:");
}

#[test]
fn a_record_of_shedlocks_may_name_the_machine_while_a_lease_of_its_runs() {
    let skipped = |at: u64, holder: &str| {
        Forger::default()
            .shedlock_holds(0, "java1")
            .asked(at, "b")
            .skipped_for(at + 1, "b", holder)
    };
    skipped(100, "machine").must_be_lawful();
    skipped(400, "machine").must_be_convicted_of("unknown owner: ");
    skipped(100, "machine/7/0123456789abcdef").must_be_convicted_of("unknown owner: ");
}
