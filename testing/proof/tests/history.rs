//! Tests the judge of histories on forged histories. A judge that cannot convict proves nothing,
//! and one that convicts lawful histories is useless.

#[path = "history/extended.rs"]
mod extended;
#[path = "history/faults.rs"]
mod faults;
#[path = "history/given_back.rs"]
mod given_back;
#[path = "history/late.rs"]
mod late;
#[path = "history/pauses.rs"]
mod pauses;
#[path = "history/shedlock.rs"]
mod shedlock;
#[path = "history/stored.rs"]
mod stored;

use std::time::Duration;

use shedlock_proof::history::{Event, Findings, History, Rules, What};

const MS: u64 = 1_000_000;
const AT_MOST: u64 = 300 * MS;
const TIMEOUT: u64 = 1_000 * MS;
/// The store's clock at moment 0.
const STORE: u64 = 1_900_000_000_000_000_000;

const SLOT_TAKEN: What = What::Skipped {
    locked: false,
    slot_taken: true,
    holder: None,
    until: None,
};

/// Each owner lives in a separate process.
fn process_of(owner: &str) -> u32 {
    owner.bytes().map(u32::from).sum()
}

/// Builds events by hand, in milliseconds.
#[derive(Default)]
struct Forger(Vec<Event>);

impl Forger {
    fn event(mut self, at: u64, owner: &str, what: What) -> Self {
        self.0.push(Event {
            at: at * MS,
            process: process_of(owner),
            name: "job".to_owned(),
            owner: owner.to_owned(),
            what,
        });
        self
    }

    fn asked(self, at: u64, owner: &str) -> Self {
        self.asked_for(at, owner, None)
    }

    fn asked_for(self, at: u64, owner: &str, slot: Option<i64>) -> Self {
        let what = What::Asked {
            at_most: AT_MOST,
            at_least: 0,
            slot,
            slot_attempts: None,
            host: None,
            timeout: TIMEOUT,
        };
        self.event(at, owner, what)
    }

    fn asked_to_keep(self, at: u64, owner: &str, at_least: u64) -> Self {
        let what = What::Asked {
            at_most: AT_MOST,
            at_least: at_least * MS,
            slot: None,
            slot_attempts: None,
            host: None,
            timeout: TIMEOUT,
        };
        self.event(at, owner, what)
    }

    /// A slot that stays open until it is done, and may run twice.
    fn asked_for_open(self, at: u64, owner: &str, slot: i64) -> Self {
        let what = What::Asked {
            at_most: AT_MOST,
            at_least: 0,
            slot: Some(slot),
            slot_attempts: Some(2),
            host: None,
            timeout: TIMEOUT,
        };
        self.event(at, owner, what)
    }

    /// Granted by a store that returns no times.
    fn acquired_untold(self, at: u64, owner: &str, token: u64) -> Self {
        let what = What::Acquired {
            token: Some(token),
            acquired_at: None,
            locked_until: None,
        };
        self.event(at, owner, what)
    }

    /// Granted by the store half a millisecond before the reply.
    fn acquired(self, at: u64, owner: &str, token: u64) -> Self {
        let from = STORE + at * MS - MS / 2;
        let what = What::Acquired {
            token: Some(token),
            acquired_at: Some(from),
            locked_until: Some(from + AT_MOST),
        };
        self.event(at, owner, what)
    }

    /// An event that concerns the process in which the owner lives.
    fn done_to(mut self, at: u64, owner: &str, what: What) -> Self {
        self.0.push(Event {
            at: at * MS,
            process: process_of(owner),
            name: String::new(),
            owner: String::new(),
            what,
        });
        self
    }

    fn skipped(self, at: u64, owner: &str) -> Self {
        self.event(
            at,
            owner,
            What::Skipped {
                locked: true,
                slot_taken: false,
                holder: None,
                until: None,
            },
        )
    }

    /// Skipped because this owner holds the lock.
    fn skipped_for(self, at: u64, owner: &str, holder: &str) -> Self {
        self.skipped_until(at, owner, holder, None)
    }

