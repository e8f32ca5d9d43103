//! Runs many seeds of a simulated world with the real code in it, and checks that each known
//! mistake is detected.
//!
//! A full run (`SHEDLOCK_TEST_FULL`) takes twice as many seeds.
//!
//! `SHEDLOCK_SIMULATION_SEED` repeats one seed, with its trace if it fails.
//! `SHEDLOCK_SIMULATION_RUNS` sets the number of seeds, and `SHEDLOCK_SIMULATION_FROM` sets the
//! first one.
#![allow(
    clippy::print_stdout,
    reason = "how much was tried is what a reader of the run wants to see"
)]

use shedlock_proof::{At, Mistake};
use shedlock_simulation::{Counts, Ending, Event, Transition, simulate};

/// The number of seeds of a full run: more than a hundred thousand hours.
const RUNS: u64 = 130;

/// The number of seeds of a short run, which also produces each transition.
const SHORT_RUNS: u64 = 100;

/// The number of seeds within which each mistake must be detected.
const FOUND_WITHIN: u64 = 60;

fn variable(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name} is a number, and was {value:?}")),
    )
}

#[test]
fn every_law_holds_and_every_transition_is_seen() {
    let one = variable("SHEDLOCK_SIMULATION_SEED");
    let is_full = std::env::var_os("SHEDLOCK_TEST_FULL").is_some_and(|value| !value.is_empty());
    let default = if is_full { RUNS } else { SHORT_RUNS };
    let from = one.or(variable("SHEDLOCK_SIMULATION_FROM")).unwrap_or(0);
    let runs = one.map_or_else(
        || variable("SHEDLOCK_SIMULATION_RUNS").unwrap_or(default),
        |_| 1,
    );
    let mut counts = Counts::default();
    let (mut seconds, mut acquisitions, mut events) = (0, 0, 0);
    for seed in from..from + runs {
        let report = match simulate(seed, None) {
            Ok(report) => report,
            Err(failure) => panic!("{failure}"),
        };
        seconds += report.time.as_secs();
        acquisitions += report.acquisitions;
        events += report.events;
        counts.merge(&report.counts);
    }
    println!(
        "{runs} runs from seed {from} on, {} hours, {acquisitions} acquisitions, {events} events",
        seconds / 3_600
    );
    println!("{counts:#?}");
    if one.is_some() {
        return;
    }
    for event in events_of_the_model() {
        let counted = Transition::of(&event).iter();
        let counted: Vec<String> = counted
            .map(|one| format!("{one:?} {}", counts.of(*one)))
            .collect();
        println!("the model's {event:?}: {}", counted.join(", "));
    }
    let unseen: Vec<&Transition> = Transition::ALL
        .iter()
        .filter(|transition| counts.of(**transition) == 0)
        .collect();
    assert!(unseen.is_empty(), "never seen: {unseen:?}");
}

#[test]
fn a_seed_goes_the_same_way_each_time() {
    for seed in [5, 13] {
        let once = simulate(seed, None).expect("the laws hold");
        let again = simulate(seed, None).expect("the laws hold");
        assert_eq!(once, again, "seed {seed}");
    }
}

/// One event of each kind.
fn events_of_the_model() -> Vec<Event> {
    vec![
        Event::Want(0, None),
        Event::AskAgain(0),
        Event::Arrive(0),
        Event::Lose(0),
        Event::GiveUp(0),
        Event::WithdrawForGood(0),
        Event::AskExtension(0, 1),
        Event::Finish(0, Ending::Done),
        Event::Finish(0, Ending::Failed),
        Event::Finish(0, Ending::Cut),
        Event::Finish(0, Ending::NotStarted),
        Event::End(0),
        Event::Stop(0),
        Event::Wake(0),
        Event::Die(0),
        Event::LoseTail,
    ]
}

/// Checks that the mistake is found out, and by what it is known to violate; reports the seed.
fn is_found_out(mistake: Mistake) {
    for seed in 0..FOUND_WITHIN {
        let Err(failure) = simulate(seed, Some(mistake)) else {
            continue;
        };
        let first = &failure.findings.violations[0];
        let law = first.split(':').next().unwrap_or_default();
        assert!(mistake.violates().contains(&law), "{mistake:?}: {failure}");
        println!("{mistake:?}, seed {seed}: {first}");
        return;
    }
    panic!("{mistake:?} was not detected in {FOUND_WITHIN} seeds");
}

fn each_is_found_out(which: impl Fn(&Mistake) -> bool) {
    let simulated = Mistake::ALL.iter().filter(|it| it.is_simulated());
    for mistake in simulated.filter(|it| which(it)) {
        is_found_out(*mistake);
    }
}

#[test]
fn each_mistake_of_a_store_is_found_out() {
    each_is_found_out(|mistake| mistake.at() == At::Provider);
}

#[test]
fn each_mistake_of_a_clock_or_of_versions_is_found_out() {
    each_is_found_out(|mistake| mistake.at() != At::Provider);
}
