//! The lock of a job that has ended, and that `run` does not release: it was killed, or has given up. The watchdog releases
//! it instead.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::time::Duration;

use rustix::stdio::{dup2_stderr, dup2_stdout};
use shedlock::{
    Attempt, AttemptRequest, Clock, Deadline, Error, ErrorKind, JournalEntry, LeaseClock,
    LockState, Moment, NotBefore, RunEnd, RunOutcome, SlotEnd, SystemClock, Unlock, UnlockRequest,
};

use super::ORPHANS_ARE_ADOPTED;
use super::heirloom::{Copies, Heirloom, SlotFate};
use super::protocol::{Ended, Status};
use crate::signals::end_at_once;
use crate::spool::{KeptRun, Spool};
use crate::terminal::Terminal;
use crate::unreleased::Unreleased;
use crate::words;
use crate::{clock, output};
use shedlock_support::Backoff;

/// A job that has ended, and whose lock `run` does not release.
#[derive(Debug)]
pub(super) struct Orphaned {
    pub(super) lock: Heirloom,
    pub(super) ended: Ended,
    /// Whether `run` was still there when the job ended, so that it may have released the lock itself.
    pub(super) is_reported: bool,
    /// When the lease ends for us.
    pub(super) ends_at: Deadline,
    /// Whether a signal had asked the command to end.
    pub(super) is_asked_to_end: bool,
    /// Whether the watchdog has sent an attempt of its own that got no reply.
    pub(super) has_unanswered: Cell<bool>,
    /// How the slot ends, if `run` has handed the release over. Otherwise it was killed.
    pub(super) handed_over: Option<SlotFate>,
}

/// The pause before a call that failed is made again.
const PAUSE: Duration = Duration::from_millis(250);
/// The same when it has failed for a while.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What became of the lock.
#[derive(Debug)]
enum Released {
    /// It was released. `lock_at_least_for` may keep it taken until this time.
    Done(Option<String>),
    /// Another owner has it, or it was freed.
    NotOurs,
}

/// Why the lock was not released.
struct Failed {
    why: String,
    /// Whether a later try may succeed.
    may_pass: bool,
}

impl Orphaned {
    /// The longest that this process keeps its terminal, or the pipe that it writes to, for the lock.
    const PATIENCE: Duration = Duration::from_secs(10);

    /// Releases the lock if nothing of the command can be left, and reports what happened, unless `run` does.
    pub(super) fn end(&self, terminal: Terminal) {
        crate::choose_crypto();
        words::set_store_option(self.lock.store_option.clone());
        let mut goes_on = self.handed_over.is_some();
        if !goes_on {
            let said;
            (said, goes_on) = self.settle();
            terminal.error(&said);
        }
        if goes_on && into_background().is_ok() {
            self.release_in_background();
        }
        if let Some(failed) = self.withdraw_copies() {
            terminal.error(&failed);
        }
    }

    /// Releases the lock of a `run` that was killed. Returns what happened, for the user, and whether to go on.
    fn settle(&self) -> (String, bool) {
        let name = &self.lock.name;
        let command = match self.ended.stopped {
            Some(_) => "the watchdog stopped its command",
            None => "its command has ended",
        };
        let released = match self.ended.stopped {
            Some(_) => "the watchdog stopped its command and released the lock",
            None => "its command has ended, and the watchdog released the lock",
        };
        let result = self.proof().and_then(|()| self.release());
        let is_lost = !self.is_reported && matches!(result, Ok(Released::NotOurs));
        self.record_end(is_lost);
        let said = match result {
            Ok(Released::Done(None)) => format!("{name}: `shedlock run` was killed; {released}"),
            Ok(Released::Done(Some(until))) => format!(
                "{name}: `shedlock run` was killed; {released}; \
                 --lock-at-least-for keeps it taken until {until}"
            ),
            Ok(Released::NotOurs) => format!(
                "{name}: `shedlock run` was killed; {command}; the lock was no longer held by it"
            ),
            Err(Failed { why, may_pass }) => {
                let lock = Unreleased {
                    name: name.clone(),
                    owner: self.lock.owner.clone(),
                    until: on_the_calendar(self.ends_at),
                    ends_at: self.ends_at,
                };
                let goes_on = may_pass && !lock.ends_soon();
                let fate = match goes_on {
                    true => lock.goes_on(),
                    false => lock.fate(false),
                };
                let said = format!(
                    "{name}: `shedlock run` was killed; {command}, but the lock was not released: \
                     {why}; {fate}"
                );
                return (said, goes_on);
            }
        };
        (said, false)
    }

