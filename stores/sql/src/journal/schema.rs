//! The journal's tables and statements.

use shedlock_core::{AuditRequest, RunsRequest};
use shedlock_store::{Result, invalid};

use crate::dialect::Dialect;
use crate::options::Options;
use crate::statement::Field::{self, Number, Text};
use crate::statement::Statement;

/// What the names of the journal's tables add to the name of the lock table.
pub(super) const TABLES: [&str; 4] = ["_journal", "_job", "_run", "_audit"];

/// The most characters of a job's or lock's name, an owner, a schedule.
pub(super) const LONGEST_TEXT: usize = 255;

/// The most characters of an audit record's texts, and of the first line of an error.
pub(super) const LONGEST_LINE: usize = 1_024;

pub(super) struct Statements {
    pub(super) begin: Statement,
    pub(super) commit: Statement,
    pub(super) clock: Statement,
    pub(super) version: Statement,
    pub(super) version_insert: Statement,
    pub(super) job: Statement,
    pub(super) jobs: Statement,
    pub(super) job_insert: Statement,
    pub(super) job_change: Statement,
    pub(super) job_started: Statement,
    pub(super) job_ended: Statement,
    pub(super) run_insert: Statement,
    pub(super) run_ended: Statement,
    pub(super) audit_insert: Statement,
    pub(super) first_excess: Statement,
    pub(super) prune_runs: Statement,
    pub(super) prune_old_runs: Statement,
    pub(super) prune_old_audit: Statement,
    pub(super) forget_runs: Statement,
    pub(super) forget_job: Statement,
}

const JOB: &str = "job, schedule, zone, lock_at_most_us, registered_us, last_started_us, \
     last_succeeded_us, last_failed_us, last_error, last_outcome, last_duration_us, next_slot_us, \
     deadline_us";

const JOB_FIELDS: &[Field] = &[
    Text, Text, Text, Number, Number, Number, Number, Number, Text, Text, Number, Number, Number,
];

const RUN: &str = "id, job, name, owner, slot_us, attempt, fencing_token, started_us, ran_for_us, \
     outcome, error";

const RUN_FIELDS: &[Field] = &[
    Text, Text, Text, Text, Number, Number, Number, Number, Number, Text, Text,
];

const AUDIT: &str = "id, at_us, actor, is_authenticated, action, name, detail, reason";

const AUDIT_FIELDS: &[Field] = &[Text, Number, Text, Number, Text, Text, Text, Text];

/// No database objects to a table without rows, and all accept this one.
const ONE: &str = "FROM (SELECT 1 AS one) AS n";

const IS_SAME_SCHEDULE: &str =
    "COALESCE(schedule, '') = :j_schedule AND COALESCE(zone, '') = :j_zone";

/// Whether no run has ended later. Of the columns that this uses, none is set before the last one that uses it: MySQL
/// assigns one after the other.
const IS_LATEST: &str =
    "(:j_ended >= COALESCE(last_succeeded_us, -1) AND :j_ended >= COALESCE(last_failed_us, -1))";

