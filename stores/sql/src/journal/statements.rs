//! The journal's statements.

use shedlock_core::{AuditRequest, RunsRequest};

use super::schema::{AUDIT, JOB, RUN, assignments, fields, names, values};
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
    pub(super) job_is_there: Statement,
    pub(super) job_for_update: Statement,
    pub(super) job_insert: Statement,
    pub(super) job_update: Statement,
    pub(super) run: Statement,
    pub(super) run_insert: Statement,
    pub(super) run_update: Statement,
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

impl Statements {
    pub(super) fn new(dialect: &Dialect, options: &Options) -> Self {
        // Long: one table of statements.
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
            job_is_there: with(
                "SELECT {clock}, (SELECT COUNT(*) FROM {job} WHERE job = :j_job)",
                &[Number, Number],
            ),
            job_for_update: with(
                &format!("SELECT {job} FROM {{job}} WHERE job = :j_job{{for_update}}"),
                &JOB_FIELDS,
            ),
            job_insert: plain(&format!(
                "INSERT INTO {{job}} ({job}) VALUES ({})",
                values(&JOB)
            )),
            job_update: plain(&format!(
                "UPDATE {{job}} SET {} WHERE job = :j_job",
                assignments(&JOB)
            )),
            run: with(
                &format!("SELECT {run} FROM {{run}} WHERE id = :j_id"),
                &RUN_FIELDS,
            ),
            run_insert: plain(&format!(
                "INSERT INTO {{run}} ({run}) VALUES ({})",
                values(&RUN)
            )),
            run_update: plain(&format!(
                "UPDATE {{run}} SET {} WHERE id = :j_id",
                assignments(&RUN)
            )),
            audit_insert: plain(&format!(
                "INSERT {{ignore}}INTO {{audit}} ({audit}) VALUES ({}){{ignored}}",
                values(&AUDIT)
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
                 ORDER BY started_us, id LIMIT :j_limit) AS excess){guarded}",
            ),
            prune_old_runs: plain(
                "DELETE FROM {run} WHERE id IN (SELECT id FROM (SELECT id FROM {run} \
                 WHERE started_us < :j_started ORDER BY started_us, id LIMIT :j_limit) AS old){guarded}",
            ),
            prune_old_audit: plain(
                "DELETE FROM {audit} WHERE id IN (SELECT id FROM (SELECT id FROM {audit} \
                 WHERE id < :j_id ORDER BY id LIMIT :j_limit) AS old){guarded}",
            ),
            forget_runs: plain("DELETE FROM {run} WHERE job = :j_job{guarded}"),
            forget_job: plain("DELETE FROM {job} WHERE job = :j_job{guarded}"),
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
