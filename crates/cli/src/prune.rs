//! `shedlock prune`: removing the records of locks that are no longer used.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use glob::Pattern;
use shedlock::{
    Clock, JobRecord, JobsRequest, Journal, KeepReason, ListRequest, LockName, LockRecord,
    PruneRequest, Pruned, RunsRequest, Slot, SystemClock, admin, scheduler,
};

use crate::args::PruneArgs;
use crate::audit::{Action, Trail};
use crate::exit::{ABSENT, Failure};
use crate::journal;
use crate::output::{self, PrunedLocks, visible};
use crate::pause::Typed;
use crate::store::{Store, no_such_lock};
use crate::terminal::Terminal;
use crate::words;

/// Removes the records of the locks that were named, then of all that match. Without `--yes` it shows
/// them.
pub(crate) async fn prune(args: &PruneArgs, terminal: Terminal) -> Result<ExitCode, Failure> {
    let typed = args.names.iter().map(|text| Typed::read(text));
    let typed: Vec<Typed> = typed.collect::<Result<_, _>>()?;
    let store = Store::open_existing(&args.store, terminal).await?;
    let journal = journal::if_any(&store).await?;
    let mut removal = Removal {
        args,
        store: &store,
        scheduled: match &journal {
            Some(journal) => scheduled(&**journal).await?,
            None => Vec::new(),
        },
        journal,
        trail: Trail::of(&store, terminal),
        terminal,
        locks: PrunedLocks::new(store.provider().store(), args.yes, args.output.format),
        seen: 0,
        kept: 0,
        remembered: 0,
        is_explained: false,
        is_complete: true,
    };
    let result = removal.of(typed).await;
    // What was removed is printed before the failure is.
    if result.is_ok() || removal.locks.count() > 0 {
        terminal.print(&removal.locks.end())?;
        if removal.locks.count() > 0 || !removal.is_explained {
            terminal.notice(&removal.summary());
        }
    }
    result?;
    Ok(match removal.is_complete {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(ABSENT),
    })
}

/// The jobs that are registered with a schedule.
async fn scheduled(journal: &dyn Journal) -> Result<Vec<JobRecord>, Failure> {
    let mut jobs = Vec::new();
    let mut request = JobsRequest::new().with_limit(1_000);
    loop {
        let page = journal.jobs(&request).await?;
        let is_last = page.len() < request.limit();
        let next = page.last().map(|last| last.job.clone());
        jobs.extend(page.into_iter().filter(|job| job.schedule.is_some()));
        match next {
            Some(next) if !is_last => request = request.with_after(next),
            _ => return Ok(jobs),
        }
    }
}

/// How long after it a host may ask for this slot of the job: for two periods of its schedule.
fn asked_for(job: &JobRecord, slot: Slot) -> Duration {
    let next = |after| scheduler::next_slot(job, after);
    let second = next(slot.instant()).and_then(next);
    let length = second.and_then(|second| second.duration_since(slot.instant()).ok());
    length.unwrap_or(PruneRequest::SLOTS_ASKED_FOR)
}

struct Removal<'a> {
    args: &'a PruneArgs,
    store: &'a Store,
    journal: Option<Arc<dyn Journal>>,
    /// The jobs that the journal has with a schedule.
    scheduled: Vec<JobRecord>,
    trail: Trail,
    terminal: Terminal,
    locks: PrunedLocks<'a>,
    /// How many records were looked at.
    seen: usize,
    /// Those that are idle and must be kept all the same.
    kept: usize,
    /// Those of them that only ShedLock for Java keeps.
    remembered: usize,
    /// Whether a line about each name and pattern says already that nothing is removed.
    is_explained: bool,
    /// Whether the record of each lock that was named is removed, or would be.
    is_complete: bool,
}

