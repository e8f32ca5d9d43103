//! The events of locks as a log: the only place where they have words. A program that tells them itself
//! ([`Listener::tells`](crate::Listener::tells)) has its own.

use std::borrow::Cow;

use tracing::Level;

use crate::contract::NotUnlocked;
use shedlock_support::text;

use crate::contract::{Error, Event, SkipReason};

/// Logs an event. A listener that tells events itself can leave to this those that it has no words for.
#[doc(hidden)]
pub fn tell(event: &Event<'_>) {
    let name = event.lock_name().as_str();
    let Some(Words { level, said, why }) = words(event) else {
        return;
    };
    log(level, name, event.owner().map(AsRef::as_ref), &said, why);
}

/// What the thread of the duties has done, or could not do, over a connection of its own. No listener is called there.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DutyEvent<'a> {
    /// A task runs on although its lease has ended (`true`), or its longest run.
    NotStopped(bool),
    ExtendFailed(&'a Error),
    /// A lease could not be ended, for good or so far.
    EndFailed(&'a Error, bool),
    Unlocked,
    Withdrawn,
}

pub(crate) fn tell_duty(lock: &str, owner: &str, event: DutyEvent<'_>) {
    use DutyEvent::{EndFailed, ExtendFailed, NotStopped, Unlocked, Withdrawn};
    let (level, said, why) = match event {
        NotStopped(true) => (
            Level::ERROR,
            "the lease has ended and its task has not stopped, probably because the task blocks its \
             thread: another process can take the lock now; run blocking work with execute_blocking \
             or spawn_blocking",
            None,
        ),
        NotStopped(false) => (
            Level::ERROR,
            "the maximum run time has passed and the task has not stopped, probably because it blocks \
             its thread: its lease is no longer extended; run blocking work with execute_blocking or \
             spawn_blocking",
            None,
        ),
        ExtendFailed(error) => (
            Level::WARN,
            "cannot extend the lease over a second connection, retrying",
            Some(error),
        ),
        EndFailed(error, true) => (
            Level::WARN,
            "cannot end a lease over a second connection; the lock will be free when lock_at_most_for \
             has passed",
            Some(error),
        ),
        EndFailed(error, false) => (
            Level::WARN,
            "cannot end a lease over a second connection, retrying",
            Some(error),
        ),
        Unlocked => (
            Level::INFO,
            "unlocked over a second connection: the runtime that dropped the lock had not done it",
            None,
        ),
        Withdrawn => (
            Level::INFO,
            "withdrew an attempt whose reply was lost, over a second connection",
            None,
        ),
    };
    log(level, lock, Some(owner), said, why);
}

fn log(level: Level, lock: &str, owner: Option<&str>, said: &str, why: Option<&Error>) {
    macro_rules! log {
        ($level:expr) => {
            tracing::event!(
                target: "shedlock_core::lock",
                $level,
                lock,
                owner,
                error = why.map(|error| format!("{:#}", error.cause(lock))),
                "{said}"
            )
        };
    }
    match level {
        Level::ERROR => log!(Level::ERROR),
        Level::WARN => log!(Level::WARN),
        Level::INFO => log!(Level::INFO),
        _ => log!(Level::DEBUG),
    }
}

struct Words<'a> {
    level: Level,
    said: Cow<'static, str>,
    why: Option<&'a Error>,
}

impl<'a> Words<'a> {
    fn new(level: Level, said: impl Into<Cow<'static, str>>) -> Self {
        let said = said.into();
        let why = None;
        Self { level, said, why }
    }

    fn because(self, why: impl Into<Option<&'a Error>>) -> Self {
        let why = why.into();
        Self { why, ..self }
    }
}

