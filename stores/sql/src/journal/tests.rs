//! The journal's statements, for the files in `statements`.

use std::time::SystemTime;

use shedlock_core::{AuditRequest, RunId, RunOutcome, RunsRequest};

use super::privileges::REHEARSALS;
use super::prune::first_id;
use super::statements::{Statements, audit, runs};
use super::*;
use crate::dialect::Dialect;
use crate::options::Options;

/// Their names and values; a statement that is missing in the list does not compile.
macro_rules! fields {
    ($statements:expr, $($name:ident)*) => {{
        let Statements { begin, end, $($name),* } = $statements;
        (begin.into_iter().chain(end), [$((stringify!($name).to_owned(), $name)),*])
    }};
}

/// All statements, by their names.
pub(crate) fn listed(dialect: &Dialect, options: &Options) -> Vec<(String, Statement)> {
    let (frame, listed) = fields!(
        Statements::new(dialect, options),
        clock version identity version_insert job jobs job_is_there job_for_update job_insert job_update run
        run_insert run_update audit_insert first_excess prune_runs prune_old_runs prune_old_audit forget_runs
        forget_job
    );
    let mut lent = options.clone();
    lent.are_lent = true;
    let lent = Statements::new(dialect, &lent);
    let mut all: Vec<_> = frame
        .map(|it| ("around a transaction".to_owned(), it))
        .collect();
    let lent = lent.begin.into_iter().chain(lent.end);
    all.extend(lent.map(|it| ("the same in a session that is not ours".to_owned(), it)));
    all.extend(listed);
    let id = || RunId::of(SystemTime::UNIX_EPOCH, "x");
    let pages = [
        ("all runs", runs(dialect, options, &RunsRequest::new())),
        (
            "some runs",
            runs(
                dialect,
                options,
                &RunsRequest::new()
                    .with_job("job")
                    .with_name("name")
                    .with_outcome(RunOutcome::Lost)
                    .open_only()
                    .with_since(SystemTime::UNIX_EPOCH)
                    .with_before(id()),
            ),
        ),
        ("all records", audit(dialect, options, &AuditRequest::new())),
        (
            "some records",
            audit(
                dialect,
                options,
                &AuditRequest::new().with_name("name").with_before(id()),
            ),
        ),
    ];
    all.extend(pages.map(|(name, statement)| (name.to_owned(), statement)));
    for (suffix, rehearsals) in REHEARSALS {
        for (privilege, template) in rehearsals {
            let statement = dialect.journal_statement(options, template, &[]);
            all.push((
                format!("whether this user may {privilege} on {suffix}"),
                statement,
            ));
        }
    }
    if !dialect.journal.may_not_create.is_empty() {
        let statement = dialect.condition(options, dialect.journal.may_not_create);
        all.push((
            "whether this user may not create tables".to_owned(),
            statement,
        ));
    }
    all
}

#[test]
fn the_first_id_is_between_those_of_earlier_and_later_records() {
    let id = first_id(1_800_000_000_000_000);
    assert!(*id > *"06651728987fff-ffffffffffffffff" && *id <= *"06651728988000-0000000000000000");
    assert_eq!(first_id(-1), "00000000000000");
    assert_eq!(first_id(i64::MAX).len(), 14);
}
