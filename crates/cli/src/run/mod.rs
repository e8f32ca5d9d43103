//! `shedlock run`: a command under a lock.

mod acquire;
mod environment;
mod events;
mod foreground;
mod job;
mod program;
mod runner;
mod signals;
mod slot;
mod until_done;

use std::process::ExitCode;

use shedlock::{Skip, SkipReason, Slot};

use crate::args::RunArgs;
use crate::exit::{self, Failure};
use crate::terminal::Terminal;
use crate::watchdog::{Ended, Status, StopReason};
use runner::{Runner, Turn};
use until_done::until_done;

/// Runs the command if its lock is free. The exit code is the command's, or gives the reason why it
/// did not run.
pub(crate) async fn run(args: &RunArgs, terminal: Terminal) -> Result<ExitCode, Failure> {
    let slot = slot::of(args)?;
    let mut runner = Runner::prepare(args, slot, terminal)?;
    let code = match slot {
        Some(slot) if args.must_not_be_lost => until_done(&mut runner, slot).await?,
        _ => {
            let turn = runner.turn(slot, args.lock_wait.unwrap_or_default());
            match turn.await? {
                Turn::Skipped(skip) => skipped(args, slot, &skip, terminal),
                Turn::Interrupted(signal) => code_of_signal(signal.as_raw()),
                Turn::Ran(ran) => ran.code,
            }
        }
    };
    Ok(ExitCode::from(code))
}

/// Reports that the command is not run, and why.
fn skipped(args: &RunArgs, slot: Option<Slot>, skip: &Skip, terminal: Terminal) -> u8 {
    if matches!(
        skip.reason,
        SkipReason::SlotGivenUp | SkipReason::LastSlotAhead
    ) {
        // No one runs it, and the log reports that.
        return exit::GIVEN_UP;
    }
    terminal.notice(&slot::skipped(&args.name, slot, skip));
    args.skip_exit_code
}

/// Reports what the exit code alone does not show.
fn explain(ended: &Ended, args: &RunArgs, terminal: Terminal) {
    let name = &args.name;
    match ended.stopped {
        Some(StopReason::Deadline) if args.keep_alive => terminal.error(&format!(
            "{name}: the command was stopped: its lease could not be extended in time; check that \
             the store is reachable"
        )),
        Some(StopReason::Deadline) => terminal.error(&format!(
            "{name}: the command was stopped: its lease was about to end; raise --lock-at-most-for \
             if the command needs longer, or extend the lease with --keep-alive"
        )),
        Some(StopReason::RanTooLong) => terminal.error(&format!(
            "{name}: the command was stopped: it ran longer than --max-run-time"
        )),
        Some(StopReason::LeaseLost) => terminal.error(&format!(
            "{name}: the command was stopped: its lease was lost (the lock was freed by force, or \
             its record was changed)"
        )),
        Some(StopReason::WatchdogGone) => terminal.error(&format!(
            "{name}: the command was stopped: the watchdog was killed"
        )),
        Some(StopReason::LeftBehind) => terminal.notice(&format!(
            "{name}: the command left processes running; they were stopped before the lock was \
             released"
        )),
        Some(StopReason::HolderGone) | None => {}
    }
    if !ended.survivors.is_empty() {
        let pids: Vec<String> = ended.survivors.iter().map(i32::to_string).collect();
        terminal.error(&format!(
            "{name}: these processes of the command could not be stopped and may run while another \
             owner holds the lock: {}",
            pids.join(", ")
        ));
    }
}

fn code_of(ended: &Ended) -> u8 {
    match (ended.stopped, ended.status) {
        (
            Some(
                StopReason::Deadline
                | StopReason::RanTooLong
                | StopReason::LeaseLost
                | StopReason::HolderGone,
            ),
            _,
        ) => exit::LOST,
        _ if !ended.survivors.is_empty() => exit::LOST,
        (Some(StopReason::WatchdogGone), _) | (_, None) => exit::INTERNAL,
        (_, Some(Status::Exited(code))) => code,
        (_, Some(Status::Signalled(signal))) => code_of_signal(signal),
    }
}

fn code_of_signal(signal: i32) -> u8 {
    u8::try_from(signal).map_or(u8::MAX, |signal| exit::SIGNALLED.saturating_add(signal))
}

#[cfg(test)]
mod tests {
    use rustix::process::Signal;

    use super::*;

    fn ended(status: Option<Status>, stopped: Option<StopReason>) -> Ended {
        Ended {
            status,
            stopped,
            survivors: Vec::new(),
        }
    }

    #[test]
    fn the_commands_own_code_counts_unless_it_was_cut_off() {
        let exited = Some(Status::Exited(3));
        assert_eq!(code_of(&ended(exited, None)), 3);
        assert_eq!(code_of(&ended(exited, Some(StopReason::LeftBehind))), 3);
        for cut in [
            StopReason::Deadline,
            StopReason::RanTooLong,
            StopReason::LeaseLost,
        ] {
            assert_eq!(code_of(&ended(exited, Some(cut))), 75);
        }
        assert_eq!(code_of(&ended(exited, Some(StopReason::WatchdogGone))), 70);
        assert_eq!(code_of(&ended(None, None)), 70);
        let killed = Some(Status::Signalled(Signal::KILL.as_raw()));
        assert_eq!(code_of(&ended(killed, None)), 137);
        let mut left = ended(exited, None);
        left.survivors.push(1);
        assert_eq!(code_of(&left), 75);
    }
}
