//! Pauses of an operator.

use shedlock_proof::history::{Rules, What};

use super::{AT_MOST, Forger, MS, SLOT_TAKEN, STORE, TIMEOUT};

/// A lease that an operator holds, for as long as an ordinary one.
impl Forger {
    fn pause_asked(self, at: u64, pause: &str, replaces_holder: bool) -> Self {
        let what = What::PauseAsked {
            lasts: AT_MOST,
            replaces_holder,
            timeout: TIMEOUT,
        };
        self.event(at, pause, what)
    }

    /// Granted half a millisecond before the reply.
    fn paused_instead_of(self, at: u64, pause: &str, holder: Option<&str>) -> Self {
        let what = What::Paused {
            until: STORE + at * MS - MS / 2 + AT_MOST,
            is_new: true,
            replaced: holder.map(str::to_owned),
        };
        self.event(at, pause, what)
    }

    /// A pause of a free lock.
    fn paused(self, at: u64, pause: &str) -> Self {
        self.pause_asked(at, pause, false)
            .paused_instead_of(at + 1, pause, None)
    }

    fn resume_asked(self, at: u64, call: &str, catches_up: bool) -> Self {
        let what = What::ResumeAsked {
            catches_up,
            timeout: TIMEOUT,
        };
        self.event(at, call, what)
    }

    fn resumed(self, at: u64, call: &str, pause: &str) -> Self {
        let pause = pause.to_owned();
        self.resume_asked(at, call, false)
            .event(at + 1, call, What::Resumed { pause })
    }

    fn store_clock(self) -> Self {
        self.event(0, "", What::StoreClock { shows: STORE })
    }

    /// Takes this slot, and gives the lock back at once.
    fn runs(self, at: u64, owner: &str, slot: i64, token: u64) -> Self {
        self.asked_for(at, owner, Some(slot))
            .acquired(at + 1, owner, token)
            .released(at + 2, owner)
    }
}

/// The slot at this moment of the store's clock, in milliseconds.
fn slot(at: u64) -> i64 {
    i64::try_from((STORE + at * MS) / 1_000).expect("a slot")
}

#[test]
fn a_pause_that_everyone_obeys_is_lawful() {
    let findings = Forger::default()
        .lease(0, 5, "a", 1)
        .paused(10, "p")
        .asked(50, "b")
        .skipped_for(51, "b", "p")
        .resumed(100, "r", "p")
        .lease(102, 110, "c", 2)
        .must_be_lawful();
    assert_eq!((findings.pauses, findings.acquisitions), (1, 2));
}

#[test]
fn a_pause_that_ends_by_itself_is_lawful_and_no_sooner() {
    let taken = |at: u64| Forger::default().paused(10, "p").lease(at, at + 5, "a", 1);
    taken(312).must_be_lawful();
    taken(200).must_be_convicted_of("overlap with a pause:");
}

#[test]
fn a_grant_within_a_pause_is_convicted_by_the_stores_clock() {
    // The reply arrives so late that the local clock proves nothing.
    let what = What::Acquired {
        token: Some(1),
        acquired_at: Some(STORE + 250 * MS),
        locked_until: Some(STORE + 550 * MS),
    };
    Forger::default()
        .paused(10, "p")
        .asked(240, "a")
        .event(400, "a", what)
        .must_be_convicted_of("overlap with a pause:");
}

#[test]
fn a_whole_lease_may_lie_between_the_reading_and_the_writing_of_a_pause() {
    // A key that was gone when it was read, and is gone again.
    let what = What::Paused {
        until: STORE + 11 * MS + AT_MOST,
        is_new: true,
        replaced: None,
    };
    Forger::default()
        .pause_asked(10, "p", true)
        .lease(12, 14, "a", 1)
        .event(20, "p", what)
        .must_be_lawful();
}

#[test]
fn a_pause_that_waits_does_not_take_the_lock_from_its_holder() {
    let held = || Forger::default().asked(0, "a").acquired(1, "a", 1);
    held()
        .paused(10, "p")
        .must_be_convicted_of("overlap with a pause:");
    held()
        .pause_asked(10, "p", false)
        .skipped_for(11, "p", "a")
        .pause_asked(20, "p", false)
        .skipped_for(21, "p", "a")
        .released(30, "a")
        .pause_asked(40, "p", false)
        .paused_instead_of(41, "p", None)
        .must_be_lawful();
}

