//! `shedlock doctor`: what can make locks in this store fail or surprise their users.

use std::process::ExitCode;

use shedlock::{Finding, Journal, Level};
use shedlock_core::JOURNAL_VERSION;

use crate::args::{ANY_STORE, DoctorArgs};
use crate::exit::{FAULTY, Failure, STORE};
use crate::output;
use crate::store::Store;
use crate::terminal::Terminal;

/// Prints the findings about the store. A store that cannot be reached or used is a finding too.
pub(crate) async fn doctor(args: &DoctorArgs, terminal: Terminal) -> Result<ExitCode, Failure> {
    let (store, mut findings) = match Store::open_existing(&args.store, terminal).await {
        Ok(store) => {
            let diagnosis = store.provider().diagnose().await;
            let mut findings =
                diagnosis.unwrap_or_else(|error| vec![Finding::from_error("setup", &error)]);
            if let Some(journal) = store.journal() {
                findings.push(of_journal(&*journal, store.has_own_journal()).await);
            }
            (Some(store), findings)
        }
        Err(failure) if failure.number() == STORE => {
            let check = if failure.may_pass() {
                "reachable"
            } else {
                "setup"
            };
            (
                None,
                vec![Finding::from_text(check, Level::Error, failure.message())],
            )
        }
        Err(failure) => return Err(failure),
    };
    let option = args.store.option();
    for finding in &mut findings {
        finding.message = finding.message.replace(ANY_STORE, &option);
        finding.remedy = finding
            .remedy
            .take()
            .map(|it| it.replace(ANY_STORE, &option));
    }
    let name = store.as_ref().map(|store| store.provider().store());
    terminal.print(&output::findings(name, &findings, args.output.format))?;
    let bad = if args.strict {
        Level::Warning
    } else {
        Level::Error
    };
    if findings.iter().any(|finding| finding.level >= bad) {
        return Ok(ExitCode::from(FAULTY));
    }
    Ok(ExitCode::SUCCESS)
}

/// What is wrong with the journal. Locks work without it, so the worst is a warning.
async fn of_journal(journal: &dyn Journal, is_required: bool) -> Finding {
    const CHECK: &str = "journal";
    const CREATE: &str = "run `shedlock migrate --journal`";
    const GRANT: &str = "grant these privileges; docs/schema.md (SQL) and stores/redis/README.md list what each user \
        needs";
    let version = journal.version().await;
    let lacking = journal
        .missing_privileges()
        .await
        .unwrap_or_default()
        .join("; ");
    match version {
        Err(_) if !lacking.is_empty() => Finding::warning(
            CHECK,
            format!(
                "this user may not use the journal, if there is one: it lacks {lacking}; runs and \
                 operators' actions are not recorded"
            ),
            GRANT,
        ),
        Err(error) => Finding::from_text(CHECK, Level::Warning, &format!("{error:#}")),
        Ok(None) => {
            let mut message = "no journal: runs and operators' actions are not recorded".to_owned();
            if !lacking.is_empty() {
                message += &format!("; a journal needs {lacking}, which this user lacks");
            }
            match is_required {
                true => Finding::warning(CHECK, message, CREATE),
                false => Finding::ok(CHECK, message),
            }
        }
        Ok(Some(version)) if version > JOURNAL_VERSION => Finding::warning(
            CHECK,
            format!(
                "the journal has version {version}, and this release writes version \
                 {JOURNAL_VERSION}: it records nothing"
            ),
            "upgrade this program",
        ),
        Ok(Some(version)) => {
            // A user who may only read cannot always find out.
            let missing = journal.plan_migration().await.unwrap_or_default();
            if !missing.is_empty() {
                let missing: Vec<_> = missing.iter().map(|step| &*step.change).collect();
                let message = format!("the journal is incomplete: {}", missing.join(", "));
                return Finding::warning(CHECK, message, CREATE);
            }
            if !lacking.is_empty() {
                return Finding::warning(
                    CHECK,
                    format!(
                        "the journal has version {version}, but this user lacks {lacking}: not \
                         everything is recorded"
                    ),
                    GRANT,
                );
            }
            Finding::ok(CHECK, format!("the journal has version {version}"))
        }
    }
}
