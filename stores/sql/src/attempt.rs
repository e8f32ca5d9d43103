//! Attempts and their withdrawals: which statement is sent, and what its reply means.

use shedlock_core::admin::Changed;
use shedlock_core::{
    Attempt, AttemptRequest, Budget, Completion, Error, Lease, Level, LockRecord, NotAfter,
    Setting, Skip, SkipReason, Slot,
};
use shedlock_provider::{Result, configuration, maybe, unavailable, unread};

use crate::call::{Call, SqlStore, check_length, check_owner, floor_micros, micros};
use crate::dialect::{CANCELLED, Claim, End, GONE, Step};
use crate::driver::{Driver, Wanted};
use crate::failure::Failure;
use crate::plan::Plan;
use crate::statement::{Reply, Values};
use crate::verdict::{State, instant, lease, names_are_equal, record};

/// How many times an attempt tries to take a lock that was found free before it gives up.
pub(crate) const ROUNDS: u32 = 3;

/// The most statements after the last round: those that find out why a free lock cannot be taken.
pub(crate) const LAST: u32 = 8;

/// Ten thousand years in microseconds. No slot can be further ahead of a clock.
const LONGEST_TOLERANCE: i64 = 315_576_000_000_000_000;

/// The coarsest unit, in microseconds, of a column that can serve as a clock. Coarser columns truncate their instants
/// too much.
const COARSE: i64 = 1_000;

impl<B: Driver> SqlStore<B> {
    pub(crate) async fn attempted(
        &self,
        request: &AttemptRequest,
        budget: &Budget,
    ) -> Result<Attempt> {
        let claim = match (request.slot, request.completion) {
            (None, _) => Claim::Nothing,
            (Some(_), Completion::OnSuccess(_)) => Claim::OpenSlot,
            (Some(_), _) => Claim::Slot,
        };
        let call = self.call_of(budget);
        let plan = call.plan_for(|plan| {
            call.statement(Step::Attempt(claim), plan)?;
            check_length(&request.name, &plan.shape)?;
            check_owner(&request.owner, &plan.shape, &self.options)
        });
        let plan = plan.await?;
        call.check_misread(&plan, &request.name).await?;
        let (released, freed) = (request.owner.released(), request.owner.freed());
        let mut values = self.values_of(&request.name, request.owner.as_str(), &released);
        values.freed = &freed;
        values.skipped(request.skipped_slots);
        values.skew = floor_micros(self.options.time.source().tolerated_skew());
        values.at_most = self.micros(Setting::AtMost, request.lock_at_most_for, &plan.shape)?;
        values.slot = request.slot.map_or(0, Slot::as_micros);
        values.previous = request.previous_slot.map_or(0, Slot::as_micros);
        let retries = request.completion.retries();
        values.most_attempts = retries.map_or(0, |retries| retries.get_max_attempts().into());
        values.tolerance = floor_micros(request.slot_tolerance).min(LONGEST_TOLERANCE);

        let not_after = NotAfter::new(&self.plans.clock, budget);
        call.tried(request, claim, &plan, values, not_after).await
    }

    pub(crate) async fn withdrawn(&self, request: &AttemptRequest) -> Result<bool> {
        let call = self.call();
        let released = request.owner.released();
        let mut values = self.values_of(&request.name, request.owner.as_str(), &released);
        values.end_of(request.slot);
        let plan = call.plan_of_lease().await?;
        call.cancel_hanging(request).await;
        let withdraw = match request.slot {
            Some(_) if plan.shape.is_complete => Step::Unlock(End::NotStarted),
            _ => Step::Withdraw,
        };
        if call.ended(withdraw, &values).await? == Changed::Done {
            return Ok(true);
        }
        if plan.statements.get(Step::Settle).is_none()
            || check_length(&request.name, &plan.shape).is_err()
        {
            return Ok(false);
        }
        if call.run(Step::Settle, &values).await?.affected > 0 {
            return Ok(false);
        }
        // The record exists. It is ours if a copy of the attempt was still in flight.
        Ok(call.ended(withdraw, &values).await? == Changed::Done)
    }
}

/// What the rounds of an attempt have found.
struct Rounds {
    /// The record does not exist.
    is_absent: bool,
    /// Statements failed because a record exists.
    exists: Vec<Failure>,
    /// A lease that was won cannot be told from another one.
    may_be_ours: bool,
    /// The record after each round.
    seen: Vec<Option<LockRecord>>,
}