#[test]
fn a_pause_that_replaces_the_holder_ends_exactly_that_lease() {
    let replaced = |holder: Option<&str>| {
        Forger::default()
            .asked(0, "a")
            .acquired(1, "a", 1)
            .pause_asked(10, "p", true)
            .paused_instead_of(11, "p", holder)
    };
    replaced(Some("a")).must_be_lawful();
    for other in [None, Some("another")] {
        replaced(other).must_be_convicted_of("overlap with a pause:");
    }
    let unlock = |answer: What| {
        replaced(Some("a"))
            .event(20, "a", What::ReleaseAsked)
            .event(21, "a", answer)
    };
    unlock(What::ReleaseLost).must_be_lawful();
    // The attempt was unknown at first, so it is withdrawn once more. That is no unlock.
    unlock(What::ReleaseLost)
        .event(30, "a", What::Withdrawn)
        .event(31, "a", What::Withdrew)
        .must_be_lawful();
    unlock(What::Released).must_be_convicted_of("unlocked too late:");
    let extension = |answer: What| {
        replaced(Some("a"))
            .event(20, "a", What::RenewAsked { at_most: AT_MOST })
            .event(21, "a", answer)
    };
    extension(What::RenewLost).must_be_lawful();
    extension(What::Renewed { locked_until: None }).must_be_convicted_of("revived:");
    // A first copy took the lock, and its pause had ended when another made a new one.
    Forger::default()
        .asked(0, "a")
        .acquired(1, "a", 1)
        .pause_asked(10, "p", true)
        .event(20, "a", What::ReleaseAsked)
        .event(21, "a", What::ReleaseLost)
        .paused_instead_of(400, "p", None)
        .must_be_lawful();
}

/// The first copy got no reply, but the lock, which a pause took from it. The second is a lease of its own.
#[test]
fn an_attempt_that_is_repeated_after_a_pause_took_its_lock_may_take_it_again() {
    let repeated = |resumed: u64| {
        Forger::default()
            .asked(0, "a")
            .pause_asked(10, "p", true)
            .paused_instead_of(11, "p", Some("a"))
            .event(20, "a", What::Unknown)
            .resumed(resumed, "r", "p")
            .asked(40, "a")
            .acquired(41, "a", 2)
            .released(50, "a")
    };
    repeated(30).must_be_lawful();
    repeated(60).must_be_convicted_of("unlocked too late:");
}

#[test]
fn a_lease_that_no_pause_took_is_not_lost() {
    let lost = |replaces_holder: bool| {
        Forger::default()
            .asked(0, "a")
            .acquired(1, "a", 1)
            .pause_asked(10, "p", replaces_holder)
            .event(11, "p", What::Unknown)
            .event(20, "a", What::ReleaseAsked)
            .event(21, "a", What::ReleaseLost)
    };
    lost(true).must_be_lawful();
    lost(false).must_be_convicted_of("lost ownership:");
}

#[test]
fn a_late_unlock_does_not_free_a_pause() {
    Forger::default()
        .asked(0, "a")
        .acquired(1, "a", 1)
        .pause_asked(10, "p", true)
        .paused_instead_of(11, "p", Some("a"))
        .event(20, "a", What::ReleaseAsked)
        .event(21, "a", What::ReleaseLost)
        .lease(30, 35, "b", 2)
        .must_be_convicted_of("overlap with a pause:");
}

#[test]
fn a_pause_without_an_answer_may_hold_the_lock_or_not() {
    let unknown = || {
        Forger::default()
            .pause_asked(10, "p", false)
            .event(20, "p", What::Unknown)
    };
    unknown().lease(30, 35, "a", 1).must_be_lawful();
    unknown()
        .asked(30, "a")
        .skipped_for(31, "a", "p")
        .must_be_lawful();
    // Until the request is no longer on its way, and then for its length.
    unknown()
        .asked(2_400, "a")
        .skipped_for(2_401, "a", "p")
        .must_be_convicted_of("taken for too long:");
    Forger::default()
        .pause_asked(10, "p", false)
        .event(20, "p", What::Failed)
        .asked(30, "a")
        .skipped_for(31, "a", "p")
        .must_be_convicted_of("taken for too long:");
}

#[test]
fn a_pause_of_a_killed_operator_holds_the_lock() {
    // The reply was logged, and nothing else.
    Forger::default()
        .paused(10, "p")
        .lease(100, 105, "a", 1)
        .must_be_convicted_of("overlap with a pause:");
    // The request may have been sent for as long as its caller would have waited.
    let late = TIMEOUT / MS + 2_000 + AT_MOST / MS;
    let skipped = |at: u64| {
        Forger::default()
            .pause_asked(10, "p", false)
            .asked(at, "a")
            .skipped_for(at + 1, "a", "p")
    };
    skipped(late).must_be_lawful();
    skipped(late + 20).must_be_convicted_of("taken for too long:");
}

