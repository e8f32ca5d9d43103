//! Extensions that arrive late or shorten a lease.

use shedlock_proof::history::What;

use super::{AT_MOST, Forger, MS, STORE};

/// A lease until 300 that is extended to 500.
fn extended() -> Forger {
    Forger::default()
        .asked(0, "a")
        .acquired(1, "a", 1)
        .event(200, "a", What::RenewAsked { at_most: AT_MOST })
        .event(201, "a", renewed(500))
}

fn renewed(until: u64) -> What {
    What::Renewed {
        locked_until: Some(STORE + until * MS),
    }
}

#[test]
fn an_extension_without_an_answer_does_not_shorten_the_lease() {
    // By the local clock, and by the store's clock if the local clock proves nothing.
    let short = What::RenewAsked {
        at_most: AT_MOST / 10,
    };
    let in_doubt = || {
        extended()
            .event(210, "a", short.clone())
            .event(220, "a", What::CallFailed)
    };
    in_doubt()
        .lease(300, 310, "b", 2)
        .must_be_convicted_of("overlap:");
    let granted = What::Acquired {
        token: Some(2),
        acquired_at: Some(STORE + 300 * MS),
        locked_until: None,
    };
    in_doubt()
        .asked(290, "b")
        .event(510, "b", granted)
        .must_be_convicted_of("overlap in the store:");
    in_doubt().lease(502, 510, "b", 2).must_be_lawful();
}

#[test]
fn an_extension_that_moves_the_end_back_is_convicted() {
    let again = |until: u64| {
        extended()
            .event(210, "a", What::RenewAsked { at_most: AT_MOST })
            .event(211, "a", renewed(until))
            .released(220, "a")
    };
    again(510).must_be_lawful();
    again(400).must_be_convicted_of("shortened: an extension");
}

#[test]
fn a_skip_that_reports_an_earlier_end_than_its_holder_has_is_convicted() {
    let skipped = |asked: u64, until: u64| {
        extended()
            .asked(asked, "b")
            .skipped_until(asked + 10, "b", "a", Some(until))
    };
    skipped(210, 500).must_be_lawful();
    skipped(210, 310).must_be_convicted_of("shortened: ");
    // The record may have been read before the extension.
    skipped(199, 300).must_be_lawful();
    // Or while the lock was given back.
    extended()
        .released(215, "a")
        .asked(210, "b")
        .skipped_until(220, "b", "a", Some(310))
        .must_be_lawful();
}

#[test]
fn an_extension_without_an_answer_may_come_while_the_lease_runs_and_not_later() {
    let skipped_at = |at: u64| {
        Forger::default()
            .asked(0, "a")
            .acquired(1, "a", 1)
            .event(100, "a", What::RenewAsked { at_most: AT_MOST })
            .event(110, "a", What::CallFailed)
            .asked(at, "b")
            .skipped_for(at + 1, "b", "a")
    };
    skipped_at(590).must_be_lawful();
    skipped_at(620).must_be_convicted_of("taken for too long: ");
}
