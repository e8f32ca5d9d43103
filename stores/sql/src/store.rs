//! The protocol, common to all dialects: which statement is sent, and what its reply means.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use shedlock_core::admin::{Change, Changed, LeaseChange};
use shedlock_core::{
    Attempt, AttemptRequest, Budget, Capabilities, Clock, ExtendRequest, Extension, Finding,
    Journal, Lease, ListRequest, LockName, LockRecord, Migration, MigrationStep, Owner, Schema,
    Setting, Slot, SlotEnd,
};
use shedlock_provider::{End, Ended, Result, Seen, Store, invalid, listed, maybe, overtaken};

use crate::attempt::{LAST, ROUNDS};
use crate::call::{Call, SqlStore, check_owner, check_owner_text};
use crate::dialect::{End as SlotMark, Step, is_partial};
use crate::driver::Driver;
use crate::failure::{Class, Failure};
use crate::journal::SqlJournal;
use crate::schema::Definition;
use crate::statement::{NONE, Row, Values};
use crate::verdict::{instant, marked, no_end, record};

/// The row that a record must still be when an operator changes it.
#[derive(Clone, Debug)]
pub struct Stored(Row);

impl Stored {
    fn owner(&self) -> &str {
        self.0.owner.as_deref().unwrap_or_default()
    }

    /// The values that the row must still have.
    fn set(&self, values: &mut Values<'_>) {
        values.until = self.0.lock_until.unwrap_or(NONE);
        values.previous = self.0.slot.unwrap_or(NONE);
        values.seen_attempts = self.0.slot_attempts.unwrap_or(NONE);
        values.seen_skip_until = self.0.skip_until.unwrap_or(NONE);
    }
}

impl<B: Driver> Store for SqlStore<B> {
    type Version = Stored;

    fn name(&self) -> &str {
        B::STORE
    }