impl Statements {
    pub(super) fn new(dialect: &Dialect, options: &Options) -> Self {
        let with = |template: &str, fields| dialect.journal_statement(options, template, fields);
        let plain = |template: &str| with(template, &[]);
        let later = |column: &str, value: &str, is_set: &str| {
            format!(
                "{column} = CASE WHEN {is_set} AND :{value} > COALESCE({column}, -1) \
                 THEN :{value} ELSE {column} END"
            )
        };
        let moves = ":j_deadline > COALESCE(deadline_us, -1)";
        Self {
            begin: plain(dialect.journal.begin),
            commit: plain("COMMIT"),
            clock: with("SELECT {clock}", &[Number]),
            version: with("SELECT version FROM {journal}", &[Number]),
            version_insert: plain(&format!(
                "INSERT INTO {{journal}} (version) SELECT :j_version {ONE} \
                 WHERE NOT EXISTS (SELECT 1 FROM {{journal}})"
            )),
            job: with(
                &format!("SELECT {JOB} FROM {{job}} WHERE job = :j_job"),
                JOB_FIELDS,
            ),
            jobs: with(
                &format!(
                    "SELECT {JOB} FROM {{job}} WHERE job > :j_after ORDER BY job LIMIT :j_limit"
                ),
                JOB_FIELDS,
            ),
            job_insert: plain(
                "INSERT INTO {job} (job, registered_us) VALUES (:j_job, {clock}) {unless_there}",
            ),
            job_change: plain(&format!(
                "UPDATE {{job}} SET \
                 registered_us = CASE WHEN {IS_SAME_SCHEDULE} THEN registered_us ELSE {{clock}} END, \
                 next_slot_us = CASE WHEN {IS_SAME_SCHEDULE} AND COALESCE(deadline_us, -1) >= :j_deadline \
                 THEN next_slot_us ELSE NULLIF(:j_next, -1) END, \
                 deadline_us = CASE WHEN {IS_SAME_SCHEDULE} AND COALESCE(deadline_us, -1) >= :j_deadline \
                 THEN deadline_us ELSE NULLIF(:j_deadline, -1) END, \
                 lock_at_most_us = NULLIF(:j_at_most, -1), \
                 schedule = NULLIF(:j_schedule, ''), zone = NULLIF(:j_zone, '') WHERE job = :j_job"
            )),
            job_started: plain(&format!(
                "UPDATE {{job}} SET {} WHERE job = :j_job",
                later("last_started_us", "j_started", "1 = 1")
            )),
            job_ended: plain(&format!(
                "UPDATE {{job}} SET \
                 next_slot_us = CASE WHEN {moves} THEN :j_next ELSE next_slot_us END, \
                 deadline_us = CASE WHEN {moves} THEN :j_deadline ELSE deadline_us END, \
                 last_outcome = CASE WHEN {IS_LATEST} THEN :j_outcome ELSE last_outcome END, \
                 last_duration_us = CASE WHEN {IS_LATEST} AND :j_succeeded = 1 \
                 THEN :j_ran_for ELSE last_duration_us END, \
                 last_error = CASE WHEN {IS_LATEST} AND :j_failed = 1 \
                 THEN NULLIF(:j_line, '') ELSE last_error END, {}, {} WHERE job = :j_job",
                later("last_failed_us", "j_ended", ":j_failed = 1"),
                later("last_succeeded_us", "j_ended", ":j_succeeded = 1"),
            )),
            run_insert: plain(&format!(
                "INSERT INTO {{run}} ({RUN}) VALUES (:j_id, :j_job, :j_name, :j_owner, \
                 NULLIF(:j_slot, -1), NULLIF(:j_attempt, -1), NULLIF(:j_token, -1), :j_started, \
                 NULLIF(:j_ran_for, -1), NULLIF(:j_outcome, ''), NULLIF(:j_error, '')) \
                 {{unless_there}}"
            )),
            run_ended: plain(
                "UPDATE {run} SET ran_for_us = :j_ran_for, error = NULLIF(:j_error, ''), \
                 outcome = :j_outcome WHERE id = :j_id \
                 AND (outcome IS NULL OR :j_outcome = 'lost')",
            ),
            audit_insert: plain(&format!(
                "INSERT INTO {{audit}} ({AUDIT}) VALUES (:j_id, :j_at, :j_actor, :j_authenticated, \
                 :j_action, :j_name, :j_detail, NULLIF(:j_reason, '')) {{unless_there}}"
            )),
            // A read of its own, because on MySQL it would lock what it reads as part of the DELETE.
            first_excess: with(
                "SELECT id FROM {run} WHERE job = :j_job ORDER BY id DESC LIMIT 1 OFFSET :j_keep",
                &[Text],
            ),
            // MySQL accepts the table in a subquery of its own DELETE only inside another one.
            prune_runs: plain(
                "DELETE FROM {run} WHERE id IN (SELECT id FROM (SELECT id FROM {run} \
                 WHERE job = :j_job AND id <= :j_id ORDER BY id LIMIT :j_limit) AS excess)",
            ),
            prune_old_runs: plain(
                "DELETE FROM {run} WHERE id IN (SELECT id FROM (SELECT id FROM {run} \
                 WHERE id < :j_id ORDER BY id LIMIT :j_limit) AS old)",
            ),
            prune_old_audit: plain(
                "DELETE FROM {audit} WHERE id IN (SELECT id FROM (SELECT id FROM {audit} \
                 WHERE id < :j_id ORDER BY id LIMIT :j_limit) AS old)",
            ),
            forget_runs: plain("DELETE FROM {run} WHERE job = :j_job"),
            forget_job: plain("DELETE FROM {job} WHERE job = :j_job"),
        }
    }
}

/// The statement for a page of runs.
pub(super) fn runs(dialect: &Dialect, options: &Options, request: &RunsRequest) -> Statement {
    let conditions = [
        (request.job().is_some(), "job = :j_job"),
        (request.name().is_some(), "name = :j_name"),
        (request.outcome().is_some(), "outcome = :j_outcome"),
        (request.is_open_only(), "outcome IS NULL"),
        (request.since().is_some(), "started_us >= :j_since"),
        (request.before().is_some(), "id < :j_id"),
    ];
    page(dialect, options, "run", RUN, RUN_FIELDS, &conditions)
}

