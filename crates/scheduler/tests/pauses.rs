//! A job that an operator has paused.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Node, alone, block_on, every, lock, millis, seconds, secs};
use shedlock_core::{
    Clock, Completion, LockConfig, LockName, Moment, PauseRequest, Paused, ResumeRequest, Resumed,
    Retries, admin,
};
use shedlock_scheduler::{Job, JobRun};

const MINUTE: u64 = 60;

/// The slots that were run, in seconds since midnight.
type Runs = Arc<Mutex<Vec<i64>>>;

fn job(node: &Node, config: LockConfig, runs: &Runs) -> Job {
    let (clock, runs) = (node.clock.clone(), runs.clone());
    Job::new(config, every(MINUTE), move |run: JobRun| {
        let (clock, runs) = (clock.clone(), runs.clone());
        async move {
            clock.sleep(millis(100)).await;
            runs.lock().unwrap().push(seconds(run.slot().unwrap()));
            Ok::<(), std::io::Error>(())
        }
    })
}

fn not_lost() -> LockConfig {
    lock("30s").completion(Completion::OnSuccess(Retries::new()))
}

/// Pauses the job from 0:02:30 to 0:10:10 and lets it run until 0:13:30. Returns the slots from
/// midnight on, in minutes.
fn slots_around_a_pause(
    job: impl Fn(&Node, &Runs) -> Job,
    lasts: Option<Duration>,
    resume: Option<fn(ResumeRequest) -> ResumeRequest>,
) -> Vec<i64> {
    block_on(async {
        let (world, log, first) = alone();
        let second = Node::new(&world, 300_000, &log);
        let runs = Runs::default();
        let _handles = [&first, &second].map(|node| node.start([job(node, &runs)]));
        let name = LockName::new("job").unwrap();
        world.run_until(secs(150)).await;
        let mut pause = PauseRequest::new(name.clone(), "alice");
        if let Some(duration) = lasts {
            pause = pause.lasting(duration);
        }
        let paused = admin::pause(&world.store, &pause).await.unwrap();
        assert!(matches!(paused, Paused::Done { .. }), "{paused:?}");
        world.run_until(secs(610)).await;
        if let Some(changed) = resume {
            let request = changed(ResumeRequest::new(name));
            let resumed = admin::resume(&world.store, &request).await.unwrap();
            assert!(matches!(resumed, Resumed::Resumed(_)), "{resumed:?}");
        }
        world.run_until(secs(810)).await;
        let runs = runs.lock().unwrap().clone();
        runs.into_iter()
            .filter(|slot| *slot >= 0)
            .map(|slot| slot / 60)
            .collect()
    })
}

#[test]
fn a_job_that_must_not_be_lost_does_not_replay_the_pause() {
    let slots = slots_around_a_pause(
        |node, runs| job(node, not_lost(), runs),
        None,
        Some(|it| it),
    );
    assert_eq!(slots, [0, 1, 2, 11, 12, 13]);
}

#[test]
fn a_pause_that_ends_by_itself_is_not_replayed_either() {
    let job = |node: &Node, runs: &Runs| job(node, not_lost(), runs);
    let slots = slots_around_a_pause(job, Some(secs(460)), None);
    assert_eq!(slots, [0, 1, 2, 11, 12, 13]);
}

#[test]
fn catching_up_runs_every_slot_of_the_pause_in_order() {
    let job = |node: &Node, runs: &Runs| job(node, not_lost(), runs);
    let slots = slots_around_a_pause(job, None, Some(ResumeRequest::catching_up));
    assert_eq!(slots, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]);
}

#[test]
fn a_late_run_does_not_fall_into_the_pause() {
    let late = |node: &Node, runs: &Runs| job(node, lock("30s"), runs);
    let slots = slots_around_a_pause(late, None, Some(|it| it));
    assert_eq!(slots, [0, 1, 2, 11, 12, 13]);
    let slots = slots_around_a_pause(late, None, Some(ResumeRequest::catching_up));
    assert_eq!(
        slots,
        [0, 1, 2, 10, 11, 12, 13],
        "the newest one is run late"
    );
}

/// A job whose runs fail until 0:10:10, when the pause is over. So slots from before the pause have not run then.
fn behind(node: &Node, runs: &Runs) -> Job {
    let (clock, runs) = (node.clock.clone(), runs.clone());
    let retries = Retries::new().max_attempts(1_000).backoff(secs(20));
    let config = lock("30s").completion(Completion::OnSuccess(retries));
    Job::new(config, every(MINUTE), move |run: JobRun| {
        let (clock, runs) = (clock.clone(), runs.clone());
        async move {
            clock.sleep(millis(100)).await;
            let slot = seconds(run.slot().unwrap());
            if slot > 0 && clock.now() < Moment::from_origin(secs(610)) {
                return Err("no mail server");
            }
            runs.lock().unwrap().push(slot);
            Ok(())
        }
    })
}

#[test]
fn slots_that_were_due_before_a_pause_run_after_it_and_those_of_the_pause_do_not() {
    let slots = slots_around_a_pause(behind, None, Some(|it| it));
    assert_eq!(slots, [0, 1, 2, 11, 12, 13]);
    let slots = slots_around_a_pause(behind, Some(secs(460)), None);
    assert_eq!(slots, [0, 1, 2, 11, 12, 13]);
    let slots = slots_around_a_pause(behind, None, Some(ResumeRequest::catching_up));
    assert_eq!(slots, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]);
}
