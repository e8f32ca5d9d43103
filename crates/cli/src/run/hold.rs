//! `shedlock hold`: a lock without a command.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use shedlock::{
    Clock, Executor, HeldLock, LockRecord, LockState, Moment, Reading, Release, SystemClock,
};

use super::acquire::{Acquired, Keeps, acquire, first_to_end, settle};
use super::caller::{Caller, Change};
use super::events::Events;
use super::signals::{Signals, name_of};
use super::slot;
use super::{LOSS, code_of_signal, over, why_not_extended};
use crate::args::HoldArgs;
use crate::clock;
use crate::exit::{self, Failure};
use crate::output;
use crate::signals::never_stop_for_terminal;
use crate::terminal::Terminal;
use crate::unreleased::Unreleased;

/// Why a lock is held no longer.
enum End {
    /// A signal arrived, --for has passed, or the standard input has ended.
    Wanted,
    Lost,
    /// The process that started this one is gone. What it has started may still run.
    Left,
}

/// Takes the lock if it is free, and keeps it until a signal arrives or the time has passed.
pub(crate) async fn hold(args: &HoldArgs, terminal: Terminal) -> Result<ExitCode, Failure> {
    let claim = args.claim();
    claim.check(
        "NAME",
        "set it to the time after which the lock becomes free if this host dies, like 5m",
    )?;
    never_stop_for_terminal();
    let mut signals = Signals::listen_to_ends()
        .map_err(|error| Failure::new(exit::INTERNAL, format!("cannot handle signals: {error}")))?;
    let caller = match args.detached {
        true => None,
        false => Some(Caller::new().map_err(|error| {
            Failure::new(
                exit::INTERNAL,
                format!("cannot watch the standard input: {error}"),
            )
        })?),
    };
    let events = Arc::new(Events::new(
        terminal,
        "the lock is given up when the lease ends",
        false,
    ));
    let since = clock::now();
    let acquired = acquire(
        &claim,
        &claim.config(),
        &events,
        &mut signals,
        Keeps(None),
        terminal,
    )
    .await;
    let acquired = acquired.map_err(|failure| failure.not_taken(&args.name))?;
    let (held, executor) = match acquired {
        Acquired::Lock(taken) => (taken.held, taken.executor),
        Acquired::Skipped(skip, store) => {
            let why = slot::why(&skip, None);
            terminal.notice(&format!("{}: not acquired: {why}", args.name));
            terminal.print(&output::held(&store, None, args.lasts, args.output.format))?;
            return Ok(ExitCode::from(args.skip_exit_code));
        }
        Acquired::Interrupted(signal) => {
            let signal_name = name_of(signal);
            terminal.error(&format!(
                "{}: stopped by {signal_name} before it got the lock",
                args.name
            ));
            return Ok(ExitCode::from(code_of_signal(signal.as_raw())));
        }
    };
    let hold = Hold {
        args,
        terminal,
        events: &events,
        since,
    };
    hold.keep(held, &executor, caller, &mut signals).await
}

/// Waits until the lock is to be released, or is lost.
async fn kept(
    held: &HeldLock,
    until: Option<Moment>,
    caller: Option<Caller>,
    signals: &mut Signals,
) -> End {
    let passed = async {
        match until {
            Some(until) => SystemClock.sleep_until(until).await,
            None => std::future::pending().await,
        }
    };
    let changed = async {
        match caller {
            Some(caller) => caller.changed().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        _ = first_to_end(signals) => End::Wanted,
        () = passed => End::Wanted,
        change = changed => match change {
            Change::InputEnded => End::Wanted,
            Change::ParentGone => End::Left,
        },
        _ = held.lost() => End::Lost,
    }
}

/// A lock that is held without a command.
struct Hold<'a> {
    args: &'a HoldArgs,
    terminal: Terminal,
    events: &'a Events,
    /// When it was requested.
    since: Reading,
}

impl Hold<'_> {
    /// Prints the lock, and keeps it until it is to be released, or is lost.
    async fn keep(
        &self,
        held: HeldLock,
        executor: &Executor,
        caller: Option<Caller>,
        signals: &mut Signals,
    ) -> Result<ExitCode, Failure> {
        let (args, terminal) = (self.args, self.terminal);
        let until = args.lasts.map(|lasts| SystemClock.now() + lasts);
        let store = executor.provider().store();
        let text = output::held(store, Some(&record(&held)), args.lasts, args.output.format);
        let printed = terminal.print(&text);
        let end = match printed {
            Ok(()) => kept(&held, until, caller, signals).await,
            Err(_) => End::Wanted,
        };
        let code = self.end(end, held, signals).await;
        tokio::select! {
            () = settle(executor, &args.name, terminal) => {}
            _ = first_to_end(signals) => {}
        }
        printed.map(|()| ExitCode::from(code))
    }

    /// Releases the lock, unless it is lost. Returns the exit code.
    async fn end(&self, end: End, held: HeldLock, signals: &mut Signals) -> u8 {
        match end {
            End::Wanted => self.release(held, signals).await,
            End::Lost => self.lost(),
            End::Left => self.leave(held),
        }
    }

    /// Reports that the lease was lost, and why.
    fn lost(&self) -> u8 {
        let jumped = clock::now().jumped_since(self.since);
        let why = if self.events.is_lost() {
            LOSS.to_owned()
        } else if !jumped.is_zero() {
            over(jumped)
        } else {
            let why = why_not_extended(self.events.not_extended());
            format!("it could not be extended{why}")
        };
        let name = &self.args.name;
        self.terminal
            .error(&format!("{name}: the lease was lost: {why}"));
        exit::LOST
    }

    /// Leaves the lock taken until its lease ends.
    fn leave(&self, held: HeldLock) -> u8 {
        let name = &self.args.name;
        let lock = Unreleased::of(&held);
        let why = "the process that started this one is gone, and what it started may still run";
        held.leave_with(why);
        self.terminal.error(&format!(
            "{name}: the lock is not extended any more: {why}; {}",
            lock.fate(false)
        ));
        exit::LOST
    }

    async fn release(&self, held: HeldLock, signals: &mut Signals) -> u8 {
        const PATIENCE: Duration = Duration::from_secs(10);
        let name = &self.args.name;
        self.events.forget_store_error();
        let give_up = SystemClock.now() + PATIENCE;
        let lock = Unreleased::of(&held);
        let why = tokio::select! {
            biased;
            released = held.unlock() => match released {
                Release::Lost => return self.lost(),
                Release::MaybeOverlapped => {
                    self.terminal.error(&format!(
                        "{name}: the reply to the unlock was lost, and another owner has had the lock since: it may have \
                         taken it before the unlock"
                    ));
                    return exit::LOST;
                }
                Release::Failed(error) => format!("{error:#}"),
                _ => return 0,
            },
            signal = first_to_end(signals) => format!("{} arrived", name_of(signal)),
            () = SystemClock.sleep_until(give_up) => {
                format!("gave up after {}", output::duration(PATIENCE))
            }
        };
        self.terminal.error(&format!(
            "{name}: the lock was not released: {why}; {}",
            lock.fate(false)
        ));
        exit::STORE
    }
}

/// The lock as its holder sees it.
fn record(held: &HeldLock) -> LockRecord {
    let lease = held.lease();
    let mut record = LockRecord::new(held.name().clone(), LockState::Held);
    record.owner = Some(held.owner().as_str().to_owned());
    record.locked_at = lease.acquired_at();
    record.locked_until = lease.locked_until();
    record.fencing_token = lease.fencing_token();
    record
}
