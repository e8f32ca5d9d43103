//! Taking the lock while watching for signals.

use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::process::Signal;
use shedlock::{
    Attempt, AttemptRequest, Clock, Executor, HeldLock, JournalWriter, LockConfig, Moment, Release,
    Skip, SlotEnd, SystemClock, UnlockRequest,
};
use shedlock_core::LastFailure;

use super::events::Events;
use super::signals::Signals;
use crate::args::{Claim, RunArgs};
use crate::exit::{self, Failure};
use crate::journal;
use crate::output::{self, shell_word};
use crate::restore::{SlotOf, refuse_lost};
use crate::signals::asks_to_end;
use crate::store::Store;
use crate::terminal::Terminal;
use crate::unreleased::Unreleased;

/// What is recorded in the journal: the run with these arguments, or nothing.
#[derive(Clone, Copy)]
pub(super) struct Keeps<'a>(pub(super) Option<&'a RunArgs>);

pub(super) enum Acquired {
    Lock(Taken),
    /// Why the lock cannot be taken, and the store's short name.
    Skipped(Skip, String),
    /// A signal asked this process to end before it got the lock. The command is not run.
    Interrupted(Signal),
}

/// A lock, and what took it.
pub(super) struct Taken {
    pub(super) held: HeldLock,
    pub(super) executor: Executor,
    pub(super) journal: Option<JournalWriter>,
    pub(super) store: Store,
}

/// Connects to the store and requests the lock.
///
/// A signal to end is obeyed immediately if the lock is waited for and the store has replied to each attempt. Otherwise it is
/// obeyed after a moment, in which the reply may still arrive and the lock be given back, and once copies without a reply
/// are withdrawn.
pub(super) async fn acquire(
    claim: &Claim<'_>,
    lock: &LockConfig,
    events: &Arc<Events>,
    signals: &mut Signals,
    keeps: Keeps<'_>,
    terminal: Terminal,
) -> Result<Acquired, Failure> {
    const PATIENCE: Duration = Duration::from_secs(2);
    let asked = OnceLock::new();
    let mut asking = Box::pin(ask(claim, lock, events, keeps, terminal, &asked));
    let interrupted = tokio::select! {
        biased;
        answer = &mut asking => {
            return answer;
        }
        signal = first_to_end(signals) => signal,
    };
    let give_up = match events.is_waiting() {
        true => SystemClock.now(),
        false => SystemClock.now() + PATIENCE,
    };
    let answer = tokio::select! {
        answer = &mut asking => answer.ok(),
        () = SystemClock.sleep_until(give_up) => None,
    };
    // An attempt without a reply is withdrawn from here on, and so are earlier ones.
    drop(asking);
    if let Some(Acquired::Lock(Taken { held, .. })) = answer {
        let request = UnlockRequest::new().with_slot_end(SlotEnd::NotStarted);
        let lock = Unreleased::of(&held);
        if let Release::Failed(error) = held.unlock_with(&request).await {
            terminal.error(&format!(
                "{}: the lock was not released: {}; {}",
                claim.name,
                format_args!("{:#}", error.cause(claim.name)),
                lock.fate(false)
            ));
        }
    }
    if let Some(executor) = asked.get() {
        tokio::select! {
            () = settle(executor, claim.name, terminal) => {}
            _ = first_to_end(signals) => {}
        }
    }
    Ok(Acquired::Interrupted(interrupted))
}

/// The next signal that asks this process to end.
pub(super) async fn first_to_end(signals: &mut Signals) -> Signal {
    loop {
        let signal = signals.next().await;
        if asks_to_end(signal) {
            signals.are_to_end = true;
            return signal;
        }
        // The other signals are meant for a running command, and none runs.
    }
}

