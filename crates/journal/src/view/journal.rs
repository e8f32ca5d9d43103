//! The health of a journal, and what to do without one.

use std::time::SystemTime;

use super::doubled::doubled_finding;
use super::evidence::{drift_finding, lost_state, unverified_finding};
use crate::states::{LostState, all_jobs, store_now};
use shedlock_core::{Error, Finding, JOURNAL_VERSION, Journal, Level, LockProvider, Operation};

const CHECK: &str = "journal";
const GRANT: &str = "grant these privileges; docs/schema.md (SQL) and stores/redis/README.md list \
                     what each user needs";

/// What is wrong with the journal, and what it shows about the locks and the hosts. Locks work without it, so the worst
/// is a warning. `is_elsewhere`: it is not beside the locks. `only_reads`: this user need not write.
pub async fn journal_findings(
    provider: &dyn LockProvider,
    journal: &dyn Journal,
    is_elsewhere: bool,
    only_reads: bool,
    now: SystemTime,
) -> Vec<Finding> {
    let mut findings = vec![journal_finding(journal, only_reads).await];
    let compared = async {
        if journal.version().await?.is_none() {
            return Ok::<_, Error>(Vec::new());
        }
        let now = store_now(provider, now).await?;
        let jobs = all_jobs(journal).await?;
        let lost = LostState::of_all(provider, journal, &jobs, now).await?;
        Ok(vec![
            lost_state(&lost, is_elsewhere, now),
            drift_finding(&jobs, now),
            unverified_finding(&jobs),
            doubled_finding(journal, now).await?,
        ])
    };
    // A journal that cannot be read is a finding already.
    findings.extend(compared.await.unwrap_or_default());
    findings
}

/// What is wrong with the journal.
async fn journal_finding(journal: &dyn Journal, only_reads: bool) -> Finding {
    let version = journal.version().await;
    let lacking = match only_reads {
        true => String::new(),
        false => {
            let lacking = journal.missing_privileges().await;
            lacking.unwrap_or_default().join("; ")
        }
    };
    match version {
        Err(_) if !lacking.is_empty() => Finding::warning(
            CHECK,
            format!(
                "this user may not use the journal, if there is one: it lacks {lacking}; runs and \
                 operators' actions are not recorded"
            ),
            GRANT,
        ),
        Err(error) => {
            let mut finding = Finding::failed(CHECK, &error);
            finding.level = Level::Warning;
            finding
        }
        Ok(None) => {
            let mut message = "no journal: runs and operators' actions are not recorded".to_owned();
            if !lacking.is_empty() {
                message += &format!("; a journal needs {lacking}, which this user lacks");
            }
            Finding::warning(CHECK, message, create())
        }
        Ok(Some(version)) if version > JOURNAL_VERSION => Finding::warning(
            CHECK,
            format!(
                "the journal has version {version}, and this release writes version \
                 {JOURNAL_VERSION}: it records nothing"
            ),
            "upgrade this program",
        ),
        Ok(Some(version)) => completeness(journal, version, &lacking).await,
    }
}

/// Whether a journal of this version has all its parts, and this user the privileges.
async fn completeness(journal: &dyn Journal, version: u32, lacking: &str) -> Finding {
    // A user who may only read cannot always find out.
    let missing = journal.plan_migration().await.unwrap_or_default();
    if !missing.is_empty() {
        let missing: Vec<_> = missing.iter().map(|step| &*step.change).collect();
        let message = format!("the journal is incomplete: {}", missing.join(", "));
        return Finding::warning(CHECK, message, create());
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

fn create() -> String {
    format!("run {}", Operation::Migrate)
}

/// Why there is no journal, and what to do. `place` is where it would be.
pub fn missing_journal(can_keep_one: bool, kind: &str, place: &str) -> String {
    if !can_keep_one {
        return format!(
            "no journal in {place}: {kind} cannot keep a journal; give the journal a store of its own \
             with --journal-store"
        );
    }
    format!(
        "no journal in {place}; to create one, run {}",
        Operation::Migrate
    )
}