/// `None` for what the span of the task, or another event, shows.
fn words<'a>(event: &Event<'a>) -> Option<Words<'a>> {
    // Long: one table of words.
    const DEBUG: Level = Level::DEBUG;
    const WARN: Level = Level::WARN;
    const ERROR: Level = Level::ERROR;
    Some(match event {
        Event::Attempt { .. }
        | Event::TaskStarted { .. }
        | Event::TaskFinished { .. }
        | Event::SlotGivenUp { .. } => return None,
        Event::Acquired { .. } => Words::new(DEBUG, "lock acquired"),
        Event::Extended { .. } => Words::new(DEBUG, "lease extended"),
        Event::Unlocked { .. } => Words::new(DEBUG, "lock released"),
        Event::StoreError { error, .. } => Words::new(DEBUG, "the store failed").because(*error),
        Event::Waiting { is_news: false, .. } => return None,
        Event::Waiting { skip, .. } => Words::new(DEBUG, format!("waiting: {skip}")),
        Event::Skipped { skip, request } => {
            use SkipReason::{ClockBehind, LastSlotAhead, SlotGivenUp};
            match (skip.reason, request.slot) {
                // Only an operator can end these.
                (SlotGivenUp | ClockBehind | LastSlotAhead, Some(slot)) => {
                    Words::new(ERROR, format!("slot {slot} skipped: {skip}"))
                }
                _ => Words::new(DEBUG, format!("skipped: {skip}")),
            }
        }
        Event::SlotAttemptFailed { lease, attempt, of } => {
            let slot = lease.slot().map(|slot| format!(" {slot}"));
            let slot = slot.unwrap_or_default();
            let said = format!("attempt {attempt} of {of} at slot{slot} failed");
            match attempt < of {
                true => Words::new(WARN, said),
                false => Words::new(ERROR, said + ": the slot is given up"),
            }
        }
        Event::SlowRun {
            ran_for, slow_from, ..
        } => Words::new(
            WARN,
            format!(
                "the run took {}, and is slow from {} on: it came close to its time limit, at which it \
                 is stopped; raise lock_at_most_for (or max_run_time), or turn keep-alive on",
                text::duration(*ran_for),
                text::duration(*slow_from)
            ),
        ),
        Event::Lost { reason, .. } => Words::new(WARN, format!("the lease is lost: {reason}")),
        Event::ExtendFailed {
            error, is_final, ..
        } => match is_final {
            true => Words::new(
                ERROR,
                "cannot extend the lease; the task will be stopped before the lease ends",
            ),
            false => Words::new(WARN, "cannot extend the lease, retrying"),
        }
        .because(*error),
        Event::UnlockDelayed { error, .. } => Words::new(
            WARN,
            "cannot unlock; trying again in the background while the lease lasts",
        )
        .because(*error),
        Event::UnlockFailed { why, .. } => match why {
            NotUnlocked::HandedOver => return None,
            NotUnlocked::Left => Words::new(
                WARN,
                "the lock is left taken; it will be free when its lease ends",
            ),
            NotUnlocked::Failed(error) => Words::new(
                ERROR,
                "cannot unlock; the lock will be free when lock_at_most_for has passed",
            )
            .because(*error),
            NotUnlocked::NoRuntime => Words::new(
                WARN,
                "the runtime shut down before the unlock, or there was none; the lock will be free \
                 when lock_at_most_for has passed",
            ),
        },
        Event::TasksLeft { .. } => Words::new(
            ERROR,
            "a task spawned with the lock did not stop before the lease ended",
        ),
        Event::Withdrawn { .. } => {
            Words::new(Level::INFO, "withdrew an attempt whose reply was lost")
        }
        Event::WithdrawalFailed {
            error, is_final, ..
        } => match (error, is_final) {
            (None, _) => Words::new(
                WARN,
                "an attempt was dropped outside a tokio runtime and cannot be withdrawn; if it won, the \
                 lock will be free when lock_at_most_for has passed",
            ),
            (_, true) => Words::new(
                ERROR,
                "cannot withdraw an attempt, which keeps its lock until lock_at_most_for has passed if \
                 it won",
            ),
            _ => Words::new(WARN, "cannot withdraw an attempt, retrying"),
        }
        .because(*error),
    })
}
