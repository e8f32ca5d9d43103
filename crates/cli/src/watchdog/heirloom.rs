//! The lock of a job whose `run` was killed: the watchdog releases it in place of `run`.

use std::cell::Cell;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use shedlock::{
    Attempt, AttemptRequest, Clock, Completion, Deadline, Error, ErrorKind, JournalEntry, LockName,
    LockState, Moment, NotBefore, Owner, RunEnd, RunOutcome, Slot, SlotEnd, SystemClock,
    Unanswered, Unlock, UnlockRequest,
};

use super::ORPHANS_ARE_ADOPTED;
use super::protocol::{Ended, Status};
use crate::spool::{KeptRun, Spool};
use crate::store::Address;
use crate::unreleased::Unreleased;
use crate::{clock, output};

/// What another process needs to release a lock. It may contain the store's password, so it is sent over a socket only.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Heirloom {
    pub(crate) store: Address,
    /// What the journal gets, if there is one.
    pub(crate) journal: Option<Legacy>,
    /// The option that selects the store, for a command that a message quotes.
    pub(crate) store_option: String,
    pub(crate) name: String,
    pub(crate) owner: String,
    pub(crate) lock_at_most_for: Duration,
    pub(crate) lock_at_least_for: Duration,
    pub(crate) slot: Option<i64>,
    pub(crate) slot_tolerance: Duration,
    pub(crate) must_not_be_lost: bool,
    /// What `run` would have withdrawn.
    pub(crate) copies: Vec<Copies>,
}

/// A run whose end this process must record.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Legacy {
    /// Where the journal is, if it is not in the store of the lock.
    pub(crate) address: Option<Address>,
    /// The identity of the journal, if `run` had reached it.
    pub(crate) identity: Option<String>,
    /// The run as it started.
    pub(crate) run: KeptRun,
    /// Whether the journal keeps the errors of runs.
    pub(crate) has_errors: bool,
    /// When `run` handed this over, by the clock of this host: the command starts then.
    pub(crate) handed_over: SystemTime,
}

/// Copies of an attempt whose replies were lost.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Copies {
    owner: String,
    /// For how long they may still arrive.
    left: Duration,
}

/// A job that has ended, and whose `run` is gone.
#[derive(Debug)]
pub(super) struct Orphaned {
    pub(super) lock: Heirloom,
    pub(super) ended: Ended,
    /// When the lease ends for us.
    pub(super) ends_at: Deadline,
    /// Whether a signal had asked the command to end.
    pub(super) is_asked_to_end: bool,
    /// Whether the watchdog has sent an attempt of its own that got no reply.
    pub(super) has_unanswered: Cell<bool>,
}

/// The pause before a call that failed is made again.
const PAUSE: Duration = Duration::from_millis(250);

/// What became of the lock.
#[derive(Debug)]
enum Released {
    /// It was released. `lock_at_least_for` may keep it taken until this time.
    Done(Option<String>),
    /// Another owner has it, or it was freed.
    NotOurs,
}

impl Orphaned {
    /// The longest that this process stays for the lock.
    const PATIENCE: Duration = Duration::from_secs(10);

    /// Releases the lock if nothing of the command can be left. Returns what happened, for the user.
    pub(super) fn settle(&self) -> String {
        let name = &self.lock.name;
        let command = match self.ended.stopped {
            Some(_) => "the watchdog stopped its command",
            None => "its command has ended",
        };
        let released = match self.ended.stopped {
            Some(_) => "the watchdog stopped its command and released the lock",
            None => "its command has ended, and the watchdog released the lock",
        };
        let result = match self.proof() {
            Ok(()) => self.release(),
            Err(why) => Err(why),
        };
        let is_lost = matches!(result, Ok(Released::NotOurs));
        self.record_end(is_lost);
        match result {
            Ok(Released::Done(None)) => format!("{name}: `shedlock run` was killed; {released}"),
            Ok(Released::Done(Some(until))) => format!(
                "{name}: `shedlock run` was killed; {released}; \
                 --lock-at-least-for keeps it taken until {until}"
            ),
            Ok(Released::NotOurs) => format!(
                "{name}: `shedlock run` was killed; {command}; the lock was no longer held by it"
            ),
            Err(why) => {
                let lock = Unreleased {
                    name: name.clone(),
                    owner: self.lock.owner.clone(),
                    until: on_the_calendar(self.ends_at),
                    ends_at: self.ends_at,
                }
                .fate(None, false, &self.lock.store_option);
                format!(
                    "{name}: `shedlock run` was killed; {command}, but the lock was not released: \
                     {why}; {lock}"
                )
            }
        }
    }