    /// Tries until the lease ends. The store may be away for longer than anyone waits for.
    fn release_in_background(&self) {
        let released = async {
            let mut backoff = Backoff::new(PAUSE, LONGEST_PAUSE);
            while self.try_release().await.is_err() {
                SystemClock
                    .sleep_until(SystemClock.now() + backoff.take())
                    .await;
            }
        };
        let lease = LeaseClock::system();
        let _ = block_on(async {
            tokio::select! {
                () = released => {}
                () = lease.sleep_until(self.ends_at) => {}
            }
        });
    }

    /// Withdraws what copies of attempts take that arrive only now, as `run` would have done. Returns what the user must
    /// know if that fails.
    fn withdraw_copies(&self) -> Option<String> {
        let mut copies = self.lock.copies.clone();
        if self.has_unanswered.get() {
            copies.push(Copies {
                owner: self.lock.owner.clone(),
                left: AttemptRequest::DEFAULT_TIMEOUT,
            });
        }
        copies.sort_by_key(|copies| copies.left);
        let longest = copies.last()?.left;
        let is_withdrawn = block_on(async {
            // The times are counted once more from now: when they began is not known here.
            let now = SystemClock.now();
            let give_up = NotBefore::after(now, longest).later_by(Self::PATIENCE);
            let withdrawn = async {
                for copies in &copies {
                    NotBefore::after(now, copies.left).wait(&SystemClock).await;
                    self.withdraw_until_answered(&copies.owner).await;
                }
            };
            tokio::select! {
                () = withdrawn => true,
                () = give_up.wait(&SystemClock) => false,
            }
        });
        (!is_withdrawn.ok()?).then(|| {
            format!(
                "{}: the store still does not reply; if a copy of the attempt takes the lock, the \
                 lock becomes free after --lock-at-most-for",
                self.lock.name
            )
        })
    }

    async fn withdraw_until_answered(&self, owner: &str) {
        while self.try_withdraw(owner).await.is_err() {
            SystemClock.sleep_until(SystemClock.now() + PAUSE).await;
        }
    }

    async fn try_withdraw(&self, owner: &str) -> Result<(), Error> {
        // Their slot was run, and must not be given back.
        let request = self.lock.request_of(owner)?.without_slot();
        self.lock.store.open().await?.withdraw(&request).await?;
        Ok(())
    }

    /// Whether no process of the command can be left.
    fn proof(&self) -> Result<(), Failed> {
        let why = if self.ended.survivors.are_left() {
            self.ended.survivors.to_string()
        } else if !ORPHANS_ARE_ADOPTED {
            "this system does not report whether all its processes have ended".to_owned()
        } else {
            return Ok(());
        };
        let may_pass = false;
        Err(Failed { why, may_pass })
    }

    fn release(&self) -> Result<Released, Failed> {
        let left = self.ends_at.left(clock::now());
        let patience = Self::PATIENCE.min(left);
        let released = block_on(async {
            let give_up = SystemClock.now() + patience;
            tokio::select! {
                released = self.release_until(give_up) => released.map_err(|error| Failed {
                    why: format!("{error:#}"),
                    may_pass: error.is_retryable(),
                }),
                () = SystemClock.sleep_until(give_up) => Err(Failed {
                    why: format!("the store did not reply within {}", output::duration(patience)),
                    may_pass: true,
                }),
            }
        });
        released.unwrap_or_else(|error| {
            Err(Failed {
                why: error.to_string(),
                may_pass: false,
            })
        })
    }

