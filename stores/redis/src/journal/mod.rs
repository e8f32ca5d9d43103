//! The journal: jobs, runs and audit records in hashes, and sorted sets of their names and ids.
//!
//! All its keys are in one hash slot of a cluster, and their number does not depend on what it holds. Names and ids have
//! the same score, so the sets are in byte order, and ids sort by time.

mod record;
pub(crate) mod rows;

use std::error::Error as _;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use redis::{Value, cmd};
use shedlock_core::{
    AuditRecord, AuditRequest, BoxFuture, Error, ErrorKind, JOURNAL_VERSION, JobRecord,
    JobsRequest, Journal, JournalEntry, Migration, MigrationStep, Operation, Retention, RunId,
    RunRecord, RunsRequest,
};
use shedlock_provider::{Result, configuration, conflict};
use shedlock_support::text::listed;

use self::rows::{LIMITS, foreign, member};
use crate::codec::malformed;
use crate::explain::{explain, is_forbidden};
use crate::privileges::OF_JOURNALS;
use crate::scripts::{self, Script};
use crate::store::RedisStore;

/// The journal of an environment.
pub(crate) struct RedisJournal {
    store: Arc<RedisStore>,
    /// As the scripts number them.
    keys: Vec<String>,
    /// The start of the keys.
    start: String,
}

/// What the keys add to their start.
const SUFFIXES: [&str; 12] = [
    "version",
    "jobs",
    "job",
    "runs",
    "run",
    "runs-of-job",
    "runs-of-name",
    "open",
    "audits",
    "audit",
    "ids",
    "identity",
];

/// Gives a journal its identity, unless it has one.
const IDENTIFY: &str = "local t = redis.call('TIME') return redis.call('SET', KEYS[1], \
     redis.sha1hex(t[1] .. ' ' .. t[2] .. KEYS[1]), 'NX')";

/// The numbers of the keys: their place in [`SUFFIXES`], from 1.
mod key {
    pub(super) const JOBS: &str = "2";
    pub(super) const JOB: &str = "3";
    pub(super) const RUNS: &str = "4";
    pub(super) const RUN: &str = "5";
    pub(super) const RUNS_OF_JOB: &str = "6";
    pub(super) const RUNS_OF_NAME: &str = "7";
    pub(super) const OPEN: &str = "8";
    pub(super) const AUDITS: &str = "9";
    pub(super) const AUDIT: &str = "10";
    pub(super) const IDS: &str = "11";
}

/// How many runs one script removes.
const MOST_PRUNED: u64 = 250;

/// How many records one script returns, if they are filtered.
const PAGE: usize = 500;

/// More than the first byte of any text.
const LAST: &[u8] = b"\xff";

/// A part of a sorted set: the number of the key, and what its members have before the id.
struct Index<'a> {
    key: &'static str,
    prefix: &'a str,
}

impl RedisJournal {
    pub(crate) fn new(store: Arc<RedisStore>) -> Self {
        let start = store.keys.journal();
        Self {
            keys: SUFFIXES.map(|suffix| format!("{start}:{suffix}")).to_vec(),
            start,
            store,
        }
    }

    fn explained(&self, error: Error) -> Error {
        let start = &self.start;
        match error.kind() {
            _ if is_forbidden(&error) => configuration("the user may not use the journal")
                .advise(format!(
                    "grant it the commands evalsha, eval, time, {} on \"{start}:*\"",
                    OF_JOURNALS.join(", ")
                ))
                .with_source(error),
            // The store's reply; what a value holds is ours to say.
            ErrorKind::Conflict if error.source().is_some() => conflict(format!(
                "a key of the journal (\"{start}:…\") holds something else"
            ))
            .advise("check what wrote it, then delete it or use another key prefix")
            .with_source(error),
            _ => error,
        }
    }

    async fn run(&self, script: &Script, arguments: &[impl AsRef<[u8]> + Sync]) -> Result<Value> {
        let answer = script.run_on(&self.store.connections, &self.keys, arguments);
        match answer.await.map_err(|error| self.explained(error))? {
            Value::BulkString(word) if word == b"none" => Err(configuration(format!(
                "there is no journal at \"{}\"",
                self.start
            ))
            .advise(("create it with", Operation::Migrate))),
            answer => Ok(answer),
        }
    }

