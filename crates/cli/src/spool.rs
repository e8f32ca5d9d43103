//! Ends of runs that could not be written to the journal, in files of this user, until a later `shedlock` delivers them.
//!
//! Each file belongs to one journal, by its identity, which is the start of its name. A file is claimed by renaming it, so
//! that no two processes deliver it at once. To deliver one twice would be harmless.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use shedlock::{
    Clock as _, Journal, JournalEntry, RunEnd, RunOutcome, RunRecord, Slot, SystemClock,
};

use crate::private;
use crate::store::state_folder;

/// A run, as a file or another process keeps it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct KeptRun {
    job: String,
    name: String,
    owner: String,
    /// Microseconds, as all numbers of times here.
    started: u64,
    lock_at_most_for: Option<u64>,
    slot: Option<i64>,
    attempt: Option<u32>,
    fencing_token: Option<u64>,
    lock_store: Option<String>,
    end: Option<KeptEnd>,
    /// The next slot and the deadline of the job, if the run succeeds.
    next: Option<(i64, u64)>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct KeptEnd {
    ran_for: u64,
    outcome: String,
    error: Option<String>,
}

/// The folder with the files.
#[derive(Debug)]
pub(crate) struct Spool(PathBuf);

/// The most files. A host that reaches it has other problems, and its disk must not fill.
const MOST: usize = 1_000;

/// The most bytes of a file. A run has at most a few kilobytes.
const LONGEST: u64 = 65_536;

/// Journals keep runs for longer, so that none is delivered that they have removed.
const OLDEST: Duration = Duration::from_secs(7 * 86_400);

/// A file that a process has claimed for longer than this was left behind by it.
const CLAIMED: Duration = Duration::from_secs(600);

const ENDING: &str = ".run";
const CLAIM: &str = ".claimed";

impl Spool {
    /// The folder of this user. Nothing is created.
    pub(crate) fn of_user() -> Option<Self> {
        let state = state_folder().ok()?;
        Some(Self(state.join("spool")))
    }

    /// Keeps the end of a run for the journal with this identity.
    pub(crate) fn keep(&self, journal: &str, runs: &[KeptRun]) -> io::Result<()> {
        if !is_plain(journal) {
            return Err(io::Error::other("the journal's identity is not one word"));
        }
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.0)?;
        self.check()?;
        if fs::read_dir(&self.0)?.count() >= MOST {
            return Err(io::Error::other(format!(
                "there are {MOST} such files already"
            )));
        }
        let text = serde_json::to_vec(runs).map_err(io::Error::other)?;
        let random = private::random();
        let file = self.0.join(format!("{journal}.{random}{ENDING}"));
        let unfinished = file.with_extension("new");
        let mut new = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&unfinished)?;
        let written = new.write_all(&text).and_then(|()| new.sync_all());
        let kept = written.and_then(|()| fs::rename(&unfinished, &file));
        if kept.is_err() {
            // The error is about the write.
            let _ = fs::remove_file(&unfinished);
        }
        kept
    }

    /// Delivers what is kept for this journal, as far as it accepts it. What it does not accept stays.
    pub(crate) async fn deliver(&self, journal: &dyn Journal) {
        let files = self.files();
        if files.is_empty() {
            return;
        }
        let Ok(Some(identity)) = journal.identity().await else {
            return;
        };
        let start = format!("{identity}.");
        let of_journal = |file: &&PathBuf| name_of(file).starts_with(&start);
        for file in files.iter().filter(of_journal) {
            let Some(claimed) = claim(file) else { continue };
            let entries = match read(&claimed) {
                Ok(entries) => entries,
                // Too old, too large, or not ours.
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    tracing::debug!(?file, %error, "a kept end of a run is removed");
                    let _ = fs::remove_file(&claimed);
                    continue;
                }
                // It must not keep the others from being delivered.
                Err(_) => {
                    let _ = fs::rename(&claimed, file);
                    continue;
                }
            };
            if journal.record(&entries).await.is_err() {
                let _ = fs::rename(&claimed, file);
                return;
            }
            let _ = fs::remove_file(&claimed);
        }
    }

    /// The folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.0
    }

    /// The files that may be delivered. What was left claimed by a process that ended is one of them.
    fn files(&self) -> Vec<PathBuf> {
        if self.check().is_err() {
            return Vec::new();
        }
        let Ok(entries) = fs::read_dir(&self.0) else {
            return Vec::new();
        };
        let now = SystemClock.system_time();
        let mut files = Vec::new();
        for entry in entries.flatten() {
            let path = entry.path();
            let name = name_of(&path);
            if name.ends_with(ENDING) {
                files.push(path);
            } else if let Some(unclaimed) = name.strip_suffix(CLAIM) {
                let age = entry.metadata().and_then(|it| it.modified());
                let age = age.ok().and_then(|at| now.duration_since(at).ok());
                let unclaimed = path.with_file_name(unclaimed);
                if age.is_some_and(|age| age > CLAIMED) && fs::rename(&path, &unclaimed).is_ok() {
                    files.push(unclaimed);
                }
            }
        }
        files
    }

    /// Refuses a folder that others may write to, or put in its place: they would write this user's journals.
    fn check(&self) -> io::Result<()> {
        let state = self.0.parent().unwrap_or(&self.0);
        private::check(state)?;
        private::check(&self.0)
    }
}

