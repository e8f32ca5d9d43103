//! The checks that are the same for every store.

mod clocks;
mod records;

use shedlock_core::{ErrorKind, Finding, LockProvider};

use crate::provider::StoreProvider;
use crate::store::Store;

/// Returns the finding about a cluster in which a majority of so many servers must agree. For providers.
pub fn quorum(voters: usize) -> Finding {
    let check = "replicas";
    match voters {
        0 | 1 => Finding::ok(
            check,
            "one server keeps the locks, which are unavailable while it is down",
        ),
        even if even % 2 == 0 => Finding::warning(
            check,
            format!(
                "{even} servers must agree by majority: an even number of servers tolerates no \
                 more failures than one server fewer"
            ),
            "add or remove a server",
        ),
        odd => Finding::ok(check, format!("{odd} servers agree by majority")),
    }
}

/// Diagnoses a store. A check that fails is a finding, and those that need it are left out.
pub(crate) async fn diagnose<S: Store>(provider: &StoreProvider<S>) -> Vec<Finding> {
    if let Err(error) = provider.check().await {
        return vec![Finding::from_error("setup", &error)];
    }
    // It reads a record, which a user may not be allowed to do.
    let samples = match clocks::measure(provider).await {
        Ok(samples) => samples,
        Err(error) => return vec![Finding::from_error("setup", &error)],
    };
    let mut findings = vec![Finding::ok("setup", "the store is set up for locks")];
    findings.extend(samples.findings(&provider.capabilities()));
    let first = records::read_all(provider).await;
    let started = provider.backend().clock().now();
    let own = provider.bounded(ErrorKind::Unavailable, provider.backend().diagnose());
    match own.await {
        Ok(own) => findings.extend(own),
        Err(error) => findings.push(Finding::from_error("settings", &error)),
    }
    match records::again(provider, first, started).await {
        Ok(records) => findings.extend(records.findings(&provider.capabilities())),
        Err(error) => findings.push(Finding::from_error("records", &error)),
    }
    findings
}
