//! How entries are recorded: the documents that they concern are read, and what these become is written.

use std::collections::{BTreeMap, BTreeSet};

use mongodb::bson::{Document, doc};
use shedlock_core::{JobRecord, JournalEntry, RunRecord};
use shedlock_journal::merge::{Batch, Known, readable, repeated};
use shedlock_provider::Result;

use super::rows::{self, LIMITS, foreign};
use super::{AUDIT, JOB, MongoJournal, RUN, page};

impl MongoJournal {
    pub(super) async fn record_all(&self, entries: &[JournalEntry]) -> Result<()> {
        self.exists().await?;
        let batch = Batch::new(entries, LIMITS);
        repeated(|| self.record_batch(&batch)).await
    }

    /// Writes what a batch changes. Returns false if others have changed the same jobs or runs meanwhile; what was
    /// written before that is not changed again.
    async fn record_batch(&self, batch: &Batch) -> Result<bool> {
        let now = self.store.judging_time().await?;
        let jobs = self.documents(JOB, batch.jobs()).await?;
        let runs = self.documents(RUN, batch.runs()).await?;
        let mut known = Known::default();
        for (name, job) in &jobs {
            let job = readable(rows::job(job));
            known.jobs.extend(job.map(|job| (name.clone(), job)));
        }
        for (identity, run) in &runs {
            let run = readable(rows::run(run));
            known.runs.extend(run.map(|run| (identity.clone(), run)));
        }
        let changes = batch.changes(&known, now);
        let of_job = |job: &JobRecord| rows::job_update(jobs.get(&job.job), job);
        let of_run = |run: &RunRecord| rows::run_update(runs.get(run.id.identity()), run);
        let updates = [
            (JOB, changes.jobs.iter().map(of_job).collect()),
            (RUN, changes.runs.iter().map(of_run).collect()),
            (AUDIT, batch.audit().map(rows::audit_update).collect()),
        ];
        for (suffix, updates) in updates {
            if !self.update(suffix, updates).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The documents with these ids.
    async fn documents(
        &self,
        suffix: &str,
        ids: BTreeSet<&str>,
    ) -> Result<BTreeMap<String, Document>> {
        if ids.is_empty() {
            return Ok(BTreeMap::new());
        }
        let page = page(ids.len());
        let query = doc! { "_id": { "$in": ids.into_iter().collect::<Vec<_>>() } };
        let found = self.find(suffix, query, 1, page).await?.into_iter();
        let with_id = |it: Document| Ok((it.get_str("_id").map_err(|_| foreign())?.to_owned(), it));
        found.map(with_id).collect()
    }
}
