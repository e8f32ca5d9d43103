//! `shedlock run`, a command under a lock, and `shedlock hold`, a lock without a command.

mod acquire;
mod caller;
mod environment;
mod events;
mod follow;
mod foreground;
mod hold;
mod job;
mod keys;
mod pings;
mod program;
mod release;
mod runner;
mod signals;
mod slot;
mod tee;
mod until_done;

use std::process::ExitCode;
use std::time::Duration;

use rustix::process::Signal;
use shedlock::{Clock, Skip, Slot, SystemClock};

pub(crate) use hold::hold;
pub(crate) use keys::{is_wanted as keys_are_wanted, serve as report_keys};
pub(crate) use slot::tolerance;

use crate::args::RunArgs;
use crate::exit::{self, Failure};
use crate::output;
use crate::terminal::Terminal;
use crate::watchdog::{Ended, Status, StopReason};
use pings::Pings;
use runner::{Runner, Turn};
#[cfg(feature = "ui")]
pub(crate) use signals::Signals;
use signals::{Asked, name_of};
use until_done::until_done;

/// Runs the command if its lock is free. The exit code is the command's, or gives the reason why it
/// did not run.
pub(crate) async fn run(args: &RunArgs, terminal: Terminal) -> Result<ExitCode, Failure> {
    let ran = turns(args, terminal).await;
    if let Err(failure) = &ran
        && failure.number() != exit::USAGE
    {
        Pings::log(args, failure.number()).await;
    }
    ran.map(ExitCode::from)
}

async fn turns(args: &RunArgs, terminal: Terminal) -> Result<u8, Failure> {
    let slot = slot::of(args)?;
    let mut runner = Runner::prepare(args, slot, terminal)?;
    slot::warn_of_zone(args, terminal);
    match slot {
        Some(slot) if args.must_not_be_lost => until_done(&mut runner, slot).await,
        _ => {
            let turn = runner.turn(slot, args.lock_wait.unwrap_or_default());
            Ok(match turn.await? {
                Turn::Skipped(skip) => skipped(args, slot, &skip, terminal).await,
                Turn::Interrupted(signal) => interrupted(args, signal, false, terminal),
                Turn::Ran(ran) => ran.code,
            })
        }
    }
}

/// Reports that a signal ended this program before it got the lock, or between two attempts.
fn interrupted(args: &RunArgs, signal: Signal, has_run: bool, terminal: Terminal) -> u8 {
    // During the pause after a failed attempt the lock is kept by this process.
    let when = if has_run {
        "before the next attempt; the command was not started again"
    } else {
        "before it got the lock; the command was not started"
    };
    let signal_name = name_of(signal);
    terminal.error(&format!("{}: stopped by {signal_name} {when}", args.name));
    code_of_signal(signal.as_raw())
}

/// Ends with a skip. Returns the exit code.
async fn skipped(args: &RunArgs, slot: Option<Slot>, skip: &Skip, terminal: Terminal) -> u8 {
    if !report_skip(args, slot, skip, terminal) {
        return args.skip_exit_code;
    }
    Pings::log(args, exit::SLOT_NOT_RUN).await;
    exit::SLOT_NOT_RUN
}

/// Reports that the command is not run, and why. Returns whether its slot is not run here although it should be.
fn report_skip(args: &RunArgs, slot: Option<Slot>, skip: &Skip, terminal: Terminal) -> bool {
    let left = skip
        .until
        .and_then(|until| until.duration_since(SystemClock.system_time()).ok());
    let again = |slot| slot::again(args, slot, left.unwrap_or_default());
    if let Some(why) = slot::not_run(&args.name, slot, skip, again) {
        terminal.error(&why);
        return true;
    }
    terminal.notice(&slot::skipped(&args.name, slot, skip));
    false
}

