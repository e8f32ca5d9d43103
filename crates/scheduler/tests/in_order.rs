//! Jobs that must not be lost: each slot is run until it succeeds, in order.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Fault, Log, Node, World, alone, block_on, every, lock, millis, seconds, secs};
use shedlock_core::{
    AttemptRequest, Clock, Completion, LockConfig, LockName, LockProvider, Owner, Retries, Slot,
    Unlock, UnlockRequest, current_lock,
};
use shedlock_scheduler::{Job, JobRun, LatePolicy, Overlap, Schedule};

const TEN: u64 = 10;

fn must_not_be_lost(at_most: &str, retries: Retries) -> LockConfig {
    lock(at_most).completion(Completion::OnSuccess(retries))
}

/// The results of runs: slot, attempt, and whether it succeeded.
type Done = Arc<Mutex<Vec<(i64, u32, bool)>>>;

fn job(
    node: &Node,
    config: LockConfig,
    schedule: Schedule,
    done: &Done,
    succeeds: impl Fn(&JobRun) -> Result<Duration, Duration> + Send + Sync + 'static,
) -> Job {
    let (clock, done) = (node.clock.clone(), done.clone());
    let succeeds = Arc::new(succeeds);
    Job::new(config, schedule, move |run: JobRun| {
        let (clock, done, succeeds) = (clock.clone(), done.clone(), succeeds.clone());
        async move {
            let ends = succeeds(&run);
            let (Ok(run_time) | Err(run_time)) = ends;
            clock.sleep(run_time).await;
            let slot = seconds(run.slot().unwrap());
            let attempt = run.slot_attempt().unwrap();
            done.lock().unwrap().push((slot, attempt, ends.is_ok()));
            ends.map(drop).map_err(|_| "no mail server")
        }
    })
}

fn of(done: &Done) -> Vec<(i64, u32, bool)> {
    done.lock().unwrap().clone()
}

#[test]
fn a_failed_run_is_tried_again_before_the_next_slot() {
    block_on(async {
        let (world, _, node) = alone();
        let done = Done::default();
        let config = must_not_be_lost("1m", Retries::new().backoff(secs(3)));
        let job = job(&node, config, every(TEN), &done, |run| {
            match run.slot_attempt() {
                Some(1 | 2) if run.slot().map(seconds) == Some(0) => Err(millis(100)),
                _ => Ok(millis(100)),
            }
        });
        let _handle = node.start([job]);
        world.run_until(secs(25)).await;
        let from_midnight: Vec<_> = of(&done).into_iter().filter(|run| run.0 >= 0).collect();
        assert_eq!(
            from_midnight,
            [
                (0, 1, false),
                (0, 2, false),
                (0, 3, true),
                (10, 1, true),
                (20, 1, true)
            ]
        );
    });
}

#[test]
fn a_slot_that_fails_for_good_is_given_up_and_the_next_goes_on() {
    block_on(async {
        let (world, _, node) = alone();
        let done = Done::default();
        let config = must_not_be_lost("1m", Retries::new().max_attempts(2).backoff(secs(1)));
        let job = job(&node, config, every(TEN), &done, |run| {
            if run.slot().map(seconds) == Some(0) {
                Err(millis(100))
            } else {
                Ok(millis(100))
            }
        });
        let _handle = node.start([job]);
        world.run_until(secs(15)).await;
        let from_midnight: Vec<_> = of(&done).into_iter().filter(|run| run.0 >= 0).collect();
        assert_eq!(from_midnight, [(0, 1, false), (0, 2, false), (10, 1, true)]);
        let record = world.store.inspect(&LockName::new("job").unwrap()).await;
        let record = record.unwrap().unwrap();
        assert_eq!(record.last_slot_done.map(seconds), Some(10));
    });
}

#[test]
fn a_dead_runners_slot_is_taken_over_when_its_lease_is_over() {
    block_on(async {
        let (world, log, first) = alone();
        let second = Node::new(&world, 1, &log);
        let done = Done::default();
        for node in [&first, &second] {
            let config = must_not_be_lost("4s", Retries::new());
            let job = job(node, config, every(TEN), &done, |_| Ok(secs(2)));
            drop(node.start([job]));
        }
        world.run_until(secs(1)).await;
        // The node that runs it now dies; the other one stays alive.
        let record = world.store.inspect(&LockName::new("job").unwrap()).await;
        assert!(record.unwrap().unwrap().slot_attempts == Some(1));
        first.clock.kill();
        world.run_until(secs(29)).await;
        let slots: Vec<_> = of(&done).into_iter().filter(|run| run.0 >= 0).collect();
        let attempt = slots[0].1;
        assert!(attempt == 1 || attempt == 2);
        assert_eq!(
            slots,
            [(0, attempt, true), (10, 1, true), (20, 1, true)],
            "each slot is done once, in order"
        );
    });
}

