//! `shedlock doctor`: what can make locks in this store fail or surprise their users.

use std::process::ExitCode;

use shedlock::{Clock as _, Finding, Level, SystemClock};
use shedlock_journal::view::{ClockRate, journal_findings};

use crate::args::DoctorArgs;
use crate::exit::{FAULTY, Failure, STORE};
use crate::output;
use crate::store::Store;
use crate::terminal::Terminal;

/// What a user who only looks may not write is no error.
fn not_to_write(finding: &mut Finding) {
    if finding.check == "privileges" {
        *finding = Finding::ok(
            "privileges",
            "not checked, as this user only reads (--read-only)",
        );
    }
}

/// Prints the findings about the store. A store that cannot be reached or used is a finding too.
pub(crate) async fn doctor(args: &DoctorArgs, terminal: Terminal) -> Result<ExitCode, Failure> {
    let rate = ClockRate::start();
    let (store, mut findings) = match Store::open_existing(&args.store, terminal).await {
        Ok(store) => {
            let diagnosis = store.provider().diagnose().await;
            let mut findings =
                diagnosis.unwrap_or_else(|error| vec![Finding::from_error("setup", &error)]);
            if args.read_only {
                findings.iter_mut().for_each(not_to_write);
            }
            if let Some(journal) = store.journal() {
                let now = SystemClock.system_time();
                let (provider, is_elsewhere) = (&**store.provider(), store.has_own_journal());
                let only_reads = args.read_only;
                findings.extend(
                    journal_findings(provider, &*journal, is_elsewhere, only_reads, now).await,
                );
            }
            (Some(store), findings)
        }
        Err(failure) if failure.number() == STORE => (None, vec![failure.finding("setup")]),
        Err(failure) => return Err(failure),
    };
    findings.extend(rate.finding().await);
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
