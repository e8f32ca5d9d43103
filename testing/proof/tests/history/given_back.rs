//! Histories with slots that are given back.

use shedlock_proof::history::What;

use super::Forger;

impl Forger {
    /// The lease of a slot from its attempt to its unlock, which gives the slot back.
    fn gives_back(self, at: u64, owner: &str, slot: i64, unused: bool) -> Self {
        self.asked_for(at, owner, Some(slot))
            .acquired(at + 1, owner, at + 1)
            .event(at + 4, owner, What::SlotGivenBack { unused })
            .released(at + 5, owner)
    }

    fn uses(self, at: u64, owner: &str, slot: i64) -> Self {
        self.asked_for(at, owner, Some(slot))
            .acquired(at + 1, owner, at + 1)
            .released(at + 5, owner)
    }
}

#[test]
fn a_slot_that_was_given_back_unused_is_taken_again() {
    Forger::default()
        .gives_back(0, "a", 60, true)
        .gives_back(10, "b", 60, true)
        .uses(20, "c", 60)
        .uses(30, "d", 120)
        .must_be_lawful();
}

#[test]
fn a_slot_that_another_gave_back_is_convicted() {
    // The store executed the unlock of `a` a second time after `b` had used the slot.
    Forger::default()
        .gives_back(0, "a", 60, true)
        .uses(10, "b", 60)
        .event(18, "a", What::SlotGivenBack { unused: true })
        .released(19, "a")
        .uses(20, "c", 60)
        .must_be_convicted_of("slot twice:");
    // A run that was cut uses the slot up.
    Forger::default()
        .gives_back(0, "a", 60, false)
        .uses(10, "b", 60)
        .must_be_convicted_of("slot twice:");
}

#[test]
fn attempts_that_were_given_back_twice_are_convicted() {
    let attempts = |given_back: &[&str]| {
        let mut forger = Forger::default();
        for (number, owner) in ["a", "b", "c", "d"].into_iter().enumerate() {
            let at = 10 * number as u64;
            forger = forger
                .asked_for_open(at, owner, 60)
                .acquired(at + 1, owner, at + 1);
            if given_back.contains(&owner) {
                forger = forger.event(at + 4, owner, What::SlotGivenBack { unused: false });
            }
            forger = forger.released(at + 5, owner);
        }
        forger
    };
    attempts(&["a", "c"]).must_be_lawful();
    attempts(&["b"]).must_be_convicted_of("slot run too often:");
}
