//! Sending single statements: what is tried again at once, and what a failure means.

use std::sync::Arc;

use shedlock_core::{Error, ErrorKind, LockName};

use crate::dialect::Step;
use crate::driver::{Backend, Class, Failure};
use crate::explain::explain;
use crate::flow::Flow;
use crate::plan::Plan;
use crate::statement::{Reply, Row, Values};
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

impl<B: Backend> Flow<B> {
    pub(crate) async fn plan(&self) -> Result<Arc<Plan>, Error> {
        self.plans().get(self.connections(), self.options()).await
    }

    /// The plan for a table that has the columns for this step.
    pub(crate) async fn plan_for(&self, step: Step) -> Result<Arc<Plan>, Error> {
        let plan = self.plan().await?;
        if step.is_possible(plan.shape.extras) {
            return Ok(plan);
        }
        // Somebody may have migrated the table since; this call fails otherwise, so asking is fair.
        let plan = self
            .plans()
            .look(self.connections(), self.options())
            .await?;
        if step.is_possible(plan.shape.extras) {
            return Ok(plan);
        }
        Err(self.no_column())
    }

    pub(crate) async fn read(&self, values: &Values<'_>) -> Result<Row, Error> {
        let reply = self
            .run(Step::Read, values)
            .await
            .map_err(|stop| self.error(stop, Step::Read))?;
        let row = reply.rows.into_iter().next().ok_or_else(|| {
            Error::new(
                ErrorKind::Internal,
                "the statement that always gives a row gave none",
            )
        })?;
        if let Some(server_time) = row.server_time() {
            self.plans().clock().observe(instant(server_time));
        }
        Ok(row)
    }

    /// Sends a statement: again at once where another transaction was in the way, once more on a
    /// proven connection where one broke, and once more after a look at the table where that is
    /// no longer what it was.
    pub(crate) async fn run(&self, step: Step, values: &Values<'_>) -> Result<Reply, Stop> {
        let mut plan = self.plan().await.map_err(Stop::Error)?;
        let mut collisions = 0;
        let mut looked = false;
        // Once a reply was lost the outcome is unknown whatever happens to the second try.
        let mut lost = None;
        loop {
            let failure = match self.send(step, values, &plan, lost.is_some()).await? {
                Ok(mut reply) => {
                    reply.repeated = lost.is_some();
                    return Ok(reply);
                }
                Err(failure) => failure,
            };
            match failure.class {
                Class::Contention if collisions < COLLISIONS => collisions += 1,
                Class::ReplyLost if lost.is_none() => lost = Some(failure),
                Class::Shape if !looked => {
                    looked = true;
                    let look = self.plans().look(self.connections(), self.options());
                    plan = look.await.map_err(Stop::Error)?;
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
        proven: bool,
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
        let mut held = match self.connections().acquire(proven).await {
            Ok(held) => held,
            Err(failure) => return Ok(Err(failure)),
        };
        let result = B::run(&mut held, statement, values, self.options().prepared).await;
        let result = result.map_err(Failure::running::<B>);
        // A refusal is an answer too; but after one that says the table has changed, whatever the
        // connection has prepared for the old table is of no use.
        let answered = match &result {
            Ok(_) => true,
            Err(failure) => !matches!(failure.class, Class::ReplyLost | Class::Shape),
        };
        if answered {
            held.finished();
        }
        Ok(result)
    }

    pub(crate) fn error(&self, stop: Stop, step: Step) -> Error {
        match stop {
            Stop::Error(error) => error,
            Stop::Failure(failure) => explain::<B>(failure, self.options(), step.writes()),
        }
    }

    pub(crate) fn name(&self, error: Error, lock: &LockName) -> Error {
        error.with_lock(lock.as_str()).with_store(B::STORE)
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