    /// Skipped because this owner holds the lock until then, in milliseconds by the store's clock.
    fn skipped_until(self, at: u64, owner: &str, holder: &str, until: Option<u64>) -> Self {
        let what = What::Skipped {
            locked: true,
            slot_taken: false,
            holder: Some(holder.to_owned()),
            until: until.map(|until| STORE + until * MS),
        };
        self.event(at, owner, what)
    }

    fn released(self, at: u64, owner: &str) -> Self {
        self.event(at, owner, What::ReleaseAsked)
            .event(at + 1, owner, What::Released)
    }

    /// A whole lease.
    fn lease(self, from: u64, to: u64, owner: &str, token: u64) -> Self {
        self.asked(from, owner)
            .acquired(from + 1, owner, token)
            .released(to, owner)
    }

    fn rules() -> Rules {
        Rules::new(Duration::from_millis(1), true)
    }

    fn must_be_lawful(self) -> Findings {
        self.must_be_lawful_by(&Self::rules())
    }

    fn must_be_lawful_by(self, rules: &Rules) -> Findings {
        let findings = History::new(self.0).judge(rules);
        assert_eq!(findings.violations, Vec::<String>::new());
        findings
    }

    fn must_be_convicted_of(self, what: &str) {
        self.must_be_convicted_by(&Self::rules(), what);
    }

    fn must_be_convicted_by(self, rules: &Rules, what: &str) {
        let findings = History::new(self.0).judge(rules);
        assert!(
            findings
                .violations
                .iter()
                .any(|found| found.starts_with(what)),
            "expected a conviction of {what:?}, found {:?}",
            findings.violations
        );
    }
}

#[test]
fn leases_one_after_the_other_are_lawful() {
    let findings = Forger::default()
        .lease(0, 10, "a", 1)
        .asked(5, "b")
        .skipped(6, "b")
        .lease(12, 20, "c", 2)
        .must_be_lawful();
    assert_eq!(findings.acquisitions, 2);
    assert_eq!(findings.skips, 1);
    assert_eq!(findings.abandoned, 0);
}

#[test]
fn a_killed_holder_that_is_succeeded_at_its_end_is_lawful() {
    let findings = Forger::default()
        .asked(0, "killed")
        .acquired(1, "killed", 1)
        .asked(200, "b")
        .skipped(201, "b")
        .lease(302, 310, "c", 2)
        .must_be_lawful();
    assert_eq!(findings.abandoned, 1);
}

#[test]
fn an_attempt_killed_on_its_way_may_have_held_the_lock() {
    Forger::default()
        .asked(0, "killed")
        .asked(200, "b")
        .skipped(201, "b")
        .lease(302, 310, "c", 2)
        .must_be_lawful();
}

#[test]
fn an_attempt_without_an_answer_may_come_late_whatever_its_repetition_returns() {
    let asked_again = |answer: What| {
        Forger::default()
            .lease(0, 25, "a", 1)
            .asked(1, "b")
            .event(10, "b", answer)
            .asked(20, "b")
            .skipped(21, "b")
            .asked(200, "c")
            .skipped(201, "c")
    };
    asked_again(What::Unknown).must_be_lawful();
    asked_again(What::Failed).must_be_convicted_of("taken for too long:");
}

#[test]
fn a_holder_that_oversleeps_and_loses_its_lease_is_lawful() {
    Forger::default()
        .asked(0, "sleeper")
        .acquired(1, "sleeper", 1)
        .asked(305, "b")
        .acquired(306, "b", 2)
        .event(310, "sleeper", What::ReleaseAsked)
        .event(311, "sleeper", What::ReleaseLost)
        .released(320, "b")
        .must_be_lawful();
}

#[test]
fn an_extended_lease_is_lawful() {
    Forger::default()
        .asked(0, "a")
        .acquired(1, "a", 1)
        .event(200, "a", What::RenewAsked { at_most: AT_MOST })
        .event(
            201,
            "a",
            What::Renewed {
                locked_until: Some(STORE + 500 * MS),
            },
        )
        .asked(450, "b")
        .skipped(451, "b")
        .released(480, "a")
        .lease(490, 495, "c", 2)
        .must_be_lawful();
}

#[test]
fn two_holders_at_once_are_convicted() {
    Forger::default()
        .lease(0, 100, "a", 1)
        .lease(50, 60, "b", 2)
        .must_be_convicted_of("overlap:");
}

