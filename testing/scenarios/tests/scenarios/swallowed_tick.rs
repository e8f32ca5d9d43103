//! Scenario 3: the job that starts late, and whose next tick is swallowed. A minute takes a second
//! here.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::common::{Line, Midnight, Replica, Scene, Shown, Store, until_shown};

const BEGINS: &str = "the report begins";

/// Two replicas with a job every ten seconds. Nine earlier jobs delay it until 3 s after midnight,
/// and at-least keeps its lock until 12 s after midnight.
fn start(scene: &Scene, midnight: Midnight, more: &[&str]) -> Option<[Replica; 2]> {
    let job = [
        "report",
        "--cron=*/10 * * * * *",
        "--takes=500ms",
        "--lock-at-most-for=10s",
        "--lock-at-least-for=9s",
    ];
    let replicas = ["a", "b"].map(|name| {
        let mut args = midnight.args_of_busy(Duration::from_secs(3));
        args.extend(job.iter().chain(more).map(|&arg| arg.to_owned()));
        scene.replica(name, &args)
    });
    let [a, b] = &replicas;
    midnight.is_awaited_by(scene, &[a, b]).then_some(replicas)
}

pub(crate) fn without_slot_it_is_lost(store: Store) {
    until_shown("swallowed tick without slot", store, |scene, midnight| {
        let Some(_replicas) = start(scene, midnight, &["--own-timer=without-slot"]) else {
            return Shown::TooSlow("midnight came before the replicas were ready");
        };
        // Both replicas have attempted the lock at 00:00:00 and at 00:00:10.
        let runs = scene
            .history
            .wait_for("both have made two attempts", |lines| {
                let runs = lines.iter().filter(|line| line.says(BEGINS)).count();
                let skips = lines.iter().filter(|line| line.says("INFO skipped: "));
                (runs + skips.count() == 4).then_some(runs)
            });
        if runs == 1 {
            Shown::Yes
        } else {
            Shown::TooSlow("at-least was over when the next tick came")
        }
    });
}

pub(crate) fn with_slot_it_runs(store: Store) {
    until_shown("swallowed tick with slot", store, |scene, midnight| {
        let Some(_replicas) = start(scene, midnight, &[]) else {
            return Shown::TooSlow("midnight came before the replicas were ready");
        };
        let slots = |lines: &[Line]| -> Vec<String> {
            let runs = lines.iter().filter(|line| line.says(BEGINS));
            runs.filter_map(|run| run.field("slot").map(str::to_owned))
                .collect()
        };
        let (first, next) = (midnight.slot(0), midnight.slot(10));
        scene.history.wait_for("the run of 00:00:10", |lines| {
            let slots = slots(lines);
            (slots.contains(&first) && slots.contains(&next)).then_some(())
        });
        let slots = scene.history.look(slots);
        let different: BTreeSet<_> = slots.iter().collect();
        assert_eq!(
            different.len(),
            slots.len(),
            "a slot has run twice: {slots:?}"
        );
        Shown::Yes
    });
}