async fn ask(
    claim: &Claim<'_>,
    lock: &LockConfig,
    events: &Arc<Events>,
    keeps: Keeps<'_>,
    terminal: Terminal,
    asked: &OnceLock<Executor>,
) -> Result<Acquired, Failure> {
    let wait_until = SystemClock.now() + lock.get_lock_wait();
    let store = open(claim, lock.get_lock_wait(), wait_until, terminal).await?;
    let provider = store.provider();
    claim.check_durations(&provider.defaults())?;
    let slot = lock.get_slot().map(|slot| SlotOf {
        slot,
        must_not_be_lost: keeps.0.is_some_and(|args| args.must_not_be_lost),
    });
    let writer = keeps.0.and_then(|args| journal::writer(&store, args));
    refuse_lost(&store, claim.name, slot, writer.as_ref()).await?;
    let executor = Executor::new(provider.clone())
        .defaults(claim.defaults())
        .listener(events.clone());
    let executor = match &writer {
        Some(writer) => executor.journal(writer),
        None => executor,
    };
    let executor = asked.get_or_init(|| executor).clone();
    let at_most = lock
        .resolve(&[&claim.defaults(), &provider.defaults()])?
        .lock_at_most_for;
    let mut job = keeps
        .0
        .and_then(|args| journal::registration(args, at_most));
    if let (Some(writer), Some(job)) = (&writer, &job) {
        writer.register_if_elsewhere(job.clone());
    }
    let wait = wait_until.saturating_since(SystemClock.now());
    let answer = executor.lock(&lock.clone().lock_wait(wait)).await;
    if let Ok(Attempt::Acquired(held)) = answer {
        if let (Some(writer), Some(job)) = (&writer, job.take()) {
            writer.register(job);
        }
        return Ok(Acquired::Lock(Taken {
            held,
            executor,
            journal: writer,
            store,
        }));
    }
    settle(&executor, claim.name, terminal).await;
    if let Some(writer) = &writer {
        journal::flush_elsewhere(writer, claim.name, terminal).await;
    }
    match answer? {
        Attempt::Skipped(skip) => Ok(Acquired::Skipped(skip, provider.store().to_owned())),
        _ => unreachable!("a lock is acquired or skipped"),
    }
}

/// Waits until no copy of an attempt whose reply was lost can take the lock after this process has ended. Does not wait
/// for a store that stays unavailable.
pub(super) async fn settle(executor: &Executor, name: &str, terminal: Terminal) {
    // Copies arrive for as long as a call may take. The store then has as long again to answer.
    let skew = executor.provider().capabilities().server_skew;
    let limit = AttemptRequest::DEFAULT_TIMEOUT.saturating_mul(2) + skew;
    let give_up = SystemClock.now() + limit;
    let mut settled = pin!(executor.settled());
    let is_settled = tokio::select! {
        biased;
        () = &mut settled => true,
        () = std::future::ready(()) => false,
    };
    if is_settled {
        return;
    }
    terminal.notice(&format!(
        "{name}: the store did not reply to an attempt in time; waiting up to {} s to withdraw the \
         attempt, because it may still take the lock",
        limit.as_secs()
    ));
    tokio::select! {
        () = settled => {}
        () = SystemClock.sleep_until(give_up) => terminal.error(&format!(
            "{name}: the store still does not reply; if the attempt takes the lock, the lock \
             becomes free after --lock-at-most-for, and the slot of a --schedule is used up; to run \
             that slot, run `shedlock slot reset {}`",
            shell_word(name)
        )),
    }
}

/// Connects to the store. Retries if it cannot be reached and the lock is waited for. The wait then bounds each
/// connection too, but leaves it enough time for a store that replies.
async fn open(
    claim: &Claim<'_>,
    wait: Duration,
    wait_until: Moment,
    terminal: Terminal,
) -> Result<Store, Failure> {
    const PAUSE: Duration = Duration::from_secs(1);
    const LEAST: Duration = Duration::from_secs(1);
    let mut last = LastFailure::default();
    loop {
        let left = wait_until.saturating_since(SystemClock.now());
        let limit = (!wait.is_zero()).then(|| left.max(LEAST));
        let opened = Store::open_to_lock(claim.store, terminal, limit).await;
        let failure = match opened {
            Ok(store) => return Ok(store),
            Err(failure) => failure,
        };
        let now = SystemClock.now();
        if !failure.may_pass() || wait.is_zero() {
            return Err(failure);
        }
        // Between two attempts at a slot, another wait applies.
        let option = if claim.wait == Some(wait) {
            " (--lock-wait)"
        } else {
            ""
        };
        if now >= wait_until {
            let why = failure.cause(claim.name);
            // The last attempt may have taken longer than the wait.
            let waited = wait + now.saturating_since(wait_until);
            let beyond_tenths = Duration::from_nanos((waited.subsec_nanos() % 100_000_000).into());
            let waited = match waited.as_secs() {
                0 => waited,
                _ => waited - beyond_tenths,
            };
            let option = if option.is_empty() {
                String::new()
            } else {
                format!(" (--lock-wait {})", output::duration(wait))
            };
            return Err(Failure::new(
                exit::STORE,
                format!("gave up after {}{option}: {why}", output::duration(waited)),
            ));
        }
        let error = failure.into_error();
        if last.is_news(&error) {
            terminal.notice(&format!(
                "{}: waiting, and retrying until {wait:?} have passed{option}: {:#}",
                claim.name,
                error.cause(claim.name)
            ));
        }
        SystemClock.sleep_until((now + PAUSE).min(wait_until)).await;
    }
}