/// The statement for a page of audit records.
pub(super) fn audit(dialect: &Dialect, options: &Options, request: &AuditRequest) -> Statement {
    let conditions = [
        (request.name().is_some(), "name = :j_name"),
        (request.before().is_some(), "id < :j_id"),
    ];
    page(dialect, options, "audit", AUDIT, AUDIT_FIELDS, &conditions)
}

fn page(
    dialect: &Dialect,
    options: &Options,
    table: &str,
    columns: &str,
    fields: &'static [Field],
    conditions: &[(bool, &str)],
) -> Statement {
    let mut template = format!("SELECT {columns} FROM {{{table}}} WHERE 1 = 1");
    for (_, condition) in conditions.iter().filter(|(is_set, _)| *is_set) {
        template.push_str(" AND ");
        template.push_str(condition);
    }
    template.push_str(" ORDER BY id DESC LIMIT :j_limit");
    dialect.journal_statement(options, &template, fields)
}

/// Refuses a lock table whose name leaves no room for the names of the journal's tables.
pub(super) fn check_names(dialect: &Dialect, options: &Options) -> Result<()> {
    let name = options.table.name.as_str();
    let longest = dialect.longest_name() - "_journal".len();
    if name.len() <= longest {
        return Ok(());
    }
    Err(invalid(format!(
        "the journal's tables are named after the lock table, and {name:?} is too long for that: \
         this database leaves {longest} bytes; give the journal a store of its own"
    )))
}

/// What is reported as created, if anything, and the statement that creates it.
pub(super) fn creations(dialect: &Dialect, options: &Options) -> Vec<(Option<String>, Statement)> {
    let words = &dialect.journal;
    let id = (words.text)(64);
    let text = (words.text)(u32::try_from(LONGEST_TEXT).unwrap_or(u32::MAX));
    let line = (words.text)(u32::try_from(LONGEST_LINE).unwrap_or(u32::MAX));
    let (word, error) = ((words.text)(16), (words.text)(2_048));
    let tables = [
        (
            "journal",
            "version bigint NOT NULL PRIMARY KEY".to_owned(),
            &[][..],
        ),
        (
            "job",
            format!(
                "job {text} NOT NULL PRIMARY KEY, schedule {text} NULL, zone {text} NULL, \
                 lock_at_most_us bigint NULL, registered_us bigint NOT NULL, \
                 last_started_us bigint NULL, last_succeeded_us bigint NULL, \
                 last_failed_us bigint NULL, last_error {line} NULL, last_outcome {word} NULL, \
                 last_duration_us bigint NULL, next_slot_us bigint NULL, deadline_us bigint NULL"
            ),
            &[],
        ),
        (
            "run",
            format!(
                "id {id} NOT NULL PRIMARY KEY, job {text} NOT NULL, name {text} NOT NULL, \
                 owner {text} NOT NULL, slot_us bigint NULL, attempt bigint NULL, \
                 fencing_token bigint NULL, started_us bigint NOT NULL, ran_for_us bigint NULL, \
                 outcome {word} NULL, error {error} NULL"
            ),
            &["job", "name"],
        ),
        (
            "audit",
            format!(
                "id {id} NOT NULL PRIMARY KEY, at_us bigint NOT NULL, actor {text} NOT NULL, \
                 is_authenticated bigint NOT NULL, action {word} NOT NULL, name {text} NOT NULL, \
                 detail {line} NOT NULL, reason {line} NULL"
            ),
            &["name"],
        ),
    ];
    let mut all = Vec::new();
    for (table, columns, indexed) in tables {
        let name = options.table.with_suffix(&format!("_{table}"));
        let mut columns = columns;
        if words.inline_indexes {
            for column in indexed {
                columns.push_str(&format!(", INDEX ({column}, id)"));
            }
        }
        let create = format!("CREATE TABLE {{{table}}} ({columns})");
        let created = format!("created table {name}");
        all.push((
            Some(created),
            dialect.journal_statement(options, &create, &[]),
        ));
        for column in indexed.iter().filter(|_| !words.inline_indexes) {
            let index = name.with_suffix(&format!("_{column}"));
            let index = index.name.quoted(dialect.quotation_mark());
            let create = format!("CREATE INDEX {index} ON {{{table}}} ({column}, id)");
            all.push((None, dialect.journal_statement(options, &create, &[])));
        }
    }
    all
}