    /// Retries while the store is unavailable.
    async fn release_until(&self, give_up: Moment) -> Result<Released, Error> {
        loop {
            match self.try_release().await {
                Err(error) if error.is_retryable() && SystemClock.now() + PAUSE < give_up => {
                    SystemClock.sleep_until(SystemClock.now() + PAUSE).await;
                }
                released => return released,
            }
        }
    }

    /// An attempt that is repeated returns the lease that it won, so this one returns the lease of `run`, with the data
    /// that the store needs to end it. If its reply is lost, a copy may arrive after the lock was released, and take it.
    async fn try_release(&self) -> Result<Released, Error> {
        let request = self.lock.request()?;
        let provider = self.lock.store.open().await?;
        // If the lease is gone, the attempt could take the lock once more.
        let record = provider.inspect(&request.name).await?;
        let is_ours = record.is_some_and(|record| {
            record.state == LockState::Held && record.owner.as_deref() == Some(&self.lock.owner)
        });
        if !is_ours {
            return Ok(Released::NotOurs);
        }
        let had_unanswered = self.has_unanswered.replace(true);
        let attempt = provider.attempt(&request).await;
        let is_lost = |error: &Error| error.kind() == ErrorKind::OutcomeUnknown;
        let has_unanswered = had_unanswered || attempt.as_ref().is_err_and(is_lost);
        self.has_unanswered.set(has_unanswered);
        let Attempt::Acquired(lease) = attempt? else {
            return Ok(Released::NotOurs);
        };
        let unlock = UnlockRequest::new().with_slot_end(self.slot_end());
        Ok(match provider.unlock(&lease, &unlock).await? {
            Unlock::Unlocked => {
                let acquired = lease.acquired_at();
                let until = acquired.and_then(|at| at.checked_add(self.lock.lock_at_least_for));
                let until = until.filter(|until| *until > SystemClock.system_time());
                Released::Done(until.map(output::second))
            }
            _ => Released::NotOurs,
        })
    }

    /// Records in the journal, if there is one, how the run ended, which `run` could not do itself. If the journal cannot
    /// be reached, the end is kept for a later `shedlock`.
    fn record_end(&self, is_lost: bool) {
        const LIMIT: Duration = Duration::from_secs(2);
        let Some(legacy) = &self.lock.journal else {
            return;
        };
        let Some((mut run, next)) = legacy.run.record() else {
            return;
        };
        let (outcome, error) = self.outcome(is_lost);
        let ran_for = SystemClock.system_time().duration_since(legacy.handed_over);
        let error = error.filter(|_| legacy.has_errors);
        run.end = Some(RunEnd::new(ran_for.unwrap_or_default(), outcome, error));
        let next = next.filter(|_| outcome == RunOutcome::Succeeded);
        let entry = JournalEntry::run(run.clone(), next);
        let is_recorded = block_on(async {
            let recorded = async {
                let address = legacy.address.as_ref().unwrap_or(&self.lock.store);
                let Some(journal) = address.open().await?.journal() else {
                    return Ok(());
                };
                match journal.version().await? {
                    Some(_) => journal.record(&[entry]).await,
                    None => Ok::<_, Error>(()),
                }
            };
            tokio::select! {
                recorded = recorded => recorded.is_ok(),
                () = SystemClock.sleep_until(SystemClock.now() + LIMIT) => false,
            }
        });
        if !is_recorded.unwrap_or(false)
            && let (Some(spool), Some(journal)) = (Spool::of_user(), &legacy.identity)
        {
            // The line on stderr is about the lock, and a run without an end shows as such.
            let _ = spool.keep(journal, &[KeptRun::of(&run, next)]);
        }
    }