#[test]
fn a_lease_inside_a_long_one_is_convicted_though_another_lies_between() {
    Forger::default()
        .lease(0, 290, "a", 1)
        .lease(20, 25, "b", 2)
        .lease(30, 35, "c", 3)
        .must_be_convicted_of("overlap:");
}

#[test]
fn a_killed_holder_that_is_succeeded_too_early_is_convicted() {
    Forger::default()
        .asked(0, "killed")
        .acquired(1, "killed", 1)
        .lease(200, 210, "b", 2)
        .must_be_convicted_of("overlap:");
}

#[test]
fn an_extended_lease_that_is_taken_over_is_convicted() {
    Forger::default()
        .asked(0, "a")
        .acquired(1, "a", 1)
        .event(200, "a", What::RenewAsked { at_most: AT_MOST })
        .event(201, "a", What::Renewed { locked_until: None })
        .lease(400, 410, "b", 2)
        .released(450, "a")
        .must_be_convicted_of("overlap:");
}

#[test]
fn grants_within_the_skew_of_clients_may_be_in_another_order_by_their_clocks() {
    let granted = |at: u64, token| What::Acquired {
        token: Some(token),
        acquired_at: Some(STORE + at * MS),
        locked_until: Some(STORE + at * MS + AT_MOST),
    };
    // The clock of the second holder, which is killed, is slow.
    let forger = || {
        Forger::default()
            .asked(99, "a")
            .event(100, "a", granted(100, 1))
            .released(101, "a")
            .asked(103, "killed")
            .event(104, "killed", granted(95, 2))
    };
    let skew = Duration::from_millis(20);
    let rules = Rules {
        skew,
        ..Forger::rules()
    };
    forger().must_be_lawful_by(&rules);
    forger().must_be_convicted_of("overlap in the store:");
}

#[test]
fn a_grant_within_a_long_lease_is_convicted_by_the_stores_clock_though_another_lies_between() {
    // The replies arrive so late that the local clock proves nothing.
    let granted = |at: u64, token| What::Acquired {
        token: Some(token),
        acquired_at: Some(STORE + at * MS),
        locked_until: Some(STORE + (at + 1) * MS),
    };
    Forger::default()
        .asked(0, "killed")
        .acquired(1, "killed", 1)
        .asked(280, "b")
        .asked(281, "c")
        .event(310, "b", granted(285, 2))
        .event(320, "c", granted(290, 3))
        .must_be_convicted_of(
            "overlap in the store: killed held job until 1900000000300500000, but c ",
        );
}

#[test]
fn a_grant_before_the_end_by_the_stores_clock_is_convicted() {
    // The local clock proves nothing; the store's clock does.
    let early = What::Acquired {
        token: Some(2),
        acquired_at: Some(STORE + 299 * MS),
        locked_until: None,
    };
    Forger::default()
        .asked(0, "killed")
        .acquired(1, "killed", 1)
        .asked(298, "b")
        .event(310, "b", early)
        .released(320, "b")
        .must_be_convicted_of("overlap in the store:");
}

#[test]
fn a_lock_that_stays_taken_is_convicted() {
    Forger::default()
        .asked(0, "killed")
        .acquired(1, "killed", 1)
        .asked(400, "b")
        .skipped(401, "b")
        .must_be_convicted_of("taken for too long:");
}

#[test]
fn a_lock_that_stays_taken_after_unlock_is_convicted() {
    Forger::default()
        .lease(0, 10, "a", 1)
        .asked(50, "b")
        .skipped(51, "b")
        .must_be_convicted_of("taken for too long:");
}

#[test]
fn a_client_whose_clock_is_late_may_find_an_unlocked_lock_taken_for_that_long() {
    let mut rules = Forger::rules();
    rules.skew = Duration::from_millis(60);
    let asked_at = |at| {
        Forger::default()
            .lease(0, 10, "a", 1)
            .asked(at, "b")
            .skipped(at + 1, "b")
    };
    asked_at(50).must_be_lawful_by(&rules);
    asked_at(90).must_be_convicted_by(&rules, "taken for too long:");
}