    /// Runs a script that returns pairs.
    async fn pairs(
        &self,
        script: &Script,
        arguments: &[impl AsRef<[u8]> + Sync],
    ) -> Result<Vec<(String, Vec<u8>)>> {
        let answer = self.run(script, arguments).await?;
        let pairs: Vec<(Vec<u8>, Vec<u8>)> = parsed(answer)?;
        let text = |text| String::from_utf8(text).map_err(|error| foreign().with_source(error));
        pairs
            .into_iter()
            .map(|(id, value)| Ok((text(id)?, value)))
            .collect()
    }

    /// Jobs of a range of names, in the notation of `ZRANGEBYLEX`.
    async fn jobs_of(&self, from: &str, to: &str, limit: usize) -> Result<Vec<JobRecord>> {
        let arguments = [from, to, &limit.to_string()];
        let pairs = self.pairs(&scripts::JOBS, &arguments).await?.into_iter();
        // A value is missing if it was evicted or deleted.
        pairs
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| rows::job(&name, &value))
            .collect()
    }

    /// The latest records of an index that are wanted. Reads parts until there are enough of them.
    async fn page<T>(
        &self,
        index: Index<'_>,
        records: &str,
        (before, since): (Option<&RunId>, Option<SystemTime>),
        (limit, part): (usize, usize),
        wanted: impl Fn(&str, &[u8]) -> Result<Option<T>>,
    ) -> Result<Vec<T>> {
        let prefix = index.prefix.as_bytes();
        let since = since.map(oldest).unwrap_or_default();
        let to = [b"[", prefix, since.as_bytes()].concat();
        let before = before.map_or(LAST, |id| id.as_str().as_bytes());
        let mut from = [b"(", prefix, before].concat();
        let size = part.to_string();
        let mut page = Vec::new();
        loop {
            let arguments = [
                index.key.as_bytes(),
                records.as_bytes(),
                &from,
                &to,
                size.as_bytes(),
            ];
            let found = self.pairs(&scripts::PAGE, &arguments).await?;
            let is_last = found.len() < part;
            if let Some((last, _)) = found.last() {
                from = [b"(", prefix, last.as_bytes()].concat();
            }
            for (id, value) in found.iter().filter(|(_, value)| !value.is_empty()) {
                page.extend(wanted(id, value)?);
                if page.len() == limit {
                    return Ok(page);
                }
            }
            if is_last {
                return Ok(page);
            }
        }
    }

    async fn runs_of(&self, request: &RunsRequest) -> Result<Vec<RunRecord>> {
        let (job, name) = (
            request.job.as_deref().map(|job| LIMITS.name(job)),
            request.name.as_deref().map(|name| LIMITS.name(name)),
        );
        let wanted = |id: &str, value: &[u8]| {
            let run = rows::run(id, value)?;
            let outcome = run.end.as_ref().map(|end| end.outcome);
            let is_wanted = job.is_none_or(|job| run.job == job)
                && name.is_none_or(|name| run.name == name)
                && request.outcome.is_none_or(|it| outcome == Some(it))
                && (!request.is_open_only || outcome.is_none());
            Ok(is_wanted.then_some(run))
        };
        let (of_job, of_name) = (
            member(job.or(name).unwrap_or_default(), ""),
            member(name.unwrap_or_default(), ""),
        );
        let index = |key, prefix| Index { key, prefix };
        let indexes = match (job, name) {
            _ if request.is_open_only => vec![index(key::OPEN, "")],
            (None, None) => vec![index(key::RUNS, "")],
            (Some(_), _) => vec![index(key::RUNS_OF_JOB, &*of_job)],
            // Runs of a job that is named like its lock are only in the job's index.
            (None, Some(_)) => vec![
                index(key::RUNS_OF_NAME, &*of_name),
                index(key::RUNS_OF_JOB, &*of_job),
            ],
        };
        let is_plain =
            request.outcome.is_none() && name.is_none() && (job.is_none() || !request.is_open_only);
        let part = if is_plain {
            request.limit().min(PAGE)
        } else {
            PAGE
        };
        let mut runs = Vec::new();
        for index in indexes {
            let ends = (request.before.as_ref(), request.since);
            let sizes = (request.limit(), part);
            runs.extend(self.page(index, key::RUN, ends, sizes, wanted).await?);
        }
        runs.sort_by(|a, b| b.id.cmp(&a.id));
        runs.truncate(request.limit());
        Ok(runs)
    }

    /// Removes the first records of a range, all but the last `keep`. Returns their number, and the server's time in
    /// microseconds.
    async fn remove(&self, key: &str, from: &[u8], to: &[u8], keep: usize) -> Result<(u64, u64)> {
        let (keep, most) = (keep.to_string(), MOST_PRUNED.to_string());
        let arguments = [key.as_bytes(), from, to, keep.as_bytes(), most.as_bytes()];
        parsed(self.run(&scripts::PRUNE, &arguments).await?)
    }

    async fn remove_runs_of(&self, job: &str, keep: usize) -> Result<(u64, u64)> {
        let prefix = member(job, "");
        let from = ["[", &prefix].concat();
        let to = [b"(", prefix.as_bytes(), LAST].concat();
        self.remove(key::RUNS_OF_JOB, from.as_bytes(), &to, keep)
            .await
    }

    async fn prune_all(&self, job: &str, retention: &Retention) -> Result<u64> {
        let job = LIMITS.name(job);
        let (mut removed, now) = self.remove_runs_of(job, retention.runs_per_job).await?;
        let now = Duration::from_micros(now);
        for (key, age) in [
            (key::RUNS, retention.max_age),
            (key::AUDITS, retention.max_audit_age),
        ] {
            let oldest = oldest(SystemTime::UNIX_EPOCH + now.saturating_sub(age));
            let to = ["(", &oldest].concat();
            removed += self.remove(key, b"-", to.as_bytes(), 0).await?.0;
        }
        Ok(removed)
    }

    async fn forget_all(&self, job: &str) -> Result<bool> {
        let job = LIMITS.name(job);
        while self.remove_runs_of(job, 0).await?.0 > 0 {}
        let removed: u64 = parsed(self.run(&scripts::FORGET, &[job]).await?)?;
        Ok(removed > 0)
    }

    async fn send(&self, words: &[&str], writes: bool) -> Result<Value> {
        let mut command = cmd(words[0]);
        command.arg(&words[1..]);
        let answer = self.store.connections.send(&command, None).await;
        answer.map_err(|failure| self.explained(explain(failure, writes)))
    }

    async fn found_version(&self) -> Result<Option<u32>> {
        let found: Option<String> = parsed(self.send(&["GET", &self.keys[0]], false).await?)?;
        found
            .map(|version| version.parse().map_err(|_| foreign()))
            .transpose()
    }

    async fn found_identity(&self) -> Result<Option<String>> {
        if self.found_version().await?.is_none() {
            return Ok(None);
        }
        parsed(self.send(&["GET", &self.keys[11]], false).await?)
    }

    async fn create(&self) -> Result<Migration> {
        // The version is written last, and a reader relies on everything that was created before it.
        let _ = self
            .send(&["EVAL", IDENTIFY, "1", &self.keys[11]], true)
            .await?;
        let version = JOURNAL_VERSION.to_string();
        let words = ["SET", &self.keys[0], &version, "NX"];
        let is_new = self.send(&words, true).await? != Value::Nil;
        let changes = is_new.then(|| format!("created the journal {}", self.start));
        Ok(Migration::with_changes(changes.into_iter().collect()))
    }
}