    /// How the run ended.
    fn outcome(&self, is_lost: bool) -> (RunOutcome, Option<String>) {
        const KILLED: &str = "`shedlock run` was killed";
        let failed = |why: String| (RunOutcome::Failed, Some(why));
        match (self.ended.stopped, self.ended.status) {
            _ if is_lost => {
                let why = format!("{KILLED}; the lease was lost before the command ended");
                (RunOutcome::Lost, Some(why))
            }
            (None, Some(Status::Exited(0))) => (RunOutcome::Succeeded, None),
            (None, Some(Status::Exited(code))) => failed(format!("exit code {code}")),
            (None, Some(Status::Signalled(signal))) => failed(format!("ended by signal {signal}")),
            _ if self.is_asked_to_end => (RunOutcome::Cancelled, None),
            _ => failed(format!("{KILLED}, and its command was stopped")),
        }
    }

    /// A run that was killed counts as an attempt, as if its host had died, unless a signal had asked it to end.
    fn slot_end(&self) -> SlotEnd {
        if let Some(fate) = self.handed_over {
            return fate.into();
        }
        match (self.ended.stopped, self.ended.status) {
            (None, Some(Status::Exited(0))) => SlotEnd::done(self.lock.must_not_be_lost),
            _ if self.is_asked_to_end => SlotEnd::Cut,
            _ => SlotEnd::Open,
        }
    }
}

/// Runs the future on a runtime of its own. A call that hangs then does not delay the end of this process.
fn block_on<T>(future: impl Future<Output = T>) -> io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(future);
    runtime.shutdown_background();
    Ok(result)
}

/// Closes stdout and stderr, since whoever reads them may wait for their end, and ends at the next signal that asks for it.
fn into_background() -> io::Result<()> {
    end_at_once()?;
    let null = File::options().write(true).open("/dev/null")?;
    dup2_stdout(&null)?;
    dup2_stderr(&null)?;
    Ok(())
}

/// The end of a lease as a date and time.
fn on_the_calendar(ends_at: Deadline) -> Option<String> {
    let left = ends_at.left(clock::now());
    let instant = SystemClock.system_time().checked_add(left)?;
    Some(format!("about {}", output::second(instant)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watchdog::{StopReason, Survivors};

    #[test]
    fn the_slot_of_a_killed_run_is_open_unless_its_command_had_succeeded() {
        let orphaned = |stopped, code, is_asked_to_end| Orphaned {
            lock: Heirloom::for_test(),
            ended: Ended {
                status: Some(Status::Exited(code)),
                stopped,
                survivors: Survivors::None,
            },
            is_reported: false,
            ends_at: clock::now().deadline(Duration::ZERO),
            is_asked_to_end,
            has_unanswered: Cell::default(),
            handed_over: None,
        };
        let gone = Some(StopReason::HolderGone);
        assert_eq!(orphaned(gone, 0, false).slot_end(), SlotEnd::Open);
        assert_eq!(orphaned(gone, 0, true).slot_end(), SlotEnd::Cut);
        assert_eq!(orphaned(None, 1, false).slot_end(), SlotEnd::Open);
        assert_eq!(orphaned(None, 0, false).slot_end(), SlotEnd::done(false));
    }

    #[test]
    fn a_lock_with_survivors_is_not_released_and_the_line_says_so() {
        let mut orphaned = Orphaned {
            lock: Heirloom::for_test(),
            ended: Ended {
                status: None,
                stopped: Some(StopReason::HolderGone),
                survivors: Survivors::Known(vec![7, 8]),
            },
            is_reported: false,
            ends_at: clock::now().deadline(Duration::from_secs(60)),
            is_asked_to_end: false,
            has_unanswered: Cell::default(),
            handed_over: None,
        };
        let (said, _) = orphaned.settle();
        let start = "a: `shedlock run` was killed; the watchdog stopped its command, but the lock was \
                     not released: these processes of the command could not be stopped: 7, 8; it \
                     stays taken until about 20";
        assert!(said.starts_with(start), "{said}");
        let owner = &orphaned.lock.owner;
        let end = format!("to free it sooner, run `shedlock unlock a --force --owner {owner}`");
        assert!(said.ends_with(&end), "{said}");

        orphaned.ended.survivors = Survivors::Unknown;
        let (said, _) = orphaned.settle();
        let why = "but the lock was not released: processes of the command may be left that cannot be found";
        assert!(said.contains(why), "{said}");
    }
}
