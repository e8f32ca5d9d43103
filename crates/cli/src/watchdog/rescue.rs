//! What `run` does when its watchdog is gone: it stops the job itself, immediately.

use std::time::Duration;

use rustix::event::{Timespec, poll};
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process_group, test_kill_process_group, wait,
};

use super::job::ended_with;
use super::plan::{Plan, Step, StopReason, Supervision};
use super::processes::{self, Process};
use super::protocol::Ended;
use super::{ORPHANS_ARE_ADOPTED, descendants_are_found};
use crate::clock;

/// Stops everything that the watchdog has started, and returns when it is gone.
///
/// This process has adopted the watchdog's children. `leader` is the command's own process, if the
/// watchdog reported it. `watchdog` is the watchdog's process as listed while it lived. It
/// distinguishes the watchdog's children from children that this process may have had before.
pub(super) fn stop(leader: Option<Pid>, watchdog: Option<&Process>, plan: Plan) -> Ended {
    const TICK: Duration = Duration::from_millis(10);
    let mut supervision = Supervision::new(plan);
    supervision.stop(StopReason::WatchdogGone, clock::now());
    let mut status = None;
    loop {
        while let Ok(Some((pid, ended))) = wait(WaitOptions::NOHANG) {
            if Some(pid) == leader {
                status = Some(ended_with(ended));
            }
        }
        let left = processes::adopted(getpid(), watchdog);
        // If nothing is adopted, only the group of the job is known.
        let group = leader
            .filter(|_| !descendants_are_found())
            .filter(|group| test_kill_process_group(*group).is_ok());
        // If not even the group is known, only waiting makes sure that the job has ended.
        let is_unknown = !ORPHANS_ARE_ADOPTED && leader.is_none();
        let is_over = left.is_empty() && group.is_none() && !is_unknown;
        let now = clock::now();
        if is_over || supervision.is_hopeless(now) {
            return Ended {
                status,
                stopped: Some(StopReason::WatchdogGone),
                survivors: left.iter().map(|left| left.pid.as_raw_pid()).collect(),
            };
        }
        let signal = |signals: &[Signal]| {
            for signal in signals {
                if let Some(group) = group {
                    // If it disappears at this instant, it is as good as stopped.
                    let _ = kill_process_group(group, *signal);
                }
                for process in &left {
                    process.signal(*signal);
                }
            }
        };
        match supervision.step(now) {
            Step::Terminate => signal(&[Signal::TERM, Signal::CONT]),
            Step::Kill => signal(&[Signal::KILL]),
            Step::Wait(until) => pause(until.left(now).min(TICK)),
        }
    }
}

fn pause(duration: Duration) {
    let limit = Timespec {
        tv_sec: 0,
        tv_nsec: duration.subsec_nanos().into(),
    };
    // Interrupted by a signal: check again a little earlier.
    let _ = poll(&mut [], Some(&limit));
}