/// Reports what the exit code alone does not show.
fn explain(
    ended: &Ended,
    asked: Option<Asked>,
    not_extended: Option<String>,
    jumped: Duration,
    args: &RunArgs,
    terminal: Terminal,
) {
    let name = &args.name;
    let (first, last) = asked.map_or(("signal", "signal"), |asked| {
        (name_of(asked.first), name_of(asked.last))
    });
    let ignored = asked.map_or_else(String::new, |_| {
        format!("it did not end after the {first} sent to this program, and ")
    });
    match ended.stopped {
        Some(StopReason::LeaseOver) => terminal.error(&format!(
            "{name}: the command was stopped: {ignored}its lease had ended: {}",
            over(jumped)
        )),
        Some(StopReason::Deadline) if args.keep_alive => terminal.error(&format!(
            "{name}: the command was stopped: {ignored}its lease could not be extended{}",
            why_not_extended(not_extended)
        )),
        Some(StopReason::IgnoredSignal) => terminal.error(&format!(
            "{name}: the command was killed: it did not end within {} of the {first} sent to \
             this program; raise --stop-grace if it needs longer",
            output::duration(args.stop_grace())
        )),
        Some(StopReason::SecondSignal) => terminal.error(&format!(
            "{name}: the command was killed: it had not ended after the {first} when a second signal, \
             {last}, arrived"
        )),
        Some(StopReason::Deadline) if asked.is_some() => terminal.error(&format!(
            "{name}: the command was stopped: {ignored}its lease was about to end"
        )),
        Some(StopReason::Deadline) => terminal.error(&format!(
            "{name}: the command was stopped: its lease was about to end; raise --lock-at-most-for \
             if the command needs longer, or extend the lease with --keep-alive"
        )),
        Some(StopReason::RanTooLong) => terminal.error(&format!(
            "{name}: the command was stopped: {ignored}it ran longer than --max-run-time"
        )),
        Some(StopReason::LeaseLost) => terminal.error(&format!(
            "{name}: the command was stopped: its lease was lost ({LOSS})"
        )),
        Some(StopReason::WatchdogGone) => terminal.error(&format!(
            "{name}: the command was stopped: the watchdog was killed"
        )),
        Some(StopReason::LeftBehind) if ended.survivors.are_left() => {}
        Some(StopReason::LeftBehind) => terminal.notice(&format!(
            "{name}: the command left processes running; they were stopped before the lock was \
             released"
        )),
        Some(StopReason::HolderGone) | None => {}
    }
}

/// Why a lease could not be extended, after these words.
fn why_not_extended(failure: Option<String>) -> String {
    match failure {
        Some(why) => format!(" in time: {why}"),
        None => {
            " in time: the store did not reply, or this process was suspended; check the store \
                 and the load of this host"
                .to_owned()
        }
    }
}

/// Why a command was stopped only when its lease had ended, after these words.
fn over(jumped: Duration) -> String {
    const OVERLAP: &str = "another run may have overlapped this one";
    if jumped.is_zero() {
        return format!("this process was suspended or too slow; {OVERLAP}");
    }
    let seconds = jumped.saturating_add(Duration::from_millis(500)).as_secs();
    let jumped = output::duration(Duration::from_secs(seconds.max(1)));
    format!("the wall clock jumped forward by {jumped}, which counts as elapsed time; {OVERLAP}")
}

/// How a lease is lost before it ends.
const LOSS: &str = "the lock was freed by force or paused with --now, taken over while this process was suspended, or its \
                    record was changed";

fn code_of(ended: &Ended) -> u8 {
    match (ended.stopped, ended.status) {
        (
            Some(
                StopReason::Deadline
                | StopReason::RanTooLong
                | StopReason::LeaseOver
                | StopReason::LeaseLost
                | StopReason::HolderGone,
            ),
            _,
        ) => exit::LOST,
        _ if ended.survivors.are_left() => exit::LOST,
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
    use super::*;
    use crate::watchdog::Survivors;

    fn ended(status: Option<Status>, stopped: Option<StopReason>) -> Ended {
        Ended {
            status,
            stopped,
            survivors: Survivors::None,
        }
    }

    #[test]
    fn a_command_that_was_killed_after_a_signal_has_its_own_code() {
        let killed = Some(Status::Signalled(Signal::KILL.as_raw()));
        for reason in [StopReason::IgnoredSignal, StopReason::SecondSignal] {
            assert_eq!(code_of(&ended(killed, Some(reason))), 137);
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
            StopReason::LeaseOver,
            StopReason::LeaseLost,
        ] {
            assert_eq!(code_of(&ended(exited, Some(cut))), 75);
        }
        assert_eq!(code_of(&ended(exited, Some(StopReason::WatchdogGone))), 70);
        assert_eq!(code_of(&ended(None, None)), 70);
        let killed = Some(Status::Signalled(Signal::KILL.as_raw()));
        assert_eq!(code_of(&ended(killed, None)), 137);
        for survivors in [Survivors::Known(vec![1]), Survivors::Unknown] {
            let mut left = ended(exited, Some(StopReason::LeftBehind));
            left.survivors = survivors;
            assert_eq!(code_of(&left), 75);
        }
    }
}
