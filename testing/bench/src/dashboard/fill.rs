//! A journal of a large fleet, written by a few statements.

use sqlx::ConnectOptions as _;
use sqlx::Connection as _;

use crate::site::Site;

/// Jobs. Half of them are hourly, and half daily.
pub(super) const JOBS: u32 = 10_000;

/// Runs of each job.
pub(super) const RUNS: u32 = 100;

/// For each job: its number, its period, and its latest slot, in microseconds.
const FLEET: &str = "WITH numbers AS ( \
     SELECT n, CASE n % 2 WHEN 0 THEN 3600000000 ELSE 86400000000 END AS period, \
     n % 60 * 60000000::bigint + CASE n % 2 WHEN 0 THEN 0 ELSE n / 60 % 24 * 3600000000 END AS anchor, \
     (extract(epoch FROM now()) * 1000000)::bigint AS now FROM generate_series(0, {jobs} - 1) AS n), \
     fleet AS (SELECT n, 'job-' || lpad(n::text, 5, '0') AS job, period, n % 100 = 7 AS is_late, \
     n % 100 = 13 AS fails, anchor + (now - anchor) / period * period AS last FROM numbers)";

/// One job in a hundred has missed three slots, and one in a hundred has failed.
const JOB: &str = "INSERT INTO shedlock_job (job, schedule, zone, lock_at_most_us, registered_us, last_started_us, \
     last_name, last_owner, last_lock_at_most_us, last_outcome, last_succeeded_us, last_failed_us, last_error, \
     last_duration_us, next_slot_us, deadline_us) \
     {fleet} SELECT job, n % 60 || CASE n % 2 WHEN 0 THEN ' * * * *' ELSE ' ' || n / 60 % 24 || ' * * *' END, \
     CASE WHEN n % 2 = 1 THEN 'UTC' \
     ELSE (ARRAY['UTC', 'Europe/Berlin', 'America/New_York', 'Asia/Tokyo'])[n / 2 % 4 + 1] END, \
     600000000, last - 200 * period, done, job, 'host-' || n % 10 || '/1/' || md5(job), 600000000, \
     CASE WHEN fails THEN 'failed' ELSE 'succeeded' END, done + 2000000, CASE WHEN fails THEN done + 3000000 END, \
     CASE WHEN fails THEN 'the mail server did not reply' END, 2000000, done + period, done + period + 900000000 \
     FROM (SELECT *, CASE WHEN is_late THEN last - 3 * period ELSE last END AS done FROM fleet) AS f";

/// One run in two hundred has failed.
const RUN: &str = "INSERT INTO shedlock_run (id, job, name, owner, slot_us, attempt, fencing_token, started_us, \
     lock_at_most_us, ran_for_us, outcome, error) {fleet} \
     SELECT md5(job || '/' || k), job, job, \
     'host-' || n % 10 || '/1/' || md5(job || k), slot, 1, started, started, 600000000, 1000000 + (n + k) % 60 * 100000, \
     CASE WHEN is_failed THEN 'failed' ELSE 'succeeded' END, \
     CASE WHEN is_failed THEN 'the mail server did not reply' END FROM ( \
     SELECT *, slot + (n::bigint * 7919 + k * 104729) % 500000 AS started, (n + k) % 200 = 13 AS is_failed FROM ( \
     SELECT *, last - (k + CASE WHEN is_late THEN 3 ELSE 0 END) * period AS slot \
     FROM fleet CROSS JOIN generate_series(0, {runs} - 1) AS k) AS s) AS r";

/// Each job has a lock, and one in fifty is held.
const LOCK: &str = "INSERT INTO shedlock (name, lock_until, locked_at, locked_by) {fleet} \
     SELECT job, now() AT TIME ZONE 'UTC' + CASE n % 50 WHEN 0 THEN 1 ELSE -1 END * interval '1 hour', \
     now() AT TIME ZONE 'UTC' - interval '1 minute', 'host-' || n % 10 || '/1/' || md5(job) FROM fleet";

/// Creates the journal's tables and fills them.
pub(super) async fn fill(site: &Site) -> anyhow::Result<()> {
    let provider = site.provider(1).await?;
    if let Some(journal) = provider.journal() {
        journal.migrate().await?;
    }
    let mut connection = site.postgres()?.connect().await?;
    let fleet = FLEET.replace("{jobs}", &JOBS.to_string());
    for statement in [JOB, RUN, LOCK, "VACUUM (ANALYZE)"] {
        let statement = statement.replace("{fleet}", &fleet);
        let statement = statement.replace("{runs}", &RUNS.to_string());
        let statement = sqlx::AssertSqlSafe(statement);
        sqlx::raw_sql(statement).execute(&mut connection).await?;
    }
    connection.close().await?;
    Ok(())
}
