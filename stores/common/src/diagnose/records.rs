//! What the records themselves show.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use jiff::{Timestamp, Unit};
use shedlock_core::{
    Capabilities, Finding, ListRequest, LockProvider, LockRecord, LockState, Moment, Operation,
    Owner,
};
use shedlock_support::text::UNSEEN;

use crate::errors::Result;
use crate::list::collecting;
use crate::provider::StoreProvider;
use crate::store::Store;

/// How far a slot or an acquisition may be ahead of the store's clock: the default tolerance for slots.
const AHEAD: Duration = Duration::from_secs(60);
/// No lease is longer, except that of a pause.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);
/// The time between the two reads that show by which clock Java writes.
const BETWEEN: Duration = Duration::from_secs(2);
/// An open slot is tried again within minutes, unless it was given up or nothing runs its job any more.
const ABANDONED: Duration = Duration::from_secs(3_600);
/// Only a pause without an end has one this far away.
const OPEN_END: Duration = Duration::from_secs(5 * 366 * 86_400);
/// How many locks a finding names.
const NAMED: usize = 5;

/// What was found in the records, one text per lock.
#[derive(Debug, Default)]
pub(super) struct Records {
    count: usize,
    /// Names without case and blanks around them, with the names as they are.
    names: BTreeMap<String, Vec<String>>,
    endless: Vec<String>,
    slots_ahead: Vec<String>,
    acquired_ahead: Vec<String>,
    abandoned: Vec<String>,
    paused: Vec<String>,
    /// Who of ShedLock for Java took each of these locks last, and when; and when that was read.
    by_java: BTreeMap<String, Acquired>,
    other_clocks: Vec<String>,
    taken: usize,
    unreadable: Vec<String>,
}

/// An acquisition by ShedLock for Java.
#[derive(Debug)]
struct Acquired {
    owner: String,
    at: Option<SystemTime>,
    read_at: Option<SystemTime>,
}

/// Reads the records once more if Java uses some of them, a moment after they were read first: what has changed meanwhile
/// shows by which clock it was written.
pub(super) async fn again<S: Store>(
    provider: &StoreProvider<S>,
    first: Result<Records>,
    read_at: Moment,
) -> Result<Records> {
    let first = first?;
    if first.by_java.is_empty() {
        return Ok(first);
    }
    provider
        .backend()
        .clock()
        .sleep_until(read_at + BETWEEN)
        .await;
    let mut records = read_all(provider).await?;
    records.compare(&first);
    Ok(records)
}

pub(super) async fn read_all<S: Store>(provider: &StoreProvider<S>) -> Result<Records> {
    let (records, unreadable) = collecting(read_readable(provider)).await;
    let mut records = records?;
    records.unreadable = unreadable;
    Ok(records)
}

async fn read_readable<S: Store>(provider: &StoreProvider<S>) -> Result<Records> {
    let mut records = Records::default();
    let mut request = ListRequest::new();
    loop {
        let page = provider.list(&request).await?;
        for record in &page {
            records.add(record);
        }
        match page.last() {
            Some(last) if page.len() >= request.limit() => {
                request = request.with_after(last.name.clone());
            }
            _ => return Ok(records),
        }
    }
}

