//! Scenario 5: the old version receives SIGTERM while its task runs, and the new one is up.

use std::time::Duration;

use shedlock::LockState;

use crate::common::{Line, Midnight, Replica, Scene, Shown, Store, until_shown};

const BEGINS: &str = "the report begins";
const DONE: &str = "the report is done";

/// Blue's run has begun at midnight, green has started alongside it, and blue receives SIGTERM.
fn hand_over(
    scene: &Scene,
    midnight: Midnight,
    grace: &str,
    job: &[&str],
) -> Result<[Replica; 2], Shown> {
    let start = |name: &str, more: &[&str]| {
        let mut args = midnight.args(Duration::ZERO);
        args.push(format!("--grace={grace}"));
        args.extend(["report", "--cron=*/10 * * * * *", "--takes=5s"].map(str::to_owned));
        args.extend(job.iter().chain(more).map(|&arg| arg.to_owned()));
        scene.replica(name, &args)
    };
    let mut blue = start("blue", &[]);
    if !midnight.is_awaited_by(scene, &[&blue]) {
        return Err(Shown::TooSlow("midnight came before the replica was ready"));
    }
    scene
        .history
        .wait_for("blue's run begins", |lines| position(lines, "blue", BEGINS));
    let green = start("green", &["--run-at-start"]);
    scene.ready(&green);
    if job.is_empty() {
        let taken = |lines: &[Line]| position(lines, "green", "taken by another");
        scene.history.wait_for("green finds the slot taken", taken);
    }
    blue.terminate();
    scene.history.wait_for("blue receives the signal", |lines| {
        position(lines, "blue", "shutting down")
    });
    if scene.history.look(is_too_late) {
        return Err(Shown::TooSlow(
            "blue's run was over before it received the shutdown signal",
        ));
    }
    let status = blue.ended();
    assert!(status.success(), "blue ended with {status}");
    Ok([blue, green])
}

/// Whether blue's run had already finished when blue received SIGTERM, or the run of the next tick
/// had begun.
fn is_too_late(lines: &[Line]) -> bool {
    let stopping = position(lines, "blue", "shutting down").unwrap_or(lines.len());
    let done = position(lines, "blue", DONE).unwrap_or(lines.len());
    done < stopping
}

fn is_done(lines: &[Line]) -> bool {
    position(lines, "blue", DONE).is_some()
}

fn position(lines: &[Line], who: &str, what: &str) -> Option<usize> {
    lines.iter().position(|it| it.who == who && it.says(what))
}

/// Checks that these lines came from these replicas, in this order.
fn assert_order(lines: &[Line], order: &[(&str, &str)]) {
    let mut from = 0;
    for (who, what) in order {
        let found = position(&lines[from..], who, what);
        let found = found.unwrap_or_else(|| panic!("{who}: {what:?} does not follow in its place"));
        from += found + 1;
    }
}

/// Green runs the next tick, and it is the first one that green runs.
fn green_takes_over(scene: &Scene, midnight: Midnight) -> Shown {
    let first = scene.history.wait_for("green runs", |lines| {
        position(lines, "green", BEGINS).map(|at| lines[at].clone())
    });
    if first.field("slot") == Some(&*midnight.slot(10)) {
        Shown::Yes
    } else {
        Shown::TooSlow("green came too late for the next tick")
    }
}

pub(crate) fn the_run_is_finished(store: Store) {
    until_shown("blue finished", store, |scene, midnight| {
        let _replicas = match hand_over(scene, midnight, "60s", &[]) {
            Ok(replicas) => replicas,
            Err(too_slow) => return too_slow,
        };
        let shown = green_takes_over(scene, midnight);
        scene.history.look(|lines| {
            assert_order(
                lines,
                &[
                    ("blue", BEGINS),
                    ("green", "taken by another replica"),
                    ("blue", "shutdown signal received"),
                    ("blue", DONE),
                    ("blue", "lock released lock="),
                    ("blue", "shut down finished=1 cut=0"),
                    ("blue", "finished in time job=\"report\" unlocked=true"),
                    ("green", BEGINS),
                ],
            );
        });
        shown
    });
}

pub(crate) fn the_run_is_cut(store: Store) {
    until_shown("blue cut", store, |scene, midnight| {
        let [blue, _green] = match hand_over(scene, midnight, "500ms", &[]) {
            Ok(replicas) => replicas,
            Err(too_slow) => return too_slow,
        };
        if scene.history.look(is_done) {
            return Shown::TooSlow("blue's run was over before its grace was");
        }
        // At-most lasts ten minutes: only blue can have freed the lock.
        let record = scene.record("report");
        let owner = record.owner.unwrap_or_default();
        let is_blue = owner.contains(&blue.pid());
        assert!(
            record.state == LockState::Free || !is_blue,
            "still taken by {owner}"
        );
        let shown = green_takes_over(scene, midnight);
        scene.history.look(|lines| {
            assert_order(
                lines,
                &[
                    ("blue", BEGINS),
                    ("green", "taken by another replica"),
                    ("blue", "shutdown signal received"),
                    ("blue", "the grace period is over: stopping the run"),
                    ("blue", "lock released lock="),
                    ("blue", "stopped by the shutdown; its lock was released"),
                    ("blue", "shut down finished=0 cut=1"),
                    ("blue", "was cut job=\"report\" unlocked=true"),
                    ("green", BEGINS),
                ],
            );
        });
        shown
    });
}

pub(crate) fn the_run_is_taken_over(store: Store) {
    until_shown("blue taken over", store, |scene, midnight| {
        let job = ["--must-not-be-lost"];
        let _replicas = match hand_over(scene, midnight, "500ms", &job) {
            Ok(replicas) => replicas,
            Err(too_slow) => return too_slow,
        };
        if scene.history.look(is_done) {
            return Shown::TooSlow("blue's run was over before its grace was");
        }
        scene.history.wait_for("green is done with it", |lines| {
            position(lines, "green", DONE)
        });
        scene.history.look(|lines| {
            assert_order(
                lines,
                &[
                    ("blue", "the report begins attempt=1"),
                    ("blue", "the grace period is over: stopping the run"),
                    // A run that a shutdown cut does not count.
                    ("green", "the report begins attempt=1"),
                    ("green", DONE),
                ],
            );
            let green = position(lines, "green", BEGINS).map(|at| &lines[at]);
            let slot = green.and_then(|line| line.field("slot"));
            assert_eq!(slot, Some(&*midnight.slot(0)));
        });
        Shown::Yes
    });
}