    /// What the table supported when its shape was last read. Before the first contact: what a migrated table supports.
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new(self.options.time.source());
        let plan = self.plans.known();
        let dialect = B::DIALECT;
        let shape = plan.as_ref().map_or(&dialect.assumed, |plan| &plan.shape);
        capabilities.fencing = shape.is_complete;
        capabilities.slots = shape.is_complete;
        capabilities.completion = shape.is_complete;
        capabilities.granularity = Duration::from_micros(shape.unit().unsigned_abs());
        capabilities.longest_lock_at_most_for = (dialect.longest_lease)(&self.options, shape);
        // A length in bytes that always fits: a name never has more characters than bytes.
        capabilities.longest_name = shape.name.length;
        // In each round a claim and a read, then a read of what was won or why nothing was; and what may be repeated.
        capabilities.most_requests = 2 * ROUNDS + LAST + Budget::REPEATS;
        capabilities.durable = dialect.is_durable(shape);
        capabilities.remembered_by_shedlock = true;
        if !self.options.time.is_client() {
            capabilities.server_skew = self.options.server_skew;
        }
        capabilities
    }

    fn longest_call(&self) -> Duration {
        self.options.timeout()
    }

    fn clock(&self) -> &Arc<dyn Clock> {
        &self.options.clock
    }

    /// Each of its connections.
    fn tests_connections(&self) -> bool {
        true
    }

    /// The limit depends on the table's columns.
    fn check_name(&self, _: &LockName) -> Result<()> {
        Ok(())
    }

    /// The limit depends on the table's columns.
    fn check_duration(&self, _: impl fmt::Display, _: Duration) -> Result<()> {
        Ok(())
    }

    async fn attempt(&self, request: &AttemptRequest, budget: &Budget) -> Result<Attempt> {
        self.attempted(request, budget).await
    }

    async fn withdraw(&self, request: &AttemptRequest) -> Result<bool> {
        self.withdrawn(request).await
    }

    async fn extend(&self, lease: &Lease, request: &ExtendRequest) -> Result<Extension> {
        let call = self.call();
        let plan = call.plan_of_lease().await?;
        let mut values = self.values_of(lease.name(), lease.owner().as_str(), "");
        values.at_most = self.micros(Setting::AtMost, request.lock_at_most_for, &plan.shape)?;
        let reply = call.run(Step::Extend, &values).await?;
        if reply.affected == 0 {
            return Ok(Extension::Lost);
        }
        let until = reply.row().and_then(|row| row.lock_until).map(instant);
        let extended = maybe(lease.extended(request), until, Lease::with_locked_until);
        Ok(Extension::Extended(extended))
    }

    /// Ends a lease for an unlock. A withdrawal needs further steps.
    async fn end(&self, end: &End<'_>) -> Result<Ended> {
        let call = self.call();
        let plan = call.plan_of_lease().await?;
        let released = end.owner.released();
        let mark = match end.slot {
            Some((_, SlotEnd::Done { durable, .. })) => SlotMark::Done { durable },
            // Without a pause nothing is stored, and no duration is rounded up.
            Some((_, SlotEnd::Failed { .. })) if !end.retry_after().is_zero() => SlotMark::Failed,
            Some((_, SlotEnd::NotStarted)) => SlotMark::NotStarted,
            Some((_, SlotEnd::Cut)) => SlotMark::Cut,
            _ => SlotMark::Nothing,
        };
        let step = match plan.shape.is_complete {
            true => Step::Unlock(mark),
            // Its columns were dropped.
            false => Step::Unlock(SlotMark::Nothing),
        };
        let mut values = self.values_of(end.name, end.owner.as_str(), &released);
        values.at_least = self.micros(Setting::AtLeast, end.at_least, &plan.shape)?;
        values.end_of(end.slot.map(|(slot, _)| slot));
        values.at_most = self.micros("the retry backoff", end.retry_after(), &plan.shape)?;
        let reply = call.run(step, &values).await?;
        if reply.affected > 0 {
            return Ok(Ended::ByThisCall);
        }
        let row = call.read(&values).await?;
        let is_repeat = row.name.as_deref() == Some(end.name.as_str())
            && row.owner.as_deref() == Some(&released);
        if is_repeat {
            return Ok(Ended::ByAnEarlierCall);
        }
        if reply.repeated {
            return Err(overtaken());
        }
        Ok(Ended::Lost)
    }

    async fn look(&self, name: &LockName) -> Result<Option<Seen<Stored>>> {
        let row = self.call().read(&self.values_of(name, "", "")).await?;
        let record = record(&row, name);
        Ok(record.map(|record| Seen {
            record,
            version: Stored(row),
        }))
    }

    /// Rounds to the unit of the column.
    fn unit(&self) -> Duration {
        let plan = self.plans.known();
        let shape = plan
            .as_ref()
            .map_or(&B::DIALECT.assumed, |plan| &plan.shape);
        Duration::from_micros(shape.lock_until.unit().unsigned_abs())
    }

    /// A lease is identified by its exact owner text, slots by the last slot. An owner of ShedLock is the same for each
    /// of its leases, so a pause also requires that the end is the same.
    async fn change(
        &self,
        name: &LockName,
        seen: &Seen<Stored>,
        change: &Change,
    ) -> Result<Changed> {
        if matches!(change.lease, LeaseChange::End { .. }) && seen.record.locked_until.is_none() {
            return Err(no_end());
        }
        let call = self.call();
        let step = match (&change.lease, change.slots) {
            (LeaseChange::Keep, _) => Step::ResetSlot,
            (LeaseChange::End { kept: None, .. }, None) => Step::Withdraw,
            (LeaseChange::End { .. }, _) => Step::Resume,
            (LeaseChange::Take { .. }, _) => Step::Pause,
        };
        let plan = call.plan_for(|plan| {
            if let LeaseChange::Take { owner, .. } = &change.lease {
                check_owner_text(owner, &plan.shape, &self.options)?;
            }
            call.statement(step, plan).map(drop)
        });
        let shape = &plan.await?.shape;
        let stored = &seen.version;
        let mut values = self.values_of(name, stored.owner(), "");
        stored.set(&mut values);
        values.slots(&change.slots.unwrap_or_default());
        let reply = match &change.lease {
            LeaseChange::Keep => call.run(step, &values).await?,
            LeaseChange::End { owner, kept } => {
                values.released = marked(owner, stored.owner(), shape);
                values.ends_at = match kept {
                    Some(kept) => Slot::at(*kept)?.as_micros(),
                    None => 0,
                };
                return call.ended(step, &values).await;
            }
            LeaseChange::Take { owner, until } => {
                values.released = owner;
                values.ends_at = Slot::at(*until)?.as_micros();
                // After a lost reply, the next look shows whether the first try took the lock.
                let reply = call.run(step, &values).await?;
                return Ok(Changed::done(reply.affected > 0));
            }
        };
        Ok(Changed::done(reply.affected > 0 || reply.repeated))
    }

    async fn remove(&self, name: &LockName, seen: &Seen<Stored>) -> Result<Changed> {
        let stored = &seen.version;
        let mut values = self.values_of(name, stored.owner(), "");
        stored.set(&mut values);
        // After a lost reply, the next look shows whether the first try removed the record.
        let reply = self.call().run(Step::Remove, &values).await?;
        Ok(Changed::done(reply.affected > 0))
    }

    /// Uses a statement that a proxy may send to a replica.
    async fn inspect(&self, name: &LockName) -> Result<Option<LockRecord>> {
        let row = self
            .call()
            .row(Step::Read, &self.values_of(name, "", ""))
            .await?;
        Ok(record(&row, name))
    }

    /// Returns a page of records. Records that cannot belong to a lock are reported and left out, and do not count.
    async fn list(&self, request: &ListRequest) -> Result<Vec<LockRecord>> {
        let step = Step::List {
            held_only: request.held_only,
        };
        let size = request.limit();
        let mut page: Vec<LockRecord> = Vec::new();
        let mut after = request
            .after
            .as_ref()
            .map_or("", LockName::as_str)
            .to_owned();
        loop {
            let values = Values {
                after: &after,
                limit: i64::try_from(size).unwrap_or(i64::MAX),
                now: self.now(),
                ..Values::default()
            };
            let reply = self.call().run(step, &values).await?;
            let is_last = reply.rows.len() + reply.unreadable.len() < size;
            let last = reply.last_name().map(str::to_owned);
            for row in &reply.rows {
                let name = row.name.as_deref().unwrap_or_default();
                let found = LockName::new(name).ok().and_then(|name| record(row, &name));
                let found = found.ok_or_else(|| invalid("this is not a valid lock name"));
                page.extend(listed(B::STORE, name, found)?);
            }
            for (name, error) in reply.unreadable {
                let name = name.unwrap_or_default();
                let foreign = Failure::new(Class::Foreign, error);
                page.extend(listed(
                    B::STORE,
                    &name,
                    Err(self.explained(foreign, false)),
                )?);
            }
            page.truncate(size);
            match last {
                Some(last) if !is_last && page.len() < size => after = last,
                _ => return Ok(page),
            }
        }
    }

    async fn check(&self) -> Result<()> {
        self.call().check().await
    }

    fn journal(self: Arc<Self>) -> Option<Arc<dyn Journal>> {
        Some(Arc::new(SqlJournal::new(self)))
    }

    async fn diagnose(&self) -> Result<Vec<Finding>> {
        self.call().diagnose().await
    }

    async fn server_time(&self) -> Result<Option<SystemTime>> {
        let name = LockName::new("check")?;
        let row = self
            .call()
            .row(Step::Read, &self.values_of(&name, "", ""))
            .await?;
        Ok(row.server_time().map(instant))
    }

    async fn written_until(&self) -> Result<Option<SystemTime>> {
        let Some(statement) = B::DIALECT.written_until() else {
            return Ok(None);
        };
        let reply = self.call().asked(&statement).await?;
        Ok(reply.row().and_then(Row::server_time).map(instant))
    }

    /// Creates what is missing. If two processes migrate at the same time, both succeed, and each reports its own
    /// changes. The first migration also reports what was created when the store was opened.
    async fn migrate(&self) -> Result<Migration> {
        let call = self.call();
        let mut changes = self.take_created();
        // Again after a change, because another process with an older release may have created the table meanwhile.
        for _ in 0..2 {
            let lacks = call.lacks().await?;
            if lacks.is_empty() {
                break;
            }
            for (at, definition) in lacks.iter().enumerate() {
                if call.define(&definition.statement, &lacks[at + 1..]).await? {
                    changes.extend(definition.done());
                }
            }
        }
        call.look().await?;
        Ok(Migration::with_changes(changes))
    }

    async fn plan_migration(&self) -> Result<Vec<MigrationStep>> {
        let lacks = self.call().lacks().await?;
        Ok(lacks.iter().map(Definition::step).collect())
    }

    fn schema(&self) -> Schema {
        B::DIALECT.schema(&self.options)
    }
}