impl Records {
    fn add(&mut self, record: &LockRecord) {
        let name = record.name.as_str();
        self.count += 1;
        let alike = self.names.entry(name.trim().to_lowercase()).or_default();
        alike.push(format!("{name:?}"));
        let is_java = |owner: &String| !Owner::is_ours(owner) && record.pause().is_none();
        if let Some(owner) = record.owner.clone().filter(is_java) {
            let acquired = Acquired {
                owner,
                at: record.locked_at,
                read_at: record.read_at,
            };
            self.by_java.insert(name.to_owned(), acquired);
        }
        self.taken += usize::from(record.state == LockState::Taken);
        if let Some(pause) = record.pause() {
            let until = record.locked_until.map_or_else(String::new, |until| {
                let left = record
                    .read_at
                    .and_then(|now| until.duration_since(now).ok());
                let end = instant(until);
                if left > Some(OPEN_END) {
                    " until it is resumed".to_owned()
                } else {
                    format!(" until {end}")
                }
            });
            self.paused.push(format!("{name:?} {pause}{until}"));
        }
        let Some(now) = record.read_at else { return };
        let is_ahead = |time: SystemTime| time.duration_since(now).is_ok_and(|by| by > AHEAD);
        self.end(record, now);
        if let Some(slot) = record.last_slot.filter(|slot| is_ahead(slot.instant())) {
            self.slots_ahead
                .push(format!("{name:?} (last slot {slot})"));
        }
        if let Some(at) = record.locked_at.filter(|at| is_ahead(*at)) {
            let owner = record.owner.as_deref().unwrap_or_default();
            let at = instant(at);
            self.acquired_ahead
                .push(format!("{name:?} (at {at} by {owner:?})"));
        }
        let since = record
            .locked_until
            .and_then(|until| now.duration_since(until).ok());
        let is_abandoned = record.state == LockState::Free && since > Some(ABANDONED);
        if let (Some(attempts), Some(slot), true) =
            (record.slot_attempts, record.last_slot, is_abandoned)
        {
            self.abandoned
                .push(format!("{name:?} (slot {slot}, attempts: {attempts})"));
        }
    }

    /// Finds what Java has acquired since the first read, at a time that was not between the two: in the past. One in the
    /// future is found by itself.
    fn compare(&mut self, first: &Self) {
        for (name, acquired) in &self.by_java {
            let before = first.by_java.get(name);
            let Some((at, since)) = acquired.at.zip(before.and_then(|it| it.read_at)) else {
                continue;
            };
            let is_new = before.is_some_and(|before| before.at != Some(at));
            let is_past = since.duration_since(at).is_ok_and(|by| by > AHEAD);
            if is_new && is_past {
                let (at, owner) = (instant(at), &acquired.owner);
                self.other_clocks
                    .push(format!("{name:?} (at {at} by {owner:?})"));
            }
        }
    }

    /// A pause may last for any time: it is reported as a pause.
    fn end(&mut self, record: &LockRecord, now: SystemTime) {
        if matches!(record.state, LockState::Free | LockState::Paused) {
            return;
        }
        let name = record.name.as_str();
        match record.locked_until {
            None => self.endless.push(format!("{name:?} (no end)")),
            Some(until) if until.duration_since(now).is_ok_and(|left| left > LONGEST) => {
                self.endless
                    .push(format!("{name:?} (until {})", instant(until)));
            }
            Some(_) => {}
        }
    }

    pub(super) fn findings(&self, capabilities: &Capabilities) -> Vec<Finding> {
        let mut findings = vec![self.java(capabilities)];
        findings.extend(self.unreadable());
        findings.push(self.names());
        findings.extend(self.times());
        findings.extend(self.jobs());
        findings
    }

    fn java(&self, capabilities: &Capabilities) -> Finding {
        let java = match self.by_java.len() {
            0 => "no lock was last taken by ShedLock for Java".to_owned(),
            some => format!(
                "locks last taken by ShedLock for Java, whose acquisitions have no fencing token and \
                 no slot: {some} of {}{}",
                self.count,
                match self.taken {
                    0 => String::new(),
                    taken => format!(
                        "; taken now: {taken}, whose tasks run, or have ended and lockAtLeastFor keeps the locks"
                    ),
                }
            ),
        };
        let java = match capabilities.removed_by_shedlock {
            true => format!("{java}; {UNSEEN}"),
            false => java,
        };
        Finding::ok("java", java)
    }

    fn unreadable(&self) -> Option<Finding> {
        (!self.unreadable.is_empty()).then(|| {
            Finding::error(
                "records",
                format!(
                    "records that cannot be read, so their jobs never run: {}",
                    named(&self.unreadable)
                ),
                "check what wrote them, then fix or delete them",
            )
        })
    }