/// Claims a file. `None` if another process was faster.
fn claim(file: &Path) -> Option<PathBuf> {
    let claimed = file.with_file_name(format!("{}{CLAIM}", name_of(file)));
    fs::rename(file, &claimed).ok()?;
    // Its age is that of the claim from now on.
    let _ = open(&claimed).and_then(|it| it.set_modified(SystemClock.system_time()));
    Some(claimed)
}

fn name_of(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Whether a text can be a part of a file's name.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Opens a file, without waiting for the other end of a pipe.
fn open(file: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags).open(file)
}

/// The entries of a file. `InvalidData` if they must not be delivered.
fn read(file: &Path) -> io::Result<Vec<JournalEntry>> {
    let opened = open(file)?;
    let invalid = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
    let found = opened.metadata()?;
    if !found.is_file() || found.len() > LONGEST {
        return Err(invalid("it is no file, or too large"));
    }
    let mut text = Vec::new();
    opened.take(LONGEST).read_to_end(&mut text)?;
    let runs: Vec<KeptRun> =
        serde_json::from_slice(&text).map_err(|error| invalid(&error.to_string()))?;
    let now = SystemClock.system_time();
    let mut entries = Vec::new();
    for run in runs {
        let (run, next) = run.record().ok_or_else(|| invalid("it is not complete"))?;
        let age = now.duration_since(run.started).unwrap_or_default();
        if age > OLDEST || run.end.is_none() {
            return Err(invalid("it is too old"));
        }
        entries.push(JournalEntry::run(run, next));
    }
    Ok(entries)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn since_1970(instant: SystemTime) -> u64 {
    micros(instant.duration_since(UNIX_EPOCH).unwrap_or_default())
}

impl KeptRun {
    pub(crate) fn of(run: &RunRecord, next: Option<(Slot, SystemTime)>) -> Self {
        Self {
            job: run.job.clone(),
            name: run.name.clone(),
            owner: run.owner.clone(),
            started: since_1970(run.started),
            lock_at_most_for: run.lock_at_most_for.map(micros),
            slot: run.slot.map(Slot::as_micros),
            attempt: run.attempt,
            fencing_token: run.fencing_token,
            lock_store: run.lock_store.clone(),
            end: run.end.as_ref().map(|end| KeptEnd {
                ran_for: micros(end.ran_for),
                outcome: end.outcome.as_str().to_owned(),
                error: end.error.clone(),
            }),
            next: next.map(|(slot, deadline)| (slot.as_micros(), since_1970(deadline))),
        }
    }

    /// The run, and the next slot and deadline of its job if it has succeeded.
    pub(crate) fn record(&self) -> Option<(RunRecord, Option<(Slot, SystemTime)>)> {
        let at = |micros| UNIX_EPOCH.checked_add(Duration::from_micros(micros));
        let (job, name, owner) = (&*self.job, &*self.name, &*self.owner);
        let mut run = RunRecord::new(job, name, owner, at(self.started)?);
        run.lock_at_most_for = self.lock_at_most_for.map(Duration::from_micros);
        run.slot = self.slot.and_then(|slot| Slot::from_micros(slot).ok());
        (run.attempt, run.fencing_token) = (self.attempt, self.fencing_token);
        run.lock_store.clone_from(&self.lock_store);
        if let Some(end) = &self.end {
            let outcome = RunOutcome::parse(&end.outcome)?;
            let ran_for = Duration::from_micros(end.ran_for);
            run.end = Some(RunEnd::new(ran_for, outcome, end.error.clone()));
        }
        let next = self
            .next
            .and_then(|(slot, deadline)| Some((Slot::from_micros(slot).ok()?, at(deadline)?)));
        Some((run, next))
    }
}
