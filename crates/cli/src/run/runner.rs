//! One turn: the lock, the command, and the end of both.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use shedlock::{
    Clock, HeldLock, LockConfig, LockName, Release, Skip, Slot, SlotEnd, SystemClock, UnlockRequest,
};

use super::acquire::{Acquired, acquire, settle};
use super::events::Events;
use super::job::Job;
use super::signals::Signals;
use super::{code_of, explain, program, slot};
use crate::args::{AT_LEAST, AT_MOST, RunArgs, origin};
use crate::exit::{self, Failure};
use crate::output;
use crate::signals::asks_to_end;
use crate::store::sets_at_most;
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
        LockName::new(&args.name)
            .map_err(|error| Failure::usage(format!("--name: {}", error.message())))?;
        if let (Some(least), Some(most)) = (args.lock_at_least_for, args.lock_at_most_for)
            && least > most
        {
            let arguments: Vec<_> = std::env::args_os().collect();
            return Err(Failure::usage(format!(
                "{}: {} ({}) is longer than {} ({}): lower the first or raise the second",
                args.name,
                origin(AT_LEAST, &arguments),
                output::duration(least),
                origin(AT_MOST, &arguments),
                output::duration(most),
            )));
        }
        if args.lock_at_most_for.is_none() && !sets_at_most(&args.store)? {
            return Err(Failure::usage(format!(
                "{}: --lock-at-most-for is not set: set it longer than the command can take, like \
                 10m or 1h30m; the command is stopped before this time has passed, and if this \
                 host dies, the lock becomes free then",
                args.name
            )));
        }
        lock(args, slot, Duration::ZERO).validate()?;
        args.defaults().validate()?;
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
        let acquired = acquire(self.args, &lock, &events, &mut self.signals, self.terminal);
        let (held, executor, store) = match acquired.await? {
            Acquired::Lock(held, executor, store) => (held, executor, store),
            Acquired::Skipped(skip) => return Ok(Turn::Skipped(skip)),
            Acquired::Interrupted(signal) => return Ok(Turn::Interrupted(signal)),
        };
        let attempt = held.slot_attempt();
        let mut job = Job::new(self.args, &self.program, store, &events, &mut self.signals);
        let ended = job.run(&held).await;
        let asked = job.asked_to_end();
        let is_lost = self.release(held, &ended, asked.is_some()).await;
        tokio::select! {
            () = settle(&executor, &self.args.name, self.terminal) => {}
            () = told_to_end(&mut self.signals) => {}
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
        ended: &Result<Ended, Failure>,
        has_signal: bool,
    ) -> bool {
        // Calls to an unavailable store are retried. The caller waits for its command, not for that.
        const PATIENCE: Duration = Duration::from_secs(30);
        let name = held.name().clone();
        let until = held
            .locked_until()
            .and_then(output::instant)
            .unwrap_or_else(|| "--lock-at-most-for has passed".to_owned());
        let give_up = SystemClock.now() + PATIENCE;
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
        let released = tokio::select! {
            released = unlock => Some(released),
            () = SystemClock.sleep_until(give_up) => None,
            () = told_to_end(&mut self.signals) => None,
        };
        let why = match released {
            Some(Release::Failed(error)) => format!("{error:#}"),
            None => format!("lock {:?}: the store did not reply", name.as_str()),
            Some(Release::Lost) => return self.report_loss(name.as_str(), ended),
            Some(_) => return false,
        };
        self.terminal.error(&format!(
            "{why}; the command has ended, but the lock stays taken until {until}"
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
    let lock = args.lock().lock_wait(wait);
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

async fn told_to_end(signals: &mut Signals) {
    while !asks_to_end(signals.next().await) {}
}
