//! Checks the laws in every order of events within small bounds, and that each known mistake breaks
//! one.
//!
//! The largest bounds have one instant less than in a full run (`SHEDLOCK_TEST_FULL`). All mistakes
//! but one are detected within these smaller bounds too. `SHEDLOCK_MODEL_TIME` adds instants to the
//! bounds; each one multiplies the number of states several times.
#![allow(
    clippy::print_stdout,
    reason = "how much was tried is what a reader of the run wants to see"
)]

use shedlock_proof::{At, Mistake};
use shedlock_simulation::{Bounds, Event, JudgedBy, Law, Protocol, Protocols, Slots, Wrong};
use stateright::{Checker as _, Model as _, Path};

const STORE: JudgedBy = JudgedBy::Store;

/// Returns the broken law and how it was broken; `None` if all states were tried and all laws hold.
fn check(
    judged_by: JudgedBy,
    wrong: Option<Wrong>,
    bounds: Bounds,
) -> (Option<Law>, usize, Vec<Event>) {
    let is_unused = bounds.unused;
    let protocols = Protocols {
        protocol: Protocol { judged_by, wrong },
        bounds,
    };
    let checker = protocols.checker().threads(1).spawn_bfs().join();
    let states = checker.unique_state_count();
    let path = checker.discovery("no law is broken");
    let events = path.clone().map(Path::into_actions);
    let law = path.and_then(|path| path.into_states().last().and_then(|state| state.broken));
    if law.is_none() {
        assert!(checker.is_done(), "not all states were tried");
        let passes = checker.discovery("a lock passes from one to another");
        assert!(passes.is_some(), "within these bounds nothing happens");
        let again = checker.discovery("a slot that was given back is taken again");
        assert!(again.is_some() || !is_unused, "no slot is taken again");
    }
    (law, states, events.unwrap_or_default())
}

fn holds(judged_by: JudgedBy, bounds: &Bounds) {
    let more = std::env::var("SHEDLOCK_MODEL_TIME").map_or(0, |more| {
        more.parse()
            .expect("SHEDLOCK_MODEL_TIME is a number of instants")
    });
    let bounds = &Bounds {
        time: bounds.time + more,
        ..bounds.clone()
    };
    let (law, states, events) = check(judged_by, None, bounds.clone());
    assert_eq!(law, None, "{events:?}");
    println!("{states} states, every law holds: {judged_by:?}, {bounds:?}");
}

fn breaks(judged_by: JudgedBy, wrong: Wrong, law: Law, bounds: Bounds) {
    let (broken, states, events) = check(judged_by, Some(wrong), bounds);
    assert_eq!(
        broken,
        Some(law),
        "{wrong:?} was not detected in {states} states"
    );
    println!(
        "{wrong:?} breaks {law:?} after {} events: {events:?}",
        events.len()
    );
}

/// This many instants, or one less in a short run.
fn instants(time: i8) -> i8 {
    let is_full = std::env::var_os("SHEDLOCK_TEST_FULL").is_some_and(|value| !value.is_empty());
    time - i8::from(!is_full)
}

fn extending() -> Bounds {
    Bounds {
        extensions: 1,
        pauses: false,
        losses: false,
        time: 5,
        ..Bounds::small()
    }
}

fn slots(slots: Slots) -> Bounds {
    let time = match slots {
        Slots::OnSuccess { .. } => instants(4),
        _ => 4,
    };
    Bounds {
        slots,
        acquisitions: 2,
        pauses: false,
        losses: false,
        deaths: true,
        time,
        ..Bounds::small()
    }
}

/// The model is independent of the code that makes mistakes elsewhere, but means the same ones.
#[test]
fn each_mistake_is_in_the_one_list() {
    let name = |wrong: &Wrong| format!("{wrong:?}");
    let here: Vec<String> = Wrong::ALL.iter().map(name).collect();
    let listed: Vec<String> = Mistake::ALL.iter().map(|it| format!("{it:?}")).collect();
    for name in &here {
        assert!(listed.contains(name), "{name} is not in the one list");
    }
    for mistake in Mistake::ALL.iter().filter(|it| it.at() == At::Model) {
        let name = format!("{mistake:?}");
        assert!(here.contains(&name), "the model does not make {name}");
    }
}

