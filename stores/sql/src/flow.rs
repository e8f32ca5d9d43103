//! The protocol, once for all dialects: which statement when, and what its answer means.

use std::fmt;
use std::time::Duration;

use shedlock_core::{
    Capabilities, Error, ErrorKind, ExtendRequest, Extension, ForceUnlock, ForceUnlockRequest,
    Lease, ListRequest, LockName, LockRecord, LockState, Owner, ProviderIdentity, ResetSlotRequest,
    Slot, SlotEnd, SlotReset, Unlock, UnlockRequest,
};

use crate::contended::Contended;
use crate::dialect::{End, Step};
use crate::driver::{Backend, Connections};
use crate::explain::explain;
use crate::limits::{check_owner, longest_name};
use crate::options::Options;
use crate::plan::{Plans, probe};
use crate::send::Call;
use crate::statement::Values;
use crate::verdict::{instant, mark, record};

/// How often a record that has changed since it was read is looked at again.
const ROUNDS: usize = 3;

/// One provider: its connections, what it was told, what it found.
pub(crate) struct Flow<B: Backend> {
    connections: Connections<B>,
    options: Options,
    plans: Plans,
    contended: Contended,
    identity: ProviderIdentity,
}

/// Without the statements, which are long.
impl<B: Backend> fmt::Debug for Flow<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(B::STORE)
            .field("table", &self.options.table)
            .field("time", &self.options.time)
            .field("connections", &self.connections)
            .field("shape", &self.plans.known().map(|plan| plan.shape.clone()))
            .finish_non_exhaustive()
    }
}

impl<B: Backend> Flow<B> {
    pub(crate) fn new(connections: Connections<B>, options: Options) -> Self {
        if let Some(warning) = connections.warning() {
            tracing::warn!(table = %options.table, "{warning}");
        }
        Self {
            connections,
            plans: Plans::new(&options),
            contended: Contended::default(),
            options,
            identity: ProviderIdentity::unique(),
        }
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn connections(&self) -> &Connections<B> {
        &self.connections
    }

    pub(crate) fn plans(&self) -> &Plans {
        &self.plans
    }

    pub(crate) fn contended(&self) -> &Contended {
        &self.contended
    }

    pub(crate) fn identity(&self) -> ProviderIdentity {
        self.identity.clone()
    }

    /// What the table can do as it was last seen; before the first contact, what a migrated one
    /// can.
    pub(crate) fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new(self.options.time.source());
        let plan = self.plans.known();
        let dialect = B::dialect();
        let assumed = dialect.assumed();
        let shape = plan.as_ref().map_or(&assumed, |plan| &plan.shape);
        capabilities.fencing = shape.extras.token;
        capabilities.slots = shape.extras.slot;
        capabilities.slot_completion = shape.extras.completion();
        capabilities.granularity = Duration::from_micros(shape.unit().unsigned_abs());
        capabilities.longest_lock_at_most_for = dialect.longest_lease(&self.options, shape);
        capabilities.longest_name = longest_name(shape);
        capabilities.durable = dialect.is_durable(shape);
        capabilities.longest_call = self.options.timeout;
        if !self.options.time.is_client() {
            capabilities.server_skew = self.options.server_skew;
        }
        capabilities
    }

    /// Moves the end of a running lease.
    pub(crate) async fn extend(
        &self,
        lease: &Lease,
        request: &ExtendRequest,
    ) -> Result<Extension, Error> {
        self.extended(lease, request)
            .await
            .map_err(|error| self.name(error, lease.name()))
    }

    async fn extended(&self, lease: &Lease, request: &ExtendRequest) -> Result<Extension, Error> {
        request.validate(lease.lock_at_least_for())?;
        let call = self.call();
        let plan = call.plan().await?;
        let mut values = self.values(lease.name());
        values.owner = lease.owner().as_str();
        values.at_most =
            self.micros("lock_at_most_for", request.lock_at_most_for(), &plan.shape)?;
        let reply = call
            .run(Step::Extend, &values)
            .await
            .map_err(|stop| self.error(stop, Step::Extend))?;
        if reply.affected == 0 {
            return Ok(Extension::Lost);
        }
        let mut extended = lease.extended(request);
        if let Some(until) = reply.row().and_then(|row| row.lock_until) {
            extended = extended.with_locked_until(instant(until));
        }
        Ok(Extension::Extended(extended))
    }

