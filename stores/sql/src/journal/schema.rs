//! The journal's tables and statements.

use shedlock_core::{AuditRequest, JOURNAL_VERSION, RunsRequest};
use shedlock_store::{Result, invalid};

use crate::dialect::Dialect;
use crate::identifier::Table;
use crate::options::Options;
use crate::schema::{Definition, Verb};
use crate::shape::Column;
use crate::statement::Field::{self, Number, Text};
use crate::statement::{Statement, Value, Values};

/// What the names of the journal's tables add to the name of the lock table.
pub(super) const TABLES: [&str; 4] = ["_journal", "_job", "_run", "_audit"];

/// The most characters of a job's or lock's name, an owner, a schedule.
pub(super) const LONGEST_TEXT: usize = 255;

/// The most characters of an audit record's texts, and of the first line of an error.
pub(super) const LONGEST_LINE: usize = 1_024;

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

const JOB: &str = "job, schedule, zone, lock_at_most_us, registered_us, last_started_us, last_name, \
     last_owner, last_lock_at_most_us, last_slot_us, last_lock_store, last_outcome, last_succeeded_us, \
     last_failed_us, last_error, last_duration_us, next_slot_us, deadline_us, registered_by, other_by, \
     other_at_us, other_schedule, other_zone, other_lock_at_most_us, elsewhere_slot_us, elsewhere_at_us, \
     elsewhere_by, elsewhere_slots, watched_elsewhere";

const JOB_FIELDS: &[Field] = &[
    Text, Text, Text, Number, Number, Number, Text, Text, Number, Number, Text, Text, Number,
    Number, Text, Number, Number, Number, Text, Text, Number, Text, Text, Number, Number, Number,
    Text, Number, Number,
];

const RUN: &str = "id, job, name, owner, slot_us, attempt, fencing_token, started_us, lock_at_most_us, \
     lock_store, ran_for_us, outcome, error";

const RUN_FIELDS: &[Field] = &[
    Text, Text, Text, Text, Number, Number, Number, Number, Number, Text, Number, Text, Text,
];

const AUDIT: &str =
    "id, at_us, actor, is_authenticated, action, name, detail, reason, until_us, lock_store";

const AUDIT_FIELDS: &[Field] = &[
    Text, Number, Text, Number, Text, Text, Text, Text, Number, Text,
];

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

impl Statements {
    pub(super) fn new(dialect: &Dialect, options: &Options) -> Self {
        let with = |template: &str, fields| dialect.journal_statement(options, template, fields);
        let plain = |template: &str| with(template, &[]);
        let (begin, end) = match options.are_lent {
            true => dialect.journal.lent_frame,
            false => dialect.journal.frame,
        };
        let later = |column: &str, value: &str, is_set: &str| {
            format!(
                "{column} = CASE WHEN {is_set} AND :{value} > COALESCE({column}, -1) \
                 THEN :{value} ELSE {column} END"
            )
        };
        let if_last = |column: &str, value: &str| {
            format!("{column} = CASE WHEN {IS_LAST} THEN {value} ELSE {column} END")
        };
        let moves = ":j_deadline > COALESCE(deadline_us, -1)";
        // Of the columns that these two use, the last one that depends on them is set last.
        let is_later = "(:j_slot > COALESCE(elsewhere_slot_us, -1) AND :j_started > COALESCE(last_started_us, -1))";
        let is_known = "((:j_succeeded = 1 OR :j_failed = 1) AND :j_started > elsewhere_at_us)";
        let if_later = |column: &str, value: &str| {
            format!("{column} = CASE WHEN {is_later} THEN {value} ELSE {column} END")
        };
        let unless_known =
            |column: &str| format!("{column} = CASE WHEN {is_known} THEN NULL ELSE {column} END");
        let latest = |ended: &str| format!(":j_ended >= COALESCE({ended}, -1)");
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
                 lock_at_most_us = NULLIF(:j_at_most, -1), registered_by = NULLIF(:j_by, ''), \
                 other_by = NULLIF(:j_other_by, ''), other_at_us = NULLIF(:j_other_at, -1), \
                 other_schedule = NULLIF(:j_other_schedule, ''), other_zone = NULLIF(:j_other_zone, ''), \
                 other_lock_at_most_us = NULLIF(:j_other_at_most, -1), \
                 schedule = NULLIF(:j_schedule, ''), zone = NULLIF(:j_zone, '') WHERE job = :j_job"
            )),
            job_started: plain(&format!(
                "UPDATE {{job}} SET {}, {}, {}, {}, {}, {}, {} WHERE job = :j_job",
                if_last("last_name", ":j_name"),
                if_last("last_owner", ":j_owner"),
                if_last("last_lock_at_most_us", "NULLIF(:j_at_most, -1)"),
                if_last("last_slot_us", "NULLIF(:j_slot, -1)"),
                if_last("last_lock_store", "NULLIF(:j_lock_store, '')"),
                if_last("last_outcome", "NULL"),
                if_last("last_started_us", ":j_started"),
            )),
            job_ended: plain(&format!(
                "UPDATE {{job}} SET \
                 next_slot_us = CASE WHEN {moves} THEN :j_next ELSE next_slot_us END, \
                 deadline_us = CASE WHEN {moves} THEN :j_deadline ELSE deadline_us END, \
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
            )),
            job_elsewhere: plain(&format!(
                "UPDATE {{job}} SET \
                 next_slot_us = CASE WHEN {moves} THEN :j_next ELSE next_slot_us END, \
                 deadline_us = CASE WHEN {moves} THEN :j_deadline ELSE deadline_us END, {}, {}, {}, {} \
                 WHERE job = :j_job",
                if_later("elsewhere_at_us", ":j_started"),
                if_later("elsewhere_by", "NULLIF(:j_owner, '')"),
                if_later("elsewhere_slots", "COALESCE(elsewhere_slots, 0) + 1"),
                if_later("elsewhere_slot_us", ":j_slot"),
            )),
            job_watched: plain(
                "UPDATE {job} SET watched_elsewhere = :j_watched WHERE job = :j_job",
            ),
            run_insert: plain(&format!(
                "INSERT INTO {{run}} ({RUN}) VALUES (:j_id, :j_job, :j_name, :j_owner, \
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
                "INSERT {{ignore}}INTO {{audit}} ({AUDIT}) VALUES (:j_id, :j_at, :j_actor, :j_authenticated, \
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
        (request.job().is_some(), "job = :j_job"),
        (request.name().is_some(), "name = :j_name"),
        (request.outcome().is_some(), "outcome = :j_outcome"),
        (request.is_open_only(), "outcome IS NULL"),
        (request.since().is_some(), "started_us >= :j_since"),
        (request.before().is_some(), "started_us <= :j_started"),
        (
            request.before().is_some(),
            "(started_us < :j_started OR id < :j_id)",
        ),
    ];
    let order = "started_us DESC, id DESC";
    page(
        dialect,
        options,
        ("run", RUN, order),
        RUN_FIELDS,
        &conditions,
    )
}