#[test]
fn leases_hold() {
    holds(STORE, &Bounds::small());
    holds(STORE, &extending());
    holds(
        STORE,
        &Bounds {
            at_least: 2,
            at_most: 3,
            pauses: false,
            losses: false,
            acquisitions: 2,
            time: 5,
            ..Bounds::small()
        },
    );
}

#[test]
fn slots_hold() {
    holds(STORE, &slots(Slots::WhenTaken));
    holds(STORE, &slots(Slots::OnSuccess { attempts: 2 }));
}

/// Slots that are given back, and runs that are cut.
fn unused(by: Slots) -> Bounds {
    Bounds {
        unused: true,
        deaths: false,
        ..slots(by)
    }
}

#[test]
fn slots_that_are_given_back_run_again_and_no_others() {
    holds(STORE, &unused(Slots::WhenTaken));
    holds(STORE, &unused(Slots::OnSuccess { attempts: 2 }));
    holds(SWAP, &unused(Slots::WhenTaken));
}

#[test]
fn each_mistake_about_slots_that_are_given_back_is_found_out() {
    let when_taken = || unused(Slots::WhenTaken);
    let on_success = || unused(Slots::OnSuccess { attempts: 2 });
    let twice = Law::OneRunPerSlot;
    breaks(STORE, Wrong::SlotGivenBackLate, twice, when_taken());
    breaks(STORE, Wrong::SlotGivenBackLate, twice, on_success());
    breaks(SWAP, Wrong::SlotGivenBackLate, twice, when_taken());
    let used_up = Law::UnusedSlot;
    breaks(STORE, Wrong::UnusedSlotKept, used_up, when_taken());
    // The attempt counts, so the slot is given up too early.
    let in_order = Law::SlotsInOrder;
    breaks(STORE, Wrong::UnusedSlotKept, in_order, on_success());
}

#[test]
fn compare_and_swap_holds() {
    let clients = JudgedBy::Clients { tolerated_skew: 1 };
    for skews in [[0, 0], [2, 0], [0, 2]] {
        let bounds = Bounds {
            skews: skews.to_vec(),
            at_most: 3,
            losses: false,
            time: 5,
            ..Bounds::small()
        };
        holds(clients, &bounds);
    }
    let bounds = Bounds {
        skews: vec![0, 2],
        at_most: 3,
        pauses: false,
        time: instants(3),
        ..Bounds::small()
    };
    holds(clients, &bounds);
}

#[test]
fn each_known_mistake_is_found_out() {
    let small = Bounds::small;
    breaks(STORE, Wrong::OwnerIsHost, Law::Ownership, small());
    breaks(STORE, Wrong::UnlockWithoutOwner, Law::Ownership, small());
    breaks(
        STORE,
        Wrong::ExtendWithoutOwner,
        Law::Ownership,
        extending(),
    );
    breaks(
        JudgedBy::Clients { tolerated_skew: 0 },
        Wrong::ReadThenWrite,
        Law::CutShort,
        small(),
    );
    let at_least = || Bounds {
        at_least: 2,
        pauses: false,
        losses: false,
        ..small()
    };
    breaks(STORE, Wrong::AtLeastTooEarly, Law::AtLeast, at_least());
    breaks(STORE, Wrong::AtLeastForgotten, Law::AtLeast, at_least());
    breaks(STORE, Wrong::DeadlineFromReply, Law::Exclusion, small());
    breaks(STORE, Wrong::DeadlineFromLastAsk, Law::Exclusion, small());
    breaks(STORE, Wrong::NoLookAfterPause, Law::Exclusion, small());
    breaks(STORE, Wrong::TokenOnExpiryOnly, Law::Tokens, small());
    breaks(
        STORE,
        Wrong::SlotOfLeaseOnly,
        Law::OneRunPerSlot,
        slots(Slots::WhenTaken),
    );
    breaks(
        STORE,
        Wrong::OpenSlotIsPassed,
        Law::SlotsInOrder,
        slots(Slots::OnSuccess { attempts: 2 }),
    );
}

/// Unlocks that get replies and are repeated, and attempts that are withdrawn.
fn answered() -> Bounds {
    Bounds {
        answers: true,
        timeout: 0,
        pauses: false,
        losses: false,
        time: 1,
        ..Bounds::small()
    }
}