#[test]
fn a_panic_is_one_failure() {
    block_on(async {
        let (world, log, node) = alone();
        let done = Done::default();
        let config = must_not_be_lost("1m", Retries::new().backoff(secs(1)));
        let job = job(&node, config, every(TEN), &done, |run| {
            let is_first = run.slot_attempt() == Some(1);
            assert!(!is_first || run.slot().map(seconds) != Some(0), "boom");
            Ok(millis(100))
        });
        let _handle = node.start([job]);
        world.run_until(secs(5)).await;
        assert_eq!(of(&done).last(), Some(&(0, 2, true)));
        let ticks = log.ticks();
        assert!(
            ticks.contains(&(Some(0), "panicked".to_owned())),
            "{ticks:?}"
        );
    });
}

#[test]
fn what_was_missed_while_all_were_down_runs_in_order() {
    block_on(async {
        let (world, log, node) = alone();
        let done = Done::default();
        let config = || must_not_be_lost("1m", Retries::new());
        let first = job(&node, config(), every(TEN), &done, |_| Ok(millis(100)));
        let handle = node.start([first]);
        world.run_until(secs(5)).await;
        drop(handle.shutdown(secs(1)).await.unwrap());
        world.run_until(secs(67)).await;
        done.lock().unwrap().clear();
        let later = Node::new(&world, 1, &log);
        let job = job(&later, config(), every(TEN), &done, |_| Ok(millis(100)));
        let _handle = later.start([job]);
        world.run_until(secs(75)).await;
        let slots: Vec<i64> = of(&done).iter().map(|run| run.0).collect();
        assert_eq!(slots, [10, 20, 30, 40, 50, 60, 70]);
    });
}

#[test]
fn slots_past_the_late_limit_are_given_up() {
    block_on(async {
        let (world, log, node) = alone();
        let done = Done::default();
        let config = || must_not_be_lost("1m", Retries::new().backoff(millis(10)));
        // The slot of midnight fails repeatedly, until everything stops.
        let failing = job(&node, config(), every(TEN), &done, |run| {
            if run.slot().map(seconds) == Some(0) {
                Err(millis(100))
            } else {
                Ok(millis(100))
            }
        });
        let handle = node.start([failing]);
        world.run_until(millis(150)).await;
        let stopping = tokio::spawn(async move { handle.shutdown(secs(1)).await });
        world.run_until(secs(67)).await;
        drop(stopping.await.unwrap().unwrap());
        done.lock().unwrap().clear();
        let later = Node::new(&world, 1, &log);
        let job = job(&later, config(), every(TEN), &done, |_| Ok(millis(100)))
            .late(LatePolicy::Within(secs(30)));
        let _handle = later.start([job]);
        world.run_until(secs(75)).await;
        let slots: Vec<i64> = of(&done).iter().map(|run| run.0).collect();
        assert_eq!(slots, [40, 50, 60, 70]);
        let ticks = log.ticks();
        let given_up = (Some(0), "missed: too late".to_owned());
        assert!(ticks.contains(&given_up), "{ticks:?}");
    });
}

#[test]
fn runs_longer_than_the_period_leave_nothing_out() {
    block_on(async {
        let (world, _, node) = alone();
        let done = Done::default();
        let config = must_not_be_lost("1m", Retries::new());
        let job = job(&node, config, every(TEN), &done, |run| {
            let slow = run.slot().map(seconds) == Some(0);
            Ok(if slow { secs(47) } else { millis(100) })
        })
        .overlap(Overlap::Skip);
        let _handle = node.start([job]);
        world.run_until(secs(55)).await;
        let slots: Vec<i64> = of(&done)
            .iter()
            .map(|run| run.0)
            .filter(|slot| *slot >= 0)
            .collect();
        assert_eq!(slots, [0, 10, 20, 30, 40, 50]);
    });
}

#[test]
fn a_shutdown_leaves_the_slot_to_others_at_once() {
    block_on(async {
        let world = World::before_midnight(secs(5));
        let log = Log::default();
        let (first, second) = (Node::new(&world, 0, &log), Node::new(&world, 1, &log));
        let done = Done::default();
        let config = || must_not_be_lost("10m", Retries::new());
        let slow = job(&first, config(), every(60), &done, |_| Ok(secs(30)));
        let handle = first.start([slow]);
        world.run_until(secs(1)).await;
        let quick = job(&second, config(), every(60), &done, |_| Ok(secs(1)));
        let _other = second.start([quick]);
        world.run_until(secs(2)).await;
        let stopping = tokio::spawn(async move { handle.shutdown(Duration::ZERO).await });
        world.run_until(secs(20)).await;
        assert_eq!(stopping.await.unwrap().unwrap().cut.len(), 1);
        assert_eq!(of(&done), [(0, 1, true)], "what was cut does not count");
    });
}

