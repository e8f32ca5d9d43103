//! What `run` does when its watchdog is gone: it stops the job itself, immediately.

use std::time::Duration;

use rustix::event::{Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process_group, test_kill_process_group, wait,
};

use super::job::ended_with;
use super::plan::{Plan, Step, StopReason, Supervision};
use super::processes::{self, Process};
use super::protocol::{Ended, Survivors};
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
        let has_no_child = loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, ended))) if Some(pid) == leader => status = Some(ended_with(ended)),
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => break false,
                Err(error) => break error == Errno::CHILD,
            }
        };
        let listed = processes::adopted(getpid(), watchdog);
        let left = listed.as_deref().unwrap_or_default();
        // If nothing is adopted, only the group of the job is known.
        let group = leader
            .filter(|_| !descendants_are_found())
            .filter(|group| test_kill_process_group(*group).is_ok());
        let is_over = if ORPHANS_ARE_ADOPTED {
            // This process may have had children before. Then only a complete list shows that no other is left.
            let is_none_listed = listed.is_ok() && left.is_empty();
            has_no_child || is_none_listed && processes::are_all_listed()
        } else {
            // If not even the group is known, only waiting makes sure that the job has ended.
            group.is_none() && leader.is_some()
        };
        let now = clock::now();
        if is_over || supervision.is_hopeless(now) {
            return Ended {
                status,
                stopped: Some(StopReason::WatchdogGone),
                survivors: match is_over {
                    true => Survivors::None,
                    false => Survivors::listed(listed),
                },
            };
        }
        let signal = |signals: &[Signal]| {
            for signal in signals {
                if let Some(group) = group {
                    // If it disappears at this instant, it is as good as stopped.
                    let _ = kill_process_group(group, *signal);
                }
                for process in left {
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
