//! Records of ShedLock for Java whose times would be misread, because a setting is missing.

use shedlock_core::{Finding, LockName, Owner};
use shedlock_provider::{Result, configuration};

use crate::call::Call;
use crate::driver::Driver;
use crate::plan::Plan;

/// What to set.
const REMEDY: &str = "set shared_session_zone, in the store's URL or on the builder, to the time zone of Java's \
    sessions, or to +00:00 (in a URL %2B00:00) if they are in UTC, or if no Java service uses this table";

impl<B: Driver> Call<'_, B> {
    /// Refuses an attempt on a lock that ShedLock for Java took last, and each one if it took any lock lately: neither would
    /// see the other's locks, and what this one writes could block the job for the offset of a time zone.
    ///
    /// The table is searched once per process. A service that died years ago does not stop the jobs of others.
    pub(crate) async fn check_misread(&self, plan: &Plan, name: &LockName) -> Result<()> {
        if !(B::DIALECT.misreads_java)(&self.options, &plan.shape) {
            return Ok(());
        }
        let lately = self.by_java.get_or_try_init(|| self.taken_by_java(plan));
        let mut found = lately.await?.clone();
        if found.is_none() {
            let row = self.read(&self.values_of(name, "", "")).await?;
            let owner = row.owner.filter(|owner| !Owner::is_ours(owner));
            found = row.name.zip(owner);
        }
        match found {
            None => Ok(()),
            Some(record) => Err(configuration(self.misread(plan, &record)).advise(REMEDY)),
        }
    }

    /// The same for `diagnose`.
    pub(crate) async fn misread_finding(&self, plan: &Plan) -> Option<Finding> {
        const CHECK: &str = "zone";
        if !(B::DIALECT.misreads_java)(&self.options, &plan.shape) {
            return None;
        }
        match self.taken_by_java(plan).await {
            Ok(None) => None,
            Ok(Some(record)) => Some(Finding::error(CHECK, self.misread(plan, &record), REMEDY)),
            Err(error) => Some(Finding::from_error(CHECK, &error)),
        }
    }

    /// The name and the owner of a record.
    async fn taken_by_java(&self, plan: &Plan) -> Result<Option<(String, String)>> {
        let statement = B::DIALECT.taken_by_java(&self.options, &plan.shape);
        let reply = self.asked(&statement).await?;
        let row = reply.rows.into_iter().next();
        Ok(row.and_then(|row| row.name.zip(row.owner)))
    }

    fn misread(&self, plan: &Plan, (name, owner): &(String, String)) -> String {
        format!(
            "ShedLock for Java ({owner:?}) took lock {name:?} in table {}, whose times depend on \
             the time zone of the session, and the server's sessions are not in UTC ({}): the two \
             would not see each other's locks",
            self.options.table, plan.shape.server
        )
    }
}