    /// Withdraws what copies of attempts take that arrive only now, as `run` would have done. Returns what the user must
    /// know if that fails.
    pub(super) fn withdraw_copies(&self) -> Option<String> {
        let mut copies = self.lock.copies.clone();
        if self.has_unanswered.get() {
            copies.push(Copies {
                owner: self.lock.owner.clone(),
                left: AttemptRequest::DEFAULT_TIMEOUT,
            });
        }
        copies.sort_by_key(|copies| copies.left);
        let longest = copies.last()?.left;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .ok()?;
        let is_withdrawn = runtime.block_on(async {
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
        runtime.shutdown_background();
        (!is_withdrawn).then(|| {
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
    fn proof(&self) -> Result<(), String> {
        if self.ended.survivors.are_left() {
            return Err(self.ended.survivors.to_string());
        }
        if !ORPHANS_ARE_ADOPTED {
            return Err("this system does not report whether all its processes have ended".into());
        }
        Ok(())
    }

    fn release(&self) -> Result<Released, String> {
        crate::choose_crypto();
        let left = self.ends_at.left(clock::now());
        let patience = Self::PATIENCE.min(left);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        let released = runtime.block_on(async {
            let give_up = SystemClock.now() + patience;
            tokio::select! {
                released = self.release_until(give_up) => released.map_err(|error| format!("{error:#}")),
                () = SystemClock.sleep_until(give_up) => Err(format!(
                    "the store did not reply within {}",
                    output::duration(patience)
                )),
            }
        });
        // A hanging call must not delay the end.
        runtime.shutdown_background();
        released
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
        let record = provider.inspect(request.name()).await?;
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
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let Ok(runtime) = runtime else { return };
        let is_recorded = runtime.block_on(async {
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
        runtime.shutdown_background();
        if !is_recorded && let (Some(spool), Some(journal)) = (Spool::of_user(), &legacy.identity) {
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
        match (self.ended.stopped, self.ended.status) {
            (None, Some(Status::Exited(0))) => SlotEnd::done(self.lock.must_not_be_lost),
            _ if self.is_asked_to_end => SlotEnd::Cut,
            _ => SlotEnd::Open,
        }
    }
}

impl From<&Unanswered> for Copies {
    fn from(attempt: &Unanswered) -> Self {
        Self {
            owner: attempt.request.owner().as_str().to_owned(),
            left: attempt.left,
        }
    }
}

impl Heirloom {
    /// The attempt that won the lease.
    fn request(&self) -> Result<AttemptRequest, Error> {
        self.request_of(&self.owner)
    }

    /// An attempt at the lock by an owner of this `run`.
    fn request_of(&self, owner: &str) -> Result<AttemptRequest, Error> {
        let name = LockName::new(&self.name)?;
        let owner = Owner::parse(owner)?;
        let request = AttemptRequest::new(name, owner, self.lock_at_most_for)
            .with_lock_at_least_for(self.lock_at_least_for);
        let Some(slot) = self.slot else {
            return Ok(request);
        };
        let request = request
            .with_slot(Slot::from_micros(slot)?)
            .with_slot_tolerance(self.slot_tolerance);
        Ok(if self.must_not_be_lost {
            request.with_completion(Completion::on_success())
        } else {
            request
        })
    }

    #[cfg(test)]
    pub(super) fn for_test() -> Self {
        use std::time::UNIX_EPOCH;

        use shedlock::RunRecord;

        Self {
            store: Address::Url("postgres://u:geheim@h/d".to_owned()),
            journal: Some(Legacy {
                address: Some(Address::Url("mysql://u:geheim@h/d".to_owned())),
                identity: None,
                run: KeptRun::of(&RunRecord::new("a", "a", "h/1/ff", UNIX_EPOCH), None),
                has_errors: true,
                handed_over: UNIX_EPOCH,
            }),
            store_option: String::new(),
            name: "a".to_owned(),
            owner: "h/1/ff".to_owned(),
            lock_at_most_for: Duration::from_secs(60),
            lock_at_least_for: Duration::ZERO,
            slot: None,
            slot_tolerance: Duration::ZERO,
            must_not_be_lost: false,
            copies: Vec::new(),
        }
    }
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
    fn the_password_of_the_store_is_in_no_debug_output() {
        let lock = Heirloom::for_test();
        assert!(!format!("{lock:?}").contains("geheim"), "{lock:?}");
    }

    #[test]
    fn the_slot_of_a_killed_run_is_open_unless_its_command_had_succeeded() {
        let orphaned = |stopped, code, is_asked_to_end| Orphaned {
            lock: Heirloom::for_test(),
            ended: Ended {
                status: Some(Status::Exited(code)),
                stopped,
                survivors: Survivors::None,
            },
            ends_at: clock::now().deadline(Duration::ZERO),
            is_asked_to_end,
            has_unanswered: Cell::default(),
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
            ends_at: clock::now().deadline(Duration::from_secs(60)),
            is_asked_to_end: false,
            has_unanswered: Cell::default(),
        };
        orphaned.lock.store_option = " --store …".to_owned();
        let said = orphaned.settle();
        let start = "a: `shedlock run` was killed; the watchdog stopped its command, but the lock was \
                     not released: these processes of the command could not be stopped: 7, 8; it \
                     stays taken until about 20";
        assert!(said.starts_with(start), "{said}");
        let owner = &orphaned.lock.owner;
        let end =
            format!("to free it sooner, run `shedlock unlock a --force --owner {owner} --store …`");
        assert!(said.ends_with(&end), "{said}");

        orphaned.ended.survivors = Survivors::Unknown;
        let said = orphaned.settle();
        let why = "but the lock was not released: processes of the command may be left that cannot be found";
        assert!(said.contains(why), "{said}");
    }
}