/// As above for one client, which may return.
fn answered_alone() -> Bounds {
    Bounds {
        skews: vec![0],
        acquisitions: 2,
        timeout: 1,
        time: instants(3),
        ..answered()
    }
}

/// Records are replaced by version, and the clients' clocks judge, which are correct.
const SWAP: JudgedBy = JudgedBy::Clients { tolerated_skew: 0 };

/// Extensions by one instant and by a whole lease, which may overtake each other.
fn extending_by_less() -> Bounds {
    Bounds {
        extensions: 2,
        time: 3,
        ..extending()
    }
}

/// A store that loses its last write.
fn losing_tail() -> Bounds {
    Bounds {
        tails: true,
        pauses: false,
        losses: false,
        time: 3,
        ..Bounds::small()
    }
}

/// Two clients of ours, one of them behind and so with an earlier slot, and a client of ShedLock.
fn two_keys() -> Bounds {
    Bounds {
        two_keys: true,
        slots: Slots::WhenTaken,
        skews: vec![0, -2, 0],
        shedlocks: vec![2],
        at_most: 3,
        acquisitions: 2,
        pauses: false,
        losses: false,
        time: 1,
        ..Bounds::small()
    }
}

const BESIDE_SHEDLOCK: JudgedBy = JudgedBy::Clients { tolerated_skew: 2 };

#[test]
fn no_lock_is_held_by_an_owner_that_has_ended() {
    let alone = answered_alone();
    holds(STORE, &alone);
    let time = instants(1);
    holds(STORE, &Bounds { time, ..answered() });
    let time = instants(2);
    holds(SWAP, &Bounds { time, ..alone });
}

#[test]
fn extensions_that_pass_each_other_shorten_nothing() {
    holds(STORE, &extending_by_less());
    holds(
        SWAP,
        &Bounds {
            skews: vec![0],
            acquisitions: 2,
            time: instants(2),
            ..extending_by_less()
        },
    );
}

#[test]
fn a_lost_tail_hands_no_lease_to_another_owner() {
    holds(SWAP, &losing_tail());
}

#[test]
fn two_keys_keep_the_slot_alongside_shedlock() {
    holds(BESIDE_SHEDLOCK, &two_keys());
}

#[test]
fn each_mistake_about_what_arrives_late_is_found_out() {
    let no_one = Law::HeldByNoOne;
    breaks(STORE, Wrong::LateAttempt, no_one, answered_alone());
    breaks(STORE, Wrong::OwnerReturns, no_one, answered_alone());
    breaks(STORE, Wrong::WithdrawOnce, no_one, answered_alone());
    // Needs two clients, and the instant that a short run lacks.
    breaks(STORE, Wrong::StraysForgotten, no_one, answered());
    breaks(SWAP, Wrong::WithdrawLeavesVersion, no_one, answered_alone());
    breaks(
        STORE,
        Wrong::ExtensionShortens,
        Law::CutShort,
        extending_by_less(),
    );
    breaks(SWAP, Wrong::VersionsReused, Law::Ownership, losing_tail());
    breaks(
        BESIDE_SHEDLOCK,
        Wrong::KeysApart,
        Law::OneRunPerSlot,
        two_keys(),
    );
}

/// Checks the bound on clock skew for stores that do not return their time.
#[test]
fn tolerated_skew_counts_on_both_sides_between_ours_and_on_one_against_shedlock() {
    for tolerated_skew in 0..=1 {
        for ahead in 0..=3 {
            let bounds = |shedlocks: Vec<usize>| Bounds {
                skews: vec![0, ahead],
                shedlocks,
                at_most: 4,
                time: 7,
                pauses: false,
                losses: false,
                ..Bounds::small()
            };
            let clients = JudgedBy::Clients { tolerated_skew };
            let ours = check(clients, None, bounds(Vec::new())).0;
            assert_eq!(
                ours.is_none(),
                ahead <= 2 * tolerated_skew,
                "our clock {ahead} ahead, {tolerated_skew} tolerated"
            );
            let mixed = check(clients, None, bounds(vec![1])).0;
            assert_eq!(
                mixed.is_none(),
                ahead <= tolerated_skew,
                "ShedLock {ahead} ahead, {tolerated_skew} tolerated"
            );
        }
    }
}
