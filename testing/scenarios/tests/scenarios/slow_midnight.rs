//! Scenario 2: a replica whose timers all fire at midnight, and which starts the job 2.55 s late.
//!
//! The seconds are real; the midnight is one that the replicas' calendars reach.

use std::time::Duration;

use crate::common::{Line, Midnight, Scene, Shown, Store, until_shown};

const BEGINS: &str = "the report begins";
const SKIPPED: &str = "INFO skipped: ";

/// Two replicas with their own timers. The run of the first one lasts from 00:00:00.129 to
/// 00:00:01.673; the other one attempts the lock at 00:00:02.679.
fn midnight(scene: &Scene, midnight: Midnight, timer: &str) -> Option<Vec<Line>> {
    let job = [
        "report",
        "--cron=0 */10 * * * *",
        "--takes=1544ms",
        "--lock-at-most-for=3s",
        "--lock-at-least-for=1500ms",
        &format!("--own-timer={timer}"),
    ];
    let start = |name, late| {
        let mut args = midnight.args_of_busy(Duration::from_millis(late));
        args.extend(job.map(str::to_owned));
        scene.replica(name, &args)
    };
    let (first, late) = (start("first", 129), start("late", 2_679));
    if !midnight.is_awaited_by(scene, &[&first, &late]) {
        return None;
    }
    scene
        .history
        .wait_for("both have made an attempt", |lines| {
            let asked = |line: &&Line| line.says(BEGINS) || line.says(SKIPPED);
            let asked: Vec<Line> = lines.iter().filter(asked).cloned().collect();
            (asked.len() == 2).then_some(asked)
        })
        .into()
}

pub(crate) fn without_slot_two_runs(store: Store) {
    until_shown("slow midnight without slot", store, |scene, at| {
        let Some(asked) = midnight(scene, at, "without-slot") else {
            return Shown::TooSlow("midnight came before the replicas were ready");
        };
        if asked.iter().all(|line| line.says(BEGINS)) {
            Shown::Yes
        } else {
            Shown::TooSlow("the first run was still going on when the second was to start")
        }
    });
}

pub(crate) fn with_slot_one_run(store: Store) {
    until_shown("slow midnight with slot", store, |scene, at| {
        let Some(asked) = midnight(scene, at, "with-slot") else {
            return Shown::TooSlow("midnight came before the replicas were ready");
        };
        let runs = asked.iter().filter(|line| line.says(BEGINS)).count();
        assert_eq!(runs, 1, "{asked:#?}");
        let skip = asked.iter().find(|line| line.says(SKIPPED)).unwrap();
        if skip.says("slot already taken") {
            // The lock was already free: without the slot, the job would have run again.
            Shown::Yes
        } else {
            Shown::TooSlow("the first run was still going on when the second was to start")
        }
    });
}