    fn names(&self) -> Finding {
        let alike = self.names.values().filter(|names| names.len() > 1);
        let alike: Vec<_> = alike.map(|names| names.join(" and ")).collect();
        warning_if_any(
            "names",
            &alike,
            "no two names differ only in case or in blanks around them",
            "names that differ only in case or in blanks around them are different locks, and do \
             not exclude each other",
            &format!(
                "if they are meant to be one lock, use one spelling everywhere, and a day after its last use remove the \
                 other record: {}; if they are two jobs, as with computed names, leave both; remove no record of a job \
                 that a running ShedLock for Java still has, since it never writes that again on a SQL database: {} and \
                 {} do",
                Operation::Prune,
                Operation::PauseNew,
                Operation::Resume
            ),
        )
    }

    /// The times in the records: ends, acquisitions and slots.
    fn times(&self) -> Vec<Finding> {
        let mut findings = vec![
            error_if_any(
                "end",
                &self.endless,
                "every lease ends within a year",
                "locks that stay taken for more than a year, so their jobs do not run until then",
                &format!(
                    "check what wrote them; if no job holds them, run {}",
                    Operation::ForceUnlock
                ),
            ),
            error_if_any(
                "acquired",
                &self.acquired_ahead,
                "no lock's time of acquisition is in the future",
                "locks whose time of acquisition is in the future: their owners use another \
                 clock or another time zone, so they and others can hold one lock at the same time",
                "set the clocks; if ShedLock for Java wrote them, set usingDbTime() there, or the same \
                 time zone",
            ),
        ];
        if !self.other_clocks.is_empty() {
            findings.push(error_if_any(
                "other-clock",
                &self.other_clocks,
                "",
                "locks that were acquired during this check, with a time of acquisition long before it: their \
                 owners use another clock or another time zone, so they and others can hold one lock at the \
                 same time",
                "set usingDbTime() in ShedLock for Java, or the same time zone, and set the clocks",
            ));
        }
        findings.push(error_if_any(
            "slots",
            &self.slots_ahead,
            "no lock's last slot is in the future",
            "locks whose last slot is in the future, so their jobs do not run until then",
            &format!(
                "if an operator has set it, leave it; otherwise set the clock of the host that took the slot, and run {}",
                Operation::ResetSlot
            ),
        ));
        findings
    }

    /// Jobs that do not run.
    fn jobs(&self) -> [Finding; 2] {
        [
            warning_if_any(
                "open-slots",
                &self.abandoned,
                "no slot has been open for over an hour",
                "slots that must not be lost but are not done, and that no host tries any more: all \
                 attempts were made, or nothing runs the job",
                &format!(
                    "find out why the runs failed; {} to an earlier time runs the slot again",
                    Operation::ResetSlot
                ),
            ),
            warning_if_any(
                "paused",
                &self.paused,
                "no lock is paused",
                "paused locks, whose jobs do not run",
                &format!("run {} when the job may run again", Operation::Resume),
            ),
        ]
    }
}

/// The finding of a check that should find no lock.
fn error_if_any(
    check: &'static str,
    found: &[String],
    well: &str,
    wrong: &str,
    remedy: &str,
) -> Finding {
    if found.is_empty() {
        return Finding::ok(check, well);
    }
    Finding::error(check, format!("{wrong}: {}", named(found)), remedy)
}

/// The same for what may be intended.
fn warning_if_any(
    check: &'static str,
    found: &[String],
    well: &str,
    wrong: &str,
    remedy: &str,
) -> Finding {
    if found.is_empty() {
        return Finding::ok(check, well);
    }
    Finding::warning(check, format!("{wrong}: {}", named(found)), remedy)
}

fn named(found: &[String]) -> String {
    let mut text = found
        .iter()
        .take(NAMED)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    if found.len() > NAMED {
        text.push_str(&format!(" and {} more", found.len() - NAMED));
    }
    text
}

