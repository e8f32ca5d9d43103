//! Sending single statements: what is tried again at once, and what a failure means.

use std::ops::Deref;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use shedlock_core::{Error, ErrorKind};

use crate::deadline::Deadline;
use crate::dialect::Step;
use crate::driver::{Class, Driver, Failure, Wanted};
use crate::explain::explain;
use crate::plan::Plan;
use crate::statement::{Reply, Row, Values};
use crate::store::SqlStore;
use crate::verdict::instant;

/// How often a statement is sent again because another transaction was in the way. Nothing waits
/// in between: whoever was in the way has committed by then.
const COLLISIONS: usize = 10;

/// Why a statement gave no reply.
pub(crate) enum Stop {
    /// It failed, finally.
    Failure(Failure),
    /// It was not even sent.
    Error(Error),
}

/// One call of the provider: everything that it sends is bounded by one deadline.
pub(crate) struct Call<'a, B: Driver> {
    flow: &'a SqlStore<B>,
    deadline: Deadline<'a>,
}

impl<B: Driver> Deref for Call<'_, B> {
    type Target = SqlStore<B>;

    fn deref(&self) -> &SqlStore<B> {
        self.flow
    }
}

impl<B: Driver> SqlStore<B> {
    /// A call that begins now.
    pub(crate) fn call(&self) -> Call<'_, B> {
        self.call_of(self.options().timeout)
    }

    /// A call that begins now, made by someone who waits for this long.
    pub(crate) fn call_of(&self, patience: Duration) -> Call<'_, B> {
        let options = self.options();
        Call {
            flow: self,
            deadline: Deadline::new(&*options.clock, options.timeout, patience),
        }
    }

    pub(crate) fn error(&self, stop: Stop, step: Step) -> Error {
        match stop {
            Stop::Error(error) => error,
            Stop::Failure(failure) => explain::<B>(failure, self.options(), step.writes()),
        }
    }

    fn no_column(&self) -> Error {
        Error::new(
            ErrorKind::Unsupported,
            format!(
                "a slot was asked for, but table {} lacks columns for it: add them with `shedlock \
                 migrate --store …`",
                self.options().table
            ),
        )
    }
}

impl<B: Driver> Call<'_, B> {
    pub(crate) fn deadline(&self) -> &Deadline<'_> {
        &self.deadline
    }

    pub(crate) async fn plan(&self) -> Result<Arc<Plan>, Error> {
        let (connections, options) = (self.connections(), self.options());
        self.plans().get(connections, options, &self.deadline).await
    }

    /// Looks at the table now.
    pub(crate) async fn look(&self) -> Result<Arc<Plan>, Error> {
        let (connections, options) = (self.connections(), self.options());
        self.plans()
            .look(connections, options, &self.deadline)
            .await
    }

    /// The plan for a table that has the columns for this step.
    pub(crate) async fn plan_for(&self, step: Step) -> Result<Arc<Plan>, Error> {
        let plan = self.plan().await?;
        if step.is_possible(plan.shape.extras) {
            return Ok(plan);
        }
        // The table may have been migrated since; this call fails otherwise, so asking is fair.
        let plan = self.look().await?;
        if step.is_possible(plan.shape.extras) {
            return Ok(plan);
        }
        Err(self.no_column())
    }

    /// The record as the server has it that takes writes.
    pub(crate) async fn read(&self, values: &Values<'_>) -> Result<Row, Error> {
        let row = self.row(Step::ReadToDecide, values).await?;
        if let Some(server_time) = row.server_time() {
            self.plans().clock().observe(instant(server_time));
        }
        Ok(row)
    }

    /// Sends a statement of which a failure is an error.
    pub(crate) async fn reply(&self, step: Step, values: &Values<'_>) -> Result<Reply, Error> {
        let reply = self.run(step, values).await;
        reply.map_err(|stop| self.error(stop, step))
    }

    /// The row that a reading step gives.
    pub(crate) async fn row(&self, step: Step, values: &Values<'_>) -> Result<Row, Error> {
        let reply = self.reply(step, values).await?;
        reply.rows.into_iter().next().ok_or_else(|| {
            Error::new(
                ErrorKind::Internal,
                "the statement that always gives a row gave none",
            )
        })
    }

    /// Sends a statement: again at once where another transaction was in the way, once more on a
    /// proven connection where one broke, once more on a new one where a session no longer serves,
    /// and once more after a look at the table where that is no longer what it was.
    pub(crate) async fn run(&self, step: Step, values: &Values<'_>) -> Result<Reply, Stop> {
        let mut plan = self.plan().await.map_err(Stop::Error)?;
        let mut wanted = Wanted::Any;
        let mut collisions = 0;
        let mut looked = false;
        // Once a reply was lost the outcome is unknown whatever happens to the second try.
        let mut lost = None;
        loop {
            let failure = match self.send(step, values, &plan, wanted).await? {
                Ok(mut reply) => {
                    reply.repeated = lost.is_some();
                    return Ok(reply);
                }
                Err(failure) => failure,
            };
            match &failure.class {
                Class::Contention if collisions < COLLISIONS => collisions += 1,
                Class::ReplyLost if lost.is_none() => {
                    wanted = Wanted::Proven;
                    lost = Some(failure);
                }
                class if class.is_of_session() && failure.was_used && wanted != Wanted::New => {
                    wanted = Wanted::New;
                }
                class if class.may_be_of_table() && !looked => {
                    looked = true;
                    let now = match self.look().await {
                        Ok(now) => now,
                        Err(error) => return Err(lost.map_or(Stop::Error(error), Stop::Failure)),
                    };
                    // The table is as it was: the reason is another one.
                    if *class != Class::Shape && now.shape == plan.shape {
                        return Err(Stop::Failure(lost.unwrap_or(failure)));
                    }
                    plan = now;
                }
                _ => return Err(Stop::Failure(lost.unwrap_or(failure))),
            }
        }
    }

    async fn send(
        &self,
        step: Step,
        values: &Values<'_>,
        plan: &Plan,
        wanted: Wanted,
    ) -> Result<Result<Reply, Failure>, Stop> {
        let Some(statement) = plan.statements.get(step) else {
            return Err(Stop::Error(self.no_column()));
        };
        tracing::debug!(
            step = step.word(),
            lock = values.name,
            sql = statement.text(),
            "statement"
        );
        let mut held = match self.connections().acquire(wanted, &self.deadline).await {
            Ok(held) => held,
            Err(failure) => return Ok(Err(failure)),
        };
        let was_used = !held.is_new();
        let answer = {
            let run = B::run(&mut held, statement, values, self.options().prepared);
            self.deadline.answer(pin!(run)).await
        };
        let result = match answer {
            Some(Ok(reply)) => readable(step, reply),
            Some(Err(error)) => Err(B::running(error)),
            None => Err(Failure::silent()),
        };
        // A refusal is an answer too.
        let is_fit = |failure: &Failure| failure.class.spares_connection();
        if result.as_ref().err().is_none_or(is_fit) {
            held.finished();
        }
        Ok(result.map_err(|failure| Failure {
            was_used,
            ..failure
        }))
    }
}

/// A list goes on past records that cannot be read; where there is one record, it must be readable.
fn readable(step: Step, mut reply: Reply) -> Result<Reply, Failure> {
    match (step, reply.unreadable.pop()) {
        (_, None) => Ok(reply),
        (Step::List { .. }, Some(last)) => {
            reply.unreadable.push(last);
            Ok(reply)
        }
        (_, Some((_, error))) => Err(Failure::new(Class::Foreign, error)),
    }
}