#[test]
fn a_lease_that_was_lost_while_it_ran_is_convicted() {
    for (asked, lost) in [
        (What::ReleaseAsked, What::ReleaseLost),
        (What::RenewAsked { at_most: AT_MOST }, What::RenewLost),
    ] {
        Forger::default()
            .asked(0, "a")
            .acquired(1, "a", 1)
            .event(100, "a", asked)
            .event(101, "a", lost)
            .must_be_convicted_of("lost ownership:");
    }
}

#[test]
fn tokens_that_repeat_go_back_or_lack_are_convicted() {
    Forger::default()
        .lease(0, 10, "a", 5)
        .lease(20, 30, "b", 5)
        .must_be_convicted_of("token twice:");
    Forger::default()
        .lease(0, 10, "a", 5)
        .lease(20, 30, "b", 4)
        .must_be_convicted_of("token goes back:");
    let without = What::Acquired {
        token: None,
        acquired_at: None,
        locked_until: None,
    };
    Forger::default()
        .asked(0, "a")
        .event(1, "a", without)
        .must_be_convicted_of("no token:");
}

#[test]
fn tokens_of_attempts_at_the_same_time_may_come_in_any_order() {
    // "b" sent its request before "a" had its reply, and was granted the lock first.
    Forger::default()
        .asked(0, "a")
        .asked(1, "b")
        .acquired(2, "b", 1)
        .released(3, "b")
        .acquired(5, "a", 2)
        .released(6, "a")
        .must_be_lawful();
}

#[test]
fn slots_that_repeat_or_go_back_are_convicted() {
    let slots = |first, second| {
        Forger::default()
            .asked_for(0, "a", Some(first))
            .acquired(1, "a", 1)
            .released(2, "a")
            .asked_for(10, "b", Some(second))
            .acquired(11, "b", 2)
            .released(12, "b")
    };
    slots(60, 120).must_be_lawful();
    slots(60, 60).must_be_convicted_of("slot twice:");
    slots(120, 60).must_be_convicted_of("slot goes back:");
}

#[test]
fn an_open_slot_that_failed_is_run_again_before_the_next_one() {
    Forger::default()
        .asked_for_open(0, "a", 60)
        .acquired(1, "a", 1)
        .released(5, "a")
        .asked_for_open(10, "b", 60)
        .acquired(11, "b", 2)
        .event(14, "b", What::SlotDone)
        .released(15, "b")
        .asked_for_open(20, "c", 120)
        .acquired(21, "c", 3)
        .released(25, "c")
        .must_be_lawful();
}

#[test]
fn an_open_slot_that_was_given_up_is_passed() {
    // The second run was killed on its way, and may have been the last one allowed.
    Forger::default()
        .asked_for_open(0, "a", 60)
        .acquired(1, "a", 1)
        .released(5, "a")
        .asked_for_open(10, "killed", 60)
        .asked_for_open(320, "c", 120)
        .acquired(321, "c", 2)
        .must_be_lawful();
}

#[test]
fn an_open_slot_that_is_run_after_it_was_done_is_convicted() {
    Forger::default()
        .asked_for_open(0, "a", 60)
        .acquired(1, "a", 1)
        .event(4, "a", What::SlotDone)
        .released(5, "a")
        .asked_for_open(10, "b", 60)
        .acquired(11, "b", 2)
        .must_be_convicted_of("slot twice:");
}

#[test]
fn an_open_slot_that_is_left_out_is_convicted() {
    Forger::default()
        .asked_for_open(0, "a", 60)
        .acquired(1, "a", 1)
        .released(5, "a")
        .asked_for_open(10, "b", 120)
        .acquired(11, "b", 2)
        .must_be_convicted_of("slot passed over:");
}

#[test]
fn an_open_slot_that_is_run_too_often_is_convicted() {
    let mut forger = Forger::default();
    for (number, owner) in ["a", "b", "c"].into_iter().enumerate() {
        let at = 10 * number as u64;
        forger = forger
            .asked_for_open(at, owner, 60)
            .acquired(at + 1, owner, at + 1)
            .released(at + 5, owner);
    }
    forger.must_be_convicted_of("slot run too often:");
}