/// What creates a journal whose keys start like this.
pub(crate) fn steps(start: &str) -> Vec<MigrationStep> {
    let identify = format!("EVAL \"{IDENTIFY}\" 1 \"{start}:{}\"", SUFFIXES[11]);
    let statement = format!("SET \"{start}:{}\" {JOURNAL_VERSION} NX", SUFFIXES[0]);
    let step = MigrationStep::new;
    vec![
        step(format!("give the journal {start} an identity")).with_statement(identify),
        step(format!("create the journal {start}")).with_statement(statement),
    ]
}

/// The start of the ids at this instant.
fn oldest(instant: SystemTime) -> String {
    let since = instant.duration_since(SystemTime::UNIX_EPOCH);
    format!("{:014x}", since.unwrap_or_default().as_micros())
}

fn parsed<T: redis::FromRedisValue>(answer: Value) -> Result<T> {
    T::from_redis_value(answer).map_err(|error| malformed().with_source(error))
}

impl Journal for RedisJournal {
    fn record<'a>(&'a self, entries: &'a [JournalEntry]) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.record_all(entries))
    }

    fn job<'a>(&'a self, job: &'a str) -> BoxFuture<'a, Result<Option<JobRecord>>> {
        Box::pin(async move {
            let only = ["[", LIMITS.name(job)].concat();
            Ok(self.jobs_of(&only, &only, 1).await?.pop())
        })
    }

    fn jobs<'a>(&'a self, request: &'a JobsRequest) -> BoxFuture<'a, Result<Vec<JobRecord>>> {
        Box::pin(async move {
            let after = request
                .after
                .as_deref()
                .map(|after| ["(", LIMITS.name(after)].concat());
            let from = after.as_deref().unwrap_or("-");
            self.jobs_of(from, "+", request.limit()).await
        })
    }

    fn runs<'a>(&'a self, request: &'a RunsRequest) -> BoxFuture<'a, Result<Vec<RunRecord>>> {
        Box::pin(self.runs_of(request))
    }

    fn audit<'a>(&'a self, request: &'a AuditRequest) -> BoxFuture<'a, Result<Vec<AuditRecord>>> {
        Box::pin(async move {
            let name = request.name.as_deref().map(|name| LIMITS.name(name));
            let wanted = |id: &str, value: &[u8]| {
                let record = rows::audit(id, value)?;
                Ok(name
                    .is_none_or(|name| record.name == name)
                    .then_some(record))
            };
            let index = Index {
                key: key::AUDITS,
                prefix: "",
            };
            let sizes = (request.limit(), PAGE);
            let ends = (request.before.as_ref(), None);
            self.page(index, key::AUDIT, ends, sizes, wanted).await
        })
    }

    fn prune<'a>(&'a self, job: &'a str, retention: &'a Retention) -> BoxFuture<'a, Result<u64>> {
        Box::pin(self.prune_all(job, retention))
    }

    fn forget<'a>(&'a self, job: &'a str) -> BoxFuture<'a, Result<bool>> {
        Box::pin(self.forget_all(job))
    }

    fn missing_privileges(&self) -> BoxFuture<'_, Result<Vec<String>>> {
        Box::pin(async {
            let forbidden = self.store.forbidden(&self.keys[0], &OF_JOURNALS).await?;
            if forbidden.is_empty() {
                return Ok(Vec::new());
            }
            let commands = listed(&forbidden, "and");
            let lacking = format!("the commands {commands} on the keys \"{}:*\"", self.start);
            Ok(vec![lacking])
        })
    }

    fn version(&self) -> BoxFuture<'_, Result<Option<u32>>> {
        Box::pin(self.found_version())
    }

    fn identity(&self) -> BoxFuture<'_, Result<Option<String>>> {
        Box::pin(self.found_identity())
    }

    fn migrate(&self) -> BoxFuture<'_, Result<Migration>> {
        Box::pin(self.create())
    }

    fn plan_migration(&self) -> BoxFuture<'_, Result<Vec<MigrationStep>>> {
        Box::pin(async {
            let found = self.found_version().await?;
            Ok(if found.is_some() {
                Vec::new()
            } else {
                steps(&self.start)
            })
        })
    }
}

impl fmt::Debug for RedisJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RedisJournal").field(&self.start).finish()
    }
}