impl<B: Driver> Call<'_, B> {
    /// Ends the lease of the owner in `values` at once, by this step. It is also done if a first try whose reply was lost
    /// had done it.
    pub(crate) async fn ended(&self, step: Step, values: &Values<'_>) -> Result<Changed> {
        let reply = self.run(step, values).await?;
        if reply.affected > 0 || !reply.repeated {
            return Ok(Changed::done(reply.affected > 0));
        }
        let row = self.read(values).await?;
        let is_done = row.name.as_deref() == Some(values.name)
            && row.owner.as_deref() == Some(values.released)
            && row.lock_until <= row.now;
        Ok(match is_done {
            true => Changed::Done,
            false => Changed::Overtaken,
        })
    }

    pub(crate) async fn check(&self) -> Result<()> {
        let plan = self.look().await?;
        check_owner(&Owner::generate(), &plan.shape, &self.options)
    }

    /// The same for a new connection. A table that a migration must create or complete is no error yet.
    pub(crate) async fn check_unless_to_migrate(&self) -> Result<()> {
        let columns = self.columns().await?;
        if columns.is_empty() {
            return Ok(());
        }
        let (shape, missing) = B::DIALECT.shape_to_migrate(&self.options, &columns)?;
        if is_partial(&missing) {
            return Ok(());
        }
        self.keep(&columns)?;
        check_owner(&Owner::generate(), &shape, &self.options)
    }
}