impl<B: Driver> Call<'_, B> {
    async fn tried(
        &self,
        request: &AttemptRequest,
        claim: Claim,
        plan: &Plan,
        mut values: Values<'_>,
        mut not_after: NotAfter<'_>,
    ) -> Result<Attempt> {
        let mut rounds = ROUNDS;
        let mut state = State::Free;
        let mut exists = Vec::new();
        let mut may_be_ours = false;
        let mut seen = Vec::new();
        while rounds > 0 {
            let step = match state {
                State::Answered(answer) => return Ok(answer),
                State::Free => Step::Attempt(claim),
                State::Absent => Step::Insert(claim),
            };
            values.not_after = micros(not_after.instant());
            let reply = self.run(step, &values).await?;
            // A withdrawal may have moved the end of a free lock past the client's time that was sent.
            values.now = self.now();
            if reply.affected > 0 {
                match self.won(request, claim, plan, &values, &reply).await? {
                    Some(lease) => return Ok(Attempt::Acquired(lease)),
                    None => may_be_ours = true,
                }
            }
            exists.extend(reply.duplicate);
            let row = self.read(&values).await;
            let row = row.map_err(|error| if may_be_ours { unread(error) } else { error })?;
            state = State::of(request, &row, self.options.time.source().tolerated_skew())?;
            let server_time = row.server_time();
            let is_too_late = server_time.filter(|now| *now > values.not_after);
            if let (State::Free | State::Absent, Some(now)) = (&state, is_too_late) {
                not_after.refused(instant(now))?;
                continue;
            }
            rounds -= 1;
            seen.push(record(&row, &request.name).map(|mut record| {
                record.read_at = None;
                record
            }));
        }
        match state {
            State::Answered(answer) => Ok(answer),
            state => {
                let found = Rounds {
                    is_absent: matches!(state, State::Absent),
                    exists,
                    may_be_ours,
                    seen,
                };
                self.not_taken(found, &values).await
            }
        }
    }

    /// The answer to an attempt that found the lock free in each round and did not get it.
    async fn not_taken(&self, rounds: Rounds, values: &Values<'_>) -> Result<Attempt> {
        let Rounds {
            mut exists, seen, ..
        } = rounds;
        // A single rejection may be that of a record that was deleted before the read.
        let is_rejected = exists.len() > 1;
        match exists.pop() {
            // The record does not exist and cannot be created: another unique key is violated.
            Some(failure) if rounds.is_absent && is_rejected => Err(self.explained(failure, true)),
            _ if rounds.may_be_ours => Err(unread(unavailable(
                "the lock was free at each read but could not be taken",
            ))),
            // No one else has changed the record, and our writes have not.
            _ if seen.iter().all(|it| *it == seen[0]) => Err(self.why_not_taken(values).await),
            // The lock was free at each read and taken at each try.
            _ => Ok(Attempt::Skipped(Skip::new(SkipReason::Contended))),
        }
    }

    /// The lease that a statement has won. `None` if the reply has the number of another column in the token's place, so that
    /// only the record can tell.
    async fn won(
        &self,
        request: &AttemptRequest,
        claim: Claim,
        plan: &Plan,
        values: &Values<'_>,
        reply: &Reply,
    ) -> Result<Option<Lease>> {
        if plan.shape.is_complete && reply.token().is_none() {
            return Ok(None);
        }
        if claim == Claim::OpenSlot && reply.row().is_none() {
            // MySQL's reply has no room for the attempts at a slot. The record contains them.
            let row = self.read(values).await.map_err(unread)?;
            if row.owner.as_deref() == Some(values.owner) {
                return Ok(Some(lease(request, &row)));
            }
            // The lease has already ended, and another owner has the lock.
        } else {
            self.observe(plan, reply);
        }
        Ok(Some(granted(request, reply)))
    }

    /// Cancels what hangs in the server of this attempt: a claim that has taken effect and waits for a standby keeps the
    /// record locked, also against its withdrawal. Its connection is used no more, so it cannot win any more.
    async fn cancel_hanging(&self, request: &AttemptRequest) {
        let Some(sharing) = self.connections.sharing() else {
            return;
        };
        for session in sharing.hanging_of(request.owner.as_str()) {
            let Some(statement) = B::DIALECT.cancelling(&session) else {
                return;
            };
            let found = self.sent(&statement).await;
            let found = found
                .ok()
                .and_then(|reply| reply.rows.into_iter().next()?.name);
            match found.as_deref() {
                Some(CANCELLED) => tracing::warn!(
                    lock = request.name.as_str(),
                    "an attempt hung because its commit waited for a standby that does not confirm it \
                     (synchronous_standby_names); it is withdrawn: start the standby, or take its name out of the setting"
                ),
                Some(GONE) => {}
                _ => continue,
            }
            sharing.hangs_no_more(&session);
        }
    }

    /// The error for a lock that is free and cannot be taken, although no one else takes it.
    async fn why_not_taken(&self, values: &Values<'_>) -> Error {
        let asked = values.name;
        if let Some(statement) = B::DIALECT.finding_spelling(&self.options) {
            let found = self.send(&statement, values, Wanted::Any).await;
            let found = found
                .ok()
                .and_then(|reply| reply.rows.into_iter().next()?.name);
            if let Some(stored) = found {
                return names_are_equal(asked, &stored);
            }
        }
        let causes = (B::DIALECT.checks)(&self.options);
        for check in causes.iter().filter(|check| check.undoes_writes()) {
            let finding = self.checked(check).await;
            if finding.level == Level::Warning {
                let remedy = finding.remedy.unwrap_or_default();
                return configuration(format!(
                    "the lock is free, but taking it changes nothing: {}",
                    finding.message
                ))
                .advise(remedy);
            }
        }
        configuration(
            "the lock is free, but taking it changes nothing, and no one else takes it: row-level \
             security may hide its record, or a trigger or rule may undo the write",
        )
        .advise("check those of the table")
    }

    /// Observes the server's time, at which a granted lease starts unless the clients' clocks judge leases.
    fn observe(&self, plan: &Plan, reply: &Reply) {
        let is_clock = !self.options.time.is_client() && plan.shape.locked_at.unit() <= COARSE;
        let granted_at = reply.row().and_then(|row| row.locked_at);
        if let Some(now) = granted_at.filter(|_| is_clock) {
            self.plans.clock.observe(instant(now));
        }
    }
}

fn granted(request: &AttemptRequest, reply: &Reply) -> Lease {
    let row = reply.row().map(|row| lease(request, row));
    let lease = row.unwrap_or_else(|| Lease::granted(request));
    maybe(lease, reply.token(), Lease::with_fencing_token)
}