#[test]
fn any_number_of_shutdowns_does_not_give_a_slot_up() {
    block_on(async {
        let world = World::before_midnight(secs(5));
        let log = Log::default();
        let done = Done::default();
        let config = || must_not_be_lost("10m", Retries::new().max_attempts(2));
        for number in 0..5 {
            let node = Node::new(&world, number, &log);
            let slow = job(&node, config(), every(600), &done, |_| Ok(secs(30)));
            let handle = node.start([slow]);
            world.run_until(secs(2 + 2 * number as u64)).await;
            let stopping = tokio::spawn(async move { handle.shutdown(Duration::ZERO).await });
            world.run_for(secs(1)).await;
            assert_eq!(stopping.await.unwrap().unwrap().cut.len(), 1);
        }
        let node = Node::new(&world, 5, &log);
        let quick = job(&node, config(), every(600), &done, |_| Ok(secs(1)));
        let _handle = node.start([quick]);
        world.run_for(secs(20)).await;
        assert_eq!(of(&done), [(0, 1, true)]);
    });
}

/// The shutdown comes after the lock was granted, and before the job's future is polled.
#[test]
fn a_shutdown_before_the_task_begins_leaves_a_slot_that_is_taken_at_most_once_to_others() {
    block_on(async {
        let world = World::before_midnight(secs(5));
        let log = Log::default();
        let node = Node::with_faults(&world, 0, &log, || Fault::SlowReply);
        let begun = Arc::new(Mutex::new(0));
        let seen = begun.clone();
        let plain = Job::new(lock("1m"), every(600), move |_: JobRun| {
            *seen.lock().unwrap() += 1;
            async { Ok::<_, String>(()) }
        });
        let handle = node.start([plain]);
        world.run_until(secs(1)).await;
        let stopping = tokio::spawn(async move { handle.shutdown(Duration::ZERO).await });
        world.run_for(secs(30)).await;
        drop(stopping.await);
        assert_eq!(*begun.lock().unwrap(), 0);
        let other = Node::new(&world, 1, &log);
        let _handle = other.start([other.job(lock("1m"), every(600), secs(1))]);
        world.run_for(secs(30)).await;
        assert_eq!(log.slots(), [0]);
    });
}

#[test]
fn a_slot_that_is_given_up_is_not_another_replicas_run() {
    block_on(async {
        let (world, log, node) = alone();
        let done = Done::default();
        let config = || must_not_be_lost("1m", Retries::new().max_attempts(1));
        let fails = job(&node, config(), every(600), &done, |_| Err(millis(100)));
        let _handle = node.start([fails]);
        world.run_until(secs(1)).await;
        let late = Node::new(&world, 1, &log);
        let quick = job(&late, config(), every(600), &done, |_| Ok(secs(1)));
        let _late = late.start([quick]);
        world.run_until(secs(30)).await;
        let ticks = log.ticks();
        let is_reported = |(_, end): &(_, String)| end.contains("the slot is given up");
        assert!(ticks.iter().any(is_reported), "{ticks:?}");
        assert_eq!(of(&done), [(0, 1, false)]);
    });
}

#[test]
fn a_last_slot_in_the_future_is_not_another_replicas_run() {
    block_on(async {
        let (world, log, node) = alone();
        let far = Slot::at(node.clock.system_time() + secs(86_400)).unwrap();
        let poison =
            AttemptRequest::new(LockName::new("job").unwrap(), Owner::generate(), secs(10));
        let poison = poison.with_slot(far).with_slot_tolerance(secs(100_000));
        let lease = world
            .store
            .attempt(&poison)
            .await
            .unwrap()
            .acquired()
            .unwrap();
        let unlocked = world.store.unlock(&lease, &UnlockRequest::new()).await;
        assert_eq!(unlocked.unwrap(), Unlock::Unlocked);
        let done = Done::default();
        let config = must_not_be_lost("1m", Retries::new());
        let other = lock("1m");
        let blocked = job(&node, config, every(10), &done, |_| Ok(secs(1)));
        let _handle = node.start([blocked]);
        let plain = Node::new(&world, 1, &log);
        let _plain = plain.start([Job::new(other, every(10), |_: JobRun| async {
            Ok::<_, String>(())
        })]);
        world.run_until(secs(15)).await;
        let ticks = log.ticks();
        let is_reported = |(_, end): &&(_, String)| end.contains("is ahead of the store's clock");
        assert!(ticks.iter().filter(is_reported).count() >= 4, "{ticks:?}");
        assert!(ticks.iter().all(|tick| is_reported(&tick)), "{ticks:?}");
    });
}

