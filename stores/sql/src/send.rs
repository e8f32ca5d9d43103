//! Sends single statements: what is retried at once, and what a failure means.

use shedlock_core::{Error, ErrorKind, Operation};
use shedlock_provider::{Result, internal};

use crate::call::{Call, Unusable};
use crate::dialect::Step;
use crate::driver::{Driver, Wanted};
use crate::failure::Class;
use crate::plan::Plan;
use crate::statement::{Reply, Row, Statement, Values};
use crate::verdict::instant;

impl<B: Driver> Call<'_, B> {
    /// The record, read from the server that accepts writes.
    pub(crate) async fn read(&self, values: &Values<'_>) -> Result<Row> {
        let row = self.row(Step::ReadToDecide, values).await?;
        if let Some(server_time) = row.server_time() {
            self.plans.clock.observe(instant(server_time));
        }
        Ok(row)
    }

    pub(crate) async fn row(&self, step: Step, values: &Values<'_>) -> Result<Row> {
        let row = self.run(step, values).await?.rows.pop();
        row.ok_or_else(|| internal("the statement returned no row"))
    }

    /// Sends a statement, and sends it again:
    ///
    /// - over another connection, if one cannot be used;
    /// - at once, after a conflict with another transaction: that one has committed. Eight serializable clients of one
    ///   record, on a busy machine, have made four conflicts in a row;
    /// - once, if its reply was lost, unless it claims a lock;
    /// - once, on a new connection, if the session is no longer usable;
    /// - once, after reading the table's shape again, if the table has changed;
    /// - once, after making space, if the disk is full and the statement creates no record.
    ///
    /// Nothing is repeated beyond the budget. A claim whose reply was lost may still be in transit. Only the runtime may send another copy
    /// of it, because it withdraws what the first one takes.
    pub(crate) async fn run(&self, step: Step, values: &Values<'_>) -> Result<Reply> {
        let explained = |failure| self.explained(failure, step.writes());
        let mut plan = self.plan().await?;
        let mut wanted = Wanted::Any;
        let mut unusable = Unusable::default();
        let mut looked = false;
        let mut can_make_space = !step.takes();
        // Once a reply is lost, the outcome is unknown whatever the second try returns.
        let mut lost = None;
        loop {
            let statement = self.statement(step, &plan)?;
            let (lock, sql) = (values.name, statement.text());
            tracing::debug!(step = step.word(), lock, sql, "statement");
            let answer = self
                .send_once(&self.connections, statement, values, wanted)
                .await;
            let answer = match step {
                // A listing continues past records that cannot be read.
                Step::List { .. } => answer,
                _ => answer.and_then(Reply::readable),
            };
            let failure = match answer {
                Ok(mut reply) => {
                    reply.repeated = lost.is_some();
                    return Ok(reply);
                }
                Err(failure) => failure,
            };
            let ends = !self.deadline.budget.allows_repeat();
            match &failure.class {
                Class::Held if step.takes() && lost.is_none() => return Ok(Reply::default()),
                Class::Duplicate if step.takes() && lost.is_none() => {
                    return Ok(Reply {
                        duplicate: Some(failure),
                        ..Reply::default()
                    });
                }
                _ if ends => return Err(explained(lost.unwrap_or(failure))),
                _ if self.takes_another(&failure, &mut unusable) => {}
                Class::Contention => {}
                Class::ReplyLost if lost.is_none() && !step.claims() => lost = Some(failure),
                class if class.is_of_session() && failure.was_used && wanted != Wanted::New => {
                    wanted = Wanted::New;
                }
                class if class.may_be_of_table() && !looked => {
                    looked = true;
                    let now = match self.look().await {
                        Ok(now) => now,
                        Err(error) => return Err(lost.map_or(error, explained)),
                    };
                    // The table has not changed, so the failure has another cause.
                    if *class != Class::Shape && now.shape == plan.shape {
                        return Err(explained(lost.unwrap_or(failure)));
                    }
                    plan = now;
                }
                Class::Full if can_make_space => {
                    can_make_space = false;
                    if !self.make_space().await {
                        return Err(explained(lost.unwrap_or(failure)));
                    }
                }
                _ => return Err(explained(lost.unwrap_or(failure))),
            }
        }
    }

    /// Makes space for what changes an existing record. Returns false if the database cannot.
    pub(crate) async fn make_space(&self) -> bool {
        let Some(statement) = B::DIALECT.makes_space else {
            return false;
        };
        let (statement, values) = (Statement::plain(statement), Values::default());
        self.send(&statement, &values, Wanted::Any).await.is_ok()
    }

    /// The statement for a step.
    ///
    /// # Errors
    /// `Unsupported` for slots in a table without the columns for them.
    pub(crate) fn statement<'p>(&self, step: Step, plan: &'p Plan) -> Result<&'p Statement> {
        plan.statements.get(step).ok_or_else(|| {
            let what = format!("slots need columns that table {} lacks", self.options.table);
            Error::new(ErrorKind::Unsupported, what).advise(("add them with", Operation::Migrate))
        })
    }
}