    /// Ends a running lease, honouring at-least.
    pub(crate) async fn unlock(
        &self,
        lease: &Lease,
        request: &UnlockRequest,
    ) -> Result<Unlock, Error> {
        self.unlocked(lease, request)
            .await
            .map_err(|error| self.name(error, lease.name()))
    }

    async fn unlocked(&self, lease: &Lease, request: &UnlockRequest) -> Result<Unlock, Error> {
        let call = self.call();
        let plan = call.plan().await?;
        let released = lease.owner().released();
        let end = match (lease.slot(), request.slot_end()) {
            (Some(_), SlotEnd::Done { durable, .. }) => End::Done { durable },
            // Without a pause nothing is kept, and nothing is to be rounded up.
            (Some(_), SlotEnd::Failed { retry_after, .. }) if !retry_after.is_zero() => End::Failed,
            (Some(_), SlotEnd::NotStarted) => End::NotStarted,
            (Some(_), SlotEnd::Cut) => End::Cut,
            _ => End::Nothing,
        };
        // Only a slot that is used up by now can have been taken from a table without the columns.
        let step = Some(Step::Unlock(end)).filter(|step| step.is_possible(plan.shape.extras));
        let step = step.unwrap_or(Step::Unlock(End::Nothing));
        let mut values = self.values(lease.name());
        values.owner = lease.owner().as_str();
        values.released = &released;
        values.at_least = self.micros(
            "lock_at_least_for",
            request.at_least_of(lease.lock_at_least_for()),
            &plan.shape,
        )?;
        values.end_of(lease.slot());
        if let SlotEnd::Failed { retry_after, .. } = request.slot_end() {
            values.at_most = self.micros("the pause before a retry", retry_after, &plan.shape)?;
        }
        let reply = call
            .run(step, &values)
            .await
            .map_err(|stop| self.error(stop, step))?;
        if reply.affected > 0 {
            return Ok(Unlock::Unlocked);
        }
        let row = call.read(&values).await?;
        let is_repeat = row.name.as_deref() == Some(lease.name().as_str())
            && row.owner.as_deref() == Some(&released);
        if is_repeat {
            return Ok(Unlock::Unlocked);
        }
        if reply.repeated {
            // The first try may have unlocked, and somebody else may have taken the lock since:
            // the runtime knows whether the lease can have ended by itself.
            return Err(Error::new(
                ErrorKind::Unknown,
                "the reply to an unlock was lost, and the record has changed since",
            ));
        }
        Ok(Unlock::Lost)
    }

    /// The record of one lock.
    pub(crate) async fn inspect(&self, name: &LockName) -> Result<Option<LockRecord>, Error> {
        let row = self
            .call()
            .row(Step::Read, &self.values(name))
            .await
            .map_err(|error| self.name(error, name))?;
        Ok(record(&row).filter(|record| record.name == *name))
    }

    /// A page of records. Those that no lock can have are reported and left out, and do not count.
    pub(crate) async fn list(&self, request: &ListRequest) -> Result<Vec<LockRecord>, Error> {
        let step = Step::List {
            held_only: request.is_held_only(),
        };
        let call = self.call();
        let size = request.page_size();
        let mut found: Vec<LockRecord> = Vec::new();
        let mut after = request.after_name().map_or("", LockName::as_str).to_owned();
        loop {
            let values = Values {
                after: &after,
                limit: i64::try_from(size).unwrap_or(i64::MAX),
                now: self.now(),
                ..Values::default()
            };
            let reply = call
                .run(step, &values)
                .await
                .map_err(|stop| self.error(stop, step))?;
            let is_last = reply.rows.len() + reply.unreadable.len() < size;
            let last = reply.last_name().map(str::to_owned);
            for row in &reply.rows {
                match record(row) {
                    Some(record) => found.push(record),
                    None => tracing::warn!(
                        table = %self.options.table,
                        name = row.name,
                        "left out of the list: no lock can have this name"
                    ),
                }
            }
            for (name, error) in &reply.unreadable {
                tracing::warn!(
                    table = %self.options.table,
                    name,
                    error = %error,
                    "left out of the list: the record holds what neither shedlock nor ShedLock writes"
                );
            }
            found.truncate(size);
            match last {
                Some(last) if !is_last && found.len() < size => after = last,
                _ => return Ok(found),
            }
        }
    }