#[test]
fn a_slot_may_be_refused_once_it_may_have_been_taken() {
    let told_taken = |before: Forger, slot| {
        before
            .asked_for(400, "b", Some(slot))
            .event(401, "b", SLOT_TAKEN)
    };
    let killed_on_its_way = || Forger::default().asked_for(0, "killed", Some(60));
    told_taken(killed_on_its_way(), 60).must_be_lawful();
    told_taken(killed_on_its_way(), 120).must_be_convicted_of("slot refused:");
    told_taken(Forger::default(), 60).must_be_convicted_of("slot refused:");
    let skipped = killed_on_its_way().skipped(1, "killed");
    told_taken(skipped, 60).must_be_convicted_of("slot refused:");
}

#[test]
fn a_kept_lock_that_is_granted_at_its_end_is_lawful() {
    Forger::default()
        .asked_to_keep(0, "a", 100)
        .acquired(1, "a", 1)
        .released(5, "a")
        .asked(50, "b")
        .skipped(51, "b")
        .lease(102, 110, "c", 2)
        .must_be_lawful();
}

#[test]
fn a_kept_lock_that_is_granted_too_early_is_convicted() {
    // By the local clock if the store returns no times, and by the store's clock if the local clock
    // proves nothing.
    Forger::default()
        .asked_to_keep(0, "a", 100)
        .acquired_untold(1, "a", 1)
        .released(5, "a")
        .asked(50, "b")
        .acquired_untold(51, "b", 2)
        .must_be_convicted_of("at-least:");
    let early = What::Acquired {
        token: Some(2),
        acquired_at: Some(STORE + 50 * MS),
        locked_until: None,
    };
    Forger::default()
        .asked_to_keep(0, "a", 100)
        .acquired(1, "a", 1)
        .released(5, "a")
        .asked(40, "b")
        .event(200, "b", early)
        .must_be_convicted_of("at-least:");
}

#[test]
fn a_kept_lock_that_was_withdrawn_is_free() {
    Forger::default()
        .asked_to_keep(0, "a", 100)
        .acquired(1, "a", 1)
        .event(5, "a", What::Withdrawn)
        .lease(10, 20, "b", 2)
        .must_be_lawful();
}

#[test]
fn a_kept_lock_that_stays_taken_for_longer_is_convicted() {
    Forger::default()
        .asked_to_keep(0, "a", 100)
        .acquired(1, "a", 1)
        .released(5, "a")
        .asked(150, "b")
        .skipped(151, "b")
        .must_be_convicted_of("taken for too long:");
}

#[test]
fn an_extension_that_works_after_the_end_is_convicted() {
    Forger::default()
        .asked(0, "a")
        .acquired(1, "a", 1)
        .event(400, "a", What::RenewAsked { at_most: AT_MOST })
        .event(401, "a", What::Renewed { locked_until: None })
        .must_be_convicted_of("revived:");
}

#[test]
fn an_unlock_that_works_after_the_end_is_convicted() {
    let over = || Forger::default().asked(0, "a").acquired(1, "a", 1);
    over()
        .released(400, "a")
        .must_be_convicted_of("unlocked too late:");
    // Nothing ran under the lease, so its slot is given back.
    over()
        .event(399, "a", What::SlotGivenBack { unused: true })
        .released(400, "a")
        .must_be_lawful();
    // Repeated because its first reply was lost, it returns the result of the first one.
    over()
        .event(200, "a", What::ReleaseAsked)
        .event(390, "a", What::CallFailed)
        .released(400, "a")
        .must_be_lawful();
}

#[test]
fn an_unlock_that_was_repeated_may_find_the_lock_taken() {
    Forger::default()
        .asked(0, "a")
        .acquired(1, "a", 1)
        .event(10, "a", What::ReleaseAsked)
        .event(20, "a", What::CallFailed)
        .asked(30, "b")
        .acquired(31, "b", 2)
        .event(40, "a", What::ReleaseAsked)
        .event(41, "a", What::ReleaseLost)
        .released(50, "b")
        .must_be_lawful();
}

/// A task whose lease ends at 300 does a step at each of these moments.
fn steps(at: &[u64]) -> Forger {
    let task = Forger::default().asked(0, "a").acquired(1, "a", 1);
    at.iter()
        .fold(task, |task, at| task.event(*at, "a", What::Step))
}

