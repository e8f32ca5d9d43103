//! The figures of a run: its last line, and its summary.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use shedlock_conformance::Verdict;

use crate::heard::Heard;
use shedlock_proof::history::millis;

/// The figures of one run.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Tally {
    pub(super) harness: String,
    /// The store's own description of itself.
    pub(super) version: Option<String>,
    pub(super) seconds: u64,
    pub(super) rest_millis: u64,
    /// The setting that repeats the random choices.
    pub(super) seed: String,
    pub(super) workers: usize,
    /// Processes of real ShedLock in addition.
    pub(super) java: usize,
    /// Workers of an earlier version in addition.
    pub(super) old: usize,
    pub(super) heard: Heard,
    /// The part of `heard` from processes of ShedLock.
    pub(super) heard_of_shedlocks: Heard,
    /// The part of `heard` from workers of the earlier version.
    pub(super) heard_of_olds: Heard,
    /// The faults of processes, network and store, by kind.
    pub(super) faults: BTreeMap<String, usize>,
    /// The largest error of a wall clock, in milliseconds.
    pub(super) clocks_wrong_by_millis: i64,
    /// What could not be done here, and why.
    pub(super) not_done: Vec<String>,
    /// Periods without faults, in each of which every worker got a reply and every lock was
    /// acquired.
    pub(super) healthy_stretches: usize,
    /// The longest time until that was the case, in milliseconds.
    pub(super) longest_recovery_millis: u64,
    /// Runs of open slots after the first of each: take-overs, and slots not done at the first
    /// attempt.
    pub(super) runs_again: usize,
    /// The number of lines in the logs, and how long it took to judge them, in milliseconds.
    pub(super) events: usize,
    pub(super) judged_in_millis: u64,
    /// Why the run failed, if it did: a violation, or a fault that does not end.
    pub(super) failure: Option<String>,
}

impl Tally {
    /// Counts one event of this kind.
    pub(super) fn count(&mut self, kind: &str) {
        *self.faults.entry(kind.to_owned()).or_default() += 1;
    }

    /// Records a period without faults, and how long it took until all made progress.
    pub(super) fn recovered(&mut self, after: Duration) {
        self.healthy_stretches += 1;
        self.longest_recovery_millis = self.longest_recovery_millis.max(millis(after));
    }

    /// Writes the summary to this file.
    pub(super) fn write(&self, path: &Path) -> Verdict {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        Ok(std::fs::write(path, text)?)
    }

    #[expect(
        clippy::print_stderr,
        reason = "how much was tried is what a reader of the run wants to see"
    )]
    pub(super) fn tell(&self) {
        eprintln!("{self}");
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heard = &self.heard;
        let version = self.version.as_deref().unwrap_or("of unknown version");
        write!(
            f,
            "torture of {} ({version}), {} s: {} acquisitions, {} skips, {} extensions, {} unlocks, \
             {} lost; {} unknown outcomes, {} failed attempts, {} other failed calls;",
            self.harness,
            self.seconds,
            heard.acquisitions,
            heard.skips,
            heard.extensions,
            heard.unlocks,
            heard.lost,
            heard.unknown,
            heard.failed,
            heard.calls_failed,
        )?;
        if self.java > 0 {
            let theirs = &self.heard_of_shedlocks;
            write!(
                f,
                " of these {} acquisitions, {} skips, {} unlocks and {} unknown outcomes of {} \
                 processes of ShedLock;",
                theirs.acquisitions, theirs.skips, theirs.unlocks, theirs.unknown, self.java
            )?;
        }
        if self.old > 0 {
            let theirs = &self.heard_of_olds;
            write!(
                f,
                " of these {} acquisitions, {} skips, {} unlocks and {} unknown outcomes of {} \
                 workers of an earlier version;",
                theirs.acquisitions, theirs.skips, theirs.unlocks, theirs.unknown, self.old
            )?;
        }
        if heard.pauses > 0 {
            write!(
                f,
                " {} pauses, of which {} took the lock from a holder and {} were resumed; {} forced unlocks;",
                heard.pauses, heard.replaced, heard.resumed, heard.forced
            )?;
        }
        for (kind, count) in &self.faults {
            write!(f, " {count} {kind},")?;
        }
        if self.clocks_wrong_by_millis > 0 {
            write!(
                f,
                " wall clocks wrong by up to {} ms,",
                self.clocks_wrong_by_millis
            )?;
        }
        if self.runs_again > 0 {
            write!(f, " {} runs of slots that were not done,", self.runs_again)?;
        }
        for reason in &self.not_done {
            write!(f, " {reason},")?;
        }
        write!(
            f,
            " {} healthy stretches (at most {} ms until all went on); ",
            self.healthy_stretches, self.longest_recovery_millis
        )?;
        match &self.failure {
            None => write!(f, "0 violations in {} events", self.events)?,
            Some(failure) => write!(f, "FAILED: {failure}")?,
        }
        write!(f, " ({})", self.seed)
    }
}
