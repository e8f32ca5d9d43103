//! `shedlock doctor`: what can make locks in this store fail or surprise their users.

use std::process::ExitCode;
use std::time::SystemTime;

use shedlock::{Clock as _, Error, Finding, Journal, Level, SystemClock};
use shedlock_core::shown::{
    ClockRate, LostState, all_jobs, drift_finding, journal_finding, lost_state,
};

use crate::args::{ANY_STORE, DoctorArgs};
use crate::exit::{FAULTY, Failure, STORE};
use crate::output;
use crate::store::Store;
use crate::terminal::Terminal;

/// Compares the journal with the locks, and the registrations in it with each other.
async fn compare(
    store: &Store,
    journal: &dyn Journal,
    now: SystemTime,
) -> Result<Vec<Finding>, Error> {
    if journal.version().await?.is_none() {
        return Ok(Vec::new());
    }
    let lost = LostState::of_all(&**store.provider(), journal, now).await?;
    let jobs = all_jobs(journal).await?;
    Ok(vec![
        lost_state(&lost, store.has_own_journal(), now),
        drift_finding(&jobs, now),
    ])
}

/// Prints the findings about the store. A store that cannot be reached or used is a finding too.
pub(crate) async fn doctor(args: &DoctorArgs, terminal: Terminal) -> Result<ExitCode, Failure> {
    let rate = ClockRate::start();
    let (store, mut findings) = match Store::open_existing(&args.store, terminal).await {
        Ok(store) => {
            let diagnosis = store.provider().diagnose().await;
            let mut findings =
                diagnosis.unwrap_or_else(|error| vec![Finding::from_error("setup", &error)]);
            if let Some(journal) = store.journal() {
                let is_elsewhere = store.has_own_journal();
                findings.push(journal_finding(&*journal, is_elsewhere).await);
                let now = SystemClock.system_time();
                let compared = compare(&store, &*journal, now).await;
                // A journal that cannot be read is a finding already.
                findings.extend(compared.unwrap_or_default());
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
    findings.extend(rate.finding().await);
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
