//! How entries are recorded: a script reads the values that they concern, and another one writes what these become.

use std::time::SystemTime;

use shedlock_core::JournalEntry;
use shedlock_journal::merge::{Batch, Known, readable, repeated};
use shedlock_provider::Result;

use super::rows::{self, LIMITS, member};
use super::{RedisJournal, key, parsed};
use crate::codec::instant;
use crate::scripts;

/// How many entries one script records. The server does nothing else meanwhile.
const BATCH: usize = 16;

/// A value as it was read: the number of its key, its field, and the value, which is empty if there is none.
type Found = (String, String, Vec<u8>);

impl RedisJournal {
    pub(super) async fn record_all(&self, entries: &[JournalEntry]) -> Result<()> {
        for entries in entries.chunks(BATCH) {
            let batch = Batch::new(entries, LIMITS);
            repeated(|| self.record_batch(&batch)).await?;
        }
        Ok(())
    }

    /// Writes what a batch changes. Returns false if others have changed the same jobs or runs meanwhile.
    async fn record_batch(&self, batch: &Batch) -> Result<bool> {
        let jobs = batch.jobs().into_iter().map(|name| [key::JOB, name]);
        let runs = batch.runs().into_iter().map(|run| [key::IDS, run]);
        let fields: Vec<_> = jobs.chain(runs).flatten().collect();
        let answer = self.run(&scripts::READ, &fields).await?;
        let (now, found): (u64, Vec<Found>) = parsed(answer)?;
        let commands = commands(batch, &found, instant(now));
        if commands.is_empty() {
            return Ok(true);
        }
        let mut arguments = vec![found.len().to_string().into_bytes()];
        for (key, field, value) in found {
            arguments.extend([key.into_bytes(), field.into_bytes(), value]);
        }
        arguments.extend(commands.into_iter().map(String::into_bytes));
        parsed(self.run(&scripts::WRITE, &arguments).await?)
    }
}

/// What was read of the jobs and runs of a batch.
fn known(found: &[Found]) -> Known {
    let mut known = Known::default();
    for (key, field, value) in found.iter().filter(|(_, _, value)| !value.is_empty()) {
        match &**key {
            key::JOB => {
                let job = readable(rows::job(field, value));
                known.jobs.extend(job.map(|job| (field.clone(), job)));
            }
            key::RUN => {
                let run = readable(rows::run(field, value));
                known
                    .runs
                    .extend(run.map(|run| (run.id.identity().to_owned(), run)));
            }
            _ => {}
        }
    }
    known
}

/// The commands that write what a batch changes: each its name, the number of its key and two arguments. A value is
/// written last, because without it all of them are repeated.
fn commands(batch: &Batch, found: &[Found], now: SystemTime) -> Vec<String> {
    let known = known(found);
    let changes = batch.changes(&known, now);
    let mut commands = Vec::new();
    let mut push = |words: [&str; 4]| commands.extend(words.map(str::to_owned));
    for job in &changes.jobs {
        let is_it = |it: &&Found| it.0 == key::JOB && it.1 == job.job;
        let was = found.iter().find(is_it).map(|(_, _, value)| &**value);
        let text = rows::job_text(job, was.unwrap_or_default());
        push(["ZADD", key::JOBS, "0", &job.job]);
        push(["HSET", key::JOB, &job.job, &text]);
    }
    for run in &changes.runs {
        let (id, identity) = (run.id.as_str(), run.id.identity());
        if !known.runs.contains_key(identity) {
            push(["HSET", key::IDS, identity, id]);
            push(["ZADD", key::RUNS, "0", id]);
            push(["ZADD", key::RUNS_OF_JOB, "0", &member(&run.job, id)]);
            if run.name != run.job {
                push(["ZADD", key::RUNS_OF_NAME, "0", &member(&run.name, id)]);
            }
        }
        match run.end {
            None => push(["ZADD", key::OPEN, "0", id]),
            // Twice, because every command has two arguments.
            Some(_) => push(["ZREM", key::OPEN, id, id]),
        }
        push(["HSET", key::RUN, id, &rows::run_text(run)]);
    }
    for record in batch.audit() {
        let id = record.id.as_str();
        push(["ZADD", key::AUDITS, "0", id]);
        push(["HSETNX", key::AUDIT, id, &rows::audit_text(record)]);
    }
    commands
}
