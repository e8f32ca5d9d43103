//! `shedlock run`: a command under a lock.

mod acquire;
mod environment;
mod events;
mod foreground;
mod job;
mod program;
mod signals;
mod slot;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use shedlock::{Clock, HeldLock, Release, SystemClock};

use crate::args::RunArgs;
use crate::exit::{self, Failure, with_causes};
use crate::output;
use crate::terminal::Terminal;
use crate::watchdog::{Ended, Status, StopReason};
use acquire::{Acquired, acquire};
use events::Events;
use job::Job;
use signals::{Signals, asks_to_end};

/// Runs the command if its lock is free; the exit code is the command's, or says why there is none.
pub(crate) async fn run(args: &RunArgs, terminal: Terminal) -> Result<ExitCode, Failure> {
    let slot = slot::of(args)?;
    let mut lock = args.lock();
    if let Some(slot) = slot {
        lock = slot::claimed_by(lock, slot, args);
    }
    lock.validate()?;
    args.defaults().validate()?;
    let program = program::find(&args.command[0])?;
    let mut signals = Signals::listen().map_err(|error| {
        Failure::new(exit::INTERNAL, format!("cannot listen to signals: {error}"))
    })?;

    let events = Arc::new(Events::new(terminal));
    let held = match acquire(args, &lock, &events, &mut signals, terminal).await? {
        Acquired::Lock(held) => held,
        Acquired::Skipped(skip) => {
            terminal.notice(&slot::skipped(&args.name, slot, &skip));
            return Ok(ExitCode::from(args.skip_exit_code));
        }
        Acquired::Interrupted(signal) => {
            return Ok(ExitCode::from(code_of_signal(signal.as_raw())));
        }
    };
    let ended = Job::new(args, program, &events, &mut signals)
        .run(&held)
        .await;
    release(held, &mut signals, terminal).await;
    let ended = ended?;
    explain(&ended, args, terminal);
    Ok(ExitCode::from(code_of(&ended)))
}

/// Gives the lock back. Whatever comes of it, the command has run, and its exit code counts.
async fn release(held: HeldLock, signals: &mut Signals, terminal: Terminal) {
    // A store that is away is asked again and again; a caller waits for its command, not for that.
    const PATIENCE: Duration = Duration::from_secs(30);
    let name = held.name().clone();
    let until = held
        .locked_until()
        .and_then(output::instant)
        .unwrap_or_else(|| "lock_at_most_for is over".to_owned());
    let give_up = SystemClock.now() + PATIENCE;
    let released = tokio::select! {
        released = held.unlock() => Some(released),
        () = SystemClock.sleep_until(give_up) => None,
        () = asked_to_end(signals) => None,
    };
    let why = match released {
        Some(Release::Failed(error)) => with_causes(&error),
        None => format!("lock {:?}: the store did not answer", name.as_str()),
        // Lost is told with the reason for which the command was stopped.
        Some(_) => return,
    };
    terminal.error(&format!(
        "{why}; the command has ended, but the lock stays taken until {until}"
    ));
}

async fn asked_to_end(signals: &mut Signals) {
    while !asks_to_end(signals.next().await) {}
}

/// Says what the exit code alone does not.
fn explain(ended: &Ended, args: &RunArgs, terminal: Terminal) {
    let name = &args.name;
    match ended.stopped {
        Some(StopReason::Deadline) if args.keep_alive => terminal.error(&format!(
            "{name}: the lease could not be extended in time, so the command was stopped before it \
             ended"
        )),
        Some(StopReason::Deadline) => terminal.error(&format!(
            "{name}: the command ran into the end of its lease and was stopped; raise \
             --lock-at-most-for if it needs longer, or let --keep-alive extend the lease"
        )),
        Some(StopReason::RanTooLong) => terminal.error(&format!(
            "{name}: the command ran longer than --max-run-time and was stopped"
        )),
        Some(StopReason::LeaseLost) => terminal.error(&format!(
            "{name}: the lease was not ours any more (somebody freed the lock by force, or changed \
             its record), so the command was stopped"
        )),
        Some(StopReason::WatchdogGone) => terminal.error(&format!(
            "{name}: the watchdog was killed, so the command was stopped"
        )),
        Some(StopReason::LeftBehind) => terminal.notice(&format!(
            "{name}: the command left processes behind; they were stopped before the lock was \
             given back"
        )),
        Some(StopReason::HolderGone) | None => {}
    }
    if !ended.survivors.is_empty() {
        let pids: Vec<String> = ended.survivors.iter().map(i32::to_string).collect();
        terminal.error(&format!(
            "{name}: these processes of the command could not be stopped, and may run while \
             somebody else holds the lock: {}",
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
