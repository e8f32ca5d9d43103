//! Scenario 6: two nodes with a clock skew of one second, and a job of 100 ms at midnight.

use std::time::Duration;

use crate::common::{Line, Midnight, Scene, Shown, Store, until_shown};

const BEGINS: &str = "the report begins";
const SECOND: Duration = Duration::from_secs(1);

/// One replica reaches midnight a second after the other.
fn midnight(scene: &Scene, midnight: Midnight, behind: &str, more: &[&str]) -> Option<Vec<Line>> {
    let start = |name: &str| {
        let further = if name == behind {
            SECOND
        } else {
            Duration::ZERO
        };
        let mut args = midnight.args(further);
        args.extend(["report", "--cron=0 0 * * *", "--takes=100ms"].map(str::to_owned));
        args.extend(more.iter().map(|&arg| arg.to_owned()));
        scene.replica(name, &args)
    };
    let (a, b) = (start("a"), start("b"));
    if !midnight.is_awaited_by(scene, &[&a, &b]) {
        return None;
    }
    scene
        .history
        .wait_for("both nodes have had their midnight", |lines| {
            let had = |line: &&Line| {
                line.says(BEGINS) || line.says("taken by another") || line.says("INFO skipped: ")
            };
            let had: Vec<Line> = lines.iter().filter(had).cloned().collect();
            let by = |who| had.iter().any(|line| line.who == who);
            (by("a") && by("b")).then_some(had)
        })
        .into()
}

pub(crate) fn without_slot_two_runs(store: Store) {
    until_shown("clocks without slot", store, |scene, at| {
        let Some(had) = midnight(scene, at, "b", &["--own-timer=without-slot"]) else {
            return Shown::TooSlow("midnight came before the replicas were ready");
        };
        if had.iter().all(|line| line.says(BEGINS)) {
            Shown::Yes
        } else {
            Shown::TooSlow("the first run was still going on when the second was to start")
        }
    });
}

pub(crate) fn a_clock_behind_is_one_run(store: Store) {
    one_run(store, "b");
}

pub(crate) fn a_clock_ahead_is_one_run(store: Store) {
    one_run(store, "a");
}

fn one_run(store: Store, behind: &str) {
    until_shown("clocks with slot", store, |scene, at| {
        let Some(had) = midnight(scene, at, behind, &[]) else {
            return Shown::TooSlow("midnight came before the replicas were ready");
        };
        let runs: Vec<_> = had.iter().filter(|line| line.says(BEGINS)).collect();
        assert_eq!(runs.len(), 1, "{had:#?}");
        assert_eq!(runs[0].field("slot"), Some(&*at.slot(0)));
        Shown::Yes
    });
}