/// The statement for a page of audit records.
pub(super) fn audit(dialect: &Dialect, options: &Options, request: &AuditRequest) -> Statement {
    let conditions = [
        (request.name().is_some(), "name = :j_name"),
        (request.before().is_some(), "id < :j_id"),
    ];
    page(
        dialect,
        options,
        ("audit", AUDIT, "id DESC"),
        AUDIT_FIELDS,
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

/// Refuses a lock table whose name leaves no room for the names of the journal's tables.
pub(super) fn check_names(dialect: &Dialect, options: &Options) -> Result<()> {
    let name = options.table.name.as_str();
    let longest = dialect.longest_name - "_journal".len();
    if name.len() <= longest {
        return Ok(());
    }
    Err(invalid(format!(
        "the journal's tables are named after the lock table, and {name:?} is too long for \
             that: this database leaves {longest} bytes"
    ))
    .advise("give the journal a store of its own"))
}

/// A table of the journal, without its quotes.
pub(super) struct TableOf {
    /// What the table's name adds to that of the lock table.
    pub(super) suffix: &'static str,
    columns: Vec<(&'static str, String)>,
    /// Each has an index, together with the columns by which the rows are ordered.
    indexed: &'static [&'static str],
    order: &'static str,
}

/// The tables, in the order in which they are created. The first one has the version, which is written last.
pub(super) fn tables(dialect: &Dialect) -> [TableOf; 4] {
    let words = &dialect.journal;
    let key = |of: &str| format!("{of} NOT NULL PRIMARY KEY");
    let must = |of: &str| format!("{of} NOT NULL");
    let may = |of: &str| format!("{of} NULL");
    let id = (words.text)(64);
    let text = (words.text)(u32::try_from(LONGEST_TEXT).unwrap_or(u32::MAX));
    let line = (words.text)(u32::try_from(LONGEST_LINE).unwrap_or(u32::MAX));
    let (word, error) = ((words.text)(16), (words.text)(2_048));
    let number = "bigint";
    [
        TableOf {
            suffix: "_journal",
            columns: vec![("version", key(number)), ("identity", must(&id))],
            indexed: &[],
            order: "",
        },
        TableOf {
            suffix: "_job",
            columns: vec![
                ("job", key(&text)),
                ("schedule", may(&text)),
                ("zone", may(&text)),
                ("lock_at_most_us", may(number)),
                ("registered_us", must(number)),
                ("last_started_us", may(number)),
                ("last_name", may(&text)),
                ("last_owner", may(&text)),
                ("last_lock_at_most_us", may(number)),
                ("last_slot_us", may(number)),
                ("last_lock_store", may(&text)),
                ("last_outcome", may(&word)),
                ("last_succeeded_us", may(number)),
                ("last_failed_us", may(number)),
                ("last_error", may(&line)),
                ("last_duration_us", may(number)),
                ("next_slot_us", may(number)),
                ("deadline_us", may(number)),
                ("registered_by", may(&text)),
                ("other_by", may(&text)),
                ("other_at_us", may(number)),
                ("other_schedule", may(&text)),
                ("other_zone", may(&text)),
                ("other_lock_at_most_us", may(number)),
                ("elsewhere_slot_us", may(number)),
                ("elsewhere_at_us", may(number)),
                ("elsewhere_by", may(&text)),
                ("elsewhere_slots", may(number)),
                ("watched_elsewhere", may(number)),
            ],
            indexed: &[],
            order: "",
        },
        TableOf {
            suffix: "_run",
            columns: vec![
                ("id", key(&id)),
                ("job", must(&text)),
                ("name", must(&text)),
                ("owner", must(&text)),
                ("slot_us", may(number)),
                ("attempt", may(number)),
                ("fencing_token", may(number)),
                ("started_us", must(number)),
                ("lock_at_most_us", may(number)),
                ("lock_store", may(&text)),
                ("ran_for_us", may(number)),
                ("outcome", may(&word)),
                ("error", may(&error)),
            ],
            // The outcome for runs that are rare: those that failed, and those without an end.
            indexed: &["job", "name", "outcome", "started_us"],
            order: "started_us, id",
        },
        TableOf {
            suffix: "_audit",
            columns: vec![
                ("id", key(&id)),
                ("at_us", must(number)),
                ("actor", must(&text)),
                ("is_authenticated", must(number)),
                ("action", must(&word)),
                ("name", must(&text)),
                ("detail", must(&line)),
                ("reason", may(&line)),
                ("until_us", may(number)),
                ("lock_store", may(&text)),
            ],
            indexed: &["name"],
            order: "id",
        },
    ]
}

impl TableOf {
    pub(super) fn name(&self, options: &Options) -> Table {
        options.table.with_suffix(self.suffix)
    }

    pub(super) fn creation(&self, dialect: &Dialect, options: &Options) -> Definition {
        let columns = self.columns.iter();
        let mut lines: Vec<_> = columns.map(|(name, of)| format!("{name} {of}")).collect();
        if dialect.journal.inline_indexes {
            let indexed = self.indexed.iter();
            lines.extend(indexed.map(|column| format!("INDEX ({})", self.index_on(column))));
        }
        let name = self.name(options);
        let quoted = name.quoted(dialect.quotation_mark);
        let text = format!("CREATE TABLE {quoted} (\n    {}\n)", lines.join(",\n    "));
        Definition::new(Verb::Create, format!("table {name}"), &text)
    }

    /// The columns of the index on this column.
    fn index_on(&self, column: &str) -> String {
        match self.order.starts_with(column) {
            true => self.order.to_owned(),
            false => format!("{column}, {}", self.order),
        }
    }

    /// The indexes that are created by statements of their own: their names, and the statements.
    pub(super) fn indexes(&self, dialect: &Dialect, options: &Options) -> Vec<(Table, Definition)> {
        if dialect.journal.inline_indexes {
            return Vec::new();
        }
        let (mark, table) = (dialect.quotation_mark, self.name(options));
        let index = |column: &&str| {
            let index = table.with_suffix(&format!("_{column}"));
            let (name, on) = dialect.journal.index_names(&index, &table, mark);
            let text = format!("CREATE INDEX {name} ON {on} ({})", self.index_on(column));
            let what = format!("index {index} on table {table}");
            (index, Definition::new(Verb::CreatePart, what, &text))
        };
        self.indexed.iter().map(index).collect()
    }

    /// The columns that are not among these.
    pub(super) fn additions(
        &self,
        dialect: &Dialect,
        options: &Options,
        there: &[Column],
    ) -> Vec<Definition> {
        let is_missing = |name: &str| !there.iter().any(|column| dialect.finds(column, name));
        let missing = self.columns.iter().filter(|(name, _)| is_missing(name));
        let table = self.name(options);
        let quoted = table.quoted(dialect.quotation_mark);
        let addition = |(name, of): &(&str, String)| {
            let text = format!("ALTER TABLE {quoted} ADD COLUMN {name} {of}");
            Definition::new(
                Verb::Add,
                format!("column {name:?} to table {table}"),
                &text,
            )
        };
        missing.map(addition).collect()
    }
}

/// The row with the version.
pub(super) fn version_record(dialect: &Dialect, options: &Options) -> Definition {
    let words = [("j_version", Value::Integer(i64::from(JOURNAL_VERSION)))];
    let values = Values {
        more: &words,
        ..Values::default()
    };
    let insert = Statements::new(dialect, options).version_insert;
    let what = format!("version {JOURNAL_VERSION} of the journal");
    let text = insert.inlined(&values, dialect.quote);
    Definition::new(Verb::Record, what, &text)
}

/// Everything that an empty database needs.
pub(crate) fn definitions(dialect: &Dialect, options: &Options) -> Result<Vec<Definition>> {
    check_names(dialect, options)?;
    let mut all = Vec::new();
    for table in tables(dialect) {
        all.push(table.creation(dialect, options));
        let indexes = table.indexes(dialect, options).into_iter();
        all.extend(indexes.map(|(_, definition)| definition));
    }
    all.push(version_record(dialect, options));
    Ok(all)
}