#[test]
fn a_resumption_without_an_answer_may_have_ended_the_pause() {
    let resumed = |answer: What| {
        Forger::default()
            .paused(10, "p")
            .resume_asked(50, "r", false)
            .event(51, "r", answer)
    };
    let taken = |answer: What| resumed(answer).lease(60, 65, "a", 1);
    taken(What::Unknown).must_be_lawful();
    taken(What::Failed).must_be_convicted_of("overlap with a pause:");
    resumed(What::Unknown)
        .asked(100, "a")
        .skipped_for(101, "a", "p")
        .must_be_lawful();
}

#[test]
fn a_pause_that_was_resumed_is_over() {
    Forger::default()
        .paused(10, "p")
        .resumed(50, "r", "p")
        .asked(100, "a")
        .skipped_for(101, "a", "p")
        .must_be_convicted_of("owner returns:");
    // A store that crashes may lose its last moments.
    Forger::default()
        .paused(10, "p")
        .resumed(50, "r", "p")
        .event(60, "", What::StoreKilled)
        .event(70, "", What::StoreStarted)
        .asked(100, "a")
        .skipped_for(101, "a", "p")
        .must_be_lawful();
}

#[test]
fn a_pause_is_not_lost() {
    let resumed = |at: u64| {
        Forger::default()
            .paused(10, "p")
            .resume_asked(at, "r", false)
            .event(at + 1, "r", What::NotPaused)
    };
    resumed(320).must_be_lawful();
    resumed(100).must_be_convicted_of("pause lost:");
    Forger::default()
        .paused(10, "p")
        .event(50, "", What::StoreKilled)
        .event(90, "", What::StoreStarted)
        .resume_asked(100, "r", false)
        .event(101, "r", What::NotPaused)
        .must_be_convicted_of("pause lost:");
    // Another pause has replaced it, and was resumed.
    Forger::default()
        .paused(10, "p")
        .paused(20, "q")
        .resumed(30, "r", "q")
        .resume_asked(100, "s", false)
        .event(101, "s", What::NotPaused)
        .must_be_lawful();
}

#[test]
fn a_forced_unlock_does_not_free_a_pause() {
    Forger::default()
        .paused(10, "p")
        .event(50, "p", What::Forced)
        .must_be_convicted_of("pause forced:");
}

#[test]
fn a_pause_replaces_at_least() {
    let kept = |paused: bool| {
        let forger = Forger::default()
            .asked_to_keep(0, "a", 200)
            .acquired(1, "a", 1)
            .released(10, "a");
        let forger = match paused {
            true => forger.paused(20, "p").resumed(30, "r", "p"),
            false => forger,
        };
        forger.lease(50, 55, "b", 2)
    };
    kept(true).must_be_lawful();
    kept(false).must_be_convicted_of("at-least:");
}

#[test]
fn slots_of_a_pause_that_ended_by_itself_are_taken() {
    let run = |at: u64| {
        Forger::default()
            .runs(0, "a", slot(0), 1)
            .paused(10, "p")
            .runs(400, "b", slot(at), 2)
    };
    run(200).must_be_convicted_of("slot of a pause:");
    run(350).must_be_lawful();
    // The pause makes them taken.
    Forger::default()
        .runs(0, "a", slot(0), 1)
        .paused(10, "p")
        .asked_for(400, "b", Some(slot(200)))
        .event(401, "b", super::SLOT_TAKEN)
        .must_be_lawful();
    Forger::default()
        .runs(0, "a", slot(0), 1)
        .paused(10, "p")
        .asked_for(400, "b", Some(slot(350)))
        .event(401, "b", super::SLOT_TAKEN)
        .must_be_convicted_of("slot refused:");
}

#[test]
fn slots_of_a_pause_that_was_resumed_are_taken_up_to_its_end() {
    let run = |at: u64| {
        Forger::default()
            .store_clock()
            .runs(1, "a", slot(0), 1)
            .paused(10, "p")
            .resumed(100, "r", "p")
            .runs(200, "b", slot(at), 2)
    };
    run(80).must_be_convicted_of("slot of a pause:");
    run(150).must_be_lawful();
    // It was resumed before its end, although long after its first attempt.
    let repeated = |at: u64| {
        Forger::default()
            .store_clock()
            .lease(1, 150, "a", 1)
            .pause_asked(10, "p", false)
            .skipped(11, "p")
            .paused(200, "p")
            .resumed(350, "r", "p")
            .runs(600, "b", slot(at), 2)
    };
    repeated(300).must_be_convicted_of("slot of a pause:");
    repeated(450).must_be_lawful();
}

