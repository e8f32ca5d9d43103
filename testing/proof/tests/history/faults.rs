//! A fault excuses events, but only around its time.

use std::time::Duration;

use shedlock_proof::history::{Rules, What};

use super::{AT_MOST, Forger, MS, STORE};

/// The rules for a store that compares versions and does not refuse late attempts.
fn by_version() -> Rules {
    Rules {
        refuses_late: false,
        ..Forger::rules()
    }
}

impl Forger {
    fn crash(self, from: u64, to: u64) -> Self {
        self.done_to(from, "", What::StoreKilled)
            .done_to(to, "", What::StoreStarted)
    }
}

#[test]
fn a_crash_of_the_store_gives_the_leases_that_run_their_whole_length_once_more() {
    let skipped_at = |at: u64| {
        Forger::default()
            .asked(0, "killed")
            .acquired(1, "killed", 1)
            .crash(200, 500)
            .asked(at, "b")
            .skipped_for(at + 1, "b", "killed")
    };
    skipped_at(790).must_be_lawful();
    skipped_at(820).must_be_convicted_of("taken for too long: ");
}

#[test]
fn a_lease_that_a_crash_has_prolonged_is_unlocked_and_extended_in_time() {
    let crashed = |killed| {
        let history = Forger::default().asked(0, "a").acquired(1, "a", 1);
        history.crash(killed, 350)
    };
    let extended = |history: Forger| {
        let asked = history.event(400, "a", What::RenewAsked { at_most: AT_MOST });
        asked.event(401, "a", What::Renewed { locked_until: None })
    };
    crashed(50).released(400, "a").must_be_lawful();
    extended(crashed(50)).must_be_lawful();
    // The lease had ended before the crash.
    let late = crashed(340).released(400, "a");
    late.must_be_convicted_of("unlocked too late:");
    extended(crashed(340)).must_be_convicted_of("revived:");
}

#[test]
fn a_crash_of_the_store_excuses_no_other_lease() {
    // One lease that had ended when the store was killed, and one that began when it was back.
    for begun in [0, 3_600] {
        Forger::default()
            .asked(begun, "killed")
            .acquired(begun + 1, "killed", 1)
            .crash(3_000, 3_500)
            .asked(begun + 320, "b")
            .skipped(begun + 321, "b")
            .must_be_convicted_of("taken for too long: ");
    }
}

#[test]
fn a_request_is_held_up_by_a_fault_that_it_meets() {
    let fault = |begins: What, ends: What, owner: &str| {
        Forger::default()
            .asked(0, "killed")
            .done_to(1_900, owner, begins)
            .done_to(3_000, owner, ends)
            .asked(5_200, "b")
            .skipped_for(5_201, "b", "killed")
    };
    let disturbed = || What::WayDisturbed { delay: 0 };
    fault(disturbed(), What::WayRestored, "killed").must_be_lawful_by(&by_version());
    fault(What::StoreTroubled, What::StoreRecovered, "").must_be_lawful_by(&by_version());
    // A disturbed connection of another process does not matter.
    fault(disturbed(), What::WayRestored, "b")
        .must_be_convicted_by(&by_version(), "taken for too long: ");
    // A store that checks its clock refuses the attempt after its timeout.
    fault(disturbed(), What::WayRestored, "killed").must_be_convicted_of("taken for too long: ");
}

#[test]
fn a_fault_that_was_over_holds_up_nothing_but_what_it_delays() {
    let delayed_by = |delay: u64| {
        Forger::default()
            .done_to(0, "killed", What::WayDisturbed { delay: delay * MS })
            .done_to(10, "killed", What::WayRestored)
            .asked(20, "killed")
            .asked(3_000, "b")
            .skipped_for(3_001, "b", "killed")
    };
    delayed_by(1_000).must_be_lawful_by(&by_version());
    delayed_by(5).must_be_convicted_by(&by_version(), "taken for too long: ");
}

/// A task steps at these moments under a lease of 300 ms that begins at 0, and the wall clock jumps at 50 ms.
fn steps_after_a_jump(by: u64, steps: [u64; 2]) -> Forger {
    let shows = |at: u64, ahead: u64| What::WallClock {
        shows: STORE + (at + ahead) * MS,
    };
    let begun = Forger::default()
        .done_to(0, "a", shows(0, 0))
        .asked(0, "a")
        .acquired(1, "a", 1)
        .done_to(49, "a", shows(49, 0))
        .done_to(50, "a", shows(50, by));
    steps
        .into_iter()
        .fold(begun, |history, at| history.event(at, "a", What::Step))
}

#[test]
fn a_jump_of_the_wall_clock_brings_a_deadline_closer_where_that_is_judged() {
    let rules = Rules {
        jumps: Some(Duration::from_millis(100)),
        ..Forger::rules()
    };
    for (by, steps) in [(1_000, [150, 154]), (120, [180, 184]), (90, [298, 299])] {
        steps_after_a_jump(by, steps).must_be_lawful_by(&rules);
    }
    for (by, steps) in [(1_000, [156, 157]), (120, [186, 187]), (140, [166, 167])] {
        let late = || steps_after_a_jump(by, steps);
        late().must_be_convicted_by(&rules, "outlived:");
        late().must_be_lawful();
    }
    // An extension that is sent afterwards counts from then.
    steps_after_a_jump(1_000, [150, 150])
        .event(151, "a", What::RenewAsked { at_most: AT_MOST })
        .event(152, "a", What::Renewed { locked_until: None })
        .event(440, "a", What::Step)
        .event(450, "a", What::Step)
        .must_be_lawful_by(&rules);
}
