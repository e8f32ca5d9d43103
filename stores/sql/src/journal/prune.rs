//! Removes the runs and audit records that are kept no longer.

use shedlock_core::Retention;
use shedlock_provider::Result;

use super::SqlJournal;
use super::rows::{self, Words};
use crate::driver::Driver;

/// How many rows one prune removes for one reason.
const MOST_PRUNED: i64 = 1_000;

impl<B: Driver> SqlJournal<B> {
    pub(super) async fn prune_all(&self, job: &str, retention: &Retention) -> Result<u64> {
        let keep = i64::try_from(retention.runs_per_job).unwrap_or(i64::MAX);
        let words = Words::of_job(job).number("keep", keep);
        let mut removed = 0;
        let excess = self.rows(&self.statements.first_excess, &words).await?;
        if let Some((id, started)) = excess.first().and_then(rows::place) {
            let words = words.text("id", id).number("started", started);
            let words = words.number("limit", MOST_PRUNED);
            removed = self.write(&self.statements.prune_runs, &words).await?;
        }
        let rows = self.rows(&self.statements.clock, &Words::default()).await?;
        let now = rows.first().and_then(rows::only_number).unwrap_or_default();
        let ages = [
            (&self.statements.prune_old_runs, retention.max_age),
            (&self.statements.prune_old_audit, retention.max_audit_age),
        ];
        for (statement, age) in ages {
            let age = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
            let since = now.saturating_sub(age);
            let oldest = first_id(since);
            let words = Words::default().text("id", &oldest);
            let words = words.number("started", since);
            let words = words.number("limit", MOST_PRUNED);
            removed += self.write(statement, &words).await?;
        }
        Ok(removed)
    }
}

/// A text that sorts before the IDs of all audit records since this instant, and after all earlier ones: they start with
/// the time as 14 digits.
pub(super) fn first_id(micros: i64) -> String {
    const LAST: i64 = (1 << 56) - 1;
    format!("{:014x}", micros.clamp(0, LAST))
}
