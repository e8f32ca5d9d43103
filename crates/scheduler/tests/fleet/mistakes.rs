//! The verdict detects each kind of mistake that it exists for.

use crate::drill::verdict::{CUT_AND_UNLOCKED, FAILED, RAN, TAKEN};
use crate::drill::{Drill, KINDS, Ledger, MOST_ATTEMPTS, What};
use shedlock_core::Slot;
use std::time::{Duration, UNIX_EPOCH};

#[test]
fn a_verdict_finds_what_is_lost_doubled_or_unexplained() {
    let from = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let judged = |job: &'static str, change: &dyn Fn(&Ledger, Slot)| {
        let (ledger, unit) = (Ledger::default(), Duration::from_secs(1));
        let until = from + unit * 600;
        let mut changed = None;
        for kind in &KINDS {
            for slot in kind.slots(unit, from, until) {
                let attempt = kind.must_not_be_lost.then_some(1);
                if kind.name == job && changed.is_none() {
                    changed = Some(slot);
                    change(&ledger, slot);
                    continue;
                }
                ledger.note(kind.name, slot, 1, What::Began { attempt });
                ledger.note(kind.name, slot, 1, What::Succeeded);
            }
        }
        let rests = Vec::new();
        let slack = unit;
        let drill = Drill {
            unit,
            from,
            until,
            rests,
            slack,
            most_left_out: 50,
        };
        drill.judge(&ledger).err()
    };
    let told = |end: &str| What::Told(end.to_owned());
    let began = |attempt| What::Began { attempt };
    let asked = |after_its_shutdown| What::Asked { after_its_shutdown };
    let cut = || told(CUT_AND_UNLOCKED);
    let finds = |job, facts: &[(u64, What)], wrong: &str| {
        let found = judged(job, &|ledger, slot| {
            for (node, what) in facts {
                ledger.note(job, slot, *node, what.clone());
            }
        });
        match found {
            Some(found) => assert!(!wrong.is_empty() && found.contains(wrong), "{found}"),
            None => assert_eq!(wrong, "", "{facts:?}"),
        }
    };
    finds(
        "mails",
        &[(1, began(None)), (2, began(None))],
        "more than once",
    );
    finds(
        "mails",
        &[(1, told("taken by another replica"))],
        "no reason",
    );
    finds("mails", &[(1, told("missed: too late"))], "");
    finds("ledger", &[], "neither");
    finds("ledger", &[(1, began(Some(1)))], "neither");
    finds("ledger", &[(1, began(Some(2)))], "no attempt");
    let given_up = |node| {
        let failed = |i| [(node, began(Some(i))), (node, told(FAILED))];
        (1..=MOST_ATTEMPTS).flat_map(failed).collect::<Vec<_>>()
    };
    finds("ledger", &given_up(1), "without an event");
    let said = [(1, What::GivenUp)];
    finds("ledger", &[&given_up(1)[..], &said].concat(), "");
    let heard = [(2, told("skipped: the slot was given up"))];
    finds(
        "ledger",
        &[&given_up(1)[..], &said, &heard].concat(),
        "without an event",
    );
    finds(
        "ledger",
        &[(1, began(Some(1))), said[0].clone()],
        "before its attempts",
    );
    let done = |node| [(node, What::Succeeded), (node, told(RAN))];
    finds("ledger", &[done(1), done(2)].concat(), "more than once");
    finds("ledger", &done(1), "");
    let cut_once = |then| {
        [
            (1, began(Some(1))),
            (1, cut()),
            (2, began(Some(then))),
            done(2)[0].clone(),
        ]
    };
    finds("ledger", &cut_once(1), "");
    finds("ledger", &cut_once(2), "no attempt");
    finds(
        "mails",
        &[(1, cut()), (2, asked(false)), (2, told(TAKEN))],
        "never began",
    );
    let before = [(2, asked(false)), (2, told(TAKEN)), (1, cut())];
    finds("mails", &before, "");
    finds(
        "mails",
        &[(1, asked(true)), (1, began(None))],
        "after the shutdown",
    );
}