fn instant(time: SystemTime) -> String {
    let rounded = Timestamp::try_from(time).and_then(|time| time.round(Unit::Second));
    rounded.map_or_else(
        |_| "a time out of range".to_owned(),
        |time| time.to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use shedlock_core::{ClockSource, Level, LockName, Slot};
    use std::time::UNIX_EPOCH;

    const OURS: &str = "host/1/0123456789abcdef";
    const HOUR: Duration = Duration::from_secs(3_600);

    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_800_000_000)
    }

    fn record(name: &str, owner: &str, until: SystemTime) -> LockRecord {
        let mut record =
            LockRecord::from_stored(LockName::new(name).unwrap(), owner, until > now());
        record.locked_at = Some(now() - 2 * HOUR);
        record.locked_until = Some(until);
        record.read_at = Some(now());
        record
    }

    fn faults(records: &[LockRecord]) -> Vec<(&'static str, Level, String)> {
        let mut all = Records::default();
        for record in records {
            all.add(record);
        }
        let capabilities = Capabilities::new(ClockSource::Store);
        let findings = all.findings(&capabilities).into_iter();
        let faults = findings.filter(|finding| finding.level != Level::Ok);
        faults
            .map(|finding| (finding.check, finding.level, finding.message))
            .collect()
    }

    #[test]
    fn healthy_records_have_no_faults() {
        let mut open = record("open", OURS, now() - HOUR / 2);
        open.last_slot = Slot::at(now() - HOUR).ok();
        open.slot_attempts = Some(1);
        let mut running = record("slots", OURS, now() + HOUR);
        running.last_slot = Slot::at(now() + AHEAD / 2).ok();
        let records = [open, running, record("java", "web-3", now() + HOUR)];
        assert_eq!(faults(&records), []);
        assert_eq!(faults(&[]), []);
    }

    #[test]
    fn each_fault_in_a_record_is_found_and_names_its_lock() {
        let job = |owner, until| record("job", owner, until);
        let free = now() - 2 * HOUR;
        let mut endless = job("", free);
        (endless.state, endless.locked_until) = (LockState::Held, None);
        let mut slot = job(OURS, free);
        slot.last_slot = Slot::at(now() + HOUR).ok();
        let mut zone = job("web-3", free);
        zone.locked_at = Some(now() + HOUR);
        let mut open = job(OURS, free);
        (open.last_slot, open.slot_attempts) = (Slot::at(free).ok(), Some(5));
        for (record, check, level) in [
            (endless, "end", Level::Error),
            (job(OURS, now() + 2 * LONGEST), "end", Level::Error),
            (slot, "slots", Level::Error),
            (zone, "acquired", Level::Error),
            (open, "open-slots", Level::Warning),
        ] {
            let found = faults(&[record]);
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!((found[0].0, found[0].1), (check, level));
            assert!(found[0].2.contains("\"job\""), "{found:?}");
        }
    }

    #[test]
    fn a_lock_that_java_takes_during_the_check_with_another_time_is_found() {
        let read = |owner: &str, at| {
            let mut records = Records::default();
            let mut record = record("job", owner, now() - HOUR);
            record.locked_at = Some(at);
            records.add(&record);
            records
        };
        let found = |owner, first, second| {
            let mut again = read(owner, second);
            again.compare(&read(owner, first));
            let capabilities = Capabilities::new(ClockSource::Store);
            let findings = again.findings(&capabilities).into_iter();
            let mut found = findings.filter(|it| it.level != Level::Ok);
            found.next().map(|it| it.check)
        };
        let west = now() - 5 * HOUR;
        let second = Duration::from_secs(1);
        assert_eq!(found("web-3", west, west + second), Some("other-clock"));
        assert_eq!(found("web-3", west, west), None);
        assert_eq!(found("web-3", west, now() + second), None);
        assert_eq!(found(OURS, west, west + second), None);
    }

    #[test]
    fn names_that_differ_only_in_case_are_found_once() {
        let free = now() - HOUR;
        let names = ["Job", "JOB", "job ", "other"];
        let found = faults(&names.map(|name| record(name, OURS, free)));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].2.contains("\"Job\" and \"JOB\" and \"job \""),
            "{found:?}"
        );
    }

    #[test]
    fn many_locks_do_not_flood_a_finding() {
        let records: Vec<_> = (0..20)
            .map(|i| record(&format!("job-{i:02}"), OURS, now() + 2 * LONGEST))
            .collect();
        let found = faults(&records);
        assert!(found[0].2.ends_with("and 15 more"), "{found:?}");
    }
}
