//! The journal's statements.

use shedlock_core::{AuditRequest, RunsRequest};

use super::schema::{AUDIT, JOB, RUN, fields, names};
use crate::dialect::Dialect;
use crate::options::Options;
use crate::statement::Field::{self, Number, Text};
use crate::statement::Statement;

pub(super) struct Statements {
    /// Those that begin a transaction.
    pub(super) begin: Vec<Statement>,
    /// Those that end it.
    pub(super) end: Vec<Statement>,
    pub(super) clock: Statement,
    pub(super) version: Statement,
    pub(super) identity: Statement,
    pub(super) version_insert: Statement,
    pub(super) job: Statement,
    pub(super) jobs: Statement,
    pub(super) job_insert: Statement,
    pub(super) job_change: Statement,
    pub(super) job_started: Statement,
    pub(super) job_ended: Statement,
    pub(super) job_elsewhere: Statement,
    pub(super) job_watched: Statement,
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

static JOB_FIELDS: [Field; JOB.len()] = fields(&JOB);
static RUN_FIELDS: [Field; RUN.len()] = fields(&RUN);
static AUDIT_FIELDS: [Field; AUDIT.len()] = fields(&AUDIT);

/// No database objects to a table without rows, and all accept this one.
const ONE: &str = "FROM (SELECT 1 AS one) AS n";

const IS_SAME_SCHEDULE: &str =
    "COALESCE(schedule, '') = :j_schedule AND COALESCE(zone, '') = :j_zone";

/// Whether the run started last. Of the columns that it uses, none is set before the last one that depends on it: MySQL
/// assigns one after the other.
const IS_LAST: &str = "(:j_started > COALESCE(last_started_us, -1))";

/// Whether an end replaces what is known: nothing, or a success of which the unlock found that the lease had been lost
/// before, or may have been.
fn replaces(outcome: &str) -> String {
    format!(
        "({outcome} IS NULL OR ({outcome} = 'succeeded' AND :j_outcome IN ('lost', 'maybe_overlapped')))"
    )
}

fn job_change() -> String {
    format!(
        "UPDATE {{job}} SET \
                 registered_us = CASE WHEN {IS_SAME_SCHEDULE} THEN registered_us ELSE {{clock}} END, \
                 next_slot_us = CASE WHEN {IS_SAME_SCHEDULE} AND COALESCE(deadline_us, -1) >= :j_deadline \
                 THEN next_slot_us ELSE NULLIF(:j_next, -1) END, \
                 deadline_us = CASE WHEN {IS_SAME_SCHEDULE} AND COALESCE(deadline_us, -1) >= :j_deadline \
                 THEN deadline_us ELSE NULLIF(:j_deadline, -1) END, \
                 lock_at_most_us = NULLIF(:j_at_most, -1), registered_by = NULLIF(:j_by, ''), \
                 other_by = NULLIF(:j_other_by, ''), other_at_us = NULLIF(:j_other_at, -1), \
                 other_schedule = NULLIF(:j_other_schedule, ''), other_zone = NULLIF(:j_other_zone, ''), \
                 other_lock_at_most_us = NULLIF(:j_other_at_most, -1), \
                 schedule = NULLIF(:j_schedule, ''), zone = NULLIF(:j_zone, '') WHERE job = :j_job"
    )
}

fn job_started() -> String {
    let if_last = |column: &str, value: &str| {
        format!("{column} = CASE WHEN {IS_LAST} THEN {value} ELSE {column} END")
    };
    format!(
        "UPDATE {{job}} SET {}, {}, {}, {}, {}, {}, {} WHERE job = :j_job",
        if_last("last_name", ":j_name"),
        if_last("last_owner", ":j_owner"),
        if_last("last_lock_at_most_us", "NULLIF(:j_at_most, -1)"),
        if_last("last_slot_us", "NULLIF(:j_slot, -1)"),
        if_last("last_lock_store", "NULLIF(:j_lock_store, '')"),
        if_last("last_outcome", "NULL"),
        if_last("last_started_us", ":j_started"),
    )
}

/// Whether the deadline, and with it the next slot, moves.
const MOVES: &str = ":j_deadline > COALESCE(deadline_us, -1)";

fn job_ended() -> String {
    let later = |column: &str, value: &str, is_set: &str| {
        format!(
            "{column} = CASE WHEN {is_set} AND :{value} > COALESCE({column}, -1) \
             THEN :{value} ELSE {column} END"
        )
    };
    // Of the columns that this uses, the last one that depends on them is set last.
    let is_known = "((:j_succeeded = 1 OR :j_failed = 1) AND :j_started > elsewhere_at_us)";
    let unless_known =
        |column: &str| format!("{column} = CASE WHEN {is_known} THEN NULL ELSE {column} END");
    let latest = |ended: &str| format!(":j_ended >= COALESCE({ended}, -1)");
    format!(
        "UPDATE {{job}} SET \
                 next_slot_us = CASE WHEN {MOVES} THEN :j_next ELSE next_slot_us END, \
                 deadline_us = CASE WHEN {MOVES} THEN :j_deadline ELSE deadline_us END, \
                 last_outcome = CASE WHEN last_name = :j_name AND last_owner = :j_owner AND {} \
                 THEN :j_outcome ELSE last_outcome END, \
                 last_duration_us = CASE WHEN :j_succeeded = 1 AND {} \
                 THEN :j_ran_for ELSE last_duration_us END, \
                 last_error = CASE WHEN :j_failed = 1 AND {} \
                 THEN NULLIF(:j_line, '') ELSE last_error END, {}, {}, {}, {}, {}, {} WHERE job = :j_job",
        replaces("last_outcome"),
        latest("last_succeeded_us"),
        latest("last_failed_us"),
        later("last_failed_us", "j_ended", ":j_failed = 1"),
        later("last_succeeded_us", "j_ended", ":j_succeeded = 1"),
        unless_known("elsewhere_slot_us"),
        unless_known("elsewhere_by"),
        unless_known("elsewhere_slots"),
        unless_known("elsewhere_at_us"),
    )
}

fn job_elsewhere() -> String {
    // Of the columns that this uses, the last one that depends on them is set last.
    let is_later = "(:j_slot > COALESCE(elsewhere_slot_us, -1) AND :j_started > COALESCE(last_started_us, -1))";
    let if_later = |column: &str, value: &str| {
        format!("{column} = CASE WHEN {is_later} THEN {value} ELSE {column} END")
    };
    format!(
        "UPDATE {{job}} SET \
                 next_slot_us = CASE WHEN {MOVES} THEN :j_next ELSE next_slot_us END, \
                 deadline_us = CASE WHEN {MOVES} THEN :j_deadline ELSE deadline_us END, {}, {}, {}, {} \
                 WHERE job = :j_job",
        if_later("elsewhere_at_us", ":j_started"),
        if_later("elsewhere_by", "NULLIF(:j_owner, '')"),
        if_later("elsewhere_slots", "COALESCE(elsewhere_slots, 0) + 1"),
        if_later("elsewhere_slot_us", ":j_slot"),
    )
}

impl Statements {
    pub(super) fn new(dialect: &Dialect, options: &Options) -> Self {
        let with = |template: &str, fields| dialect.journal_statement(options, template, fields);
        let plain = |template: &str| with(template, &[]);
        let (begin, end) = match options.are_lent {
            true => dialect.journal.lent_frame,
            false => dialect.journal.frame,
        };
        let (job, run, audit) = (names(&JOB), names(&RUN), names(&AUDIT));
        Self {
            begin: begin.iter().map(|text| plain(text)).collect(),
            end: end.iter().map(|text| plain(text)).collect(),
            clock: with("SELECT {clock}", &[Number]),
            version: with("SELECT version FROM {journal}", &[Number]),
            identity: with("SELECT identity FROM {journal}", &[Text]),
            version_insert: plain(&format!(
                "INSERT INTO {{journal}} (version, identity) SELECT :j_version, {{random}} {ONE} \
                 WHERE NOT EXISTS (SELECT 1 FROM {{journal}})"
            )),
            job: with(
                &format!("SELECT {job} FROM {{job}} WHERE job = :j_job"),
                &JOB_FIELDS,
            ),
            jobs: with(
                &format!(
                    "SELECT {job} FROM {{job}} WHERE job > :j_after ORDER BY job LIMIT :j_limit"
                ),
                &JOB_FIELDS,
            ),
            job_insert: plain(
                "INSERT INTO {job} (job, registered_us) VALUES (:j_job, {clock}) {unless_there}",
            ),
            job_change: plain(&job_change()),
            job_started: plain(&job_started()),
            job_ended: plain(&job_ended()),
            job_elsewhere: plain(&job_elsewhere()),
            job_watched: plain(
                "UPDATE {job} SET watched_elsewhere = :j_watched WHERE job = :j_job",
            ),
            run_insert: plain(&format!(
                "INSERT INTO {{run}} ({run}) VALUES (:j_id, :j_job, :j_name, :j_owner, \
                 NULLIF(:j_slot, -1), NULLIF(:j_attempt, -1), NULLIF(:j_token, -1), :j_started, \
                 NULLIF(:j_at_most, -1), NULLIF(:j_lock_store, ''), NULLIF(:j_ran_for, -1), \
                 NULLIF(:j_outcome, ''), NULLIF(:j_error, '')) \
                 {{unless_there}}"
            )),
            run_ended: plain(&format!(
                "UPDATE {{run}} SET ran_for_us = :j_ran_for, error = NULLIF(:j_error, ''), \
                 outcome = :j_outcome WHERE id = :j_id AND {}",
                replaces("outcome")
            )),
            audit_insert: plain(&format!(
                "INSERT {{ignore}}INTO {{audit}} ({audit}) VALUES (:j_id, :j_at, :j_actor, :j_authenticated, \
                 :j_action, :j_name, :j_detail, NULLIF(:j_reason, ''), NULLIF(:j_until, -1), \
                 NULLIF(:j_lock_store, '')){{ignored}}"
            )),
            // A read of its own, because on MySQL it would lock what it reads as part of the DELETE.
            first_excess: with(
                "SELECT id, started_us FROM {run} WHERE job = :j_job \
                 ORDER BY started_us DESC, id DESC LIMIT 1 OFFSET :j_keep",
                &[Text, Number],
            ),
            // MySQL accepts the table in a subquery of its own DELETE only inside another one.
            prune_runs: plain(
                "DELETE FROM {run} WHERE id IN (SELECT id FROM (SELECT id FROM {run} \
                 WHERE job = :j_job AND started_us <= :j_started \
                 AND (started_us < :j_started OR id <= :j_id) \
                 ORDER BY started_us, id LIMIT :j_limit) AS excess)",
            ),
            prune_old_runs: plain(
                "DELETE FROM {run} WHERE id IN (SELECT id FROM (SELECT id FROM {run} \
                 WHERE started_us < :j_started ORDER BY started_us, id LIMIT :j_limit) AS old)",
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
        (request.job.as_deref().is_some(), "job = :j_job"),
        (request.name.as_deref().is_some(), "name = :j_name"),
        (request.outcome.is_some(), "outcome = :j_outcome"),
        (request.is_open_only, "outcome IS NULL"),
        (request.since.is_some(), "started_us >= :j_since"),
        (
            request.before.as_ref().is_some(),
            "started_us <= :j_started",
        ),
        (
            request.before.as_ref().is_some(),
            "(started_us < :j_started OR id < :j_id)",
        ),
    ];
    let order = "started_us DESC, id DESC";
    page(
        dialect,
        options,
        ("run", &names(&RUN), order),
        &RUN_FIELDS,
        &conditions,
    )
}

/// The statement for a page of audit records.
pub(super) fn audit(dialect: &Dialect, options: &Options, request: &AuditRequest) -> Statement {
    let conditions = [
        (request.name.as_deref().is_some(), "name = :j_name"),
        (request.before.as_ref().is_some(), "id < :j_id"),
    ];
    page(
        dialect,
        options,
        ("audit", &names(&AUDIT), "id DESC"),
        &AUDIT_FIELDS,
        &conditions,
    )
}

fn page(
    dialect: &Dialect,
    options: &Options,
    (table, columns, order): (&str, &str, &str),
    fields: &'static [Field],
    conditions: &[(bool, &str)],
) -> Statement {
    let mut template = format!("SELECT {columns} FROM {{{table}}} WHERE 1 = 1");
    for (_, condition) in conditions.iter().filter(|(is_set, _)| *is_set) {
        template.push_str(" AND ");
        template.push_str(condition);
    }
    template.push_str(&format!(" ORDER BY {order} LIMIT :j_limit"));
    dialect.journal_statement(options, &template, fields)
}