    /// Frees a lock whoever holds it.
    pub(crate) async fn force_unlock(
        &self,
        request: &ForceUnlockRequest,
    ) -> Result<ForceUnlock, Error> {
        self.forced(request)
            .await
            .map_err(|error| self.name(error, request.name()))
    }

    async fn forced(&self, request: &ForceUnlockRequest) -> Result<ForceUnlock, Error> {
        let call = self.call();
        let plan = call.plan().await?;
        for _ in 0..ROUNDS {
            let mut values = self.values(request.name());
            let row = call.read(&values).await?;
            let found = record(&row)
                .filter(|found| found.name == *request.name() && found.state != LockState::Free);
            let Some(found) = found else {
                return Ok(ForceUnlock::NotHeld);
            };
            if let Some(expected) = request.expected_owner()
                && found.owner.as_deref() != Some(expected)
            {
                return Ok(ForceUnlock::OwnerDiffers(found));
            }
            // The exact text that was read is the condition, so that a lock which changed hands in
            // between is looked at again.
            let stored = row.owner.unwrap_or_default();
            let released = mark(&stored, &plan.shape);
            values.owner = &stored;
            values.released = &released;
            if call.ended(Step::Withdraw, &values).await? {
                return Ok(ForceUnlock::Freed(found));
            }
        }
        Err(Error::new(
            ErrorKind::Unavailable,
            "the lock changed hands each time it was about to be freed: retry",
        ))
    }

    /// Sets the last slot.
    pub(crate) async fn reset_slot(&self, request: &ResetSlotRequest) -> Result<SlotReset, Error> {
        self.slot_reset(request)
            .await
            .map_err(|error| self.name(error, request.name()))
    }

    async fn slot_reset(&self, request: &ResetSlotRequest) -> Result<SlotReset, Error> {
        let call = self.call();
        call.plan_for(Step::ResetSlot).await?;
        for _ in 0..ROUNDS {
            let mut values = self.values(request.name());
            let row = call.read(&values).await?;
            let before = record(&row).filter(|found| found.name == *request.name());
            let (Some(before), Some(now)) = (before, row.now) else {
                return Ok(SlotReset::NoSlot);
            };
            let Some(last) = row.slot else {
                return Ok(SlotReset::NoSlot);
            };
            let to = match request.target() {
                Some(slot) => slot,
                None if last <= now => return Ok(SlotReset::NotAhead(before)),
                None => Slot::from_micros(now)?,
            };
            // What was read is the condition: a slot that is taken in between is looked at again.
            values.previous = last;
            values.slot = to.as_micros();
            let reply = call
                .run(Step::ResetSlot, &values)
                .await
                .map_err(|stop| self.error(stop, Step::ResetSlot))?;
            if reply.affected > 0 || reply.repeated {
                return Ok(SlotReset::reset(before, to));
            }
        }
        Err(Error::new(
            ErrorKind::Unavailable,
            "slots of this lock were taken each time the last one was about to be set: retry",
        ))
    }

    /// Reaches the server, or says why not; what it finds of the table is kept, a missing table is
    /// no error yet.
    pub(crate) async fn reach(&self) -> Result<(), Error> {
        let call = self.call();
        let columns = probe(&self.connections, &self.options, call.deadline())
            .await
            .map_err(|failure| explain::<B>(failure, &self.options, false))?;
        if columns.is_empty() {
            return Ok(());
        }
        call.check().await
    }

    /// Looks at the table, whatever is known of it.
    pub(crate) async fn check(&self) -> Result<(), Error> {
        self.call().check().await
    }
}

impl<B: Backend> Call<'_, B> {
    /// Ends the lease of these values' owner at once, by this step; true also where a first try, whose
    /// reply was lost, had done so.
    pub(crate) async fn ended(&self, step: Step, values: &Values<'_>) -> Result<bool, Error> {
        let reply = self
            .run(step, values)
            .await
            .map_err(|stop| self.error(stop, step))?;
        if reply.affected > 0 || !reply.repeated {
            return Ok(reply.affected > 0);
        }
        let row = self.read(values).await?;
        Ok(row.name.as_deref() == Some(values.name)
            && row.owner.as_deref() == Some(values.released)
            && row.lock_until <= row.now)
    }

    pub(crate) async fn check(&self) -> Result<(), Error> {
        let plan = self.look().await?;
        check_owner(&Owner::generate(), &plan.shape, self.options())
            .map_err(|error| error.with_store(B::STORE))
    }
}
