//! One turn: the lock, the command, and the end of both.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use shedlock::{
    Clock, HeldLock, LockConfig, Release, Skip, Slot, SlotEnd, SystemClock, UnlockRequest,
};

use super::acquire::{Acquired, acquire, first_to_end, settle};
use super::events::Events;
use super::job::Job;
use super::signals::{Signals, name_of};
use super::{code_of, explain, program, slot};
use crate::args::RunArgs;
use crate::exit::{self, Failure};
use crate::output;
use crate::terminal::Terminal;
use crate::watchdog::{Ended, StopReason};

/// What all turns of one `run` share.
pub(super) struct Runner<'a> {
    pub(super) args: &'a RunArgs,
    pub(super) terminal: Terminal,
    program: PathBuf,
    signals: Signals,
}

/// The result of a turn.
pub(super) enum Turn {
    /// Another owner has the lock or the slot.
    Skipped(Skip),
    /// A signal asked this process to end before it had the lock. The command was not run.
    Interrupted(Signal),
    /// The command was run.
    Ran(Ran),
}

/// The result of the command.
pub(super) struct Ran {
    /// The exit code for it.
    pub(super) code: u8,
    /// Which attempt at its slot it was, if attempts are counted.
    pub(super) attempt: Option<u32>,
    /// Whether a signal asked this process to end in the meantime.
    pub(super) is_asked_to_end: bool,
}

impl<'a> Runner<'a> {
    /// Checks everything that can be checked before anything happens.
    pub(super) fn prepare(
        args: &'a RunArgs,
        slot: Option<Slot>,
        terminal: Terminal,
    ) -> Result<Self, Failure> {
        let what_to_do = if args.keep_alive {
            "set it to the time that the lock may stay taken if this host dies, like 5m; with \
             --keep-alive, the command may run longer"
        } else {
            "set it longer than the command can take, like 10m or 1h30m; the command is stopped \
             before this time has passed, and if this host dies, the lock stays taken until it has \
             passed"
        };
        args.claim().check("--name", what_to_do)?;
        lock(args, slot, Duration::ZERO).validate()?;
        let program = program::find(&args.command[0])?;
        let signals = Signals::listen().map_err(|error| {
            Failure::new(exit::INTERNAL, format!("cannot handle signals: {error}"))
        })?;
        Ok(Self {
            args,
            terminal,
            program,
            signals,
        })
    }

    /// Runs the command if its lock is free, or becomes free within this time.
    pub(super) async fn turn(
        &mut self,
        slot: Option<Slot>,
        wait: Duration,
    ) -> Result<Turn, Failure> {
        let events = Arc::new(Events::new(self.terminal));
        let lock = lock(self.args, slot, wait);
        let claim = self.args.claim();
        let acquired = acquire(&claim, &lock, &events, &mut self.signals, self.terminal).await;
        let acquired = acquired.map_err(|failure| failure.not_started(&self.args.name));
        let (held, executor, store) = match acquired? {
            Acquired::Lock(held, executor, store) => (held, executor, store),
            Acquired::Skipped(skip, _) => return Ok(Turn::Skipped(skip)),
            Acquired::Interrupted(signal) => return Ok(Turn::Interrupted(signal)),
        };
        let attempt = held.slot_attempt();
        let mut job = Job::new(self.args, &self.program, store, &events, &mut self.signals);
        let ended = job.run(&held, &**executor.provider()).await;
        let asked = job.asked_to_end();
        let is_lost = self.release(held, &events, &ended, asked.is_some()).await;
        tokio::select! {
            () = settle(&executor, &self.args.name, self.terminal) => {}
            _ = first_to_end(&mut self.signals) => {}
        }
        let ended = ended?;
        explain(&ended, asked, self.args, self.terminal);
        Ok(Turn::Ran(Ran {
            code: if is_lost { exit::LOST } else { code_of(&ended) },
            attempt,
            is_asked_to_end: asked.is_some(),
        }))
    }