impl Removal<'_> {
    async fn of(&mut self, typed: Vec<Typed>) -> Result<(), Failure> {
        let is_for_all = typed.is_empty();
        let (mut names, mut patterns) = (Vec::new(), Vec::new());
        for typed in typed {
            match typed {
                Typed::Name(name) => names.push(name),
                Typed::Pattern(pattern) => match self.exactly(&pattern).await? {
                    Some(name) => names.push(name),
                    None => patterns.push(pattern),
                },
            }
        }
        names.sort();
        names.dedup();
        for name in &names {
            self.named(name).await?;
        }
        if patterns.is_empty() && !is_for_all {
            self.is_explained = true;
            return Ok(());
        }
        let is_wanted = |lock: &LockRecord| {
            let name = lock.name.as_str();
            let is_new = names.binary_search(&lock.name).is_err();
            is_new && (is_for_all || patterns.iter().any(|it| it.matches(name)))
        };
        let before = self.seen;
        self.all(is_wanted).await?;
        // No error: a timer that prunes finds nothing most of the time.
        if self.seen == before && !is_for_all {
            self.is_explained = true;
            let patterns: Vec<_> = patterns
                .iter()
                .map(|it| format!("{:?}", it.as_str()))
                .collect();
            let (place, patterns) = (self.store.place(), patterns.join(" or "));
            self.terminal
                .notice(&format!("no lock in {place} matches {patterns}"));
        }
        Ok(())
    }

    /// The lock whose name is the pattern itself: a name may contain a star.
    async fn exactly(&self, pattern: &Pattern) -> Result<Option<LockName>, Failure> {
        let Ok(name) = LockName::new(pattern.as_str()) else {
            return Ok(None);
        };
        let found = self.store.provider().inspect(&name).await?;
        Ok(found.map(|record| record.name))
    }

    async fn named(&mut self, name: &LockName) -> Result<(), Failure> {
        let why = match self.store.provider().inspect(name).await? {
            None => Some(no_such_lock(self.store, &self.args.store)),
            Some(record) => {
                let kept = self.one(record).await?;
                kept.map(|(record, reason)| self.why_kept(&record, reason))
            }
        };
        if let Some(why) = why {
            let name = visible(name.as_str());
            self.terminal.error(&format!("{name}: not removed: {why}"));
            self.is_complete = false;
        }
        Ok(())
    }

    /// Reads one page of locks after the other, and forgets it before the next.
    async fn all(&mut self, is_wanted: impl Fn(&LockRecord) -> bool) -> Result<(), Failure> {
        let mut request = ListRequest::new();
        loop {
            let page = self.store.provider().list(&request).await?;
            let is_last = page.len() < request.limit();
            let next = page.last().map(|last| last.name.clone());
            for record in page {
                if is_wanted(&record) {
                    self.one(record).await?;
                }
            }
            match next {
                Some(next) if !is_last => request = request.with_after(next),
                _ => return Ok(()),
            }
        }
    }

    /// Removes this record, or shows that it would be removed. Returns it with the reason if it must
    /// be kept.
    async fn one(
        &mut self,
        record: LockRecord,
    ) -> Result<Option<(LockRecord, KeepReason)>, Failure> {
        self.seen += 1;
        let request = self.request(&record).await?;
        let capabilities = self.store.provider().capabilities();
        let now = record.read_at.unwrap_or_else(|| SystemClock.system_time());
        let used = record.last_used();
        let idle = used.and_then(|used| now.duration_since(used).ok());
        let is_idle = idle.is_some_and(|idle| idle >= self.args.idle_for);
        if let Some(reason) = request.refusal(&record, now, &capabilities) {
            let is_taken = reason == KeepReason::Taken;
            self.kept += usize::from(is_idle && !is_taken);
            self.remembered += usize::from(reason == KeepReason::RememberedByShedLock);
            return Ok(Some((record, reason)));
        }
        let removed = if self.args.yes {
            match admin::prune(&**self.store.provider(), &request).await? {
                Pruned::Removed(record) => {
                    self.record(&record).await;
                    record
                }
                Pruned::Kept { record, reason, .. } => {
                    return Ok(Some((record, reason)));
                }
                // Another process has just removed it.
                _ => return Ok(None),
            }
        } else {
            record
        };
        self.terminal.print(&self.locks.next(&removed))?;
        Ok(None)
    }

    /// Records a removal in the journal.
    async fn record(&mut self, lock: &LockRecord) {
        let used = lock.last_used().map(output::second);
        let action = Action {
            what: "prune",
            name: &lock.name,
            detail: used.map_or_else(String::new, |used| format!("not used since {used}")),
            reason: "",
            until: None,
        };
        self.trail.record(action).await;
    }

    /// The request to remove this record, with what the journal knows about the slots of its job.
    async fn request(&self, record: &LockRecord) -> Result<PruneRequest, Failure> {
        let mut request = PruneRequest::new(record.name.clone(), self.args.idle_for);
        if self.args.no_shedlock {
            request = request.without_shedlock();
        }
        let last = record.newest_slot();
        let (Some(last), Some(journal)) = (last, &self.journal) else {
            return Ok(request);
        };
        // The name of a lock need not show which job it belongs to.
        let name = record.name.as_str();
        let runs = RunsRequest::new().with_name(name).with_limit(1);
        let runs = journal.runs(&runs).await?;
        let is_its_job =
            |job: &&JobRecord| job.may_have(name) || runs.iter().any(|run| *run.job == *job.job);
        let jobs = self.scheduled.iter().filter(is_its_job);
        Ok(match jobs.map(|job| asked_for(job, last)).max() {
            Some(length) => request.with_slots_asked_for(length),
            None => request,
        })
    }

    fn why_kept(&self, lock: &LockRecord, reason: KeepReason) -> String {
        let name = output::shell_word(lock.name.as_str());
        match reason {
            KeepReason::Taken => format!("it is {}", output::state_in_words(lock.state)),
            KeepReason::SlotOpen => {
                let slot = lock.last_slot.map(|slot| slot.to_string());
                let slot = slot.unwrap_or_default();
                format!(
                    "its slot {slot} must not be lost and is not done; to give it up, run `shedlock \
                     slot reset {name} --to {slot}{}`",
                    words::store_option()
                )
            }
            KeepReason::UsedRecently => {
                let used = lock.last_used().map(output::second);
                format!(
                    "it was last used at {}, and --idle-for is {}",
                    used.unwrap_or_default(),
                    output::duration(self.args.idle_for)
                )
            }
            KeepReason::SlotAskedFor => {
                let slot = lock.newest_slot();
                let slot = slot.map(|slot| slot.to_string());
                format!(
                    "a late start may still ask for its slot {}, and would run it again; it is kept for \
                     two periods of its schedule, or for 400d if the journal has no schedule of it",
                    slot.unwrap_or_default()
                )
            }
            KeepReason::RememberedByShedLock => {
                "a ShedLock for Java that has asked for it would never create its record again, and would \
                 never run that job again, with no error; if none uses this store, add --no-shedlock"
                    .to_owned()
            }
            KeepReason::TokenAhead => {
                "its fencing token is ahead of the store's clock, and a new record would start with a \
                 smaller one; check that clock"
                    .to_owned()
            }
            _ => "its record does not show when it was last used".to_owned(),
        }
    }

    fn summary(&self) -> String {
        let (count, seen) = (self.locks.count(), self.seen);
        let idle = output::duration(self.args.idle_for);
        match count {
            0 if self.remembered > 0 => format!(
                "no record to remove: {seen} seen, {} of them idle for {idle} but kept; {} of these a \
                 running ShedLock for Java would never create again: if none uses this store, add \
                 --no-shedlock",
                self.kept, self.remembered
            ),
            0 if self.kept > 0 => format!(
                "no record to remove: {seen} seen, {} of them idle for {idle} but kept; give a name to \
                 see why",
                self.kept
            ),
            0 if seen == 0 => "no record to remove: there is none".to_owned(),
            0 => format!("no record to remove: {seen} seen, none of them idle for {idle}"),
            _ if self.args.yes => format!("removed {count} of {seen} records"),
            _ => format!(
                "would remove {count} of {seen} records: nothing was changed; to remove them, add \
                 --yes"
            ),
        }
    }
}