#[test]
fn a_pause_that_a_crash_made_longer_covers_the_slots_until_it_is_resumed() {
    Forger::default()
        .store_clock()
        .runs(1, "a", slot(0), 1)
        .paused(10, "p")
        .event(100, "", What::StoreKilled)
        .event(200, "", What::StoreStarted)
        .resumed(450, "r", "p")
        .asked_for(500, "b", Some(slot(400)))
        .event(501, "b", super::SLOT_TAKEN)
        .must_be_lawful();
}

#[test]
fn slots_of_a_pause_run_if_a_resumption_catches_up() {
    let caught_up = |answer: What| {
        Forger::default()
            .store_clock()
            .runs(1, "a", slot(0), 1)
            .paused(10, "p")
            .resume_asked(100, "r", true)
            .event(101, "r", answer)
            .runs(400, "b", slot(80), 2)
    };
    let pause = || "p".to_owned();
    caught_up(What::Resumed { pause: pause() }).must_be_lawful();
    caught_up(What::Unknown).must_be_lawful();
    caught_up(What::Failed).must_be_convicted_of("slot of a pause:");
    caught_up(What::NotPaused).must_be_convicted_of("slot of a pause:");
}

#[test]
fn an_open_slot_stays_open_through_a_pause() {
    let run = |forger: Forger| {
        forger
            .asked_for_open(400, "b", slot(5))
            .acquired(401, "b", 2)
            .must_be_lawful()
    };
    let begun = Forger::default()
        .asked_for_open(6, "a", slot(5))
        .acquired(7, "a", 1)
        .released(8, "a");
    run(begun.paused(10, "p"));
    Forger::default()
        .paused(10, "p")
        .asked_for_open(400, "b", slot(50))
        .acquired(401, "b", 2)
        .must_be_convicted_of("slot of a pause:");
}

#[test]
fn a_slot_that_was_due_before_a_pause_may_run_after_it() {
    Forger::default()
        .runs(0, "a", slot(0), 1)
        .paused(10, "p")
        .runs(400, "b", slot(5), 2)
        .must_be_lawful();
    let refused = |at: u64, began: u64| {
        Forger::default()
            .store_clock()
            .runs(0, "a", slot(0), 1)
            .paused(began, "p")
            .asked_for(20_000, "b", Some(slot(at)))
            .event(20_001, "b", SLOT_TAKEN)
    };
    refused(10_100, 10_000).must_be_lawful();
    // The clocks are compared with a tolerance.
    refused(5_000, 10_000).must_be_convicted_of("slot refused:");
}

#[test]
fn an_earlier_version_may_run_the_slots_of_a_pause_but_obeys_it() {
    let old = || {
        Forger::default()
            .done_to(0, "b", What::IsOld)
            .paused(10, "p")
    };
    old().runs(400, "b", slot(200), 2).must_be_lawful();
    old()
        .runs(100, "b", slot(50), 2)
        .must_be_convicted_of("overlap with a pause:");
    // Its runs move the mark of done slots back.
    let new = |forger: Forger| forger.runs(500, "c", slot(300), 3);
    new(old().runs(400, "b", slot(200), 2)).must_be_lawful();
    new(old()).must_be_convicted_of("slot of a pause:");
    new(old().asked(400, "b").skipped(401, "b")).must_be_convicted_of("slot of a pause:");
}

#[test]
fn clients_whose_clocks_differ_may_end_a_pause_a_little_later() {
    let rules = Rules {
        skew: std::time::Duration::from_millis(50),
        ..Forger::rules()
    };
    let skipped = || {
        Forger::default()
            .paused(10, "p")
            .asked(340, "a")
            .skipped_for(341, "a", "p")
    };
    skipped().must_be_lawful_by(&rules);
    skipped().must_be_convicted_of("taken for too long:");
}

#[test]
fn a_run_that_was_overlapped_is_no_success() {
    let run = |taken: u64, has_succeeded: bool| {
        let forger = Forger::default()
            .asked(0, "a")
            .acquired(1, "a", 1)
            .event(10, "a", What::ForceAsked)
            .lease(taken, taken + 5, "b", 2)
            .event(30, "a", What::ReleaseAsked)
            .event(31, "a", What::CallFailed)
            .event(40, "a", What::ReleaseAsked)
            .event(41, "a", What::ReleaseLost);
        match has_succeeded {
            true => forger.event(42, "a", What::Succeeded),
            false => forger,
        }
    };
    run(15, false).must_be_lawful();
    run(15, true).must_be_convicted_of("overlapped success:");
    // It may have been granted after the first unlock.
    run(29, true).must_be_lawful();
    run(35, true).must_be_lawful();
}