    /// Gives the lock back. Returns whether that found the lease lost although the command ended by itself. In any other
    /// case the command's exit code counts, since the command has run.
    ///
    /// A slot that must not be lost is done if the command succeeded. If the command failed, the slot waits for its
    /// backoff. If the command was asked to end, other hosts may take the slot immediately, and the run does not count.
    /// If the command never ran, any slot is given back.
    async fn release(
        &mut self,
        held: HeldLock,
        events: &Events,
        ended: &Result<Ended, Failure>,
        has_signal: bool,
    ) -> bool {
        // Calls to an unavailable store are retried. The caller waits for its command, not for that.
        const PATIENCE: Duration = Duration::from_secs(10);
        let name = held.name().clone();
        let until = held
            .locked_until()
            .and_then(output::instant)
            .unwrap_or_else(|| "--lock-at-most-for has passed".to_owned());
        let give_up = SystemClock.now() + PATIENCE;
        events.forget_store_error();
        let unlock = async {
            match ended.as_ref().map(code_of) {
                Err(_) => {
                    held.unlock_with(&UnlockRequest::new().with_slot_end(SlotEnd::NotStarted))
                        .await
                }
                Ok(0) => held.unlock().await,
                Ok(_) if has_signal => {
                    held.unlock_with(&UnlockRequest::new().with_slot_end(SlotEnd::Cut))
                        .await
                }
                Ok(_) => held.fail().await,
            }
        };
        let command = match ended {
            Ok(_) => "the command has ended",
            Err(_) => "the command was not started",
        };
        let mut last_error = None;
        let released = tokio::select! {
            biased;
            released = unlock => Ok(released),
            signal = first_to_end(&mut self.signals) => Err(format!("; {} arrived", name_of(signal))),
            () = SystemClock.sleep_until(give_up) => {
                Err(format!("; gave up after {}", output::duration(PATIENCE)))
            }
            () = retrying(events, &mut last_error, |why| self.terminal.notice(&format!(
                "{name}: {command}; cannot release the lock yet, retrying for up to {}: {}",
                output::duration(PATIENCE),
                without_lock(why, name.as_str()),
            ))) => {
                unreachable!("it retries until something else happens")
            }
        };
        let why = match released {
            Ok(Release::Failed(error)) => format!("{error:#}"),
            Ok(Release::Lost) => return self.report_loss(name.as_str(), ended),
            Ok(_) => return false,
            Err(end) => last_error.unwrap_or_else(|| NO_REPLY.to_owned()) + &end,
        };
        self.terminal.error(&format!(
            "{name}: the lock was not released: {}; {command}, but the lock stays taken until \
             {until}; to free it sooner, run `shedlock unlock {} --force{}`",
            without_lock(&why, name.as_str()),
            output::shell_word(name.as_str()),
            self.args.store.option()
        ));
        false
    }

    /// Reports a loss that is found when the lock is given back. Returns false if the command was stopped or did not
    /// start: the reason for that is reported.
    fn report_loss(&self, name: &str, ended: &Result<Ended, Failure>) -> bool {
        let Some(ended) = ended.as_ref().ok().filter(|ended| is_uncut(ended)) else {
            return false;
        };
        self.terminal.error(&format!(
            "{name}: the lease was lost before the command ended (the lock was freed by force, or \
             its record was changed): another run may have overlapped this one; the command \
             exited with {}",
            code_of(ended)
        ));
        true
    }
}

fn lock(args: &RunArgs, slot: Option<Slot>, wait: Duration) -> LockConfig {
    let lock = args.claim().config().lock_wait(wait);
    match slot {
        Some(slot) => slot::claimed_by(lock, slot, args),
        None => lock,
    }
}

/// Whether the command ended by itself or by a signal to it, so that nothing has reported a loss of its lease yet.
fn is_uncut(ended: &Ended) -> bool {
    use StopReason::{IgnoredSignal, LeftBehind, SecondSignal};
    matches!(
        ended.stopped,
        None | Some(LeftBehind | IgnoredSignal | SecondSignal)
    )
}

const NO_REPLY: &str = "the store does not reply";

/// Reports once that the unlock is not done yet, and remembers the last reason. Never completes.
async fn retrying(events: &Events, last_error: &mut Option<String>, report: impl FnOnce(&str)) {
    const SILENCE: Duration = Duration::from_secs(1);
    *last_error = tokio::select! {
        error = events.store_error() => Some(error),
        () = SystemClock.sleep_until(SystemClock.now() + SILENCE) => None,
    };
    report(last_error.as_deref().unwrap_or(NO_REPLY));
    loop {
        *last_error = Some(events.store_error().await);
    }
}

/// An error without the lock, which the message names already.
fn without_lock<'a>(why: &'a str, name: &str) -> &'a str {
    let why = why
        .strip_prefix(&format!("lock {name:?} in "))
        .unwrap_or(why);
    why.strip_suffix(", then retry").unwrap_or(why)
}