#[test]
fn a_task_that_stops_in_time_is_lawful() {
    steps(&[2, 100, 299]).must_be_lawful();
    steps(&[2, 100]).released(101, "a").must_be_lawful();
    steps(&[2, 290])
        .event(200, "a", What::RenewAsked { at_most: AT_MOST })
        .event(201, "a", What::Renewed { locked_until: None })
        .event(490, "a", What::Step)
        .must_be_lawful();
}

#[test]
fn an_attempt_that_is_skipped_after_its_lease_would_have_ended_may_have_had_it() {
    let told = |after: u64| {
        Forger::default()
            .asked_for(0, "slow", Some(7))
            .asked_for(100, "b", Some(7))
            .event(101, "b", SLOT_TAKEN)
            .event(after, "slow", SLOT_TAKEN)
    };
    told(300).must_be_lawful();
    told(200).must_be_convicted_of("slot refused:");
}

#[test]
fn a_store_that_is_killed_may_lose_the_unlock_of_a_moment_ago_and_no_more() {
    let skipped = |killed: Option<u64>, at: u64| {
        let history = Forger::default().lease(0, 10, "a", 1);
        let history = match killed {
            Some(killed) => history.done_to(killed, "", What::StoreKilled),
            None => history,
        };
        history.asked(at, "b").skipped(at + 1, "b")
    };
    skipped(Some(12), 50).must_be_lawful();
    skipped(None, 50).must_be_convicted_of("taken for too long:");
    skipped(Some(12), 400).must_be_convicted_of("taken for too long:");
    skipped(Some(2_500), 50).must_be_convicted_of("taken for too long:");
}

#[test]
fn a_task_that_outlives_its_lease_is_convicted() {
    steps(&[2, 310, 316]).must_be_convicted_of("outlived:");
    // An extension that failed changes nothing.
    steps(&[310, 316])
        .event(100, "a", What::RenewAsked { at_most: AT_MOST })
        .event(101, "a", What::CallFailed)
        .must_be_convicted_of("outlived:");
}

#[test]
fn a_task_that_outlives_its_unlock_is_convicted() {
    steps(&[2, 50, 56])
        .released(10, "a")
        .must_be_convicted_of("outlived:");
}

#[test]
fn only_the_time_in_which_its_own_process_is_stopped_excuses_a_task() {
    let around = |owner: &str, to: u64| {
        steps(&[2, 310, 316])
            .done_to(250, owner, What::Stopped)
            .done_to(to, owner, What::GoesOn)
    };
    around("a", 320).must_be_lawful();
    around("a", 305).must_be_convicted_of("outlived:");
    around("b", 320).must_be_convicted_of("outlived:");
}

#[test]
fn one_step_that_a_task_checked_in_time_may_come_late() {
    steps(&[2, 310]).must_be_lawful();
    steps(&[2, 290, 310]).must_be_lawful();
}

#[test]
fn tasks_that_do_one_step_each_time_their_process_resumes_are_convicted() {
    let stopped = |tasks: u64| {
        (0..tasks).fold(Forger::default(), |history, task| {
            let (owner, from) = (&*format!("task{task}"), task * 1_000);
            history
                .asked(from, owner)
                .acquired(from + 1, owner, task + 1)
                .done_to(from + 250, owner, What::Stopped)
                .done_to(from + 700, owner, What::GoesOn)
                .event(from + 701, owner, What::Step)
        })
    };
    stopped(2).must_be_lawful();
    stopped(3).must_be_convicted_of("outlived:");
}

#[test]
fn a_log_that_a_kill_cut_short_is_read() -> std::io::Result<()> {
    let folder = std::env::temp_dir().join(format!("shedlock-torn-log-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let event = &Forger::default().asked(7, "a").0[0];
    let line = serde_json::to_string(event)?;
    std::fs::write(folder.join("0.jsonl"), format!("{line}\n{}", &line[..20]))?;
    let history = History::load(&folder);
    std::fs::remove_dir_all(&folder)?;
    assert_eq!(history?.events(), std::slice::from_ref(event));
    Ok(())
}