#[test]
fn what_a_task_reports_for_its_slot_counts_although_it_returns_ok() {
    block_on(async {
        let (world, log, node) = alone();
        let attempts = Arc::new(Mutex::new(Vec::new()));
        let seen = attempts.clone();
        let config = must_not_be_lost("1m", Retries::new().backoff(secs(3)));
        let job = Job::new(config, every(60), move |run: JobRun| {
            let seen = seen.clone();
            async move {
                let attempt = run.slot_attempt().unwrap();
                seen.lock()
                    .unwrap()
                    .push((seconds(run.slot().unwrap()), attempt));
                if attempt == 1 {
                    current_lock().unwrap().fail_slot();
                }
                Ok::<_, std::io::Error>(())
            }
        });
        let _handle = node.start([job]);
        world.run_until(secs(10)).await;
        assert_eq!(*attempts.lock().unwrap(), [(0, 1), (0, 2)]);
        let ran = (Some(0), "ran".to_owned());
        assert_eq!(log.ticks(), [ran.clone(), ran]);
    });
}

/// Its runs leave no slot in the record, so the last slot there is older than what is done.
#[test]
fn a_run_of_shedlock_is_no_gap_that_holds_up_the_rest() {
    block_on(async {
        let (world, log, node) = alone();
        let done = Done::default();
        let config = || must_not_be_lost("1m", Retries::new());
        let first = job(&node, config(), every(TEN), &done, |_| Ok(millis(100)));
        let handle = node.start([first]);
        world.run_until(secs(5)).await;
        drop(handle.shutdown(secs(1)).await.unwrap());
        world.run_until(secs(15)).await;
        let name = LockName::new("job").unwrap();
        let now = node.clock.system_time();
        world
            .store
            .write_as_shedlock(&name, "java-host", now, now + secs(1));
        world.run_until(secs(37)).await;
        done.lock().unwrap().clear();
        let later = Node::new(&world, 1, &log);
        let job = job(&later, config(), every(TEN), &done, |_| Ok(millis(100)));
        let _handle = later.start([job]);
        world.run_until(secs(45)).await;
        let slots: Vec<i64> = of(&done).iter().map(|run| run.0).collect();
        assert_eq!(slots, [20, 30, 40]);
    });
}

#[test]
fn a_start_that_was_asked_for_is_never_too_late() {
    block_on(async {
        let world = World::before_midnight(secs(50));
        let node = Node::new(&world, 0, &Log::default());
        let done = Done::default();
        let config = must_not_be_lost("1m", Retries::new());
        let job = job(&node, config, every(100), &done, |_| Ok(millis(100)))
            .late(LatePolicy::Skip)
            .run_at_start();
        let _handle = node.start([job]);
        world.run_until(secs(1)).await;
        let slots: Vec<i64> = of(&done).iter().map(|run| run.0).collect();
        assert_eq!(slots.len(), 2, "{slots:?}");
    });
}

#[test]
fn a_run_that_fails_past_its_late_limit_is_reported_once() {
    block_on(async {
        let (world, log, node) = alone();
        let done = Done::default();
        let config = must_not_be_lost("1m", Retries::new());
        let job = job(&node, config, every(60), &done, |_| Err(secs(7)))
            .late(LatePolicy::Within(secs(5)));
        let _handle = node.start([job]);
        world.run_until(secs(30)).await;
        let told: Vec<String> = log.ticks().into_iter().map(|tick| tick.1).collect();
        assert_eq!(told, ["failed: no mail server", "missed: too late"]);
    });
}

/// Another replica runs a newer version of the program, with another schedule.
#[test]
fn a_slot_that_the_schedule_does_not_have_is_gone_on_from() {
    block_on(async {
        let world = World::before_midnight(secs(3));
        let log = Log::default();
        let node = Node::new(&world, 0, &log);
        let done = Done::default();
        let config = || must_not_be_lost("1m", Retries::new().max_attempts(2).backoff(secs(4)));
        let odd = job(&node, config(), every(7), &done, |_| Err(millis(100)));
        let handle = node.start([odd]);
        world.run_until(millis(500)).await;
        drop(handle.shutdown(Duration::ZERO).await.unwrap());
        world.run_until(secs(25)).await;
        done.lock().unwrap().clear();
        let later = Node::new(&world, 1, &log);
        let job = job(&later, config(), every(TEN), &done, |_| Ok(millis(100)));
        let _handle = later.start([job]);
        world.run_until(secs(35)).await;
        // The open slot runs first.
        assert_eq!(
            of(&done),
            [
                (-2, 2, true),
                (0, 1, true),
                (10, 1, true),
                (20, 1, true),
                (30, 1, true)
            ]
        );
    });
}
