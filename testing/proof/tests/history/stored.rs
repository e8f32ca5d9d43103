//! Histories that contain the store's own steps. The simulation makes most mistakes for real; here is
//! what it cannot make, and what must not be convicted.

use shedlock_proof::history::{Earlier, Rules, Stored, What};

use super::{AT_MOST, Forger, MS};

/// How long after its timeout an attempt is withdrawn at the latest, in milliseconds.
const WITHDRAWAL: u64 = 500;

/// The timeout of an attempt, in milliseconds.
const TIMEOUT: u64 = super::TIMEOUT / MS;

impl Forger {
    fn stored(self, at: u64, owner: &str, stored: Stored) -> Self {
        self.event(at, owner, What::Stored(stored))
    }

    fn grants(self, at: u64, owner: &str, token: u64) -> Self {
        self.grants_to(at, owner, token, false)
    }

    fn grants_to(self, at: u64, owner: &str, token: u64, is_copy: bool) -> Self {
        let granted = Stored::Granted {
            token: Some(token),
            slot: None,
            from: at * MS,
            until: at * MS + AT_MOST,
            is_copy,
        };
        self.stored(at, owner, granted)
    }

    fn ends(self, at: u64, owner: &str) -> Self {
        let ended = Stored::Ended {
            is_withdrawn: Some(false),
            is_done: false,
            free: at * MS,
        };
        self.stored(at, owner, ended)
    }

    /// A lease that was granted and is used.
    fn holds(self, at: u64, owner: &str, token: u64) -> Self {
        self.asked(at, owner)
            .grants(at + 1, owner, token)
            .acquired_untold(at + 2, owner, token)
            .event(at + 3, owner, What::Started)
    }

    fn gives_up(self, at: u64, owner: &str) -> Self {
        self.event(at, owner, What::ReleaseAsked)
            .ends(at + 1, owner)
            .event(at + 2, owner, What::Released)
            .event(at + 2, owner, What::ReleaseReported)
    }
}

fn rules() -> Rules {
    Rules {
        drift: std::time::Duration::ZERO,
        withdrawal: Some(std::time::Duration::from_millis(WITHDRAWAL)),
        ..Rules::new(std::time::Duration::ZERO, true)
    }
}

#[test]
fn leases_that_the_store_shows_one_after_the_other_are_lawful() {
    let findings = Forger::default()
        .holds(0, "a", 1)
        .gives_up(10, "a")
        .holds(20, "b", 2)
        .event(25, "b", What::Step)
        .holds(321, "c", 3)
        .must_be_lawful_by(&rules());
    assert_eq!(findings.acquisitions, 3);
}

#[test]
fn there_is_no_tolerance() {
    let next = |at: u64| {
        Forger::default()
            .holds(0, "a", 1)
            .asked(at - 1, "b")
            .grants(at, "b", 2)
    };
    next(301).must_be_lawful_by(&rules());
    next(300).must_be_convicted_by(&rules(), "overlap in the store:");
    let step = |at: u64| {
        Forger::default()
            .holds(0, "a", 1)
            .event(at, "a", What::Step)
    };
    step(300).must_be_lawful_by(&rules());
    step(301).must_be_convicted_by(&rules(), "outlived:");
}

#[test]
fn a_task_that_begins_twice_under_one_lease_is_convicted() {
    Forger::default()
        .holds(0, "a", 1)
        .event(10, "a", What::Started)
        .must_be_convicted_by(&rules(), "ran twice:");
}

#[test]
fn a_record_that_changes_without_a_call_is_convicted() {
    let record = |holder: &str, until: u64| {
        let until = until * MS;
        Forger::default()
            .holds(0, "a", 1)
            .stored(50, holder, Stored::Holds { until })
    };
    record("a", 301).must_be_lawful_by(&rules());
    record("a", 300).must_be_convicted_by(&rules(), "not the owner:");
    record("b", 301).must_be_convicted_by(&rules(), "not the owner:");
}

#[test]
fn what_an_operator_or_a_crash_takes_away_is_excused() {
    let earlier = Earlier {
        token: Some(1),
        from: 0,
        until: 300 * MS,
        is_released: true,
        slot: None,
        is_done: false,
        attempts: 1,
    };
    for taken in [
        Stored::Freed,
        Stored::Reverted(None),
        Stored::Reverted(Some(earlier)),
    ] {
        Forger::default()
            .holds(0, "a", 1)
            .stored(50, "", taken)
            .holds(60, "b", 2)
            .event(70, "a", What::Step)
            .must_be_lawful_by(&rules());
    }
}

#[test]
fn an_attempt_whose_process_runs_is_withdrawn_in_time() {
    let lost = |is_copy: bool| {
        Forger::default()
            .asked(0, "a")
            .grants_to(TIMEOUT, "a", 1, is_copy)
            .event(
                TIMEOUT + 3_000,
                "",
                What::StoreClock {
                    shows: (TIMEOUT + 3_000) * MS,
                },
            )
    };
    // The lease is over by then.
    lost(false).must_be_lawful_by(&rules());
    let longer = |history: Forger| {
        let until = (TIMEOUT + 3_000) * MS;
        history.stored(TIMEOUT + 1, "a", Stored::Extended { until })
    };
    longer(lost(false)).must_be_convicted_by(&rules(), "owner returns:");
    // No client has the lease that a copy has won.
    longer(lost(true)).must_be_lawful_by(&rules());
    // A process that was stopped may be late.
    longer(lost(false))
        .done_to(TIMEOUT, "a", What::Stopped)
        .must_be_lawful_by(&rules());
    // A client that may withdraw whenever it likes is not judged.
    longer(lost(false)).must_be_lawful_by(&Rules {
        withdrawal: None,
        ..rules()
    });
}
