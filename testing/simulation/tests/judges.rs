//! The ledger and the judge of histories agree on what they see of the same runs.
#![allow(
    clippy::print_stdout,
    reason = "how many runs were compared is what a reader of the run wants to see"
)]

use shedlock_proof::Mistake;
use shedlock_simulation::{Law, verdicts};

/// The violations of the judge for a law of the ledger.
fn violations(law: Law) -> &'static [&'static str] {
    match law {
        Law::Exclusion => &["overlap in the store", "overlap"],
        Law::Ownership => &["not the owner", "revived", "unlocked too late"],
        Law::AtLeast => &["at-least"],
        Law::AtMost => &["taken for too long"],
        Law::CutShort => &["shortened"],
        Law::HeldByNoOne => &["owner returns"],
        Law::Tokens => &["token goes back"],
        Law::OneRunPerSlot => &[
            "slot twice",
            "slot goes back",
            "slot run too often",
            "slot given back",
            "ran twice",
        ],
        Law::UnusedSlot => &["slot used up"],
        Law::SlotsInOrder => &["slot passed over"],
        Law::Deadline => &["outlived"],
        Law::Release => &["not given back"],
        // About the run, not about its history.
        Law::Liveness | Law::Pauses | Law::Shutdown => &[],
    }
}

fn compare(seed: u64, wrong: Option<Mistake>) -> Option<Law> {
    let (law, found) = verdicts(seed, wrong);
    let Some(law) = law else {
        assert_eq!(found, Vec::<String>::new(), "{wrong:?}, seed {seed}");
        return None;
    };
    let expected = violations(law);
    let is_found = |found: &String| {
        let law = found.split(':').next().unwrap_or_default();
        expected.contains(&law)
    };
    assert!(
        found.iter().any(is_found),
        "{wrong:?}, seed {seed}: {law:?} is broken, but the judge finds {found:?}"
    );
    Some(law)
}

#[test]
fn they_agree_on_correct_runs() {
    for seed in 0..150 {
        assert_eq!(compare(seed, None), None, "seed {seed}");
    }
}

#[test]
fn they_agree_on_runs_with_mistakes() {
    let mut convicted = 0;
    for wrong in Mistake::ALL.iter().filter(|it| it.is_simulated()) {
        let mut laws = Vec::new();
        for seed in 0..12 {
            laws.extend(compare(seed, Some(*wrong)).map(|law| format!("{law:?}")));
        }
        convicted += laws.len();
        laws.sort();
        println!("{wrong:?}: 12 runs, broken {laws:?}");
    }
    println!("{convicted} runs with violations");
    assert!(convicted >= 50);
}
